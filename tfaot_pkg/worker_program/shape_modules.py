"""How the numbers of a StableHLO module (`XlaCallModule`) follow from sizes, with these as symbols (shape_analysis.py).

TensorFlow replaces the sizes by numbers, and computes what follows from them, before it lowers the module.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import module_text
import modules
import numpy as np
import shape_arithmetic as arithmetic
from module_shapes import CHANGING, shape_of
from polynomials import Polynomial
from shape_values import (
    CONSTANT,
    DATA,
    MOST_ELEMENTS,
    Choice,
    Computed,
    Known,
    Spread,
    Value,
    all_known,
    choice_of,
    is_folded,
    joined,
    known,
    sizes_of,
)

if TYPE_CHECKING:
    import tensorflow as tf
    from module_text import Region, Statement
    from shape_values import Content


_MAIN = "main"
_BOUNDS = re.compile(r"(\d+):(\d+)(?::(\d+))?")
_DEEPEST = 50
_LINEAR = frozenset("add convert divide multiply negate subtract".split())
_TYPES = {"i64": "int64", "ui64": "int64", "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


@dataclass(frozen=True)
class _Step:
    """What the rules for polynomials ask for (shape_transfer.Step)."""

    node: str
    operation: str
    ranges: arithmetic.Ranges

    def choice(self, sizes: Iterable[str]) -> Choice:
        return Choice(self.node, self.operation, frozenset(sizes))


def results(op: tf.Operation, operands: tuple[Value, ...], ranges: arithmetic.Ranges) -> list[Value]:
    """The values of the results of the operation XlaCallModule."""
    functions = module_text.functions_in(modules.printed(op.node_def))
    main = functions.get(_MAIN)
    if main is None:
        return [Value(Choice(op.name, op.type, frozenset(ranges)))] * len(op.outputs)
    # The number of the platform is an argument before all others.
    given = [*[Value(CONSTANT)] * (len(main.arguments) - len(operands)), *operands]
    found = _Module(op.name, functions, ranges).run(main, given, {}, 0)
    return [Value(each.content, each.shape, choice_of(each.content)) for each in found]


class _Module:
    def __init__(self, node: str, functions: Mapping[str, Region], ranges: arithmetic.Ranges) -> None:
        self._node, self._functions, self._ranges = node, functions, ranges

    def run(self, region: Region, arguments: Sequence[Value], outer: Mapping[str, Value], depth: int) -> list[Value]:
        """The values that the region returns; `outer` are values that it sees, by name."""
        values = {**outer, **dict(zip(region.arguments, arguments, strict=False))}
        for statement in region.statements:
            found = self._values(statement, values, depth)
            values.update(zip(statement.results, found, strict=True))
        return [values.get(name, Value(DATA)) for name in region.results]

    def _values(self, statement: Statement, values: Mapping[str, Value], depth: int) -> list[Value]:
        operands = [values.get(name, Value(DATA)) for name in statement.operands]
        step = _Step(self._node, f"stablehlo.{statement.name}", self._ranges)
        if depth > _DEEPEST:
            return [Value(step.choice(self._ranges))] * len(statement.results)
        if statement.name == "call":
            name = statement.text.partition("@")[2].partition("(")[0]
            return self.run(self._functions[name], operands, {}, depth + 1)
        if statement.name in ("case", "if"):
            return self._branches(statement, operands[0], values, step, depth)
        if statement.name == "while":
            return self._loop(statement, values, step, depth)
        inner = [values[name] for region in statement.regions for name in _seen(region) if name in values]
        content = _content(statement, [*operands, *inner], step)
        return [Value(content, shape_of(statement, operands, each[0])) for each in statement.types]

    def _branches(
        self, statement: Statement, condition: Value, values: Mapping[str, Value], step: _Step, depth: int
    ) -> list[Value]:
        branches = [self.run(each, [], values, depth + 1) for each in statement.regions]
        content = condition.content
        if isinstance(content, Known) and content.numbers is not None and content.values.size == 1:
            number, last = int(content.numbers.reshape(())[()]), len(branches) - 1
            place = int(not number) if statement.name == "if" else number if 0 <= number <= last else last
            return branches[place]
        found = choice_of(content)
        if found is None and is_folded(content) and sizes_of(content):
            found = step.choice(sizes_of(content))
        first, *others = branches
        for other in others:
            first = [joined(*pair) for pair in zip(first, other, strict=True)]
        return [Value(found, each.shape) if found else each for each in first]

    def _loop(self, statement: Statement, values: Mapping[str, Value], step: _Step, depth: int) -> list[Value]:
        names, given = statement.operands[::2], statement.operands[1::2]
        condition, body = statement.regions
        state = [values.get(name, Value(DATA)) for name in given]
        # What every turn hands on as it is stays; all else is computed by the loop.
        state = [
            value if name == after else Value(choice_of(value.content) or DATA, value.shape)
            for value, name, after in zip(state, names, body.results, strict=True)
        ]
        for _ in range(len(state) + 1):
            inside = {**values, **dict(zip(names, state, strict=True))}
            after = self.run(body, [], inside, depth + 1)
            (decided,) = self.run(condition, [], inside, depth + 1)
            found = decided.choice
            made = [
                Value(found or choice_of(before.content) or choice_of(each.content) or before.content, before.shape)
                for before, each in zip(state, after, strict=True)
            ]
            if [each.choice for each in made] == [each.choice for each in state]:
                break
            state = made
        return state


def _seen(region: Region) -> list[str]:
    """The names that the statements of a region use."""
    found = list(region.results)
    for statement in region.statements:
        found += statement.operands
        for inner in statement.regions:
            found += _seen(inner)
    return found


Rule: TypeAlias = Callable[["Statement", "list[Known]", "_Step"], "Content"]
"""The content of the result of an operation whose operands are all known."""


def _content(statement: Statement, operands: list[Value], step: _Step) -> Content:
    contents = [each.content for each in operands]
    name = statement.name
    if name == "constant":
        return _constant(statement)
    if name == "get_dimension_size":
        return _size(statement, operands[0], step)
    if (known_contents := all_known(contents)) is not None and name in _RULES:
        return _RULES[name](statement, known_contents, step)
    if (found := next(filter(None, map(choice_of, contents)), None)) is not None:
        return found
    sizes = frozenset().union(*map(sizes_of, contents))
    if not all(map(is_folded, contents)):
        return DATA
    if name in ("dynamic_iota", "dynamic_broadcast_in_dim", "dynamic_reshape", "rng_bit_generator"):
        return DATA if len(contents) < 2 else _moved_content(contents[0])
    # TensorFlow computes these, too, before it lowers the module.
    is_computed = any(isinstance(each, Computed) for each in contents)
    if sizes and name in (CHANGING - _LINEAR if is_computed else CHANGING):
        return step.choice(sizes)
    return Computed(sizes) if sizes else CONSTANT


def _fixed_sizes(statement: Statement) -> tuple[int, ...]:
    """The sizes of the result of an operation for which the dialect requires fixed ones."""
    sizes = statement.types[0][0]
    fixed = tuple(size for size in sizes if size is not None)
    if len(fixed) < len(sizes):
        raise ValueError(f"the result of {statement.name} has an open size")
    return fixed


def _moved_content(content: Content) -> Content:
    sizes = sizes_of(content)
    return Computed(sizes) if sizes else DATA


def _constant(statement: Statement) -> Content:
    sizes = _fixed_sizes(statement)
    count = math.prod(sizes)
    found = module_text.constant(statement) if count <= MOST_ELEMENTS else None
    if found is None or not all(map(math.isfinite, found)):
        return CONSTANT
    return known(np.reshape(found * (count if len(found) == 1 else 1), sizes))


def _size(statement: Statement, operand: Value, step: _Step) -> Content:
    (axis,) = module_text.numbers(statement, "dim") or [0]
    size = None if operand.shape is None else operand.shape[axis]
    return known(step.choice(step.ranges) if size is None else size)


def _elementwise(function: arithmetic.Function) -> Rule:
    def rule(statement: Statement, contents: list[Known], step: _Step) -> Known:
        return arithmetic.computed(step, function, contents, _type(statement))

    return rule


def _type(statement: Statement) -> str:
    return _TYPES.get(statement.types[0][1], "int32")


def _compare(statement: Statement, contents: list[Known], step: _Step) -> Known:
    kind = statement.text.removeprefix("stablehlo.compare").split(",")[0].split()[0]
    return arithmetic.computed(step, arithmetic.COMPARED[kind], contents)


def _logical(function: arithmetic.Function) -> Rule:
    """Of truth values: integers have bits."""

    def rule(statement: Statement, contents: list[Known], step: _Step) -> Content:
        if statement.types[0][1] != "i1":
            sizes = frozenset().union(*map(sizes_of, contents))
            return step.choice(sizes) if sizes else CONSTANT
        return arithmetic.computed(step, function, contents)

    return rule


def _converted(statement: Statement, contents: list[Known], step: _Step) -> Known:
    kind = statement.types[0][1]
    is_wide = kind in ("i32", "i64", "ui32", "ui64", "f32", "f64")

    def convert(_: object, one: Polynomial) -> Polynomial | None:
        if kind == "i1":
            return arithmetic.truth(step, one)
        if not one.names:
            return one if kind[0] in "fb" else Polynomial.number(math.trunc(one.constant))
        return one if is_wide and (kind[0] == "f" or one.is_integer) else None

    return arithmetic.computed(step, convert, contents)


def _divided(statement: Statement, contents: list[Known], step: _Step) -> Content:
    if statement.types[0][1].startswith(("i", "ui")):
        return arithmetic.computed(step, arithmetic.toward_zero, contents)
    one, two = contents
    if two.sizes and two.choice is None and one.numbers is not None:
        return Spread(two.sizes, is_inverse=True)
    return arithmetic.computed(step, arithmetic.true_quotient, contents, _type(statement))


def _selected(statement: Statement, contents: list[Known], step: _Step) -> Content:
    condition, *sides = contents
    if (found := condition.choice) is not None:
        return found
    if condition.numbers is None:
        return step.choice(condition.sizes)
    chosen, first, second = np.broadcast_arrays(condition.numbers, *(each.values for each in sides))
    return known(np.where(chosen != 0, first, second))


def _joined(statement: Statement, contents: list[Known], step: _Step) -> Content:
    (axis,) = module_text.numbers(statement, "dim") or [0]
    return Known(np.concatenate([each.values for each in contents], axis))


def _sliced(statement: Statement, contents: list[Known], step: _Step) -> Content:
    bounds = _BOUNDS.findall(statement.text.partition("[")[2].partition("]")[0])
    cuts = [slice(int(start), int(limit), int(stride or 1)) for start, limit, stride in bounds]
    (values,) = (each.values for each in contents)
    return Known(values[tuple(cuts)]) if len(cuts) == values.ndim else step.choice(contents[0].sizes)


def _reshaped(statement: Statement, contents: list[Known], step: _Step) -> Content:
    return Known(contents[0].values.reshape(_fixed_sizes(statement)))


def _spread(statement: Statement, contents: list[Known], step: _Step) -> Content:
    """broadcast_in_dim of a scalar; other arrays are not followed."""
    sizes = _fixed_sizes(statement)
    if contents[0].values.ndim or math.prod(sizes) > MOST_ELEMENTS:
        return contents[0].choice or (Computed(contents[0].sizes) if contents[0].sizes else CONSTANT)
    return known(np.full(sizes, contents[0].values[()], object))


_RULES: dict[str, Rule] = {
    **{name: _logical(function) for name, function in arithmetic.LOGICAL.items()},
    **{name: _elementwise(arithmetic.ROUNDED[name]) for name in ("ceil", "floor")},
    "abs": _elementwise(arithmetic.absolute),
    "add": _elementwise(arithmetic.added),
    "broadcast_in_dim": _spread,
    "compare": _compare,
    "concatenate": _joined,
    "convert": _converted,
    "divide": _divided,
    "maximum": _elementwise(arithmetic.larger),
    "minimum": _elementwise(arithmetic.smaller),
    "multiply": _elementwise(arithmetic.multiplied),
    "negate": _elementwise(arithmetic.negated),
    "remainder": _elementwise(arithmetic.remainder(arithmetic.toward_zero)),
    "reshape": _reshaped,
    "select": _selected,
    "slice": _sliced,
    "sign": _elementwise(arithmetic.sign),
    "subtract": _elementwise(arithmetic.subtracted),
}
