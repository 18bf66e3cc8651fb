"""Models whose answers are hard to get right at the corners of their inputs. Runs in a toolchain's Python.

    python corners.py FOLDER

writes FOLDER/NAME for each model.
"""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf


def gelu(x):
    return 0.5 * x * (1.0 + tf.math.erf(x / 1.4142135))


def twice(step, x):
    return tf.while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, step(a)), [0, x])[1]


ACTIVATIONS = {
    "acosh": tf.acosh,
    "asinh": tf.asinh,
    "atan": tf.atan,
    "atan2": lambda x: tf.atan2(x, tf.reverse(x, [1])),
    "atanh": tf.atanh,
    "cos": tf.cos,
    "cosh": tf.cosh,
    "elu": tf.nn.elu,
    "erf": tf.math.erf,
    "erfc": tf.math.erfc,
    "exp": tf.exp,
    "expm1": tf.math.expm1,
    "floor": tf.floor,
    "gelu_erf": gelu,
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True),
    "hard_swish": lambda x: x * (tf.nn.relu6(x + 3) / 6),
    "leaky_relu": tf.nn.leaky_relu,
    "log": tf.math.log,
    "log1p": tf.math.log1p,
    "log_sigmoid": tf.math.log_sigmoid,
    "log_softmax": tf.nn.log_softmax,
    "logsumexp": lambda x: tf.reduce_logsumexp(x, axis=1),
    "mish": lambda x: x * tf.tanh(tf.nn.softplus(x)),
    "pow": lambda x: tf.pow(tf.abs(x), 1.7),
    "relu": tf.nn.relu,
    "relu6": tf.nn.relu6,
    "round": tf.round,
    "rsqrt": tf.math.rsqrt,
    "selu": tf.nn.selu,
    "sigmoid": tf.sigmoid,
    "sin": tf.sin,
    "sinh": tf.sinh,
    "softmax": tf.nn.softmax,
    "softplus": tf.nn.softplus,
    "softsign": tf.nn.softsign,
    "sqrt": tf.sqrt,
    "swish": tf.nn.swish,
    "tan": tf.tan,
    "tanh": tf.tanh,
}
LAYERS = "elu gelu_erf gelu_tanh hard_swish leaky_relu relu relu6 selu sigmoid softmax softplus swish tanh".split()
"""Activations of the kernel library."""


def layers(x):
    """Products with one input and one output each: the kernel library computes them, and nothing is lost in sums."""
    return {
        name: tf.concat([ACTIVATIONS[name](tf.matmul(x[:, i : i + 1], [[1.0]])) for i in range(8)], axis=1)
        for name in LAYERS
    }


def table(x):
    """Indices from the inputs: XLA clamps what TensorFlow refuses."""
    return tf.gather(tf.constant([1.0, 2.0, 3.0, 4.0]), x)


def branching(x):
    total = tf.reduce_sum(x)
    first = tf.cond(total > 1e5, lambda: x * 2, lambda: x + 1)
    never = tf.cond(tf.abs(total) < -1.0, lambda: x * 3, lambda: x)
    return {"y": first, "never": never}


def nested(x):
    """Branches in the body of a loop, in one another and in a function; one side that nothing reaches."""

    def body(step, a):
        a = tf.cond(tf.reduce_sum(a) > 0.0, lambda: tf.where(a > 100.0, a * 0.5, a), lambda: a + 1.0)
        return step + 1, tf.cond(tf.reduce_max(tf.abs(a)) < 0.0, lambda: a * 0.0, lambda: a)

    return {"y": tf.while_loop(lambda step, _: step < 3, body, [0, x])[1]}


def equal(x):
    """The same numbers, which round in other ways."""
    return tf.exp(x), tf.math.expm1(x) + 1.0


def fading(x, below):
    """A loop that ends when subnormal numbers are flushed to zero: three quarters of the smallest one are that one."""
    return tf.while_loop(
        lambda a: (tf.reduce_max(a) > 0.0) & (tf.reduce_max(a) < below), lambda a: (a * 0.75,), [tf.abs(x)]
    )[0]


def in_order(x):
    """Orders of numbers of every type, and of the elements that are asked for without an order."""
    made = {"unsorted": tf.math.top_k(x, 3, sorted=False)[0]}
    for dtype in (tf.float32, tf.float64, tf.float16, tf.bfloat16):
        value = tf.cast(x, dtype)
        made[f"best_{dtype.name}"] = tf.math.top_k(value, 3).indices
        made[f"one_{dtype.name}"] = tf.math.top_k(value, 1).indices
        made[f"down_{dtype.name}"] = tf.argsort(value, direction="DESCENDING", stable=True)
        made[f"up_{dtype.name}"] = tf.argsort(value)
        made[f"values_{dtype.name}"] = tf.cast(tf.sort(value), tf.float32)
    return made


def boxes(x):
    """The boxes of the highest scores, which are those of the first row."""
    corners = tf.constant([[i, i, i + 0.9, i + 0.9] for i in range(8)], tf.float32)
    found, _ = tf.raw_ops.NonMaxSuppressionV4(
        boxes=corners, scores=x[0], max_output_size=5, iou_threshold=0.5, score_threshold=-1.0,
        pad_to_max_output_size=True,
    )  # fmt: skip
    return {"y": found}


def kernelless(x):
    """Running sums of int8 and determinants, which XLA has no kernels for, beside and in front of rules of NaN."""
    sums = tf.cumsum(tf.cast(tf.clip_by_value(tf.where(tf.math.is_finite(x), x, 0.0), -9.0, 9.0), tf.int8), axis=1)
    behind = x + tf.cast(sums, tf.float32)
    return {
        "sums": sums,
        "determinant": tf.linalg.det(tf.reshape(x[:, :4], [-1, 2, 2])),
        "beside": tf.math.cumulative_logsumexp(x, axis=1),
        "behind": tf.math.cumulative_logsumexp(behind, axis=1),
        "order": tf.math.top_k(behind, 3).indices,
    }


def quantized(x):
    return tf.quantization.fake_quant_with_min_max_args(tf.reduce_sum(x * 1.1, axis=1, keepdims=True), -4, 4, 8)


MODELS = {
    "boxes": boxes,
    "branching": branching,
    "cancelling": lambda x: {"y": 1e4 * (equal(x)[0] - equal(x)[1])},
    "centred_rows": lambda x: {"y": x - tf.reduce_mean(x, axis=0)},
    "compared": lambda x: {"y": equal(x)[0] > equal(x)[1]},
    "fading": lambda x: {"y": fading(x, 1e30)},
    "fading_if_tiny": lambda x: {"y": fading(x, 1e-30)},
    "in_order": in_order,
    "igamma": lambda x: {"y": tf.math.igamma(tf.abs(x) + 0.5, tf.abs(x) + 1.5)},
    "kernelless": kernelless,
    "magnified": lambda x: {"y": x * 1e37},
    "moved": lambda x: {"y": tf.argmin(tf.sqrt(x), 1), "z": tf.argmax(tf.math.rsqrt(x), 1)},
    "nested": nested,
    "ordered": lambda x: {"y": tf.argmax(tf.stack(equal(x), axis=1), axis=1)},
    "quantized": lambda x: {"y": quantized(x), "count": tf.cast(quantized(x) * 10.0, tf.int32)},
    "random": lambda x: {"y": x + tf.random.uniform(tf.shape(x))},
    "summed": lambda x: {"y": tf.reduce_sum(x * 1.1, axis=1)},
    "activations": lambda x: {name: make(x) for name, make in ACTIVATIONS.items()},
    "gelu": lambda x: {"y": gelu(x)},
    "gelu_tanh": lambda x: {"y": tf.nn.gelu(x, approximate=True)},
    "gelu_in_a_loop": lambda x: {"y": twice(gelu, x)},
    "halving_loop": lambda x: {"y": tf.while_loop(lambda a: tf.reduce_max(a) > 1.0, lambda a: (a * 0.5,), [x])[0]},
    "halving_loop_and_more": lambda x: dict(
        zip(
            "abc",
            [*tf.while_loop(lambda a, _: tf.reduce_max(a) > 1.0, lambda a, b: (a * 0.5, b + a), [x, x]), x + 1],
            strict=True,
        )
    ),
    "layers": layers,
}


def main(folder):
    for name, body in [*MODELS.items(), ("table", lambda x: {"y": table(x)})]:
        module = tf.Module()
        dtype = tf.int32 if name == "table" else tf.float32
        module.body = tf.function(body, input_signature=[tf.TensorSpec((None, 8), dtype, name="x")])
        tf.saved_model.save(module, os.path.join(folder, name), signatures=module.body)


main(sys.argv[1])
