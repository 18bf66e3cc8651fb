"""What tells roundings of the module from faults of packages."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from .runs import ModelRuns

_TRIES, _SHIFT = 9, 2
"""Runs on inputs that are off by at most so many units in the last place."""


def evidence_of(runs: ModelRuns, inputs: Mapping[str, Any], size: int) -> dict[str, Any]:
    """What the model gives if inputs are off by some roundings, and in float64."""
    import numpy as np

    generator = np.random.default_rng(0)
    ran, answers = runs.batched(inputs, size)
    if not ran.any():
        return {}
    low, high = ([each.astype(np.float64) for each in answers] for _ in range(2))
    spread = [np.zeros(each.shape) for each in answers]
    missing = [np.isnan(each) for each in low]
    floats = any(value.dtype.kind == "f" for value in inputs.values())
    nudged = ({name: _nudged(np, generator, v) for name, v in inputs.items()} for _ in range(_TRIES if floats else 0))
    tries = [functools.partial(runs.batched, each, size) for each in nudged]
    ordered = [functools.partial(runs.in_order, inputs, size, first=first) for first in (True, False)]
    for attempt in (*tries, *ordered):
        moved, others = attempt()
        for place, other in enumerate(others):
            if not moved.all() or other.shape != answers[place].shape:
                break
            numbers = other.astype(np.float64)
            missing[place] |= np.isnan(numbers)
            np.fmin(low[place], numbers, out=low[place])
            np.fmax(high[place], numbers, out=high[place])
            np.maximum(spread[place], _distance(np, answers[place], other), out=spread[place])
    found: dict[str, Any] = {}
    for place, name in enumerate(runs.outputs):
        dtype = answers[place].dtype
        found |= {f"low/{name}": low[place].astype(dtype), f"high/{name}": high[place].astype(dtype)}
        found |= {f"spread/{name}": spread[place].astype(np.float32), f"missing/{name}": missing[place]}
    return found | runs.exact(inputs, size, answers)


def _nudged(np: Any, generator: Any, values: Any) -> Any:
    if values.dtype.kind != "f":
        return values
    off = generator.uniform(-_SHIFT, _SHIFT, values.shape) * np.finfo(values.dtype).eps
    with np.errstate(all="ignore"):
        return values + values * off.astype(values.dtype)


def _distance(np: Any, first: Any, second: Any) -> Any:
    """|first - second|; infinite between a number and NaN, and between integers that differ."""
    if first.dtype.kind != "f":
        return np.where(first == second, 0.0, np.inf)
    with np.errstate(all="ignore"):
        distance = np.abs(first.astype(np.float64) - second.astype(np.float64))
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))
