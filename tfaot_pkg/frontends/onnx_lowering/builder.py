"""Builds programs: the type of each operation is inferred by its rule in the table (compiler/operations.py).

A rule sees sizes as numbers, so it is asked at several sizes, and the polynomials through its answers are the type.
Operations of known values are computed at once; those of sizes as polynomials (values.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Comparison, Constant, Dimensions, Element, varies
from tfaot_pkg.compiler.fitting import Fit, Point
from tfaot_pkg.compiler.meanings import Meaning
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import (
    NO_ATTRIBUTES,
    NO_SYMBOLS,
    NUMPY_TYPES,
    Attributes,
    Binding,
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
    reducer,
)
from tfaot_pkg.compiler.type_rules import ArrayType, Callee, Malformed, Types, Use
from tfaot_pkg.frontends.onnx_lowering.values import Ranges, Undecided, Value, as_size, known, product
from tfaot_pkg.ground.arrays import Array

_MOST_OPERATIONS = 200_000
"""The limit of a program."""
MOST_FOLDED = 1 << 24
"""The most elements of a result that is computed at once."""
_MOST_SPREAD = 1 << 12
"""The same, for results that are larger than what they are made of, or slow to compute with NumPy."""
_SLOW = frozenset("broadcast dynamic-slice gather iota reduce-window scatter sort".split())
_NEVER = frozenset("call conditional custom-call parameter trees while".split())
_MOVING = frozenset("broadcast concatenate copy gather pad reshape reverse slice transpose".split())
"""Operations that move elements, of whatever type."""
_KEEPING = frozenset("ceil copy floor round-nearest-afz round-nearest-even".split())
"""Operations that leave integers as they are."""
_ALWAYS_SEVERAL = frozenset(("top_k", "while"))
"""Operations that give a list of arrays also if there is one."""


@dataclass(slots=True)
class _Scope:
    """The operations of a region, and the constants among them by the identity of their values."""

    operations: list[Operation] = field(default_factory=list)
    constants: dict[int, tuple[Value, int]] = field(default_factory=dict)


class Builder:
    """A program under construction. `node` names the operator whose operations come next.

    Without `layers`, all operations are HLO's.
    """

    def __init__(self, symbols: Sequence[Symbol], *, layers: bool = True) -> None:
        self.node, self.layers = "", layers
        self.symbols, self.ranges = tuple(symbols), Ranges(tuple(symbols))
        self._bindings, self._fit = _points(self.symbols)
        self._ids, self._types, self._scopes = count(), dict[int, Type](), [_Scope()]
        self._answers: dict[tuple[str, tuple[Shape, ...], Attributes, tuple[Shape, ...]], tuple[Shape, ...]] = {}

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
        types = self._inferred(opcode, operands, attributes, tuple(regions), tuple(stated))
        several = len(types) > 1 or opcode in _ALWAYS_SEVERAL
        operation = Operation(
            id=0, opcode=opcode, type=types if several else types[0], attributes=attributes, regions=tuple(regions),
        )  # fmt: skip
        if (made := self._folded(operation, operands)) is not None:
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
        (shape,) = self._inferred(opcode, operands, attributes, (), ())
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
        self._types[number] = type_
        self._scopes[-1].operations.append(
            Operation(
                id=number, opcode=opcode, type=type_, operands=operands, attributes=attributes, regions=regions,
                node=self.node,
            )
        )  # fmt: skip
        return number

    def _inferred(
        self,
        opcode: str,
        operands: Sequence[Value],
        attributes: Attributes,
        regions: tuple[Region, ...],
        stated: tuple[Shape, ...],
    ) -> tuple[Shape, ...]:
        if regions:
            return self._asked(opcode, operands, attributes, regions, stated)
        # Most operations of a graph occur again, with the same types.
        question = opcode, tuple(each.shape for each in operands), attributes, stated
        if question not in self._answers:
            self._answers[question] = self._asked(opcode, operands, attributes, regions, stated)
        return self._answers[question]

    def _asked(
        self,
        opcode: str,
        operands: Sequence[Value],
        attributes: Attributes,
        regions: tuple[Region, ...],
        stated: tuple[Shape, ...],
    ) -> tuple[Shape, ...]:
        rule = OPERATIONS[opcode].result
        given = [*(each.shape for each in operands), *stated]
        # Most sizes are numbers: then one point shows all.
        is_fixed = not regions and all(s.is_constant for each in given for s in each.sizes) and not varies(attributes)
        seen: list[Types] = []
        for at in self._bindings[:1] if is_fixed else self._bindings:
            use = Use(
                operands=tuple((_type(each.shape, at),) for each in operands),
                stated=tuple(_type(each, at) for each in stated),
                attributes=attributes,
                regions=tuple(self._callee(region, at) for region in regions),
                sizes=at,
            )
            try:
                seen.append(rule(use))
            except Malformed as error:
                raise Unsupported(f"{opcode}: {error}") from None
        return stated or tuple(self._shape(each) for each in zip(*seen, strict=True))

    def _shape(self, seen: Sequence[ArrayType]) -> Shape:
        """The type that is `seen[i]` at the i-th point; at all points if there is one."""
        if len(seen) == 1:
            return Shape(seen[0].dtype, tuple(map(Size, seen[0].sizes)))
        return Shape(seen[0].dtype, tuple(map(self._fit.size, zip(*(each.sizes for each in seen), strict=True))))

    def _callee(self, region: Region, at: Binding) -> Callee:
        def of(number: int) -> ArrayType:
            found = self._types[number]
            assert isinstance(found, Shape)
            return _type(found, at)

        return Callee(takes=tuple(of(each.id) for each in region.parameters), gives=tuple(map(of, region.results)))

    # -- known values --------------------------------------------------------------------------------------------

    def _folded(self, operation: Operation, operands: Sequence[Value]) -> tuple[Value, ...] | None:
        if operation.opcode in _NEVER or any(each.known is None for each in operands):
            return None
        if not _is_worth_folding(operation, operands):
            return None
        if any(each.numbers is None for each in operands):
            try:
                made = self._of_sizes(operation, operands)
            except (Undecided, Unsupported):
                return None
            dtype = operation.shape.dtype
            # Otherwise it is computed, and wraps around, or is rounded, as the framework's does.
            if made is None or not all(self.ranges.fits(each, dtype) for each in made.flat if isinstance(each, Size)):
                return None
            return (known(made.reshape(_numbers(operation.shape)), dtype),)
        values = [each.numbers for each in operands if each.numbers is not None]
        result = interpret.evaluate(operation, values)
        arrays = result if isinstance(result, tuple) else (result,)
        return tuple(
            Value(shape=shape, known=np.asarray(array, NUMPY_TYPES[shape.dtype]))
            for shape, array in zip(operation.shapes, arrays, strict=True)
        )

    def _of_sizes(self, operation: Operation, operands: Sequence[Value]) -> Array | None:
        """The result for integers that depend on symbols; None if there is no rule. Raises Undecided."""
        opcode = operation.opcode
        arrays = [np.asarray(each.known, object) for each in operands]
        if opcode in _MOVING:
            return _moved(operation, operands)
        if opcode in _KEEPING:
            return arrays[0]
        if opcode == "convert":
            return None if operation.shape.dtype == "pred" else arrays[0]
        if opcode == "select" and operands[0].numbers is not None:
            return np.asarray(np.where(operands[0].numbers, arrays[1], arrays[2]), object)
        if opcode == "compare":
            direction = Comparison.of(operation).direction
            decided = [
                self.ranges.compare(direction, as_size(a), as_size(b)) for a, b in zip(*_flat(arrays), strict=True)
            ]
            return np.array(decided, object)
        if opcode == "reduce":
            return self._reduced(operation, arrays)
        if opcode == "negate":
            return self._each("multiply", arrays[0], np.full(arrays[0].shape, -1, object))
        if opcode in ("divide", "remainder") and operation.shape.dtype in ("f32", "f64"):
            # A quotient of floats that is no integer is no polynomial either: `divide` decides.
            return self._each(opcode, *arrays) if opcode == "divide" else None
        return self._each(opcode, *arrays) if len(arrays) == 2 else None

    def _each(self, opcode: str, first: Array, second: Array) -> Array | None:
        function = self.ranges.function(opcode)
        if function is None:
            return None
        made = np.empty(first.size, object)
        for place, (a, b) in enumerate(zip(*_flat([first, second]), strict=True)):
            made[place] = function(as_size(a), as_size(b))
        return made

    def _reduced(self, operation: Operation, arrays: Sequence[Array]) -> Array | None:
        combine = self.ranges.function(reducer(operation) or "")
        if combine is None or len(arrays) != 2:
            return None
        moved = np.moveaxis(arrays[0], axes := Dimensions.of(operation).dimensions, range(len(axes)))
        flat = moved.reshape(-1, *moved.shape[len(axes) :])
        made = np.empty(flat.shape[1:], object)
        for place in np.ndindex(*made.shape):
            total = as_size(arrays[1].reshape(())[()])
            for row in range(len(flat)):
                total = combine(total, as_size(flat.item(row, *place)))
            made[place] = total
        return made

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
        rank = max(each.rank for each in values)
        rows = [(*[Size(1)] * (rank - each.rank), *each.sizes) for each in values]
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


class _AtRest:
    """A run without sizes, for meanings of operations that move elements."""

    at = Binding(0, NO_SYMBOLS)

    def call(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        raise Undecided

    def sizes(self, operation: Operation) -> tuple[int, ...]:
        return _numbers(operation.shape)


def _moved(operation: Operation, operands: Sequence[Value]) -> Array:
    """The result of an operation that moves elements. Raises Undecided if the places that it takes are no numbers."""
    meaning: Meaning | None = OPERATIONS[operation.opcode].meaning
    assert meaning is not None
    arrays = [np.asarray(each.known, object) for each in operands]
    if operation.opcode != "gather":
        return np.asarray(meaning(_AtRest(), operation, *arrays), object)
    if (indices := operands[1].numbers) is None:
        raise Undecided
    # By the numbers of the elements: a window of one object would be an array, and not the object.
    numbers = np.arange(arrays[0].size).reshape(arrays[0].shape)
    return np.asarray(arrays[0].reshape(-1)[meaning(_AtRest(), operation, numbers, indices)], object)


def _flat(arrays: Sequence[Array]) -> list[Array]:
    return [each.reshape(-1) for each in arrays]


def _is_worth_folding(operation: Operation, operands: Sequence[Value]) -> bool:
    """Whether an operation of known values has results of constant sizes that are small enough to be constants."""
    if not all(size.is_constant for shape in operation.shapes for size in shape.sizes):
        return False
    total = sum(prod(size.constant for size in shape.sizes) for shape in operation.shapes)
    given = max((each.known.size for each in operands if each.known is not None), default=0)
    is_slow = operation.opcode in _SLOW and (total > given or operation.opcode not in ("broadcast", "iota"))
    return bool(total <= (_MOST_SPREAD if is_slow else MOST_FOLDED))


def _numbers(shape: Shape) -> tuple[int, ...]:
    return tuple(size.constant for size in shape.sizes)


def _common(sizes: Sequence[Size]) -> Size:
    found = {size for size in sizes if size != Size(1)}
    if len(found) > 1:
        raise Unsupported(f"sizes {' and '.join(sorted(map(str, found)))} do not fit")
    return found.pop() if found else Size(1)


def _type(shape: Shape, at: Binding) -> ArrayType:
    return ArrayType(shape.dtype, at.numbers(shape.sizes))


def _points(symbols: Sequence[Symbol]) -> tuple[tuple[Binding, ...], Fit]:
    """Sizes at which types are inferred: enough for polynomials of the second degree, and more as checks."""
    largest = {each.name: each.maximum for each in symbols}
    rows: list[Mapping[str, int]] = [largest, {each.name: _near(each, 1) for each in symbols}]
    for place, each in enumerate(symbols):
        rows += [{**largest, each.name: _near(each, step)} for step in (1, 2, 3)]
        rows += [{**largest, each.name: _near(each, 1), other.name: _near(other, 1)} for other in symbols[:place]]
    pairs = [(batch, row) for row in rows for batch in (1, 2)] + [(3, rows[-1]), (64, largest)]
    points = [Point(batch, row) for place, (batch, row) in enumerate(pairs) if (batch, row) not in pairs[:place]]
    return tuple(Binding(point.batch, point.sizes) for point in points), Fit(points)


def _near(symbol: Symbol, step: int) -> int:
    """A size below the maximum; above it only if there are too few."""
    return symbol.maximum - step if symbol.maximum - step >= symbol.minimum else symbol.maximum + step
