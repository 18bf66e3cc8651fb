"""Kernels of rows and stored points, as steps: those of scikit-learn's metrics.pairwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.classes import fault
from from_trees.steps import Steps

if TYPE_CHECKING:
    from framework_types import Array

POLYNOMIAL = frozenset(("poly", "polynomial"))


def kernel(
    to: Steps, model: Any, value: str, points: Array, *, gamma: Any = None, degree: Any = None, coef0: Any = None,
    far: bool = False,
) -> str:  # fmt: skip
    """The model's kernel of each row and each point, [batch, points]; None stands for scikit-learn's defaults.

    `far` as in Steps.squared_distances.
    Raises ModelFault, which names the model, for a kernel that is not read.
    """
    name = model.kernel
    gamma = 1.0 / points.shape[1] if gamma is None else float(gamma)
    if name == "rbf":
        return to.op("Exp", to.op("Mul", to.squared_distances(value, points, far=far), -gamma))
    if name == "laplacian":
        return to.op("Exp", to.op("Mul", to.nearness(to.op("Abs", to.differences(value, points))), -gamma))
    if name == "cosine":
        norms = np.sqrt((points * points).sum(1, keepdims=True))
        return to.product(normalized(to, value), (points / np.where(norms < _TINY, 1.0, norms)).T)
    product = to.product(value, points.T)
    if name == "linear":
        return product
    shifted = to.op("Add", to.op("Mul", product, gamma), 1.0 if coef0 is None else float(coef0))
    if name in POLYNOMIAL:
        return to.op("Pow", shifted, 3.0 if degree is None else float(degree))
    if name == "sigmoid":
        return to.op("Tanh", shifted)
    raise fault(model, f"with the kernel {name!r} is not supported" if isinstance(name, str) else
                "with a kernel of your own is not supported")  # fmt: skip


_TINY = 10 * np.finfo(np.float64).eps
"""_handle_zeros_in_scale: norms next to zero count as one."""


def normalized(to: Steps, value: str) -> str:
    """The rows, each with the norm one."""
    return of_norm(to, value, to.op("Sqrt", to.row_sum(to.op("Mul", value, value))))


def of_norm(to: Steps, value: str, norm: str) -> str:
    return to.op("Div", value, to.op("Where", to.op("Less", norm, _TINY), 1.0, norm))
