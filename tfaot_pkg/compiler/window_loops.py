"""Loops over the elements of a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tfaot_pkg.compiler.affine import as_size, cpp
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.loops import Let, Within
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
            emitter.line(f"[[maybe_unused]] const std::size_t k{axis} = 0, p{axis} = o{axis};")
            emitter.add(Within(f"k{axis}", ONE))
            emitter.add(Let(f"p{axis}", ((f"o{axis}", ONE),)))
    emitter.flush()
    with ExitStack() as stack:
        for axis, side, length in moving:
            size, stride, low, high, dilation, base = map(as_size, side)
            stack.enter_context(counting(emitter, [(f"k{axis}", size)]))
            place = f"o{axis} * {cpp(stride)} + k{axis} * {cpp(dilation)}"
            before = cpp(low) if all(coefficient > 0 for _, coefficient in low.terms) else f"std::size_t({cpp(low)})"
            # Unsigned, so an index before the array is a large number: one comparison checks both ends.
            place = place if low == ZERO else f"{place} - {before}"
            if low == high == ZERO and base == ONE:
                emitter.declare(f"p{axis}", place, kind="const std::size_t")
                emitter.add(Let(f"p{axis}", ((f"o{axis}", stride), (f"k{axis}", dilation))))
                continue
            emitter.declare(f"q{axis}", place, kind="const std::size_t")
            inside = f"q{axis} >= {cpp(length * base)}"
            emitter.leave("continue", f"{inside}{f' || q{axis} % {cpp(base)} != 0' if base != ONE else ''}")
            emitter.declare(f"p{axis}", f"q{axis}{f' / {cpp(base)}' if base != ONE else ''}", kind="const std::size_t")
            emitter.add(Within(f"p{axis}", length))
        yield
