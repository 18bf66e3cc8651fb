"""Loops over an axis that is not the first: arrays of all steps stay in the order that they have outside of the loop.

Frameworks bring the axis of steps to the front, cut a step from it in each iteration, write each result into an array
of all steps, and bring its axes back. Both transposes copy the whole array: without them a linear recurrence (64 steps
of 16 elements) takes 0.77 to 0.87 of its time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from tfaot_pkg.compiler.attributes import Dimensions, Element, Sizes
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, ONE, Number, Operation, Region, Shape, used
from tfaot_pkg.compiler.use_def import Look

_T = TypeVar("_T")
_LEAST = 8
"""Elements that lie side by side in a step: of fewer, the rows of a step share vectors if steps come first."""


def in_given_order(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
    """`region` with loops that read and write steps where arrays have them."""
    if not any(each.opcode == "while" for each in region.operations):
        return region
    look = Look(region, outside, ids)
    made: list[Operation] = []
    turned: dict[int, Mapping[int, tuple[int, ...]]] = {}
    for operation in region.operations:
        if operation.opcode == "while":
            loop = _reading(look, operation)
            orders = _orders(look, region, loop)
            made += _writing(look, loop, orders)
            turned[loop.id] = orders
        else:
            made.append(_element(look, operation, turned))
    return Region(operations=used(made, region.results), results=region.results)


def _reading(look: Look, loop: Operation) -> Operation:
    """`loop`, which cuts steps from arrays before they were transposed."""
    body = loop.regions[0]
    own, operations = {each.id for each in body.operations}, []
    for each in body.operations:
        read = look.known.get(each.operands[0]) if each.opcode == "dynamic-slice" else None
        if read is None or read.id in own or read.opcode != "transpose" or not _keeps_order(each.shape, read):
            operations.append(each)
            continue
        order = Dimensions.of(read).dimensions
        sizes = _before(each.shape.sizes, order)
        cut = replace(
            each, id=look.fresh(), type=Shape(each.shape.dtype, sizes), attributes=Sizes(sizes=sizes),
            operands=(read.operands[0], *_before(each.operands[1:], order)),
        )  # fmt: skip
        operations += [cut, replace(each, opcode="reshape", operands=(cut.id,), attributes=NO_ATTRIBUTES)]
    return replace(loop, regions=(replace(body, operations=tuple(operations)), *loop.regions[1:]))


def _keeps_order(step: Shape, transpose: Operation) -> bool:
    """Whether elements of a step have one order on both sides of `transpose`, and lie side by side."""
    order = Dimensions.of(transpose).dimensions
    longer = [axis for axis, size in zip(order, step.sizes, strict=True) if size != ONE]
    inner = step.sizes[-1]
    return (
        longer == sorted(longer)
        and order[-1] == len(order) - 1
        and inner == transpose.shape.sizes[-1]
        and inner.is_constant
        and inner.constant >= _LEAST
    )


def _before(values: Sequence[_T], order: Sequence[int]) -> tuple[_T, ...]:
    """What belongs to the axes of an array, by what belongs to those of its transpose."""
    return tuple(values[order.index(axis)] for axis in range(len(order)))


def _orders(look: Look, region: Region, loop: Operation) -> dict[int, tuple[int, ...]]:
    """The order in which each state is read, if it is read only in another one and only written step by step."""
    elements = [
        each for each in region.operations if each.opcode == "get-tuple-element" and loop.id == each.operands[0]
    ]
    found = {}
    for index in range(len(loop.operands)):
        reads = [each.id for each in elements if Element.of(each).index == index]
        users = [each for each in region.operations if not set(reads).isdisjoint(each.operands)]
        if not users or any(each.opcode != "transpose" for each in users):
            continue
        # Results of the region, and regions inside of it, read the array as it is.
        if sum(look.uses[each] for each in reads) != len(users):
            continue
        orders = {Dimensions.of(each).dimensions for each in users}
        if len(orders) == 1 and _is_written_by_steps(look, loop, index, users[0]):
            found[index] = orders.pop()
    return found


def _is_written_by_steps(look: Look, loop: Operation, index: int, transpose: Operation) -> bool:
    body, condition = loop.regions
    state, tested = body.parameters[index].id, condition.parameters[index].id
    update = body.by_id().get(body.results[index])
    initial = look.known[loop.operands[index]]
    return (
        update is not None
        and update.opcode == "dynamic-update-slice"
        and update.operands[0] == state
        and _count(body, state) == _count(body, update.id) == 1
        and _count(condition, tested) == 0
        and initial.opcode == "broadcast"
        and not Dimensions.of(initial).dimensions
        and _keeps_order(_known_in(look, body, update.operands[1]).shape, transpose)
    )


def _known_in(look: Look, body: Region, value: int) -> Operation:
    return body.by_id().get(value) or look.known[value]


def _count(region: Region, value: int) -> int:
    return Look(region, {}, iter(())).uses[value]


def _writing(look: Look, loop: Operation, orders: Mapping[int, tuple[int, ...]]) -> list[Operation]:
    """`loop`, whose states have the orders of axes in which they are read, after their initial values."""
    made, operands, types = [], list(loop.operands), list(loop.shapes)
    body, condition = loop.regions
    for index, order in orders.items():
        types[index] = Shape(types[index].dtype, tuple(types[index].sizes[axis] for axis in order))
        initial = replace(look.known[operands[index]], id=look.fresh(), type=types[index])
        made.append(initial)
        operands[index] = initial.id
        body = _with_update(look, body, index, order, types[index])
        condition = _with_type(condition, index, types[index])
    return [*made, replace(loop, type=tuple(types), operands=tuple(operands), regions=(body, condition))]


def _with_type(region: Region, index: int, shape: Shape) -> Region:
    operations = (
        replace(each, type=shape) if each.opcode == "parameter" and Number.of(each).number == index else each
        for each in region.operations
    )
    return replace(region, operations=tuple(operations))


def _with_update(look: Look, body: Region, index: int, order: tuple[int, ...], shape: Shape) -> Region:
    body = _with_type(body, index, shape)
    operations: list[Operation] = []
    for each in body.operations:
        if each.id != body.results[index]:
            operations.append(each)
            continue
        state, step, *starts = each.operands
        sizes = _known_in(look, body, step).shape.sizes
        turned = Operation(
            id=look.fresh(), opcode="reshape", type=Shape(shape.dtype, tuple(sizes[axis] for axis in order)),
            operands=(step,), node=each.node,
        )  # fmt: skip
        begin = (starts[axis] for axis in order)
        operations += [turned, replace(each, type=shape, operands=(state, turned.id, *begin))]
    return replace(body, operations=tuple(operations))


def _element(look: Look, operation: Operation, turned: Mapping[int, Mapping[int, tuple[int, ...]]]) -> Operation:
    """`operation`; a state of a loop, if it is the transpose of one that the loop has in this order now."""
    element = look.known.get(operation.operands[0]) if operation.opcode == "transpose" else None
    if element is None or element.opcode != "get-tuple-element":
        return operation
    if Element.of(element).index not in turned.get(element.operands[0], {}):
        return operation
    return replace(element, id=operation.id, type=operation.type)
