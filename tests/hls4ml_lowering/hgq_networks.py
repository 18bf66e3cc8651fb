"""How the files hgq_*.fml of artifacts/ came to be: HGQ2 0.2.0, Keras 3.15 with JAX 0.10, and hls4ml 1.3.0.

    PYTHON hgq_networks.py FOLDER

No test runs it, since none of these packages is there. Weights are those that Keras draws, biases and the bits of
single numbers are drawn from NumPy's random numbers, as training would choose them.
"""

import os
import sys

os.environ["KERAS_BACKEND"] = "jax"

import hgq
import hls4ml
import keras
import numpy as np
from hgq.config import QuantizerConfigScope
from hgq.layers import QDense
from hls4ml.utils.serialization import serialize_model


def dense():
    x = given = keras.Input((16,), name="x")
    for width in (32, 16):
        x = QDense(width, activation="relu")(x)
    return keras.Model(given, QDense(5)(x))


def write(model, file):
    random = np.random.default_rng(0)
    for each in model.weights:
        if each.name == "bias":
            each.assign(random.normal(size=each.shape) * 0.3)
        elif each.name in ("f", "b") and np.size(each) > 1:
            each.assign(np.asarray(each) + random.integers(-2, 2, each.shape))
    rows = np.random.default_rng(2).normal(size=(256, *model.input_shape[1:])).astype("f4") * 2
    hgq.utils.trace_minmax(model, rows, batch_size=256, verbose=0)
    config = {"Model": {"Precision": "fixed<16,6>", "ReuseFactor": 1, "Strategy": "latency"}}
    graph = hls4ml.converters.convert_from_keras_model(model, hls_config=config, backend="Vitis")
    for layer in graph.get_layers():
        # What hls4ml 1.3.0 cannot write.
        attributes = layer.attributes.attributes
        attributes.pop("to_original_kernel", None)
        if "mask_kbi" in attributes:
            attributes["mask_kbi"] = np.stack(np.broadcast_arrays(*attributes["mask_kbi"]))
    serialize_model(graph, file)


def main():
    keras.utils.set_random_seed(1)
    with (
        QuantizerConfigScope(place="all", default_q_type="kbi", overflow_mode="SAT_SYM"),
        QuantizerConfigScope(place="datalane", default_q_type="kif", overflow_mode="WRAP"),
    ):
        write(dense(), os.path.join(sys.argv[1], "hgq_dense.fml"))


if __name__ == "__main__":
    main()
