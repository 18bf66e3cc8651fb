"""scikit-learn's transformers that are products with a matrix, or with kernels of stored points, as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.pairwise import kernel
from from_trees.steps import Steps, Table, made, numbers_of

if TYPE_CHECKING:
    from framework_types import Array


def _projected(to: Steps, table: Table, weights: Array, mean: Array | None = None) -> Table:
    """(x - mean) @ weights, of weights [width, columns]."""
    if mean is None:
        return made(to.product(table.value, weights), weights.shape[1])
    to.expect(table, mean, 1.0)
    return made(to.op("Sub", to.product(table.value, weights), mean[None] @ weights), weights.shape[1])


def _components(model: Any, table: Table) -> Array:
    return numbers_of(model, "components_", None, table.width)


def _mean(model: Any, table: Table) -> Array:
    return numbers_of(model, "mean_", table.width)


def _bare(to: Steps, model: Any, table: Table) -> Table:
    return _projected(to, table, _components(model, table).T)


def _pca(to: Steps, model: Any, table: Table) -> Table:
    found = _projected(to, table, _components(model, table).T, _mean(model, table))
    if not model.whiten:
        return found
    scale = np.sqrt(numbers_of(model, "explained_variance_", found.width))
    return made(to.op("Div", found.value, np.maximum(scale, np.finfo(scale.dtype).eps)), found.width)


def _independent(to: Steps, model: Any, table: Table) -> Table:
    """FastICA."""
    return _projected(to, table, _components(model, table).T, _mean(model, table) if model.whiten else None)


def _factors(to: Steps, model: Any, table: Table) -> Table:
    """FactorAnalysis: the means of the latent variables, C. Bishop, Pattern Recognition (12.66)."""
    components = _components(model, table)
    scaled = components / numbers_of(model, "noise_variance_", table.width)
    inverse = np.linalg.inv(np.eye(len(components)) + scaled @ components.T)
    return _projected(to, table, scaled.T @ inverse, _mean(model, table))


def _sparse_components(to: Steps, model: Any, table: Table) -> Table:
    """SparsePCA: by a ridge regression on the components."""
    components = _components(model, table)
    squares = components @ components.T + float(model.ridge_alpha) * np.eye(len(components))
    return _projected(to, table, np.linalg.solve(squares, components).T, _mean(model, table))


def _discriminants(to: Steps, model: Any, table: Table) -> Table:
    scalings = numbers_of(model, "scalings_", table.width, None)[:, : int(model._max_components)]
    return _projected(to, table, scalings, numbers_of(model, "xbar_", table.width) if model.solver == "svd" else None)


def _least_squares(to: Steps, model: Any, table: Table) -> Table:
    """PLSSVD, of which x is scaled."""
    weights = numbers_of(model, "x_weights_", table.width, None) / numbers_of(model, "_x_std", table.width)[:, None]
    return _projected(to, table, weights, numbers_of(model, "_x_mean", table.width))


def _waves(to: Steps, model: Any, table: Table) -> Table:
    """RBFSampler."""
    weights = numbers_of(model, "random_weights_", table.width, int(model.n_components))
    shifted = to.affine(table.value, weights, numbers_of(model, "random_offset_", weights.shape[1]))
    return made(to.op("Mul", to.op("Cos", shifted), (2.0 / weights.shape[1]) ** 0.5), weights.shape[1])


def _nystroem(to: Steps, model: Any, table: Table) -> Table:
    points, given = _components(model, table), model._get_kernel_params()
    weights = numbers_of(model, "normalization_", len(points), len(points))
    return made(to.product(kernel(to, model, table.value, points, **given), weights.T), len(points))


def _kernel_components(to: Steps, model: Any, table: Table) -> Table:
    """KernelPCA: the kernel is centered by the means of its rows, and by those of training."""
    points = numbers_of(model, "X_fit_", None, table.width)
    values = numbers_of(model, "eigenvalues_", None)
    vectors = numbers_of(model, "eigenvectors_", len(points), len(values))
    scaled = np.where(values == 0, 0.0, vectors / np.sqrt(np.where(values == 0, 1.0, values)))
    rows = numbers_of(model._centerer, "K_fit_rows_", len(points))
    bias = (float(model._centerer.K_fit_all_) - rows) @ scaled
    value = kernel(to, model, table.value, points, gamma=model.gamma_, degree=model.degree, coef0=model.coef0)
    return made(to.affine(value, scaled - scaled.mean(0), bias), len(values))


PROJECTIONS: Mapping[str, Callable[[Steps, Any, Table], Table]] = {
    **dict.fromkeys(("PCA", "IncrementalPCA"), _pca),
    **dict.fromkeys(("TruncatedSVD", "GaussianRandomProjection", "NeighborhoodComponentsAnalysis"), _bare),
    **dict.fromkeys(("SparsePCA", "MiniBatchSparsePCA"), _sparse_components),
    "PLSSVD": _least_squares, "FastICA": _independent, "FactorAnalysis": _factors,
    "LinearDiscriminantAnalysis": _discriminants, "RBFSampler": _waves, "Nystroem": _nystroem,
    "KernelPCA": _kernel_components,
}  # fmt: skip
"""Transformers whose result is a dense matrix, by the names of their classes."""
