"""Simplify a program: fold constants, drop copies, inline calls, move state that a loop does not change out of it.

Values stay the same to the bit, except folded functions such as `exponential`, which NumPy computes, and powers, whose
last bit may change.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import (
    Comparison,
    Constant,
    Convolution,
    Dimensions,
    Dot,
    Element,
    Slices,
    Windows,
    numbers,
)
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.layouts import is_image, of_images, sunk
from tfaot_pkg.compiler.passes.narrowing import compared
from tfaot_pkg.compiler.passes.normalization import batch_norm_inference
from tfaot_pkg.compiler.program import (
    NO_ATTRIBUTES,
    NUMPY_TYPES,
    ONE,
    ZERO,
    Attributes,
    Literal,
    Number,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Unsupported,
    reducer,
    used,
)

_MOST_FOLDED = 1 << 16
"""Elements of the largest constant folded from smaller ones: a larger broadcast is better computed where it is used."""
_MOST_STEPS = 1 << 24
"""The limit of elements that are read to fold one operation."""
_MERGED = frozenset({"add", "and", "maximum", "minimum", "multiply", "or"})
"""Reducers of reductions that are merged if they are equal."""
_SLOW = frozenset({"conditional", "map", "scatter", "select-and-scatter", "sort", "trees", "while"})
"""Operations that interpret.py computes element by element: folding them would take too long."""
_LONGEST_COUNT = 1 << 10
"""Elements of the longest iota that is folded into its users, such as the positions of a resized image."""
_OF_COUNTS = frozenset({"broadcast", "concatenate", "convert", "reshape", "slice", "transpose"})


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
        operation = self._folded(simpler)
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

    def _folded(self, operation: Operation) -> Operation:
        operands = [self.made[operand] for operand in operation.operands]
        if not OPERATIONS[operation.opcode].is_pure or isinstance(operation.type, tuple) or not operands:
            return operation
        if operation.opcode in _SLOW or _steps(operation) > _MOST_STEPS:
            return operation
        # An iota that is only moved or converted stays: `recognize` looks for it (the indices of top-k).
        counts = operation.opcode not in _OF_COUNTS
        literals = [known for each in operands if (known := _known(each, counts=counts)) is not None]
        elements = operation.shape.elements
        if len(literals) < len(operands) or any(literal.growing for literal in literals):
            return operation
        # Of f32[batch,0] the number of elements is known, and the value is not.
        is_known = all(size.is_constant for size in operation.shape.sizes)
        if not is_known or elements.constant > max(_MOST_FOLDED, *(literal.constant.size for literal in literals)):
            return operation
        try:
            value = interpret.evaluate(operation, [literal.constant for literal in literals])
        except Unsupported:
            return operation
        return constant(np.asarray(value), operation.shape, operation.node)


def _known(operation: Operation, *, counts: bool) -> Literal | None:
    """The value of an operand that depends on nothing: a constant, or a short iota."""
    if operation.opcode == "constant":
        literal: Literal = Constant.of(operation).literal
        return literal
    is_count = operation.opcode == "iota" and all(size.is_constant for size in operation.shape.sizes)
    if counts and is_count and operation.shape.elements.constant <= _LONGEST_COUNT:
        return Literal(np.asarray(interpret.evaluate(operation, [])))
    return None


def _steps(operation: Operation) -> int:
    """How often elements of operands are read, if that may be more than once each."""
    if operation.opcode == "reduce" and reducer(operation) is None:
        return _MOST_STEPS + 1
    given = operation.attributes
    if not isinstance(given, (Convolution, Windows)) or not given.window:
        return 0
    if operation.opcode == "reduce-window" and reducer(operation) is None:
        return _MOST_STEPS + 1
    sizes = [side[0] for side in given.window if isinstance(side[0], int)]
    if len(sizes) < len(given.window):
        return _MOST_STEPS + 1
    elements = operation.shape.elements
    return elements.constant * math.prod(sizes) if elements.is_constant else _MOST_STEPS + 1


def constant(value: Any, shape: Shape, node: str = "") -> Operation:
    return Operation(id=0, opcode="constant", type=shape, attributes=Constant(literal=Literal(value)), node=node)


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


def _reshape(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    if operation.type == operand.type:
        return operand.id
    if operand.opcode == "reshape":
        return rewrite.add(replace(operation, operands=operand.operands))
    if operand.opcode == "broadcast":
        made = _reshaped_broadcast(operation, operand)
        if made is not None:
            return rewrite.add(made)
    return operation


def _reshaped_broadcast(reshape: Operation, broadcast: Operation) -> Operation | None:
    """A broadcast with axes of size 1 removed or inserted."""
    inner, outer = broadcast.shape.sizes, reshape.shape.sizes
    if [size for size in inner if size != ONE] != [size for size in outer if size != ONE]:
        return None
    if any(inner[axis] == ONE for axis in Dimensions.of(broadcast).dimensions):
        return None
    places = [axis for axis, size in enumerate(outer) if size != ONE]
    new = iter(places)
    moved = {axis: next(new) for axis, size in enumerate(inner) if size != ONE}
    dimensions = tuple(moved[axis] for axis in Dimensions.of(broadcast).dimensions)
    return replace(broadcast, type=reshape.type, attributes=Dimensions(dimensions=dimensions))


def _transpose(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    order: tuple[int, ...] = Dimensions.of(operation).dimensions
    if order == tuple(range(len(order))):
        return operand.id
    if operand.opcode == "transpose":
        inner = Dimensions.of(operand).dimensions
        composed = tuple(inner[axis] for axis in order)
        return rewrite.add(replace(operation, operands=operand.operands, attributes=Dimensions(dimensions=composed)))
    longer = [axis for axis in order if operand.shape.sizes[axis] != ONE]
    # Only axes of size 1 change places, so elements stay in their order in memory.
    if longer == sorted(longer):
        return rewrite.add(replace(operation, opcode="reshape", attributes=NO_ATTRIBUTES))
    if operand.opcode == "broadcast":
        place = {axis: index for index, axis in enumerate(order)}
        dimensions = tuple(place[axis] for axis in Dimensions.of(operand).dimensions)
        return rewrite.add(replace(operand, type=operation.type, attributes=Dimensions(dimensions=dimensions)))
    return operation


def _broadcast(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    dimensions: tuple[int, ...] = Dimensions.of(operation).dimensions
    if operation.type == operand.type and dimensions == tuple(range(len(dimensions))):
        return operand.id
    if operand.opcode == "broadcast":
        composed = tuple(dimensions[axis] for axis in Dimensions.of(operand).dimensions)
        return rewrite.add(replace(operation, operands=operand.operands, attributes=Dimensions(dimensions=composed)))
    if any(size == ONE for size in operand.shape.sizes):  # without them, more broadcasts are equal
        kept = [axis for axis, size in enumerate(operand.shape.sizes) if size != ONE]
        shape = Shape(operand.shape.dtype, tuple(operand.shape.sizes[axis] for axis in kept))
        smaller = rewrite.add(
            Operation(id=0, opcode="reshape", type=shape, operands=(operand.id,), node=operation.node)
        )
        dimensions = tuple(dimensions[axis] for axis in kept)
        return rewrite.add(replace(operation, operands=(smaller,), attributes=Dimensions(dimensions=dimensions)))
    return operation


def _same_type(_rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    return operand.id if operation.type == operand.type else operation


def _update(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """An update that covers the whole array: HLO clamps its start to 0."""
    update = rewrite.made[operation.operands[1]]
    return update.id if update.type == operand.type else operation


def _slice(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    if operation.type == operand.type:
        return operand.id  # it could not be reversed: strides are positive
    if operand.opcode == "slice":
        outer, inner = ([numbers(cut) for cut in Slices.of(each).slices] for each in (operation, operand))
        # Sizes with symbols would need divisions with remainders to combine steps.
        pairs = [(one, two) for one, two in zip(outer, inner, strict=True) if one is not None and two is not None]
        if len(pairs) == len(outer):
            slices = tuple(_combined(o, i) for o, i in pairs)
            return rewrite.add(replace(operation, operands=operand.operands, attributes=Slices(slices=slices)))
    return operation


def _combined(outer: Sequence[int], inner: Sequence[int]) -> tuple[int, int, int]:
    """`outer` of what `inner` cuts out, which ends behind the last element: its stride may lead out of the array."""
    (begin, end, step), (start, _, stride) = outer, inner
    if begin == end:
        return (start, start, 1)
    last = end - 1 - (end - 1 - begin) % step
    return (start + begin * stride, start + last * stride + 1, step * stride)


def _with_neutral(neutral: float, *, both_sides: bool) -> Any:
    """A rule for an operation that returns its other operand, unchanged to the bit, if one is `neutral`."""

    def rule(rewrite: _Rewrite, operation: Operation, _operand: Operation) -> int | Operation:
        first, second = operation.operands
        if _is_filled(rewrite.made, second, neutral):
            return first
        if both_sides and _is_filled(rewrite.made, first, neutral):
            return second
        return operation

    return rule


def _and(rewrite: _Rewrite, operation: Operation, _operand: Operation) -> int | Operation:
    """One of two and not both, as TensorFlow lowers `logical_xor`."""
    for pair in (operation.operands, operation.operands[::-1]):
        either, denied = (rewrite.made[value] for value in pair)
        both = rewrite.made[denied.operands[0]] if denied.opcode == "not" else denied
        opcodes = (either.opcode, denied.opcode, both.opcode)
        if opcodes == ("or", "not", "and") and set(either.operands) == set(both.operands):
            return replace(operation, opcode="xor", operands=either.operands)
    return operation


def _power(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """Products, quotients and roots for common exponents: `x ** 2` takes one instruction, not forty."""
    exponent = next((each for each in _EXPONENTS if _is_filled(rewrite.made, operation.operands[1], each)), None)
    if exponent is None or operation.shape.dtype not in ("f32", "f64"):
        return operation

    def made(
        opcode: str, *operands: int, dtype: str = operation.shape.dtype, attributes: Attributes = NO_ATTRIBUTES
    ) -> int:
        shape = replace(operation.shape, dtype=dtype)
        return rewrite.add(replace(operation, opcode=opcode, type=shape, operands=operands, attributes=attributes))

    def filled(number: float) -> int:
        scalar = Shape(operation.shape.dtype, ())
        value = rewrite.add(constant(np.asarray(number, NUMPY_TYPES[scalar.dtype]), scalar, operation.node))
        return rewrite.add(
            replace(operation, opcode="broadcast", operands=(value,), attributes=Dimensions(dimensions=()))
        )

    x = operand.id
    if abs(exponent) == 0.5:
        # pow(-0.0, 0.5) is 0.0 and pow(-inf, 0.5) is inf (C11, F.10.4.4), but sqrt gives -0.0 and NaN.
        root = made("add", made("sqrt", x), filled(0.0))
        infinite = made("compare", x, filled(-np.inf), dtype="pred", attributes=Comparison(direction="EQ"))
        x = made("select", infinite, filled(np.inf), root)
    elif exponent > 1:
        square = made("multiply", x, x)
        x = square if exponent == 2 else made("multiply", square, x if exponent == 3 else square)
    return made("divide", filled(1.0), x) if exponent < 0 else x


_EXPONENTS = (-1.0, -0.5, 0.5, 1.0, 2.0, 3.0, 4.0)


def _is_filled(made: Mapping[int, Operation], value: int, wanted: float) -> bool:
    """Whether all elements are `wanted`, including its sign."""
    operation = made[value]
    while operation.opcode in ("broadcast", "reshape"):
        operation = made[operation.operands[0]]
    if operation.opcode != "constant" or Constant.of(operation).literal.growing:
        return False
    values = Constant.of(operation).literal.constant
    # -0.0 == 0.0, but x + 0.0 is not x for x = -0.0. Integers have one zero.
    has_sign = values.dtype.kind in "iu" or np.all(np.signbit(values) == np.signbit(wanted))
    return bool(np.all(values == wanted) and has_sign)


def _dot(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """A product that adds nothing up, as an elementwise one. As a `dot` it would be a tiny matrix for each element."""
    operands = (operand, rewrite.made[operation.operands[1]])
    contracting, batch = Dot.of(operation).contracting, Dot.of(operation).batch
    if operation.shape.dtype == "pred" or any(operand.shape.sizes[axis] != ONE for axis in contracting[0]):
        return operation
    if contracting[0] and any(each.opcode == "constant" for each in operands):
        return operation  # a dense layer with one input, which can absorb a bias and an activation
    factors, beside = [], len(batch[0])
    for each, summed, shared in zip(operands, contracting, batch, strict=True):
        free = [axis for axis in range(each.shape.rank) if axis not in (*summed, *shared)]
        order, places = (*shared, *free, *summed), (*range(len(shared)), *range(beside, beside + len(free)))
        beside += len(free)
        value, sizes = each.id, tuple(each.shape.sizes[axis] for axis in order)
        steps: tuple[tuple[str, tuple[Size, ...], Attributes], ...] = (
            ("transpose", sizes, Dimensions(dimensions=order)),
            ("reshape", sizes[: len(places)], NO_ATTRIBUTES),
            ("broadcast", operation.shape.sizes, Dimensions(dimensions=places)),
        )
        for opcode, kept, attributes in steps:
            shape = replace(operation.shape, sizes=kept)
            value = rewrite.add(replace(operation, opcode=opcode, type=shape, operands=(value,), attributes=attributes))
        factors.append(value)
    return replace(operation, opcode="multiply", operands=tuple(factors), attributes=NO_ATTRIBUTES)


def _set_dimension_size(rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """No operation if it sets the size that the array has. Arrays with fewer valid elements are not supported."""
    (axis,) = Dimensions.of(operation).dimensions
    size, length = rewrite.made[operation.operands[1]], operand.shape.sizes[axis]
    if size.opcode == "constant":
        literal: Literal = Constant.of(size).literal
        if literal.size == length:
            return operand.id
    return operation


def _reduce(_rewrite: _Rewrite, operation: Operation, operand: Operation) -> int | Operation:
    """A reduction of no elements gives the initial value."""
    if len(operation.operands) != 2 or ZERO not in operand.shape.sizes:
        return operation
    start = operation.operands[1:]
    return replace(operation, opcode="broadcast", operands=start, attributes=Dimensions(dimensions=()), regions=())


_RULES: Mapping[str, Any] = {
    # Not 0.0: -0.0 + 0.0 is 0.0 in IEEE 754.
    "add": _with_neutral(-0.0, both_sides=True),
    "and": _and,
    "batch-norm-inference": batch_norm_inference,
    "broadcast": _broadcast,
    "compare": compared,
    # To its own type, or (dynamic-slice) to its own sizes: HLO clamps the start of such a slice to 0.
    "convert": _same_type,
    "convolution": of_images,
    "copy": lambda _rewrite, _operation, operand: operand.id,
    "divide": _with_neutral(1.0, both_sides=False),
    "dot": _dot,
    "dynamic-slice": _same_type,
    "dynamic-update-slice": _update,
    "multiply": _with_neutral(1.0, both_sides=True),
    "power": _power,
    "reduce": _reduce,
    "reshape": _reshape,
    "set-dimension-size": _set_dimension_size,
    "slice": _slice,
    "subtract": _with_neutral(0.0, both_sides=False),
    "transpose": _transpose,
}
"""Rules that simplify a single operation, by opcode: (rewrite, operation, its first operand)."""
