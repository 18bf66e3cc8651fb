"""scikit-learn's imputers of missing numbers and texts, as steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.classes import fault, is_known
from from_trees.estimators import ESTIMATORS
from from_trees.neighbours import MOST_NUMBERS, weighted_mean
from from_trees.steps import Steps, Table, made

if TYPE_CHECKING:
    from framework_types import Array


def _imputer(to: Steps, model: Any, table: Table) -> Table:
    fills, texts = _fills_of(model), _texts_of(model)
    to.expect(table, np.where(np.isfinite(fills), fills, 0.0), np.maximum(np.abs(np.nan_to_num(fills)), 1.0))
    is_missing = _missing(to, model, table)
    # NaN stays in columns of texts: which number a text has is known to the encoder.
    filled = made(
        to.op("Where", is_missing, fills, table.value),
        sources=table.sources,
        texts=tuple(table.text(place) or each for place, each in enumerate(texts)),
    )
    # Columns without any number in training.
    kept = ~np.isnan(fills) | np.array([bool(model.keep_empty_features or each is not None) for each in texts])
    result = to.part(filled, np.flatnonzero(kept).tolist())
    return _with_indicator(to, model, result, made(to.numbers(is_missing), table.width))


def _texts_of(model: Any) -> list[str | None]:
    """What takes the place of missing texts, by column; None for columns of numbers."""
    return [each if isinstance(each, str) else None for each in np.asarray(model.statistics_).tolist()]


def _fills_of(model: Any) -> Array:
    """What takes the place of missing numbers, by column; NaN for columns of texts."""
    statistics = np.array([math.nan if isinstance(each, str) else each for each in model.statistics_])
    # As `transform` does it: numbers of the type that training had.
    kind = np.dtype(getattr(model, "_fill_dtype", np.float64))
    fills: Array = statistics.astype(np.float64)
    with np.errstate(invalid="ignore"):
        return fills if kind.kind not in "iuf" else np.where(
            np.isnan(fills), np.nan, fills.astype(kind).astype(np.float64)
        )  # fmt: skip


def _indicator(to: Steps, model: Any, table: Table) -> Table:
    flags = made(to.numbers(_missing(to, model, table)), table.width)
    return to.part(flags, model.features_.tolist())


def _missing(to: Steps, model: Any, table: Table) -> str:
    wanted = model.missing_values
    if isinstance(wanted, str) or wanted is None:
        raise fault(model, f"with missing_values={wanted!r} is not supported")
    if math.isnan(wanted):
        return to.op("IsNaN", table.value)
    to.compare(table)
    return to.op("Equal", table.value, float(wanted))


def _iterative(to: Steps, model: Any, table: Table) -> Table:
    """IterativeImputer: each column is predicted from the others, again and again."""
    if model.sample_posterior:
        raise fault(model, "with sample_posterior=True draws its answers, and is not supported")
    missing = made(to.numbers(_missing(to, model, table)), table.width)
    first = _imputer(to, model.initial_imputer_, table)
    is_empty = np.asarray(model._is_empty_feature, bool)
    if is_empty.shape != (table.width,):
        raise ValueError("_is_empty_feature does not fit the columns")
    kept = [*range(table.width)] if model.keep_empty_features else np.flatnonzero(~is_empty).tolist()
    if first.width != len(kept):
        raise ValueError("the first imputer does not fit the columns")
    lows, highs = (_limits(model, name, len(kept)) for name in ("_min_value", "_max_value"))
    columns = [to.part(first, [place]).value for place in range(first.width)]
    gaps = {place: to.op("Greater", to.part(missing, [each]).value, 0.5) for place, each in enumerate(kept)}
    for step in model.imputation_sequence_ if model.n_iter_ else ():
        place, others = int(step.feat_idx), [int(each) for each in step.neighbor_feat_idx]
        if min(place, *others) < 0:
            raise ValueError("a column is imputed that there is not")
        given = made(to.op("Concat", *(columns[each] for each in others), axis=1), len(others))
        value = to.op("Min", to.op("Max", _predicted(to, model, step.estimator, given), lows[place]), highs[place])
        columns[place] = to.op("Where", gaps[place], value, columns[place])
    result = to.beside([made(each, 1) for each in columns])
    return _with_indicator(to, model, replace(result, is_sparse=False), missing)


def _limits(model: Any, name: str, size: int) -> list[float]:
    found = np.asarray(getattr(model, name), np.float64)
    if found.shape != (size,) or np.isnan(found).any():
        raise ValueError(f"{name} does not fit the columns")
    return [float(each) for each in found]


def _predicted(to: Steps, model: Any, estimator: Any, table: Table) -> str:
    if not is_known(estimator, ESTIMATORS) or hasattr(estimator, "classes_"):
        raise fault(model, f"of {type(estimator).__name__} is not supported, of linear regressors it is")
    if int(estimator.n_features_in_) != table.width:
        raise ValueError("an estimator does not fit the columns")
    found = ESTIMATORS[type(estimator).__name__](to, estimator, table.value)
    assert found.before is not None
    return to.op("Reshape", found.before.result, np.array([-1, 1], np.int64))


def _neighbours(to: Steps, model: Any, table: Table) -> Table:
    """KNNImputer: the mean of the nearest rows of training that have a number there."""
    known = np.asarray(model._fit_X, np.float64)
    holes, is_valid = np.asarray(model._mask_fit_X), np.asarray(model._valid_mask)
    if known.ndim != 2 or known.shape[1] != table.width or known.size > MOST_NUMBERS:
        raise ValueError(f"_fit_X has the shape {known.shape}")
    is_truth = holes.dtype == np.bool_ and is_valid.dtype == np.bool_
    if not is_truth or holes.shape != known.shape or is_valid.shape != (table.width,):
        raise ValueError("the masks do not fit its rows")
    if model.metric != "nan_euclidean" or (holes.all(0) == is_valid).any() or not np.isfinite(known[~holes]).all():
        raise fault(model, "with such a metric or rows is not supported")
    is_missing = _missing(to, model, table)
    missing = made(to.numbers(is_missing), table.width)
    present, known = (~holes).astype(np.float64), np.where(holes, 0.0, known)
    far = _incomplete_distances(to, to.op("Where", is_missing, 0.0, table.value), missing.value, known, present)
    columns = []
    for place in range(table.width):
        if not is_valid[place]:
            if model.keep_empty_features:
                columns.append(made(to.op("Mul", to.part(missing, [place]).value, 0.0), 1))
            continue
        donors = np.flatnonzero(present[:, place])
        near, rows = to.lowest(to.columns_of(far, donors.tolist()), min(int(model.n_neighbors), len(donors)))
        # Those at infinity have no column in common with the row, and count for nothing.
        found = weighted_mean(to, model, near, rows, known[donors, place][:, None], skips=True)
        none = to.op("IsInf", to.columns_of(near, [0]))
        found = to.op("Where", none, float(known[donors, place].mean()), found)
        own = to.columns_of(table.value, [place])
        columns.append(made(to.op("Where", to.op("Greater", to.part(missing, [place]).value, 0.5), found, own), 1))
    return _with_indicator(to, model, to.beside(columns), missing)


def _incomplete_distances(to: Steps, value: str, missing: str, known: Array, present: Array) -> str:
    """As nan_euclidean_distances, of rows with zeros for what is missing; infinite if no column is in both."""
    given = to.op("Sub", 1.0, missing)
    off = to.differences(value, known)
    both = to.op("Mul", to.op("Unsqueeze", given, np.array([1], np.int64)), present[None])
    squares = to.nearness(to.op("Mul", to.op("Mul", off, off), both))
    count = to.product(given, present.T)
    scaled = to.op("Mul", to.op("Div", squares, to.op("Max", count, 1.0)), float(known.shape[1]))
    return to.op("Where", to.op("Equal", count, 0.0), math.inf, to.op("Sqrt", scaled))


def _with_indicator(to: Steps, model: Any, result: Table, missing: Table) -> Table:
    if not model.add_indicator:
        return result
    return to.beside([result, to.part(missing, model.indicator_.features_.tolist())])


IMPUTERS: Mapping[str, Callable[[Steps, Any, Table], Table]] = {
    "SimpleImputer": _imputer, "MissingIndicator": _indicator, "IterativeImputer": _iterative,
    "KNNImputer": _neighbours,
}  # fmt: skip
