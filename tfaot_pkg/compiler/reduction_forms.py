"""Which loops a reduction becomes, by its operation and the program alone."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tfaot_pkg.compiler.attributes import Dimensions
from tfaot_pkg.compiler.expressions import COMBINED, COMBINED_TRUTHS, WIDE_TYPES
from tfaot_pkg.compiler.program import Operation, reducer
from tfaot_pkg.compiler.reduction_loops import PARTIAL

_FUNCTIONS = {"f32": COMBINED, "f64": COMBINED, "pred": COMBINED_TRUTHS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Combined:
    """A reduction of one array by the kernel library's function `combine`, along the last axis if it is `by_rows`.

    `by_lanes` if results in the lanes of vectors are as good as rows, because the order makes no difference.
    """

    combine: str
    by_rows: bool
    by_lanes: bool


def combined(operation: Operation, known: Mapping[int, Operation]) -> Combined | None:
    """How the kernel library computes a reduction; None if its own region is computed, element by element."""
    if isinstance(operation.type, tuple):
        return None
    dtype, operand = operation.shape.dtype, known[operation.operands[0]].shape
    combine = _FUNCTIONS.get(dtype, {}).get(reducer(operation) or "")
    if combine is None or known[operation.operands[1]].opcode != "constant":
        return None
    dimensions = Dimensions.of(operation).dimensions
    by_rows = operand.rank - 1 in dimensions
    if dtype in WIDE_TYPES and not by_rows:
        return None
    sizes = [operand.sizes[axis] for axis in dimensions]
    is_short = all(size.is_constant for size in sizes) and math.prod(size.constant for size in sizes) <= PARTIAL
    # Truth values have no order of combining. Elements next to each other, as in rows of memory, stay in one vector.
    return Combined(combine=combine, by_rows=by_rows, by_lanes=dtype == "pred" and is_short)
