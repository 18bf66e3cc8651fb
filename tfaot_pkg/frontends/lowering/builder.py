"""Builds programs, operation by operation: types are inferred (inference.py), and what is known is computed at once
(folding.py); sizes are polynomials (values.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from tfaot_pkg.compiler.attributes import Comparison, Constant, Dimensions, Element
from tfaot_pkg.compiler.program import (
    NO_ATTRIBUTES,
    NUMPY_TYPES,
    Attributes,
    Literal,
    Number,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Symbol,
    Type,
    Unsupported,
)
from tfaot_pkg.frontends.lowering.folding import MOST_FOLDED, Folding
from tfaot_pkg.frontends.lowering.inference import Inference
from tfaot_pkg.frontends.lowering.values import Ranges, Value, as_size, known, product

_MOST_OPERATIONS = 200_000
"""The limit of a program."""
_ALWAYS_SEVERAL = frozenset(("top_k", "while"))
"""Operations that give a list of arrays also if there is one."""


@dataclass(slots=True)
class _Scope:
    """The operations of a region, and the constants among them by the identity of their values."""

    operations: list[Operation] = field(default_factory=list)
    constants: dict[int, tuple[Value, int]] = field(default_factory=dict)


class Builder:
    """A program under construction. `node` names the operator whose operations come next.

    Without `layers`, all operations are HLO's. With `by_definition`, results are rounded as their definition in the
    framework rounds them, also if we compute them more exactly: so does who asks how far off a framework may be.
    """

    def __init__(self, symbols: Sequence[Symbol], *, layers: bool = True, by_definition: bool = False) -> None:
        self.node, self.layers, self.by_definition = "", layers, by_definition
        self.symbols, self.ranges = tuple(symbols), Ranges(tuple(symbols))
        self._inference, self._folding = Inference(self.symbols), Folding(self.ranges)
        self._ids, self._scopes = count(), [_Scope()]

    # -- the program ---------------------------------------------------------------------------------------------

    def program(self, inputs: Sequence[Shape], body: Callable[[Sequence[Value]], Sequence[Value]]) -> Program:
        """The program whose outputs are what `body` makes of the inputs."""
        return Program(entry=self.region(inputs, body), symbols=self.symbols)

    def region(self, takes: Sequence[Shape], body: Callable[[Sequence[Value]], Sequence[Value]]) -> Region:
        """A region that takes arrays of the types `takes`."""
        self._scopes.append(_Scope())
        try:
            given = [
                Value(shape=shape, id=self._add("parameter", shape, attributes=Number(number=number)))
                for number, shape in enumerate(takes)
            ]
            results = tuple(self.id_of(each) for each in body(given))
            return Region(operations=tuple(self._scopes[-1].operations), results=results)
        finally:
            self._scopes.pop()

    def id_of(self, value: Value) -> int:
        """The operation that computes `value`: a constant, if its elements are known."""
        if value.id is not None:
            return value.id
        for scope in self._scopes:
            if id(value) in scope.constants:
                return scope.constants[id(value)][1]
        made = self._constant(value)
        # The value itself too, so that no other one gets its identity.
        self._scopes[-1].constants[id(value)] = value, made
        return made

    def _constant(self, value: Value) -> int:
        assert value.known is not None
        numbers = value.numbers
        if numbers is not None:
            attributes = Constant(literal=Literal(np.ascontiguousarray(numbers).reshape(numbers.shape)))
            return self._add("constant", value.shape, attributes=attributes)
        if value.is_float:
            # Computed: known integers would be converted at once.
            whole = Shape("s64", value.sizes)
            computed = Value(shape=whole, id=self._literal(Value(shape=whole, known=value.known)))
            return self.id_of(self.convert(computed, value.dtype))
        return self._literal(value)

    def _literal(self, value: Value) -> int:
        """Integers that depend on symbols: scalars times constants, summed up, if they are not all the same."""
        assert value.known is not None
        dtype = NUMPY_TYPES[value.dtype]
        sizes = [as_size(each) for each in value.known.reshape(-1)]
        if len(set(sizes)) == 1:
            number = self._symbolic(value.dtype, sizes[0])
            return self.id_of(self.spread(number, value.sizes))
        monomials = sorted({monomial for size in sizes for monomial, _ in size.terms if monomial})
        parts = [dict(size.terms) for size in sizes]
        total = known(np.array([part.get((), 0) for part in parts], dtype).reshape(value.known.shape), value.dtype)
        for monomial in monomials:
            factors = np.array([part.get(monomial, 0) for part in parts], dtype).reshape(value.known.shape)
            number = self.spread(self._symbolic(value.dtype, Size.of([(monomial, 1)])), value.sizes)
            total = self.op("add", total, self.op("multiply", number, known(factors, value.dtype)))
        return self.id_of(total)

    def _symbolic(self, dtype: str, size: Size) -> Value:
        """A computed scalar of `size`."""
        shape, number = Shape(dtype, ()), NUMPY_TYPES[dtype].type
        growing = tuple((m, np.asarray(number(c))) for m, c in size.terms if m)
        constant = sum(c for m, c in size.terms if not m)
        literal = Literal(np.asarray(number(constant)), growing)
        return Value(shape=shape, id=self._add("constant", shape, attributes=Constant(literal=literal)))

    # -- operations ----------------------------------------------------------------------------------------------

    def op(
        self,
        opcode: str,
        *operands: Value,
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Region] = (),
        stated: Shape | None = None,
    ) -> Value:
        """The only result of an operation. `stated` is its type if the operands do not determine that."""
        types = () if stated is None else (stated,)
        (made,) = self.ops(opcode, *operands, attributes=attributes, regions=regions, stated=types)
        return made

    def ops(
        self,
        opcode: str,
        *operands: Value,
        attributes: Attributes = NO_ATTRIBUTES,
        regions: Sequence[Region] = (),
        stated: Sequence[Shape] = (),
    ) -> tuple[Value, ...]:
        """The results of an operation. Raises Unsupported if the rule of its type rejects it."""
        types = self._inference.inferred(
            opcode, [each.shape for each in operands], attributes, tuple(regions), tuple(stated)
        )
        several = len(types) > 1 or opcode in _ALWAYS_SEVERAL
        operation = Operation(
            id=0, opcode=opcode, type=types if several else types[0], attributes=attributes, regions=tuple(regions),
        )  # fmt: skip
        if (made := self._folding.folded(operation, operands)) is not None:
            return made
        ids = tuple(map(self.id_of, operands))
        whole = self._add(opcode, operation.type, ids, attributes, operation.regions)
        if not several:
            return (Value(shape=types[0], id=whole),)
        return tuple(
            Value(shape=shape, id=self._add("get-tuple-element", shape, (whole,), Element(index=place)))
            for place, shape in enumerate(types)
        )

    def shape_of(self, opcode: str, operands: Sequence[Value], attributes: Attributes) -> Shape:
        """The type that an operation of one result would have."""
        (shape,) = self._inference.inferred(opcode, [each.shape for each in operands], attributes)
        return shape

    def _add(
        self,
        opcode: str,
        type_: Type,
        operands: tuple[int, ...] = (),
        attributes: Attributes = NO_ATTRIBUTES,
        regions: tuple[Region, ...] = (),
    ) -> int:
        number = next(self._ids)
        if number >= _MOST_OPERATIONS:
            raise Unsupported(f"more than {_MOST_OPERATIONS} operations")
        self._inference.types[number] = type_
        self._scopes[-1].operations.append(
            Operation(
                id=number, opcode=opcode, type=type_, operands=operands, attributes=attributes, regions=regions,
                node=self.node,
            )
        )  # fmt: skip
        return number

    # -- what most operators need --------------------------------------------------------------------------------

    def constant(self, value: float, dtype: str) -> Value:
        """A scalar."""
        return known(np.asarray(value), dtype)

    def size(self, size: Size, dtype: str = "s64") -> Value:
        """A scalar of the number that `size` stands for."""
        array = np.empty((), object)
        array[()] = size
        return known(array, dtype)

    def convert(self, value: Value, dtype: str) -> Value:
        return value if value.dtype == dtype else self.op("convert", value, stated=Shape(dtype, value.sizes))

    def reshape(self, value: Value, sizes: Sequence[Size]) -> Value:
        wanted = tuple(sizes)
        return value if wanted == value.sizes else self.op("reshape", value, stated=Shape(value.dtype, wanted))

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        if tuple(order) == tuple(range(value.rank)):
            return value
        return self.op("transpose", value, attributes=Dimensions(dimensions=tuple(order)))

    def spread(self, value: Value, sizes: Sequence[Size], axes: Sequence[int] | None = None) -> Value:
        """`value` repeated to `sizes`; its axes become `axes`, by default the last ones, where a size of 1 repeats."""
        wanted = tuple(sizes)
        if axes is None:
            axes = range(len(wanted) - value.rank, len(wanted))
        kept = [(axis, size) for axis, size in zip(axes, value.sizes, strict=True) if size == wanted[axis]]
        lost = [size for axis, size in zip(axes, value.sizes, strict=True) if size != wanted[axis]]
        if any(size != Size(1) for size in lost):
            raise Unsupported(f"sizes {', '.join(map(str, value.sizes))} do not fit {', '.join(map(str, wanted))}")
        value = self.reshape(value, [size for _, size in kept])
        if value.sizes == wanted:
            return value
        dimensions = Dimensions(dimensions=tuple(axis for axis, _ in kept))
        return self.op("broadcast", value, attributes=dimensions, stated=Shape(value.dtype, wanted))

    def together(self, *values: Value) -> tuple[Size, ...]:
        """The sizes of an operation element by element. Raises Unsupported if operands do not fit."""
        return self.fitted(*(each.sizes for each in values))

    def fitted(self, *sizes: Sequence[Size]) -> tuple[Size, ...]:
        """What arrays of these sizes are repeated to, as in NumPy."""
        rank = max(map(len, sizes))
        rows = [(*[Size(1)] * (rank - len(each)), *each) for each in sizes]
        return tuple(_common(sizes) for sizes in zip(*rows, strict=True))

    def map(self, opcode: str, *values: Value, attributes: Attributes = NO_ATTRIBUTES) -> Value:
        """An operation element by element, with NumPy's broadcasting."""
        if all(each.known is not None for each in values):
            return self._map_known(opcode, values, attributes)
        sizes = self.together(*values)
        return self.op(opcode, *(self.spread(each, sizes) for each in values), attributes=attributes)

    def _map_known(self, opcode: str, values: Sequence[Value], attributes: Attributes) -> Value:
        arrays = np.broadcast_arrays(*(each.known for each in values if each.known is not None))
        shape = tuple(map(Size, arrays[0].shape))
        if arrays[0].size > MOST_FOLDED:
            raise Unsupported("a constant of too many elements")
        given = (Value(shape=Shape(each.dtype, shape), known=array) for each, array in zip(values, arrays, strict=True))
        return self.op(opcode, *given, attributes=attributes)

    def compare(self, direction: str, first: Value, second: Value, order: str = "") -> Value:
        return self.map("compare", first, second, attributes=Comparison(direction=direction, order=order))

    def reduce(self, opcode: str, value: Value, axes: Sequence[int], start: float, *, keep: bool = False) -> Value:
        """A reduction by one operation, from `start` on."""
        if not axes:
            return value
        number = Shape(value.dtype, ())
        region = self.region([number, number], lambda pair: [self.op(opcode, *pair)])
        made = self.op(
            "reduce", value, self.constant(start, value.dtype),
            attributes=Dimensions(dimensions=tuple(axes)), regions=[region],
        )  # fmt: skip
        kept = [Size(1) if axis in axes else size for axis, size in enumerate(value.sizes)]
        return self.reshape(made, kept) if keep else made

    def iota(self, dtype: str, sizes: Sequence[Size], axis: int) -> Value:
        """0, 1, 2 ... along `axis`."""
        return self.op("iota", attributes=Dimensions(dimensions=(axis,)), stated=Shape(dtype, tuple(sizes)))

    def count(self, sizes: Sequence[Size], dtype: str) -> Value:
        """A scalar: the number of elements of an array of `sizes`."""
        return self.size(product(sizes), dtype)


def _common(sizes: Sequence[Size]) -> Size:
    found = {size for size in sizes if size != Size(1)}
    if len(found) > 1:
        raise Unsupported(f"sizes {' and '.join(sorted(map(str, found)))} do not fit")
    return found.pop() if found else Size(1)
