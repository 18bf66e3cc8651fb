"""Operators of ai.onnx.ml that prepare inputs, and linear models and support vector machines."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.products import matmul
from from_onnx.table import ML, operator
from from_onnx.tensors import rank, reshaped, sizes

if TYPE_CHECKING:
    from from_onnx.table import Node


@operator("Scaler", domain=ML)
def _scaler(node: Node, x: tf.Tensor) -> tf.Tensor:
    offset, scale = (
        np.array(node.get(name, default), np.float32) for name, default in (("offset", [0.0]), ("scale", [1.0]))
    )
    return (tf.cast(x, tf.float32) - offset) * scale


@operator("Normalizer", domain=ML)
def _normalizer(node: Node, x: tf.Tensor) -> tf.Tensor:
    x = tf.cast(x, tf.float32)
    norms = {
        # As in ONNX Runtime: the largest number, not the largest absolute value, and NaN does not count.
        "MAX": lambda: tf.reduce_max(tf.where(tf.math.is_nan(x), -np.inf, x), -1, True),
        "L1": lambda: tf.reduce_sum(tf.abs(x), -1, True),
        "L2": lambda: tf.sqrt(tf.reduce_sum(tf.square(x), -1, True)),
    }
    kind = node.get("norm", "MAX")
    if kind not in norms:
        raise node.fault(f"the norm {kind!r} is not supported")
    norm = norms[kind]()
    return tf.where(norm == 0, x, x / norm)


@operator("Binarizer", domain=ML)
def _binarizer(node: Node, x: tf.Tensor) -> tf.Tensor:
    return tf.cast(x > tf.constant(node.get("threshold", 0.0), x.dtype), x.dtype)


@operator("Imputer", domain=ML)
def _imputer(node: Node, x: tf.Tensor) -> tf.Tensor:
    floats = node.get("imputed_value_floats")
    values = np.array(floats or node.get("imputed_value_int64s"), x.dtype.as_numpy_dtype)
    missing = node.get("replaced_value_float", 0.0) if floats else node.get("replaced_value_int64", 0)
    found = tf.math.is_nan(x) if missing != missing else x == tf.constant(missing, x.dtype)  # noqa: PLR0124 (a NaN)
    return tf.where(found, values, x)


@operator("FeatureVectorizer", domain=ML)
def _feature_vectorizer(node: Node, *inputs: tf.Tensor) -> tf.Tensor:
    flat = [reshaped(each, [sizes(each)[0], -1]) if rank(node, each) != 2 else each for each in inputs]
    return tf.concat([tf.cast(each, tf.float32) for each in flat], -1)


@operator("ArrayFeatureExtractor", domain=ML)
def _array_feature_extractor(node: Node, x: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """A vector counts as one row, as in ONNX Runtime."""
    return tf.gather(x if x.shape.rank != 1 else x[tf.newaxis], tf.reshape(places, [-1]), axis=-1)


@operator("LabelEncoder", domain=ML)
def _label_encoder(node: Node, x: tf.Tensor) -> tf.Tensor:
    """Numbers for numbers: the value of the key that each element equals."""
    keys, values = (_numbers(node, name) for name in ("keys", "values"))
    if keys is None or values is None or "U" in (keys.dtype.kind, values.dtype.kind) or node.version < 2:
        raise node.fault("its keys or values are strings", "encode strings as numbers before the model")
    rest = node.get("default_tensor")
    if rest is None:
        # The defaults of the standard, -0.0 included.
        rest = node.get("default_float", -0.0) if values.dtype.kind == "f" else node.get("default_int64", -1)
    # A select for each key: labels are few, and a table would need keys that are small integers.
    made = tf.fill(tf.shape(x), tf.constant(np.reshape(rest, ()), values.dtype))
    # Of equal keys the first one counts.
    for key, value in zip(np.ravel(keys)[::-1], np.ravel(values)[::-1], strict=True):
        found = tf.math.is_nan(x) if keys.dtype.kind == "f" and np.isnan(key) else x == tf.constant(key, x.dtype)
        made = tf.where(found, tf.constant(value, values.dtype), made)
    return made


def _numbers(node: Node, name: str) -> tf.Tensor:
    for kind, dtype in (("floats", np.float32), ("int64s", np.int64)):
        if node.get(f"{name}_{kind}"):
            return np.array(node.get(f"{name}_{kind}"), dtype)
    return node.get(f"{name}_tensor")


@operator("OneHotEncoder", domain=ML)
def _one_hot_encoder(node: Node, x: tf.Tensor) -> tf.Tensor:
    known = node.get("cats_int64s")
    if not known:
        raise node.fault("its categories are strings", "encode strings as numbers before the model")
    made = tf.cast(x, tf.int64)[..., None] == tf.constant(known, tf.int64)
    if not node.get("zeros", 1):
        raise node.fault("it fails for values that are no category (zeros=0)", "set zeros to 1")
    return tf.cast(made, tf.float32)


@operator("SVMRegressor", domain=ML)
def _svm_regressor(node: Node, x: tf.Tensor) -> tf.Tensor:
    x, factors = tf.cast(x, tf.float32), np.array(node.get("coefficients"), np.float32)
    if node.get("n_supports", 0):
        vectors = np.array(node.get("support_vectors"), np.float32).reshape(-1, x.shape[-1])
        made = matmul(node, _kernel(node, x, vectors), tf.constant(factors[:, None]))
    else:
        made = _kernel(node, x, factors[None])
    made = made + tf.constant(node.get("rho", [0.0])[0], tf.float32)
    if node.get("one_class", 0):
        made = tf.where(made > 0, tf.ones_like(made), -tf.ones_like(made))
    return _finished(node, made)


@operator("SVMClassifier", domain=ML)
def _svm_classifier(node: Node, x: tf.Tensor) -> Any:
    """One machine for each pair of classes. The label is the class of most votes, the first one of equals.

    The scores are those of the machines, or probabilities if the file has Platt's factors (`prob_a`, `prob_b`).
    """
    labels, counts, x = _labels(node), node.get("vectors_per_class"), tf.cast(x, tf.float32)
    if len(labels) < 2:
        raise node.fault("it has a single class", "train with two classes or more")
    if not counts:
        return _linear_machines(node, x, labels)
    classes = len(counts)
    vectors = np.array(node.get("support_vectors"), np.float32).reshape(sum(counts), -1)
    factors = np.array(node.get("coefficients"), np.float32).reshape(classes - 1, -1)
    pairs, owners, nothing = list(combinations(range(classes), 2)), np.repeat(np.arange(classes), counts), np.float32(0)
    weights = [
        np.where(owners == i, factors[j - 1], nothing) + np.where(owners == j, factors[i], nothing) for i, j in pairs
    ]
    scores = matmul(node, _kernel(node, x, vectors), tf.constant(np.stack(weights, 1)))
    scores = scores + np.array(node.get("rho"), np.float32)
    first, second = np.eye(classes, dtype=np.float32)[np.transpose(pairs)]
    votes = tf.reduce_sum(tf.where(scores[..., None] > 0, first, second), 1)
    label = tf.gather(tf.constant(labels, tf.int64), tf.argmax(votes, -1, tf.int32))
    if node.get("prob_a"):
        scores = _probabilities(node, scores, pairs, classes)
    elif classes == 2:
        if node.get("post_transform", "NONE").startswith("SOFTMAX"):
            # ONNX Runtime takes no softmax of a single score.
            return label, tf.concat([1 - scores, scores], -1)
        scores = tf.concat([-scores, scores], -1)
    return label, _finished(node, scores)


def _linear_machines(node: Node, x: tf.Tensor, labels: list[int]) -> tuple[tf.Tensor, tf.Tensor]:
    """The machines of liblinear: a score for each class, with one offset for all."""
    weights = np.array(node.get("coefficients"), np.float32).reshape(len(labels), -1)
    scores = matmul(node, x, tf.constant(np.ascontiguousarray(weights.T))) + np.float32(node.get("rho")[0])
    place = tf.argmax(scores, -1, tf.int32)
    if len(labels) == 2 and not node.get("prob_a"):
        # ONNX Runtime: of two classes the second one, if any score is high.
        most = tf.reduce_max(scores, -1)
        place = tf.where(most >= 0.5 if (weights >= 0).all() else most > 0, 1, place)
    return tf.gather(tf.constant(labels, tf.int64), place), _finished(node, scores)


def _probabilities(node: Node, scores: tf.Tensor, pairs: tf.Tensor, classes: int) -> tf.Tensor:
    """[rows, classes]: probabilities of classes from those of pairs.

    Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling" (2004), algorithm 2,
    with the limits of libsvm and ONNX Runtime, which stop before the numbers are exact.
    """
    inner = scores * np.array(node.get("prob_a"), np.float32) + np.array(node.get("prob_b"), np.float32)
    # libsvm's min_prob.
    each = tf.clip_by_value(tf.sigmoid(-inner), 1e-7, 1 - 1e-7)
    # Columns of `known`, by pairs of classes: r[i, j], then r[j, i] = 1 - r[i, j], last a zero for the diagonal.
    places = np.full((classes, classes), 2 * len(pairs))
    for place, (i, j) in enumerate(pairs):
        places[i, j], places[j, i] = place, len(pairs) + place
    known = tf.concat([each, 1 - each, tf.zeros_like(each[:, :1])], -1)
    r = tf.reshape(tf.gather(known, places.ravel(), axis=-1), [-1, classes, classes])
    squares = tf.reduce_sum(tf.square(r), 1)[..., None] * np.eye(classes, dtype=np.float32)
    q = squares - r * tf.transpose(r, [0, 2, 1])

    def updated(step: tf.Tensor, p: tf.Tensor, qp: tf.Tensor, going: tf.Tensor) -> tuple[Any, ...]:
        """One class's probability is set so that its equation holds, then all are scaled to a sum of 1."""
        now = step % classes
        total = tf.reduce_sum(p * qp, -1, keepdims=True)
        # A row with NaN has settled: all keep the same probability.
        open_ = tf.reduce_any(tf.abs(qp - total) >= np.float32(0.005 / classes), -1, keepdims=True)
        going = going & ((now > 0) | open_)
        chosen, row = tf.one_hot(now, classes), tf.gather(q, now, axis=1)
        change = (total - tf.reduce_sum(qp * chosen, -1, keepdims=True)) / tf.reduce_sum(
            row * chosen, -1, keepdims=True
        )
        changed = [(p + change * chosen) / (1 + change), (qp + change * row) / (1 + change)]
        return (step + 1, *(tf.where(going, new, old) for new, old in zip(changed, (p, qp), strict=True)), going)

    # Rows that have settled stay as they are, so other rows decide only how long a call takes.
    # The limit of libsvm: as many passes over all classes.
    steps = max(100, classes) * classes
    qp = tf.reduce_sum(q, -1) / classes
    start = (tf.constant(0), tf.zeros_like(qp) + 1 / classes, qp, tf.ones_like(qp[:, :1], tf.bool))
    return tf.while_loop(lambda step, p, qp, going: (step < steps) & tf.reduce_any(going), updated, start)[1]


def _labels(node: Node) -> list[int]:
    labels = node.get("classlabels_ints")
    if not labels:
        raise node.fault("its labels are strings, which libraries do not support", "train with numbers as labels")
    result: list[int] = labels
    return result


def _kernel(node: Node, x: tf.Tensor, vectors: tf.Tensor) -> tf.Tensor:
    """[rows, vectors]: the kernel of each row with each vector."""
    gamma, first, degree = (*(node.get("kernel_params") or []), 0.0, 0.0, 0.0)[:3]
    kind = node.get("kernel_type", "LINEAR")
    if kind == "RBF":
        distance = tf.reduce_sum(tf.math.squared_difference(x[:, None, :], vectors[None]), -1)
        return tf.exp(-np.float32(gamma) * distance)
    made = matmul(node, x, tf.constant(np.ascontiguousarray(vectors.T)))
    kinds = {
        "LINEAR": lambda: made,
        "POLY": lambda: tf.pow(np.float32(gamma) * made + np.float32(first), np.float32(degree)),
        "SIGMOID": lambda: tf.tanh(np.float32(gamma) * made + np.float32(first)),
    }
    if kind not in kinds:
        raise node.fault(f"the kernel {kind!r} is not supported")
    return kinds[kind]()


@operator("LinearRegressor", domain=ML)
def _linear_regressor(node: Node, x: tf.Tensor) -> tf.Tensor:
    made = _linear(node, x, node.get("targets", 1))
    return _finished(node, made)


@operator("LinearClassifier", domain=ML)
def _linear_classifier(node: Node, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    labels = _labels(node)
    rows = len(node.get("coefficients")) // x.shape[-1]
    scores = _linear(node, x, rows)
    if rows == 1:
        second = _finished(node, scores)
        kind = node.get("post_transform", "NONE")
        # One row of coefficients: its score is that of the second class.
        first = 1 - second if kind in ("LOGISTIC", "SOFTMAX") else -second
        made = tf.concat([first, second], -1)
        place = tf.cast(scores[:, 0] > 0, tf.int32)
    else:
        made, place = _finished(node, scores), tf.argmax(scores, -1, tf.int32)
    return tf.gather(tf.constant(labels, tf.int64), place), made


def _linear(node: Node, x: tf.Tensor, rows: int) -> tf.Tensor:
    weights = np.array(node.get("coefficients"), np.float32).reshape(rows, -1).T
    made = matmul(node, tf.cast(x, tf.float32), tf.constant(weights))
    offsets = node.get("intercepts")
    return made + np.array(offsets, np.float32) if offsets else made


def transformed(node: Node, scores: tf.Tensor, kind: str) -> tf.Tensor:
    """`scores` after the transformation `kind` (`post_transform`); ModelFault if it is not supported."""
    functions = {"NONE": tf.identity, "LOGISTIC": tf.sigmoid, "SOFTMAX": tf.nn.softmax, "SOFTMAX_ZERO": _softmax_zero}
    if kind not in functions:
        raise node.fault(f"the transformation {kind!r} is not supported")
    return functions[kind](scores)


def _finished(node: Node, scores: tf.Tensor) -> tf.Tensor:
    return transformed(node, scores, node.get("post_transform", "NONE"))


def _softmax_zero(scores: tf.Tensor) -> tf.Tensor:
    """Softmax over scores that are not zero; zeros stay near zero (ONNX Runtime's ComputeSoftmaxZero and its limit)."""
    most = tf.reduce_max(scores, -1, keepdims=True)
    near = tf.abs(scores) <= tf.constant(1e-7, scores.dtype)
    parts = tf.exp(scores - most)
    total = tf.reduce_sum(tf.where(near, tf.zeros_like(parts), parts), -1, keepdims=True)
    return tf.where(near, scores * tf.exp(-most), parts) / total
