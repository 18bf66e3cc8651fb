"""What branches, and loops of TensorFlow 1, give: one of several values (shape_analysis.py)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from shape_values import DATA, Choice, Computed, Value, is_folded, joined, sizes_of

if TYPE_CHECKING:
    import tensorflow as tf
    from shape_values import Content


def _entered(op: tf.Operation, operands: tuple[Value, ...]) -> list[Value]:
    """The beginning of a loop of TensorFlow 1: a number that every turn changes is not known."""
    (value,) = operands
    return [value]


def _merged(op: tf.Operation, operands: tuple[Value, ...]) -> list[Value]:
    value = either(operands)
    number = value.choice or (Computed(sizes_of(value.content)) if is_folded(value.content) else DATA)
    return [value, Value(number, (), value.chosen)]


def _switched(op: tf.Operation, operands: tuple[Value, ...]) -> list[Value]:
    value, condition = operands
    # How often a loop turns is found when it runs.
    is_loop = op.inputs[1].op.type == "LoopCond"
    found = condition.choice or (None if is_loop else decided_early(op, condition.content))
    return [Value(found, value.shape, found) if found else value] * len(op.outputs)


OLD = {
    **dict.fromkeys(("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration"), _entered),
    **dict.fromkeys(("Merge", "RefMerge"), _merged),
    **dict.fromkeys(("Switch", "RefSwitch"), _switched),
}
"""Control flow of TensorFlow 1."""


def either(values: Iterable[Value]) -> Value:
    first, *others = values
    for other in others:
        first = joined(first, other)
    return first


def decided_early(op: tf.Operation, content: Content) -> Choice | None:
    """A Choice if a compiler may decide a branch by sizes before the model runs."""
    if is_folded(content) and sizes_of(content):
        return Choice(op.name, op.type, sizes_of(content))
    return None
