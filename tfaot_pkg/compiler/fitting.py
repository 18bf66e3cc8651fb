"""Sizes as polynomials in the batch and other symbols, found from a model traced at several sizes (decision 043)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import lcm, prod

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Gather, Sizes, Slices
from tfaot_pkg.compiler.program import BATCH, Monomial, Operation, Program, Size, Unsupported
from tfaot_pkg.ground.arrays import Array

# Sizes such as n * n of attention are of the second degree.
_DEGREE = 2
"""The degree of the polynomials in the symbols beside the batch; they are linear in the batch."""


@dataclass(frozen=True, slots=True)
class Point:
    """The sizes at which a model was traced."""

    batch: int
    sizes: Mapping[str, int]

    @property
    def numbers(self) -> dict[str, int]:
        """The number that each symbol stands for."""
        return {BATCH: self.batch, **self.sizes}

    def value(self, monomial: Monomial) -> int:
        return prod(self.numbers[symbol] for symbol in monomial)


class Fit:
    """Finds the polynomial through values at `points`. Points that the solution does not need are checks."""

    def __init__(self, points: Sequence[Point]) -> None:
        self.points = points
        symbols = sorted(points[0].sizes)
        inner = [
            m for degree in range(_DEGREE + 1 if symbols else 1) for m in combinations_with_replacement(symbols, degree)
        ]
        self._monomials: list[Monomial] = [tuple(sorted((*batch, *m))) for batch in ((), (BATCH,)) for m in inner]
        self._chosen, inverse = _solved([[Fraction(point.value(m)) for m in self._monomials] for point in points])
        # Integers over one denominator, because arrays of Python's fractions would be slow.
        self._denominator = lcm(*(number.denominator for row in inverse for number in row))
        self._inverse = [[int(number * self._denominator) for number in row] for row in inverse]
        self._known: dict[tuple[int, ...], Size] = {}

    def size(self, values: tuple[int, ...]) -> Size:
        """Raises Unsupported if there is none with integer coefficients."""
        if values.count(values[0]) == len(values):
            return Size(values[0])
        if values not in self._known:
            terms = [(monomial, int(found)) for monomial, found in self._terms([np.int64(value) for value in values])]
            made = Size.of(terms)
            if any(
                made.at(point.batch, point.sizes) != value for point, value in zip(self.points, values, strict=True)
            ):
                raise Unsupported(self._seen(values))
            self._known[values] = made
        return self._known[values]

    def _seen(self, values: Sequence[int]) -> str:
        """A message with the size at two points, of the same batch if their sizes differ there, and else most alike."""
        first = self.points[0].numbers

        def changed(point: Point) -> list[str]:
            return [name for name, number in point.numbers.items() if number != first[name]]

        others = [(point, value) for point, value in zip(self.points, values, strict=True) if value != values[0]]
        point, value = min(others, key=lambda each: (BATCH in changed(each[0]), len(changed(each[0]))))
        names = changed(point)
        here, there = (", ".join(f"{name} {each[name]}" for name in names) for each in (first, point.numbers))
        seen = f"a size is {values[0]} at {here} and {value} at {there}"
        varying = [name for name in names if name != BATCH]
        if not varying:
            return f"{seen}, which no polynomial with integer coefficients fits"
        return (
            f"{seen}, which no polynomial with integer coefficients fits (a stride or a division of {varying[0]}): "
            f"give {varying[0]} a number in model.shapes, and pad the inputs to it, or let the model take whole steps, "
            f"as two axes that it flattens ({varying[0]}, 4)"
        )

    def array(self, values: Sequence[Array]) -> tuple[tuple[Monomial, Array], ...]:
        """The coefficients of monomials for each element, without those that are all zero. Raises Unsupported."""
        dtype = values[0].dtype
        # Products with the inverse exceed the range of narrow types before they are divided.
        wide = np.float64 if dtype.kind == "f" else np.int64
        with np.errstate(all="ignore"):
            terms = [(m, found.astype(dtype)) for m, found in self._terms([each.astype(wide) for each in values])]
            for point, wanted in zip(self.points, values, strict=True):
                total = sum(found * dtype.type(point.value(monomial)) for monomial, found in terms)
                if not np.array_equal(total, wanted):
                    raise Unsupported("a constant that is not a polynomial in the sizes")
        return tuple((monomial, found) for monomial, found in terms if not monomial or np.any(found))

    def _terms(self, values: Sequence[Array | np.int64]) -> list[tuple[Monomial, Array]]:
        given = [values[number] for number in self._chosen]
        made = []
        for monomial, row in zip(self._monomials, self._inverse, strict=True):
            total = sum(factor * value for factor, value in zip(row, given, strict=True))
            made.append((monomial, np.asarray(total // self._denominator)))
        return made


def _solved(rows: Sequence[Sequence[Fraction]]) -> tuple[list[int], list[list[Fraction]]]:
    """Rows that determine a solution, and the inverse of their matrix. Fractions, so that no pivot is rounded."""
    width = len(rows[0])
    chosen: list[int] = []
    reduced: list[tuple[int, list[Fraction]]] = []  # (column of the 1, row) with zeros in the columns of the others
    for number, row in enumerate(rows):
        rest = list(row)
        for column, other in reduced:
            rest = [a - rest[column] * b for a, b in zip(rest, other, strict=True)]
        # This point depends on others, so it only checks their solution.
        if not any(rest):
            continue
        column = next(i for i, value in enumerate(rest) if value)
        rest = [value / rest[column] for value in rest]
        reduced.append((column, rest))
        chosen.append(number)
    if len(chosen) < width:
        raise Unsupported("the traced sizes do not determine how shapes depend on them")
    return chosen, _inverse([list(rows[number]) for number in chosen])


def _inverse(matrix: list[list[Fraction]]) -> list[list[Fraction]]:
    count = len(matrix)
    wide = [[*row, *(Fraction(int(i == j)) for j in range(count))] for i, row in enumerate(matrix)]
    for column in range(count):
        pivot = next(i for i in range(column, count) if wide[i][column])
        wide[column], wide[pivot] = wide[pivot], wide[column]
        scale = wide[column][column]
        wide[column] = [value / scale for value in wide[column]]
        for i in range(count):
            if i != column and wide[i][column]:
                factor = wide[i][column]
                wide[i] = [a - factor * b for a, b in zip(wide[i], wide[column], strict=True)]
    return [row[count:] for row in wide]


def check_extents(program: Program) -> None:
    """Raise Unsupported if a size is negative, or a part larger than its array, at the smallest or largest symbols.

    TensorFlow rejects such inputs, or returns arrays whose sizes are not polynomials there.
    """
    if not program.symbols:
        return
    names = [symbol.name for symbol in program.symbols]
    corners = [
        dict(zip(names, sizes, strict=True))
        for sizes in product(*((symbol.minimum, symbol.maximum) for symbol in program.symbols))
    ]
    known = {operation.id: operation for operation in program.entry.everything()}
    # At the corners of the ranges, where slices first leave their arrays: the 8 nearest of 5 particles.
    for operation in known.values():
        for size, length in _parts(operation, known):
            for corner in corners:
                _require(operation, size.at(1, corner), length.at(1, corner) if length else None, corner)


def _parts(operation: Operation, known: Mapping[int, Operation]) -> list[tuple[Size, Size | None]]:
    """Sizes that must not be negative, each with what it must not exceed."""
    parts: list[tuple[Size, Size | None]] = [(size, None) for shape in operation.shapes for size in shape.sizes]
    given = operation.attributes
    if not isinstance(given, (Gather, Sizes, Slices)):
        return parts
    lengths = known[operation.operands[0]].shape.sizes
    if isinstance(given, Slices):
        for (start, end, _), length in zip(given.slices, lengths, strict=True):
            parts += [(as_size(start), length), (as_size(end), length)]
    else:
        parts += [(as_size(size), length) for size, length in zip(given.sizes, lengths, strict=True)]
    return parts


def _require(operation: Operation, size: int, length: int | None, corner: Mapping[str, int]) -> None:
    if size >= 0 and (length is None or size <= length):
        return
    at = " and ".join(f"{name} = {value}" for name, value in corner.items())
    what = f"{size} elements" if length is None else f"{size} of {length} elements"
    raise Unsupported(
        f"{operation.opcode} (node {operation.node!r}) takes {what} at {at}: allow fewer sizes in model.shapes, "
        f"such as `8 <= {next(iter(corner))} <= 64`"
    )
