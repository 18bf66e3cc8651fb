"""Dense layers whose many weights are bfloat16 in memory, in programs whose author asks for them."""

from __future__ import annotations

from tfaot_pkg.compiler.bfloat16 import rounded
from tfaot_pkg.compiler.passes.narrow_weights import narrowed
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def with_bfloat16_weights(look: Look, operation: Operation) -> Operation | None:
    return narrowed(look, operation, lambda weights: (rounded(weights),))
