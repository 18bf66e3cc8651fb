"""Removes arrays that a loop fills step by step, if only the last step is read, or nothing.

Exporters of recurrent layers write all states into an array, transpose it, and take the last one. ONNX's Scan writes
outputs that a model may not read. Keras keeps the last state beside the state itself, as an array of one step: a copy
in each iteration. Without it, GRU towers take 0.99 of their time (decision 070).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Dimensions, Element, Slices
from tfaot_pkg.compiler.iterations import exact_iterations_of, is_counter
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, ONE, Attributes, Number, Operation, Program, Region, Shape, used
from tfaot_pkg.compiler.use_def import Look


def of_last_steps(program: Program) -> Program:
    """`program`, which must be simplified, with the state of a loop instead of the last step of such an array.

    States of loops that nothing reads are removed.
    """
    region = program.entry
    ids = iter(range(max((each.id for each in region.everything()), default=0) + 1, 1 << 62))
    look = Look(region, {}, ids)
    made: list[Operation] = []
    for operation in region.operations:
        if operation.opcode == "get-tuple-element":
            made += _of_same(look, operation)
        else:
            made += _of_last(look, operation) if operation.opcode == "slice" else (operation,)
    smaller = _without_unread(replace(region, operations=used(made, region.results)))
    # Each replacement adds operations, so an equal number means that nothing was found.
    if len(made) == len(region.operations) and _states(smaller) == _states(region):
        return program
    return simplify(replace(program, entry=smaller))


def _states(region: Region) -> int:
    return sum(len(each.operands) for each in region.operations if each.opcode == "while")


def _of_last(look: Look, cut: Operation) -> tuple[Operation, ...]:
    """`cut`, or operations that compute the same without the array that it is a slice of."""
    path, array = [], look.known[cut.operands[0]]
    while array.opcode in ("transpose", "reshape"):
        path.append(array)
        array = look.known[array.operands[0]]
    loop = look.known[array.operands[0]] if array.opcode == "get-tuple-element" else array
    if loop.opcode != "while" or not array.shape.rank:
        return (cut,)
    axes = _axes(path[::-1], array)
    state = _written(look, loop, Element.of(array).index)
    if state is None or axes.count(0) != 1:
        return (cut,)
    slices, place, steps = Slices.of(cut).slices, axes.index(0), array.shape.sizes[0]
    first, last = (as_size(each) for each in slices[place][:2])
    # The loop must write the last step in its last iteration; otherwise that step holds what the array began with.
    if (
        last != steps
        or first + ONE != steps
        or not steps.is_constant
        or exact_iterations_of(loop, look.known) != steps.constant
    ):
        return (cut,)
    return _state_as(look, cut, loop, state, axes)


def _of_same(look: Look, element: Operation) -> tuple[Operation, ...]:
    """`element`, or another state with the same value after each iteration, if no iteration reads the first."""
    loop, index = look.known[element.operands[0]], Element.of(element).index
    # Without an iteration, both keep their initial values, which may differ.
    if loop.opcode != "while" or not exact_iterations_of(loop, look.known):
        return (element,)
    body = loop.regions[0]
    known = {**look.known, **body.by_id()}
    values = [_through_reshapes(result, known) for result in body.results]
    if values.count(values[index]) == 1:
        return (element,)
    inside = [each for each in body.everything() if each.opcode != "parameter"]
    read = {value for each in inside for value in each.operands} | set(body.results)
    read |= {value for each in inside for region in each.regions for value in region.results}
    kept = {Number.of(each).number for each in body.parameters if each.id in read}
    same = [place for place, value in enumerate(values) if value == values[index] and place in kept]
    if index in kept or not same:
        return (element,)
    state = replace(element, id=look.fresh(), type=loop.shapes[same[0]], attributes=Element(index=same[0]))
    return (state, replace(element, opcode="reshape", operands=(state.id,), attributes=NO_ATTRIBUTES))


def _axes(path: list[Operation], array: Operation) -> list[int | None]:
    """The axis of `array` that each axis after `path` is; None for size 1. [] if a reshape splits or merges axes."""
    axes: list[int | None] = list(range(array.shape.rank))
    shape = array.shape
    for each in path:
        if each.opcode == "transpose":
            axes = [axes[axis] for axis in Dimensions.of(each).dimensions]
        else:
            left = [axis for axis, size in zip(axes, shape.sizes, strict=True) if size != ONE]
            if [size for size in shape.sizes if size != ONE] != [size for size in each.shape.sizes if size != ONE]:
                return []
            axes = [None if size == ONE else left.pop(0) for size in each.shape.sizes]
        shape = each.shape
    return axes


def _written(look: Look, loop: Operation, index: int) -> int | None:
    """The state equal to what iteration i writes at position i of state `index`; None if there is none."""
    body = loop.regions[0]
    known = {**look.known, **body.by_id()}
    update = known[body.results[index]]
    if update.opcode != "dynamic-update-slice" or update.operands[0] != body.parameters[index].id:
        return None
    value, at = update.operands[1:3]
    part = known[value].shape.sizes
    if part[0] != ONE or part[1:] != update.shape.sizes[1:] or not is_counter(at, loop, known):
        return None
    value = _through_reshapes(value, known)
    same = [place for place, result in enumerate(body.results) if _through_reshapes(result, known) == value]
    return same[0] if same else None


def _through_reshapes(value: int, known: Mapping[int, Operation]) -> int:
    while known[value].opcode in ("reshape", "copy"):
        value = known[value].operands[0]
    return value


def _state_as(look: Look, cut: Operation, loop: Operation, state: int, axes: list[int | None]) -> tuple[Operation, ...]:
    """The state after the last iteration, in the shape of `cut`."""
    kept = [axis for axis in axes if axis]
    source = look.known[cut.operands[0]].shape
    sizes = {axis: size for axis, size in zip(axes, source.sizes, strict=True) if axis}
    dtype, made = cut.shape.dtype, []

    def add(opcode: str, shape: Shape, operand: int, attributes: Attributes = NO_ATTRIBUTES) -> int:
        new = Operation(id=look.fresh(), opcode=opcode, type=shape, operands=(operand,), attributes=attributes)
        made.append(replace(new, node=cut.node))
        return new.id

    value = add("get-tuple-element", loop.shapes[state], loop.id, Element(index=state))
    value = add("reshape", Shape(dtype, tuple(sizes[axis] for axis in sorted(kept))), value)
    order = tuple(sorted(kept).index(axis) for axis in kept)
    value = add("transpose", Shape(dtype, tuple(sizes[axis] for axis in kept)), value, Dimensions(dimensions=order))
    last = tuple(ONE if axis == 0 else size for axis, size in zip(axes, source.sizes, strict=True))
    value = add("reshape", Shape(dtype, last), value)
    slices = tuple((0, 1, 1) if axis == 0 else each for axis, each in zip(axes, Slices.of(cut).slices, strict=True))
    made.append(replace(cut, operands=(value,), attributes=Slices(slices=slices)))
    return tuple(made)


def _without_unread(region: Region) -> Region:
    """`region` without states of its loops that only they themselves depend on."""
    # `simplify` keeps every state that the body changes.
    read = {
        (each.operands[0], Element.of(each).index) for each in region.everything() if each.opcode == "get-tuple-element"
    }
    operations, moved = [], {}
    for each in region.operations:
        if each.opcode == "while":
            kept = _read(each, {index for loop, index in read if loop == each.id})
            moved[each.id] = {index: place for place, index in enumerate(kept)}
            each = _of_states(each, kept)  # noqa: PLW2901 (the smaller loop replaces it)
        elif each.opcode == "get-tuple-element" and each.operands[0] in moved:
            place = moved[each.operands[0]][Element.of(each).index]
            each = replace(each, attributes=Element(index=place))  # noqa: PLW2901
        operations.append(each)
    return Region(operations=used(operations, region.results), results=region.results)


def _read(loop: Operation, wanted: set[int]) -> list[int]:
    """The states that `wanted` ones, and the end of the loop, depend on."""
    body, condition = loop.regions
    number = {each.id: Number.of(each).number for region in loop.regions for each in region.parameters}

    def states(region: Region, results: list[int]) -> set[int]:
        operations = [each for each in used(region.operations, results) if each.opcode != "parameter"]
        inside = [nested for each in operations for region in each.regions for nested in region.everything()]
        values = {value for each in (*operations, *inside) for value in each.operands} | set(results)
        values |= {value for each in (*operations, *inside) for region in each.regions for value in region.results}
        return {number[value] for value in values if value in number}

    found = wanted | states(condition, list(condition.results))
    # To a fixed point: a state that is read depends on the states that its next value is computed from.
    while True:
        more = found | states(body, [body.results[index] for index in found])
        if more == found:
            return sorted(found)
        found = more


def _of_states(loop: Operation, kept: list[int]) -> Operation:
    """`loop` with only the states `kept`."""
    if len(kept) == len(loop.operands):
        return loop
    place = {index: number for number, index in enumerate(kept)}

    def smaller(region: Region, results: tuple[int, ...]) -> Region:
        operations = []
        for each in used(region.operations, results):
            if each.opcode != "parameter":
                operations.append(each)
            elif Number.of(each).number in place:
                operations.append(replace(each, attributes=Number(number=place[Number.of(each).number])))
        return Region(operations=tuple(operations), results=results)

    body, condition = loop.regions
    regions = (smaller(body, tuple(body.results[index] for index in kept)), smaller(condition, condition.results))
    return replace(
        loop, type=tuple(loop.shapes[index] for index in kept), operands=tuple(loop.operands[index] for index in kept),
        regions=regions,
    )  # fmt: skip
