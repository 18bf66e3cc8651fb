"""From a listing of HLO at two batch sizes (program/hlo.py) and the model's constants to a `Program`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from itertools import count
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.program import NUMPY_TYPES, Literal, Operation, Program, Region, Shape, Size, Type, Unsupported
from tfaot_pkg.program import hlo

_MOST_OPERATIONS = 200_000
"""Of a program: computations are copied to where they are called, which may double them at each level."""
_DEEPEST = 24
"""Regions within regions. Each level takes some of Python's stack in each pass."""


def import_program(listing: hlo.Program, inputs: int, constants: Sequence[Array]) -> Program:
    """The program of `listing`, whose entry takes `inputs` inputs and then `constants`.

    Raises Unsupported if sizes or attributes are not linear in the batch, or types are not NumPy's.
    """
    return Program(entry=_Import(listing, inputs, constants).region(listing.entry, is_entry=True))


class _Import:
    def __init__(self, listing: hlo.Program, inputs: int, constants: Sequence[Array]) -> None:
        self._listing, self._inputs, self._constants = listing, inputs, constants
        self._new_ids = count()
        self._depth = 0

    def region(self, number: int, *, is_entry: bool = False) -> Region:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise Unsupported(f"loops, branches and functions more than {_DEEPEST} deep")
        made = self._region(number, is_entry=is_entry)
        self._depth -= 1
        return made

    def _region(self, number: int, *, is_entry: bool) -> Region:
        computation = self._listing.computations[number]
        operations: list[Operation] = []
        values: dict[int, tuple[int, ...]] = {}  # by the ids of the listing: several for a tuple
        numbers = count()  # of parameters, flat

        def add(
            instruction: hlo.Instruction, opcode: str, type_: Type, operands: Sequence[int] = (), **more: Any
        ) -> int:
            made = next(self._new_ids)
            if made >= _MOST_OPERATIONS:
                raise Unsupported(f"more than {_MOST_OPERATIONS} operations")
            operations.append(
                Operation(id=made, opcode=opcode, type=type_, operands=tuple(operands), node=instruction.node, **more)
            )
            return made

        for instruction in _parameters_first(computation):
            shapes, given = self._shapes(instruction.shape), [values[operand] for operand in instruction.operands]
            made: tuple[int, ...]
            match instruction.opcode:
                # The worker lists large constants as parameters (worker_program/hlo.py).
                case "parameter" if is_entry and (place := instruction.attribute("number")) >= self._inputs:
                    literal = Literal(self._constants[place - self._inputs])
                    made = (add(instruction, "constant", shapes[0], attributes={"literal": literal}),)
                case "parameter":
                    made = tuple(
                        add(instruction, "parameter", shape, attributes={"number": next(numbers)}) for shape in shapes
                    )
                case "tuple":
                    made = tuple(value for values_ in given for value in values_)
                case "get-tuple-element":
                    start = sum(_count(part) for part in self._parts(computation, instruction))
                    made = given[0][start : start + len(shapes)]
                case "constant" if shapes[0] != _fixed(shapes[0]):
                    made = (self._growing(instruction, shapes[0], add),)
                case _:
                    flat = isinstance(instruction.shape.parts, tuple)
                    whole = add(
                        instruction, instruction.opcode, shapes if flat else shapes[0],
                        [value for values_ in given for value in values_],
                        attributes=self._attributes(instruction),
                        regions=tuple(self.region(called) for called in instruction.called),
                    )  # fmt: skip
                    made = (whole,) if not flat else tuple(
                        add(instruction, "get-tuple-element", shape, [whole], attributes={"index": index})
                        for index, shape in enumerate(shapes)
                    )  # fmt: skip
            values[instruction.id] = made
        return Region(operations=tuple(operations), results=values[computation.root])

    def _parts(self, computation: hlo.Computation, element: hlo.Instruction) -> Sequence[hlo.Shape]:
        """What stands before an element in its tuple."""
        shapes = {instruction.id: instruction.shape for instruction in computation.instructions}
        return (shapes[element.operands[0]].parts or ())[: element.attribute("index")]

    def _shapes(self, shape: hlo.Shape) -> tuple[Shape, ...]:
        """The arrays of a tuple, also of tuples within; or the one that it is."""
        if shape.parts is not None:
            return tuple(inner for part in shape.parts for inner in self._shapes(part))
        if shape.dtype not in NUMPY_TYPES:
            raise Unsupported(f"values of type {shape.dtype}")
        return (Shape(shape.dtype, tuple(self._size(*size) for size in shape.sizes)),)

    def _size(self, small: int, large: int) -> Size:
        first, second = self._listing.batch_sizes
        per_row, rest = divmod(large - small, second - first)
        if rest:
            raise Unsupported(f"a size is {small} at batch {first} and {large} at batch {second}")
        return Size(small - per_row * first, per_row)

    def _attributes(self, instruction: hlo.Instruction) -> dict[str, Any]:
        if instruction.opcode == "constant":
            return {"literal": self._literal(instruction)}
        small, large = instruction.attributes
        names = [field.name for field in fields(small)]
        return {name: self._paired(getattr(small, name), getattr(large, name)) for name in names}

    def _paired(self, small: Any, large: Any) -> Any:
        """One value; integers that differ become sizes."""
        if isinstance(small, tuple) and isinstance(large, tuple) and len(small) == len(large):
            return tuple(self._paired(*each) for each in zip(small, large, strict=True))
        if small == large:
            return small
        if isinstance(small, int) and isinstance(large, int):
            return self._size(small, large)
        raise Unsupported(f"an attribute is {small} and {large}")

    def _growing(self, instruction: hlo.Instruction, shape: Shape, add: Callable[..., int]) -> int:
        """A constant that has more rows in larger batches: all the same, or each by one step above the one before."""
        small, large = (self._values(instruction, at) for at in (0, 1))
        growing = [axis for axis, size in enumerate(shape.sizes) if size.per_row]
        if len(growing) != 1 or not np.array_equal(large.take(range(small.shape[growing[0]]), growing[0]), small):
            raise Unsupported("a constant that grows with the batch, and changes with it")
        (axis,) = growing
        rows = np.moveaxis(large, axis, 0)
        even = rows.dtype.kind in "iuf"
        step = rows[1] - rows[0] if even else np.zeros_like(rows[0])
        numbers = np.arange(len(rows)).reshape(-1, *[1] * step.ndim)
        if not np.array_equal(rows, rows[0] + numbers * step if even else np.broadcast_to(rows[0], rows.shape)):
            raise Unsupported("a constant that grows with the batch, other than by even steps")
        others = tuple(other for other in range(shape.rank) if other != axis)
        inner = Shape(shape.dtype, tuple(shape.sizes[other] for other in others))

        def spread(values: Array) -> int:
            row = add(instruction, "constant", inner, attributes={"literal": Literal(values)})
            return add(instruction, "broadcast", shape, [row], attributes={"dimensions": others})

        if not np.any(step):
            return spread(rows[0])
        number = add(instruction, "iota", shape, attributes={"dimensions": (axis,)})
        climbed = add(instruction, "multiply", shape, [number, spread(step)])
        return add(instruction, "add", shape, [climbed, spread(rows[0])])

    def _literal(self, instruction: hlo.Instruction) -> Literal:
        small, large = (self._values(instruction, at) for at in (0, 1))
        if small.shape != large.shape:
            raise Unsupported("a constant whose shape depends on the batch")
        # By bytes: NaN is not equal to itself, and -0.0 is equal to 0.0.
        if small.tobytes() == large.tobytes():
            return Literal(small)
        first, second = self._listing.batch_sizes
        if small.dtype.kind not in "iuf":
            raise Unsupported("a constant of truth values that depends on the batch")
        with np.errstate(all="ignore"):
            per_row, rest = np.divmod(large - small, second - first)
            constant = small - per_row * first
        if np.any(rest) or not np.array_equal(constant + per_row * second, large):
            raise Unsupported("a constant that is not linear in the batch")
        return Literal(constant, per_row)

    def _values(self, instruction: hlo.Instruction, at: int) -> Array:
        values, shape = instruction.attributes[at].values, instruction.shape
        if shape.dtype not in NUMPY_TYPES or values is None:
            raise Unsupported(f"a constant of type {shape.dtype} and sizes {shape.sizes}")
        return np.array(values, NUMPY_TYPES[shape.dtype]).reshape([size[at] for size in shape.sizes])


def _fixed(shape: Shape) -> Shape:
    return Shape(shape.dtype, tuple(Size(size.constant) for size in shape.sizes))


def _count(shape: hlo.Shape) -> int:
    return 1 if shape.parts is None else sum(map(_count, shape.parts))


def _parameters_first(computation: hlo.Computation) -> list[hlo.Instruction]:
    """Parameters in the order of their numbers, then the rest in theirs."""
    found = [each for each in computation.instructions if each.opcode == "parameter"]
    rest = [each for each in computation.instructions if each.opcode != "parameter"]
    return [*sorted(found, key=lambda each: int(each.attribute("number"))), *rest]
