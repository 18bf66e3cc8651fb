"""Layers whose numbers are sums of three numbers of bfloat16, in programs whose author asks for them."""

from __future__ import annotations

from tfaot_pkg.compiler.bfloat16 import PARTS
from tfaot_pkg.compiler.passes.reduce_precision import in_parts
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def in_float32x6(look: Look, operation: Operation) -> Operation | None:
    return in_parts(look, operation, PARTS["float32x6"])
