"""Sorts by any comparison."""

from __future__ import annotations

from tfaot_pkg.compiler.affine import cpp
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.plain import address, called, counting, states, targets
from tfaot_pkg.compiler.program import ONE, Operation


def sort(emitter: Emitter, operation: Operation) -> str:
    return _sorted(emitter, operation)[0]


def sort_together(emitter: Emitter, operation: Operation) -> None:
    """Several arrays in the order of one comparison."""
    emitter.results[operation.id] = states(operation, _sorted(emitter, operation))


def _sorted(emitter: Emitter, operation: Operation) -> list[str]:
    """The order of the elements' numbers is found first, then all arrays are brought into it."""
    (axis,), shape = operation.attributes["dimensions"], operation.shapes[0]
    sources, made = [emitter.stored(operand) for operand in operation.operands], targets(emitter, operation)
    size, stride = shape.sizes[axis], cpp(shape.strides[axis])
    rooms = [emitter.buffer("s32", size) for _ in range(2)]
    for pointer in (*sources, *rooms, *made):
        emitter.touch(pointer)
    others = [other for other in range(shape.rank) if other != axis]
    # One turn if there is no other axis: what is declared is declared once.
    with counting(emitter, [(f"o{other}", shape.sizes[other]) for other in others] or [("once", ONE)]):
        steps = [(f"o{other}", shape.strides[other]) for other in others]
        for number, (source, target) in enumerate(zip(sources, made, strict=True)):
            emitter.line(f"const auto* const from{number} = {address(source, *steps)};")
            emitter.line(f"auto* const to{number} = {address(target, *steps)};")
        head = f"const auto* const order = stableOrder({cpp(size)}, {', '.join(rooms)}, "
        with emitter.braces(f"{head}[&](std::int32_t left, std::int32_t right)", "});"):
            arguments = []
            for number, each in enumerate(operation.shapes):
                for side in ("left", "right"):
                    element = f"from{number}[std::size_t({side}) * {stride}]"
                    arguments.append(f"{side}{number}")
                    emitter.line(f"[[maybe_unused]] const {C_TYPES[each.dtype]} {arguments[-1]} = {element};")
            (result,) = called(emitter, operation.regions[0], arguments)
            emitter.line(f"return {result};")
        with counting(emitter, [("i", size)]):
            for number in range(len(made)):
                emitter.line(f"to{number}[i * {stride}] = from{number}[std::size_t(order[i]) * {stride}];")
    for pointer in (*sources, *rooms, *made):
        emitter.touch(pointer)
    return made
