"""scikit-learn's transformers of numbers, as steps.

Each does what its `transform` does with an array of float64, in the same order, so that trees behind scalers and the
like compare the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.categories import Column
from from_trees.classes import ONNX, fault, is_known
from from_trees.distributions import expm1, log1p, power, quantile
from from_trees.imputers import IMPUTERS
from from_trees.pairwise import normalized, of_norm
from from_trees.projections import PROJECTIONS
from from_trees.splines import splines
from from_trees.steps import Steps, Table, made, numbers_of
from messages.requests import ModelFault

if TYPE_CHECKING:
    from framework_types import Array

_MOST_PRODUCTS = 1 << 16


def transformed(to: Steps, model: Any, table: Table) -> Table:
    """The columns that a fitted transformer makes of `table`. Raises ModelFault."""
    if model is None or (isinstance(model, str) and model == "passthrough"):
        return table
    if is_known(model, TRANSFORMERS):
        found = TRANSFORMERS[type(model).__name__](to, model, table)
        return replace(found, is_sparse=_is_sparse(model, table, found))
    if is_known(model, SELECTORS):
        return replace(to.part(table, model.get_support(indices=True)), is_sparse=table.is_sparse)
    supported = ", ".join(sorted([*TRANSFORMERS, *SELECTORS]))
    raise ModelFault(
        f"{type(model).__module__}.{type(model).__name__} is not supported in pipelines",
        f"supported transformers: {supported}; others: {ONNX}",
    )


def _is_sparse(model: Any, before: Table, found: Table) -> bool:
    """Whether scikit-learn's result is a sparse matrix."""
    name = type(model).__name__
    if name == "OneHotEncoder":
        return bool(model.sparse_output)
    if name == "KBinsDiscretizer":
        return bool(model.encode == "onehot")
    if name == "ColumnTransformer":
        return bool(model.sparse_output_)
    if name in ("FeatureUnion", "Pipeline"):
        return found.is_sparse
    return before.is_sparse and not (name in PROJECTIONS or hasattr(model, "cluster_centers_"))


# -- scaling -----------------------------------------------------------------------------------------------------


def _standard(to: Steps, model: Any, table: Table) -> Table:
    center = model.mean_ if model.with_mean else None
    return _centered(to, table, center, model.scale_ if model.with_std else None)


def _robust(to: Steps, model: Any, table: Table) -> Table:
    center = model.center_ if model.with_centering else None
    return _centered(to, table, center, model.scale_ if model.with_scaling else None)


def _centered(to: Steps, table: Table, center: Array | None, scale: Array | None) -> Table:
    to.expect(table, 0.0 if center is None else center, 1.0 if scale is None else scale)
    value = table.value
    if center is not None:
        value = to.op("Sub", value, center)
    if scale is not None:
        value = _divided(to, table, value, scale)
    return made(value, table.width)


def _divided(to: Steps, table: Table, value: str, scale: Any) -> str:
    """The quotient as scikit-learn rounds it: sparse matrices are multiplied by the reciprocal."""
    return to.op("Mul", value, 1.0 / np.asarray(scale)) if table.is_sparse else to.op("Div", value, scale)


def _min_max(to: Steps, model: Any, table: Table) -> Table:
    low, high = np.asarray(model.data_min_, np.float64), np.asarray(model.data_max_, np.float64)
    # Some rows beyond the range of training, too.
    to.expect(table, (low + high) / 2, (high - low) / 3)
    value = to.op("Add", to.op("Mul", table.value, model.scale_), model.min_)
    return made(_clipped(to, value, model.feature_range) if model.clip else value, table.width)


def _max_abs(to: Steps, model: Any, table: Table) -> Table:
    to.expect(table, 0.0, model.scale_)
    value = _divided(to, table, table.value, model.scale_)
    return made(_clipped(to, value, (-1, 1)) if getattr(model, "clip", False) else value, table.width)


def _clipped(to: Steps, value: str, limits: Sequence[float]) -> str:
    low, high = limits
    return to.op("Min", to.op("Max", value, float(low)), float(high))


def _normalizer(to: Steps, model: Any, table: Table) -> Table:
    value = table.value
    if model.norm == "l2":
        return made(normalized(to, value), table.width)
    if model.norm == "l1":
        norm = to.row_sum(to.op("Abs", value))
    elif model.norm == "max":
        norm = to.op("ReduceMax", to.op("Abs", value), np.array([1], np.int64), keepdims=1)
    else:
        raise fault(model, f"of the norm {model.norm!r} is not supported")
    return made(of_norm(to, value, norm), table.width)


def _binarizer(to: Steps, model: Any, table: Table) -> Table:
    to.expect(table, model.threshold, 1.0)
    return made(to.numbers(to.op("Greater", table.value, float(model.threshold))), table.width)


def _bins(to: Steps, model: Any, table: Table) -> Table:
    if model.encode not in ("ordinal", "onehot", "onehot-dense"):
        raise fault(model, f"with encode={model.encode!r} is not supported")
    parts = []
    for place in range(table.width):
        edges, count = np.asarray(model.bin_edges_[place], np.float64), int(model.n_bins_[place])
        one = to.part(table, [place])
        if len(edges) < 3:  # one bin
            number = to.op("Mul", one.value, 0.0)
        else:
            to.expect(one, edges.mean(), edges.std())
            # Numbers beyond the first and the last edge are in the first and the last bin.
            number = to.count(to.numbers(to.op("GreaterOrEqual", one.value, edges[None, 1:-1])))
        if model.encode == "ordinal":
            parts.append(made(number, 1))
        else:
            parts.append(made(to.numbers(to.op("Equal", number, np.arange(count, dtype=np.float64)[None])), count))
    return to.beside(parts)


# -- missing numbers and categories ------------------------------------------------------------------------------


def _is_closed(model: Any) -> bool:
    """Whether it rejects categories that training did not have."""
    return getattr(model, "handle_unknown", "ignore") == "error"


def _categories(to: Steps, model: Any, table: Table, place: int) -> list[float]:
    """The categories of a column as numbers, positions of texts; a missing one is NaN, and the last one."""
    listed = np.asarray(model.categories_[place]).tolist()
    known = [each for each in listed if isinstance(each, str) or not (each is None or math.isnan(each))]
    if len(listed) - len(known) > 1 or known != listed[: len(known)]:
        raise fault(model, "with several missing categories is not supported")
    source, missing = table.sources[place], [math.nan for _ in listed[len(known) :]]
    if any(isinstance(each, str) for each in known):
        _take_texts(to, model, source, known, is_none=None in listed)
        return [*map(float, range(len(known))), *missing]
    numbers = tuple(map(float, known))
    if source is not None and numbers:
        to.compared.add(source)
        is_closed = _is_closed(model)
        to.columns.setdefault(source, Column(place=source, name="", values=numbers, is_closed=is_closed))
    return [*numbers, *missing]


def _take_texts(to: Steps, model: Any, source: int | None, texts: Sequence[Any], *, is_none: bool) -> None:
    """The column `source` of x has positions in `texts`."""
    if source is None or not all(isinstance(each, str) for each in texts):
        raise fault(model, "of texts and numbers in one column is not supported")
    column = Column(place=source, name="", values=tuple(texts), is_closed=_is_closed(model))
    if to.columns.setdefault(source, column).values != column.values:
        raise fault(model, "of a column with several lists of texts is not supported")
    to.compared.add(source)
    if is_none:
        to.nones.add(source)


def _encoded(to: Steps, model: Any, table: Table, place: int) -> tuple[str, list[float]]:
    """A column [batch, 1], and its categories as numbers. Missing texts have the position of their substitute."""
    numbers = _categories(to, model, table, place)
    value, text = to.columns_of(table.value, [place]), table.text(place)
    if text is None:
        return value, numbers
    listed = np.asarray(model.categories_[place]).tolist()
    # As unknown as a text that the encoder was not fitted with.
    number = float(listed.index(text)) if text in listed else -1.0
    return to.op("Where", to.op("IsNaN", value), number, value), numbers


def _is_each(to: Steps, value: str, numbers: Sequence[float]) -> str:
    """Whether a column [batch, 1] is each of the numbers, [batch, count], as 0.0 and 1.0."""
    known = [each for each in numbers if not math.isnan(each)]
    parts = [to.numbers(to.op("Equal", value, np.array([known], np.float64)))] if known else []
    if len(known) < len(numbers):
        parts.append(to.numbers(to.op("IsNaN", value)))
    return to.op("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def _infrequent(model: Any, place: int, count: int) -> Array:
    """The positions of infrequent categories among `count`; they share the last code."""
    if not getattr(model, "_infrequent_enabled", False):
        return np.zeros(0, np.int64)
    rare, codes = model._infrequent_indices[place], model._default_to_infrequent_mappings[place]
    if rare is None and codes is None:
        return np.zeros(0, np.int64)
    rare = np.asarray(rare)
    # scikit-learn makes places in a sparse matrix of both, without a check.
    is_rising = rare.ndim == 1 and len(rare) > 0 and rare.dtype.kind == "i" and (np.diff(rare) > 0).all()
    if not (is_rising and rare[0] >= 0 and rare[-1] < count and np.array_equal(codes, _codes(count, rare))):
        raise ValueError("the infrequent categories do not fit the categories")
    return rare


def _codes(count: int, rare: Array) -> Array:
    """The codes of `count` categories: those at `rare` share the last one."""
    is_frequent = ~np.isin(np.arange(count), rare)
    return np.where(is_frequent, np.cumsum(is_frequent) - 1, is_frequent.sum())


def _target(to: Steps, model: Any, table: Table) -> Table:
    """TargetEncoder: of each category the target's mean, which is shrunk; of others the mean of all."""
    count = len(model.classes_) if model.target_type_ == "multiclass" else 1
    means, parts = numbers_of(model, "target_mean_", *((count,) if count > 1 else ())), []
    for place in range(table.width):
        value, numbers = _encoded(to, model, table, place)
        hot = _is_each(to, value, numbers)
        for each in range(count):
            # By column, then by class. One of the products is a mean, all others are zeros: any order gives this sum.
            codes = np.asarray(model.encodings_[place * count + each], np.float64)
            if codes.shape != (len(numbers),):
                raise ValueError("the encodings do not fit the categories")
            known = to.op("Greater", to.count(hot), 0.5)
            mean = float(means.reshape(-1)[each])
            parts.append(made(to.op("Where", known, to.count(to.op("Mul", hot, codes[None])), mean), 1))
    return to.beside(parts)


def _one_hot(to: Steps, model: Any, table: Table) -> Table:
    parts = []
    for place in range(table.width):
        value, numbers = _encoded(to, model, table, place)
        hot = made(_is_each(to, value, numbers), len(numbers))
        rare = _infrequent(model, place, len(numbers))
        if len(rare):
            hot = _with_infrequent(to, model, hot, rare)
        dropped = None if model._drop_idx_after_grouping is None else model._drop_idx_after_grouping[place]
        if dropped is not None and dropped not in range(hot.width):
            raise ValueError("a category is dropped that there is not")
        parts.append(to.part(hot, [each for each in range(hot.width) if each != dropped]))
    # scikit-learn makes places in a sparse matrix of these, too.
    if [each.width for each in parts] != [*model._n_features_outs]:
        raise ValueError("the number of columns does not fit the categories")
    return to.beside(parts)


def _with_infrequent(to: Steps, model: Any, hot: Table, rare: Array) -> Table:
    """One column in place of those at `rare`, behind all others."""
    frequent = to.part(hot, [each for each in range(hot.width) if each not in rare])
    if model.handle_unknown not in ("infrequent_if_exist", "warn"):
        others = to.count(to.columns_of(hot.value, rare.tolist()))
    elif frequent.width:
        others = to.op("Sub", 1.0, to.count(frequent.value))
    else:
        others = to.op("Add", to.op("Mul", to.columns_of(hot.value, [0]), 0.0), 1.0)
    return to.beside([frequent, made(others, 1)])


def _ordinal(to: Steps, model: Any, table: Table) -> Table:
    parts = []
    for place in range(table.width):
        value, numbers = _encoded(to, model, table, place)
        known = [each for each in numbers if not math.isnan(each)]
        if not known:
            raise fault(model, "of a column without categories is not supported")
        hot = _is_each(to, value, known)
        # None is a category as any other there.
        is_none = len(known) < len(numbers) and table.sources[place] in to.nones
        count = len(numbers) if is_none else len(known)
        codes = _codes(count, _infrequent(model, place, count)).astype(np.float64)
        # One of the products is a code, all others are zeros: any order gives this sum.
        result = to.count(to.op("Mul", hot, codes[None, : len(known)]))
        if model.handle_unknown == "use_encoded_value":
            result = to.op("Where", to.op("Greater", to.count(hot), 0.5), result, float(model.unknown_value))
        if len(known) < len(numbers):
            code = float(codes[-1] if is_none else model.encoded_missing_value)
            result = to.op("Where", to.op("IsNaN", value), code, result)
        parts.append(made(result, 1))
    return to.beside(parts)


# -- products ----------------------------------------------------------------------------------------------------


def _polynomials(to: Steps, model: Any, table: Table) -> Table:
    degree = model.degree if isinstance(model.degree, int) else max(model.degree)
    if math.comb(table.width + int(degree), table.width) > _MOST_PRODUCTS:
        raise fault(model, f"with more than {_MOST_PRODUCTS} products is not supported")
    powers = np.asarray(model.powers_)
    to.is_rounded = True
    # A column of ones stands for factors that a product does not have.
    one = to.op("Add", to.op("Mul", to.columns_of(table.value, [0]), 0.0), 1.0)
    extended = to.op("Concat", table.value, one, axis=1)
    factors = [np.repeat(np.arange(table.width), row) for row in powers]
    places = np.full((max(1, *map(len, factors)) if factors else 1, len(powers)), table.width, np.int64)
    for number, each in enumerate(factors):
        places[: len(each), number] = each
    value = to.columns_of(extended, places[0].tolist())
    for row in places[1:]:
        value = to.op("Mul", value, to.columns_of(extended, row.tolist()))
    return made(value, len(powers))


UFUNCS: Mapping[str, Callable[[Steps, str], str]] = {
    "log1p": log1p,
    "log": lambda to, value: to.op("Log", value),
    "sqrt": lambda to, value: to.op("Sqrt", value),
    "exp": lambda to, value: to.op("Exp", value),
    "expm1": expm1,
    "square": lambda to, value: to.op("Mul", value, value),
    "absolute": lambda to, value: to.op("Abs", value),
    "tanh": lambda to, value: to.op("Tanh", value),
}


def _function(to: Steps, model: Any, table: Table) -> Table:
    if model.func is None:
        return table
    name = getattr(model.func, "__name__", "?")
    if not isinstance(model.func, np.ufunc) or model.kw_args or name not in UFUNCS:
        raise ModelFault(
            f"FunctionTransformer of {name} is not supported", f"NumPy's {', '.join(UFUNCS)} are; others: {ONNX}"
        )
    to.expect(table, 2.0, 0.5)
    to.is_rounded = True
    return made(UFUNCS[name](to, table.value), table.width)


def _distances(to: Steps, model: Any, table: Table) -> Table:
    """Distances from the centers of clusters."""
    centers = numbers_of(model, "cluster_centers_", None, table.width)
    return made(to.op("Sqrt", to.squared_distances(table.value, centers)), len(centers))


# -- transformers of transformers --------------------------------------------------------------------------------


def _column_transformer(to: Steps, model: Any, table: Table) -> Table:
    parts = []
    for name, part, _ in model.transformers_:
        places = model._transformer_to_input_indices.get(name, [])
        if not (isinstance(part, str) and part == "drop") and len(places):
            parts.append(_weighted(to, model, name, transformed(to, part, to.part(table, places))))
    return to.beside(parts)


def _union(to: Steps, model: Any, table: Table) -> Table:
    kept = [each for each in model.transformer_list if not (isinstance(each[1], str) and each[1] == "drop")]
    found = [_weighted(to, model, name, transformed(to, part, table)) for name, part in kept]
    return replace(to.beside(found), is_sparse=any(each.is_sparse for each in found))


def _weighted(to: Steps, model: Any, name: str, table: Table) -> Table:
    weight = (model.transformer_weights or {}).get(name)
    if weight is None or not table.width:
        return table
    return replace(made(to.op("Mul", table.value, float(weight)), table.width), is_sparse=table.is_sparse)


def _pipeline(to: Steps, model: Any, table: Table) -> Table:
    for _, part in model.steps:
        table = transformed(to, part, table)
    return table


TRANSFORMERS: Mapping[str, Callable[[Steps, Any, Table], Table]] = {
    "StandardScaler": _standard, "RobustScaler": _robust, "MinMaxScaler": _min_max, "MaxAbsScaler": _max_abs,
    "Normalizer": _normalizer, "Binarizer": _binarizer, "KBinsDiscretizer": _bins, "OneHotEncoder": _one_hot,
    "OrdinalEncoder": _ordinal, "TargetEncoder": _target, "SplineTransformer": splines,
    "PolynomialFeatures": _polynomials, "FunctionTransformer": _function, "ColumnTransformer": _column_transformer,
    "FeatureUnion": _union, "Pipeline": _pipeline, "PowerTransformer": power, "QuantileTransformer": quantile,
    "KMeans": _distances, "MiniBatchKMeans": _distances, **PROJECTIONS, **IMPUTERS,
}  # fmt: skip
SELECTORS = frozenset(
    """
GenericUnivariateSelect RFE RFECV SelectFdr SelectFpr SelectFromModel SelectFwe SelectKBest SelectPercentile
SequentialFeatureSelector VarianceThreshold
""".split()
)
"""Transformers that keep some of their columns."""
