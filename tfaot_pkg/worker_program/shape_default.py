"""What holds of the results of any operation, by what it does to the positions and numbers of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import folding
from polynomials import BATCH
from shape_operations import BY_POSITION, LINEAR, OF_MATRICES, OF_SHAPE, REARRANGING
from shape_slices import is_within_rows, rearranged
from shape_values import (
    CONSTANT,
    DATA,
    Choice,
    Computed,
    Spread,
    all_known,
    choice_of,
    growing,
    is_folded,
    of_constant,
    sizes_of,
)

if TYPE_CHECKING:
    from shape_transfer import Step
    from shape_values import Content


def default(step: Step) -> Content | Sequence[Content]:
    """What holds of the results of any operation, by what it does to the positions and numbers of its operands."""
    contents = step.contents
    if (found := next(filter(None, map(choice_of, contents)), None)) is not None:
        return found
    shapes = OF_SHAPE.get(step.op.type, ())
    contents = [CONSTANT if place in shapes else each for place, each in enumerate(contents)]
    if not all(map(is_folded, contents)) or step.op.op_def.is_stateful:
        return DATA
    sizes = frozenset().union(*map(sizes_of, contents))
    if any(isinstance(each, Computed) for each in contents):
        return Computed(sizes)
    if (results := numbers(step)) is not None:
        return results
    return _spread(step, contents, sizes)


def _spread(step: Step, contents: list[Content], sizes: frozenset[str]) -> Content:
    """Of arrays whose elements are not followed one by one."""
    kind, spread = step.op.type, [each for each in contents if isinstance(each, Spread)]
    if kind in ("Sum", "Prod") and (found := _summed(step, contents[0])) is not None:
        return found
    if kind == "Mul" and (found := _product(step, contents)) is not None:
        return found
    is_placed, is_bent, is_inverse = (
        any(getattr(each, name) for each in spread) for name in ("is_placed", "is_bent", "is_inverse")
    )
    grown = frozenset().union(*(growing(each.shape) for each in step.operands))
    after = _after(step, Spread(sizes, is_placed, is_bent, is_inverse), grown)
    if isinstance(after, Choice):
        return after
    is_mixed = after.is_inverse and (kind in ("Add", "AddV2", "Sub", "AddN", "Mul", "Sum") or kind not in LINEAR)
    if (after.is_bent and after.sizes) or is_mixed:
        return step.choice(after.sizes or grown)
    # A compiler may compute all of it for the traced sizes, and programs repeat or continue what they see of rows.
    if after.is_bent and BATCH in (over := growing(step.shapes[0])):
        return step.choice(over)
    return after


def _after(step: Step, before: Spread, grown: frozenset[str]) -> Spread | Choice:
    """What `before`, all operands together, becomes by the kind of the operation; they have axes of sizes `grown`."""
    kind = step.op.type
    if kind in REARRANGING:
        moved = rearranged(step)
        if isinstance(moved, Choice):
            return moved
        sizes, moves, cuts = moved
        return replace(
            before,
            sizes=before.sizes | sizes,
            is_placed=before.is_placed or moves,
            is_bent=before.is_bent or cuts,
        )
    if kind in ("Mul", "Prod"):
        return before
    if kind in BY_POSITION:
        on_diagonals = kind in OF_MATRICES and bool(growing((step.shapes[0] or (None,))[-2:]))
        is_placed = before.is_placed or on_diagonals
        return replace(before, is_placed=is_placed, is_bent=before.is_bent or is_placed or bool(before.sizes))
    if kind in LINEAR or not (grown or before.sizes):
        return before
    if before.is_placed or before.sizes or not is_within_rows(step):
        return step.choice(grown | before.sizes)
    return before


def _summed(step: Step, content: Content) -> Content | None:
    """Of a sum or a product over axes; None if these have no open size."""
    over = growing(step.operands[0].shape)
    if not over:
        return None if step.op.type == "Sum" or not sizes_of(content) else step.choice(sizes_of(content))
    is_plain = step.op.type == "Sum" and isinstance(content, Spread) and not content.is_bent and not content.sizes
    return Spread(over, is_placed=True) if is_plain else step.choice(over | sizes_of(content))


def _product(step: Step, contents: list[Content]) -> Content | None:
    """Of a product; None if it is linear in sizes and positions."""
    (one, two), (first, second) = map(sizes_of, contents), (each.positions for each in step.operands)
    if one and two:
        return step.choice(one | two)
    if first and second:
        return (
            Spread(is_placed=True, is_bent=True)
            if not one | two and BATCH not in first | second
            else step.choice(one | two | first | second)
        )
    return None


def numbers(step: Step) -> Sequence[Content] | None:
    """The results of an operation on small constants, from TensorFlow; None if they are not known."""
    arrays = [array for each in all_known(step.contents) or () if (array := each.numbers) is not None]
    if len(arrays) < len(step.contents) or not arrays or step.op.op_def.is_stateful:
        return None
    found = folding.run(step.op, arrays)
    return None if found is None else [of_constant(each) for each in found]
