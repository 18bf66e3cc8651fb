"""What compiled code gives where a framework leaves an operation's result open, computed with NumPy and not by it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from messages.unspecified_results import CONVERSION, OPERATIONS, SHIFT

if TYPE_CHECKING:
    from framework_types import Array

FREEDOMS = (CONVERSION, SHIFT)
"""Those whose results are defined here."""


def is_defined(operation: str) -> bool:
    return any(operation in OPERATIONS[freedom] for freedom in FREEDOMS)


def converted(x: Array, to: np.dtype[Any]) -> Array:
    """The nearest integer of the type `to`, and 0 for NaN; other types as NumPy converts them."""
    if x.dtype.kind != "f" or to.kind not in "iu":
        return x.astype(to)
    limits, whole = np.iinfo(to), np.trunc(x.astype(np.float64))
    # The largest integer of 64 bits is no float: what is rounded up to 2**63 is out of range.
    below, above = whole < float(limits.min), whole >= float(limits.max) + 1
    made = np.where(below | above | np.isnan(whole), 0, whole).astype(to)
    made[below], made[above] = limits.min, limits.max
    return made


def shifted(x: Array, count: Array, *, to_left: bool) -> Array:
    """`x` shifted by any number of bits, negative ones as very many: nothing of it is left but its sign."""
    bits = 8 * x.dtype.itemsize
    inside = (count >= 0) & (count < bits)
    some = np.where(inside, count, 0).astype(x.dtype)
    made = x << some if to_left else x >> some
    nothing = np.zeros_like(made) if to_left or x.dtype.kind == "u" else -(x < 0).astype(made.dtype)
    return np.where(inside, made, nothing)
