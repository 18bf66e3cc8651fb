"""A choice of a NaN for each NaN."""

from __future__ import annotations

import math
from dataclasses import replace

from tfaot_pkg.compiler.attributes import Comparison
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def one_nan(look: Look, operation: Operation) -> Operation | None:
    """A choice of a NaN for each NaN, as what reads ONNX's TopK writes it."""
    if operation.opcode != "select" or operation.shape.dtype not in ("f32", "f64"):
        return None
    compare, x = look.made_by(operation.operands[0], "compare"), operation.operands[2]
    number = look.scalar(operation.operands[1])
    if compare is None or Comparison.of(compare).direction != "NE" or compare.operands != (x, x):
        return None
    if number is None or not math.isnan(number) or math.copysign(1, number) < 0:
        return None
    return replace(operation, opcode="one-nan", operands=(x,))
