"""Dense layers whose many weights are bytes with a scale of each output, in programs whose author asks for them."""

from __future__ import annotations

from tfaot_pkg.compiler.narrow import in_steps
from tfaot_pkg.compiler.passes.narrow_weights import narrowed
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def with_int8_weights(look: Look, operation: Operation) -> Operation | None:
    return narrowed(look, operation, in_steps)
