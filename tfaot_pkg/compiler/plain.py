"""Loops that compute one element after the other with any region of a model: sorts and scatters among them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.attributes import Dimensions, Indexed, Scatter
from tfaot_pkg.compiler.elements import Place, Pointed, Scalar, Stored, Variable
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.loops import For, Lambda, Let, View, Within
from tfaot_pkg.compiler.pieces import Entry, Unsigned
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Region, Size


@contextmanager
def counting(emitter: Emitter, counters: Sequence[tuple[str, Size]]) -> Iterator[None]:
    """A loop for each counter, the last one innermost."""
    emitter.flush()  # otherwise waiting values would be computed within this loop, or never
    with ExitStack() as stack:
        for name, size in counters:
            stack.enter_context(emitter.block(For(name, size, is_unused=True)))
        yield


def address(pointer: str, *steps: tuple[str, Size], elements: Size = ONE, stride: Size = ONE) -> Place:
    """`pointer` plus steps; each is a variable times a number of elements. From there, `elements` are in use."""
    return Place(pointer, steps, elements, stride)


def called(emitter: Emitter, region: Region, arguments: Sequence[Scalar]) -> list[Scalar]:
    """The results of `region` for scalar arguments; its statements are written here."""
    for parameter, argument in zip(region.parameters, arguments, strict=True):
        emitter.scalars[parameter.id] = argument
    emitter.region(region)
    return [emitter.scalar(result) for result in region.results]


def targets(emitter: Emitter, operation: Operation) -> list[str]:
    """Memory for all results of `operation`."""
    if not isinstance(operation.type, tuple):
        return [emitter.target(operation)]
    return [emitter.buffer(shape.dtype, shape.elements) for shape in operation.shapes]


def states(operation: Operation, pointers: Sequence[str]) -> list[State]:
    return [State(pointer, shape, (pointer,)) for pointer, shape in zip(pointers, operation.shapes, strict=True)]


def sort(emitter: Emitter, operation: Operation) -> str:
    return _sorted(emitter, operation)[0]


def sort_together(emitter: Emitter, operation: Operation) -> None:
    """Several arrays, sorted by one comparison."""
    emitter.results[operation.id] = states(operation, _sorted(emitter, operation))


def _sorted(emitter: Emitter, operation: Operation) -> list[str]:
    """The order of the elements' indices is found first, then all arrays are copied in that order."""
    # HLO's comparator reads elements of all arrays, so none may move before the order is known.
    (axis,), shape = Dimensions.of(operation).dimensions, operation.shapes[0]
    sources, made = [emitter.stored(operand) for operand in operation.operands], targets(emitter, operation)
    size, stride = shape.sizes[axis], shape.strides[axis]
    rooms = [emitter.buffer("s32", size) for _ in range(2)]
    for pointer in (*sources, *rooms, *made):
        emitter.touch(pointer)
    others = [other for other in range(shape.rank) if other != axis]
    # A loop of one iteration if there is no other axis: a scope of its own for the declarations.
    with counting(emitter, [(f"o{other}", shape.sizes[other]) for other in others] or [("once", ONE)]):
        steps = [(f"o{other}", shape.strides[other]) for other in others]
        for number, (source, target) in enumerate(zip(sources, made, strict=True)):
            from_, to = (address(each, *steps, elements=size, stride=stride) for each in (source, target))
            emitter.declare(f"from{number}", from_, kind="const auto* const")
            emitter.declare(f"to{number}", to, kind="auto* const")
        one, other = (address(room, elements=size) for room in rooms)
        head = ("stableOrder(", size, ", ", one, ", ", other, ", ")
        counts = (("left", size), ("right", size))
        with emitter.block(
            Lambda(head, "std::int32_t left, std::int32_t right", counts=counts, name="order", kind="const auto* const")
        ):
            arguments: list[Scalar] = []
            for number, each in enumerate(operation.shapes):
                for side in ("left", "right"):
                    name, element = f"{side}{number}", Entry(f"from{number}", Unsigned(Variable(side), size), stride)
                    arguments.append(Variable(name))
                    emitter.declare(name, element, kind=f"const {C_TYPES[each.dtype]}", may_be_unused=True)
            (result,) = called(emitter, operation.regions[0], arguments)
            emitter.give(result)
        emitter.add(View("order", (ONE,), (size,)))
        with counting(emitter, [("i", size)]):
            for number in range(len(made)):
                place = Unsigned(Entry("order", "i"), size)
                emitter.store(Entry(f"to{number}", "i", stride), Entry(f"from{number}", place, stride))
    for pointer in (*sources, *rooms, *made):
        emitter.touch(pointer)
    return made


def scatter(emitter: Emitter, operation: Operation) -> str:
    return _scattered(emitter, operation)[0]


def scatter_together(emitter: Emitter, operation: Operation) -> None:
    """A scatter into several arrays at once."""
    emitter.results[operation.id] = states(operation, _scattered(emitter, operation))


def _scattered(emitter: Emitter, operation: Operation) -> list[str]:
    """One update after the other, in the order of their indices; as in HLO, those out of bounds are skipped."""
    half = len(operation.operands) // 2
    updates = [emitter.known[operand].shape for operand in operation.operands[half + 1 :]]
    index = emitter.stored(operation.operands[half])
    sources = [emitter.stored(operand) for operand in operation.operands[half + 1 :]]
    made = targets(emitter, operation)
    for operand, target, shape in zip(operation.operands, made, operation.shapes, strict=False):
        emitter.loop(shape.sizes, [(operand, target, Index(ZERO, shape.strides))])
    attributes, shape = Scatter.of(operation), operation.shapes[0]
    outer = [axis for axis in range(updates[0].rank) if axis not in attributes.window]
    single = {*attributes.inserted, *attributes.operand_batch}
    windows = dict(zip((axis for axis in range(shape.rank) if axis not in single), attributes.window, strict=True))
    # A loop of one iteration if there is one update, so that `continue` can skip it.
    with counting(emitter, [(f"u{axis}", updates[0].sizes[axis]) for axis in outer] or [("once", ONE)]):
        _starts(emitter, operation, index, outer)
        for axis in attributes.indexed:
            width = updates[0].sizes[windows[axis]] if axis in windows else ONE
            start, most = (
                Variable(f"start{axis}"),
                ("std::ptrdiff_t(", shape.sizes[axis], ") - std::ptrdiff_t(", width, ")"),
            )
            emitter.leave("continue", start, " < 0 || ", start, " > ", *most)
            emitter.add(Within(f"start{axis}", shape.sizes[axis] + ONE + width * Size(-1)))
        with counting(emitter, [(f"u{axis}", updates[0].sizes[axis]) for axis in attributes.window]):
            places = _places(operation, windows)
            for number, target in enumerate(made):
                emitter.declare(f"to{number}", address(target, *places), kind="auto* const")
            news = [
                Stored(address(source, *((f"u{axis}", stride) for axis, stride in enumerate(update.strides))))
                for source, update in zip(sources, updates, strict=True)
            ]
            # HLO does not define the order of updates; XLA's code for CPUs applies them in this one.
            results = called(emitter, operation.regions[0], [*(Pointed(f"to{i}") for i in range(len(made))), *news])
            for number, (result, each) in enumerate(zip(results, operation.shapes, strict=True)):
                emitter.declare(f"new{number}", result, kind=f"const {C_TYPES[each.dtype]}")
            for number in range(len(made)):
                emitter.store(Pointed(f"to{number}"), Variable(f"new{number}"))
    for pointer in (index, *sources, *made):
        emitter.touch(pointer)
    return made


def _starts(emitter: Emitter, operation: Operation, index: str, outer: list[int]) -> None:
    """Declare start0, start1 ...: the start of an update's window along each axis of the array that has an index."""
    attributes, half = Indexed.of(operation), len(operation.operands) // 2
    indices, vector = emitter.known[operation.operands[half]].shape, attributes.vector
    axes = [axis for axis in range(indices.rank) if axis != vector]
    counters = {axis: f"u{update}" for axis, update in zip(axes, outer, strict=True)}
    steps = ((counters[axis], indices.strides[axis]) for axis in axes)
    step, count = (indices.strides[vector], indices.sizes[vector]) if vector < indices.rank else (ONE, ONE)
    at = address(index, *steps, elements=count, stride=step)
    emitter.declare("index", at, kind=f"const {C_TYPES[indices.dtype]}* const", may_be_unused=True)
    for number, axis in enumerate(attributes.indexed):
        emitter.declare(f"start{axis}", "static_cast<std::ptrdiff_t>(", Entry("index", step * Size(number)), ")")
    for axis, among in zip(attributes.operand_batch, attributes.index_batch, strict=True):
        emitter.declare(f"start{axis}", "static_cast<std::ptrdiff_t>(", Variable(counters[among]), ")")
        emitter.add(Let(f"start{axis}", ((counters[among], ONE),)))


def _places(operation: Operation, windows: dict[int, int]) -> list[tuple[str, Size]]:
    attributes, strides = Indexed.of(operation), operation.shapes[0].strides
    known = {*attributes.indexed, *attributes.operand_batch}
    starts = [(f"start{axis}", strides[axis]) for axis in sorted(known)]
    return [*starts, *((f"u{window}", strides[axis]) for axis, window in windows.items())]
