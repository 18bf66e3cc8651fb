"""Operators of ai.onnx.ml that prepare inputs, linear models and support vector machines."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from tfaot_pkg.compiler.program import ONE
from tfaot_pkg.frontends.lowering.values import Value, known, product
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.moving import join, squeezed, stretched
from tfaot_pkg.frontends.onnx_lowering.normalizing import softmax
from tfaot_pkg.frontends.onnx_lowering.platt import probabilities
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.frontends.onnx_lowering.reductions import maximum, place_of_extreme, total
from tfaot_pkg.frontends.onnx_lowering.table import ML, Call, constant_of, operator
from tfaot_pkg.ground.arrays import Array


def _floats(call: Call, name: str, *default: float) -> Array:
    found = call.reals(name)
    return np.array(default if found is None else found, np.float32)


@operator("Scaler", domain=ML)
def _scaler(call: Call) -> Value:
    x = call.builder.convert(call.input(0), "f32")
    a = Arithmetic(call.builder, x)
    offset, scale = (known(_floats(call, name, default), "f32") for name, default in (("offset", 0), ("scale", 1)))
    return a.mul(a.sub(x, offset), scale)


@operator("Normalizer", domain=ML)
def _normalizer(call: Call) -> Value:
    b = call.builder
    x = b.convert(call.input(0), "f32")
    a, last, kind = Arithmetic(b, x), [x.rank - 1], call.text("norm", "MAX")
    if kind == "MAX":
        # As in ONNX Runtime: the largest number, not the largest absolute value, and NaN does not count.
        norm = maximum(b, a.where(b.compare("NE", x, x), -np.inf, x), last, keep=True)
    elif kind == "L1":
        norm = total(b, a.unary("abs", x), last, keep=True)
    elif kind == "L2":
        norm = a.unary("sqrt", total(b, a.mul(x, x), last, keep=True))
    else:
        raise call.fault(f"the norm {kind!r}")
    return a.where(a.compare("EQ", norm, 0), x, a.div(x, norm))


@operator("Binarizer", domain=ML)
def _binarizer(call: Call) -> Value:
    x = call.input(0)
    return call.builder.convert(Arithmetic(call.builder, x).compare("GT", x, call.real("threshold", 0)), x.dtype)


@operator("Imputer", domain=ML)
def _imputer(call: Call) -> Value:
    b, x, floats = call.builder, call.input(0), call.reals("imputed_value_floats")
    values = floats or call.reals("imputed_value_int64s") or []
    missing = call.real("replaced_value_float", 0) if floats else float(call.whole("replaced_value_int64", 0))
    found = b.compare("NE", x, x) if np.isnan(missing) else b.compare("EQ", x, call.constant(missing, x))
    return b.map("select", found, known(np.array(values), x.dtype), x)


@operator("FeatureVectorizer", domain=ML)
def _feature_vectorizer(call: Call) -> Value:
    b = call.builder
    flat = [b.reshape(each, [each.sizes[0], product(each.sizes[1:])]) for each in call.all()]
    return join(b, [b.convert(each, "f32") for each in flat], 1)


@operator("LabelEncoder", domain=ML)
def _label_encoder(call: Call) -> Value:
    """Numbers for numbers: the value of the key that each element equals."""
    b, x, keys, values = call.builder, call.input(0), _listed(call, "keys"), _listed(call, "values")
    if keys is None or values is None or call.version < 2:
        raise call.fault("its keys or values are texts")
    rest = call.tensor("default_tensor")
    dtype = values.dtype
    if rest is not None:
        made = b.reshape(constant_of(rest), [])
    elif values.is_float:
        made = b.constant(call.real("default_float", -0.0), dtype)  # the defaults of the standard, -0.0 included
    else:
        made = b.constant(call.whole("default_int64", -1), dtype)
    made = b.spread(made, x.sizes)
    # A select for each key: labels are few. Of equal keys the first one counts.
    assert keys.numbers is not None and values.numbers is not None
    for key, value in zip(np.ravel(keys.numbers)[::-1], np.ravel(values.numbers)[::-1], strict=True):
        is_nan = keys.is_float and bool(np.isnan(key))
        found = b.compare("NE", x, x) if is_nan else b.compare("EQ", x, known(np.asarray(key), x.dtype))
        made = b.map("select", found, known(np.asarray(value), dtype), made)
    return made


def _listed(call: Call, name: str) -> Value | None:
    for kind, dtype in (("floats", "f32"), ("int64s", "s64")):
        if found := call.reals(f"{name}_{kind}"):
            return known(np.array(found), dtype)
    tensor = call.tensor(f"{name}_tensor")
    return None if tensor is None or tensor.dtype.kind == "U" else constant_of(tensor)


@operator("OneHotEncoder", domain=ML)
def _one_hot_encoder(call: Call) -> Value:
    b, x, listed = call.builder, call.input(0), call.wholes("cats_int64s")
    if not listed:
        raise call.fault("its categories are texts")
    if not call.whole("zeros", 1):
        raise call.fault("it fails for values that are no category (zeros=0)")
    wide = stretched(b, b.convert(x, "s64"), [x.rank])
    return b.convert(b.compare("EQ", wide, known(np.array(listed), "s64")), "f32")


# -- linear models -------------------------------------------------------------------------------------------------


def transformed(call: Call, scores: Value, kind: str) -> Value:
    """`scores` after the transformation `kind` (`post_transform`)."""
    b = call.builder
    if kind == "NONE":
        return scores
    if kind == "LOGISTIC":
        return b.op("logistic", scores)
    if kind == "SOFTMAX":
        return softmax(b, scores, scores.rank - 1)
    if kind == "SOFTMAX_ZERO":
        return _softmax_zero(call, scores)
    raise call.fault(f"the transformation {kind!r}")


def _softmax_zero(call: Call, scores: Value) -> Value:
    """Softmax over scores that are not zero; zeros stay near zero (ONNX Runtime's ComputeSoftmaxZero and its limit)."""
    b, a, last = call.builder, Arithmetic(call.builder, scores), [scores.rank - 1]
    most = maximum(b, scores, last, keep=True)
    near = a.compare("LE", a.unary("abs", scores), 1e-7)
    parts = a.exp(a.sub(scores, most))
    whole = total(b, a.where(near, 0, parts), last, keep=True)
    return a.div(a.where(near, a.mul(scores, a.exp(a.unary("negate", most))), parts), whole)


def probit(call: Call, scores: Value) -> Value:
    """The quantile function of the normal distribution, by Winitzki's approximation with a = 0.147."""
    # With the digits that ONNX Runtime writes (ml_common.h).
    a = Arithmetic(call.builder, scores)
    x = a.sub(a.mul(scores, 2), 1)
    log = a.log(a.mul(a.sub(1, x), a.add(x, 1)))
    middle = a.add(a.div(log, 2), 2 / (3.14159 * 0.147))
    root = a.unary("sqrt", a.sub(a.mul(middle, middle), a.div(log, 0.147)))
    inverse = a.unary("sqrt", a.sub(root, middle))
    return a.mul(a.where(a.compare("LT", x, 0), a.unary("negate", inverse), inverse), 1.41421356)


def _finished(call: Call, scores: Value) -> Value:
    return transformed(call, scores, call.text("post_transform", "NONE"))


def _linear(call: Call, rows: int) -> Value:
    b = call.builder
    weights = _floats(call, "coefficients").reshape(rows, -1).T
    made = matmul(b, b.convert(call.input(0), "f32"), known(np.ascontiguousarray(weights), "f32"))
    offsets = call.reals("intercepts")
    return Arithmetic(b, made).add(made, known(np.array(offsets, np.float32), "f32")) if offsets else made


@operator("LinearRegressor", domain=ML)
def _linear_regressor(call: Call) -> Value:
    return _finished(call, _linear(call, call.whole("targets", 1)))


def _labels(call: Call) -> list[int]:
    labels = call.wholes("classlabels_ints")
    if not labels:
        raise call.fault("its labels are texts")
    return labels


def _labelled(call: Call, labels: list[int], place: Value) -> Value:
    return take(call.builder, known(np.array(labels), "s64"), place, 0)


@operator("LinearClassifier", domain=ML)
def _linear_classifier(call: Call) -> tuple[Value, Value]:
    b, labels = call.builder, _labels(call)
    rows = _floats(call, "coefficients").size // call.number(call.input(0).sizes[-1], "the length of its rows")
    scores = _linear(call, rows)
    a = Arithmetic(b, scores)
    if rows != 1:
        return _labelled(call, labels, place_of_extreme(b, scores, 1, largest=True)), _finished(call, scores)
    second = _finished(call, scores)
    # One row of coefficients: its score is that of the second class.
    is_share = call.text("post_transform", "NONE") in ("LOGISTIC", "SOFTMAX")
    first = a.sub(1, second) if is_share else a.unary("negate", second)
    place = b.convert(a.compare("GT", squeezed(b, scores, [1]), 0), "s64")
    return _labelled(call, labels, place), join(b, [first, second], 1)


# -- support vector machines -----------------------------------------------------------------------------------------


def _kernel(call: Call, x: Value, vectors: Array) -> Value:
    """[rows, vectors]: the kernel of each row with each vector."""
    b, a = call.builder, Arithmetic(call.builder, x)
    gamma, first, degree = (*(call.reals("kernel_params") or []), 0.0, 0.0, 0.0)[:3]
    kind = call.text("kernel_type", "LINEAR")
    if kind == "RBF":
        apart = a.sub(stretched(b, x, [1]), known(vectors[None], "f32"))
        return a.exp(a.mul(total(b, a.mul(apart, apart), [2], keep=False), -gamma))
    made = matmul(b, x, known(np.ascontiguousarray(vectors.T), "f32"))
    if kind == "LINEAR":
        return made
    inner = a.add(a.mul(made, gamma), first)
    if kind == "POLY":
        return a.pow(inner, degree)
    if kind == "SIGMOID":
        return a.unary("tanh", inner)
    raise call.fault(f"the kernel {kind!r}")


@operator("SVMRegressor", domain=ML)
def _svm_regressor(call: Call) -> Value:
    b = call.builder
    x, factors = b.convert(call.input(0), "f32"), _floats(call, "coefficients")
    if call.whole("n_supports", 0):
        width = call.number(x.sizes[-1], "the length of its rows")
        vectors = _floats(call, "support_vectors").reshape(-1, width)
        made = matmul(b, _kernel(call, x, vectors), known(factors[:, None], "f32"))
    else:
        made = _kernel(call, x, factors[None])
    a = Arithmetic(b, made)
    made = a.add(made, float(_floats(call, "rho", 0)[0]))
    if call.whole("one_class", 0):
        made = a.where(a.compare("GT", made, 0), 1, -1)
        made = b.spread(made, (x.sizes[0], ONE))
    return _finished(call, made)


@operator("SVMClassifier", domain=ML)
def _svm_classifier(call: Call) -> tuple[Value, Value]:
    """One machine for each pair of classes. The label is the class of most votes, the first one of equals.

    The scores are those of the machines, or probabilities if the file has Platt's factors (`prob_a`, `prob_b`).
    """
    b, labels, counts = call.builder, _labels(call), call.wholes("vectors_per_class")
    x = b.convert(call.input(0), "f32")
    if len(labels) < 2:
        raise call.fault("it has a single class")
    if not counts:
        return _linear_machines(call, x, labels)
    classes = len(counts)
    vectors = _floats(call, "support_vectors").reshape(sum(counts), -1)
    factors = _floats(call, "coefficients").reshape(classes - 1, -1)
    pairs, owners, nothing = list(combinations(range(classes), 2)), np.repeat(np.arange(classes), counts), np.float32(0)
    weights = [
        np.where(owners == i, factors[j - 1], nothing) + np.where(owners == j, factors[i], nothing) for i, j in pairs
    ]
    scores = matmul(b, _kernel(call, x, vectors), known(np.stack(weights, 1), "f32"))
    a = Arithmetic(b, scores)
    scores = a.add(scores, known(_floats(call, "rho"), "f32"))
    first, second = (known(each, "f32") for each in np.eye(classes, dtype=np.float32)[np.transpose(pairs)])
    votes = total(b, a.where(a.compare("GT", stretched(b, scores, [2]), 0), first, second), [1], keep=False)
    label = _labelled(call, labels, place_of_extreme(b, votes, 1, largest=True))
    if call.reals("prob_a"):
        scores = probabilities(b, scores, [_floats(call, name) for name in ("prob_a", "prob_b")], pairs)
    elif classes == 2:
        if call.text("post_transform", "NONE").startswith("SOFTMAX"):
            # ONNX Runtime takes no softmax of a single score.
            return label, join(b, [a.sub(1, scores), scores], 1)
        scores = join(b, [a.unary("negate", scores), scores], 1)
    return label, _finished(call, scores)


def _linear_machines(call: Call, x: Value, labels: list[int]) -> tuple[Value, Value]:
    """The machines of liblinear: a score for each class, with one offset for all."""
    b, weights = call.builder, _floats(call, "coefficients").reshape(len(labels), -1)
    made = matmul(b, x, known(np.ascontiguousarray(weights.T), "f32"))
    a = Arithmetic(b, made)
    scores = a.add(made, float(_floats(call, "rho", 0)[0]))
    place = place_of_extreme(b, scores, 1, largest=True)
    if len(labels) == 2 and not call.reals("prob_a"):
        # ONNX Runtime: of two classes the second one, if any score is high.
        most = maximum(b, scores, [1], keep=False)
        is_high = a.compare("GE", most, 0.5) if (weights >= 0).all() else a.compare("GT", most, 0)
        place = b.map("select", is_high, b.constant(1, "s64"), place)
    return _labelled(call, labels, place), _finished(call, scores)
