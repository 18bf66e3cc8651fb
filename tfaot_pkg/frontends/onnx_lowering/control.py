"""Conditionals and loops: chosen or unrolled if conditions and numbers of iterations are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tfaot_pkg.compiler.program import Shape, Size
from tfaot_pkg.frontends.lowering import loops
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import NO_LIMIT, Held, Listed, Value, number_of
from tfaot_pkg.frontends.onnx_lowering.graph import Graph
from tfaot_pkg.frontends.onnx_lowering.moving import join, reverse, stretched
from tfaot_pkg.frontends.onnx_lowering.table import NAMED_PART, Call, Refused, operator

_MOST_UNROLLED = 32
"""Iterations of loops that are unrolled (decision 055)."""
_MOST_OF_SEQUENCES = 1024
"""Iterations of loops whose states are sequences, which can only be unrolled."""
_MOST_COUNTED = 256
"""Steps up to which the conditions of a loop are looked at, to learn how often it runs."""
_CHOSEN = "or choose a branch: model.constants makes an input that decides a constant of the package"


@operator("If")
def _if(call: Call) -> tuple[Held, ...]:
    b, which = call.builder, _scalar(call, 0)
    branches = [call.graph("then_branch"), call.graph("else_branch")]
    if which.numbers is not None:
        return call.run(branches[0 if which.numbers.any() else 1], ())
    made: list[tuple[Value, ...]] = []

    def lowered(graph: Graph) -> Sequence[Value]:
        try:
            made.append(call.values(graph, ()))
        except Refused as error:
            if _CHOSEN not in error.hint:
                error.hint = f"{error.hint or NAMED_PART}; {_CHOSEN}"
            raise
        return made[-1]

    regions = [b.region([], lambda _, graph=graph: lowered(graph)) for graph in branches]  # type: ignore[misc]
    return _like(b.ops("conditional", which, regions=regions), made[0])


def _like(values: Sequence[Value], others: Sequence[Value]) -> tuple[Value, ...]:
    """`values`, of the short types that `others` have."""
    return tuple(value.short_as(other) for value, other in zip(values, others, strict=True))


def _scalar(call: Call, place: int) -> Value:
    return call.builder.reshape(call.input(place), [])


@operator("Loop")
def _loop(call: Call) -> tuple[Held, ...]:
    """Unrolled if it is short; else a loop, which may return an array of all iterations if their number is known."""
    graph, states = call.graph("body"), [_state(call, place) for place in range(2, len(call.inputs))]
    going, most = call.maybe(1), _most(call)
    # The number of iterations, if conditions alone decide it and are known.
    counted = _counted(call, graph, states) if most is None else None
    if going is not None and going.numbers is not None and not going.numbers.any():
        counted = Size(0)
    trips = most if counted is None else counted
    if trips is not None and (count := number_of(trips)) is not None and count <= _unrolled_up_to(states):
        made = _unrolled(call, graph, count, states)
        if made is not None:
            return made
    return _looped(call, graph, trips, list(map(call.value, states)), is_exact=counted is not None)


def _state(call: Call, place: int) -> Held:
    found = call.held(place)
    if found is None:
        raise call.fault(f"it has no input {place + 1}")
    return found


def _unrolled_up_to(states: Sequence[Held]) -> int:
    return _MOST_OF_SEQUENCES if any(isinstance(each, Listed) for each in states) else _MOST_UNROLLED


def _most(call: Call) -> Size | None:
    """How often it runs at most; None if there is no limit."""
    if call.maybe(0) is None:
        return None
    (most,) = call.sizes(0, "the number of its iterations")
    return None if most.is_constant and most.constant >= NO_LIMIT else most


def _counted(call: Call, graph: Graph, states: Sequence[Held]) -> Size | None:
    """How often a loop runs that its condition alone ends, if that is known; nothing uses the operations of the steps.

    tf2onnx writes such loops for layers of Keras: their condition compares a step with the length of the input.
    """
    b, values = call.builder, list(states)
    found: list[int] = []

    def tried(_: Sequence[Value]) -> list[Value]:
        for step in range(_MOST_COUNTED):
            first, *after = call.run(graph, (b.constant(step, "s64"), b.constant(True, "pred"), *values))
            goes_on = call.value(first)
            if goes_on.numbers is None:
                return []
            if not goes_on.numbers.any():
                found.append(step + 1)
                return []
            values[:] = after[: len(states)]
        return []

    b.region([], tried)
    return Size(found[0]) if found else None


def _unrolled(call: Call, graph: Graph, trips: int, states: Sequence[Held]) -> tuple[Held, ...] | None:
    """None if its condition is computed."""
    b, carried, scanned = call.builder, list(states), list[list[Value]]()
    for step in range(trips):
        first, *results = call.run(graph, (b.constant(step, "s64"), b.constant(True, "pred"), *carried))
        goes_on = call.value(first)
        if goes_on.numbers is None and step + 1 < trips:
            return None
        carried = results[: len(states)]
        scanned.append(list(map(call.value, results[len(states) :])))
        if goes_on.numbers is not None and not goes_on.numbers.any():
            break
    if not scanned:
        if len(graph.outputs) > 1 + len(states):
            raise call.fault("it never runs, and its outputs have no shape")
        return tuple(carried)
    stacked = (join(b, [stretched(b, each, [0]) for each in parts], 0) for parts in zip(*scanned, strict=True))
    return (*carried, *_like(list(stacked), scanned[0]))


def _looped(
    call: Call, graph: Graph, trips: Size | None, states: Sequence[Value], *, is_exact: bool
) -> tuple[Value, ...]:
    b, count = call.builder, len(states)
    # The step and the states as parameters, as in the loop: what is known then, is known in each iteration.
    types = [Shape("s64", ()), *(each.shape for each in states)]
    first = _types(
        b, types, lambda given: call.values(graph, (given[0], b.constant(True, "pred"), *_like(given[1:], states)))
    )
    scans = first[1 + count :]
    # What its condition says is known: it always goes on, or `trips` counts that.
    is_exact = is_exact or (trips is not None and _is_always(first[0]) and _is_always(call.maybe(1)))
    if scans and not is_exact:
        raise call.fault("the number of its iterations depends on the values of the model's inputs")
    for before, after in zip(states, first[1:], strict=False):
        if before.shape != after.shape:
            raise call.fault(f"a state becomes {after.shape}, and was {before.shape}")
    rooms = [] if trips is None else [loops.room(b, trips, each.shape) for each in scans]
    start = b.constant(True, "pred") if call.maybe(1) is None else _scalar(call, 1)

    def body(step: Value, state: Sequence[Value]) -> list[Value]:
        kept, made = _like(state[:count], states), state[count : count + len(rooms)]
        goes_on, *results = call.values(graph, (b.convert(step, "s64"), b.constant(True, "pred"), *kept))
        filled = [loops.written(b, a, step, each) for a, each in zip(made, results[count:], strict=True)]
        return [*results[:count], *filled, *([] if is_exact else [b.reshape(goes_on, [])])]

    if is_exact:
        return _like(loops.repeated(b, trips, [*states, *rooms], body), first[1:])
    made = loops.repeated(b, trips, [*states, *rooms, start], body, going=lambda given: given[-1])
    return _like(made[:-1], first[1:])


def _is_always(value: Value | None) -> bool:
    return value is None or (value.numbers is not None and bool(np.all(value.numbers)))


def _types(b: Builder, takes: Sequence[Shape], run: Callable[[Sequence[Value]], Sequence[Value]]) -> tuple[Value, ...]:
    """The results of `run` for values of the types `takes`: nothing uses its operations."""
    found: list[Value] = []

    def tried(given: Sequence[Value]) -> list[Value]:
        found.extend(run(given))
        return []

    b.region(takes, tried)
    return tuple(found)


@operator("Scan")
def _scan(call: Call) -> tuple[Value, ...]:
    if call.version < 9:
        raise call.fault("Scan of opset 8: export the model with opset 9 or later")
    b, graph, number = call.builder, call.graph("body"), call.whole("num_scan_inputs")
    inputs = call.all()
    states, scanned = inputs[: len(inputs) - number], inputs[len(inputs) - number :]
    outputs = len(graph.outputs) - len(states)
    axes, directions = (call.wholes(f"scan_input_{name}") or [0] * number for name in ("axes", "directions"))
    moved = [_moved(b, each, 0, call.axis(axis, each.rank)) for each, axis in zip(scanned, axes, strict=True)]
    moved = [reverse(b, each, 0) if back else each for each, back in zip(moved, directions, strict=True)]
    scanned = list(_like(moved, scanned))
    found, last = _steps(call, graph, states, scanned)
    axes, directions = (call.wholes(f"scan_output_{name}") or [0] * outputs for name in ("axes", "directions"))
    shown = found
    found = [reverse(b, each, 0) if back else each for each, back in zip(found, directions, strict=True)]
    stacked = [_moved(b, each, call.axis(axis, each.rank), 0) for each, axis in zip(found, axes, strict=True)]
    return (*last, *_like(stacked, shown))


def _moved(b: Builder, x: Value, to: int, axis: int) -> Value:
    """`x` with `axis` moved to the position `to`."""
    order = [each for each in range(x.rank) if each != axis]
    order.insert(to, axis)
    return b.transpose(x, order)


def _steps(
    call: Call, graph: Graph, states: Sequence[Value], scanned: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    b, count, steps = call.builder, len(states), scanned[0].sizes[0]
    types = [*(each.shape for each in states), *(Shape(each.dtype, each.sizes[1:]) for each in scanned)]
    first = _types(b, types, lambda given: call.values(graph, _like(given, [*states, *scanned])))
    rooms = [loops.room(b, steps, each.shape) for each in first[count:]]

    def body(step: Value, state: Sequence[Value]) -> list[Value]:
        kept, made = state[:count], state[count:]
        given = [*kept, *(loops.read(b, each, step) for each in scanned)]
        results = call.values(graph, _like(given, [*states, *scanned]))
        filled = [loops.written(b, a, step, each) for a, each in zip(made, results[count:], strict=True)]
        return [*results[:count], *filled]

    found = _like(loops.repeated(b, steps, [*states, *rooms], body), first)
    return list(found[count:]), list(found[:count])
