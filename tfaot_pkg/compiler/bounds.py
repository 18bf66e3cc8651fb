"""The verifier of loops: every access is inside its array, for all batches and all sizes that calls bring.

It proves bounds of affine indices with the arithmetic of sizes: before loops become lines, and of the lines. What a
call of the kernel library, of XLA's code or of the author's does, and an index that is read from an array, are trusted
as far as places declare (`Place.elements`, `Spread`, `View`, `Within`, `Unsigned`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from tfaot_pkg.compiler.affine import Index, as_size
from tfaot_pkg.compiler.elements import (
    Access,
    Component,
    Computed,
    Filled,
    Operand,
    Place,
    Pointed,
    Scalar,
    Start,
    Stored,
)
from tfaot_pkg.compiler.instructions import Assign, Call, Declare, Instruction, StoreElement, StoreLanes, Swap
from tfaot_pkg.compiler.loops import Block, For, Function, Lambda, Let, Nest, Node, Sharing, View, Within
from tfaot_pkg.compiler.pieces import (
    Code,
    Entry,
    Loaded,
    OfRows,
    Piece,
    Row,
    Spread,
    Total,
    Unsigned,
    expressions,
)
from tfaot_pkg.compiler.polynomials import is_never_negative
from tfaot_pkg.compiler.program import ONE, ROWS, ZERO, Size, Symbol, Unsupported


class OutOfBounds(Unsupported):
    """An access that is outside of its array for some sizes, or of which the opposite cannot be proven.

    Or a call that writes what it reads, or a new value of a variable of which something was proven.

    XLA compiles the model instead: no code is made of loops that are not proven.
    """


@dataclass(frozen=True, slots=True)
class Range:
    """From `low` to `high`, both included."""

    low: Size
    high: Size

    def plus(self, other: Range) -> Range:
        return Range(self.low + other.low, self.high + other.high)


def check_bounds(function: Function) -> None:
    """Raises OutOfBounds unless every access is inside its array, and no call writes what it reads."""
    arrays = {name: Range(ZERO, elements + Size(-1)) for name, elements in function.arrays.items()}
    _Scope(function.symbols, function.sharing, arrays).over(function.nodes)


@dataclass(slots=True)
class _Scope:
    """What is known at a place of a function: arrays, by the elements around a pointer, and ranges of variables.

    Of variables that were declared, also whether they may change; of lanes, the axes that they run over.
    """

    symbols: Sequence[Symbol]
    sharing: Sharing
    arrays: dict[str, Range]
    variables: dict[str, Range] = field(default_factory=dict)
    changing: dict[str, bool] = field(default_factory=dict)
    lanes: dict[str, tuple[Size, ...]] = field(default_factory=dict)

    def over(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if isinstance(node, View):
                self.arrays[node.name] = self._of(Index(ZERO, node.factors), node.extents)
            elif isinstance(node, Within):
                self.variables[node.name] = Range(ZERO, node.size + Size(-1))
            elif isinstance(node, Let):
                self.variables[node.name] = self._sum(node.terms)
            elif isinstance(node, Instruction):
                self._pieces(node.pieces)
                self._instruction(node)
            elif isinstance(node, Block):
                self._block(node)
            elif isinstance(node, Nest):
                for access, extents in node.loops.reached:
                    self._access(access, extents)
                self._operands(node.loops.operands)

    def _instruction(self, node: Instruction) -> None:
        match node:
            case Call():
                self._call(node)
            case Declare():
                self._declare(node)
            case StoreLanes():
                self._lanes(node.to, node.steps, node.by)
            case StoreElement(to=Row(access=access, axes=axes)):
                # Other addresses of rows may be where loops begin; this one is where an element is.
                self._inside(access.base, self._row(access, axes), str(node.to))
            case Assign():
                self._require_changing(node.name)
                if node.name in self.variables or node.name in self.arrays:
                    raise OutOfBounds(f"{node.name} gets a new value, but more is known of the old one")
            case Swap():
                for name in (node.one, node.other):
                    self._require_changing(name)
                if self.arrays.get(node.one) != self.arrays.get(node.other):
                    raise OutOfBounds(f"{node.one} and {node.other} are exchanged, but their arrays differ in size")

    def _declare(self, node: Declare) -> None:
        """The elements around an address are those around its array that it reaches in any case."""
        self.changing[node.name] = node.can_change
        self.variables.pop(node.name, None)
        around = self._around(node.address)
        self.arrays.pop(node.name, None)
        if around is not None:
            self.arrays[node.name] = around

    def _around(self, address: Place | Row | OfRows | None) -> Range | None:
        match address:
            case Place(base=base, steps=steps):
                start = self._sum(steps)
            case Row(access=access, axes=axes):
                base, start = access.base, self._row(access, axes)
            case OfRows(elements=elements):
                return Range(ZERO, elements * ROWS + Size(-1))
            case None:
                return None
        array = self._array(base, str(address))
        return Range(array.low + start.low * Size(-1), array.high + start.high * Size(-1))

    def _row(self, access: Access, axes: int) -> Range:
        """Where rows of an access begin."""
        index = access.index
        counted = [(f"i{axis}", factor) for axis, factor in enumerate(index.factors[:axes]) if factor != ZERO]
        return self._of(replace(index, factors=()), ()).plus(self._sum(counted))

    def _require_changing(self, name: str) -> None:
        if not self.changing.get(name):
            raise OutOfBounds(f"{name} gets a new value, but no block around declares it as a variable that changes")

    def _call(self, call: Call) -> None:
        """Functions of the kernel library take arrays apart from one another: their loads and stores are reordered."""
        for read, written in product(call.reads, call.writes):
            if self.sharing.is_possible(read.base, written.base):
                raise OutOfBounds(f"{call.function} reads {read} and may write it as {written}")

    def _block(self, block: Block) -> None:
        self._pieces(block.head.pieces)
        inside = replace(
            self, arrays=dict(self.arrays), variables=dict(self.variables), changing=dict(self.changing),
            lanes=dict(self.lanes),
        )  # fmt: skip
        if isinstance(block.head, For):
            inside.variables[block.head.counter] = Range(ZERO, block.head.size + Size(-1))
        elif isinstance(block.head, Lambda):
            inside.variables.update((name, Range(ZERO, size + Size(-1))) for name, size in block.head.counts)
            inside.lanes[block.head.lanes] = block.head.over
            self.arrays.pop(block.head.name, None)
        inside.over(block.nodes)

    def _pieces(self, pieces: Iterable[Piece]) -> None:
        for piece in expressions(pieces):
            match piece:
                case Row():
                    self._address(piece)
                case Code(operands=operands, indices=indices):
                    self._operands(operands)
                    for index in indices:
                        self._terms(index)
                case Entry() | Unsigned():
                    self._entry(piece)
                case Loaded(address=address, steps=steps, by=by):
                    self._lanes(address, steps, by)
                case Spread(base=base, axes=axes_of):
                    reach = [self._scaled(Range(ZERO, size + Size(-1)), step) for size, step in axes_of]
                    self._inside(base, _total(ZERO, reach), str(piece))
                case OfRows(base=base, elements=elements):
                    self._inside(base, Range(ZERO, elements * ROWS + Size(-1)), str(piece))
                case Total():
                    pass
                case Place():
                    self._place(piece)
                case _:
                    self._scalar(piece)

    def _address(self, row: Row) -> None:
        """Of a row that is inside as a whole, if its extents are known here."""
        if row.extents:
            self._access(row.access, row.extents)
        else:
            self._terms(row.access.index)
            self._row(row.access, row.axes)

    def _lanes(self, address: Place, steps: Sequence[Size], by: str) -> None:
        """Elements of lanes: `steps` apart along the axes that these run over."""
        over = self.lanes.get(by, ())
        if not over or len(over) != len(steps):
            raise OutOfBounds(f"{by} has {len(over)} axes, and not {len(steps)} as elements from {address} on")
        reach = [self._scaled(Range(ZERO, size + Size(-1)), step) for size, step in zip(over, steps, strict=True)]
        self._inside(address.base, _total(ZERO, [self._sum(address.steps), *reach]), f"lanes from {address} on")

    def _entry(self, entry: Entry | Unsigned) -> Range:
        """The range of what is counted, within the array if it is an element of one."""
        if isinstance(entry, Unsigned):
            if isinstance(entry.scalar, Entry):
                self._entry(entry.scalar)
            else:
                self._scalar(entry.scalar)
            return Range(ZERO, entry.size + Size(-1))
        match entry.at:
            case Unsigned():
                counted = self._entry(entry.at)
            case str():
                counted = self._sum([(entry.at, ONE)])
            case _:
                counted = Range(as_size(entry.at), as_size(entry.at))
        place = self._scaled(counted, ONE if entry.factor is None else entry.factor)
        self._inside(entry.base, place, str(entry))
        return place

    def _operands(self, operands: Iterable[Operand]) -> None:
        for operand in operands:
            if isinstance(operand, Filled):
                self._scalar(operand.scalar)

    def _scalar(self, scalar: Scalar) -> None:
        match scalar:
            case Pointed(base=base):
                self._inside(base, Range(ZERO, ZERO), str(scalar))
            case Stored(place=place):
                self._place(place)
            case Component(base=base, offset=offset, steps=steps, at=at):
                terms = [self._scaled(Range(ZERO, counter.most), stride) for counter, stride in steps]
                self._inside(base, _total(offset + at, terms), str(scalar))
            case Computed(operands=operands):
                for each in operands:
                    self._scalar(each)

    def _place(self, place: Place) -> None:
        rest = self._scaled(Range(ZERO, place.elements + Size(-1)), place.stride)
        self._inside(place.base, self._sum(place.steps).plus(rest), str(place))

    def _access(self, access: Access, extents: Sequence[Size]) -> None:
        index = access.index
        if len(extents) != len(index.factors):
            raise OutOfBounds(f"{len(extents)} extents for the axes of {access.base} + {index}")
        self._terms(index)
        self._inside(access.base, self._of(index, extents), str(Row(access, len(extents), ())))

    def _terms(self, index: Index) -> None:
        """The numbers that an index reads."""
        for term, _ in index.runtime:
            if isinstance(term, Start):
                self._scalar(term.scalar)

    def _of(self, index: Index, extents: Sequence[Size]) -> Range:
        """The elements that an index counts, over all extents."""
        axes = [self._scaled(Range(ZERO, size + Size(-1)), f) for f, size in zip(index.factors, extents, strict=True)]
        runtime = [self._scaled(Range(ZERO, term.most), factor) for term, factor in index.runtime]
        return _total(index.offset, [*axes, *runtime])

    def _sum(self, terms: Iterable[tuple[str, Size]]) -> Range:
        found = []
        for name, factor in terms:
            if name not in self.variables:
                raise OutOfBounds(f"{name} has no known range")
            found.append(self._scaled(self.variables[name], factor))
        return _total(ZERO, found)

    def _scaled(self, range_: Range, by: Size) -> Range:
        if is_never_negative(by, self.symbols):
            return Range(range_.low * by, range_.high * by)
        if is_never_negative(by * Size(-1), self.symbols):
            return Range(range_.high * by, range_.low * by)
        raise OutOfBounds(f"a step of {by}, which has no known sign")

    def _array(self, base: str, text: str) -> Range:
        if base not in self.arrays:
            raise OutOfBounds(f"{text}: no array {base} is known")
        return self.arrays[base]

    def _inside(self, base: str, found: Range, text: str) -> None:
        array = self._array(base, text)
        for least, most in ((array.low, found.low), (found.high, array.high)):
            if not is_never_negative(most + least * Size(-1), self.symbols):
                raise OutOfBounds(f"{text}: elements {found.low} to {found.high} of {array.low} to {array.high}")


def _total(offset: Size, ranges: Iterable[Range]) -> Range:
    total = Range(offset, offset)
    for each in ranges:
        total = total.plus(each)
    return total
