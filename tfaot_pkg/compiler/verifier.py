"""Checks a program: each value is defined before it is used, and has the type that its operation gives (operations.py).

Types are compared at several batch sizes and sizes of symbols. Sizes are polynomials, and linear in the batch.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfaot_pkg.compiler.attributes import MalformedAttributes, check_types, varies
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import NUMPY_TYPES, Binding, Number, Operation, Program, Region, Shape, Symbol
from tfaot_pkg.compiler.type_rules import ArrayType, Callee, Malformed, Types, Use

_BATCHES = (1, 2, 3, 64)
"""Two are enough for a line; the others are for quotients that are rounded, as of the windows of a pool."""


_Seen = tuple[tuple[Types, ...], Types]
"""The types of an operation's operands, and those of its results."""


class InvalidProgram(ValueError):
    """A program that is not well-formed: the message names the operation."""


def verified(program: Program, after: str, verifier: Verifier | None = None) -> Program:
    """`program`, which the step `after` made. Raises InvalidProgram, which names the step too."""
    try:
        (verifier or Verifier()).verify(program)
    except InvalidProgram as error:
        raise InvalidProgram(f"after {after}: {error}") from None
    return program


def verify(program: Program) -> None:
    """Raise InvalidProgram if a value is used where it is not known, is defined twice, or has a wrong type."""
    Verifier().verify(program)


@dataclass(slots=True)
class _Record:
    """An operation that was checked: the types that it had at each point, by the point's number, 0 for all if fixed."""

    operation: Operation
    is_fixed: bool
    seen: dict[int, _Seen] = field(default_factory=dict)


class Verifier:
    """Verifies programs one after the other. Operations of the last ones are not checked again for equal operands."""

    def __init__(self) -> None:
        # By identity: passes keep most operations as they are. A record keeps its operation alive, and so its identity.
        self._records: dict[int, _Record] = {}
        self._symbols: tuple[Symbol, ...] = ()

    def verify(self, program: Program) -> None:
        """As the function `verify`."""
        _require_definitions(program)
        if program.symbols != self._symbols:
            self._records, self._symbols = {}, program.symbols
        for each in program.entry.everything():
            if id(each) not in self._records:
                _require_form(each)
                self._records[id(each)] = _Record(each, _is_fixed(each))
        for number, (batch, sizes) in enumerate(_points(program.symbols)):
            _Types(Binding(batch, sizes), number, self._records).of_region(program.entry)


def _is_fixed(operation: Operation) -> bool:
    """Whether sizes of the result and numbers in the attributes are the same in all batches; it has no regions."""
    is_fixed = all(size.is_constant for shape in operation.shapes for size in shape.sizes)
    return is_fixed and not operation.regions and not varies(operation.attributes)


def _require_definitions(program: Program) -> None:
    made: set[int] = set()

    def look(region: Region, outside: frozenset[int]) -> None:
        known: set[int] = set(outside)
        for operation in region.operations:
            for nested in operation.regions:
                look(nested, frozenset(known))
            if missing := set(operation.operands) - known:
                raise InvalidProgram(f"{_named(operation)} uses %{min(missing)}, which is not known there")
            if operation.id in made:
                raise InvalidProgram(f"%{operation.id} is defined twice")
            made.add(operation.id)
            known.add(operation.id)
        if missing := set(region.results) - known:
            raise InvalidProgram(f"a region returns %{min(missing)}, which is not known there")

    look(program.entry, frozenset())


def _points(symbols: Sequence[Symbol]) -> Iterator[tuple[int, Mapping[str, int]]]:
    """Batch sizes with sizes of the symbols: all at one end, and each of them apart."""
    least, most = ({each.name: getattr(each, end) for each in symbols} for end in ("minimum", "maximum"))
    yield from ((batch, least) for batch in _BATCHES)
    if symbols:
        yield from ((batch, most) for batch in _BATCHES[:2])
        for each in symbols:
            yield 2, {**least, each.name: each.maximum}
            yield 2, {**most, each.name: each.minimum}
            yield 3, {**most, each.name: (each.minimum + each.maximum) // 2}


def _named(operation: Operation) -> str:
    node = f" (node {operation.node!r})" if operation.node else ""
    return f"%{operation.id} {operation.opcode}{node}"


class _Types:
    """The types of all values at one batch size and `sizes` of the symbols.

    `records` have what was seen before at the point `number`, and at any point of operations that are fixed.
    """

    def __init__(self, sizes: Binding, number: int, records: Mapping[int, _Record]) -> None:
        self._sizes, self._number, self._records = sizes, number, records
        self._known: ChainMap[int, Types] = ChainMap()

    def of_region(self, region: Region) -> Callee:
        """The types of a region, after all its operations were checked. Raises InvalidProgram."""
        self._known = self._known.new_child()
        for operation in region.operations:
            self._known[operation.id] = self._of_operation(operation)
        numbers = [Number.of(each).number for each in region.parameters]
        if numbers != list(range(len(numbers))):
            raise InvalidProgram(f"a region has the parameters {numbers}")
        takes = tuple(self._known[each.id][0] for each in region.parameters)
        gives = tuple(self._known[result][0] for result in region.results)
        self._known = self._known.parents
        return Callee(takes=takes, gives=gives)

    def _of_operation(self, operation: Operation) -> Types:
        operands = tuple(self._known[operand] for operand in operation.operands)
        if operation.regions:
            return self._result(operation, operands)
        record = self._records[id(operation)]
        number = 0 if record.is_fixed else self._number
        seen = record.seen.get(number)
        if seen is None or seen[0] != operands:
            record.seen[number] = seen = (operands, self._result(operation, operands))
        return seen[1]

    def _result(self, operation: Operation, operands: tuple[Types, ...]) -> Types:
        """The types of its results. Raises InvalidProgram."""
        try:
            stated = tuple(map(self._type, operation.shapes))
            use = Use(
                operands=operands,
                stated=stated,
                attributes=operation.attributes,
                regions=tuple(map(self.of_region, operation.regions)),
                sizes=self._sizes,
            )
            given = OPERATIONS[operation.opcode].result(use)
        except Malformed as error:
            raise InvalidProgram(f"{_named(operation)}: {error}") from None
        # An attribute with fewer numbers than its rule reads, or with a number that is too large.
        except (LookupError, ValueError, ArithmeticError) as error:
            raise InvalidProgram(f"{_named(operation)}: an attribute is not of its form: {error}") from None
        if given != stated:
            told, wrong = (" ".join(map(str, types)) for types in (given, stated))
            raise InvalidProgram(f"{_named(operation)} gives {told}, not {wrong} (batch size {self._sizes.batch})")
        return stated

    def _type(self, shape: Shape) -> ArrayType:
        sizes = self._sizes.numbers(shape.sizes)
        if any(size < 0 for size in sizes):
            raise Malformed(f"sizes of {shape} are negative at batch size {self._sizes.batch}")
        return ArrayType(shape.dtype, sizes)


def _require_form(operation: Operation) -> None:
    """Raise InvalidProgram unless it has operands, regions, attributes and element types as its definition says."""
    definition = OPERATIONS.get(operation.opcode)
    if definition is None:
        raise InvalidProgram(f"{_named(operation)}: there is no such operation")
    for many, (least, most), what in (
        (len(operation.operands), definition.operands, "operands"),
        (len(operation.regions), definition.regions, "regions"),
    ):
        if many < least or (most is not None and many > most):
            raise InvalidProgram(f"{_named(operation)} has {many} {what}")
    found, wanted = type(operation.attributes).__name__, definition.attributes.__name__
    if type(operation.attributes) is not definition.attributes:
        raise InvalidProgram(f"{_named(operation)} has attributes of the type {found}, not {wanted}")
    try:
        check_types(operation.attributes)
    except MalformedAttributes as error:
        raise InvalidProgram(f"{_named(operation)}: {error}") from None
    if unknown := {shape.dtype for shape in operation.shapes} - set(NUMPY_TYPES):
        raise InvalidProgram(f"{_named(operation)}: there is no type {min(unknown)}")
