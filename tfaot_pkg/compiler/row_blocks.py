"""Loops of the model that take a few rows at a time: all iterations for these rows, then for the next ones.

The steps of a row lie side by side, and those of different rows far apart, often by a multiple of 4 KiB. An iteration
for many rows touches a cache line of each: lines of one set of the cache, whose loads also wait for stores to another
array. With a few rows, each line is read and written once: a linear recurrence (64 steps of 16 elements, AVX-512) takes
5.3 us for 16 rows instead of 8.3, two states of 24 elements 4.2 instead of 10.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tfaot_pkg.compiler.elements import Place, Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import ELEMENTWISE, MOVING
from tfaot_pkg.compiler.iterations import exact_iterations_of
from tfaot_pkg.compiler.loops import ForBlocks
from tfaot_pkg.compiler.pieces import OfRows
from tfaot_pkg.compiler.program import ROWS, ZERO, Operation, Region, Shape, Size

_ELEMENTS = 128
"""What an iteration should at least write, so that vectors need not wait for one another: eight vectors of AVX-512."""
_OF_ROWS = frozenset({*ELEMENTWISE, *MOVING, "dynamic-update-slice", "reduce", "constant", "parameter"})
"""Layers and products are left out: they take as many rows as they can get."""


def rows_at_once(emitter: Emitter, loop: Operation) -> int | None:
    """How many rows `loop` should take at a time; None if it should take all, or must."""
    if not emitter.is_outermost or not _takes_steps(emitter, loop) or not _is_separable(emitter, loop):
        return None
    written = _written(emitter, loop.regions[0])
    return -(-_ELEMENTS // written.constant) if written.is_constant and written.constant else None


def _takes_steps(emitter: Emitter, loop: Operation) -> bool:
    """Whether iterations read or write steps of arrays, and nothing in them gains by many rows."""
    inside = [each for region in loop.regions for each in region.everything()]
    by_steps = any(each.opcode == "dynamic-slice" or each.id in emitter.selection.in_place for each in inside)
    return by_steps and _OF_ROWS.issuperset(each.opcode for each in inside)


def _is_separable(emitter: Emitter, loop: Operation) -> bool:
    """Whether what a loop reads and leaves can be cut into blocks of rows."""
    # One that ends by what it computes would end for each block of its own.
    if exact_iterations_of(loop, emitter.known) is None:
        return False
    read = [each for each in emitter.known.values() if each.opcode == "get-tuple-element"]
    if any(each.operands[0] == loop.id and not each.shape.rank for each in read):
        return False
    captured = [emitter.known[value].shape for value in loop.captured()]
    return all(map(_has_rows_first, [*captured, *(each.shape for each in loop.regions[0].parameters)]))


def _written(emitter: Emitter, body: Region) -> Size:
    """The elements of each row that an iteration writes."""
    written = ZERO
    for result, parameter in zip(body.results, body.parameters, strict=True):
        if result != parameter.id and parameter.shape.rank:
            is_part = result in emitter.selection.in_place
            value = emitter.known[result].operands[1] if is_part else result
            written = written + emitter.known[value].shape.elements.per_row
    return written


def _has_rows_first(shape: Shape) -> bool:
    """Whether each row is a part of the array, or the array is the same for all rows."""
    if not shape.elements.grows:
        return True
    return shape.sizes[0] == ROWS and shape.elements.per_row.is_constant


@contextmanager
def in_blocks(emitter: Emitter, rows: int, arrays: Mapping[str, Size]) -> Iterator[None]:
    """Code of the block is run for at most `rows` rows at a time, which are `n` there.

    The names of `arrays`, of which each row has a number of elements, are those of these rows.
    """
    with emitter.block():
        emitter.declare("all", Variable("n"), kind="const std::size_t")
        for name, elements in arrays.items():
            emitter.declare(f"all_{name}", Place(name, elements=elements * ROWS), kind="auto* const")
        with emitter.block(ForBlocks("first", "all", rows)):
            left = (Variable("all"), " - ", Variable("first"))
            count = (*left, f" < {rows} ? ", *left, f" : {rows}")
            emitter.declare("n", *count, kind="const std::size_t", may_be_unused=True)
            for name, elements in arrays.items():
                start = OfRows(f"all_{name}", "first", elements)
                emitter.declare(name, start, kind="auto* const", may_be_unused=True)
            yield
