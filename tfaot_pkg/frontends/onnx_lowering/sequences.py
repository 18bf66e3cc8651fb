"""Sequences and optional values inside of a graph: lists whose length is known while the graph is lowered."""

from __future__ import annotations

import numpy as np

from tfaot_pkg.compiler.program import ZERO, Size
from tfaot_pkg.frontends.lowering.values import Held, Listed, Value, known
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join, squeezed, stretched
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator


def _items(call: Call, place: int = 0) -> list[Held]:
    found = call.held(place)
    if not isinstance(found, Listed) or found.items is None:
        raise call.fault(f"its input {place + 1} is no sequence")
    return list(found.items)


def _arrays(call: Call) -> list[Value]:
    return list(map(call.value, _items(call)))


def _place(call: Call, count: int, position: int, *, behind: bool = False) -> int:
    """Input `position` as a place in a sequence of `count`; negative ones count from its end."""
    (place,) = call.integers(position, "the place in a sequence")
    if not -count <= place < count + behind:
        raise call.fault(f"place {place} of a sequence of {count}")
    return place + count if place < 0 else place


@operator("SequenceConstruct")
def _construct(call: Call) -> Listed:
    return Listed(items=tuple(call.all()))


@operator("SequenceEmpty")
def _empty(_: Call) -> Listed:
    return Listed(items=())


@operator("SequenceInsert")
def _insert(call: Call) -> Listed:
    items = _items(call)
    place = len(items) if call.maybe(2) is None else _place(call, len(items), 2, behind=True)
    return Listed(items=(*items[:place], call.input(1), *items[place:]))


@operator("SequenceErase")
def _erase(call: Call) -> Listed:
    items = _items(call)
    if not items:
        raise call.fault("its sequence is empty")
    del items[len(items) - 1 if call.maybe(1) is None else _place(call, len(items), 1)]
    return Listed(items=tuple(items))


@operator("SequenceAt")
def _at(call: Call) -> Held:
    items = _items(call)
    return items[_place(call, len(items), 1)]


@operator("SequenceLength")
def _length(call: Call) -> Value:
    return known(np.asarray(len(_items(call))), "s64")


@operator("SplitToSequence")
def _split(call: Call) -> Listed:
    """Parts of the sizes in input 1, of which a scalar counts for all parts; without it, single elements."""
    b, x = call.builder, call.input(0)
    axis = call.axis(call.whole("axis", 0), x.rank)
    split = call.maybe(1)
    if split is not None and split.rank:
        lengths = list(call.sizes(1, "the sizes of its parts"))
    else:
        step = 1 if split is None else call.integers(1, "the size of its parts")[0]
        if step < 1:
            raise call.fault(f"parts of {step} elements")
        size = call.number(x.sizes[axis], "the size of the axis that it divides")
        lengths = [Size(min(step, size - start)) for start in range(0, size, step)]
    parts, start = [], ZERO
    for length in lengths:
        parts.append(cut(b, x, axis, start, start + length))
        start += length
    if start != x.sizes[axis]:
        raise call.fault(f"parts of {start} elements in all, of an axis of {x.sizes[axis]}")
    if split is None and not call.whole("keepdims", 1):
        parts = [squeezed(b, each, [axis]) for each in parts]
    return Listed(items=tuple(each.short_as(x) for each in parts))


@operator("ConcatFromSequence")
def _concat(call: Call) -> Value:
    b, items = call.builder, _arrays(call)
    if not items:
        raise call.fault("its sequence is empty, so its result has no shape")
    is_new = bool(call.whole("new_axis", 0))
    axis = call.axis(call.whole("axis"), items[0].rank + is_new)
    made = join(b, [stretched(b, each, [axis]) for each in items] if is_new else items, axis)
    return made.short_as(items[0])


@operator("SequenceMap")
def _map(call: Call) -> tuple[Listed, ...]:
    """Its graph once for each item."""
    graph, count = call.graph("body"), len(_items(call))
    columns = [_column(call, place, count) for place in range(len(call.inputs))]
    rows = [call.values(graph, row) for row in zip(*columns, strict=True)]
    return tuple(Listed(items=tuple(row[place] for row in rows)) for place in range(len(graph.outputs)))


def _column(call: Call, place: int, count: int) -> list[Held]:
    """What each of `count` runs takes: the items of a sequence, or the same tensor."""
    if not isinstance(call.held(place), Listed):
        return [call.input(place)] * count
    items = _items(call, place)
    if len(items) != count:
        raise call.fault(f"its input {place + 1} has {len(items)} items, and the first one {count}")
    return items


@operator("Optional")
def _optional(call: Call) -> Held:
    return call.held(0) or Listed(items=None)


def _is_empty(held: Held | None) -> bool:
    return held is None or (isinstance(held, Listed) and held.items is None)


@operator("OptionalHasElement")
def _has_element(call: Call) -> Value:
    return known(np.asarray(not _is_empty(call.held(0))), "pred")


@operator("OptionalGetElement")
def _get_element(call: Call) -> Held:
    found = call.held(0)
    if found is None or _is_empty(found):
        raise call.fault("its input is empty")
    return found
