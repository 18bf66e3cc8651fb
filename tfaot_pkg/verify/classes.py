"""Classes of inputs: what validation tries beside the user's inputs, drawn from the spec's seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.signature import DType, Signature, Tensor

MAIN = "main"
"""The user's file, or random rows: what `validation.samples` speaks of."""

BRANCHES = "branches"
"""Inputs that take sides of branches: found by TensorFlow (worker_program/branches.py), not drawn here."""

ARRANGED = "arranged"
"""Rows of the main class again, in other places, with other neighbours and repeated (rows.py)."""

ROWS = 8
"""Rows of each class, at least; as many as the largest batch size where that is more."""

_FLOATS = (DType.FLOAT32, DType.FLOAT64)
_SCALE = 1000.0
_LARGE = (1e4, 1e6, 1e8)
_HUGE = (1e15, 1e20, 1e30)
"""Their squares overflow: rules of infinity and NaN, and the order of operations, decide."""
_SUBNORMAL = 1e-2  # of the smallest normal number
_SHARE_OF_SPECIAL = 0.4


def is_drawn_for(name: str, signature: Signature) -> bool:
    """Whether the class has anything to change among the inputs of `signature`."""
    kinds = {tensor.dtype in _FLOATS for tensor in signature.inputs if tensor.dtype is not DType.BOOL}
    return (name != "integers") in kinds


def drawn(name: str, signature: Signature, *, seed: int, rows: int) -> dict[str, Array]:
    """One array per input, batch axis first where there is one. Inputs that the class is not about are drawn as usual:
    floats from the standard normal distribution, integers and booleans from {0, 1}.
    """
    generator = np.random.default_rng([seed, *name.encode()])
    return {tensor.name: _draw(generator, name, tensor, rows) for tensor in signature.inputs}


def _draw(generator: np.random.Generator, name: str, tensor: Tensor, rows: int) -> Array:
    shape, dtype = tensor.shape_at(rows), np.dtype(tensor.dtype.value)
    if tensor.dtype in _FLOATS:
        return _floats(generator, name, shape, dtype)
    usual = generator.integers(0, 2, shape).astype(dtype)
    if name != "integers" or tensor.dtype is DType.BOOL:
        return usual
    special = generator.choice(_special_integers(dtype), shape)
    # Some rows hold nothing that TensorFlow refuses: small numbers are in the range of most tables.
    small = generator.integers(0, 4, shape).astype(dtype)
    row = np.arange(shape[0]) if tensor.has_batch_axis else np.zeros(1)
    return np.where((row % 2 == 0).reshape(-1, *[1] * (len(shape) - 1)) if shape else True, small, special)


def _special_integers(dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    values = {limits.min, limits.min + 1, -1, 0, 1, 2, 7, 100, limits.max - 1, limits.max}
    return np.array(sorted(value for value in values if limits.min <= value <= limits.max), dtype)


def _floats(generator: np.random.Generator, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    limits = np.finfo(dtype)
    normal = generator.standard_normal(shape)
    with np.errstate(all="ignore"):
        match name:
            case "scaled":
                values = _SCALE * normal
            case "large" | "huge":
                # One size per row: sums of numbers of one size are what tells right from wrong.
                size = generator.choice(_LARGE if name == "large" else _HUGE, [*shape[:1], *[1] * (len(shape) - 1)])
                values = np.copysign(size * generator.uniform(0.5, 1, shape), normal)
            case "subnormal":
                values = normal * float(limits.smallest_normal) * _SUBNORMAL
            case "boundary":
                most, least = float(limits.max), float(limits.smallest_normal)
                values = generator.choice([0.0, -0.0, 1.0, -1.0, most, -most, least, -least], shape)
            case "nonfinite":
                special = generator.choice([np.nan, np.inf, -np.inf], shape)
                values = np.where(generator.random(shape) < _SHARE_OF_SPECIAL, special, normal)
            case _:
                values = normal
        return np.asarray(values).astype(dtype)
