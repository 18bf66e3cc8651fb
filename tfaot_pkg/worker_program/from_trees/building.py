"""Write the SavedModel of decision trees: the trees as a call of ours, then operations on their sums."""

import numpy as np
import own_calls
import tensorflow as tf
from from_trees import fitted
from messages.requests import Nothing
from messages.sources import BuildTrees


def build(request: BuildTrees, report) -> Nothing:
    """Write the SavedModel, with one signature, `serving_default`."""
    module = tf.Module()
    module.serve = function_of(fitted.read(request.parts))
    tf.saved_model.save(module, request.out, signatures=module.serve)
    return Nothing()


def function_of(model: fitted.Fitted):
    """The model as a function of x, which returns its results by name."""
    forest = model.forest

    @tf.function(input_signature=[tf.TensorSpec((None, forest.features), model.input, name="x")], autograph=False)
    def serve(x):
        if model.encoder is not None:
            is_category = np.zeros(forest.features, bool)
            is_category[model.encoder.target] = True
            x = tf.where(is_category, own_calls.trees(model.encoder, x), x)
        x = tf.cast(x, forest.dtype)
        if model.missing is not None:
            x = tf.where(x == tf.constant(model.missing, x.dtype), tf.constant(np.nan, x.dtype), x)
        made = sums = own_calls.trees(forest, x)
        for name, number in model.links:
            made = _LINKS[name](made, tf.constant(number, made.dtype))
        made = tf.cast(made, model.dtype)
        margin = {model.margin: sums} if model.margin else {}
        return {model.output: made[:, 0] if model.is_flat else made, **margin}

    return serve


def _sigmoid_of_second(sums, scale):
    """Probabilities of two classes."""
    second = tf.sigmoid(sums * scale if tf.get_static_value(scale) != 1 else sums)
    return tf.concat([1 - second, second], -1)


def divided(sums, number):
    """`sums / number`, rounded once: TensorFlow's optimizer would replace it by a product with the reciprocal."""
    return tf.math.divide_no_nan(sums, number)


def _difference(sums, scale):
    """For votes for two classes, the difference of their sums, once with each sign."""
    more = sums[:, 1:] - sums[:, :1]
    return divided(tf.concat([-more, more], -1), scale)


_LINKS = {
    "divide": divided,
    "multiply": lambda sums, number: sums * number,
    "add": lambda sums, number: sums + number,
    "exp": lambda sums, _: tf.exp(sums),
    "sigmoid": lambda sums, _: tf.sigmoid(sums),
    "softmax": lambda sums, _: tf.nn.softmax(sums),
    # In LightGBM's form, which overflows where tf.nn.softplus does not.
    "softplus": lambda sums, _: tf.math.log1p(tf.exp(sums)),
    "square with sign": lambda sums, _: tf.sign(sums) * sums * sums,
    "above zero": lambda sums, _: tf.cast(sums > 0, sums.dtype),
    "largest": lambda sums, _: tf.cast(tf.argmax(sums, -1)[:, None], sums.dtype),
    "sigmoid of second": _sigmoid_of_second,
    "difference": _difference,
    # TMVA's MethodBDT::GetGradBoostMVA
    "gradient boost": lambda sums, _: 2 / (1 + tf.exp(-2 * sums)) - 1,
}
