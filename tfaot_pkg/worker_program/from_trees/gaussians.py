"""scikit-learn's estimators that have normal distributions, of each class, of a mixture, or of all rows, as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.classes import fault
from from_trees.estimators import outliers, probabilities, result
from from_trees.fitted import Fitted
from from_trees.steps import Steps, Table, numbers_of

if TYPE_CHECKING:
    from framework_types import Array


_MOST_NUMBERS = 1 << 24


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
    return probabilities(steps, model, posterior(steps, _with_priors(steps, found, shares)))


def posterior(steps: Steps, value: str) -> str:
    """The probabilities of the classes, of their logarithms, to which some number was added."""
    # As scikit-learn, not Softmax: small variances give numbers of 1e9, beside which the logarithm is rounded.
    most = steps.op("ReduceMax", value, np.array([1], np.int64), keepdims=1)
    logarithm = steps.op("Log", steps.row_sum(steps.op("Exp", steps.op("Sub", value, most))))
    return steps.op("Exp", steps.op("Sub", value, steps.op("Add", logarithm, most)))


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


def _mixture(steps: Steps, model: Any, table: Table) -> Fitted:
    """GaussianMixture, BayesianGaussianMixture: the probabilities of the components."""
    means = numbers_of(model, "means_", None, table.width)
    count = len(means)
    shares = numbers_of(model, "weights_", count)
    roots = _roots(model, count, table.width)
    spread = np.linalg.inv(np.einsum("kij,klj->kil", roots, roots))
    _expect(steps, table, means, shares / shares.sum(), shares @ np.einsum("kii->ki", spread))
    # What scikit-learn adds to the squares of a row, by component: the same for all rows.
    parts, offsets = [], _offsets(model, means, roots)
    for mean, root, offset in zip(means, roots, offsets, strict=True):
        rotated = steps.product(steps.op("Sub", table.value, mean), root)
        squares = steps.row_sum(steps.op("Mul", rotated, rotated))
        parts.append(steps.op("Sub", float(offset), steps.op("Mul", squares, 0.5)))
    value = steps.op("Concat", *parts, axis=1) if count > 1 else parts[0]
    return result(steps, posterior(steps, value), "probabilities", count)


def _roots(model: Any, count: int, width: int) -> Array:
    """The triangular roots of the precision matrices, [components, width, width]."""
    kind = model.covariance_type
    shape = {
        "full": (count, width, width), "tied": (width, width), "diag": (count, width), "spherical": (count,),
    }[kind]  # fmt: skip
    if count * width * width > _MOST_NUMBERS:
        raise fault(model, f"with more than {_MOST_NUMBERS} numbers in its matrices is not supported")
    found = numbers_of(model, "precisions_cholesky_", *shape)
    if kind in ("full", "tied"):
        return np.broadcast_to(found, (count, width, width))
    return np.reshape(found, (count, -1, 1)) * np.eye(width)


def _offsets(model: Any, means: Array, roots: Array) -> Array:
    """Log probabilities at the means, and the logarithms of weights."""
    # All of it is linear in the squares, which are zero at a mean.
    at_means = np.array([model._estimate_log_prob(mean[None])[0, place] for place, mean in enumerate(means)])
    return np.asarray(at_means + model._estimate_log_weights(), np.float64)


def _envelope(steps: Steps, model: Any, table: Table) -> Fitted:
    """EllipticEnvelope: minus Mahalanobis' distances, squared."""
    center = numbers_of(model, "location_", table.width)
    precision = np.asarray(model.get_precision(), np.float64)
    _require_shape(precision.shape, (table.width, table.width))
    steps.expect(table, center, np.sqrt(np.diag(numbers_of(model, "covariance_", table.width, table.width))))
    off = steps.op("Sub", table.value, center)
    distances = steps.row_sum(steps.op("Mul", steps.product(off, precision), off))
    return outliers(steps, steps.op("Sub", steps.op("Neg", distances), float(model.offset_)))


def _centroids(steps: Steps, model: Any, table: Table) -> Fitted:
    """NearestCentroid: normal distributions of one width for all classes."""
    count = len(model.classes_)
    centers, shares = numbers_of(model, "centroids_", count, table.width), numbers_of(model, "class_prior_", count)
    widths = numbers_of(model, "within_class_std_dev_", table.width)
    if model.metric != "euclidean":
        raise fault(model, f"with the metric {model.metric!r} is not supported")
    widths = np.where(widths == 0, 1.0, widths)
    _expect(steps, table, centers, shares, widths**2)
    squares = steps.squared_distances(steps.op("Div", table.value, widths), centers / widths)
    value = steps.op("Sub", 2.0 * np.log(shares)[None], squares)
    return probabilities(steps, model, steps.op("Softmax", value, axis=1))


GAUSSIANS: Mapping[str, Callable[[Steps, Any, Table], Fitted]] = {
    "GaussianNB": _naive_bayes, "QuadraticDiscriminantAnalysis": _quadratic, "NearestCentroid": _centroids,
    "GaussianMixture": _mixture, "BayesianGaussianMixture": _mixture, "EllipticEnvelope": _envelope,
}  # fmt: skip
