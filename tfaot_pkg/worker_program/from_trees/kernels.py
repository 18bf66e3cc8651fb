"""scikit-learn's estimators that are sums of kernels of stored points, as steps: support vector machines, KernelRidge.

libsvm follows the counts in a file without checks: `_require_fit` checks them before anything is predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.classes import fault
from from_trees.estimators import of_pairs, outliers, predictions, scores
from from_trees.fitted import Fitted
from from_trees.pairwise import kernel
from from_trees.steps import Steps, numbers_of
from messages.requests import ModelFault

if TYPE_CHECKING:
    from framework_types import Array


def _kernel(steps: Steps, model: Any, value: str) -> str:
    """The kernel of each row and each support vector, [batch, vectors]."""
    points = np.asarray(model.support_vectors_, np.float64)
    # libsvm adds squares of differences.
    return kernel(steps, model, value, points, gamma=model._gamma, degree=model.degree, coef0=model.coef0, far=True)


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


def _one_sum(steps: Steps, model: Any, value: str) -> str:
    _require_fit(model, 2)
    return steps.affine(_kernel(steps, model, value), model.dual_coef_.T, model.intercept_)


def _regressor(steps: Steps, model: Any, value: str) -> Fitted:
    return predictions(steps, _one_sum(steps, model, value), 1, True)


def _novelty(steps: Steps, model: Any, value: str) -> Fitted:
    return outliers(steps, _one_sum(steps, model, value))


def _ridge(steps: Steps, model: Any, value: str) -> Fitted:
    points = numbers_of(model, "X_fit_", None, model.n_features_in_)
    is_flat = np.ndim(model.dual_coef_) == 1
    weights = numbers_of(model, "dual_coef_", len(points), *(() if is_flat else (None,))).reshape(len(points), -1)
    found = kernel(steps, model, value, points, gamma=model.gamma, degree=model.degree, coef0=model.coef0)
    return predictions(steps, steps.product(found, weights), weights.shape[1], is_flat)


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
    "OneClassSVM": _novelty,
    "KernelRidge": _ridge,
}
