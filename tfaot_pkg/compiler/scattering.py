"""Scatters: elements of one array combined with those of another at computed places."""

from __future__ import annotations

from tfaot_pkg.compiler.affine import Index, cpp
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.plain import address, called, counting, states, targets
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Size


def scatter(emitter: Emitter, operation: Operation) -> str:
    return _scattered(emitter, operation)[0]


def scatter_together(emitter: Emitter, operation: Operation) -> None:
    """Into several arrays at once."""
    emitter.results[operation.id] = states(operation, _scattered(emitter, operation))


def _scattered(emitter: Emitter, operation: Operation) -> list[str]:
    """One update after the other, in the order of their indices; those that would reach outside are left out."""
    half = len(operation.operands) // 2
    updates = [emitter.known[operand].shape for operand in operation.operands[half + 1 :]]
    index = emitter.stored(operation.operands[half])
    sources = [emitter.stored(operand) for operand in operation.operands[half + 1 :]]
    made = targets(emitter, operation)
    for operand, target, shape in zip(operation.operands, made, operation.shapes, strict=False):
        emitter.loop(shape.sizes, [(operand, target, Index(ZERO, shape.strides))])
    attributes, shape = operation.attributes, operation.shapes[0]
    outer = [axis for axis in range(updates[0].rank) if axis not in attributes["window"]]
    single = {*attributes["inserted"], *attributes["operand_batch"]}
    windows = dict(zip((axis for axis in range(shape.rank) if axis not in single), attributes["window"], strict=True))
    # One turn if there is one update: it can be left out.
    with counting(emitter, [(f"u{axis}", updates[0].sizes[axis]) for axis in outer] or [("once", ONE)]):
        _starts(emitter, operation, index, outer)
        for axis in attributes["indexed"]:
            width = updates[0].sizes[windows[axis]] if axis in windows else ONE
            most = f"std::ptrdiff_t({cpp(shape.sizes[axis])}) - std::ptrdiff_t({cpp(width)})"
            emitter.line(f"if (start{axis} < 0 || start{axis} > {most}) continue;")
        with counting(emitter, [(f"u{axis}", updates[0].sizes[axis]) for axis in attributes["window"]]):
            places = _places(operation, windows)
            for number, target in enumerate(made):
                emitter.line(f"auto* const to{number} = {address(target, *places)};")
            news = [
                f"*({address(source, *((f'u{axis}', stride) for axis, stride in enumerate(update.strides)))})"
                for source, update in zip(sources, updates, strict=True)
            ]
            # HLO leaves the order of updates open; XLA's code for CPUs goes through them in this one.
            results = called(emitter, operation.regions[0], [*(f"*to{i}" for i in range(len(made))), *news])
            for number, (result, each) in enumerate(zip(results, operation.shapes, strict=True)):
                emitter.line(f"const {C_TYPES[each.dtype]} new{number} = {result};")
            for number in range(len(made)):
                emitter.line(f"*to{number} = new{number};")
    for pointer in (index, *sources, *made):
        emitter.touch(pointer)
    return made


def _starts(emitter: Emitter, operation: Operation, index: str, outer: list[int]) -> None:
    """start0, start1 ...: where the window of an update begins, by axis of the array; only of axes with an index."""
    attributes, half = operation.attributes, len(operation.operands) // 2
    indices, vector = emitter.known[operation.operands[half]].shape, attributes["vector"]
    axes = [axis for axis in range(indices.rank) if axis != vector]
    counters = {axis: f"u{update}" for axis, update in zip(axes, outer, strict=True)}
    at = address(index, *((counters[axis], indices.strides[axis]) for axis in axes))
    emitter.line(f"[[maybe_unused]] const {C_TYPES[indices.dtype]}* const index = {at};")
    step = indices.strides[vector] if vector < indices.rank else ONE
    for number, axis in enumerate(attributes["indexed"]):
        emitter.line(f"const auto start{axis} = static_cast<std::ptrdiff_t>(index[{cpp(step * Size(number))}]);")
    for axis, among in zip(attributes["operand_batch"], attributes["index_batch"], strict=True):
        emitter.line(f"const auto start{axis} = static_cast<std::ptrdiff_t>({counters[among]});")


def _places(operation: Operation, windows: dict[int, int]) -> list[tuple[str, Size]]:
    attributes, strides = operation.attributes, operation.shapes[0].strides
    known = {*attributes["indexed"], *attributes["operand_batch"]}
    starts = [(f"start{axis}", strides[axis]) for axis in sorted(known)]
    return [*starts, *((f"u{window}", strides[axis]) for axis, window in windows.items())]
