"""scikit-learn's classifiers that have a normal distribution for each class, as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.estimators import probabilities
from from_trees.fitted import Fitted
from from_trees.steps import Steps, Table

if TYPE_CHECKING:
    from framework_types import Array


def _require_shape(shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise ValueError(f"its distributions have the shape {shape} in place of {wanted}")


def _naive_bayes(steps: Steps, model: Any, table: Table) -> Fitted:
    means, variances, shares = (np.asarray(each, np.float64) for each in (model.theta_, model.var_, model.class_prior_))
    for each in (means, variances):
        _require_shape(each.shape, (len(model.classes_), table.width))
    _expect(steps, table, means, shares, shares @ variances)
    found = []
    for mean, variance in zip(means, variances, strict=True):
        difference = steps.op("Sub", table.value, mean)
        squares = steps.op("Div", steps.op("Mul", difference, difference), variance)
        constant = -0.5 * np.log(2.0 * np.pi * variance).sum()
        found.append(steps.op("Sub", float(constant), steps.op("Mul", steps.row_sum(squares), 0.5)))
    value = _with_priors(steps, found, shares)
    # As scikit-learn, not Softmax: small variances give numbers of 1e9, beside which the logarithm is rounded.
    most = steps.op("ReduceMax", value, np.array([1], np.int64), keepdims=1)
    logarithm = steps.op("Log", steps.row_sum(steps.op("Exp", steps.op("Sub", value, most))))
    return probabilities(steps, model, steps.op("Exp", steps.op("Sub", value, steps.op("Add", logarithm, most))))


def quadratic(steps: Steps, model: Any, table: Table) -> str:
    """As QuadraticDiscriminantAnalysis._decision_function, [batch, classes] also of two."""
    means, shares = np.asarray(model.means_, np.float64), np.asarray(model.priors_, np.float64)
    rotations, scalings = ([np.asarray(each, np.float64) for each in of] for of in (model.rotations_, model.scalings_))
    _require_shape(means.shape, (len(model.classes_), table.width))
    for rotation, scaling in zip(rotations, scalings, strict=True):
        _require_shape(rotation.shape, (table.width, len(scaling)))
    within = [(np.square(each) * scaling).sum(1) for each, scaling in zip(rotations, scalings, strict=True)]
    _expect(steps, table, means, shares, shares @ np.array(within))
    found = []
    for mean, rotation, scaling in zip(means, rotations, scalings, strict=True):
        rotated = steps.product(steps.op("Sub", table.value, mean), rotation * scaling**-0.5)
        squares = steps.row_sum(steps.op("Mul", rotated, rotated))
        found.append(steps.op("Mul", steps.op("Add", squares, float(np.log(scaling).sum())), -0.5))
    return _with_priors(steps, found, shares)


def _with_priors(steps: Steps, densities: list[str], shares: Array) -> str:
    _require_shape(shares.shape, (len(densities),))
    value = steps.op("Concat", *densities, axis=1)
    with np.errstate(divide="ignore"):
        return steps.op("Add", value, np.log(shares))


def _expect(steps: Steps, table: Table, means: Array, shares: Array, within: Array) -> None:
    center = shares @ means
    steps.expect(table, center, np.sqrt(within + shares @ np.square(means - center)))


def _quadratic(steps: Steps, model: Any, table: Table) -> Fitted:
    return probabilities(steps, model, steps.op("Softmax", quadratic(steps, model, table), axis=1))


GAUSSIANS: Mapping[str, Callable[[Steps, Any, Table], Fitted]] = {
    "GaussianNB": _naive_bayes, "QuadraticDiscriminantAnalysis": _quadratic,
}  # fmt: skip
