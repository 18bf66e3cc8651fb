"""`Program`: a computation of HLO that was listed at two batch sizes (worker_program/hlo.py), as plain values.

The two listings have the same instructions in the same order. Sizes that differ between them grow with the batch, so
every size is a pair: at the smaller and at the larger batch size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfaot_pkg.worker_program.messages import listing

Size = tuple[int, int]
"""A size at both batch sizes."""

# Without 8 and 16 bits, which wrap around within usual batches.
INTEGERS = frozenset("pred s32 s64 u32 u64".split())
"""Integer types that are wide enough for the number of a row."""
# float32 is exact up to 2**24 rows. float16 and bfloat16 are exact up to 2,048 and 256 only.
FLOATS = frozenset({"f32", "f64"})
"""Floating-point types that hold the number of a row exactly."""


class Unlike(Exception):
    """The computations at the two batch sizes are not the same."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of an array, whose `parts` is None, or of a tuple, whose `parts` are the shapes of its elements."""

    dtype: str
    sizes: tuple[Size, ...]
    parts: tuple[Shape, ...] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it is an array without elements at every batch size."""
        return self.parts is None and any(size == (0, 0) for size in self.sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """`node` and `operation` are the name and the type of the TensorFlow operation it came from; "" if there is none.

    `attributes` are those of the opcode (listing.ATTRIBUTES) at both batch sizes; `called` are computations, by id.
    """

    id: int
    opcode: str
    node: str
    operation: str
    shape: Shape
    operands: tuple[int, ...]
    called: tuple[int, ...]
    attributes: tuple[Any, Any]

    def attribute(self, name: str) -> Any:
        """An attribute that must not depend on the batch size. Raises Unlike."""
        small, large = (getattr(each, name) for each in self.attributes)
        if small != large:
            raise Unlike(f"{name} of {self.opcode} depends on the batch size")
        return small


@dataclass(frozen=True, slots=True, kw_only=True)
class Computation:
    """Instructions, each after those that it uses."""

    instructions: tuple[Instruction, ...]
    root: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """`entry` takes the inputs, in their order, and then constants; it gives a tuple of the outputs.

    `sizes` are those of symbols beside the batch. They are the same for both listings, unless it is a sample.
    """

    batch_sizes: Size
    computations: Mapping[int, Computation]
    entry: int
    sizes: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})

    def factor(self, size: Size) -> int | None:
        """The factor by which a size is a multiple of the batch; None if it does not grow with the batch."""
        small, large = self.batch_sizes
        # Computed in integers: a rounded quotient of floats might look like an integer.
        if size[0] == size[1] or size[0] * large != size[1] * small or size[0] % small:
            return None
        return size[0] // small

    def has_batch(self, shape: Shape) -> bool:
        """Whether any size of the array depends on the batch size."""
        return any(small != large for small, large in shape.sizes)


def read_program(modules: Sequence[listing.Module]) -> Program:
    """The program of the worker's first two listings.

    The third one, of a large batch, and one of the last two, of small ones, must be of the same program. Raises Unlike.
    """
    first, second, large, *small = modules
    program = _paired(first, second)
    _require_same(program, _paired(first, large))
    # At size 2 the bridge now and then gives another computation (worker_program/hlo.py): then size 3 decides.
    for number, other in enumerate(small, 1):
        try:
            _require_same(program, _paired(first, other))
            break
        except Unlike:
            if number == len(small):
                raise
    return program


def read_samples(listing: listing.HloListing) -> list[Program]:
    """The first listing with each one at other sizes of symbols. Raises Unlike."""
    return [_paired(listing.modules[0], sample) for sample in listing.samples]


def _require_same(program: Program, other: Program) -> None:
    """Raise Unlike if sizes or constants at the larger batch size of `other` contradict those of `program`."""
    # Two points always lie on a line: only a third one shows that a size is linear in the batch size, and not chosen
    # by a branch, as in `if batch > 100`.
    for number, computation in program.computations.items():
        for one, two in zip(computation.instructions, other.computations[number].instructions, strict=True):
            if not all(
                _on_a_line(*pair, program, other) for pair in zip(_sizes(one.shape), _sizes(two.shape), strict=True)
            ):
                raise Unlike(f"sizes of {one.opcode} in node {one.node!r} do not grow with the batch")
            if one.opcode == "constant" and not _same_constant(one, two, program, other):
                raise Unlike(f"a constant of node {one.node!r} does not grow with the batch")


def _same_constant(one: Instruction, two: Instruction, program: Program, other: Program) -> bool:
    (first, second), (_, third) = one.attributes, two.attributes
    if any(small != large for small, large in one.shape.sizes):
        return True  # constants.constant compares its rows at two sizes
    if first.digest == second.digest:
        # Equal at both sizes, so the analysis takes it for a constant: the third size must not contradict that.
        return bool(first.digest == third.digest)
    if None in (first.values, second.values, third.values) or one.shape.dtype not in INTEGERS:
        return True  # constants.constant counts it as dependent on the batch size: there is nothing to confirm
    pairs = zip(first.values, second.values, third.values, strict=True)
    return all(_on_a_line((a, b), (a, c), program, other) for a, b, c in pairs)


def _on_a_line(one: Size, two: Size, program: Program, other: Program) -> bool:
    """Whether the values at three batch sizes, of which the first is in both pairs, lie on one line."""
    (start, end), (_, far) = program.batch_sizes, other.batch_sizes
    return (one[1] - one[0]) * (far - start) == (two[1] - two[0]) * (end - start)


def _sizes(shape: Shape) -> list[Size]:
    return [*shape.sizes, *(size for part in shape.parts or () for size in _sizes(part))]


def _paired(small: listing.Module, large: listing.Module) -> Program:
    if len(small.computations) != len(large.computations):
        raise Unlike("one has more functions than the other")
    known: dict[int, int] = {}  # computations of the larger one by their ids in the smaller one
    computations = {
        first.id: _computation(first, second, known)
        for first, second in zip(small.computations, large.computations, strict=True)
    }
    return Program(
        batch_sizes=(small.batch_size, large.batch_size),
        sizes=(small.sizes, large.sizes),
        computations=computations,
        entry=small.entry,
    )


def _used(computation: listing.Computation) -> list[listing.Instruction]:
    """The instructions that the root needs, in their order. Folded computations of shapes leave unused constants."""
    used = {computation.root}
    found = []
    # Backwards, because each instruction stands after its operands: one pass finds all that are used.
    for each in reversed(computation.instructions):
        # Parameters stay even if nothing uses them: they are counted, and arguments are passed by their numbers.
        if each.id in used or each.opcode == "parameter":
            used.update(each.operands)
            found.append(each)
    return found[::-1]


def _computation(small: listing.Computation, large: listing.Computation, known: dict[int, int]) -> Computation:
    listed = _used(small), _used(large)
    # Ids differ between two runs of the bridge, so instructions are paired by their positions.
    if len(listed[0]) != len(listed[1]):
        raise Unlike("one has more instructions than the other")
    places = ({each.id: i for i, each in enumerate(one)} for one in listed)
    first, second = places
    instructions = []
    for one, other in zip(*listed, strict=True):
        same = (
            one.opcode == other.opcode
            and [first[i] for i in one.operands] == [second[i] for i in other.operands]
            and len(one.called) == len(other.called)
            # A function that is called several times must be the same one each time.
            and all(known.setdefault(i, j) == j for i, j in zip(one.called, other.called, strict=True))
        )
        if not same:
            raise Unlike(f"{one.opcode} of node {one.node!r} is {other.opcode} in the other")
        instructions.append(
            Instruction(
                id=one.id,
                opcode=one.opcode,
                node=one.node,
                operation=one.operation,
                shape=_shape(one.shape, other.shape),
                operands=one.operands,
                called=one.called,
                attributes=(one.attributes, other.attributes),
            )
        )
    if first[small.root] != second[large.root]:
        raise Unlike("they give different results")
    return Computation(instructions=tuple(instructions), root=small.root)


def _shape(small: listing.ArrayShape | listing.TupleShape, large: listing.ArrayShape | listing.TupleShape) -> Shape:
    if isinstance(small, listing.TupleShape):
        if not isinstance(large, listing.TupleShape) or len(small.parts) != len(large.parts):
            raise Unlike("their tuples differ")
        return Shape("tuple", (), tuple(map(_shape, small.parts, large.parts)))
    if isinstance(large, listing.TupleShape) or small.dtype != large.dtype or len(small.sizes) != len(large.sizes):
        raise Unlike("ranks or element types differ")
    return Shape(small.dtype, tuple(zip(small.sizes, large.sizes, strict=True)))
