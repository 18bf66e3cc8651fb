"""One function for each input, of which tests/compiler/test_accuracy.py measures the errors: accuracy.py FOLDER"""

import sys

import tensorflow as tf

FUNCTIONS = {
    "acos": tf.acos, "acosh": tf.acosh, "asin": tf.asin, "asinh": tf.asinh, "atan": tf.atan, "atanh": tf.atanh,
    "cos": tf.cos, "cosh": tf.cosh,
    "digamma": tf.math.digamma, "elu": tf.nn.elu, "erf": tf.math.erf, "erfc": tf.math.erfc,
    "erfinv": tf.math.erfinv, "ndtri": tf.math.ndtri,
    "exp": tf.exp, "expm1": tf.math.expm1, "gelu": tf.nn.gelu,
    "gelu_tanh": lambda x: tf.nn.gelu(x, approximate=True), "lgamma": tf.math.lgamma, "log": tf.math.log,
    "log1p": tf.math.log1p, "log_sigmoid": tf.math.log_sigmoid, "reciprocal": tf.math.reciprocal,
    "rsqrt": tf.math.rsqrt, "selu": tf.nn.selu, "sigmoid": tf.sigmoid, "sin": tf.sin, "sinh": tf.sinh,
    "mish": lambda x: x * tf.math.tanh(tf.math.softplus(x)),
    "softplus": tf.math.softplus, "softsign": tf.nn.softsign, "sqrt": tf.sqrt, "swish": tf.nn.silu, "tan": tf.tan,
    "tanh": tf.tanh,
    "erfcinv": tf.math.erfcinv, "exp2": lambda x: tf.pow(2.0, x), "gaussian": lambda x: tf.exp(-x * x),
    "hard_swish": lambda x: x * tf.nn.relu6(x + 3.0) / 6.0, "log10": lambda x: tf.math.log(x) / tf.math.log(10.0),
    "log2": lambda x: tf.math.log(x) / tf.math.log(2.0), "quick_gelu": lambda x: x * tf.sigmoid(1.702 * x),
}  # fmt: skip
PAIRS = {"atan2": tf.atan2, "divide": tf.divide, "pow": tf.pow, "xlog1py": tf.math.xlog1py, "xlogy": tf.math.xlogy}


def spec(name):
    return tf.TensorSpec([None, 64], tf.float32, name=name)


class Functions(tf.Module):
    @tf.function(input_signature=[{name: spec(f"in_{name}") for name in [*FUNCTIONS, *PAIRS]}, spec("second")])
    def __call__(self, x, second):
        ones = {name: function(x[name]) for name, function in FUNCTIONS.items()}
        return ones | {name: function(x[name], second) for name, function in PAIRS.items()}


def main() -> None:
    module = Functions()
    concrete = module.__call__.get_concrete_function()
    tf.saved_model.save(module, f"{sys.argv[1]}/accuracy", signatures={"serving_default": concrete})


if __name__ == "__main__":
    main()
