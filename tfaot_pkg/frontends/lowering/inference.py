"""Types of operations whose sizes are polynomials: by the rules of the table, at several sizes.

A rule (compiler/operations.py) sees sizes as numbers, so the polynomials through its answers are the type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfaot_pkg.compiler.attributes import varies
from tfaot_pkg.compiler.fitting import Fit, Point
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import Attributes, Binding, Region, Shape, Size, Symbol, Type, Unsupported
from tfaot_pkg.compiler.type_rules import ArrayType, Callee, Malformed, Types, Use


class Inference:
    """The types of results in a program with `symbols`."""

    def __init__(self, symbols: Sequence[Symbol]) -> None:
        self._bindings, self._fit = _points(symbols)
        self._answers: dict[tuple[str, tuple[Shape, ...], Attributes, tuple[Shape, ...]], tuple[Shape, ...]] = {}
        self.types: dict[int, Type] = {}
        """Of the operations that regions consist of."""

    def inferred(
        self,
        opcode: str,
        operands: Sequence[Shape],
        attributes: Attributes,
        regions: tuple[Region, ...] = (),
        stated: tuple[Shape, ...] = (),
    ) -> tuple[Shape, ...]:
        """The types of the results; `stated` if the operands do not determine them. Raises Unsupported."""
        if regions:
            return self._asked(opcode, operands, attributes, regions, stated)
        # Most operations of a graph occur again, with the same types.
        question = opcode, tuple(operands), attributes, stated
        if question not in self._answers:
            self._answers[question] = self._asked(opcode, operands, attributes, regions, stated)
        return self._answers[question]

    def _asked(
        self,
        opcode: str,
        operands: Sequence[Shape],
        attributes: Attributes,
        regions: tuple[Region, ...],
        stated: tuple[Shape, ...],
    ) -> tuple[Shape, ...]:
        rule = OPERATIONS[opcode].result
        given = [*operands, *stated]
        # Most sizes are numbers: then one point shows all.
        is_fixed = not regions and all(s.is_constant for each in given for s in each.sizes) and not varies(attributes)
        seen: list[Types] = []
        for at in self._bindings[:1] if is_fixed else self._bindings:
            use = Use(
                operands=tuple((_type(each, at),) for each in operands),
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
            found = self.types[number]
            assert isinstance(found, Shape)
            return _type(found, at)

        return Callee(takes=tuple(of(each.id) for each in region.parameters), gives=tuple(map(of, region.results)))


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
