"""A program as a listing of HLO at several sizes, as the worker lists graphs: for analyses that read these (program/).

`importing.py` is the opposite. Operations that HLO does not have are Unsupported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import count, product
from typing import Any

import numpy as np

from tfaot_pkg.compiler import meanings
from tfaot_pkg.compiler.attributes import Dot
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import Binding, Operation, Program, Region, Shape, Size, Symbol, Unsupported
from tfaot_pkg.worker_program.messages import listing
from tfaot_pkg.worker_program.messages.carriers import TREES

_BATCHES = (5, 7, 132, 2, 3)
"""As the worker's probes (worker_program/hlo.py)."""
_SYMBOL_SIZES = (11, 13, 17)
_LARGEST_LITERAL = 1 << 18
_HLO = frozenset(listing.ATTRIBUTES) | {
    name for name, definition in OPERATIONS.items() if not definition.summary and not definition.regions[1]
}
_OF_SHORT = {
    name: (dtype, opcodes)
    for dtype in ("bf16", "f16")
    for name, opcodes in (
        (f"{dtype}-of-bits", ("bitcast-convert", "convert")),
        (f"bits-of-{dtype}", ("convert", "bitcast-convert")),
        (f"round-to-{dtype}", ("convert", "convert")),
    )
}
"""Operations of the bits and the numbers of types that programs do not have."""
_WITH_SCALARS = frozenset(("reduce", "reduce-window", "scatter", "sort"))
"""Operations whose regions take numbers."""


def listing_of(program: Program) -> listing.HloListing:
    """Modules at all probes, and at other sizes of the symbols. Raises Unsupported."""
    base = {each.name: _sizes(each)[0] for each in program.symbols}
    grid = [dict(zip(base, sizes, strict=True)) for sizes in product(*map(_sizes, program.symbols))][1:]
    largest = {each.name: each.maximum for each in program.symbols}
    samples = [(batch, sizes) for sizes in grid for batch in _BATCHES[:2]]
    samples += [(_BATCHES[1] + 4, largest)] if largest else []
    return listing.HloListing(
        modules=tuple(_module(program, batch, base) for batch in _BATCHES),
        fault="",
        samples=tuple(_module(program, batch, sizes) for batch, sizes in samples),
    )


def _sizes(symbol: Symbol) -> list[int]:
    inside = [size for size in _SYMBOL_SIZES if symbol.minimum <= size <= symbol.maximum]
    near = range(symbol.maximum, symbol.minimum - 1, -1)
    return [*inside, *(size for size in near if size not in inside)][: len(_SYMBOL_SIZES)]


def _module(program: Program, batch: int, sizes: Mapping[str, int]) -> listing.Module:
    made = _Module(Binding(batch, sizes))
    entry = made.entry(program.entry)
    return listing.Module(batch_size=batch, entry=entry, computations=tuple(made.computations), sizes=sizes)


class _Body:
    """A computation that is being listed: `known` are listed ids by those of the program."""

    def __init__(self, module: _Module, outside: Mapping[int, Operation]) -> None:
        self.module, self.outside = module, outside
        self.known: dict[int, int] = {}
        self.shapes: dict[int, listing.ArrayShape | listing.TupleShape] = {}
        self.instructions: list[listing.Instruction] = []

    def add(
        self, opcode: str, shape: listing.ArrayShape | listing.TupleShape, operands: Sequence[int] = (), *,
        attributes: Any = None, called: Sequence[int] = (), node: str = "",
    ) -> int:  # fmt: skip
        number = next(self.module.ids)
        self.shapes[number] = shape
        self.instructions.append(
            listing.Instruction(
                id=number, opcode=opcode, node=node, operation="", shape=shape, operands=tuple(operands),
                called=tuple(called), attributes=attributes or listing.NoAttributes(),
            )
        )  # fmt: skip
        return number

    def id_of(self, value: int) -> int:
        """Constants from outside are listed again: HLO's computations read nothing from outside."""
        if value not in self.known:
            found = self.outside[value]
            if found.opcode != "constant":
                raise Unsupported(f"a region that reads {found.opcode} from outside")
            self.list(found)
        return self.known[value]

    def tuple_of(self, values: Sequence[int]) -> int:
        shape = listing.TupleShape(parts=tuple(self.shapes[each] for each in values))
        return self.add("tuple", shape, values)

    def element(self, whole: int, index: int) -> int:
        shape = self.shapes[whole]
        assert isinstance(shape, listing.TupleShape)
        return self.add("get-tuple-element", shape.parts[index], [whole], attributes=listing.Index(index=index))

    def list(self, operation: Operation) -> None:
        self.known[operation.id] = self.module.listed(self, operation)

    def finished(self, root: int) -> int:
        return self.module.finished(self, root)


class _Module:
    def __init__(self, at: Binding) -> None:
        self.at = at
        self.ids = count()
        self.computations: list[listing.Computation] = []

    def finished(self, body: _Body, root: int) -> int:
        number = next(self.ids)
        self.computations.append(listing.Computation(id=number, root=root, instructions=tuple(body.instructions)))
        return number

    def entry(self, region: Region) -> int:
        body = _Body(self, {})
        body.outside = region.by_id()
        for operation in region.operations:
            body.list(operation)
        return body.finished(body.tuple_of([body.id_of(result) for result in region.results]))

    def shape(self, shape: Shape) -> listing.ArrayShape:
        return listing.ArrayShape(dtype=shape.dtype, sizes=self.at.numbers(shape.sizes))

    def whole(self, operation: Operation) -> listing.ArrayShape | listing.TupleShape:
        parts = tuple(map(self.shape, operation.shapes))
        return listing.TupleShape(parts=parts) if isinstance(operation.type, tuple) else parts[0]

    def listed(self, body: _Body, operation: Operation) -> int:
        shape, node = self.whole(operation), operation.node
        if operation.opcode == "while":
            return self._while(body, operation)
        if operation.opcode == "conditional":
            return self._conditional(body, operation)
        operands = [body.id_of(each) for each in operation.operands]
        if operation.opcode == "trees":
            return body.add("custom-call", shape, operands, attributes=listing.CustomCall(target=TREES), node=node)
        if operation.opcode in _OF_SHORT:
            return self._of_short(body, operation, operands)
        if operation.opcode in _WITH_SCALARS:
            called = self._of_scalars(body, operation.regions[0])
            attributes = self._attributes(operation)
            return body.add(operation.opcode, shape, operands, attributes=attributes, called=[called], node=node)
        if operation.opcode not in _HLO or operation.regions:
            raise Unsupported(f"{operation.opcode}, which HLO does not have")
        return body.add(operation.opcode, shape, operands, attributes=self._attributes(operation), node=node)

    def _of_short(self, body: _Body, operation: Operation, operands: Sequence[int]) -> int:
        """Two instructions, between which the array has the short type."""
        dtype, opcodes = _OF_SHORT[operation.opcode]
        shape = self.shape(operation.shape)
        short = listing.ArrayShape(dtype=dtype, sizes=shape.sizes)
        first = body.add(opcodes[0], short, operands, node=operation.node)
        return body.add(opcodes[1], shape, [first], node=operation.node)

    def _attributes(self, operation: Operation) -> Any:
        kind = listing.ATTRIBUTES.get(operation.opcode, listing.NoAttributes)
        if kind is listing.Literals:
            return self._literals(operation)
        given = operation.attributes
        if isinstance(given, Dot) and given.order:
            raise Unsupported("a product in another order")
        return kind(**{each.name: self._numbers(getattr(given, each.name)) for each in fields(kind)})

    def _numbers(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._numbers, value))
        return self.at.number(value) if isinstance(value, Size) else value

    def _literals(self, operation: Operation) -> listing.Literals:
        values = np.ascontiguousarray(meanings.constant(_At(self.at), operation))
        digest = hashlib.sha256(f"{values.dtype}{values.shape}".encode() + values.tobytes()).hexdigest()
        is_large = values.size > _LARGEST_LITERAL
        return listing.Literals(digest=digest, values=None if is_large else tuple(values.reshape(-1).tolist()))

    def _of_scalars(self, body: _Body, region: Region) -> int:
        inner = _Body(self, {**body.outside, **region.by_id()})
        for operation in region.operations:
            inner.list(operation)
        results = [inner.id_of(result) for result in region.results]
        return inner.finished(results[0] if len(results) == 1 else inner.tuple_of(results))

    def _captured(self, body: _Body, regions: Iterable[Region]) -> list[int]:
        """What the regions read from outside, except constants."""
        inside = {each.id for region in regions for each in region.everything()}
        read = [o for region in regions for each in region.everything() for o in (*each.operands, *_results(each))]
        read += [result for region in regions for result in region.results]
        found = dict.fromkeys(each for each in read if each not in inside)
        return [each for each in found if body.outside[each].opcode != "constant"]

    def _inner(self, body: _Body, region: Region, takes: Sequence[int], whole: listing.TupleShape) -> _Body:
        """A computation that takes a tuple, of the values `takes`, and lists the operations of `region`."""
        inner = _Body(self, {**body.outside, **region.by_id()})
        parameter = inner.add("parameter", whole, attributes=listing.Number(number=0))
        for place, value in enumerate(takes):
            inner.known[value] = inner.element(parameter, place)
        for operation in region.operations:
            if operation.opcode != "parameter":
                inner.list(operation)
        return inner

    def _while(self, body: _Body, operation: Operation) -> int:
        captured = self._captured(body, operation.regions)
        state = body.tuple_of([body.id_of(each) for each in (*operation.operands, *captured)])
        whole = body.shapes[state]
        assert isinstance(whole, listing.TupleShape)
        called = []
        for region, is_body in zip(operation.regions, (True, False), strict=True):
            takes = [*(each.id for each in region.parameters), *captured]
            inner = self._inner(body, region, takes, whole)
            results = [inner.id_of(result) for result in region.results]
            kept = [inner.known[each] for each in captured]
            called.append(inner.finished(inner.tuple_of([*results, *kept]) if is_body else results[0]))
        return body.add("while", whole, [state], called=called, node=operation.node)

    def _conditional(self, body: _Body, operation: Operation) -> int:
        which, *given = operation.operands
        operands, called = [body.id_of(which)], []
        for region in operation.regions:
            captured = self._captured(body, [region])
            own, given = given[: len(region.parameters)], given[len(region.parameters) :]
            operands.append(body.tuple_of([body.id_of(each) for each in (*own, *captured)]))
            whole = body.shapes[operands[-1]]
            assert isinstance(whole, listing.TupleShape)
            inner = self._inner(body, region, [*(each.id for each in region.parameters), *captured], whole)
            results = [inner.id_of(result) for result in region.results]
            is_one = not isinstance(operation.type, tuple)
            called.append(inner.finished(results[0] if is_one else inner.tuple_of(results)))
        return body.add("conditional", self.whole(operation), operands, called=called, node=operation.node)


def _results(operation: Operation) -> Iterable[int]:
    return (result for region in operation.regions for result in region.results)


class _At:
    """A run at one size of everything, for constants."""

    def __init__(self, at: Binding) -> None:
        self.at = at

    def call(self, region: Region, arguments: Sequence[Any]) -> list[Any]:
        raise Unsupported("a constant with a region")

    def sizes(self, operation: Operation) -> tuple[int, ...]:
        return self.at.numbers(operation.shape.sizes)
