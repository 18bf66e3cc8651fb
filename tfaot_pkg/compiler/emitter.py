"""The loops that compute the values of a program, as selected. `Tables` has the functions of other operations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from tfaot_pkg.compiler.affine import Index, split
from tfaot_pkg.compiler.attributes import Dimensions
from tfaot_pkg.compiler.body import Body, Lanes
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
from tfaot_pkg.compiler.loops import Allocate, Buffer, Function, Lines, Sharing
from tfaot_pkg.compiler.pieces import Row
from tfaot_pkg.compiler.program import (
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
from tfaot_pkg.compiler.selection import select
from tfaot_pkg.compiler.sources import in_memory, index_of_part, source_index
from tfaot_pkg.compiler.vectorize import joined_with
from tfaot_pkg.compiler.waiting import Together
from tfaot_pkg.compiler.weights import Constants


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


DIVIDED_FROM = 1 << 18
"""The least multiply-adds of a layer of one row that a team of threads computes together (decision 091).

The layers of `mlp_512` in benchmarks/threads.py have just as many: one row gains 1.7 by two threads.
"""


class Emitter(Lines):
    """`divided_from` is another number than DIVIDED_FROM in tests."""

    def __init__(
        self, program: Program, tables: Tables, constants: Constants, *, divided_from: int = DIVIDED_FROM
    ) -> None:
        super().__init__()
        self.divided_from = divided_from
        self.program, self._tables, self.constants = program, tables, constants
        self.selection = select(program)
        self.known = {operation.id: operation for operation in program.entry.everything()}
        self.new, self.fresh = count(), count(1 + max(self.known))
        self.buffers: dict[str, Buffer] = {}
        self.reached: dict[str, None] = {}  # calls of Reached (reachable_functions.h), in order, each once
        self.aliases: dict[str, tuple[str, ...]] = {}  # buffers that a variable may point to
        self.sharing = Sharing(self.aliases)
        self.pointers: dict[int, str] = {}  # of values that lie in memory, row-major
        self.scalars: dict[int, Scalar] = {}
        self.segments: set[str] = set()  # functions of XLA's code
        # Bytes of scratch memory of each thread of a team for layers that it shares; None without such layers.
        self.member_scratch: int | None = None
        self.uses_tiles = False
        self.called: list[Called] = []
        self.results: dict[int, list[State]] = {}  # of operations with several results
        self.places: dict[int, str] = {}  # where a value should be written: an output, or the next state of a loop
        # Loops that are not computed yet, by their values, and the one whose values are reached.
        self._together = {value: loop for loop in self.selection.together for value in loop.values}
        self._begun: Together | None = None
        # Of updates that the loop of what they write makes: this value.
        self._sources = {update: value for value, update in self.selection.beside.items()}

    def write(self) -> Function:
        """The function of the program, from `input_0` ... to `output_0` ..."""
        program = self.program
        for place, parameter in enumerate(program.entry.parameters):
            self.pointers[parameter.id] = f"input_{place}"
        for place, result in enumerate(program.entry.results):
            self.want(result, f"output_{place}")
        self.region(program.entry)
        for place, result in enumerate(program.entry.results):
            self._give(place, result)
        return Function(
            nodes=self.nodes, arrays=self.arrays(), buffers=tuple(self.buffers.values()), sharing=self.sharing,
            symbols=program.symbols,
        )  # fmt: skip

    def arrays(self) -> dict[str, Size]:
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
            if operation.opcode == "parameter" or operation.id in self.selection.inlined:
                continue
            if isinstance(operation.type, tuple):
                if operation.opcode not in self._tables.several:
                    raise Unsupported(f"{operation.opcode} (node {operation.node!r})")
                with self.doing(operation):
                    self._tables.several[operation.opcode](self, operation)
            elif operation.id in self.selection.named:
                self._name_scalar(operation)
            elif self._sources.get(operation.id) in self._together:
                continue  # the loop, which is not computed yet, makes the update
            elif operation.id in self._together:
                self._reach(self._together[operation.id])
                if operation.id in self.selection.last:
                    self.flush()
            else:
                self.stored(operation.id)
        self.flush()

    def _reach(self, loop: Together) -> None:
        """From here on, the values of `loop` can be computed."""
        if self._begun is not loop:
            self.flush()
        self._begun = loop

    def flush(self) -> None:
        """Compute the values that one loop computes together, as far as they were reached and are not computed yet."""
        loop, self._begun = self._begun, None
        if loop is None:
            return
        for value in loop.values:
            del self._together[value]
        if not loop.written:
            return
        shape = self.known[loop.written[0]].shape
        pointers = [self.target(self.known[value]) for value in loop.written]
        index = Index(ZERO, shape.strides)
        updates = [self.selection.beside[value] for value in loop.written if value in self.selection.beside]
        with self.doing(self.known[loop.written[-1]]):
            self.loop(shape.sizes, [(v, p, index) for v, p in zip(loop.written, pointers, strict=True)], updates)
        self.pointers.update(zip(loop.written, pointers, strict=True))
        for update in updates:
            self.stored(update)

    def _is_reached(self, value: int) -> bool:
        """Whether a loop computes the value together with others, and may begin."""
        return self._begun is not None and self._together.get(value) is self._begun

    def _name_scalar(self, operation: Operation) -> None:
        """A variable for each scalar: nested expressions would grow exponentially if they are used several times."""
        number, name = self.scalar(operation.id), f"s{next(self.new)}"
        self.declare(name, number, may_be_unused=True)
        self.scalars[operation.id] = Variable(name)

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
        if value in self._together:
            self._reach(self._together[value])
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
        self.declare(name, row, kind=f"const {C_TYPES[access.dtype]}* const")
        self.aliases[name] = self.aliases.get(access.base, (access.base,))
        return name

    def is_stored(self, value: int) -> bool:
        operation = self.known[value]
        if self._is_reached(value) or value in self.pointers or operation.opcode in self._tables.stored:
            return True
        return operation.opcode == "reshape" and self.is_stored(operation.operands[0])

    def loop(
        self, extents: tuple[Size, ...], stores: Sequence[tuple[int, str, Index]], updates: Sequence[int] = ()
    ) -> None:
        """Compute each value at all indices of `extents`, and write it to its address.

        The loop makes the `updates` of arrays by these values as well, if it stays as fast.
        """
        if ZERO in extents:
            return
        body = Body(extents)
        results = [self.value(value, body.identity(), body) for value, _, _ in stores]
        written: list[Store] = []
        for (value, pointer, index), result in zip(stores, results, strict=True):
            self.touch(pointer)
            access = Access(f"o{len(written)}", pointer, self.known[value].shape.dtype, index)
            written.append(Store(access, result))
        loop = EachLoop(inner=body.inner(Lanes.ALONE), stores=tuple(written))
        self.nest_of(self._with_updates(loop, body, updates) if updates else loop)

    def _with_updates(self, loop: EachLoop, body: Body, updates: Sequence[int]) -> EachLoop:
        """`loop` of `body`, which makes `updates` as well if this takes less than a loop for each of them."""
        stores = list[Store]()
        for value in updates:
            operation, source = self.known[value], body.known[self._sources[value], body.identity()]
            index = index_of_part(operation, self.known[operation.operands[1]].shape, body, self.starts(operation))
            if index is None:
                return loop
            name, array = f"o{len(loop.stores) + len(stores)}", self.pointers[operation.operands[0]]
            stores.append(Store(Access(name, array, operation.shape.dtype, index), source))
        joined = joined_with(loop, stores, self.sharing, self.constants)
        if joined is None:
            return loop
        for value, store in zip(updates, stores, strict=True):
            self.touch(store.access.base)
            self.pointers[value] = store.access.base
        return joined

    def starts(self, update: Operation) -> list[Start | None]:
        """Where an update begins along each axis."""
        part, *starts = update.operands[1:]
        sizes = zip(starts, update.shape.sizes, self.known[part].shape.sizes, strict=True)
        return [self.start(*each) for each in sizes]

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
        if self._is_reached(value):
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
        return self._loaded(pointer, operation.shape.dtype, in_memory(index, operation.shape, len(body.extents)), body)

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
        if operation.opcode == "reshape":
            return self._reshaped(operation, operand, index, body)
        starts = list[Start | None]()
        if operation.opcode == "dynamic-slice":
            sizes = zip(operand.shape.sizes, operation.shape.sizes, strict=True)
            starts = [self.start(value, *each) for value, each in zip(operation.operands[1:], sizes, strict=True)]
        return self.value(operand.id, source_index(operation, operand.shape, index, starts), body)

    def start(self, value: int, length: Size, size: Size) -> Start | None:
        """The start of a slice of `size` within an axis of `length`; None if it is 0 in any case."""
        if length == size:
            return None
        last = length + size * Size(-1)
        is_within = last.is_constant and self.selection.turns.get(value, last.constant + 2) <= last.constant + 1
        is_unsigned = self.known[value].shape.dtype[0] == "u"
        return Start(self.scalar(value), length, size, is_within, is_unsigned)

    def _reshaped(
        self, operation: Operation, operand: Operation, index: tuple[Index, ...], body: Body
    ) -> Operand | None:
        if self.is_stored(operand.id):
            place = in_memory(index, operation.shape, len(body.extents))
            return self._loaded(self.stored(operand.id), operation.shape.dtype, place, body)
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
