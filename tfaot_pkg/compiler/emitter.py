"""Selection: the loops that compute the values of a program. `Tables` has the functions for other operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from tfaot_pkg.compiler.affine import Index, as_size, merged, shifted, split
from tfaot_pkg.compiler.attributes import Dimensions, Slices
from tfaot_pkg.compiler.body import Body, Inner, kind_of, may_overlap, moved_access, only_moves
from tfaot_pkg.compiler.chains import linked
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.elements import (
    Access,
    Computed,
    Counted,
    Element,
    Filled,
    Number,
    Operand,
    Pointed,
    Scalar,
    Start,
    Store,
    Variable,
)
from tfaot_pkg.compiler.expressions import C_TYPES, ELEMENTWISE, MOVED_TYPES, MOVING, literal
from tfaot_pkg.compiler.loops import Allocate, Buffer, Function, Lines, Loops, Row, View
from tfaot_pkg.compiler.program import (
    BATCH,
    NO_ATTRIBUTES,
    ONE,
    ZERO,
    Called,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Unsupported,
)
from tfaot_pkg.compiler.rows import RowsLoop, are_rows, have_tails
from tfaot_pkg.compiler.tiles import TiledLoop, tile
from tfaot_pkg.compiler.uses import Uses, same_memory
from tfaot_pkg.compiler.weights import Constants

_DEEPEST = 64
"""The deepest chain of operations in one loop. `value` recurses along it, and Python limits recursion."""
_TOGETHER = 8
"""The most values that one loop computes, so that registers hold what they share."""


@dataclass(frozen=True, slots=True)
class State:
    """State of a loop, or a result: a variable, or the address of an array in one of `buffers`."""

    name: str
    shape: Shape
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """Functions for operations that are not elementwise, by opcode; `several` for those with several results."""

    stored: Mapping[str, Callable[[Emitter, Operation], str]]
    several: Mapping[str, Callable[[Emitter, Operation], None]]


class Emitter(Lines):
    def __init__(self, program: Program, tables: Tables, constants: Constants) -> None:
        super().__init__()
        self.program, self._tables, self.symbols, self.constants = program, tables, program.symbols, constants
        self.new = count()
        self.buffers: dict[str, Buffer] = {}
        self.reached: dict[str, None] = {}  # calls of Reached (reached.h), in order, each once
        self.aliases: dict[str, tuple[str, ...]] = {}  # buffers that a variable may point to
        self.known: dict[int, Operation] = {}
        self.uses = Uses(program)
        self._depths: dict[int, int] = {}
        self.carried: set[int] = set()  # parameters that are the state of a loop
        self.turns: dict[int, int] = {}  # of parameters that count them from 0: the iterations of their loop
        self.pointers: dict[int, str] = {}  # of values that lie in memory, row-major
        self.scalars: dict[int, Scalar] = {}
        self.fresh = count(1 + max(operation.id for operation in program.entry.everything()))
        self.segments: set[str] = set()  # functions of XLA's code
        self.called: list[Called] = []
        self.results: dict[int, list[State]] = {}  # of operations with several results
        self.places: dict[int, str] = {}  # where a value should be written: an output, or the next state of a loop
        self._waiting: list[int] = []  # values of one shape that one loop will compute
        self._arguments: set[int] = set()  # values that were written because a long function takes them

    def write(self) -> Function:
        """The function of the program, from `input_0` ... to `output_0` ..."""
        program = self.program
        self.known.update((operation.id, operation) for operation in program.entry.everything())
        for place, parameter in enumerate(program.entry.parameters):
            self.pointers[parameter.id] = f"input_{place}"
        for place, result in enumerate(program.entry.results):
            self.want(result, f"output_{place}")
        self.region(program.entry)
        for place, result in enumerate(program.entry.results):
            self._give(place, result)
        return Function(
            nodes=self.nodes, arrays=self._arrays(), buffers=tuple(self.buffers.values()), aliases=self.aliases,
            symbols=program.symbols,
        )  # fmt: skip

    def _arrays(self) -> dict[str, Size]:
        """The elements of all arrays."""
        entry = self.program.entry
        found = {f"input_{place}": each.shape.elements for place, each in enumerate(entry.parameters)}
        found.update((f"output_{place}", self.known[each].shape.elements) for place, each in enumerate(entry.results))
        found.update((buffer.name, buffer.elements) for buffer in self.buffers.values())
        found.update((address, Size(values.size)) for address, values in self.constants.values.items())
        return found

    def _give(self, place: int, value: int) -> None:
        """Write an output. A value that is already elsewhere in memory is copied."""
        shape = self.known[value].shape
        if shape.rank and self.stored(value) == f"output_{place}":
            return
        with self.doing(self.known[value]):
            self.loop(shape.sizes, [(value, f"output_{place}", Index(ZERO, shape.strides))])

    def region(self, region: Region) -> None:
        for operation in region.operations:
            if operation.opcode == "parameter" or self._is_deferred(operation):
                continue
            if isinstance(operation.type, tuple):
                if operation.opcode not in self._tables.several:
                    raise Unsupported(f"{operation.opcode} (node {operation.node!r})")
                with self.doing(operation):
                    self._tables.several[operation.opcode](self, operation)
            elif not operation.shape.rank and operation.opcode in ELEMENTWISE:
                self._name_scalar(operation)
            elif operation.opcode in ELEMENTWISE:
                self._wait(operation)
            else:
                self.stored(operation.id)
        self.flush()

    def _wait(self, operation: Operation) -> None:
        """Values of one shape wait: one loop computes them all, and what they share once."""
        other = self._waiting and self.known[self._waiting[0]].type != operation.type
        repeats = any(self._repeats(operand) for operand in operation.operands)
        if other or repeats or len(self._waiting) >= _TOGETHER or self._depth_of(operation) > _DEEPEST:
            self.flush()
        self._depths[operation.id] = self._depth_of(operation)
        self._waiting.append(operation.id)
        if self.uses.is_argument(operation, self._is_known):
            self._arguments.add(operation.id)
            self.flush()

    def _is_known(self, value: int) -> bool:
        return value in self.pointers or value in self.scalars

    def _can_wait(self, value: int) -> bool:
        """Whether the loop of the waiting values can compute a value that is not computed yet."""
        operation = self.known[value]
        is_alike = operation.type == self.known[self._waiting[0]].type and operation.opcode in ELEMENTWISE
        return is_alike and not self._is_known(value) and value not in self._waiting

    def flush(self) -> None:
        """Write the loop for the waiting values."""
        waiting = [value for value in self._waiting if not self._is_inside(value)]
        for value in self._waiting:
            del self._depths[value]
        self._waiting = []
        if waiting:
            shape = self.known[waiting[0]].shape
            pointers = [self.target(self.known[value]) for value in waiting]
            with self.doing(self.known[waiting[-1]]):
                self.loop(
                    shape.sizes, [(v, p, Index(ZERO, shape.strides)) for v, p in zip(waiting, pointers, strict=True)]
                )
            self.pointers.update(zip(waiting, pointers, strict=True))

    def _is_inside(self, value: int) -> bool:
        """Whether all users of a value are computed in the loop of the waiting values: then it needs no memory."""
        users = self.uses.all_of(value)
        if value in self.places or not users:
            return False
        return all(
            user.id in self._waiting
            or (
                (user.opcode in ELEMENTWISE or (user.opcode in MOVING and user.opcode != "broadcast"))
                and self._is_deferred(user)
                and self._is_inside(user.id)
            )
            for user in users
        )

    def _repeats(self, value: int, *, is_moved: bool = False) -> bool:
        """Whether to compute `value` would be to compute a costly waiting value at other indices again."""
        if value in self._waiting:
            return is_moved and self.uses.is_costly(value)
        if value not in self._depths:  # in memory
            return False
        operation = self.known[value]
        is_moved = is_moved or (operation.opcode in MOVING and operation.opcode != "reshape")
        return any(self._repeats(operand, is_moved=is_moved) for operand in operation.operands)

    def _name_scalar(self, operation: Operation) -> None:
        """A variable for each scalar: nested expressions would grow exponentially if they are used several times."""
        number, name = self.scalar(operation.id), f"s{next(self.new)}"
        self.line(f"[[maybe_unused]] const auto {name} = ", number, ";")
        self.scalars[operation.id] = Variable(name)

    def _is_deferred(self, operation: Operation) -> bool:
        """Whether it is computed where it is used."""
        if operation.opcode == "constant" or self.uses.is_joined_index(operation, self.places):
            return True
        if operation.id in self._arguments or self.uses.is_argument(operation, self._is_known):
            return False
        if isinstance(operation.type, tuple) or operation.opcode not in (*ELEMENTWISE, *MOVING):
            return False
        if not operation.shape.rank and operation.opcode in ELEMENTWISE:
            return False
        if operation.opcode in ELEMENTWISE and operation.id in self.places:
            return False
        depth = self._depth_of(operation)
        # With several uses it would be computed several times, unless each uses a different part.
        if (operation.opcode in MOVING or self.uses.is_single(operation)) and depth <= _DEEPEST:
            self._depths[operation.id] = depth
            return True
        return False

    def _depth_of(self, operation: Operation) -> int:
        return 1 + max((self._depths.get(operand, 0) for operand in operation.operands), default=0)

    def want(self, value: int, place: str) -> None:
        """Let the operation that computes `value` write it to `place`."""
        while value not in self.places:
            self.places[value] = place
            operation = self.known[value]
            if operation.opcode == "reshape":  # the same memory
                value = operation.operands[0]

    def target(self, operation: Operation) -> str:
        """Memory for the result of `operation`: its place, or a new buffer."""
        return self.places.get(operation.id) or self.buffer(operation.shape.dtype, operation.shape.elements)

    def stored(self, value: int) -> str:
        """The address of a value, which is computed now if it is not in memory yet."""
        # The value must be in memory: the loop of the waiting values is written first; this one joins them if it can.
        if self._waiting and self._can_wait(value):
            self._wait(self.known[value])
        if value in self._waiting:
            self.flush()
        if value in self.pointers:
            self.touch(self.pointers[value])
            return self.pointers[value]
        operation = self.known[value]
        if operation.opcode == "constant":
            self.pointers[value] = self.constants.address(literal(operation))
            return self.pointers[value]
        # Arrays are row-major, so a reshape is the same memory.
        if operation.opcode == "reshape" and self.known[operation.operands[0]].shape.rank:
            return self.stored(operation.operands[0])
        # Computing a value may add a scalar variable (a conditional, an element of a loop's state).
        was_variable = value in self.scalars
        with self.doing(operation):
            pointer = self._computed_into_memory(operation)
        if was_variable or value not in self.scalars:  # a new variable has no address
            self.pointers[value] = pointer
        return pointer

    def stored_together(self, values: Sequence[int]) -> list[str]:
        """The addresses of values, which the loop of the waiting ones computes if it can."""
        for value in (same_memory(each, self.known) for each in values):
            if self._waiting and self._can_wait(value):
                self._wait(self.known[value])
        return [self.stored(value) for value in values]

    def _computed_into_memory(self, operation: Operation) -> str:
        value = operation.id
        special = self._tables.stored.get(operation.opcode)
        # Code for arrays without elements would not always compile.
        if ZERO in operation.shape.sizes:
            return self.buffer(operation.shape.dtype, ZERO)
        if special is not None and value not in self.scalars:
            return special(self, operation)
        if operation.opcode in MOVING and (view := self._view(operation)) is not None:
            return view
        if operation.opcode in ELEMENTWISE or operation.opcode in MOVING or value in self.scalars:
            shape = operation.shape
            pointer = self.target(operation)
            self.loop(shape.sizes, [(value, pointer, Index(ZERO, shape.strides))])
            return pointer
        raise Unsupported(f"{operation.opcode} (node {operation.node!r})")

    def _view(self, operation: Operation) -> str | None:
        """The address of a value that is already in memory, row-major, as a part of another value."""
        shape, body = operation.shape, Body(operation.shape.sizes)
        self.value(operation.id, body.identity(), body)
        if len(body.accesses) != 1 or body.statements or body.counted:
            return None
        (access,) = body.accesses
        # Axes of size 1 may have any stride: their index is always 0.
        triples = zip(shape.sizes, shape.strides, access.index.factors, strict=True)
        if any(factor != stride for size, stride, factor in triples if size != ONE):
            return None
        return self.part(access, body)

    def part(self, access: Access, body: Body) -> str:
        """The address of the first element of an access of `body`."""
        row = Row(access, 0, body.extents)
        if str(row) == access.base:
            return access.base
        name = f"w{next(self.new)}"
        self.line(f"const {C_TYPES[access.dtype]}* const {name} = ", row, ";")
        self.add(View(name, access.index.factors, body.extents))
        self.aliases[name] = self.aliases.get(access.base, (access.base,))
        return name

    def is_stored(self, value: int) -> bool:
        operation = self.known[value]
        if value in self._waiting:
            return True
        if value in self.pointers or operation.opcode in self._tables.stored:
            return True
        return operation.opcode == "reshape" and self.is_stored(operation.operands[0])

    def loop(self, extents: tuple[Size, ...], stores: Sequence[tuple[int, str, Index]]) -> None:
        """Compute each value at all indices of `extents`, and write it to its address."""
        if ZERO in extents:
            return
        body = Body(extents)
        results = [self.value(value, body.identity(), body) for value, _, _ in stores]
        written: list[Store] = []
        for (value, pointer, index), result in zip(stores, results, strict=True):
            self.touch(pointer)
            access = Access(f"o{len(written)}", pointer, self.known[value].shape.dtype, index)
            written.append(Store(access, result))
        self.nest_of(self._tiled(body, written) or self._by_rows(body, written))

    def _tiled(self, body: Body, written: Sequence[Store]) -> Loops | None:
        inner, outputs = _along_merged_axes(body, written)
        tiled = None if self._is_read(inner, outputs) else tile(inner, [each.access for each in outputs])
        return TiledLoop(inner=inner, stores=outputs, tile=tiled) if tiled else None

    def _by_rows(self, body: Body, written: Sequence[Store]) -> Loops:
        """A loop whose vectors run along the last axis, or take several rows of it."""
        body.accesses = [self.constants.in_order(access, body.extents) for access in body.accesses]
        inner, outputs = _along_merged_axes(body, written)
        places, is_read, counted = [each.access for each in outputs], self._is_read(inner, outputs), inner.counted
        written_rows = all(place.index.factors[-2:] == (*inner.extents[-1:], ONE) for place in places)
        if not is_read and written_rows and are_rows(inner, [*inner.accesses, *places]):
            loop: Loops = RowsLoop(inner=inner, stores=outputs)
        elif not counted and have_tails(inner, [*inner.accesses, *places]):
            loop = RowsLoop(inner=inner, stores=outputs, each="eachWithTails")
        else:
            is_alone = set(inner.extents) <= {ONE} or only_moves(body, inner.accesses, places)
            kind = kind_of(inner, [*inner.accesses, *places], is_alone=is_alone)
            overlaps = not is_read and may_overlap(inner.accesses)
            inner = replace(inner, by_vectors=inner.by_vectors and not is_alone, kind=kind, overlaps=overlaps)
            loop = EachLoop(inner=inner, stores=outputs)
            if is_alone or kind:
                return loop
        return loop if is_read or len(inner.extents) > 2 or counted else linked(inner, outputs, loop)

    def _is_read(self, inner: Inner, outputs: Sequence[Store]) -> bool:
        """Whether a loop reads an array that it writes."""
        written = (each.access.base for each in outputs)
        made = {name for base in written for name in self.aliases.get(base, (base,))}
        read = {name for access in inner.accesses for name in self.aliases.get(access.base, (access.base,))}
        return bool(made & read)

    def value(self, value: int, index: tuple[Index, ...], body: Body) -> Operand:
        """The element of `value` at `index`."""
        key = (value, index)
        if key not in body.known:
            body.known[key] = self._computed(value, index, body)
        return body.known[key]

    def _computed(self, value: int, index: tuple[Index, ...], body: Body) -> Operand:
        operation = self.known[value]
        if operation.shape.dtype not in MOVED_TYPES or not operation.shape.rank:
            body.types.add(operation.shape.dtype)
        if value in self._waiting:
            self.flush()
        if value in self.scalars:
            return Filled(self.scalars[value])
        if operation.opcode == "constant" and not operation.shape.rank:
            return Filled(Number(operation))
        if value not in self.pointers:
            if operation.opcode == "get-tuple-element" and not operation.shape.rank:
                return Filled(self.scalar(value))
            if not operation.shape.rank and operation.opcode in ELEMENTWISE:
                return Filled(self.scalar(value))
            if operation.opcode in ELEMENTWISE:
                return self._applied(operation, index, body)
            if operation.opcode in MOVING:
                moved = self._moved(operation, index, body)
                if moved is not None:
                    return moved
        pointer = self.stored(value)
        flat = Index(ZERO, tuple(ZERO for _ in body.extents))
        for each, stride in zip(index, operation.shape.strides, strict=True):
            flat = flat.plus(each.scaled(stride))
        return self._loaded(pointer, operation.shape.dtype, flat, body)

    def _loaded(self, pointer: str, dtype: str, index: Index, body: Body) -> Operand:
        self.touch(pointer)
        key = (pointer, index)
        if key not in body.known:
            access = Access(f"p{next(body.names)}", pointer, dtype, index)
            body.accesses.append(access)
            body.known[key] = Element(access.element)
        return body.known[key]

    def _applied(self, operation: Operation, index: tuple[Index, ...], body: Body) -> Element:
        operands = [
            self.value(operand, index if self.known[operand].shape.rank else (), body) for operand in operation.operands
        ]
        return body.apply(operation, operands, [self.known[operand].shape.dtype for operand in operation.operands])

    def _moved(self, operation: Operation, index: tuple[Index, ...], body: Body) -> Operand | None:
        """The operand at the index that an element comes from; None if it must be in memory first."""
        if operation.opcode == "iota":
            (axis,) = Dimensions.of(operation).dimensions
            name = f"y{next(body.names)}"
            body.counted.append(Counted(name, index[axis]))
            dtype = operation.shape.dtype
            if dtype == "s32":
                return Element(name)
            body.types.add(dtype)
            # Loops without vectors convert each result of a statement to its type.
            counted = replace(operation, opcode="convert", attributes=NO_ATTRIBUTES)
            return body.state(counted, [Element(name)], ["s32" if dtype == "f32" else dtype])
        operand = self.known[operation.operands[0]]
        match operation.opcode:
            case "broadcast":
                inner = tuple(index[axis] for axis in Dimensions.of(operation).dimensions)
            case "transpose":
                place = {axis: number for number, axis in enumerate(Dimensions.of(operation).dimensions)}
                inner = tuple(index[place[axis]] for axis in range(len(index)))
            case "slice":
                inner = tuple(
                    shifted(each.scaled(as_size(step)), as_size(start))
                    for each, (start, _, step) in zip(index, Slices.of(operation).slices, strict=True)
                )
            case "reverse":
                reversed_ = Dimensions.of(operation).dimensions
                inner = tuple(
                    shifted(each.scaled(Size(-1)), size + Size(-1)) if axis in reversed_ else each
                    for axis, (each, size) in enumerate(zip(index, operand.shape.sizes, strict=True))
                )
            case "dynamic-slice":
                sizes = zip(operand.shape.sizes, operation.shape.sizes, strict=True)
                starts = [self.start(value, *each) for value, each in zip(operation.operands[1:], sizes, strict=True)]
                inner = tuple(
                    each if start is None else replace(each, runtime=(*each.runtime, (start, ONE)))
                    for each, start in zip(index, starts, strict=True)
                )
            case _:
                return self._reshaped(operation, operand, index, body)
        return self.value(operand.id, inner, body)

    def start(self, value: int, length: Size, size: Size) -> Start | None:
        """The start of a slice of `size` within an axis of `length`; None if it is 0 in any case."""
        if length == size:
            return None
        last = length + size * Size(-1)
        is_within = last.is_constant and self.turns.get(value, last.constant + 2) <= last.constant + 1
        is_unsigned = self.known[value].shape.dtype[0] == "u"
        return Start(self.scalar(value), length, size, is_within, is_unsigned)

    def _reshaped(
        self, operation: Operation, operand: Operation, index: tuple[Index, ...], body: Body
    ) -> Operand | None:
        if self.is_stored(operand.id):
            flat = Index(ZERO, tuple(ZERO for _ in body.extents))
            for each, stride in zip(index, operation.shape.strides, strict=True):
                flat = flat.plus(each.scaled(stride))
            return self._loaded(self.stored(operand.id), operation.shape.dtype, flat, body)
        inner = split(operand.shape.sizes, operation.shape.sizes, index, len(body.extents))
        if inner is not None:
            return self.value(operand.id, inner, body)
        # The index is not affine in the operand's axes: the operand is stored, where both are the same memory.
        self.stored(operand.id)
        return self._reshaped(operation, operand, index, body)

    def scalar(self, value: int) -> Scalar:
        """An array without axes."""
        if value in self.scalars:
            return self.scalars[value]
        operation = self.known[value]
        if operation.opcode == "constant":
            return Number(operation)
        if operation.opcode == "get-tuple-element":
            self.stored(value)
            return self.scalars[value]
        if value in self.pointers or operation.opcode in self._tables.stored:
            return Pointed(self.stored(value))
        if operation.opcode == "reshape":
            return self._element(operation.operands[0])
        if operation.opcode not in ELEMENTWISE:
            return Pointed(self.stored(value))
        operands = tuple(self.scalar(operand) for operand in operation.operands)
        return Computed(operation, operands, tuple(self.known[operand].shape.dtype for operand in operation.operands))

    def _element(self, value: int) -> Scalar:
        return self.scalar(value) if not self.known[value].shape.rank else Pointed(self.stored(value))

    def buffer(self, dtype: str, elements: Size) -> str:
        if dtype not in C_TYPES:
            raise Unsupported(f"arrays of {dtype}")
        name = f"v{next(self.new)}"
        self.buffers[name] = Buffer(name, dtype, elements)
        self.add(Allocate(name))
        return name

    def reaches(self, call: str, rows: Size) -> None:
        """Record that a layer gets a number of rows; `call` is the beginning of a call of Reached."""
        constant, per_row, others = 0, 0, False
        for monomial, factor in rows.terms:
            if monomial == () and factor > 0:
                constant = factor
            elif monomial == (BATCH,):
                per_row = factor
            else:
                others = True
        # Layers compute at most kMostRowsAtATime rows at a time, which bounds numbers that are unknown here.
        known = "0, 1, kMostRowsAtATime" if others else f"{constant}, {per_row}, kRows"
        self.reached[f"{call}, {{{known}}})"] = None


def _along_merged_axes(body: Body, written: Sequence[Store]) -> tuple[Inner, tuple[Store, ...]]:
    """A loop along as few axes as possible, and what it writes."""
    places = [each.access.index for each in written]
    axes = merged(body.extents, [*(a.index for a in body.accesses), *(c.index for c in body.counted), *places])
    return body.inner(axes), tuple(replace(each, access=moved_access(each.access, axes)) for each in written)
