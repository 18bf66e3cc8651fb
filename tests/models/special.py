"""Functions that are series, and their values in float64, for tests/compiler/test_accuracy.py: special.py FOLDER"""

import sys

import numpy as np
import tensorflow as tf

# Limits of each operand; orders of polygamma are whole.
FUNCTIONS = {
    "bessel_i0e": (tf.math.bessel_i0e, [(-1e4, 1e4)]),
    "bessel_i1e": (tf.math.bessel_i1e, [(-1e4, 1e4)]),
    "betainc": (tf.math.betainc, [(0.1, 200.0), (0.1, 200.0), (1e-3, 0.999)]),
    "igamma": (tf.math.igamma, [(1e-3, 1e3), (1e-3, 1e3)]),
    "igammac": (tf.math.igammac, [(1e-3, 1e3), (1e-3, 1e3)]),
    "polygamma": (tf.math.polygamma, [(0.0, 20.0), (1e-2, 1e3)]),
    "zeta": (tf.math.zeta, [(1.001, 50.0), (1e-2, 1e3)]),
}
ROWS = 500


def drawn(random, name, low, high):
    """As many numbers near zero as far from it."""
    size = np.exp(random.uniform(np.log(max(low, 1e-3)), np.log(high), (ROWS, 64)))
    if name == "polygamma" and low == 0.0:
        return np.floor(size).astype(np.float32)
    return (size * random.choice([-1, 1], size.shape) if low < 0 else size).astype(np.float32)


class Special(tf.Module):
    def __init__(self, names):
        super().__init__()
        self.call = tf.function(self._call, [{name: tf.TensorSpec([None, 64], tf.float32, name) for name in names}])

    def _call(self, x):
        return {
            name: function(*(x[f"{name}_{i}"] for i in range(len(limits))))
            for name, (function, limits) in FUNCTIONS.items()
        }


def main() -> None:
    random = np.random.default_rng(9)
    given = {
        f"{name}_{i}": drawn(random, name, *limit)
        for name, (_, limits) in FUNCTIONS.items()
        for i, limit in enumerate(limits)
    }
    exact = {
        name: function(*(tf.constant(given[f"{name}_{i}"], tf.float64) for i in range(len(limits)))).numpy()
        for name, (function, limits) in FUNCTIONS.items()
    }
    module = Special(given)
    tf.saved_model.save(
        module, f"{sys.argv[1]}/special", signatures={"serving_default": module.call.get_concrete_function()}
    )
    np.savez(f"{sys.argv[1]}/inputs.npz", **given)
    np.savez(f"{sys.argv[1]}/exact.npz", **exact)


if __name__ == "__main__":
    main()
