"""scikit-learn's estimators that look at the nearest rows of training, as steps: k neighbours, local outlier factors.

Distances are those to all rows: the trees by which scikit-learn finds near ones are not read (skops_file.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.classes import fault
from from_trees.estimators import outliers, predictions, probabilities
from from_trees.fitted import Fitted
from from_trees.steps import Steps, Table, numbers_of
from messages.requests import ModelFault

if TYPE_CHECKING:
    from framework_types import Array

MOST_NUMBERS = 1 << 22
"""Of stored rows: each row of x is compared with all of them."""


def _nearest(steps: Steps, model: Any, table: Table, count: int) -> tuple[str, str]:
    """The distances from the `count` nearest rows of training, which rise, and their numbers."""
    points = numbers_of(model, "_fit_X", None, table.width)
    if points.size > MOST_NUMBERS:
        raise fault(model, f"with more than {MOST_NUMBERS} numbers in its rows is not supported")
    if not 0 < count <= len(points):
        raise ValueError(f"{count} neighbours among {len(points)} rows")
    _grow_tree(model, points)
    steps.expect(table, points.mean(0), points.std(0))
    return steps.lowest(_distances(steps, model, table.value, points), count)


def _distances(steps: Steps, model: Any, value: str, points: Array) -> str:
    kind = model.effective_metric_
    given = {name: each for name, each in model.effective_metric_params_.items() if each is not None}
    power = {"euclidean": 2.0, "manhattan": 1.0, "cityblock": 1.0, "l1": 1.0, "l2": 2.0}.get(kind)
    if kind == "minkowski":
        power = float(given.pop("p", 2))
    if power is None or given:
        raise fault(model, f"with the metric {kind!r} is not supported")
    off = steps.differences(value, points)
    if power == 2:
        return steps.op("Sqrt", steps.nearness(steps.op("Mul", off, off)))
    off = steps.op("Abs", off)
    if power == 1:
        return steps.nearness(off)
    return steps.op("Pow", steps.nearness(steps.op("Pow", off, power)), 1 / power)


def _grow_tree(model: Any, points: Array) -> None:
    """Let scikit-learn's own answers use a tree of the same rows in place of the file's, and be sure of neighbours."""
    from sklearn.neighbors import KDTree

    given = {**model.effective_metric_params_}
    model._tree = KDTree(points, max(1, int(model.leaf_size)), metric=model.effective_metric_, **given)
    model._fit_method, model.kneighbors = "kd_tree", partial(_sure_neighbours, model)


def _sure_neighbours(model: Any, x: Any, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
    """As `kneighbors`. Raises ValueError if another row is as far away as the last one: scikit-learn takes any then."""
    count = model.n_neighbors if n_neighbors is None else n_neighbors
    found = type(model).kneighbors(model, x, min(count + 1, len(model._fit_X)))
    far, rows = (each[:, :count] for each in found)
    if count < found[0].shape[1] and (far[:, -1] >= found[0][:, count] * (1 - 1e-12)).any():
        raise ValueError("several rows of training are equally far away, of which scikit-learn takes any")
    return (far, rows) if return_distance else rows


def _mean(steps: Steps, model: Any, table: Table, targets: Array) -> str:
    """The mean of `targets` [rows, outputs] of the nearest rows, [batch, outputs]."""
    far, rows = _nearest(steps, model, table, int(model.n_neighbors))
    if len(targets) != len(model._fit_X):
        raise ValueError("its targets do not fit its rows")
    if len(np.unique(model._fit_X, axis=0)) != len(np.unique(np.column_stack([model._fit_X, targets]), axis=0)):
        raise ModelFault(
            f"{type(model).__name__} has equal rows with different targets, of which scikit-learn takes any",
            "train it with the mean of their targets",
        )
    return weighted_mean(steps, model, far, rows, targets)


def weighted_mean(steps: Steps, model: Any, far: str, rows: str, targets: Array, *, skips: bool = False) -> str:
    """The mean of the `targets` at `rows`, which are `far` away, with the model's weights; if it `skips`, without those
    that are infinitely far.
    """
    near = steps.op("Gather", targets, rows, axis=0)
    middle = np.array([1], np.int64)
    steps.is_rounded = True
    if model.weights in (None, "uniform"):
        if not skips:
            return steps.op("Div", steps.op("ReduceSum", near, middle, keepdims=0), float(model.n_neighbors))
        weights = steps.op("Sub", 1.0, steps.numbers(steps.op("IsInf", far)))
    elif model.weights == "distance":
        # If some distances are zero, these rows alone count.
        inverse = steps.op("Div", 1.0, far)
        is_here = steps.numbers(steps.op("IsInf", inverse))
        is_any = steps.op("Greater", steps.count(is_here), 0.5)
        weights = steps.op("Where", is_any, is_here, inverse)
    else:
        raise fault(model, "with weights of your own is not supported")
    weighted = steps.op("Mul", near, steps.op("Unsqueeze", weights, np.array([2], np.int64)))
    return steps.op("Div", steps.op("ReduceSum", weighted, middle, keepdims=0), steps.row_sum(weights))


def _regressor(steps: Steps, model: Any, table: Table) -> Fitted:
    targets = np.asarray(model._y, np.float64)
    is_flat = targets.ndim == 1
    targets = targets.reshape(len(targets), -1)
    return predictions(steps, _mean(steps, model, table, targets), targets.shape[1], is_flat)


def _classifier(steps: Steps, model: Any, table: Table) -> Fitted:
    codes = np.asarray(model._y)
    if isinstance(model.classes_, list) or codes.ndim != 1:
        raise fault(model, "of several labels is not supported")
    count = len(model.classes_)
    if codes.dtype.kind != "i" or codes.min() < 0 or codes.max() >= count:
        raise ValueError("its labels do not fit its classes")
    return probabilities(steps, model, _mean(steps, model, table, np.eye(count)[codes]))


def _factors(steps: Steps, model: Any, table: Table) -> Fitted:
    """LocalOutlierFactor: how dense training is around a row, beside how dense it is around its neighbours."""
    if not model.novelty:
        raise fault(model, "without novelty=True has no answers for new rows, and is not supported")
    count = int(model.n_neighbors_)
    far, rows = _nearest(steps, model, table, count)
    size = len(model._fit_X)
    reach = numbers_of(model, "_distances_fit_X_", size, None)[:, count - 1]
    density = numbers_of(model, "_lrd", size)
    reached = steps.op("Max", far, steps.op("Gather", reach, rows, axis=0))
    mean = steps.op("Add", steps.op("Div", steps.row_sum(reached), float(count)), 1e-10)
    # scikit-learn divides by the reciprocal of the mean.
    ratios = steps.op("Div", steps.op("Gather", density, rows, axis=0), steps.op("Div", 1.0, mean))
    score = steps.op("Div", steps.row_sum(ratios), -float(count))
    return outliers(steps, steps.op("Sub", score, float(model.offset_)))


NEIGHBOURS: Mapping[str, Callable[[Steps, Any, Table], Fitted]] = {
    "KNeighborsClassifier": _classifier, "KNeighborsRegressor": _regressor, "LocalOutlierFactor": _factors,
}  # fmt: skip
