"""What passes ask about a region: which operation computes a value, how often it is used, whether it is constant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Constant, Dimensions, Slices
from tfaot_pkg.compiler.program import NUMPY_TYPES, Literal, Operation, Region, Shape, Size
from tfaot_pkg.ground.arrays import Array

_ELSEWHERE = 1 << 30
"""Uses of a value outside of the region: more than any rule looks for."""


class Look:
    """The operations of a region and of those around it, and how often each value is used."""

    def __init__(self, region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> None:
        own = region.by_id()
        self.known = {**outside, **own}
        self.uses = Counter(operand for operation in region.everything() for operand in operation.operands)
        self.uses.update(region.results)
        for operation in region.everything():
            for nested in operation.regions:
                self.uses.update(nested.results)
        # What stands outside is used elsewhere, too: a loop that computed it itself would do so again and again.
        for value in self.uses.keys() & outside.keys():
            if outside[value].opcode != "constant":
                self.uses[value] += _ELSEWHERE
        self.new: list[Operation] = []  # operations that a rule added
        self._ids = ids

    def made_by(self, value: int, *opcodes: str, once: bool = False) -> Operation | None:
        """The operation that computes `value`, if it is one of `opcodes` and, if `once`, `value` has a single use."""
        found = self.known[value]
        return found if found.opcode in opcodes and not (once and self.uses[value] > 1) else None

    def constant(self, value: int) -> Array | None:
        found = self.known[value]
        literal: Literal | None = Constant.of(found).literal if found.opcode == "constant" else None
        return None if literal is None or literal.growing else literal.constant

    def scalar(self, value: int) -> float | None:
        """The number that all elements of `value` are equal to, if it is constant."""
        found = self.known[value]
        while found.opcode in ("broadcast", "reshape"):
            found = self.known[found.operands[0]]
        values = self.constant(found.id)
        return float(values.reshape(())) if values is not None and values.size == 1 else None

    def along_last(self, value: int) -> int | None:
        """The vector that `value` repeats along all axes except the last."""
        found = self.known[value]
        if found.opcode != "broadcast" or Dimensions.of(found).dimensions != (found.shape.rank - 1,):
            return None
        return found.operands[0]

    def add_constant(self, values: Array, like: Operation) -> int:
        dtype = next(name for name, each in NUMPY_TYPES.items() if each == values.dtype)
        shape = Shape(dtype, tuple(Size(size) for size in values.shape))
        made = Operation(
            id=self.fresh(), opcode="constant", type=shape, attributes=Constant(literal=Literal(values)), node=like.node
        )
        return self.add(made).id

    def add_slice(self, value: int, axis: int, ends: tuple[int, int], like: Operation) -> int:
        """The elements of `value` from the first of `ends` along an axis to before the second."""
        found = self.known[value].shape
        cuts = [(0, plain(size), 1) for size in found.sizes]
        sizes = list(found.sizes)
        cuts[axis], sizes[axis] = (*ends, 1), Size(ends[1] - ends[0])
        made = Operation(
            id=self.fresh(), opcode="slice", type=Shape(found.dtype, tuple(sizes)), operands=(value,),
            attributes=Slices(slices=tuple(cuts)), node=like.node,
        )  # fmt: skip
        return self.add(made).id

    def fresh(self) -> int:
        return next(self._ids)

    def add(self, operation: Operation) -> Operation:
        """Insert a new operation, which will have one use, before the operation that a rule looks at."""
        self.known[operation.id] = operation
        self.uses[operation.id] = 1
        self.new.append(operation)
        return operation
