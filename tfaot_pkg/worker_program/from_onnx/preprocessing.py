"""What ai.onnx.ml has before and behind classifiers."""

import numpy as np
import tensorflow as tf
from from_onnx.products import matmul
from from_onnx.table import operator

_ML = "ai.onnx.ml"


@operator("Scaler", domain=_ML)
def _scaler(node, x):
    offset, scale = (
        np.array(node.get(name, default), np.float32) for name, default in (("offset", [0.0]), ("scale", [1.0]))
    )
    return (tf.cast(x, tf.float32) - offset) * scale


@operator("Normalizer", domain=_ML)
def _normalizer(node, x):
    x = tf.cast(x, tf.float32)
    norms = {
        "MAX": lambda: tf.reduce_max(tf.abs(x), -1, True),
        "L1": lambda: tf.reduce_sum(tf.abs(x), -1, True),
        "L2": lambda: tf.sqrt(tf.reduce_sum(tf.square(x), -1, True)),
    }
    kind = node.get("norm", "MAX")
    if kind not in norms:
        raise node.fault(f"the norm {kind!r} is not read")
    return tf.math.divide_no_nan(x, norms[kind]())


@operator("Binarizer", domain=_ML)
def _binarizer(node, x):
    return tf.cast(x > tf.constant(node.get("threshold", 0.0), x.dtype), x.dtype)


@operator("Imputer", domain=_ML)
def _imputer(node, x):
    floats = node.get("imputed_value_floats")
    values = np.array(floats or node.get("imputed_value_int64s"), x.dtype.as_numpy_dtype)
    missing = node.get("replaced_value_float", 0.0) if floats else node.get("replaced_value_int64", 0)
    found = tf.math.is_nan(x) if missing != missing else x == tf.constant(missing, x.dtype)  # noqa: PLR0124 (a NaN)
    return tf.where(found, values, x)


@operator("FeatureVectorizer", domain=_ML)
def _feature_vectorizer(node, *inputs):
    return tf.concat([tf.cast(each, tf.float32) for each in inputs], -1)


@operator("ArrayFeatureExtractor", domain=_ML)
def _array_feature_extractor(node, x, places):
    return tf.gather(x, tf.reshape(places, [-1]), axis=-1)


@operator("LinearRegressor", domain=_ML)
def _linear_regressor(node, x):
    made = _linear(node, x, node.get("targets", 1))
    return _finished(node, made)


@operator("LinearClassifier", domain=_ML)
def _linear_classifier(node, x):
    labels = node.get("classlabels_ints")
    if not labels:
        raise node.fault("its labels are texts, which libraries do not have", "train with numbers as labels")
    rows = len(node.get("coefficients")) // x.shape[-1]
    scores = _linear(node, x, rows)
    if rows == 1:
        second = _finished(node, scores)
        kind = node.get("post_transform", "NONE")
        first = 1 - second if kind in ("LOGISTIC", "SOFTMAX") else -second
        made = tf.concat([first, second], -1)
        place = tf.cast(scores[:, 0] > 0, tf.int32)
    else:
        made, place = _finished(node, scores), tf.argmax(scores, -1, tf.int32)
    return tf.gather(tf.constant(labels, tf.int64), place), made


def _linear(node, x, rows: int):
    weights = np.array(node.get("coefficients"), np.float32).reshape(rows, -1).T
    made = matmul(node, tf.cast(x, tf.float32), tf.constant(weights))
    offsets = node.get("intercepts")
    return made + np.array(offsets, np.float32) if offsets else made


def _finished(node, scores):
    kind = node.get("post_transform", "NONE")
    functions = {"NONE": tf.identity, "LOGISTIC": tf.sigmoid, "SOFTMAX": tf.nn.softmax}
    if kind not in functions:
        raise node.fault(f"the transformation {kind!r} is not read")
    return functions[kind](scores)
