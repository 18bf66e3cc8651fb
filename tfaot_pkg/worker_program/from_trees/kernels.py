"""scikit-learn's support vector machines with kernels, as steps: SVC, SVR, NuSVC, NuSVR.

libsvm follows the counts in a file without checks: `_require_fit` checks them before anything is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.estimators import of_pairs, predictions, scores
from from_trees.fitted import Fitted
from from_trees.steps import Steps
from from_trees.transformers import fault
from messages.requests import ModelFault

if TYPE_CHECKING:
    from framework_types import Array


def _kernel(steps: Steps, model: Any, value: str) -> str:
    """The kernel of each row and each support vector, [batch, vectors]."""
    points, gamma = np.asarray(model.support_vectors_, np.float64), float(model._gamma)
    if model.kernel == "rbf":
        return steps.op("Exp", steps.op("Mul", steps.squared_distances(value, points), -gamma))
    product = steps.product(value, points.T)
    if model.kernel == "linear":
        return product
    shifted = steps.op("Add", steps.op("Mul", product, gamma), float(model.coef0))
    if model.kernel == "poly":
        return steps.op("Pow", shifted, float(model.degree))
    if model.kernel == "sigmoid":
        return steps.op("Tanh", shifted)
    raise fault(model, "with a kernel of your own is not supported")


def _require_fit(model: Any, classes: int) -> None:
    if model._sparse:
        raise fault(model, "that was trained on a sparse matrix is not supported")
    points, counts = np.asarray(model.support_vectors_), np.asarray(model._n_support)
    total, pairs = len(points), classes * (classes - 1) // 2
    is_numbers = all(
        np.asarray(each).dtype == np.float64
        for each in (points, model._dual_coef_, model._intercept_, model.dual_coef_, model.intercept_)
    )
    shapes = (np.shape(model.support_), points.shape, *map(np.shape, (model.dual_coef_, model._dual_coef_)))
    wanted = ((total,), (total, model.n_features_in_), (classes - 1, total), (classes - 1, total))
    ends = {np.shape(model.intercept_), np.shape(model._intercept_)}
    fits = counts.dtype == np.int32 and (counts >= 0).all() and counts.ndim == 1
    # Of a regressor, one count for both signs.
    if hasattr(model, "classes_"):
        fits = fits and len(counts) == classes and counts.sum() == total
    if not (is_numbers and fits and total and shapes == wanted and ends == {(pairs,)}):
        raise ValueError("its support vectors do not fit its coefficients")


def _regressor(steps: Steps, model: Any, value: str) -> Fitted:
    _require_fit(model, 2)
    made = steps.affine(_kernel(steps, model, value), model.dual_coef_.T, model.intercept_)
    return predictions(steps, made, 1, True)


def decision(steps: Steps, model: Any, value: str) -> str:
    """The decision function, [batch, 1] of two classes, [batch, classes] or [batch, pairs] of more."""
    count = len(model.classes_)
    _require_fit(model, count)
    weights, bias = _by_pair(model, count)
    found = steps.affine(_kernel(steps, model, value), weights, bias)
    if count == 2 or model.decision_function_shape != "ovr":
        return found
    return of_pairs(steps, steps.numbers(steps.op("Less", found, 0.0)), steps.op("Neg", found), count)


def _by_pair(model: Any, count: int) -> tuple[Array, Array]:
    """The weights of support vectors [vectors, pairs], and what is added to their sums."""
    weights, bias = np.asarray(model.dual_coef_), np.asarray(model.intercept_)
    if count == 2:
        return weights.T, bias
    ends = np.concatenate([[0], np.cumsum(model._n_support)])
    columns = []
    for first, second in combinations(range(count), 2):
        column = np.zeros(weights.shape[1])
        for one, other in ((first, second - 1), (second, first)):
            part = slice(ends[one], ends[one + 1])
            column[part] = weights[other, part]
        columns.append(column)
    return np.stack(columns, 1), bias


def _classifier(steps: Steps, model: Any, value: str) -> Fitted:
    if hasattr(model, "predict_proba"):
        raise ModelFault(
            f"{type(model).__name__} with probability=True is not supported",
            "train with probability=False, in a CalibratedClassifierCV if you need probabilities",
        )
    if len(model.classes_) > 2 and model.decision_function_shape != "ovr":
        raise fault(model, "with decision_function_shape='ovo' is not supported")
    return scores(steps, model, decision(steps, model, value))


KERNELS: Mapping[str, Callable[[Steps, Any, str], Fitted]] = {
    **dict.fromkeys(("SVC", "NuSVC"), _classifier),
    **dict.fromkeys(("SVR", "NuSVR"), _regressor),
}
