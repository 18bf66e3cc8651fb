"""scikit-learn's Gaussian processes, as steps: the mean, a sum of kernels of the rows of training."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from from_trees.classes import fault
from from_trees.estimators import predictions
from from_trees.fitted import Fitted
from from_trees.neighbours import MOST_NUMBERS
from from_trees.steps import Steps, Table, numbers_of

if TYPE_CHECKING:
    from framework_types import Array


def _process(steps: Steps, model: Any, table: Table) -> Fitted:
    points = numbers_of(model, "X_train_", None, table.width)
    if points.size > MOST_NUMBERS:
        raise fault(model, f"with more than {MOST_NUMBERS} numbers in its rows is not supported")
    steps.expect(table, points.mean(0), points.std(0))
    is_flat = np.ndim(model.alpha_) == 1
    weights = numbers_of(model, "alpha_", len(points), *(() if is_flat else (None,))).reshape(len(points), -1)
    outputs = weights.shape[1]
    scale, mean = (np.broadcast_to(np.asarray(each, np.float64), (outputs,)) for each in
                   (model._y_train_std, model._y_train_mean))  # fmt: skip
    kernel = _Kernel(steps, model, table.value, points)
    found = kernel.of(model.kernel_)
    if isinstance(found, float):
        found = steps.op("Add", steps.product(table.value, np.zeros_like(points).T), found)
    return predictions(steps, steps.affine(found, weights * scale, mean), outputs, outputs == 1)


class _Kernel:
    """Kernels of the rows `value` and the points, [batch, points], or numbers if they are constant."""

    def __init__(self, steps: Steps, model: Any, value: str, points: Array) -> None:
        self._steps, self._model, self._value, self._points = steps, model, value, points

    def of(self, kernel: Any) -> str | float:
        name = type(kernel).__name__
        if not type(kernel).__module__.startswith("sklearn.") or name not in KERNELS:
            raise fault(self._model, f"with the kernel {name} is not supported")
        return KERNELS[name](self, kernel)

    def both(self, op: str, kernel: Any) -> str | float:
        first, second = self.of(kernel.k1), self.of(kernel.k2)
        if isinstance(first, float) and isinstance(second, float):
            return first + second if op == "Add" else first * second
        return self._steps.op(op, first, second)

    def power(self, kernel: Any) -> str | float:
        found, exponent = self.of(kernel.kernel), float(kernel.exponent)
        return found**exponent if isinstance(found, float) else self._steps.op("Pow", found, exponent)

    def _squares(self, length: Any) -> str:
        """Of distances in units of `length`, a number or one for each column."""
        scale = np.broadcast_to(np.asarray(length, np.float64), self._points.shape[1:])
        # Not by products: their roundings would count beside the large weights of near points.
        off = self._steps.differences(self._steps.op("Div", self._value, scale), self._points / scale)
        return self._steps.nearness(self._steps.op("Mul", off, off))

    def _exponential(self, value: str, factor: float) -> str:
        return self._steps.op("Exp", self._steps.op("Mul", value, factor))

    def gaussian(self, kernel: Any) -> str:
        return self._exponential(self._squares(kernel.length_scale), -0.5)

    def matern(self, kernel: Any) -> str:
        if kernel.nu == math.inf:
            return self.gaussian(kernel)
        if kernel.nu not in (0.5, 1.5, 2.5):
            raise fault(self._model, f"with Matern of nu={kernel.nu} is not supported")
        op = self._steps.op
        root = op("Mul", op("Sqrt", self._squares(kernel.length_scale)), math.sqrt(2 * kernel.nu))
        falling = self._exponential(root, -1.0)
        if kernel.nu == 0.5:
            return falling
        more = op("Add", root, 1.0)
        if kernel.nu == 2.5:
            more = op("Add", more, op("Div", op("Mul", root, root), 3.0))
        return op("Mul", more, falling)

    def rational(self, kernel: Any) -> str:
        squares, alpha = self._squares(1.0), float(kernel.alpha)
        scaled = self._steps.op("Div", squares, 2 * alpha * float(kernel.length_scale) ** 2)
        return self._steps.op("Pow", self._steps.op("Add", scaled, 1.0), -alpha)

    def periodic(self, kernel: Any) -> str:
        op = self._steps.op
        angle = op("Mul", op("Sqrt", self._squares(1.0)), math.pi / float(kernel.periodicity))
        wave = op("Div", op("Sin", angle), float(kernel.length_scale))
        return self._exponential(op("Mul", wave, wave), -2.0)

    def product(self, kernel: Any) -> str:
        return self._steps.op("Add", self._steps.product(self._value, self._points.T), float(kernel.sigma_0) ** 2)


KERNELS: Mapping[str, Callable[[_Kernel, Any], str | float]] = {
    "Sum": lambda to, kernel: to.both("Add", kernel),
    "Product": lambda to, kernel: to.both("Mul", kernel),
    "Exponentiation": _Kernel.power,
    "ConstantKernel": lambda to, kernel: float(kernel.constant_value),
    # Noise of the rows of training, which new rows do not share.
    "WhiteKernel": lambda to, kernel: 0.0,
    "RBF": _Kernel.gaussian,
    "Matern": _Kernel.matern,
    "RationalQuadratic": _Kernel.rational,
    "ExpSineSquared": _Kernel.periodic,
    "DotProduct": _Kernel.product,
}

PROCESSES: Mapping[str, Callable[[Steps, Any, Table], Fitted]] = {"GaussianProcessRegressor": _process}
