"""The body of a loop of generated code, while it is assembled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from tfaot_pkg.compiler.affine import Axes, Index, cpp
from tfaot_pkg.compiler.expressions import C_TYPES, VECTOR_TYPES
from tfaot_pkg.compiler.program import ONE, ZERO, Size


@dataclass(slots=True)
class Access:
    """What a loop reads or writes: `variable` is a row's address, of which `index` counts elements."""

    variable: str
    base: str
    dtype: str
    index: Index


@dataclass(slots=True)
class Body:
    """The inside of a loop over `extents`."""

    extents: tuple[Size, ...]
    lines: list[tuple[str, str, str]] = field(default_factory=list)  # name, element type, expression
    types: set[str] = field(default_factory=set)
    accesses: list[Access] = field(default_factory=list)
    counted: list[tuple[str, Index]] = field(default_factory=list)
    known: dict[object, str] = field(default_factory=dict)
    names: Iterator[int] = field(default_factory=count)

    alone: bool = False  # one element after the other, whatever the types are
    overlaps: bool = False  # it may write an element twice

    @property
    def by_vectors(self) -> bool:
        return not self.alone and self.types <= set(VECTOR_TYPES)

    def statements(self) -> Iterator[str]:
        for name, dtype, expression in self.lines:
            if self.by_vectors:
                yield f"const {VECTOR_TYPES[dtype]} {name} = {expression};"
            else:
                yield f"const auto {name} = static_cast<{C_TYPES[dtype]}>({expression});"

    def identity(self) -> tuple[Index, ...]:
        rank = len(self.extents)
        return tuple(Index(ZERO, tuple(ONE if i == axis else ZERO for i in range(rank))) for axis in range(rank))


def moved_access(access: Access, axes: Axes) -> Access:
    return replace(access, index=axes.index(access.index))


def store_text(access: Access, result: str) -> str:
    last = access.index.factors[-1] if access.index.factors else ONE
    stride = "" if last in (ONE, ZERO) else f", {cpp(last)}"
    return f"at.store({access.variable}, {result}{stride});"
