"""From a listing of HLO at several sizes (analysis/program/hlo.py) and the model's constants to a `Program`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import count
from typing import Any

import numpy as np

from tfaot_pkg.analysis.program import hlo
from tfaot_pkg.compiler.attributes import (
    Constant,
    Dimensions,
    Element,
    MalformedAttributes,
    Slices,
    attributes_of,
)
from tfaot_pkg.compiler.fitting import Fit, Point
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import (
    NUMPY_TYPES,
    ROWS,
    Attributes,
    Literal,
    Monomial,
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
from tfaot_pkg.ground.arrays import Array

_MOST_OPERATIONS = 200_000
"""The limit of a program. Computations are copied to each of their calls, which may double them at each level."""
_SHORT = ("f16", "bf16")
"""Computed as float32 and rounded after each operation (decision 073): NumPy has no bfloat16, and the kernel library no
arithmetic of short floats."""
_EXACT = frozenset(
    "abs broadcast call clamp concatenate conditional constant convert copy dynamic-slice dynamic-update-slice gather "
    "get-tuple-element maximum minimum negate pad parameter reshape reverse select sign slice sort transpose tuple "
    "while".split()
)
"""Opcodes whose results need no rounding: they select or move numbers, change their sign, or convert them."""
_COMBINING = frozenset("reduce reduce-window scatter select-and-scatter".split())
"""Opcodes whose regions combine in float32: the result is rounded once."""
_DEEPEST = 24
"""The limit of nested regions. Each pass recurses into them, and Python limits recursion."""


def import_program(
    listing: hlo.Program,
    inputs: int,
    constants: Sequence[Array],
    samples: Sequence[hlo.Program] = (),
    symbols: Sequence[Symbol] = (),
) -> Program:
    """The program of `listing`, whose entry takes `inputs` inputs and then `constants`.

    `samples` are the same computation at other sizes of `symbols`. Raises Unsupported if sizes or attributes are not
    polynomials in the batch and the symbols, or for types that programs do not support.
    """
    entry = _Import(listing, inputs, constants, samples).region(listing.entry, is_entry=True)
    return Program(entry=entry, symbols=tuple(symbols))


class _Import:
    def __init__(
        self, listing: hlo.Program, inputs: int, constants: Sequence[Array], samples: Sequence[hlo.Program]
    ) -> None:
        self._listing, self._inputs, self._constants = listing, inputs, constants
        first, second = (Point(batch, sizes) for batch, sizes in zip(listing.batch_sizes, listing.sizes, strict=True))
        self._fit = Fit([first, second, *(Point(each.batch_sizes[1], each.sizes[1]) for each in samples)])
        # Each instruction at all points, as pairs: the first of each pair is the one at the first point.
        self._pairs: dict[int, list[hlo.Instruction]] = {}
        for number, computation in listing.computations.items():
            others = [each.computations[number].instructions for each in samples]
            for place, instruction in enumerate(computation.instructions):
                self._pairs[id(instruction)] = [instruction, *(each[place] for each in others)]
        self._new_ids = count()
        self._depth = 0
        self._is_rounding = True

    def region(self, number: int, *, is_entry: bool = False) -> Region:
        # Regions are read by recursion, in this pass and all that follow.
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unsupported(f"loops, branches and functions more than {_DEEPEST} deep")
        made = self._region(number, is_entry=is_entry)
        self._depth -= 1
        return made

    def _region(self, number: int, *, is_entry: bool) -> Region:
        computation = self._listing.computations[number]
        operations: list[Operation] = []
        values: dict[int, tuple[int, ...]] = {}  # by the ids of the listing: several for a tuple
        dtypes = {each.id: each.shape.dtype for each in computation.instructions}
        numbers = count()  # of parameters: a tuple has one number for each of its arrays
        add = partial(self._add, operations)
        for instruction in _parameters_first(computation):
            shapes, given = self._shapes(instruction), [values[operand] for operand in instruction.operands]
            made: tuple[int, ...]
            match instruction.opcode:
                # The worker lists large constants as parameters (worker_program/hlo.py).
                case "parameter" if is_entry and (place := instruction.attribute("number")) >= self._inputs:
                    literal = Literal(self._constants[place - self._inputs])
                    made = (add(instruction, "constant", shapes[0], attributes=Constant(literal=literal)),)
                # In the entry never a short float: those inputs are u16 and a bitcast (worker_program/carriers.py).
                case "parameter":
                    made = tuple(
                        add(instruction, "parameter", shape, attributes=Number(number=next(numbers)))
                        for shape in shapes
                    )
                case "convert" | "bitcast-convert" if _is_short(instruction, dtypes):
                    made = (self._converted(instruction, shapes[0], given[0][0], dtypes[instruction.operands[0]], add),)
                case "bitcast-convert" if _width(instruction.shape.dtype) != _width(dtypes[instruction.operands[0]]):
                    raise Unsupported(f"a bitcast to a type of another width (node {instruction.node!r})")
                case "tuple":
                    made = tuple(value for values_ in given for value in values_)
                case "get-tuple-element":
                    start = sum(_count(part) for part in self._parts(computation, instruction))
                    made = given[0][start : start + len(shapes)]
                case "constant":
                    made = (self._constant(instruction, shapes[0], add),)
                case _:
                    made = self._operation(instruction, shapes, [value for values_ in given for value in values_], add)
            values[instruction.id] = made
        return Region(operations=tuple(operations), results=values[computation.root])

    def _add(
        self,
        operations: list[Operation],
        instruction: hlo.Instruction,
        opcode: str,
        type_: Type,
        operands: Sequence[int] = (),
        **more: Any,
    ) -> int:
        """Append a new operation to `operations`, and return its id."""
        made = next(self._new_ids)
        if made >= _MOST_OPERATIONS:
            raise Unsupported(f"more than {_MOST_OPERATIONS} operations")
        operations.append(
            Operation(id=made, opcode=opcode, type=type_, operands=tuple(operands), node=instruction.node, **more)
        )
        return made

    def _operation(
        self, instruction: hlo.Instruction, shapes: tuple[Shape, ...], operands: Sequence[int], add: Callable[..., int]
    ) -> tuple[int, ...]:
        """The results of an instruction that needs no special treatment."""
        gives_tuple = isinstance(instruction.shape.parts, tuple)
        is_rounding, self._is_rounding = self._is_rounding, self._is_rounding and instruction.opcode not in _COMBINING
        regions = tuple(self.region(called) for called in instruction.called)
        self._is_rounding = is_rounding
        whole = add(
            instruction, instruction.opcode, shapes if gives_tuple else shapes[0], operands,
            attributes=self._attributes(instruction), regions=regions,
        )  # fmt: skip
        if not gives_tuple:
            return (self._rounded(instruction, instruction.shape.dtype, whole, shapes[0], add),)
        # Programs have no tuples: users of an element take it by its number among all arrays.
        parts = [
            add(instruction, "get-tuple-element", shape, [whole], attributes=Element(index=index))
            for index, shape in enumerate(shapes)
        ]
        dtypes = _dtypes(instruction.shape)
        return tuple(self._rounded(instruction, *each, add) for each in zip(dtypes, parts, shapes, strict=True))

    def _rounded(
        self, instruction: hlo.Instruction, dtype: str, value: int, shape: Shape, add: Callable[..., int]
    ) -> int:
        """The result of an instruction, rounded to `dtype` if that is a short type."""
        if dtype not in _SHORT or instruction.opcode in _EXACT or not self._is_rounding:
            return value
        if instruction.opcode == "custom-call":
            raise Unsupported(f"custom-call of {dtype} (node {instruction.node!r})")
        return add(instruction, f"round-to-{dtype}", shape, [value])

    def _converted(
        self, instruction: hlo.Instruction, shape: Shape, value: int, source: str, add: Callable[..., int]
    ) -> int:
        """A value converted to another type, or its bits; one of the types is short."""
        dtype = instruction.shape.dtype
        if instruction.opcode == "bitcast-convert" and source != dtype:
            names = {("u16", dtype): f"{dtype}-of-bits", (source, "u16"): f"bits-of-{source}"}
            if (source, dtype) not in names:
                raise Unsupported(f"a bitcast of {source} to {dtype} (node {instruction.node!r})")
            return add(instruction, names[source, dtype], shape, [value])
        # Between float32 and short types there is nothing to convert: all are float32 in programs.
        if source not in ("f32", *_SHORT) or dtype not in ("f32", *_SHORT):
            value = add(instruction, "convert", shape, [value])
        is_rounding = dtype in _SHORT and source != dtype and self._is_rounding
        return add(instruction, f"round-to-{dtype}", shape, [value]) if is_rounding else value

    def _parts(self, computation: hlo.Computation, element: hlo.Instruction) -> Sequence[hlo.Shape]:
        """The shapes that precede an element in its tuple."""
        shapes = {instruction.id: instruction.shape for instruction in computation.instructions}
        return (shapes[element.operands[0]].parts or ())[: element.attribute("index")]

    def _shapes(self, instruction: hlo.Instruction) -> tuple[Shape, ...]:
        """The shapes of an instruction's arrays: several for a tuple, in which nested ones are flattened."""
        try:
            return self._flat([pair.shape for pair in self._pairs[id(instruction)]])
        except Unsupported as error:
            raise Unsupported(f"{instruction.opcode} (node {instruction.node!r}): {error}") from None

    def _flat(self, shapes: Sequence[hlo.Shape]) -> tuple[Shape, ...]:
        first = shapes[0]
        if first.parts is not None:
            parts = zip(*(shape.parts or () for shape in shapes), strict=True)
            return tuple(inner for part in parts for inner in self._flat(part))
        dtype = "f32" if first.dtype in _SHORT else first.dtype
        if dtype not in NUMPY_TYPES:
            raise Unsupported(f"values of type {dtype}")
        axes = zip(*(shape.sizes for shape in shapes), strict=True)
        return (Shape(dtype, tuple(self._fit.size((pairs[0][0], *(at for _, at in pairs))) for pairs in axes)),)

    def _attributes(self, instruction: hlo.Instruction) -> Attributes:
        """Raises Unsupported if the operation is unknown, or if attributes are not those of the operation."""
        definition = OPERATIONS.get(instruction.opcode)
        if definition is None:
            raise Unsupported(f"{instruction.opcode} (node {instruction.node!r})")
        given = self._given(instruction)
        names = [field.name for field in fields(given[0])]
        try:
            values = {name: self._unified([getattr(each, name) for each in given]) for name in names}
            return attributes_of(definition.attributes, values)
        except MalformedAttributes as error:
            raise Unsupported(f"{instruction.opcode} (node {instruction.node!r}): {error}") from None

    def _given(self, instruction: hlo.Instruction) -> list[Any]:
        """The attributes at all points."""
        pairs = self._pairs[id(instruction)]
        return [pairs[0].attributes[0], *(pair.attributes[1] for pair in pairs)]

    def _unified(self, values: Sequence[Any]) -> Any:
        """One value; integers that differ become sizes."""
        first = values[0]
        if all(value == first for value in values):
            return first
        if all(isinstance(value, tuple) and len(value) == len(first) for value in values):
            return tuple(self._unified(each) for each in zip(*values, strict=True))
        if all(isinstance(value, int) for value in values):
            return self._fit.size(tuple(values))
        raise Unsupported(f"an attribute is {' and '.join(map(str, dict.fromkeys(values)))}")

    def _growing(self, instruction: hlo.Instruction, shape: Shape, add: Callable[..., int]) -> int:
        """A constant that has more elements at larger sizes."""
        arrays = self._arrays(instruction)
        largest = max(arrays, key=lambda array: array.size)
        # If every sample is the beginning of the largest one, the values do not depend on sizes.
        changes = any(not np.array_equal(largest[tuple(map(slice, array.shape))], array) for array in arrays)
        growing = [axis for axis, size in enumerate(shape.sizes) if not size.is_constant]
        if len(growing) == 1:
            steps = [_even_steps(array, growing[0]) for array in (arrays if changes else [largest])]
            if all(found is not None for found in steps):
                starts, rises = zip(*(found for found in steps if found is not None), strict=True)
                return self._counted(instruction, shape, growing[0], self._literal(starts), self._literal(rises), add)
            if (tile := _tile(arrays, growing[0], shape.sizes[growing[0]])) is not None:
                return self._tiled(instruction, shape, growing[0], tile, add)
        if changes:
            raise Unsupported("a constant that grows with a size, and changes with it")
        if any(size.grows for size in shape.sizes):
            raise Unsupported("a constant that grows with the batch, and is not the same for each row")
        # The last sample has all symbols at their maxima, so every call needs a part of it.
        whole_shape = Shape(shape.dtype, tuple(Size(size) for size in arrays[-1].shape))
        whole = add(instruction, "constant", whole_shape, attributes=Constant(literal=Literal(arrays[-1])))
        slices = tuple((0, size, 1) for size in shape.sizes)
        return add(instruction, "slice", shape, [whole], attributes=Slices(slices=slices))

    def _tiled(
        self, instruction: hlo.Instruction, shape: Shape, axis: int, tile: Array, add: Callable[..., int]
    ) -> int:
        """A constant that repeats `tile` for each row of the batch."""
        inner = Shape(shape.dtype, tuple(Size(size) for size in tile.shape))
        whole = add(instruction, "constant", inner, attributes=Constant(literal=Literal(tile)))
        sizes = (*inner.sizes[:axis], ROWS, *inner.sizes[axis:])
        others = tuple(other for other in range(shape.rank + 1) if other != axis)
        spread = add(
            instruction, "broadcast", Shape(shape.dtype, sizes), [whole], attributes=Dimensions(dimensions=others)
        )
        return add(instruction, "reshape", shape, [spread])

    def _counted(
        self, instruction: hlo.Instruction, shape: Shape, axis: int, start: Literal, step: Literal,
        add: Callable[..., int],
    ) -> int:  # fmt: skip
        """A constant whose elements along an axis are equal, or increase by the same step."""
        others = tuple(other for other in range(shape.rank) if other != axis)
        inner = Shape(shape.dtype, tuple(shape.sizes[other] for other in others))

        def spread(literal: Literal) -> int:
            row = _written(instruction, inner, literal, add)
            return add(instruction, "broadcast", shape, [row], attributes=Dimensions(dimensions=others))

        if not step.growing and not np.any(step.constant):
            return spread(start)
        number = add(instruction, "iota", shape, attributes=Dimensions(dimensions=(axis,)))
        climbed = add(instruction, "multiply", shape, [number, spread(step)])
        return add(instruction, "add", shape, [climbed, spread(start)])

    def _constant(self, instruction: hlo.Instruction, shape: Shape, add: Callable[..., int]) -> int:
        """A constant. TensorFlow rewrites a division by a size n as a product with 1 / n, which is not a polynomial."""
        if not all(size.is_constant for size in shape.sizes):
            return self._growing(instruction, shape, add)
        arrays = self._arrays(instruction)
        try:
            return _written(instruction, shape, self._literal(arrays), add)
        except Unsupported:
            if (divisors := _divisors(arrays)) is None:
                raise
            divisor = _written(instruction, shape, self._literal(divisors), add)
            one = add(instruction, "constant", shape, attributes=Constant(literal=Literal(np.ones_like(divisors[0]))))
            return add(instruction, "divide", shape, [one, divisor])

    def _literal(self, arrays: Sequence[Array]) -> Literal:
        first = arrays[0]
        # By bytes: NaN is not equal to itself, and -0.0 is equal to 0.0.
        if all(array.tobytes() == first.tobytes() for array in arrays):
            return Literal(first)
        # A truth value has no polynomial.
        if first.dtype.kind not in "iuf":
            raise Unsupported("a constant of truth values that depends on a size")
        (_, constant), *growing = self._fit.array(arrays)
        return Literal(constant, tuple(growing))

    def _arrays(self, instruction: hlo.Instruction) -> list[Array]:
        """The values of a constant at all points."""
        pairs, (found,) = self._pairs[id(instruction)], self._shapes(instruction)
        sizes = [pair.shape.sizes for pair in pairs]
        shapes = [[at for at, _ in sizes[0]], *([at for _, at in each] for each in sizes)]
        values = [each.values for each in self._given(instruction)]
        if any(each is None for each in values):
            raise Unsupported(f"a constant of {found}")
        dtype = NUMPY_TYPES[found.dtype]
        return [np.array(each, dtype).reshape(shape) for each, shape in zip(values, shapes, strict=True)]


def _written(instruction: hlo.Instruction, shape: Shape, literal: Literal, add: Callable[..., int]) -> int:
    """The constant `literal`. Parts that depend on sizes are computed when the program runs, from scalars."""
    if not literal.growing or not shape.rank:
        return add(instruction, "constant", shape, attributes=Constant(literal=literal))

    def spread(constant: Array, growing: tuple[tuple[Monomial, Array], ...]) -> int:
        first = Literal(_first(constant), tuple((monomial, _first(values)) for monomial, values in growing))
        number = add(instruction, "constant", Shape(shape.dtype, ()), attributes=Constant(literal=first))
        return add(instruction, "broadcast", shape, [number], attributes=Dimensions(dimensions=()))

    if all(np.all(values == values.flat[0]) for values in (literal.constant, *(each for _, each in literal.growing))):
        return spread(literal.constant, literal.growing)
    if literal.constant.dtype.kind == "f":
        raise Unsupported("a constant of different floats that depend on a size")  # a product would be rounded
    total = add(instruction, "constant", shape, attributes=Constant(literal=Literal(literal.constant)))
    for monomial, values in literal.growing:
        size = spread(np.zeros_like(values), ((monomial, np.ones_like(values)),))
        factor = add(instruction, "constant", shape, attributes=Constant(literal=Literal(values)))
        term = add(instruction, "multiply", shape, [size, factor])
        total = add(instruction, "add", shape, [total, term])
    return total


def _first(values: Array) -> Array:
    first: Array = values.reshape(-1)[:1].reshape(())
    return first


def _divisors(arrays: Sequence[Array]) -> list[Array] | None:
    """The integers whose inverses the arrays are, to the bit; None if there are none."""
    if arrays[0].dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        # 1 / n rounds differently for each n, so only the same division gives the same bits.
        found = [np.rint(1 / array) for array in arrays]
        return (
            found if all(np.array_equal(1 / each, array) for each, array in zip(found, arrays, strict=True)) else None
        )


def _even_steps(values: Array, axis: int) -> tuple[Array, Array] | None:
    """The first element along `axis`, and the difference of neighbours; None if it is not constant."""
    rows = np.moveaxis(values, axis, 0)
    if len(rows) < 2:
        return None
    even = rows.dtype.kind in "iuf"  # truth values have no differences: they must all be equal
    step = rows[1] - rows[0] if even else np.zeros_like(rows[0])
    numbers = np.arange(len(rows)).reshape(-1, *[1] * step.ndim)
    same = np.array_equal(rows, rows[0] + numbers * step if even else np.broadcast_to(rows[0], rows.shape))
    return (rows[0], step) if same else None


def _tile(arrays: Sequence[Array], axis: int, size: Size) -> Array | None:
    """The part that `arrays` repeat for each row along `axis`; None if the size is not a multiple of the batch."""
    each = size.per_row
    if not each.is_constant or size != ROWS * each:
        return None
    tile = arrays[0].take(range(each.constant), axis)
    tiles = (np.concatenate([tile] * (array.shape[axis] // each.constant), axis) for array in arrays)
    # By bytes: NaN is not equal to itself, and -0.0 is equal to 0.0.
    same = all(made.tobytes() == array.tobytes() for made, array in zip(tiles, arrays, strict=True))
    return tile if same else None


def _is_short(instruction: hlo.Instruction, dtypes: Mapping[int, str]) -> bool:
    """Whether the operand or the result of a unary instruction has a short type."""
    return instruction.shape.dtype in _SHORT or dtypes[instruction.operands[0]] in _SHORT


def _width(dtype: str) -> int:
    """Bytes of an element."""
    return 2 if dtype in _SHORT else NUMPY_TYPES[dtype].itemsize


def _dtypes(shape: hlo.Shape) -> tuple[str, ...]:
    """The element types of a tuple's arrays, nested ones included."""
    return (shape.dtype,) if shape.parts is None else tuple(each for part in shape.parts for each in _dtypes(part))


def _count(shape: hlo.Shape) -> int:
    return 1 if shape.parts is None else sum(map(_count, shape.parts))


def _parameters_first(computation: hlo.Computation) -> list[hlo.Instruction]:
    """Parameters by number, then all other instructions in their order."""
    # A listing may have parameters anywhere, but arguments are bound by position.
    found = [each for each in computation.instructions if each.opcode == "parameter"]
    rest = [each for each in computation.instructions if each.opcode != "parameter"]
    return [*sorted(found, key=lambda each: int(each.attribute("number"))), *rest]
