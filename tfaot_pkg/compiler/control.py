"""C++ of loops and branches of the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.attributes import Element
from tfaot_pkg.compiler.elements import Place, Pointed, Variable
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import c_type
from tfaot_pkg.compiler.loops import Else, Forever, If
from tfaot_pkg.compiler.program import ZERO, Operation, Region, Shape, Size
from tfaot_pkg.compiler.row_blocks import in_blocks, rows_at_once


def while_loop(emitter: Emitter, operation: Operation) -> None:
    """Scalars of the state are variables.

    An array has two buffers, which are swapped after each iteration; one, if iterations update it in place.
    """
    # Before the loop: what is computed within it would be computed again in each iteration.
    emitter.flush()
    for value in sorted(operation.captured()):
        _prepare(emitter, value)
    used = _used_results(emitter, operation)
    buffers = [_initial(emitter, operation, place, used.get(place)) for place in range(len(operation.operands))]
    rows = rows_at_once(emitter, operation)
    arrays = _arrays_of_rows(emitter, operation, buffers)
    if rows is None or arrays is None:
        states = _iterations(emitter, operation, buffers)
    else:
        states = _by_blocks(emitter, operation, buffers, used, rows, arrays)
    for state in states:
        emitter.touch(state.name)
    emitter.results[operation.id] = states


def _iterations(emitter: Emitter, operation: Operation, buffers: Sequence[tuple[str, ...]]) -> list[State]:
    """Write the loop itself, whose arrays begin in the first of their buffers; the names of its state at the end."""
    body, condition = operation.regions
    states = [_state(emitter, operation, place, each) for place, each in enumerate(buffers)]
    outer = dict(emitter.pointers), dict(emitter.scalars)
    with emitter.block(Forever()):
        _bind(emitter, condition, states)
        emitter.region(condition)
        emitter.leave("break", "!(", emitter.scalar(condition.results[0]), ")")
        _bind(emitter, body, states)
        _want(emitter, body, states, "_next")
        emitter.region(body)
        _next(emitter, body, states)
    emitter.pointers, emitter.scalars = outer
    return states


def _by_blocks(
    emitter: Emitter, operation: Operation, buffers: Sequence[tuple[str, ...]], used: Mapping[int, str | None],
    rows: int, arrays: dict[str, Size],
) -> list[State]:  # fmt: skip
    """As `_iterations`, for `rows` rows of `arrays` at a time."""
    # Which of two buffers has a state at the end is known within a block of rows only.
    kept = {
        place: wanted or emitter.buffer(operation.shapes[place].dtype, operation.shapes[place].elements)
        for place, wanted in used.items()
        if len(buffers[place]) > 1
    }
    arrays.update((name, operation.shapes[place].elements.per_row) for place, name in kept.items())
    with in_blocks(emitter, rows, arrays):
        states = _iterations(emitter, operation, buffers)
        for place, target in kept.items():
            shape, state = operation.shapes[place], operation.regions[0].parameters[place].id
            emitter.pointers[state] = states[place].name
            emitter.loop(shape.sizes, [(state, target, Index(ZERO, shape.strides))])
            del emitter.pointers[state]
    for place, name in kept.items():
        states[place] = State(name, operation.shapes[place], (name,))
    return states


def _arrays_of_rows(
    emitter: Emitter, operation: Operation, buffers: Sequence[tuple[str, ...]]
) -> dict[str, Size] | None:
    """The elements per row of the arrays that a loop uses; None if it uses a part of one."""
    known = emitter.arrays()
    captured = {emitter.pointers[value] for value in operation.captured() if value in emitter.pointers}
    found = {}
    for name in (*sorted(captured), *(each for some in buffers for each in some)):
        if name not in known:
            return None
        if known[name].grows:
            found[name] = known[name].per_row
    return found


def _prepare(emitter: Emitter, value: int) -> None:
    """Compute a value that a loop reads before the loop, unless it is a constant."""
    operation = emitter.known[value]
    if operation.opcode == "constant" or value in emitter.pointers or value in emitter.scalars:
        return
    if isinstance(operation.type, tuple):
        return
    if not operation.shape.rank:
        name = f"s{next(emitter.new)}"
        emitter.declare(name, emitter.scalar(value))
        emitter.scalars[value] = Variable(name)
    else:
        emitter.stored(value)


def _used_results(emitter: Emitter, loop: Operation) -> dict[int, str | None]:
    """The states of `loop` that are read after it, and where they should be written, if that is known.

    It is an output, or the next state of a loop around it.
    """
    elements = [each for each in emitter.known.values() if each.opcode == "get-tuple-element"]
    return {
        Element.of(each).index: emitter.places.get(each.id)
        for each in sorted(elements, key=lambda each: each.id in emitter.places)
        if each.operands[0] == loop.id
    }


def _initial(emitter: Emitter, loop: Operation, place: int, wanted: str | None) -> tuple[str, ...]:
    """Memory for the state at `place`, the first with its initial value; none for a number.

    A state that iterations update in place is written where it is `wanted`.
    """
    value, shape = loop.operands[place], loop.regions[0].parameters[place].shape
    if not shape.rank:
        return ()
    is_in_place = _is_in_place(emitter, loop, place)
    first = (wanted if is_in_place else None) or emitter.buffer(shape.dtype, shape.elements)
    # Two, because an iteration reads the state while it writes the next one.
    buffers = (first,) if is_in_place else (first, emitter.buffer(shape.dtype, shape.elements))
    if place not in emitter.selection.unread[loop.id]:
        emitter.loop(shape.sizes, [(value, first, Index(ZERO, shape.strides))])
    return buffers


def _state(emitter: Emitter, loop: Operation, place: int, buffers: tuple[str, ...]) -> State:
    shape = loop.regions[0].parameters[place].shape
    name = f"s{next(emitter.new)}"
    if not buffers:
        emitter.declare(name, emitter.scalar(loop.operands[place]), kind=c_type(shape))
        return State(name, shape)
    if len(buffers) == 1:
        return State(buffers[0], shape, buffers)
    first, second = (Place(buffer, elements=shape.elements) for buffer in buffers)
    emitter.declare(name, first, kind="auto*")
    emitter.declare(f"{name}_next", second, kind="auto*", may_be_unused=True)
    for buffer in buffers:
        emitter.touch(buffer)
    emitter.aliases[name] = emitter.aliases[f"{name}_next"] = buffers
    emitter.sharing.apart.add(frozenset((name, f"{name}_next")))
    return State(name, shape, buffers)


def _is_in_place(emitter: Emitter, loop: Operation, place: int) -> bool:
    """Whether all that an iteration does to the state is to update it where it is, or nothing."""
    body = loop.regions[0]
    result, parameter = emitter.known[body.results[place]], body.parameters[place].id
    if result.id == parameter:
        return True
    return result.id in emitter.selection.in_place and result.operands[0] == parameter


def _bind(emitter: Emitter, region: Region, states: Sequence[State]) -> None:
    for parameter, state in zip(region.parameters, states, strict=True):
        if state.buffers:
            emitter.pointers[parameter.id] = state.name
        else:
            emitter.scalars[parameter.id] = Variable(state.name)


def _want(emitter: Emitter, region: Region, states: Sequence[State], suffix: str = "") -> None:
    """Let `region` write its results directly into the buffers of `states`, or of the next ones."""
    for result, state in zip(region.results, states, strict=True):
        if len(state.buffers) > bool(suffix) and emitter.known[result].shape == state.shape:
            emitter.want(result, f"{state.name}{suffix}")


def _next(emitter: Emitter, body: Region, states: Sequence[State]) -> None:
    """Pass the results of an iteration to the next one."""
    parameters = [parameter.id for parameter in body.parameters]
    changed = []
    for result, state, parameter in zip(body.results, states, parameters, strict=True):
        if result == parameter or emitter.pointers.get(result) == state.name:
            continue
        changed.append(state)
        if state.buffers and emitter.stored(result) == f"{state.name}_next":
            continue
        if state.buffers:
            emitter.loop(state.shape.sizes, [(result, f"{state.name}_next", Index(ZERO, state.shape.strides))])
        else:
            emitter.declare(f"{state.name}_next", emitter.scalar(result))
    # After all results are computed: each may read the state that another one replaces.
    for state in changed:
        if state.buffers:
            emitter.swap(state.name, f"{state.name}_next")
        else:
            emitter.assign(state.name, Variable(f"{state.name}_next"))


def element_of(emitter: Emitter, operation: Operation) -> str:
    index: int = Element.of(operation).index
    state = emitter.results[operation.operands[0]][index]
    if not state.buffers:
        emitter.scalars[operation.id] = Variable(state.name)
    elif not operation.shape.rank:  # a reduction of several arrays writes single elements, too
        name = f"s{next(emitter.new)}"
        emitter.declare(name, Pointed(state.name), may_be_unused=True)
        emitter.scalars[operation.id] = Variable(name)
    emitter.touch(state.name)
    return state.name


def conditional(emitter: Emitter, operation: Operation) -> str:
    state = _branches(emitter, operation)[0]
    if not state.buffers:
        emitter.scalars[operation.id] = Variable(state.name)
    return state.name


def conditional_values(emitter: Emitter, operation: Operation) -> None:
    emitter.results[operation.id] = _branches(emitter, operation)


def _branches(emitter: Emitter, operation: Operation) -> list[State]:
    """The branch that is taken writes the results. As in HLO, a number out of range takes the last branch."""
    which, *given = operation.operands
    emitter.flush()
    # Before the branches: a value that one branch computed would not be known in another.
    for value in (*sorted(operation.captured()), which, *given):
        _prepare(emitter, value)
    is_pred = emitter.known[which].shape.dtype == "pred"
    chosen = emitter.scalar(which)
    states = [_result(emitter, shape) for shape in operation.shapes]
    start = 0
    for number, region in enumerate(operation.regions):
        # C++ names of a branch are out of scope after it.
        outer = dict(emitter.pointers), dict(emitter.scalars)
        test = (chosen,) if is_pred else (chosen, f" == {number}")
        is_last = number == len(operation.regions) - 1
        with emitter.block(Else(bool(number)) if is_last else If(test, bool(number))):
            for parameter, value in zip(region.parameters, given[start:], strict=False):
                if parameter.shape.rank:
                    emitter.pointers[parameter.id] = emitter.stored(value)
                else:
                    emitter.scalars[parameter.id] = emitter.scalar(value)
            _want(emitter, region, states)
            emitter.region(region)
            for state, result in zip(states, region.results, strict=True):
                _keep(emitter, result, state)
        emitter.pointers, emitter.scalars = outer
        start += len(region.parameters)
    for value in given:
        if value in emitter.pointers:
            emitter.touch(emitter.pointers[value])
    return states


def _keep(emitter: Emitter, result: int, state: State) -> None:
    if not state.buffers:
        emitter.assign(state.name, emitter.scalar(result))
    elif emitter.stored(result) != state.name:
        emitter.loop(state.shape.sizes, [(result, state.name, Index(ZERO, state.shape.strides))])


def _result(emitter: Emitter, shape: Shape) -> State:
    if shape.rank:
        buffer = emitter.buffer(shape.dtype, shape.elements)
        return State(buffer, shape, (buffer,))
    name = f"s{next(emitter.new)}"
    emitter.declare(name, kind=c_type(shape))
    return State(name, shape)
