"""Reductions of windows over any number of axes, in any layout: nested loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Windows
from tfaot_pkg.compiler.elements import Place, Scalar, Stored, Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES, COMBINED
from tfaot_pkg.compiler.instructions import Accumulate, StoreLanes
from tfaot_pkg.compiler.loops import If, Let, Scope, Within
from tfaot_pkg.compiler.pieces import Loaded, Piece, Total
from tfaot_pkg.compiler.plain import address, called, counting, states, targets
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Size, reducer
from tfaot_pkg.compiler.rows import are_short, head
from tfaot_pkg.compiler.window_loops import WHOLE, store_totals, totals, window_loops


def reduce_window(emitter: Emitter, operation: Operation) -> str:
    if _by_vectors(operation):
        return _reduce_rows(emitter, operation)
    return _reduce_alone(emitter, operation)[0]


def reduce_windows(emitter: Emitter, operation: Operation) -> None:
    """A reduction of several arrays at once."""
    emitter.results[operation.id] = states(operation, _reduce_alone(emitter, operation))


def _by_vectors(operation: Operation) -> bool:
    """Whether windows are single elements along the last axis, and a function of the kernel library combines them."""
    if len(operation.operands) != 2 or operation.shape.dtype != "f32" or reducer(operation) not in COMBINED:
        return False
    return bool(Windows.of(operation).window) and tuple(Windows.of(operation).window[-1]) == WHOLE


def _reduce_rows(emitter: Emitter, operation: Operation) -> str:
    combine, shape = COMBINED[reducer(operation) or ""], operation.shape
    array = emitter.known[operation.operands[0]].shape
    source, start = emitter.stored(operation.operands[0]), emitter.scalar(operation.operands[1])
    (target,), outer = targets(emitter, operation), list(range(shape.rank - 1))
    size, window = shape.sizes[-1], Windows.of(operation).window
    if (running := _running(window, array.sizes, shape.sizes)) is not None:
        _reduce_running(emitter, operation, running, source, start, target)
        return target
    counted = [(f"o{axis}", shape.sizes[axis]) for axis in outer]
    if outer and _is_row(window[outer[-1]]) and size.is_constant:
        # Windows along the second last axis move by one element and see no padding: both axes are one row.
        size, counted[-1] = size * counted[-1][1], (counted[-1][0], ONE)
    elif outer and _is_short(window[outer[-1]], array.strides[outer[-1]], size):
        _reduce_short(emitter, operation, source, start, target)
        return target
    with emitter.block(), counting(emitter, counted):
        to = address(target, *((f"o{axis}", shape.strides[axis]) for axis in outer), elements=size)
        emitter.declare("row", to, kind="float* const")
        with totals(emitter, size, start):
            with window_loops(emitter, window[:-1], array.sizes[:-1]):
                steps = ((f"p{axis}", array.strides[axis]) for axis in outer)
                _combine_lanes(emitter, combine, address(source, *steps, elements=size))
            store_totals(emitter)
    for pointer in (source, target):
        emitter.touch(pointer)
    return target


def _reduce_running(
    emitter: Emitter, operation: Operation, running: _Running, source: str, start: Scalar, target: str
) -> None:
    """Windows of which each contains the one before it: the results so far stay in registers."""
    combine, shape = COMBINED[reducer(operation) or ""], operation.shape
    array, outer = emitter.known[operation.operands[0]].shape, range(shape.rank - 1)
    with (
        emitter.block(),
        counting(emitter, [(f"o{axis}", shape.sizes[axis]) for axis in outer if axis != running.axis]),
    ):
        size = shape.sizes[-1]
        with totals(emitter, size, start), running.windows(emitter, shape.sizes):
            with running.growing(emitter):
                steps = [(f"{'p' if axis == running.axis else 'o'}{axis}", array.strides[axis]) for axis in outer]
                _combine_lanes(emitter, combine, address(source, *steps, elements=size))
            to = address(target, *((f"o{axis}", shape.strides[axis]) for axis in outer), elements=size)
            emitter.declare("row", to, kind="float* const")
            store_totals(emitter)
    for pointer in (source, target):
        emitter.touch(pointer)


def _reduce_short(emitter: Emitter, operation: Operation, source: str, start: Scalar, target: str) -> None:
    """Rows of few elements: vectors hold those of several windows that follow one another."""
    combine, shape, window = COMBINED[reducer(operation) or ""], operation.shape, Windows.of(operation).window
    array, axis = emitter.known[operation.operands[0]].shape, shape.rank - 2
    step = as_size(window[axis][1]) * array.strides[axis]
    with emitter.block(), counting(emitter, [(f"o{each}", shape.sizes[each]) for each in range(axis)]):
        steps = [(f"o{each}", shape.strides[each]) for each in range(axis)]
        emitter.declare("row", address(target, *steps, elements=shape.strides[axis - 1]), kind="float* const")
        emitter.declare(f"o{axis}", "0", kind="constexpr std::size_t")
        emitter.add(Within(f"o{axis}", ONE))
        with emitter.block(head(shape.sizes[axis:])):
            emitter.declare("total", "at.fill(", start, ")", kind="Vector")
            with window_loops(emitter, window[:-1], array.sizes[:-1]):
                steps = [(f"p{each}", array.strides[each]) for each in range(axis + 1)]
                emitter.declare("in", address(source, *steps), kind="const float* const")
                total, loaded = Variable("total"), Loaded(Place("in"), (step, ONE))
                emitter.assign("total", f"{combine}{{}}(", total, ", ", loaded, ")")
            to, value = Place("row"), (Variable("total"),)
            emitter.put(StoreLanes(to=to, value=value, steps=(shape.sizes[-1], ONE), contiguous=True))
    for pointer in (source, target):
        emitter.touch(pointer)


def _combine_lanes(emitter: Emitter, combine: str, source: Place) -> None:
    """Combine the totals of all lanes with elements from `source` on."""
    emitter.declare("in", source, kind="const float* const")
    emitter.declare("total", Variable("totals"), kind="Vector*")
    emitter.put(Accumulate(value=(f"{combine}{{}}(", Total(), ", ", Loaded(Place("in"), by="places"), ")")))


def _is_short(side: Sequence[Any], stride: Size, size: Size) -> bool:
    """Whether windows along an axis hold short rows, not far apart, all inside of the array."""
    _, step, low, high, _, base = map(as_size, side)
    return base == ONE and low == high == ZERO and are_short(step * stride, size)


def _is_row(side: Sequence[Any]) -> bool:
    """Whether windows along an axis are one element apart, all inside the array."""
    _, stride, low, high, _, base = map(as_size, side)
    return stride == base == ONE and low == high == ZERO


def _reduce_alone(emitter: Emitter, operation: Operation) -> list[str]:
    """A reduction with any region, window by window; one running result if each window contains the one before it."""
    half = len(operation.operands) // 2
    arrays = [emitter.known[operand].shape for operand in operation.operands[:half]]
    sources = [emitter.stored(operand) for operand in operation.operands[:half]]
    starts = [emitter.scalar(operand) for operand in operation.operands[half:]]
    made, window, shape = targets(emitter, operation), Windows.of(operation).window, operation.shapes[0]
    names, types = [f"r{next(emitter.new)}" for _ in arrays], [C_TYPES[each.dtype] for each in arrays]
    running = _running(window, arrays[0].sizes, shape.sizes)
    places = [(f"o{axis}", size) for axis, size in enumerate(shape.sizes)]

    def combine() -> None:
        inside = [
            Stored(address(source, *((f"p{axis}", stride) for axis, stride in enumerate(array.strides))))
            for source, array in zip(sources, arrays, strict=True)
        ]
        is_backwards, totals = running is not None and running.backwards, map(Variable, names)
        arguments: list[Scalar] = [*inside, *totals] if is_backwards else [*totals, *inside]
        next_ = called(emitter, operation.regions[0], arguments)
        for type_, name, value in zip(types, names, next_, strict=True):
            emitter.declare(f"{name}_next", value, kind=f"const {type_}")
        for name in names:
            emitter.assign(name, Variable(f"{name}_next"))

    def write() -> None:
        for pointer, name in zip(made, names, strict=True):
            to = address(pointer, *((f"o{axis}", stride) for axis, stride in enumerate(shape.strides)))
            emitter.store(Stored(to), Variable(name))

    outer = [place for axis, place in enumerate(places) if running is None or axis != running.axis]
    with counting(emitter, outer):
        for type_, name, start in zip(types, names, starts, strict=True):
            emitter.declare(name, start, kind=type_)
        if running is None:
            with window_loops(emitter, window, arrays[0].sizes):
                combine()
            write()
        else:
            with running.windows(emitter, shape.sizes):
                for axis in range(shape.rank):
                    if axis != running.axis:
                        own = Variable(f"o{axis}")
                        emitter.declare(f"p{axis}", own, kind="const std::size_t", may_be_unused=True)
                        emitter.add(Let(f"p{axis}", ((f"o{axis}", ONE),)))
                with running.growing(emitter):
                    combine()
                write()
    for pointer in (*sources, *made):
        emitter.touch(pointer)
    return made


@dataclass(frozen=True, slots=True)
class _Running:
    """An axis along which each window contains the one before it, as in a running sum: one step makes it of that one.

    TensorFlow lowers cumsum to windows as long as the axis, which would take quadratic time.
    """

    axis: int
    size: Size
    """That of the axis."""
    empty: Size
    """Windows without elements, which come first."""
    backwards: bool
    """Whether windows end with the last element, so that the last one comes first."""

    @contextmanager
    def windows(self, emitter: Emitter, sizes: Sequence[Size]) -> Iterator[None]:
        """A loop over the windows: o of the axis is its place, t how many came before."""
        size = sizes[self.axis]
        with counting(emitter, [("t", size)]):
            before: tuple[Piece, ...] = (size, " - 1 - ") if self.backwards else ()
            emitter.declare(f"o{self.axis}", *before, Variable("t"), kind="const std::size_t")
            emitter.add(Within(f"o{self.axis}", size))
            yield

    @contextmanager
    def growing(self, emitter: Emitter) -> Iterator[None]:
        """Its new element is at p of the axis."""
        rest: tuple[Piece, ...] = () if self.backwards or self.empty == ZERO else (" - ", self.empty)
        with emitter.block(Scope() if self.empty == ZERO else If((Variable("t"), " >= ", self.empty))):
            emitter.declare(f"p{self.axis}", Variable(f"o{self.axis}"), *rest, kind="const std::size_t")
            emitter.add(Within(f"p{self.axis}", self.size))
            yield


def _running(window: Sequence[Sequence[Any]], sizes: Sequence[Size], made: Sequence[Size]) -> _Running | None:
    moving = [axis for axis, side in enumerate(window) if tuple(side) != WHOLE]
    if len(moving) != 1:
        return None
    (axis,) = moving
    size, stride, low, high, dilation, base = map(as_size, window[axis])
    empty = made[axis] + Size(-1) * size
    if not (stride == dilation == base == ONE and sizes[axis] == size and empty.is_constant and empty.constant >= 0):
        return None
    padding = size + empty + Size(-1)
    if (low, high) == (padding, ZERO):
        return _Running(axis, size, empty, backwards=False)
    return _Running(axis, size, empty, backwards=True) if (low, high) == (ZERO, padding) else None
