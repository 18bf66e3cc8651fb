"""Floats that become bytes by a known scale: divided by it, rounded, moved by a zero point, bounded and converted."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Quantize
from tfaot_pkg.compiler.passes.raise_quantized import rounded
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def quantize(look: Look, operation: Operation) -> Operation | None:
    made = rounded(look, operation)
    if made is None or look.known[made.value].shape.dtype != "f32":
        return None
    value, scale = made.value, 1.0
    if (quotient := look.made_by(value, "divide", once=True)) is not None:
        divisor = look.scalar(quotient.operands[1])
        if divisor is not None and 0 < divisor < math.inf:
            value, scale = quotient.operands[0], divisor
    # NaN becomes what int32 0 becomes, counted from `start`: the lowest number only here.
    if made.low != made.start:
        return None
    numbers = Quantize(scale=float(np.float32(scale)), zero=made.zero, low=made.low, high=made.high)
    return replace(operation, opcode="quantize", operands=(value,), attributes=numbers)
