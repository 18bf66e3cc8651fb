"""How much a program computes: the floating-point operations of its products, in all iterations of its loops. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from tfaot_pkg.compiler.attributes import Comparison, Constant
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import Binding, Operation, Program, Region, Size

_COUNTED_BY = {"LT": 0, "LE": 1, "NE": 0}
"""Directions of a comparison that a loop continues by, and the iterations that each adds to those below its limit."""

_SIZES = (3, 2)  # two batch sizes: the difference of their counts is the work of one row

_Known = Mapping[int, Operation]


@dataclass(frozen=True, slots=True)
class Counted:
    """Products in the code, and their operations; a multiply-add is two.

    The kernel library computes `kernels` and `in_kernels` of them; generated loops compute the rest.
    `open_loops` are nodes of loops with products whose number of iterations depends on values: one is counted of each.
    """

    products: int = 0
    kernels: int = 0
    operations: float = 0.0
    in_kernels: float = 0.0
    open_loops: tuple[str, ...] = ()

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            products=self.products + other.products,
            kernels=self.kernels + other.kernels,
            operations=self.operations + other.operations,
            in_kernels=self.in_kernels + other.in_kernels,
            open_loops=(*self.open_loops, *other.open_loops),
        )

    @property
    def share(self) -> float:
        """The share of the operations that the kernel library computes."""
        return self.in_kernels / self.operations if self.operations else 0.0

    def times(self, iterations: int) -> Counted:
        return replace(self, operations=self.operations * iterations, in_kernels=self.in_kernels * iterations)


def work_of_row(program: Program) -> Counted:
    """The work of one more row in a batch."""
    more, less = (work(program, size) for size in _SIZES)
    rows = _SIZES[0] - _SIZES[1]
    return replace(
        more,
        operations=(more.operations - less.operations) / rows,
        in_kernels=(more.in_kernels - less.in_kernels) / rows,
    )


def work(program: Program, batch_size: int) -> Counted:
    """The work of a run of `batch_size` rows, with all symbols at their maxima.

    For a conditional, the branch with the most operations counts.
    """
    return _of_region(program.entry, {}, Binding(batch_size, {each.name: each.maximum for each in program.symbols}))


def _of_region(region: Region, outside: _Known, sizes: Binding) -> Counted:
    known = {**outside, **region.by_id()}
    return sum((_of_operation(each, known, sizes) for each in region.operations), Counted())


def _of_operation(operation: Operation, known: _Known, sizes: Binding) -> Counted:
    if (multiply_adds := OPERATIONS[operation.opcode].multiply_adds) is not None:
        operations = 2.0 * multiply_adds(operation, [known[value].shape for value in operation.operands], sizes)
        if operation.opcode == "convolution" or known[operation.operands[0]].shape.dtype != "f32":
            return Counted(products=1, operations=operations)
        return Counted(products=1, kernels=1, operations=operations, in_kernels=operations)
    inside = [_of_region(region, known, sizes) for region in operation.regions]
    if operation.opcode == "while":
        return _of_loop(operation, known, sum(inside, Counted()))
    if operation.opcode == "conditional":
        return max(inside, key=lambda each: each.operations, default=Counted())
    return sum(inside, Counted())


def _of_loop(operation: Operation, known: _Known, inside: Counted) -> Counted:
    iterations = iterations_of(operation, known)
    if iterations is not None or not inside.products:
        return inside.times(iterations or 0)
    return replace(inside, open_loops=(*inside.open_loops, operation.node))


def iterations_of(operation: Operation, known: _Known) -> int | None:
    """How often a `while` runs its body, if it counts in constant steps to a constant; None otherwise."""
    body, condition = operation.regions
    inside = {**known, **body.by_id(), **condition.by_id()}
    found = [
        iterations
        for test in _all_of(condition.results[0], inside)
        if (iterations := _iterations_until(test, operation, inside)) is not None
    ]
    # All tests must hold for another iteration, so the first that fails ends the loop.
    return min(found, default=None)


def is_counter(value: int, loop: Operation, known: _Known) -> bool:
    """Whether `value` is the number of the iteration, from 0 on, in the body of `loop`; `known` has its operations."""
    body = loop.regions[0]
    places = [place for place, parameter in enumerate(body.parameters) if parameter.id == value]
    return any(
        _integer(loop.operands[place], known) == 0 and _step(body.results[place], value, known) == 1 for place in places
    )


def _all_of(value: int, known: _Known) -> Iterator[Operation]:
    """The comparisons that must all hold for `value` to be true."""
    operation = known[value]
    if operation.opcode == "and":
        for operand in operation.operands:
            yield from _all_of(operand, known)
    elif operation.opcode == "compare":
        yield operation


def _iterations_until(test: Operation, loop: Operation, known: _Known) -> int | None:
    body, condition = loop.regions
    states = [parameter.id for parameter in condition.parameters]
    counter, limit = test.operands
    if counter not in states or Comparison.of(test).direction not in _COUNTED_BY:
        return None
    place = states.index(counter)
    start, end = _integer(loop.operands[place], known), _at_start(limit, loop, known)
    # A loop that is not counted is named as open, never guessed.
    step = _step(body.results[place], body.parameters[place].id, known)
    if start is None or end is None or step is None:
        return None
    distance = end - start + _COUNTED_BY[Comparison.of(test).direction]
    if Comparison.of(test).direction == "NE" and (distance < 0 or distance % step):
        return None
    return max(0, -(-distance // step))


def _step(result: int, parameter: int, known: _Known) -> int | None:
    """The positive constant that an iteration adds to a counter; None if it is not one."""
    operation = known[result]
    if operation.opcode != "add" or parameter not in operation.operands:
        return None
    step = _integer(sum(operation.operands) - parameter, known)  # the other operand of two
    return step if step is not None and step > 0 else None


def _at_start(value: int, loop: Operation, known: _Known) -> int | None:
    """The integer that `value` is in all iterations: a constant, or a state that the body does not change."""
    body, condition = loop.regions
    states = [parameter.id for parameter in condition.parameters]
    if value not in states:
        return _integer(value, known)
    place = states.index(value)
    unchanged = body.results[place] == body.parameters[place].id
    return _integer(loop.operands[place], known) if unchanged else None


def _integer(value: int, known: _Known) -> int | None:
    operation = known[value]
    while operation.opcode in ("broadcast", "reshape", "convert", "copy"):
        operation = known[operation.operands[0]]
    if operation.opcode != "constant" or operation.shape.sizes not in ((), (Size(1),)):
        return None
    literal = Constant.of(operation).literal
    if literal.growing or literal.constant.dtype.kind not in "iu":
        return None
    return int(literal.constant.reshape(()))
