"""Selection: which form each operation of a program takes in its code, decided before any loop is built.

An operation is *inlined* into the loops of its users, or *named* as a number, or *called*: a function of its own makes
its code. What remains is elementwise: values of one shape are computed *together* by one loop, as far as nothing that
is called needs one of them before the next. The last is found by following what each call asks for, in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tfaot_pkg.compiler.expressions import ELEMENTWISE, MOVING
from tfaot_pkg.compiler.iterations import filled, is_counter, iterations_of
from tfaot_pkg.compiler.program import ZERO, Operation, Program, Region
from tfaot_pkg.compiler.reduction_forms import combined
from tfaot_pkg.compiler.uses import Uses, same_memory
from tfaot_pkg.compiler.waiting import Together, Waiting

_BY_ARRAYS = frozenset(
    {
        "bfloat16_conv2d", "bfloat16_dense", "conv2d", "conv2d_max_pool", "convolution", "dense", "dot", "interpolate",
        "look_up", "max_pool", "narrow_dense",
        "quantized_conv2d", "quantized_dense", "reduce-window", "resample", "scatter", "softmax", "sort",
        "top_k", "transposed_conv2d", "trees", "custom-call",
    }
)  # fmt: skip
"""Calls that read arrays in memory."""
_BY_ELEMENTS = frozenset({"concatenate", "dynamic-update-slice", "gather", "pad", "reduce"})
"""Calls that make loops, into which elementwise operands are inlined."""
_IN_CHAINS = frozenset({"reduce", "softmax"})
_BY_REGIONS = frozenset({"conditional", "while"})
CALLED = frozenset({*_BY_ARRAYS, *_BY_ELEMENTS, *_BY_REGIONS, "get-tuple-element"})
_FIRST_ALONE = frozenset({"conditional", "custom-call", "while"})
"""Calls before which no loop may be open."""
_THEN_ALONE = frozenset({"convolution", "dot", "interpolate", "reduce-window", "resample", "scatter", "sort"})
"""Calls within whose loops none may be open; their operands are computed before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The forms of a program's operations. What is in none of these is called, or is an input.

    The loops `together` are in the order in which they are computed; those with one of `last` are computed as soon as
    it is reached. `in_indices` are joined vectors of indices that only gathers read, each with its single numbers.
    Concatenations that are `parts` are written where another one has them. Updates `in_place` write into the state of a
    loop. `beside` has those which the loop makes that computes what they write, by this value. `turns` has parameters
    that count a loop's iterations from 0, and how many these are. `unread` has the places of operands that a loop
    replaces without reading them, by the loop.
    """

    inlined: frozenset[int]
    named: frozenset[int]
    together: tuple[Together, ...]
    last: frozenset[int]
    in_indices: Mapping[int, tuple[int, ...]]
    parts: frozenset[int]
    in_place: frozenset[int]
    beside: Mapping[int, int]
    turns: Mapping[int, int]
    unread: Mapping[int, frozenset[int]]


def select(program: Program) -> Selection:
    return _Selector(program).selection()


class _Selector:
    """Follows a program in order: what is in memory, what waits for a loop, and what calls ask for."""

    def __init__(self, program: Program) -> None:
        self._entry, self._uses = program.entry, Uses(program)
        self._known = {operation.id: operation for operation in program.entry.everything()}
        self._memory = {parameter.id for parameter in program.entry.parameters}
        self._numbers: set[int] = set()
        self._waiting = Waiting(self._known, self._uses, self._is_known)
        self._inlined: set[int] = set()
        self._named: set[int] = set()
        self._together: list[Together] = []
        self._in_indices: dict[int, tuple[int, ...]] = {}
        self._parts: set[int] = set()
        self._in_place: set[int] = set()
        self._carried: set[int] = set()
        self._beside: dict[int, int] = {}
        self._turns: dict[int, int] = {}
        self._unread: dict[int, frozenset[int]] = {}
        self._here = self._entry

    def selection(self) -> Selection:
        for result in self._entry.results:
            self._want(result)
        self._region(self._entry)
        return Selection(
            inlined=frozenset(self._inlined), named=frozenset(self._named), together=tuple(self._together),
            last=frozenset(self._waiting.last), in_indices=self._in_indices, parts=frozenset(self._parts),
            in_place=frozenset(self._in_place), beside=self._beside, turns=self._turns, unread=self._unread,
        )  # fmt: skip

    def _want(self, value: int) -> None:
        while value not in self._waiting.wanted:
            self._waiting.wanted.add(value)
            operation = self._known[value]
            if operation.opcode == "reshape":  # the same memory
                value = operation.operands[0]

    def _region(self, region: Region) -> None:
        outer, self._here = self._here, region
        self._visit(region)
        self._close()
        self._here = outer

    def _visit(self, region: Region) -> None:
        within = {operation.id for operation in region.operations}
        for operation in region.operations:
            if operation.opcode == "parameter":
                continue
            if self._waiting.is_inlined(operation):
                self._inlined.add(operation.id)
                if operation.opcode == "concatenate":
                    self._in_indices[operation.id] = self._uses.joined(operation, self._waiting.wanted)
            elif isinstance(operation.type, tuple):
                self._call(operation)
            elif self._uses.is_part(operation, within):
                self._inlined.add(operation.id)
                self._parts.add(operation.id)
            elif operation.opcode not in ELEMENTWISE:
                self._store(operation.id)
            elif operation.shape.rank:
                self._wait(operation)
            else:
                self._number(operation.id)
                self._named.add(operation.id)
                self._numbers.add(operation.id)

    def _wait(self, operation: Operation) -> None:
        """Let a value wait, for which others may have to be computed before, or at once."""
        if not self._waiting.takes(operation):
            self._close()
        self._waiting.add(operation)
        if self._uses.is_argument(operation, self._is_known):
            self._waiting.last.add(operation.id)
            self._close()

    def _is_known(self, value: int) -> bool:
        return value in self._memory or value in self._numbers

    def _close(self) -> None:
        """The waiting values become one loop."""
        if loop := self._waiting.closed():
            self._together.append(loop)
            for value in loop.written:
                self._element(value)
            self._memory.update(loop.written)

    # What is asked for: a value in memory, its elements, or a number.

    def _store(self, value: int) -> None:
        operation = self._known[value]
        if not self._is_known(value) and self._waiting.can_join(self._known[value]):
            self._wait(operation)
        if value in self._waiting:
            self._close()
        if value in self._memory:
            return
        if operation.opcode == "reshape" and self._known[operation.operands[0]].shape.rank:
            self._store(operation.operands[0])  # the same memory
            return
        if operation.opcode in CALLED and value not in self._numbers and ZERO not in operation.shape.sizes:
            self._call(operation)
        elif operation.opcode in (*ELEMENTWISE, *MOVING) and ZERO not in operation.shape.sizes:
            self._element(value)
        is_number = not operation.shape.rank and operation.opcode in ("conditional", "get-tuple-element")
        (self._numbers if is_number else self._memory).add(value)

    def _element(self, value: int) -> None:
        left, seen = [value], set[int]()
        while left:
            each = left.pop()
            if each not in seen:
                seen.add(each)
                left += reversed([*self._read_by_element(each)])

    def _read_by_element(self, value: int) -> Iterator[int]:
        """What the element of a value is computed of; nothing if it is in memory, or is brought there."""
        operation = self._known[value]
        if value in self._waiting:
            self._close()
        if self._is_known(value) or (operation.opcode == "constant" and not operation.shape.rank):
            return
        if not operation.shape.rank and operation.opcode in (*ELEMENTWISE, "get-tuple-element"):
            self._number(value)
        elif operation.opcode in ELEMENTWISE:
            yield from operation.operands
        elif operation.opcode == "reshape" and self._is_stored(operation.operands[0]):
            self._store(operation.operands[0])
        elif operation.opcode in MOVING:
            for start in operation.operands[1:]:
                self._number(start)
            yield from operation.operands[:1]
        else:
            self._store(value)

    def _is_stored(self, value: int) -> bool:
        operation = self._known[value]
        if value in self._waiting or value in self._memory or operation.opcode in CALLED:
            return True
        return operation.opcode == "reshape" and self._is_stored(operation.operands[0])

    def _number(self, value: int) -> None:
        operation = self._known[value]
        if value in self._numbers or operation.opcode == "constant":
            return
        if value in self._memory or operation.opcode not in (*ELEMENTWISE, "reshape"):
            self._store(value)
        elif operation.opcode == "reshape" and self._known[operation.operands[0]].shape.rank:
            self._store(operation.operands[0])
        else:
            for operand in operation.operands:
                self._number(operand)

    # What calls ask for.

    def _call(self, operation: Operation) -> None:
        if operation.opcode in _FIRST_ALONE:
            self._close()
        if operation.opcode in _BY_ARRAYS:
            self._read_memory(operation)
        elif operation.opcode in _BY_ELEMENTS:
            self._read_elements(operation)
        elif operation.opcode == "while":
            self._loop(operation)
        elif operation.opcode == "conditional":
            self._branches(operation)

    def _read_memory(self, operation: Operation) -> None:
        operands = operation.operands
        if operation.opcode == "scatter":
            half = len(operands) // 2
            for operand in operands[half:]:
                self._store(operand)
            for operand in operands[:half]:
                self._element(operand)
        else:
            for operand in operands:
                self._ask(self._moved_from(operand) if operation.opcode == "dot" else operand)
        if operation.opcode in _THEN_ALONE:
            self._close()
        self._visit_regions(operation)

    def _moved_from(self, value: int) -> int:
        """What a product reads in place, in any order of its axes."""
        operation = self._known[value]
        while operation.opcode in ("transpose", "reshape"):
            operation = self._known[operation.operands[0]]
        return operation.id

    def _ask(self, value: int) -> None:
        if self._known[value].shape.rank:
            self._store(value)
        else:
            self._number(value)

    def _read_elements(self, operation: Operation) -> None:
        operands = operation.operands
        if operation.opcode == "gather":
            self._gather(operation)
            return
        if operation.opcode == "reduce":
            form = combined(operation, self._known)
            if form is None or not form.by_rows or form.by_lanes:
                self._close()
        elif operation.opcode == "pad":
            operands = operands[::-1]
        elif operation.opcode == "dynamic-update-slice":
            operands = self._update(operation)
        for operand in operands:
            if (part := same_memory(operand, self._known)) in self._parts:
                self._read_elements(self._known[part])
            elif self._known[operand].shape.rank:
                self._element(operand)
            else:
                self._number(operand)
        self._visit_regions(operation)

    def _gather(self, operation: Operation) -> None:
        array, indices = operation.operands
        if parts := self._in_indices.get(indices, ()):
            kept = [same_memory(part, self._known) for part in parts]
        else:
            kept = [same_memory(indices, self._known)]
        for value in kept:
            if not self._is_known(value) and self._waiting.can_join(self._known[value]):
                self._wait(self._known[value])
        for value in (*kept, array):
            self._store(value)

    def _update(self, operation: Operation) -> tuple[int, ...]:
        """What an update reads. It is in place if its array is the state of a loop that nothing else reads."""
        array, update, *starts = operation.operands
        # Otherwise each iteration of a loop that fills an array would copy all of it.
        if array in self._carried and array in self._memory and self._uses.count[array] == 1:
            self._in_place.add(operation.id)
            value = same_memory(update, self._known)
            if self._is_beside(value, starts):
                self._beside[value] = operation.id
                return tuple(starts)
            return (*starts, update)
        return (array, *starts, update)

    def _is_beside(self, value: int, starts: Iterable[int]) -> bool:
        """Whether the loop that computes `value` should write it to a place in an array, too."""
        here = {each.id for each in self._here.operations}
        computed = value in self._waiting or any(value in loop.written for loop in self._together)
        # Chains keep values in registers, and write each to one array.
        in_chains = any(each.opcode in _IN_CHAINS for each in self._here.operations)
        return value in here and computed and not in_chains and self._are_of_numbers(starts)

    def _are_of_numbers(self, values: Iterable[int]) -> bool:
        """Whether numbers are computed of those that are known when the region begins."""
        left, seen = [*values], set[int]()
        while left:
            operation = self._known[left.pop()]
            if operation.shape.rank or operation.opcode not in (*ELEMENTWISE, "constant", "parameter"):
                return False
            seen.add(operation.id)
            left += (each for each in operation.operands if each not in seen)
        return True

    def _visit_regions(self, operation: Operation) -> None:
        """Those of single elements, which no loop of arrays is in."""
        for region in operation.regions:
            self._numbers.update(parameter.id for parameter in region.parameters)
            self._visit(region)

    def _prepare(self, values: Iterable[int]) -> None:
        """Compute values before a loop or a branch: those computed within would not be known outside."""
        for value in values:
            operation = self._known[value]
            if not isinstance(operation.type, tuple) and operation.opcode != "constant" and not self._is_known(value):
                self._ask(value)
                (self._memory if operation.shape.rank else self._numbers).add(value)

    def _loop(self, operation: Operation) -> None:
        body, condition = operation.regions
        self._prepare(sorted(operation.captured()))
        self._unread[operation.id] = unread = filled(operation, self._known)
        for place, value in enumerate(operation.operands):
            if not self._known[value].shape.rank:
                self._number(value)
            elif place not in unread:
                self._element(value)
        outer = set(self._memory), set(self._numbers)
        self._bind(condition)
        self._region(condition)
        self._number(condition.results[0])
        self._bind(body)
        for result, parameter in zip(body.results, body.parameters, strict=True):
            if parameter.shape.rank and self._known[result].shape == parameter.shape:
                self._want(result)
        iterations = iterations_of(operation, self._known)
        for parameter in body.parameters:
            if iterations is not None and is_counter(parameter.id, operation, self._known):
                self._turns[parameter.id] = iterations
        self._region(body)
        for result in body.results:
            self._ask(result)
        self._memory, self._numbers = outer

    def _bind(self, region: Region) -> None:
        for parameter in region.parameters:
            (self._memory if parameter.shape.rank else self._numbers).add(parameter.id)
            self._carried.add(parameter.id)

    def _branches(self, operation: Operation) -> None:
        which, *given = operation.operands
        self._prepare((*sorted(operation.captured()), which, *given))
        for region in operation.regions:
            outer = set(self._memory), set(self._numbers)
            for parameter in region.parameters:
                (self._memory if parameter.shape.rank else self._numbers).add(parameter.id)
            for result, shape in zip(region.results, operation.shapes, strict=True):
                if shape.rank and self._known[result].shape == shape:
                    self._want(result)
            self._region(region)
            for result in region.results:
                self._ask(result)
            self._memory, self._numbers = outer
