"""The emitter of C++: statements, loops and values. `Tables` says how single operations are computed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.affine import Index, address_terms, as_size, cpp, merged, shifted, split
from tfaot_pkg.compiler.expressions import (
    C_TYPES,
    ELEMENTWISE,
    MOVING,
    VECTOR_TYPES,
    c_type,
    expression,
    literal,
    number_text,
)
from tfaot_pkg.compiler.loops import Access, Body, moved_access, store_text
from tfaot_pkg.compiler.program import NUMPY_TYPES, ONE, ZERO, Operation, Program, Region, Shape, Size, Unsupported
from tfaot_pkg.package.render import render

ALIGNMENT = 64
_CACHE = 256 * 1024
"""Bytes of values between loops: with weights and stacks beside them, in the second cache of any CPU of ten years."""
_BLOCKS = (64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
_DEEPEST = 64
"""Operations that one element may be computed from in one go. Deeper ones would meet Python's limit of recursion."""


@dataclass(slots=True)
class Buffer:
    """Memory of a value in scratch, from the statement that fills it to the last one that reads it."""

    name: str
    dtype: str
    elements: Size
    first: int
    last: int
    offset: int = 0

    def bytes(self, rows: int) -> int:
        return max(1, self.elements.at(rows)) * NUMPY_TYPES[self.dtype].itemsize


@dataclass(frozen=True, slots=True)
class State:
    """What a loop carries: a variable, or the address of an array that lies in one of two buffers."""

    name: str
    shape: Shape
    buffers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What computes operations that are not elementwise, by opcode: `several` those that give several arrays."""

    stored: Mapping[str, Callable[[Emitter, Operation], str]]
    several: Mapping[str, Callable[[Emitter, Operation], None]]


class Emitter:
    def __init__(self, program: Program, tables: Tables) -> None:
        self._program, self._tables = program, tables
        self._lines: list[str] = []
        self._depth = 1
        self.known: dict[int, Operation] = {}
        self.uses: Counter[int] = Counter()
        self._reads: Counter[int] = Counter()  # how often it would be computed if that were done where it is used
        self._depths: dict[int, int] = {}
        self.carried: set[int] = set()  # parameters that are the state of a loop
        self.pointers: dict[int, str] = {}  # of values that lie in memory, row-major
        self.scalars: dict[int, str] = {}  # C++ expressions
        self.buffers: dict[str, Buffer] = {}
        self.constants: list[tuple[int, Array]] = []
        self._constant_end = 0
        self.clock = 0
        self.new = count()
        self.fresh = count(1 + max(operation.id for operation in program.entry.everything()))
        self.aliases: dict[str, tuple[str, ...]] = {}  # buffers that a variable may point to
        self.results: dict[int, list[State]] = {}  # of operations that give several arrays

    def function(self, name: str, block: int | None) -> tuple[str, int]:
        """The source that defines `name`, and the bytes of scratch memory."""
        program = self._program
        for operation in program.entry.everything():
            self.known[operation.id] = operation
            self.uses.update(operation.operands)
            for nested in operation.regions:
                self.uses.update(nested.results)
        self.uses.update(program.entry.results)
        self._count_reads()
        for place, parameter in enumerate(program.entry.parameters):
            self.pointers[parameter.id] = f"input_{place}"
        self.region(program.entry)
        for place, result in enumerate(program.entry.results):
            self._give(place, result)
        block = block or self._chosen_block()
        scratch = self._planned(block)
        context: dict[str, object] = {
            "name": name,
            "block": block,
            "inputs": [_border(parameter.shape) for parameter in program.entry.parameters],
            "outputs": [_border(self.known[result].shape) for result in program.entry.results],
            "buffers": [{"name": b.name, "type": C_TYPES[b.dtype], "offset": b.offset} for b in self.buffers.values()],
            "statements": self._lines,
        }
        return render("native/program.cc.j2", context), scratch

    def _count_reads(self) -> None:
        """What only moves elements reads its operand as often as it is read itself."""
        self._reads.update(self._program.entry.results)
        for operation in reversed(tuple(self._program.entry.everything())):
            for nested in operation.regions:
                self._reads.update(nested.results)
            moves = operation.opcode in MOVING and not isinstance(operation.type, tuple)
            for operand in operation.operands:
                self._reads[operand] += self._reads[operation.id] if moves else 1

    def _give(self, place: int, value: int) -> None:
        """Write an output. A value that lies in memory already is copied."""
        shape = self.known[value].shape
        self.loop(shape.sizes, [(value, f"output_{place}", Index(ZERO, shape.strides))])

    def _chosen_block(self) -> int:
        """The most rows whose values stay in the cache between the loops.

        Values may take as much as the weights, which each pass reads anyway.
        """
        most = max(_CACHE, self._constant_end)
        return next((rows for rows in _BLOCKS if self._planned(rows) <= most), _BLOCKS[-1])

    def _planned(self, block: int) -> int:
        """Offsets of all buffers for `block` rows: each in the first gap between those that live when it does.

        Gives the bytes of all.
        """
        placed: list[Buffer] = []
        end = 0
        # The largest first: smaller ones fit into the gaps between these.
        for buffer in sorted(self.buffers.values(), key=lambda b: -b.bytes(block)):
            beside = sorted(
                (b.offset, b.offset + b.bytes(block))
                for b in placed
                if b.first <= buffer.last and buffer.first <= b.last
            )
            offset = 0
            for start, stop in beside:
                if offset + buffer.bytes(block) <= start:
                    break
                offset = max(offset, -(-stop // ALIGNMENT) * ALIGNMENT)
            buffer.offset = offset
            placed.append(buffer)
            end = max(end, offset + buffer.bytes(block))
        return end

    def line(self, text: str) -> None:
        self._lines.append("  " * self._depth + text)
        self.clock += 1

    @contextmanager
    def braces(self, head: str, tail: str = "}") -> Iterator[None]:
        self.line(f"{head} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line(tail)

    def region(self, region: Region) -> None:
        for operation in region.operations:
            if operation.opcode == "parameter" or self._is_deferred(operation):
                continue
            if isinstance(operation.type, tuple):
                if operation.opcode not in self._tables.several:
                    raise Unsupported(f"{operation.opcode} (node {operation.node!r})")
                self._tables.several[operation.opcode](self, operation)
            elif not operation.shape.rank and operation.opcode in ELEMENTWISE:
                self._name_scalar(operation)
            else:
                self.stored(operation.id)

    def _name_scalar(self, operation: Operation) -> None:
        """A variable for each: expressions within expressions would grow with the square of their number, or worse."""
        text, name = self.scalar(operation.id), f"s{next(self.new)}"
        self.line(f"[[maybe_unused]] const auto {name} = {text};")
        self.scalars[operation.id] = name

    def _is_deferred(self, operation: Operation) -> bool:
        """Whether it is computed where it is used."""
        if operation.opcode == "constant":
            return True
        if isinstance(operation.type, tuple) or operation.opcode not in (*ELEMENTWISE, *MOVING):
            return False
        if not operation.shape.rank and operation.opcode in ELEMENTWISE:
            return False
        depth = 1 + max((self._depths.get(operand, 0) for operand in operation.operands), default=0)
        # With several uses it would be computed several times.
        deferred = depth <= _DEEPEST and (operation.opcode in MOVING or self._reads[operation.id] == 1)
        if deferred:
            self._depths[operation.id] = depth
        return deferred

    def buffer(self, dtype: str, elements: Size) -> str:
        if dtype not in C_TYPES:
            raise Unsupported(f"arrays of {dtype}")
        name = f"v{next(self.new)}"
        self.buffers[name] = Buffer(name, dtype, elements, self.clock, self.clock)
        return name

    def touch(self, pointer: str) -> None:
        for name in self.aliases.get(pointer, (pointer,)):
            if name in self.buffers:
                self.buffers[name].last = self.clock + 1

    def constant(self, values: Array) -> str:
        offset = -(-self._constant_end // ALIGNMENT) * ALIGNMENT
        self.constants.append((offset, np.ascontiguousarray(values)))
        self._constant_end = offset + values.nbytes
        type_ = next(C_TYPES[name] for name, dtype in NUMPY_TYPES.items() if dtype == values.dtype)
        return f"reinterpret_cast<const {type_}*>(weights + {offset})"

    def stored(self, value: int) -> str:
        """The address of a value, which is computed now if it is not in memory yet."""
        if value in self.pointers:
            self.touch(self.pointers[value])
            return self.pointers[value]
        operation = self.known[value]
        if operation.opcode == "constant":
            self.pointers[value] = self.constant(literal(operation))
            return self.pointers[value]
        # Arrays are row-major, so that a reshape is the same memory.
        if operation.opcode == "reshape" and self.known[operation.operands[0]].shape.rank:
            return self.stored(operation.operands[0])
        special = self._tables.stored.get(operation.opcode)
        if special is not None:
            pointer = special(self, operation)
        elif operation.opcode in ELEMENTWISE or operation.opcode in MOVING or value in self.scalars:
            shape = operation.shape
            pointer = self.buffer(shape.dtype, shape.elements)
            self.loop(shape.sizes, [(value, pointer, Index(ZERO, shape.strides))])
        else:
            raise Unsupported(f"{operation.opcode} (node {operation.node!r})")
        self.pointers[value] = pointer
        return pointer

    def is_stored(self, value: int) -> bool:
        operation = self.known[value]
        if value in self.pointers or operation.opcode in self._tables.stored:
            return True
        return operation.opcode == "reshape" and self.is_stored(operation.operands[0])

    def loop(self, extents: tuple[Size, ...], stores: Sequence[tuple[int, str, Index]]) -> None:
        """Compute each value at all places of `extents` and write it to its address."""
        body = Body(extents)
        results = [self.value(value, body.identity(), body) for value, _, _ in stores]
        written: list[tuple[Access, str]] = []
        for (value, pointer, index), result in zip(stores, results, strict=True):
            self.touch(pointer)
            access = Access(f"o{len(written)}", pointer, self.known[value].shape.dtype, index)
            written.append((access, result))
        axes = merged(
            extents, [*(a.index for a in body.accesses), *(i for _, i in body.counted), *(a.index for a, _ in written)]
        )
        accesses = [moved_access(access, axes) for access in body.accesses]
        outputs = [(moved_access(access, axes), result) for access, result in written]
        counted = [(name, axes.index(index)) for name, index in body.counted]
        with self.nest(axes.extents):
            for access in (*accesses, *(access for access, _ in outputs)):
                self.address(access, is_written=any(access is each for each, _ in outputs))
            lines = self.inside(accesses, counted, len(axes.extents), body)
            lines += [store_text(access, result) for access, result in outputs]
            with self.each(axes.extents, body):
                for line in lines:
                    self.line(line)

    @contextmanager
    def nest(self, extents: tuple[Size, ...]) -> Iterator[None]:
        """Loops over all axes but the last, as i0, i1 ..."""
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
        each = "each" if body.by_vectors else "eachAlone"
        self.line(f"{each}({cpp(extents[-1] if extents else ONE)}, [&](auto at) {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("});")

    def address(self, access: Access, *, is_written: bool) -> None:
        # Without the last axis, which the inner loop counts.
        terms = [access.base, *address_terms(access.index, len(access.index.factors) - 1)]
        const = "" if is_written else "const "
        self.line(f"{const}{C_TYPES[access.dtype]}* const {access.variable} = {' + '.join(terms)};")

    def inside(
        self, accesses: Sequence[Access], counted: Sequence[tuple[str, Index]], rank: int, body: Body
    ) -> list[str]:
        """The statements inside of the inner loop; what is the same in all its turns is written before it, here."""
        lines = [*self.loads(accesses, body), *self.counts(counted, rank)]
        changing = {f"x{access.variable[1:]}" for access in accesses if (access.index.factors or (ZERO,))[-1] != ZERO}
        changing.update(name for name, _ in counted)
        for (name, _, made_of), statement in zip(body.lines, body.statements(), strict=True):
            if changing.isdisjoint(re.findall(r"\b[xy]\d+\b", made_of)):
                self.line(statement.replace("at.fill(", "filled(" if body.by_vectors else "("))
            else:
                changing.add(name)
                lines.append(statement)
        return lines

    def loads(self, accesses: Sequence[Access], body: Body) -> Iterator[str]:
        for access in accesses:
            last = access.index.factors[-1] if access.index.factors else ZERO
            name = f"x{access.variable[1:]}"
            # The same in each step of the inner loop: read once, before it.
            if last == ZERO:
                value = f"filled(*{access.variable})" if body.by_vectors else f"*{access.variable}"
                self.line(f"const auto {name} = {value};")
            else:
                stride = "" if last == ONE else f", {cpp(last)}"
                yield f"const auto {name} = at.load({access.variable}{stride});"

    def counts(self, counted: Sequence[tuple[str, Index]], rank: int) -> Iterator[str]:
        for name, index in counted:
            start = " + ".join(address_terms(index, rank - 1)) or "0"
            step = cpp(index.factors[-1]) if index.factors else "0"
            first, rest = (f"static_cast<std::int32_t>({number})" for number in (start, step))
            yield f"const auto {name} = at.count({first}, {rest});"

    def value(self, value: int, index: tuple[Index, ...], body: Body) -> str:
        """The name of what `value` is at `index`."""
        key = (value, index)
        if key not in body.known:
            body.known[key] = self._computed(value, index, body)
        return body.known[key]

    def _computed(self, value: int, index: tuple[Index, ...], body: Body) -> str:
        operation = self.known[value]
        body.types.add(operation.shape.dtype)
        if value in self.scalars:
            return f"at.fill({self.scalars[value]})"
        if operation.opcode == "constant" and not operation.shape.rank:
            return f"at.fill({number_text(operation)})"
        if value not in self.pointers:
            if operation.opcode == "get-tuple-element" and not operation.shape.rank:
                return f"at.fill({self.scalar(value)})"
            if not operation.shape.rank and operation.opcode in ELEMENTWISE:
                return f"at.fill({self.scalar(value)})"
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

    def _loaded(self, pointer: str, dtype: str, index: Index, body: Body) -> str:
        self.touch(pointer)
        key = (pointer, index)
        if key not in body.known:
            number = next(body.names)
            body.accesses.append(Access(f"p{number}", pointer, dtype, index))
            body.known[key] = f"x{number}"
        return body.known[key]

    def _applied(self, operation: Operation, index: tuple[Index, ...], body: Body) -> str:
        operands = [
            self.value(operand, index if self.known[operand].shape.rank else (), body) for operand in operation.operands
        ]
        name, sources = f"y{next(body.names)}", [self.known[operand].shape.dtype for operand in operation.operands]
        wide = sources[0] in VECTOR_TYPES and operation.shape.dtype in VECTOR_TYPES
        body.lines.append((name, operation.shape.dtype, expression(operation, operands, sources, by_vectors=wide)))
        return name

    def _moved(self, operation: Operation, index: tuple[Index, ...], body: Body) -> str | None:
        """The operand at the place that an element comes from; None if it must be in memory first."""
        attributes = operation.attributes
        if operation.opcode == "iota":
            (axis,) = attributes["dimensions"]
            name = f"y{next(body.names)}"
            body.counted.append((name, index[axis]))
            if operation.shape.dtype == "s32":
                return name
            wide = operation.shape.dtype == "f32"
            made = f"y{next(body.names)}"
            body.lines.append((made, operation.shape.dtype, f"f32OfS32({name})" if wide else name))
            return made
        operand = self.known[operation.operands[0]]
        match operation.opcode:
            case "broadcast":
                inner = tuple(index[axis] for axis in attributes["dimensions"])
            case "transpose":
                place = {axis: number for number, axis in enumerate(attributes["dimensions"])}
                inner = tuple(index[place[axis]] for axis in range(len(index)))
            case "slice":
                inner = tuple(
                    shifted(each.scaled(as_size(step)), as_size(start))
                    for each, (start, _, step) in zip(index, attributes["slices"], strict=True)
                )
            case "reverse":
                inner = tuple(
                    shifted(each.scaled(Size(-1)), size + Size(-1)) if axis in attributes["dimensions"] else each
                    for axis, (each, size) in enumerate(zip(index, operand.shape.sizes, strict=True))
                )
            case "dynamic-slice":
                inner = tuple(
                    replace(each, runtime=(*each.runtime, (self.start(start, operand.shape.sizes[axis], size), ONE)))
                    for axis, (each, start, size) in enumerate(
                        zip(index, operation.operands[1:], operation.shape.sizes, strict=True)
                    )
                )
            case _:
                return self._reshaped(operation, operand, index, body)
        return self.value(operand.id, inner, body)

    def start(self, value: int, length: Size, size: Size) -> str:
        """Where a slice of `size` begins, moved into an axis of `length`."""
        if length == size:
            return "0"
        most = f"static_cast<std::ptrdiff_t>({cpp(length)}) - static_cast<std::ptrdiff_t>({cpp(size)})"
        if self.known[value].shape.dtype[0] == "u":
            return f"static_cast<std::ptrdiff_t>(std::min<std::uint64_t>({self.scalar(value)}, {most}))"
        return f"std::min<std::ptrdiff_t>(std::max<std::ptrdiff_t>({self.scalar(value)}, 0), {most})"

    def _reshaped(self, operation: Operation, operand: Operation, index: tuple[Index, ...], body: Body) -> str | None:
        if self.is_stored(operand.id):
            flat = Index(ZERO, tuple(ZERO for _ in body.extents))
            for each, stride in zip(index, operation.shape.strides, strict=True):
                flat = flat.plus(each.scaled(stride))
            return self._loaded(self.stored(operand.id), operation.shape.dtype, flat, body)
        inner = split(operand.shape.sizes, operation.shape.sizes, index, len(body.extents))
        if inner is not None:
            return self.value(operand.id, inner, body)
        self.stored(operand.id)
        return self._reshaped(operation, operand, index, body)

    def scalar(self, value: int) -> str:
        """A C++ expression for an array without axes."""
        if value in self.scalars:
            return self.scalars[value]
        operation = self.known[value]
        if operation.opcode == "constant":
            return number_text(operation)
        if operation.opcode == "get-tuple-element":
            self.stored(value)
            return self.scalars[value]
        if value in self.pointers or operation.opcode in self._tables.stored:
            return f"*{self.stored(value)}"
        if operation.opcode == "reshape":
            return self._element(operation.operands[0])
        if operation.opcode not in ELEMENTWISE:
            return f"*{self.stored(value)}"
        operands = [self.scalar(operand) for operand in operation.operands]
        sources = [self.known[operand].shape.dtype for operand in operation.operands]
        return f"static_cast<{c_type(operation.shape)}>({expression(operation, operands, sources, by_vectors=False)})"

    def _element(self, value: int) -> str:
        return self.scalar(value) if not self.known[value].shape.rank else f"*{self.stored(value)}"


def _border(shape: Shape) -> dict[str, object]:
    """An input or output for the template. Raises Unsupported if its rows do not lie one behind the other."""
    row_bytes = shape.elements.per_row * NUMPY_TYPES[shape.dtype].itemsize
    if row_bytes and shape.sizes[0].per_row == 0:
        raise Unsupported("an input or output whose first axis is not the batch")
    return {"type": c_type(shape), "row_bytes": row_bytes}
