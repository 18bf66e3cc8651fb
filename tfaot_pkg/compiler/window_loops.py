"""Loops over the elements of a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.each import each_lane
from tfaot_pkg.compiler.elements import Place, Scalar, Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.instructions import StoreLanes
from tfaot_pkg.compiler.loops import Let, Within
from tfaot_pkg.compiler.pieces import Piece, Total
from tfaot_pkg.compiler.plain import counting
from tfaot_pkg.compiler.program import ONE, ZERO, Size

WHOLE = (1, 1, 0, 0, 1, 1)
"""A window of single elements."""


@contextmanager
def window_loops(emitter: Emitter, window: Sequence[Sequence[Any]], lengths: Sequence[Size]) -> Iterator[None]:
    """Loops over the elements of the window at o0, o1 ...; p0, p1 ... are their indices, which are within the array."""
    sides = list(enumerate(zip(window, lengths, strict=True)))
    moving = [(axis, side, length) for axis, (side, length) in sides if tuple(side) != WHOLE]
    for axis, (side, _) in sides:
        if tuple(side) == WHOLE:
            for name, value in ((f"k{axis}", "0"), (f"p{axis}", Variable(f"o{axis}"))):
                emitter.declare(name, value, kind="const std::size_t", may_be_unused=True)
            emitter.add(Within(f"k{axis}", ONE))
            emitter.add(Let(f"p{axis}", ((f"o{axis}", ONE),)))
    emitter.flush()
    with ExitStack() as stack:
        for axis, side, length in moving:
            size, stride, low, high, dilation, base = map(as_size, side)
            stack.enter_context(counting(emitter, [(f"k{axis}", size)]))
            place: list[Piece] = [Variable(f"o{axis}"), " * ", stride, " + ", Variable(f"k{axis}"), " * ", dilation]
            is_positive = all(coefficient > 0 for _, coefficient in low.terms)
            # Unsigned, so an index before the array is a large number: one comparison checks both ends.
            place += [] if low == ZERO else [" - ", low] if is_positive else [" - std::size_t(", low, ")"]
            if low == high == ZERO and base == ONE:
                emitter.declare(f"p{axis}", *place, kind="const std::size_t")
                emitter.add(Let(f"p{axis}", ((f"o{axis}", stride), (f"k{axis}", dilation))))
                continue
            found = Variable(f"q{axis}")
            emitter.declare(f"q{axis}", *place, kind="const std::size_t")
            between: tuple[Piece, ...] = () if base == ONE else (" || ", found, " % ", base, " != 0")
            emitter.leave("continue", found, " >= ", length * base, *between)
            emitter.declare(f"p{axis}", found, *(() if base == ONE else (" / ", base)), kind="const std::size_t")
            emitter.add(Within(f"p{axis}", length))
        yield


@contextmanager
def totals(emitter: Emitter, size: Size, start: Scalar | str, by: str = "places") -> Iterator[None]:
    """A loop of the kernel library over `size` lanes, several vectors at a time, each with a total from `start` on."""
    with emitter.block(each_lane("eachTogether", size, f"[[maybe_unused]] auto... {by}")):
        emitter.declare("totals", Variable(by), ".fill(", start, ")", kind="Vector", form="lanes")
        yield


def store_totals(emitter: Emitter, by: str = "places") -> None:
    """Write the totals to `row`."""
    emitter.declare("sum", Variable("totals"), kind="const Vector*")
    emitter.put(StoreLanes(to=Place("row"), value=(Total("sum", is_left=True),), by=by, folded=True))
