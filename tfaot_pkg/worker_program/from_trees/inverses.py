"""The inverse of scikit-learn's transformers, as steps: what TransformedTargetRegressor makes of predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from from_trees.classes import ONNX, is_known
from from_trees.distributions import log1p
from from_trees.steps import Steps
from from_trees.transformers import UFUNCS
from messages.requests import ModelFault


def restored(to: Steps, model: Any, value: str) -> str:
    """What `inverse_transform` of a fitted transformer makes of `value`, as many columns. Raises ModelFault."""
    if not is_known(model, INVERSES):
        raise ModelFault(
            f"{type(model).__module__}.{type(model).__name__} as transformer of a target is not supported",
            f"supported: {', '.join(sorted(INVERSES))}; others: {ONNX}",
        )
    return INVERSES[type(model).__name__](to, model, value)


def _scaled(to: Steps, value: str, scale: Any, center: Any) -> str:
    if scale is not None:
        value = to.op("Mul", value, _row(scale))
    return value if center is None else to.op("Add", value, _row(center))


def _row(numbers: Any) -> np.ndarray:
    return np.asarray(numbers, np.float64)[None]


def _standard(to: Steps, model: Any, value: str) -> str:
    return _scaled(to, value, model.scale_ if model.with_std else None, model.mean_ if model.with_mean else None)


def _robust(to: Steps, model: Any, value: str) -> str:
    return _scaled(
        to, value, model.scale_ if model.with_scaling else None, model.center_ if model.with_centering else None
    )


def _max_abs(to: Steps, model: Any, value: str) -> str:
    return _scaled(to, value, model.scale_, None)


def _min_max(to: Steps, model: Any, value: str) -> str:
    return to.op("Div", to.op("Sub", value, _row(model.min_)), _row(model.scale_))


def _function(to: Steps, model: Any, value: str) -> str:
    if model.inverse_func is None:
        return value
    name = getattr(model.inverse_func, "__name__", "?")
    if not isinstance(model.inverse_func, np.ufunc) or model.inv_kw_args or name not in UFUNCS:
        raise ModelFault(
            f"{name} as inverse_func of a target is not supported", f"NumPy's {', '.join(UFUNCS)} are; others: {ONNX}"
        )
    return UFUNCS[name](to, value)


def _power(to: Steps, model: Any, value: str) -> str:
    if model.standardize:
        value = _standard(to, model._scaler, value)
    powers = _row(model.lambdas_)
    return _yeo_johnson(to, value, powers) if model.method == "yeo-johnson" else _box_cox(to, value, powers)


def _yeo_johnson(to: Steps, value: str, powers: np.ndarray) -> str:
    # NaN goes with the negative numbers, and stays NaN.
    is_positive = to.op("GreaterOrEqual", value, 0.0)
    above = to.op("Where", is_positive, value, 0.0)
    below = to.op("Where", is_positive, 0.0, to.op("Neg", value))
    eps = np.spacing(1.0)
    first = _root(to, above, powers, np.abs(powers) < eps)
    second = _root(to, below, 2 - powers, np.abs(powers - 2) <= eps)
    return to.op("Where", is_positive, to.op("Sub", first, 1.0), to.op("Sub", 1.0, second))


def _root(to: Steps, value: str, powers: np.ndarray, is_zero: np.ndarray) -> str:
    """(value * powers + 1) ** (1 / powers); in columns of power zero its limit, the exponential."""
    safe = np.where(is_zero, 1.0, powers)
    found = to.op("Pow", to.op("Add", to.op("Mul", value, safe), 1.0), 1 / safe)
    return to.op("Where", is_zero, to.op("Exp", value), found) if is_zero.any() else found


def _box_cox(to: Steps, value: str, powers: np.ndarray) -> str:
    # As scipy.special.inv_boxcox.
    is_zero = powers == 0
    safe = np.where(is_zero, 1.0, powers)
    found = to.op("Exp", to.op("Div", log1p(to, to.op("Mul", value, safe)), safe))
    return to.op("Where", is_zero, to.op("Exp", value), found) if is_zero.any() else found


def _pipeline(to: Steps, model: Any, value: str) -> str:
    for _, part in reversed(model.steps):
        if not (part is None or (isinstance(part, str) and part == "passthrough")):
            value = restored(to, part, value)
    return value


INVERSES: Mapping[str, Callable[[Steps, Any, str], str]] = {
    "StandardScaler": _standard, "RobustScaler": _robust, "MaxAbsScaler": _max_abs, "MinMaxScaler": _min_max,
    "FunctionTransformer": _function, "PowerTransformer": _power, "Pipeline": _pipeline,
}  # fmt: skip
