"""The output of the emitter: lines of C++, loops, and the memory that they use."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from typing import Protocol

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.affine import Axes, Index, address_terms, cpp
from tfaot_pkg.compiler.attributes import in_total_order
from tfaot_pkg.compiler.elements import (
    Access,
    Counted,
    Element,
    Operand,
    Statement,
    Store,
    depending_on,
    invariant,
)
from tfaot_pkg.compiler.expressions import C_TYPES, IN_WIDE_VECTORS, MOVED_TYPES, OF_BITS, VECTOR_TYPES, WIDE_TYPES
from tfaot_pkg.compiler.program import (
    BATCH,
    NUMPY_TYPES,
    ONE,
    ZERO,
    Operation,
    Shape,
    Size,
    Symbol,
    Unsupported,
)

IN_VECTORS = (ZERO, *map(Size, (-1, 1, 2, 3, 4)))
"""Strides at which the kernel library loads whole vectors."""
_LONGEST_VECTOR, _SHORTEST_HALF = 16, 4
"""Floats of a vector of AVX-512, and of half a vector of AVX2."""
_SHORT = 8
"""The longest rows that are reordered element by element: rows of 30 took 1.3 times as long so, rows of 3 took 0.7."""


@dataclass(slots=True)
class Body:
    """The inside of a loop over `extents`."""

    extents: tuple[Size, ...]
    statements: list[Statement] = field(default_factory=list)
    types: set[str] = field(default_factory=set)  # of values that are computed, or moved without vectors
    accesses: list[Access] = field(default_factory=list)
    counted: list[Counted] = field(default_factory=list)
    known: dict[object, Operand] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=count)

    opcodes: set[str] = field(default_factory=set)  # of what is computed

    alone: bool = False  # one element after the other, whatever the types are
    overlaps: bool = False  # it may write an element twice
    kind: str = ""  # of its places, beside those of float32 and one element after the other: "Wide" or "Truth"

    @property
    def by_vectors(self) -> bool:
        return not self.alone and self.types <= set(VECTOR_TYPES)

    @property
    def is_wide(self) -> bool:
        return self.kind == "Wide"

    @property
    def can_be_wide(self) -> bool:
        """Whether the kernel library has vectors for all that is computed, and all that is read is of 64 bits."""
        return (
            self.types <= {*WIDE_TYPES, "pred"}
            and self.opcodes <= IN_WIDE_VECTORS
            and not self.counted
            and all(access.dtype in WIDE_TYPES for access in self.accesses)
        )

    def apply(self, operation: Operation, operands: Sequence[Operand], sources: Sequence[str]) -> Element:
        """What an elementwise operation gives for `operands` of types `sources`."""
        if operation.opcode not in OF_BITS:
            self.types.update({operation.shape.dtype, *sources})
        self.opcodes.add("in total order" if in_total_order(operation) else operation.opcode)
        return self.state(operation, operands, sources)

    def state(self, operation: Operation, operands: Sequence[Operand], sources: Sequence[str]) -> Element:
        name = f"y{next(self.names)}"
        self.statements.append(Statement(name, operation, tuple(operands), tuple(sources)))
        return Element(name)

    def text(self, statement: Statement, fill: str = "at.fill") -> str:
        """The C++ of a statement, where `fill` makes elements of numbers."""
        text, dtype = statement.text(fill), statement.dtype
        if self.kind:
            return f"const auto {statement.name} = {text};"
        if self.by_vectors:
            return f"const {MOVED_TYPES[dtype]} {statement.name} = {text};"
        return f"const auto {statement.name} = static_cast<{C_TYPES[dtype]}>({text});"

    def texts(self) -> list[str]:
        return [self.text(each) for each in self.statements]

    def varies(self, varied: Sequence[Access]) -> bool:
        """Whether each statement depends, through others too, on one of the accesses `varied`."""
        return {each.name for each in self.statements} <= depending_on(self.statements, varied)

    def identity(self) -> tuple[Index, ...]:
        rank = len(self.extents)
        return tuple(Index(ZERO, tuple(ONE if i == axis else ZERO for i in range(rank))) for axis in range(rank))


def kind_of(body: Body, accesses: Sequence[Access]) -> str:
    """Of a loop's places, as `Body.kind`; `accesses` are all that it reads or writes."""
    if body.alone or body.counted or not accesses:
        return ""
    if body.types <= {"pred"} and all(access.dtype == "pred" for access in accesses):
        return "Truth"  # bytes: compilers make vectors of them, with four times as many elements
    are_whole = all(access.index.factors and access.index.factors[-1] in (ZERO, ONE) for access in accesses)
    are_wide = all(access.dtype in WIDE_TYPES for access in accesses)
    return "Wide" if body.statements and body.can_be_wide and are_whole and are_wide else ""


def only_moves(body: Body, accesses: Sequence[Access], outputs: Sequence[Access]) -> bool:
    """Whether a loop only reorders elements for which vectors would be taken apart and assembled element by element."""
    read = any(access.index.factors[-1] not in IN_VECTORS for access in accesses if access.index.factors)
    written = any(access.index.factors[-1] not in (ZERO, ONE) for access in outputs if access.index.factors)
    short = body.extents[-1].is_constant and body.extents[-1].constant <= _SHORT
    return not body.statements and not body.counted and ((read and written) or (short and (read or written)))


def with_multiple(function: str, size: Size) -> str:
    """A loop's function for a number of elements that is known to be a multiple of a vector, or of half of one."""
    multiple = math.gcd(_LONGEST_VECTOR, *(factor for _, factor in size.terms))
    return f"{function}<{multiple}>" if multiple >= _SHORTEST_HALF else function


def moved_access(access: Access, axes: Axes) -> Access:
    return replace(access, index=axes.index(access.index))


def store_text(store: Store) -> str:
    access, result = store.access, store.result.text()
    last = access.index.factors[-1] if access.index.factors else ONE
    stride = "" if last in (ONE, ZERO) else f", {cpp(last)}"
    return f"at.store({access.variable}, {result}{stride});"


# A cache line, and a vector of AVX-512: loads of it cross no line.
ALIGNMENT = 64
_CACHE = 256 * 1024
"""Bytes of values between loops: with weights and stack beside them, they fit the second-level cache of any CPU of the
last ten years."""
_REORDERED = 4096
"""The most elements of a constant that is stored again in the order in which a loop reads it."""
_LEAST_IN_LOOPS = 8
"""The least rows of a block if a loop multiplies by weights: each iteration reads all weights, but few of the values.
An LSTM of 96 units over 30 steps, 16 rows: three rows at a time take 310 us, four 237 (AVX-512). One of 100 units:
eight take 0.97 of the time of four on AVX-512, and 0.98 to 0.99 on AVX2; 16 and 24 gain no more."""
_MOST_IN_LOOPS = 4 * 1024 * 1024
"""The limit of such a block's values in bytes (decision 061)."""
_BLOCKS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)


@dataclass(slots=True)
class Buffer:
    """Scratch memory of a value, from the statement `first` that writes it to the `last` one that reads it."""

    name: str
    dtype: str
    elements: Size
    first: int
    last: int
    offset: int = 0

    def bytes(self, rows: int, symbols: Sequence[Symbol]) -> int:
        return max(1, self.elements.most(rows, symbols)) * NUMPY_TYPES[self.dtype].itemsize


class Constants:
    """The arrays in the weights of one or several programs, each with its offset. Equal arrays are stored once."""

    def __init__(self) -> None:
        self.placed: list[tuple[int, Array]] = []
        self._known: dict[tuple[str, bytes], int] = {}
        self.end = 0

    def offset(self, values: Array) -> int:
        # By digest, because keys of bytes would hold gigabytes of weights twice.
        same = (values.dtype.str, sha256(values.data).digest())
        if same not in self._known:
            self._known[same] = -(-self.end // ALIGNMENT) * ALIGNMENT
            self.placed.append((self._known[same], values))
            self.end = self._known[same] + values.nbytes
        return self._known[same]


class Waiting(Protocol):
    """Statements that are written before the next one, because others may still join them."""

    def write(self) -> None: ...


class Writer:
    def __init__(self, symbols: Sequence[Symbol], constants: Constants) -> None:
        self.symbols = symbols
        self.waiting: Waiting | None = None
        self._touched: set[str] = set()  # buffers that a statement after the waiting ones uses
        self._droppable: dict[str, set[int]] = {}  # lines that are only needed if others use a buffer
        self.lines: list[str] = []
        self.makers: list[Operation | None] = []  # the operation that each line belongs to
        self._doing: list[Operation] = []
        self._depth = 1
        self.clock = 0
        self.new = count()
        self.buffers: dict[str, Buffer] = {}
        self.reached: dict[str, None] = {}  # calls of Reached (reached.h), in order, each once
        self.aliases: dict[str, tuple[str, ...]] = {}  # buffers that a variable may point to
        self.constants = constants
        self.values: dict[str, Array] = {}  # of constants, by address

    def wait(self, statements: Waiting) -> None:
        self.waiting = statements
        self._touched.clear()

    def write_waiting(self) -> None:
        statements, self.waiting = self.waiting, None
        if statements is None:
            return
        touched = set(self._touched)
        statements.write()
        for name in touched:
            self.touch(name)

    def may_drop(self, buffer: str) -> None:
        """The last line is not needed unless another one uses `buffer`."""
        self._droppable.setdefault(buffer, set()).add(len(self.lines) - 1)

    def drop_unused(self) -> None:
        """Remove buffers that nothing reads, and the lines that would write them."""
        self.write_waiting()
        if not self._droppable:
            return
        own = {number for numbers in self._droppable.values() for number in numbers}
        used = {name for i, line in enumerate(self.lines) if i not in own for name in re.findall(r"\bv\d+\b", line)}
        gone = set[int]()
        for name, numbers in self._droppable.items():
            if name not in used:
                gone |= numbers
                del self.buffers[name]
        self.lines = [line for i, line in enumerate(self.lines) if i not in gone]
        self.makers = [maker for i, maker in enumerate(self.makers) if i not in gone]

    @property
    def maker(self) -> Operation | None:
        """The operation to which the next line belongs."""
        return self._doing[-1] if self._doing else None

    def line(self, text: str) -> None:
        self.write_waiting()
        self.lines.append("  " * self._depth + text)
        self.makers.append(self.maker)
        self.clock += 1

    @contextmanager
    def doing(self, operation: Operation) -> Iterator[None]:
        """The lines of the block belong to `operation`, except those of operations that begin within it."""
        self._doing.append(operation)
        yield
        self._doing.pop()

    @contextmanager
    def braces(self, head: str, tail: str = "}") -> Iterator[None]:
        self.line(f"{head} {{".lstrip())
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    @contextmanager
    def nest(self, extents: tuple[Size, ...]) -> Iterator[None]:
        """Loops over all axes except the last, as i0, i1 ..."""
        depth = 0
        for axis, extent in enumerate(extents[:-1]):
            self.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(extent)}; ++i{axis}) {{")
            self._depth, depth = self._depth + 1, depth + 1
        if not depth:
            self.line("{")
            self._depth, depth = self._depth + 1, 1
        yield
        for _ in range(depth):
            self._depth -= 1
            self.line("}")

    @contextmanager
    def each(self, extents: tuple[Size, ...], body: Body) -> Iterator[None]:
        if body.kind:
            each = f"each{body.kind}"
        else:
            each = ("eachWhole" if body.overlaps else "each") if body.by_vectors else "eachAlone"
        size = extents[-1] if extents else ONE
        call = f"{with_multiple(each, size) if each == 'each' else each}({cpp(size)}, "
        if each == "each" and size.is_constant:
            call = f"eachOf<{size.constant}>("
        self.line(f"{call}[&]([[maybe_unused]] auto at) {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("});")

    def write_each(
        self,
        axes: Axes,
        body: Body,
        accesses: Sequence[Access],
        outputs: Sequence[Store],
        counted: Sequence[Counted],
    ) -> None:
        """The loop `body`, whose vectors run along the last axis."""
        with self.nest(axes.extents):
            for access in accesses:
                self.address(access, is_written=False)
            for store in outputs:
                self.address(store.access, is_written=True)
            lines = self.inside(accesses, counted, len(axes.extents), body)
            lines += map(store_text, outputs)
            with self.each(axes.extents, body):
                for line in lines:
                    self.line(line)

    def address(self, access: Access, *, is_written: bool) -> None:
        # Again: other values may have been computed since the access was created, and its buffer must live until here.
        self.touch(access.base)
        # Without the last axis, over which the inner loop runs.
        terms = [access.base, *address_terms(access.index, len(access.index.factors) - 1)]
        const = "" if is_written else "const "
        self.line(f"{const}{C_TYPES[access.dtype]}* const {access.variable} = {' + '.join(terms)};")

    def inside(self, accesses: Sequence[Access], counted: Sequence[Counted], rank: int, body: Body) -> list[str]:
        """The statements of the inner loop. Those that are equal in all its iterations are written before it, here."""
        lines = [*self.loads(accesses, body), *self.counts(counted, rank)]
        if body.kind:  # compilers move what does not change
            return [*lines, *body.texts()]
        changing = {access.element for access in accesses if (access.index.factors or (ZERO,))[-1] != ZERO}
        once = invariant(body.statements, {*changing, *(each.name for each in counted)})
        for statement in once:
            self.line(body.text(statement, "filled" if body.by_vectors else ""))
        return [*lines, *(body.text(each) for each in body.statements if each not in once)]

    def loads(self, accesses: Sequence[Access], body: Body) -> Iterator[str]:
        for access in accesses:
            last = access.index.factors[-1] if access.index.factors else ZERO
            name = access.element
            if last == ZERO and body.kind:
                yield f"const auto {name} = at.fill(*{access.variable});"
            # The same in each iteration of the inner loop: read once, before it.
            elif last == ZERO:
                value = f"filled(*{access.variable})" if body.by_vectors else f"*{access.variable}"
                self.line(f"const auto {name} = {value};")
            else:
                stride = "" if last == ONE else f", {cpp(last)}"
                yield f"const auto {name} = at.load({access.variable}{stride});"

    def counts(self, counted: Sequence[Counted], rank: int) -> Iterator[str]:
        for each in counted:
            name, index = each.name, each.index
            start = " + ".join(address_terms(index, rank - 1)) or "0"
            step = cpp(index.factors[-1]) if index.factors else "0"
            first, rest = (f"static_cast<std::int32_t>({number})" for number in (start, step))
            yield f"const auto {name} = at.count({first}, {rest});"

    def buffer(self, dtype: str, elements: Size) -> str:
        if dtype not in C_TYPES:
            raise Unsupported(f"arrays of {dtype}")
        name = f"v{next(self.new)}"
        self.buffers[name] = Buffer(name, dtype, elements, self.clock, self.clock)
        return name

    def touch(self, pointer: str) -> None:
        for name in self.aliases.get(pointer, (pointer,)):
            if name in self.buffers:
                # Plus one, because the statement that is written next may read it.
                self.buffers[name].last = self.clock + 1
                if self.waiting is not None:
                    self._touched.add(name)

    def constant(self, values: Array) -> str:
        """The address of a constant. Equal constants, such as those of an unrolled layer's steps, are stored once."""
        values = np.ascontiguousarray(values)
        type_ = next(C_TYPES[name] for name, dtype in NUMPY_TYPES.items() if dtype == values.dtype)
        pointer = f"reinterpret_cast<const {type_}*>(weights + {self.constants.offset(values)})"
        self.values[pointer] = values
        return pointer

    def in_order(self, access: Access, extents: Sequence[Size]) -> Access:
        """Of a constant that a loop over `extents` reads in another order than that of memory: a copy in its order."""
        values, index = self.values.get(access.base), access.index
        axes = [axis for axis, factor in enumerate(index.factors) if factor != ZERO and extents[axis] != ONE]
        known = (index.offset, *(size for axis in axes for size in (extents[axis], index.factors[axis])))
        if values is None or index.runtime or not all(size.is_constant for size in known):
            return access
        shape = Shape(access.dtype, tuple(extents[axis] for axis in axes))
        strides = dict(zip(axes, shape.strides, strict=True))
        if all(index.factors[axis] == stride for axis, stride in strides.items()):
            return access
        sizes = [size.constant for size in shape.sizes]
        if math.prod(sizes) > min(values.size, _REORDERED):
            return access
        places = np.full(sizes, index.offset.constant)
        for axis, counted in zip(axes, np.indices(sizes), strict=True):
            places += counted * index.factors[axis].constant
        factors = tuple(strides.get(axis, ZERO) for axis in range(len(extents)))
        return replace(access, base=self.constant(values.reshape(-1)[places]), index=Index(ZERO, factors))

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

    def chosen_block(self, *, multiplies_in_loops: bool) -> int:
        """The most rows whose values stay in the cache between loops.

        Values may take as much as the weights, which each pass reads anyway.
        """
        most = max(_CACHE, self.constants.end)
        for rows in _BLOCKS:
            if multiplies_in_loops and rows == _LEAST_IN_LOOPS:
                most = max(most, _MOST_IN_LOOPS)
            if self.planned(rows) <= most:
                return rows
        return _BLOCKS[-1]

    def planned(self, block: int) -> int:
        """Set the offsets of all buffers for `block` rows, each in the first gap between those that live with it.

        Returns the bytes of all.
        """
        placed: list[Buffer] = []
        end = 0
        # The largest first: smaller ones fit into the gaps between them.
        sizes = {name: buffer.bytes(block, self.symbols) for name, buffer in self.buffers.items()}
        for buffer in sorted(self.buffers.values(), key=lambda b: -sizes[b.name]):
            beside = sorted(
                (b.offset, b.offset + sizes[b.name])
                for b in placed
                if b.first <= buffer.last and buffer.first <= b.last
            )
            offset = 0
            for start, stop in beside:
                if offset + sizes[buffer.name] <= start:
                    break
                offset = max(offset, -(-stop // ALIGNMENT) * ALIGNMENT)
            buffer.offset = offset
            placed.append(buffer)
            end = max(end, offset + sizes[buffer.name])
        return end
