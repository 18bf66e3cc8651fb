"""Values while a graph is lowered: computed by an operation, or known: numbers, or integers that depend on symbols.

Arithmetic on shapes is done here, with sizes as polynomials, and costs nothing at run time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from tfaot_pkg.compiler.program import BATCH, EXACT_TO, NUMPY_TYPES, ROWS, ZERO, Shape, Size, Symbol, Unsupported
from tfaot_pkg.ground.arrays import Array

DTYPES = {dtype.name: name for name, dtype in NUMPY_TYPES.items()}
"""NumPy's names of element types, which ONNX's graphs use -> those of programs."""

Short = Literal["", "f16", "bf16"]
"""Floats of 16 bits, which programs compute in float32."""


NO_LIMIT = 10**9
"""Exporters write this (tf2onnx), the largest int32 or the largest int64 for "to the end" and "without limit"."""


def sizes_of_axes(name: str, axes: Sequence[int | str | None], symbols: Iterable[str]) -> tuple[Size, ...]:
    """The sizes of the input `name`, whose axes are numbers, BATCH or symbols. Raises Unsupported for others."""
    known = {BATCH: ROWS, **{symbol: Size.symbol(symbol) for symbol in symbols}}
    sizes = []
    for place, axis in enumerate(axes):
        if isinstance(axis, int):
            sizes.append(Size(axis))
        elif axis in known:
            sizes.append(known[axis])
        else:
            raise Unsupported(f"the size of axis {place} of the input {name!r} is not known: give it in model.shapes")
    return tuple(sizes)


class Undecided(Unsupported):
    """A result that depends on the numbers that symbols stand for, and is no polynomial."""

    def __init__(self) -> None:
        super().__init__("it needs a number or a polynomial in the sizes of the inputs, and has another one")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Padded:
    """Of the elements along `axis`, the first `count` are meant: a computed scalar, int32.

    If it `is_size`, the value itself has the sizes of such an array.
    """

    axis: int
    count: Value
    is_size: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Value:
    """An array: `id` is that of the operation that computes it; `known` are its elements, if they are known.

    `short` is "f16" or "bf16" if it is of float16 or bfloat16: float32 numbers that are rounded to it (decision 073).

    Elements of an array of objects are `Size`, integers that depend on symbols; its `shape` has their type, which may
    be a float. If values decide how many rows it has, it is `padded` to as many as there may be (counted.py).
    """

    shape: Shape
    known: Array | None = None
    id: int | None = None
    short: Short = ""
    padded: Padded | None = None

    def short_as(self, other: Value) -> Value:
        """The value as one of the short type that `other` has, if any."""
        return self if self.short == other.short else replace(self, short=other.short)

    @property
    def dtype(self) -> str:
        return self.shape.dtype

    @property
    def sizes(self) -> tuple[Size, ...]:
        return self.shape.sizes

    @property
    def rank(self) -> int:
        return self.shape.rank

    @property
    def numbers(self) -> Array | None:
        """Its elements if they are numbers, the same for all sizes."""
        return None if self.known is None or self.known.dtype == object else self.known

    @property
    def is_float(self) -> bool:
        return self.dtype in ("f32", "f64")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Listed:
    """A sequence, whose length is known while a graph is lowered. An optional value that is empty has no `items`."""

    items: tuple[Held, ...] | None


Held = Value | Listed
"""What a name in a graph stands for."""


def number_of(size: Any) -> int | None:
    """The number that a size always is; None if it depends on symbols."""
    return size.constant if size.is_constant else None


def known(values: Array | Sequence[Any], dtype: str) -> Value:
    """The value with the elements `values`, integers or sizes, of the type `dtype`."""
    array = np.asarray(values, dtype=object if _has_sizes(values) else None)
    if array.dtype == object:
        numbers = [each.constant if isinstance(each, Size) and each.is_constant else each for each in array.reshape(-1)]
        if not any(isinstance(each, Size) for each in numbers):
            array = np.array(numbers, NUMPY_TYPES[dtype]).reshape(array.shape)
    else:
        array = array.astype(NUMPY_TYPES[dtype], copy=False)
    return Value(shape=Shape(dtype, tuple(map(Size, array.shape))), known=array)


def _has_sizes(values: Array | Sequence[Any]) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype == object
    return any(isinstance(each, Size) for each in values)


def as_size(element: Any) -> Size:
    """An element of an array of objects, or an integer of NumPy's. Raises Undecided for a fraction."""
    if isinstance(element, Size):
        return element
    if isinstance(element, float | np.floating) and not (math.isfinite(element) and element == int(element)):
        raise Undecided
    return Size(int(element))


@dataclass(frozen=True, slots=True)
class Ranges:
    """What is known of the symbols of a program."""

    symbols: tuple[Symbol, ...]

    def least(self, size: Size) -> float:
        return -self.most(size * Size(-1))

    def most(self, size: Size, rows: float = math.inf) -> float:
        """An upper bound of `size`: term by term, each at the end of its symbols' ranges that makes it largest.

        The batch has `rows` at most.
        """
        ends: Mapping[str, tuple[float, float]] = {
            **{each.name: (each.minimum, each.maximum) for each in self.symbols},
            BATCH: (1, rows),
        }
        total = 0.0
        for monomial, coefficient in size.terms:
            total += coefficient * math.prod(ends[symbol][coefficient > 0] for symbol in monomial)
        return total

    def fits(self, size: Size, dtype: str) -> bool:
        """Whether a value of `dtype` is exactly `size`, at all sizes: it neither wraps around nor is rounded.

        Numbers that grow with the batch fit types of 32 and 64 bits: no array has as many elements as they count.
        """
        kind, bits = NUMPY_TYPES[dtype].kind, 8 * NUMPY_TYPES[dtype].itemsize
        if kind == "b":
            return size in (ZERO, Size(1))
        least, most = {
            "i": (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1),
            "u": (0.0, 2.0**bits - 1),
            "f": (-EXACT_TO.get(dtype, 0.0), EXACT_TO.get(dtype, 0.0)),
        }[kind]
        is_linear = all(monomial.count(BATCH) < 2 for monomial, _ in size.terms)
        rows = 1.0 if bits == 64 or (bits == 32 and is_linear) else math.inf
        return least <= -self.most(size * Size(-1), rows) and self.most(size, rows) <= most

    def compare(self, direction: str, first: Size, second: Size) -> bool:
        """Raises Undecided if it depends on the symbols."""
        difference = first + second * Size(-1)
        least, most = self.least(difference), self.most(difference)
        if difference == ZERO:
            least = most = 0.0
        decided: Mapping[str, tuple[bool, bool]] = {  # true for all sizes; false for all sizes
            "LT": (most < 0, least >= 0),
            "LE": (most <= 0, least > 0),
            "GT": (least > 0, most <= 0),
            "GE": (least >= 0, most < 0),
            "EQ": (least == most == 0, least > 0 or most < 0),
            "NE": (least > 0 or most < 0, least == most == 0),
        }
        if direction not in decided or not any(decided[direction]):
            raise Undecided
        return decided[direction][0]

    def divide(self, first: Size, second: Size) -> Size:
        """The exact quotient. Raises Undecided if there is none."""
        if second.is_constant and second.constant and (made := first.divided(second.constant)) is not None:
            return made
        # A product of symbols by one of its factors, as in the size of a flattened axis.
        if len(second.terms) == 1 and (made := _quotient(first, *second.terms[0])) is not None:
            return made
        raise Undecided

    def remainder(self, first: Size, second: Size) -> Size:
        self.divide(first, second)
        return ZERO

    def largest(self, first: Size, second: Size) -> Size:
        return first if self.compare("GE", first, second) else second

    def smallest(self, first: Size, second: Size) -> Size:
        return first if self.compare("LE", first, second) else second

    def function(self, opcode: str) -> Callable[[Size, Size], Size] | None:
        """What an operation of two integers does with sizes."""
        return {
            "add": lambda a, b: a + b,
            "subtract": lambda a, b: a + b * Size(-1),
            "multiply": lambda a, b: a * b,
            "divide": self.divide,
            "remainder": self.remainder,
            "maximum": self.largest,
            "minimum": self.smallest,
        }.get(opcode)


def _quotient(size: Size, divisor: tuple[str, ...], by: int) -> Size | None:
    terms = []
    for monomial, coefficient in size.terms:
        rest = list(monomial)
        for symbol in divisor:
            if symbol not in rest:
                return None
            rest.remove(symbol)
        if coefficient % by:
            return None
        terms.append((tuple(rest), coefficient // by))
    return Size.of(terms)


def sizes_of(value: Value, what: str) -> tuple[Size, ...]:
    """The elements of a known value of integers, in order. Raises Unsupported if they are computed."""
    if value.known is None:
        raise Unsupported(f"{what}: they depend on values of inputs, or on sizes in another way than by + - *")
    try:
        return tuple(as_size(each) for each in value.known.reshape(-1))
    except (Undecided, OverflowError):
        raise Unsupported(f"{what} are no integers") from None


def product(sizes: Iterable[Size]) -> Size:
    return math.prod(sizes, start=Size(1))
