"""Copies of one computation side by side, each for one part of an array: computed once, with the parts as rows.

Keras' TimeDistributed calls its layer for each step of a sequence and puts the results together, which makes as many
copies of the layer's operations. What computes each row of a batch apart (row_by_row.py) computes the rows of all parts
at once: in the copy that stays, each size that grows with the batch is as many times as large. Row `r` of part `p` of
`parts` is row `r * parts + p`. Values stay the same to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tfaot_pkg.compiler.attributes import Constant, Dimensions, Slices, numbers, with_sizes
from tfaot_pkg.compiler.expressions import MOVING
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import (
    BATCH,
    NO_ATTRIBUTES,
    ONE,
    Attributes,
    Literal,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    used,
)
from tfaot_pkg.compiler.row_by_row import axis_of_rows, rows_at

_LEAST = 4
"""Copies that are worth it: the code of fewer is short."""

Copies = tuple[int, ...]
"""What one value is in each copy."""


def rolled(program: Program) -> Program:
    """`program`, which is simplified, with one of each such copies."""
    while (made := _once(program)) is not program:
        program = simplify(made)  # copies may contain copies, which are one operation now
    return program


def _once(program: Program) -> Program:
    region = program.entry
    known = region.by_id()
    found = [group for each in region.operations if (group := _group(each, known)) is not None]
    chosen = {group.whole.id: group for group in _apart(found, region)}
    if not chosen:
        return program
    ids = count(1 + max(each.id for each in region.everything()))
    joined: dict[Copies, int] = {}
    made: list[Operation] = []
    for each in region.operations:
        if each.id in chosen:
            made += _Joining(chosen[each.id], known, joined, ids).operations()
        else:
            made.append(each)
    return replace(program, entry=replace(region, operations=used(made, region.results)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Copies whose results `whole`, a concatenation, puts together.

    `copied` are the operations of the copies, `cut` the slices that they begin with; each after those that it needs.
    """

    whole: Operation
    copied: tuple[Copies, ...]
    cut: tuple[Copies, ...]

    @property
    def count(self) -> int:
        return len(self.whole.operands)

    @property
    def values(self) -> list[int]:
        """What all copies compute."""
        return [value for copies in self.copied for value in copies]


def _group(whole: Operation, known: Mapping[int, Operation]) -> _Group | None:
    """The copies that end in `whole`; None if there are none."""
    if whole.opcode != "concatenate" or len(whole.operands) < _LEAST or not _ends_well(whole, known):
        return None
    copied, cut = set[Copies](), set[Copies]()
    waiting = [whole.operands]
    while waiting:
        copies = waiting.pop()
        if copies in copied or copies in cut:
            continue
        if _is_shared(copies, known):
            if _is_repeatable(known[copies[0]], known):
                continue
            return None
        operations = [known[value] for value in copies]
        if _are_parts(operations, known):
            cut.add(copies)
        elif _are_alike(operations, known):
            copied.add(copies)
            waiting += zip(*(each.operands for each in operations), strict=True)
        else:
            return None
    if not cut or all(known[copies[0]].opcode in MOVING for copies in copied):
        return None
    order = {value: place for place, value in enumerate(known)}
    listed = (tuple(sorted(each, key=lambda copies: order[copies[0]])) for each in (copied, cut))
    return _Group(whole=whole, copied=next(listed), cut=next(listed))


def _ends_well(whole: Operation, known: Mapping[int, Operation]) -> bool:
    """Whether the results have rows of one element along another axis than the one that they are put together along."""
    types = {known[operand].type for operand in whole.operands}
    rows = axis_of_rows(whole.shape)
    if rows is None or rows in Dimensions.of(whole).dimensions or len(types) > 1:
        return False
    return rows_at(whole.shape, rows) == 1


def _is_shared(copies: Copies, known: Mapping[int, Operation]) -> bool:
    """Whether all copies use one value, or equal constants."""
    first = known[copies[0]]
    if len(set(copies)) == 1:
        return True
    if first.opcode != "constant" or any(known[value].opcode != "constant" for value in copies):
        return False
    literals: list[Literal] = [Constant.of(known[value]).literal for value in copies]
    content = literals[0].constant.tobytes()
    return all(
        known[value].type == first.type and not literal.growing and literal.constant.tobytes() == content
        for value, literal in zip(copies, literals, strict=True)
    )


def _is_repeatable(shared: Operation, known: Mapping[int, Operation]) -> bool:
    """Whether the rows of all copies can have the value that all of them use."""
    rows = axis_of_rows(shared.shape)
    return rows is None or rows_at(shared.shape, rows) == 1 or _is_uniform(shared, known)


def _is_uniform(operation: Operation, known: Mapping[int, Operation]) -> bool:
    """Whether all rows are the same, because what they repeat has none."""
    return operation.opcode == "broadcast" and not any(size.grows for size in known[operation.operands[0]].shape.sizes)


def _are_parts(operations: Sequence[Operation], known: Mapping[int, Operation]) -> bool:
    """Whether these are parts of one array, one behind the other along an axis without rows."""
    first = operations[0]
    if any(each.opcode != "slice" or each.operands != first.operands for each in operations):
        return False
    axis, array = _axis_of_parts(operations), known[first.operands[0]].shape
    rows = axis_of_rows(array)
    if axis is None or rows is None or rows == axis or rows_at(array, rows) != 1:
        return False
    if first.shape.sizes[rows] != array.sizes[rows]:
        return False
    cuts = [numbers(Slices.of(each).slices[axis]) for each in operations]
    if cuts[0] is None:
        return False
    start, stop, _ = cuts[0]
    length = stop - start
    return cuts == [(start + place * length, start + (place + 1) * length, 1) for place in range(len(operations))]


def _axis_of_parts(operations: Sequence[Operation]) -> int | None:
    """The one axis along which slices differ, if they do that by numbers."""
    slices = [Slices.of(each).slices for each in operations]
    axes = [axis for axis, each in enumerate(slices[0]) if any(other[axis] != each for other in slices[1:])]
    numbers = all(isinstance(number, int) for each in slices for axis in axes for number in each[axis])
    return axes[0] if len(axes) == 1 and numbers else None


def _are_alike(operations: Sequence[Operation], known: Mapping[int, Operation]) -> bool:
    """Whether these are one operation of several operands, which computes each row apart."""
    first = operations[0]
    if first.opcode in ("constant", "parameter") or not _is_row_by_row(first, [known[i] for i in first.operands]):
        return False
    return all(
        (each.opcode, each.type, len(each.operands), each.attributes)
        == (first.opcode, first.type, len(first.operands), first.attributes)
        and [_text(region) for region in each.regions] == [_text(region) for region in first.regions]
        for each in operations[1:]
    )


def _is_row_by_row(operation: Operation, operands: Sequence[Operation]) -> bool:
    """Whether each row that `operation` gives is made of the same row of each operand, or of what has no rows."""
    if any(isinstance(each.type, tuple) for each in (operation, *operands)) or operation.captured():
        return False
    shapes = [each.shape for each in operands]
    if not any(size.grows for shape in (operation.shape, *shapes) for size in shape.sizes):
        return OPERATIONS[operation.opcode].is_pure
    # What has rows is made of rows, and an array may have them along one axis.
    if any(size.grows for shape in shapes for size in shape.sizes) and axis_of_rows(operation.shape) is None:
        return False
    if any(size.grows for shape in shapes for size in shape.sizes if axis_of_rows(shape) is None):
        return False
    rule = OPERATIONS[operation.opcode].rows
    return rule is not None and rule(operation, shapes)


def _text(region: Region) -> list[tuple[object, ...]]:
    """What two regions share that compute the same, if they read nothing from outside."""
    places = {each.id: place for place, each in enumerate(region.operations)}
    listed: list[tuple[object, ...]] = [tuple(places[value] for value in region.results)]
    for each in region.operations:
        attributes: object = each.attributes
        if isinstance(attributes, Constant):
            attributes = (attributes.literal.constant.tobytes(), attributes.literal.growing)
        inner = [_text(nested) for nested in each.regions]
        listed.append((each.opcode, each.type, [places[value] for value in each.operands], attributes, inner))
    return listed


def _apart(found: Iterable[_Group], region: Region) -> list[_Group]:
    """Those of `found` whose copies nothing else uses; of groups with common operations, which are copies of other
    things in each, the first.
    """
    users: dict[int, set[int]] = {result: {-1} for result in region.results}
    for each in region.operations:
        for value in (*each.operands, *each.captured()):
            users.setdefault(value, set()).add(each.id)
    chosen = _of_one_role(found)
    while True:
        inside = {value for group in chosen for value in (*group.values, group.whole.id)}
        kept = [group for group in chosen if all(users[value] <= inside for value in group.values)]
        if len(kept) == len(chosen):
            return kept
        chosen = kept


def _of_one_role(found: Iterable[_Group]) -> list[_Group]:
    """Those of `found` in which each operation is a copy of the same others as in the groups before."""
    owner: dict[int, Copies] = {}
    chosen: list[_Group] = []
    for group in found:
        owned = {value: copies for copies in group.copied for value in copies}
        distinct = len(owned) == len(group.values)
        if distinct and all(owner.get(value, copies) == copies for value, copies in owned.items()):
            owner |= owned
            chosen.append(group)
    return chosen


@dataclass(frozen=True, slots=True)
class _Axis:
    """An axis by the number that it has in each copy; `_PARTS` counts the copies."""

    number: int
    size: Size


_PARTS = -1


@dataclass(slots=True)
class _Joining:
    """Makes the operations of one copy for the rows of all; `joined` are values that were made before."""

    group: _Group
    known: Mapping[int, Operation]
    joined: dict[Copies, int]
    ids: Iterator[int]
    made: list[Operation] = field(default_factory=list)

    def operations(self) -> list[Operation]:
        """Those instead of the concatenation, whose value the last one gives."""
        group, like = self.group, self.group.whole
        for copies in group.cut:
            if copies not in self.joined:
                self.joined[copies] = self._parts(copies)
        for copies in group.copied:
            if copies not in self.joined:
                first = self.known[copies[0]]
                operands = zip(*(self.known[value].operands for value in copies), strict=True)
                inputs = tuple(self._value(each) for each in operands)
                self.joined[copies] = self._add(self._larger(first), inputs)
        self._unjoined(self.joined[like.operands], like)
        self.made[-1] = replace(self.made[-1], id=like.id)
        return self.made

    def _value(self, copies: Copies) -> int:
        """The joined value of what copies use."""
        if copies in self.joined:
            return self.joined[copies]
        first = self.known[copies[0]]
        if axis_of_rows(first.shape) is None:
            return first.id
        self.joined[copies] = self._repeated(first)
        return self.joined[copies]

    def _repeated(self, shared: Operation) -> int:
        """A value that all copies use, once for each."""
        if _is_uniform(shared, self.known):
            return self._add(self._larger(shared), shared.operands)
        shape, rows = shared.shape, axis_of_rows(shared.shape)
        assert rows is not None
        sizes = (*shape.sizes[: rows + 1], Size(self.group.count), *shape.sizes[rows + 1 :])
        places = tuple(axis for axis in range(shape.rank + 1) if axis != rows + 1)
        value = self._moved(shared, "broadcast", sizes, shared.id, Dimensions(dimensions=places))
        return self._moved(shared, "reshape", self._sizes(shape.sizes), value)

    def _parts(self, copies: Copies) -> int:
        """The parts of an array as rows."""
        operations = [self.known[value] for value in copies]
        first, axis = operations[0], _axis_of_parts(operations)
        rows = axis_of_rows(first.shape)
        assert axis is not None and rows is not None
        slices, sizes = list(Slices.of(first).slices), list(first.shape.sizes)
        slices[axis] = (slices[axis][0], Slices.of(operations[-1]).slices[axis][1], 1)
        sizes[axis] *= Size(self.group.count)
        value = self._moved(first, "slice", sizes, first.operands[0], Slices(slices=tuple(slices)))
        by_parts, by_rows = self._orders(first.shape, axis, rows)
        value = self._arranged(first, value, by_parts, by_rows)
        return self._moved(first, "reshape", self._sizes(first.shape.sizes), value)

    def _unjoined(self, value: int, like: Operation) -> None:
        """The results of all copies put together as in `like`."""
        shape, (axis,) = self.known[like.operands[0]].shape, Dimensions.of(like).dimensions
        rows = axis_of_rows(shape)
        assert rows is not None
        by_parts, by_rows = self._orders(shape, axis, rows)
        value = self._arranged(like, value, by_rows, by_parts)
        self._moved(like, "reshape", like.shape.sizes, value)

    def _orders(self, shape: Shape, axis: int, rows: int) -> tuple[list[_Axis], list[_Axis]]:
        """The axes of all copies, each of `shape`, put together along `axis`, and those with the copies within rows."""
        parts = _Axis(_PARTS, Size(self.group.count))
        axes = [_Axis(place, size) for place, size in enumerate(shape.sizes)]
        # An axis of one element would keep a transpose apart from the one that it undoes.
        kept = [each for each in axes if each.number != axis or each.size != ONE]
        by_parts, by_rows = list(kept), list(kept)
        by_parts.insert(sum(each.number < axis for each in kept), parts)
        by_rows.insert(kept.index(axes[rows]) + 1, parts)
        return by_parts, by_rows

    def _arranged(self, like: Operation, value: int, given: Sequence[_Axis], wanted: Sequence[_Axis]) -> int:
        """`value`, whose axes are those of `given`, with those of `wanted`."""
        value = self._moved(like, "reshape", [each.size for each in given], value)
        order = tuple(given.index(each) for each in wanted)
        return self._moved(like, "transpose", [each.size for each in wanted], value, Dimensions(dimensions=order))

    def _larger(self, operation: Operation) -> Operation:
        """`operation` for the rows of all copies."""
        shape = Shape(operation.shape.dtype, self._sizes(operation.shape.sizes))
        return replace(operation, type=shape, attributes=with_sizes(operation.attributes, self._size))

    def _sizes(self, sizes: Iterable[Size]) -> tuple[Size, ...]:
        return tuple(map(self._size, sizes))

    def _size(self, size: Size) -> Size:
        parts = self.group.count
        return Size.of((monomial, factor * (parts if BATCH in monomial else 1)) for monomial, factor in size.terms)

    def _moved(
        self, like: Operation, opcode: str, sizes: Iterable[Size], operand: int, attributes: Attributes = NO_ATTRIBUTES
    ) -> int:
        shape = Shape(like.shape.dtype, tuple(sizes))
        return self._add(Operation(id=0, opcode=opcode, type=shape, attributes=attributes, node=like.node), (operand,))

    def _add(self, operation: Operation, operands: Sequence[int]) -> int:
        made = replace(operation, id=next(self.ids), operands=tuple(operands))
        self.made.append(made)
        return made.id
