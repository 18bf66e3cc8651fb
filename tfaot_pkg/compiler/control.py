"""C++ of loops and branches of the model."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.attributes import Element
from tfaot_pkg.compiler.elements import Place, Pointed, Variable
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import c_type
from tfaot_pkg.compiler.loops import View
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Region, Shape


def while_loop(emitter: Emitter, operation: Operation) -> None:
    """Scalars of the state are variables; each array has two buffers, which are swapped after each iteration."""
    body, condition = operation.regions
    # Before the loop: what is computed within it would be computed again in each iteration.
    emitter.flush()
    for value in sorted(operation.captured()):
        _prepare(emitter, value)
    states = [
        _state(emitter, parameter, value) for parameter, value in zip(body.parameters, operation.operands, strict=True)
    ]
    outer = dict(emitter.pointers), dict(emitter.scalars)
    with emitter.braces("for (;;)", is_repeated=True):
        _bind(emitter, condition, states)
        emitter.region(condition)
        emitter.line("if (!(", emitter.scalar(condition.results[0]), ")) break;")
        _bind(emitter, body, states)
        _want(emitter, body, states, "_next")
        emitter.region(body)
        _next(emitter, body, states)
    emitter.pointers, emitter.scalars = outer
    for state in states:
        emitter.touch(state.name)
    emitter.results[operation.id] = states


def _prepare(emitter: Emitter, value: int) -> None:
    """Compute a value that a loop reads before the loop, unless it is a constant."""
    operation = emitter.known[value]
    if operation.opcode == "constant" or value in emitter.pointers or value in emitter.scalars:
        return
    if isinstance(operation.type, tuple):
        return
    if not operation.shape.rank:
        name = f"s{next(emitter.new)}"
        emitter.line(f"const auto {name} = ", emitter.scalar(value), ";")
        emitter.scalars[value] = Variable(name)
    else:
        emitter.stored(value)


def _state(emitter: Emitter, parameter: Operation, value: int) -> State:
    shape = parameter.shape
    if not shape.rank:
        name = f"s{next(emitter.new)}"
        emitter.line(f"{c_type(shape)} {name} = ", emitter.scalar(value), ";")
        return State(name, shape)
    # Two, because an iteration reads the state while it writes the next one.
    buffers = (emitter.buffer(shape.dtype, shape.elements), emitter.buffer(shape.dtype, shape.elements))
    name = f"s{next(emitter.new)}"
    emitter.loop(shape.sizes, [(value, buffers[0], Index(ZERO, shape.strides))])
    first, second = (Place(buffer, elements=shape.elements) for buffer in buffers)
    emitter.line(f"auto* {name} = ", first, ";")
    emitter.line(f"[[maybe_unused]] auto* {name}_next = ", second, ";")
    for each in (name, f"{name}_next"):
        emitter.add(View(each, (ONE,), (shape.elements,)))
    for buffer in buffers:
        emitter.touch(buffer)
    emitter.aliases[name] = emitter.aliases[f"{name}_next"] = buffers
    return State(name, shape, buffers)


def _bind(emitter: Emitter, region: Region, states: Sequence[State]) -> None:
    for parameter, state in zip(region.parameters, states, strict=True):
        if state.buffers:
            emitter.pointers[parameter.id] = state.name
        else:
            emitter.scalars[parameter.id] = Variable(state.name)


def _want(emitter: Emitter, region: Region, states: Sequence[State], suffix: str = "") -> None:
    """Let `region` write its results directly into the buffers of `states`, or of the next ones."""
    for result, state in zip(region.results, states, strict=True):
        if state.buffers and emitter.known[result].shape == state.shape:
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
            emitter.line(f"const auto {state.name}_next = ", emitter.scalar(result), ";")
    # After all results are computed: each may read the state that another one replaces.
    for state in changed:
        if state.buffers:
            emitter.line(f"std::swap({state.name}, {state.name}_next);")
        else:
            emitter.line(f"{state.name} = {state.name}_next;")


def element_of(emitter: Emitter, operation: Operation) -> str:
    index: int = Element.of(operation).index
    state = emitter.results[operation.operands[0]][index]
    if not state.buffers:
        emitter.scalars[operation.id] = Variable(state.name)
    elif not operation.shape.rank:  # a reduction of several arrays writes single elements, too
        name = f"s{next(emitter.new)}"
        emitter.line(f"[[maybe_unused]] const auto {name} = ", Pointed(state.name), ";")
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
        head = ("else",) if is_last else ("if (" if not number else "else if (", *test, ")")
        with emitter.braces(*head, continues=bool(number)):
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
        emitter.line(f"{state.name} = ", emitter.scalar(result), ";")
    elif emitter.stored(result) != state.name:
        emitter.loop(state.shape.sizes, [(result, state.name, Index(ZERO, state.shape.strides))])


def _result(emitter: Emitter, shape: Shape) -> State:
    if shape.rank:
        buffer = emitter.buffer(shape.dtype, shape.elements)
        return State(buffer, shape, (buffer,))
    name = f"s{next(emitter.new)}"
    emitter.line(f"{c_type(shape)} {name};")
    return State(name, shape)
