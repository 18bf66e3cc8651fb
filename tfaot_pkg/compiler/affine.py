"""Indices that are affine in the counters of loops, and axes that can be merged into one loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from tfaot_pkg.compiler.program import BATCH, ONE, ZERO, Monomial, Size, Unsupported


class Term(Protocol):
    """A number that is known at run time, from 0 to `most`; its text is C++.

    It reads the arrays `bases`, and needs the variables `names`, addresses among them.
    """

    @property
    def most(self) -> Size: ...

    @property
    def bases(self) -> frozenset[str]: ...

    @property
    def names(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class Counter:
    """The variable of a loop, which counts from 0 to `size` - 1."""

    name: str
    size: Size

    @property
    def most(self) -> Size:
        return self.size + Size(-1)

    @property
    def bases(self) -> frozenset[str]:
        return frozenset()

    @property
    def names(self) -> frozenset[str]:
        return frozenset([self.name])

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Index:
    """An affine index: `offset`, `runtime` terms with their factors, and a factor per axis."""

    offset: Size
    factors: tuple[Size, ...]
    runtime: tuple[tuple[Term, Size], ...] = ()

    @property
    def bases(self) -> frozenset[str]:
        """The arrays that its terms are read from."""
        return frozenset[str]().union(*(term.bases for term, _ in self.runtime))

    @property
    def names(self) -> frozenset[str]:
        """The variables that its terms need."""
        return frozenset[str]().union(*(term.names for term, _ in self.runtime))

    def scaled(self, by: Size) -> Index:
        return Index(
            self.offset * by,
            tuple(factor * by for factor in self.factors),
            tuple((name, factor * by) for name, factor in self.runtime),
        )

    def plus(self, other: Index) -> Index:
        factors = tuple(a + b for a, b in zip(self.factors, other.factors, strict=True))
        return Index(self.offset + other.offset, factors, (*self.runtime, *other.runtime))


@dataclass(frozen=True, slots=True)
class Axes:
    """Merged axes: their `extents`, and the old axis whose factor each uses."""

    extents: tuple[Size, ...]
    chosen: tuple[int, ...]

    def index(self, index: Index) -> Index:
        return replace(index, factors=tuple(index.factors[axis] for axis in self.chosen))


def merged(extents: tuple[Size, ...], indices: Sequence[Index], counted: Sequence[Index] = ()) -> Axes:
    """Axes that are one in all `indices` become one; axes of one element are dropped."""
    chosen: list[int] = []
    sizes: list[Size] = []
    every = [*indices, *counted]
    # From the innermost axis, along which vectors run: it should become as long as possible.
    for axis in reversed(range(len(extents))):
        if extents[axis] == ONE and (chosen or axis):
            continue
        if chosen:
            inner = chosen[-1]
            try:
                fits = all(index.factors[axis] == index.factors[inner] * sizes[-1] for index in every)
                size = extents[axis] * sizes[-1]
            except Unsupported:  # a product that is not linear in the batch
                fits = False
            if fits:
                sizes[-1] = size
                continue
        chosen.append(axis)
        sizes.append(extents[axis])
    if not chosen and extents:
        return Axes((ONE,), (len(extents) - 1,))
    return Axes(tuple(sizes[::-1]), tuple(chosen[::-1]))


def cut(index: Index, start: int, stop: int | None) -> Index:
    return replace(index, factors=index.factors[start:stop])


def split(
    inner: tuple[Size, ...], outer: tuple[Size, ...], index: tuple[Index, ...], rank: int
) -> tuple[Index, ...] | None:
    """Indices into an array of sizes `inner` from those into its reshape to `outer`; None if one is not affine."""
    found: list[Index] = []
    axis = 0
    for size in inner:
        here = Index(ZERO, tuple(ZERO for _ in range(rank)))
        if size != ONE:
            elements = ONE
            # The axes of the outer shape whose product is this one; a reshape that splits one of them is not affine.
            while elements != size:
                if axis == len(outer):
                    return None
                try:
                    here = here.scaled(outer[axis]).plus(index[axis])
                    elements = elements * outer[axis]
                except Unsupported:
                    return None
                if elements.is_constant and size.is_constant and elements.constant > size.constant:
                    return None
                axis += 1
        found.append(here)
    return tuple(found) if all(size == ONE for size in outer[axis:]) else None


def shifted(index: Index, offset: Size) -> Index:
    return replace(index, offset=index.offset + offset)


def as_size(value: int | Size) -> Size:
    return value if isinstance(value, Size) else Size(value)


def plain(size: Size) -> int | Size:
    """A number, if it is one."""
    return size.constant if size.is_constant else size


def cpp(size: Size) -> str:
    if size.is_constant:
        return str(size.constant)
    terms = [_product(monomial, coefficient) for monomial, coefficient in size.terms if monomial]
    terms += [str(coefficient) for monomial, coefficient in size.terms if not monomial]
    text = " + ".join(terms)
    return text if text.isidentifier() else f"({text})"


def _product(monomial: Monomial, coefficient: int) -> str:
    return " * ".join([*([str(coefficient)] if coefficient != 1 else []), *map(variable, monomial)])


def variable(symbol: str) -> str:
    """The C++ variable of a symbol."""
    return "n" if symbol == BATCH else f"size_{symbol}"


def address_terms(index: Index, axes: int) -> list[str]:
    """The terms of an address: the offset, terms known at run time, and the first `axes` axes."""
    terms = [] if index.offset == ZERO else [cpp(index.offset)]
    terms += [f"{term} * {cpp(factor)}" for term, factor in index.runtime]
    terms += [counted(f"i{axis}", factor) for axis, factor in enumerate(index.factors[:axes]) if factor != ZERO]
    return terms


def counted(counter: str, factor: Size) -> str:
    """Counters are unsigned: what goes backwards would be added to an address as a number beyond all memory."""
    text = f"{counter} * {cpp(factor)}"
    return f"static_cast<std::ptrdiff_t>({text})" if any(each < 0 for _, each in factor.terms) else text
