"""Simplify a program: fold constants, drop copies, inline calls, move state that a loop does not change out of it.

Values stay the same to the bit, except folded functions such as `exponential`, which NumPy computes, and powers, whose
last bit may change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count

from tfaot_pkg.compiler.attributes import Constant, Element
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes import simpler_arithmetic, simpler_moves
from tfaot_pkg.compiler.passes.folding import folded
from tfaot_pkg.compiler.passes.layouts import is_image, of_images, sunk
from tfaot_pkg.compiler.passes.narrowing import compared
from tfaot_pkg.compiler.passes.normalization import batch_norm_inference
from tfaot_pkg.compiler.passes.rewriting import Simpler
from tfaot_pkg.compiler.program import Number, Operation, Program, Region, reducer, used

_MERGED = frozenset({"add", "and", "maximum", "minimum", "multiply", "or"})
"""Reducers of reductions that are merged if they are equal."""


def simplify(program: Program) -> Program:
    """Raises nothing: unknown operations stay as they are."""
    while True:
        # Repeated, because a folded constant makes its users foldable.
        made = _Rewrite().program(program)
        # The last pass changed nothing.
        if _size(made) == _size(program):
            return made
        program = made


def _size(program: Program) -> int:
    return sum(1 + len(operation.operands) for operation in program.entry.everything())


class _Rewrite:
    """One walk over a program; operations that are kept get new ids."""

    def __init__(self) -> None:
        self._ids = count()
        self.made: dict[int, Operation] = {}
        self._same: dict[object, int] = {}
        self._images: set[int] = set()
        self._open: list[list[Operation]] = []

    def program(self, program: Program) -> Program:
        return replace(program, entry=self._region(program.entry, {}))

    def _region(self, region: Region, known: Mapping[int, int]) -> Region:
        """`region` rewritten, without operations that its results do not need."""
        new, outer_same = dict(known), self._same
        self._same = dict(outer_same)  # values of a region are not visible outside it
        self._open.append([])
        self._fill(region, new)
        # Unused operations are removed now, before the region around this one counts uses.
        operations, results = self._open.pop(), tuple(new[result] for result in region.results)
        self._same = outer_same
        return Region(operations=used(operations, results), results=results)

    def _fill(self, region: Region, new: dict[int, int], arguments: Sequence[int] | None = None) -> None:
        """Add the operations of `region` to the open region; `new` gets their ids."""
        for operation in region.operations:
            operands = tuple(new[operand] for operand in operation.operands)
            if operation.opcode == "parameter" and arguments is not None:
                new[operation.id] = arguments[Number.of(operation).number]
            elif operation.opcode == "call" and not isinstance(operation.type, tuple):
                new[operation.id] = self._inlined(operation.regions[0], new, operands)[0]
            elif operation.opcode == "get-tuple-element":
                new[operation.id] = self._element(operation, operands[0], new)
            elif operation.opcode == "call":
                inlined = self._inlined(operation.regions[0], new, operands)
                new[operation.id] = self._tuple(operation, inlined)
            elif operation.opcode == "while":
                new[operation.id] = self._while(operation, operands, new)
            else:
                regions = tuple(self._region(nested, new) for nested in operation.regions)
                new[operation.id] = self.add(replace(operation, operands=operands, regions=regions))

    def _inlined(self, region: Region, new: Mapping[int, int], arguments: Sequence[int]) -> list[int]:
        inner = dict(new)
        self._fill(region, inner, arguments)
        return [inner[result] for result in region.results]

    def _tuple(self, operation: Operation, values: Sequence[int]) -> int:
        """A placeholder for several values until their `get-tuple-element`s are reached; never in the result."""
        made = next(self._ids)
        self.made[made] = replace(operation, id=made, opcode="tuple", operands=tuple(values), regions=())
        return made

    def _element(self, operation: Operation, operand: int, new: Mapping[int, int]) -> int:
        whole = self.made[operand]
        if whole.opcode == "tuple":
            return whole.operands[int(Element.of(operation).index)]
        return self.add(replace(operation, operands=(operand,)))

    # Loops

    def _while(self, operation: Operation, operands: tuple[int, ...], new: Mapping[int, int]) -> int:
        """The loop without state that it does not change."""
        body, condition = operation.regions
        parameters = [parameter.id for parameter in body.parameters]
        number = {value: index for index, value in enumerate(parameters)}
        origin = {value: value for value in parameters}  # through operations that only rename
        types = {each.id: each.type for each in body.operations}
        for each in body.operations:
            if each.opcode in ("reshape", "copy") and each.operands[0] in origin:
                if each.type == types[each.operands[0]]:
                    origin[each.id] = origin[each.operands[0]]
        # State that the body only passes on is a value from outside the loop: it may then be a constant.
        unchanged = {index for index, result in enumerate(body.results) if number.get(origin.get(result, -1)) == index}
        kept = [index for index in range(len(operands)) if index not in unchanged]
        shapes = tuple(operation.shapes[index] for index in kept)

        def renewed(region: Region, results: Sequence[int]) -> Region:
            known = dict(new)
            place = {index: i for i, index in enumerate(kept)}
            operations = []
            for each in region.operations:
                if each.opcode != "parameter":
                    operations.append(each)
                elif (index := Number.of(each).number) in unchanged:
                    known[each.id] = operands[index]
                else:
                    operations.append(replace(each, attributes=Number(number=place[index])))
            return self._region(Region(operations=tuple(operations), results=tuple(results)), known)

        regions = (renewed(body, [body.results[index] for index in kept]), renewed(condition, condition.results))
        # A loop that changes nothing leaves its initial values, if it ends at all.
        if not kept:
            return self._tuple(operation, operands)
        made = self.add(
            replace(operation, type=shapes, operands=tuple(operands[index] for index in kept), regions=regions)
        )
        values = list(operands)
        for place, index in enumerate(kept):
            values[index] = self.add(
                Operation(
                    id=0, opcode="get-tuple-element", type=shapes[place], operands=(made,),
                    attributes=Element(index=place), node=operation.node,
                )
            )  # fmt: skip
        return self._tuple(operation, values)

    # Single operations

    def add(self, operation: Operation) -> int:
        """The value of `operation`, whose operands are new ids: an existing value if one is equal."""
        simpler = self._forwarded(operation)
        if isinstance(simpler, int):
            return simpler
        operation = folded(simpler, [self.made[operand] for operand in simpler.operands])
        if (moved := sunk(operation, self.made, self._images, self.add)) is not None:
            return moved
        # After folding and moving: only then two operations may be equal.
        key = _key(operation)
        if key is not None and key in self._same:
            return self._same[key]
        made = next(self._ids)
        self.made[made] = replace(operation, id=made)
        if is_image(operation, self._images):
            self._images.add(made)
        self._open[-1].append(self.made[made])
        if key is not None:
            self._same[key] = made
        return made

    def _forwarded(self, operation: Operation) -> int | Operation:
        """The value that `operation` is equal to, or a simpler operation."""
        if not operation.operands or isinstance(operation.type, tuple):
            return operation
        operand = self.made[operation.operands[0]]
        if isinstance(operand.type, tuple):
            return operation
        rule = _RULES.get(operation.opcode)
        return operation if rule is None else rule(self, operation, operand)


def _key(operation: Operation) -> object | None:
    """Equal for operations with the same result; None for operations that are never merged."""
    combined = reducer(operation) if operation.opcode in ("reduce", "reduce-window") else None
    if (operation.regions and combined not in _MERGED) or operation.opcode == "parameter":
        return None
    if not OPERATIONS[operation.opcode].is_pure:
        return None
    if operation.opcode == "constant":
        literal = Constant.of(operation).literal
        # Larger ones are merged by their digests when they are placed (`Constants` in weights.py).
        if literal.growing or literal.constant.size > 64:
            return None
        return ("constant", operation.type, literal.constant.tobytes())
    return (operation.opcode, combined, operation.type, operation.operands, operation.attributes)


_RULES: Mapping[str, Simpler] = {
    # Not 0.0: -0.0 + 0.0 is 0.0 in IEEE 754.
    "add": simpler_arithmetic.with_neutral(-0.0, both_sides=True),
    "and": simpler_arithmetic.and_,
    "batch-norm-inference": batch_norm_inference,
    "broadcast": simpler_moves.broadcast,
    "compare": compared,
    "convert": simpler_moves.same_type,
    "convolution": of_images,
    "copy": lambda _rewrite, _operation, operand: operand.id,
    "divide": simpler_arithmetic.with_neutral(1.0, both_sides=False),
    "dot": simpler_arithmetic.dot,
    "dynamic-slice": simpler_moves.dynamic_slice,
    "dynamic-update-slice": simpler_moves.update,
    "gather": simpler_moves.gather,
    "multiply": simpler_arithmetic.with_neutral(1.0, both_sides=True),
    "power": simpler_arithmetic.power,
    "reduce": simpler_arithmetic.reduce,
    "reshape": simpler_moves.reshape,
    "select": simpler_arithmetic.select,
    "set-dimension-size": simpler_arithmetic.set_dimension_size,
    "slice": simpler_moves.slice_,
    "subtract": simpler_arithmetic.with_neutral(0.0, both_sides=False),
    "transpose": simpler_moves.transpose,
}
"""Rules that simplify a single operation, by opcode: (rewrite, operation, its first operand)."""
