"""From decision trees, as their front-end read them (worker_program/from_trees/), to programs.

Trees may follow steps, whose program (onnx_lowering/) comes first.

What a worker wrote is untrusted: forests are checked (forest.py), and types are inferred after this (verifier.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from tfaot_pkg.compiler.attributes import Comparison, Constant, Dimensions, Element, Slices, Trees
from tfaot_pkg.compiler.lowered import Lowered
from tfaot_pkg.compiler.program import (
    NO_ATTRIBUTES,
    NUMPY_TYPES,
    ROWS,
    Attributes,
    Literal,
    Number,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Type,
)
from tfaot_pkg.ground.arrays import Array, mapped_arrays
from tfaot_pkg.worker_program.messages.forest import Forest, unpacked
from tfaot_pkg.worker_program.messages.sources import ENCODER, FOREST, INPUT, TREES, FittedTrees
from tfaot_pkg.worker_program.messages.wire import decoded

_MOST_BYTES = 1 << 20
"""Of the document: names and numbers."""
_DTYPES = {str(dtype): name for name, dtype in NUMPY_TYPES.items() if dtype.kind == "f"}


def lowered(folder: Path, before: Lowered | None = None) -> Lowered:
    """The model whose parts are in `folder`; its trees take what `before` computes, if that is there.

    Raises ValueError for anything else.
    """
    content = (folder / TREES).read_bytes()
    if len(content) > _MOST_BYTES:
        raise ValueError("the description of trees is too long")
    fitted = decoded(FittedTrees, json.loads(content), TREES)
    return _Lowering(fitted, _forest_in(folder / FOREST), _forest_in(folder / ENCODER), before).lowered()


def _forest_in(path: Path) -> Forest | None:
    if not path.exists():
        return None
    (content,) = mapped_arrays(path)
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ValueError(f"{path.name} does not hold bytes")
    return unpacked(content)


class _Lowering:
    def __init__(
        self, fitted: FittedTrees, forest: Forest | None, encoder: Forest | None, before: Lowered | None
    ) -> None:
        if forest is None:
            raise ValueError("there are no trees")
        self._fitted, self._forest, self._encoder, self._before = fitted, forest, encoder, before
        entry = None if before is None else before.program.entry
        self._operations: list[Operation] = [] if entry is None else [*entry.operations]
        self._count = 0 if entry is None else 1 + max(each.id for each in entry.everything())

    def lowered(self) -> Lowered:
        fitted, forest = self._fitted, self._forest
        sums = made = self._trees(forest, self._columns())
        for link in fitted.links:
            if link.name not in _LINKS:
                raise ValueError(f"there is no link {link.name!r}")
            made = _LINKS[link.name](self, made, link.number)
        made = self._convert(made, _DTYPES[fitted.dtype])
        if fitted.is_flat:
            rows = self._shape(made)
            made = self._reshape(self._part(made, 0), (rows.sizes[0],))
        results = {fitted.output: made, **({fitted.margin: sums} if fitted.margin else {})}
        names = tuple(sorted(results))
        entry = Region(operations=tuple(self._operations), results=tuple(results[each] for each in names))
        return Lowered(program=Program(entry=entry), inputs=(INPUT,), outputs=names)

    def _given(self) -> int:
        """X, or what the steps before the trees make of it."""
        wanted = self._of(_DTYPES[self._fitted.input], self._forest.features)
        if self._before is None:
            return self.add("parameter", wanted, attributes=Number(number=0))
        found = self._before.program.entry.results[0]
        if self._before.inputs != (INPUT,) or self._before.rows.meetings or self._shape(found) != wanted:
            raise ValueError("the steps before the trees do not fit them")
        return found

    def _columns(self) -> int:
        """X as the trees compare it: with codes of categories, in their type, and with NaN for what is missing."""
        fitted, forest, encoder = self._fitted, self._forest, self._encoder
        x = self._given()
        if encoder is not None:
            shape = self._shape(x)
            if (encoder.outputs, encoder.dtype) != (forest.features, fitted.input):
                raise ValueError("the codes of categories do not fit the trees")
            is_category = np.zeros(forest.features, np.bool_)
            is_category[encoder.target] = True
            mask = self.constant(is_category, "pred")
            chosen = self.add("broadcast", Shape("pred", shape.sizes), mask, attributes=Dimensions(dimensions=(1,)))
            x = self.add("select", shape, chosen, self._trees(encoder, x), x)
        x = self._convert(x, _DTYPES[forest.dtype])
        if fitted.missing is not None:
            is_missing = self.compare("EQ", x, self.like(x, fitted.missing))
            x = self.add("select", self._shape(x), is_missing, self.like(x, np.nan), x)
        return x

    def _trees(self, forest: Forest, x: int) -> int:
        type_ = self._of(_DTYPES[forest.total], forest.outputs)
        return self.add("trees", type_, x, attributes=Trees(forest=forest))

    def add(
        self,
        opcode: str,
        type_: Type,
        *operands: int,
        attributes: Attributes = NO_ATTRIBUTES,
        regions: tuple[Region, ...] = (),
    ) -> int:
        made = self._made(opcode, type_, *operands, attributes=attributes, regions=regions)
        self._operations.append(made)
        return made.id

    def _made(
        self,
        opcode: str,
        type_: Type,
        *operands: int,
        attributes: Attributes = NO_ATTRIBUTES,
        regions: tuple[Region, ...] = (),
    ) -> Operation:
        self._count += 1
        return Operation(
            id=self._count - 1, opcode=opcode, type=type_, operands=operands, attributes=attributes, regions=regions
        )

    def _of(self, dtype: str, columns: int) -> Shape:
        return Shape(dtype, (ROWS, Size(columns)))

    def _shape(self, value: int) -> Shape:
        return next(each.shape for each in self._operations if each.id == value)

    def constant(self, values: Array, dtype: str) -> int:
        shape = Shape(dtype, tuple(map(Size, values.shape)))
        return self.add("constant", shape, attributes=Constant(literal=Literal(values)))

    def scalar(self, number: float, dtype: str) -> int:
        return self.constant(np.array(number, NUMPY_TYPES[dtype]), dtype)

    def like(self, value: int, number: float) -> int:
        """`number` in the shape and type of `value`."""
        shape = self._shape(value)
        return self.add("broadcast", shape, self.scalar(number, shape.dtype), attributes=Dimensions(dimensions=()))

    def same(self, opcode: str, *values: int) -> int:
        """An operation of elements, whose result has the type of its operands."""
        return self.add(opcode, self._shape(values[0]), *values)

    def compare(self, direction: str, *values: int) -> int:
        shape = Shape("pred", self._shape(values[0]).sizes)
        return self.add("compare", shape, *values, attributes=Comparison(direction=direction, order="FLOAT"))

    def _convert(self, value: int, dtype: str) -> int:
        shape = self._shape(value)
        return value if shape.dtype == dtype else self.add("convert", Shape(dtype, shape.sizes), value)

    def converted_like(self, value: int, other: int) -> int:
        return self._convert(value, self._shape(other).dtype)

    def _reshape(self, value: int, sizes: tuple[Size, ...]) -> int:
        return self.add("reshape", Shape(self._shape(value).dtype, sizes), value)

    def _part(self, value: int, column: int) -> int:
        """One column, [batch, 1]."""
        shape = self._shape(value)
        cuts = ((0, shape.sizes[0], 1), (column, column + 1, 1))
        return self.add("slice", self._of(shape.dtype, 1), value, attributes=Slices(slices=cuts))

    def beside(self, first: int, second: int) -> int:
        shapes = (self._shape(first), self._shape(second))
        columns = sum(shape.sizes[1].constant for shape in shapes)
        type_ = self._of(shapes[0].dtype, columns)
        return self.add("concatenate", type_, first, second, attributes=Dimensions(dimensions=(1,)))

    def columns(self, value: int) -> tuple[int, int]:
        """Both columns of `value`. Raises ValueError if it has another number of them."""
        if self._shape(value).sizes[1] != Size(2):
            raise ValueError("a link of two classes, and another number of sums")
        return self._part(value, 0), self._part(value, 1)

    def along(self, value: int, opcode: str, start: float) -> int:
        """The columns combined by `opcode`, in the shape of `value`."""
        shape = self._shape(value)
        number = Shape(shape.dtype, ())
        parts = [self._made("parameter", number, attributes=Number(number=place)) for place in (0, 1)]
        combined = self._made(opcode, number, *(each.id for each in parts))
        region = Region(operations=(*parts, combined), results=(combined.id,))
        first = self.scalar(start, shape.dtype)
        reduced = self.add(
            "reduce", Shape(shape.dtype, shape.sizes[:1]), value, first,
            attributes=Dimensions(dimensions=(1,)), regions=(region,),
        )  # fmt: skip
        return self.add("broadcast", shape, reduced, attributes=Dimensions(dimensions=(0,)))

    def largest(self, value: int) -> int:
        """The number of the largest column, [batch, 1]; of equal ones the first. NaN is the lowest number."""
        shape = self._shape(value)
        lowest = self.like(value, float(np.finfo(NUMPY_TYPES[shape.dtype]).min))
        value = self.add("select", shape, self.compare("GT", value, lowest), value, lowest)
        places = self.add("iota", Shape("s32", shape.sizes), attributes=Dimensions(dimensions=(1,)))
        starts = (self.scalar(-np.inf, shape.dtype), self.scalar(0, "s32"))
        types = (Shape(shape.dtype, shape.sizes[:1]), Shape("s32", shape.sizes[:1]))
        pair = self.add(
            "reduce", types, value, places, *starts, attributes=Dimensions(dimensions=(1,)),
            regions=(self._larger(shape.dtype),),
        )  # fmt: skip
        chosen = self.add("get-tuple-element", types[1], pair, attributes=Element(index=1))
        return self._reshape(chosen, (shape.sizes[0], Size(1)))

    def _larger(self, dtype: str) -> Region:
        """Of two numbers with their places, the larger number; of equal ones that of the lower place."""
        number, place, truth = Shape(dtype, ()), Shape("s32", ()), Shape("pred", ())
        inside: list[Operation] = []

        def add(opcode: str, type_: Shape, *operands: int, attributes: Attributes = NO_ATTRIBUTES) -> int:
            inside.append(self._made(opcode, type_, *operands, attributes=attributes))
            return inside[-1].id

        types = (number, place, number, place)
        first, i, second, j = (add("parameter", each, attributes=Number(number=n)) for n, each in enumerate(types))
        is_first = add("compare", truth, first, second, attributes=Comparison(direction="GE", order="FLOAT"))
        most, at = add("select", number, is_first, first, second), add("select", place, is_first, i, j)
        is_equal = add("compare", truth, first, second, attributes=Comparison(direction="EQ", order="FLOAT"))
        lower = add("select", place, is_equal, add("minimum", place, i, j), at)
        return Region(operations=tuple(inside), results=(most, lower))


_Link = Callable[[_Lowering, int, float], int]


def _divided(to: _Lowering, sums: int, number: float) -> int:
    """By zero, zeros: a mean of nothing."""
    return to.like(sums, 0.0) if number == 0 else to.same("divide", sums, to.like(sums, number))


def _sigmoid_of_second(to: _Lowering, sums: int, scale: float) -> int:
    """Probabilities of two classes."""
    scaled = sums if scale == 1 else to.same("multiply", sums, to.like(sums, scale))
    second = to.same("logistic", scaled)
    return to.beside(to.same("subtract", to.like(second, 1.0), second), second)


def _softmax(to: _Lowering, sums: int, _: float) -> int:
    exponentials = to.same("exponential", to.same("subtract", sums, to.along(sums, "maximum", -np.inf)))
    return to.same("divide", exponentials, to.along(exponentials, "add", -0.0))


def _square_with_sign(to: _Lowering, sums: int, _: float) -> int:
    return to.same("multiply", to.same("multiply", to.same("sign", sums), sums), sums)


def _difference(to: _Lowering, sums: int, scale: float) -> int:
    """For votes for two classes, the difference of their sums, once with each sign."""
    first, second = to.columns(sums)
    more = to.same("subtract", second, first)
    return _divided(to, to.beside(to.same("negate", more), more), scale)


def _gradient_boost(to: _Lowering, sums: int, _: float) -> int:
    """TMVA's MethodBDT::GetGradBoostMVA: 2 / (1 + exp(-2 * sums)) - 1."""
    power = to.same("exponential", to.same("multiply", to.like(sums, -2.0), sums))
    share = to.same("divide", to.like(sums, 2.0), to.same("add", to.like(sums, 1.0), power))
    return to.same("subtract", share, to.like(sums, 1.0))


_LINKS: Mapping[str, _Link] = {
    "divide": _divided,
    "multiply": lambda to, sums, number: to.same("multiply", sums, to.like(sums, number)),
    "add": lambda to, sums, number: to.same("add", sums, to.like(sums, number)),
    "exp": lambda to, sums, _: to.same("exponential", sums),
    "sigmoid": lambda to, sums, _: to.same("logistic", sums),
    "softmax": _softmax,
    # In LightGBM's form, which overflows where other forms do not.
    "softplus": lambda to, sums, _: to.same("log-plus-one", to.same("exponential", sums)),
    "square with sign": _square_with_sign,
    "above zero": lambda to, sums, _: to.converted_like(to.compare("GT", sums, to.like(sums, 0.0)), sums),
    "largest": lambda to, sums, _: to.converted_like(to.largest(sums), sums),
    "sigmoid of second": _sigmoid_of_second,
    "difference": _difference,
    "gradient boost": _gradient_boost,
}
"""The operations on sums of trees, by their names in FittedTrees."""
