"""Arrays with one kind of zero."""

from __future__ import annotations

from tfaot_pkg.compiler.attributes import Comparison, in_total_order
from tfaot_pkg.compiler.use_def import Look


def of_one_zero(look: Look, value: int) -> int | None:
    """The array that `value` is, with 0.0 for -0.0 (rewrites.py), if it is one.

    The kernel library gives its elements instead: they are equal, and zeros keep their signs, as in TensorFlow.
    """
    select = look.made_by(value, "select")
    if select is None:
        return None
    compare, x = look.known[select.operands[0]], select.operands[2]
    if compare.opcode != "compare" or compare.operands[0] != x or Comparison.of(compare).direction != "EQ":
        return None
    is_zero = not in_total_order(compare) and look.scalar(compare.operands[1]) == 0
    return x if is_zero and look.scalar(select.operands[1]) == 0 else None
