"""Random numbers of classes of inputs, by the rules of tfaot_pkg/verify/inputs.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def floats_of(name: str, generator: Any, shape: Sequence[int], dtype: Any) -> Any:
    """Floats of a class, as tfaot_pkg/verify/inputs.py draws them (a test compares both)."""
    import numpy as np

    limits = np.finfo(dtype)
    normal = generator.standard_normal(shape)
    with np.errstate(all="ignore"):
        if name == "scaled":
            values = 1000.0 * normal
        elif name in ("large", "huge"):
            magnitudes = (1e4, 1e6, 1e8) if name == "large" else (1e15, 1e20, 1e30)
            size = generator.choice(magnitudes, [*shape[:1], *[1] * (len(shape) - 1)])
            values = np.copysign(size * generator.uniform(0.5, 1, shape), normal)
        elif name == "subnormal":
            values = normal * float(limits.smallest_normal) * 1e-2
        elif name == "boundary":
            most, least = float(limits.max), float(limits.smallest_normal)
            values = generator.choice([0.0, -0.0, 1.0, -1.0, most, -most, least, -least], shape)
        elif name == "nonfinite":
            special = generator.choice([np.nan, np.inf, -np.inf], shape)
            values = np.where(generator.random(shape) < 0.4, special, normal)
        else:
            values = normal
        return np.asarray(values).astype(dtype)


def beyond(np: Any, generator: Any, ends: tuple[float, float], dtype: Any, shape: Sequence[int]) -> Any:
    """Integers just out of range."""
    size, limits = int(ends[1]) + 1, np.iinfo(dtype)
    near = [int(ends[0]) - 1, -size, -size - 1, size, size + 1]
    return generator.choice(np.clip(near, max(limits.min, -(1 << 53)), min(limits.max, 1 << 53)), shape).astype(dtype)
