"""Symbolic shape analysis: whether a graph computes the same at all sizes, without `if batch > 500` or `n % 2`.

What is listed at a few sizes (hlo.py) holds for all others only if sizes enter it as polynomials. So every number that
follows from sizes is computed here with the sizes as symbols, through functions, branches and loops, before TensorFlow
computes it for one size. What is no polynomial, or may be none, is a choice, and so is all that depends on it.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import shape_inference
import shape_modules
import shape_transfer
import specialize
import tensorflow as tf
from messages import listing
from polynomials import BATCH, Fit
from shape_branches import OLD, decided_early, either
from shape_graphs import TURNING, body_of, imported, in_order, needed
from shape_operations import SIZES
from shape_points import DEGREE, Point, at, at_point, points_of
from shape_slices import chosen_by_shape
from shape_values import (
    CONSTANT,
    DATA,
    Choice,
    Computed,
    Known,
    Value,
    choice_of,
    complete,
    is_folded,
    joined,
    key_of,
    of_constant,
    same,
    sizes_of,
)
from tensorflow.python.framework import tensor_util
from wiring import CALLS

if TYPE_CHECKING:
    from framework_types import FunctionDef, GraphDef
    from messages.graph import Fetch, Symbol
    from polynomials import Polynomial
    from shape_arithmetic import Ranges
    from shape_values import Content, Shape


_LARGEST_BATCH = (1 << 31) - 1
_LARGE = (10007, 1009, 139)
"""A batch with many more rows than windows and strides have; the next one if sizes would not fit their types."""
_MOST_TURNS = 8
"""The limit of the search for what holds in each turn of a loop."""
_MOST_IMPORTS = 8
"""Graphs are imported again with shapes that were found, at most so often."""
_LARGEST_CONSTANT = 1 << 16
_CONDITIONS = frozenset("If StatelessIf Case StatelessCase".split())
_LOOPS = frozenset("While StatelessWhile".split())
_OF_SIZES = frozenset("Shape ShapeN Size OnesLike ZerosLike StridedSlice Split XlaCallModule".split())
"""Operations from which numbers or shapes follow that may be no polynomials. A reshape fails at the traced sizes."""
_RAGGED = frozenset("Where Unique UniqueV2 ListDiff DynamicPartition NonMaxSuppressionV3 NonMaxSuppressionV4".split())
"""Operations whose results have as many elements as values decide."""


Shapes: TypeAlias = "dict[str, tuple[Shape, tf.DType]]"
"""Shapes and types of tensors by name."""


def size_choices(
    graph_def: GraphDef, feeds: Sequence[specialize.Placed], outputs: Sequence[Fetch], symbols: Sequence[Symbol]
) -> tuple[listing.SizeChoice, ...]:
    """One SizeChoice for each output that has one. `feeds` are the inputs and weights, as of hlo.listed."""
    symbols = [each for each in symbols if each.minimum < each.maximum]
    if not _has_sizes(graph_def):
        return ()
    for most in _LARGE:
        try:
            return _found(graph_def, feeds, outputs, symbols, points_of(symbols, most))
        except (ValueError, tf.errors.OpError):  # TensorFlow cannot multiply sizes of such a batch
            if most == _LARGE[-1]:
                raise
    return ()


def _found(
    graph_def: GraphDef,
    feeds: Sequence[specialize.Placed],
    outputs: Sequence[Fetch],
    symbols: Sequence[Symbol],
    points: list[Point],
) -> tuple[listing.SizeChoice, ...]:
    graph_defs = [at_point(graph_def, feeds, point) for point in points]
    ranges: Ranges = {BATCH: (1, _LARGEST_BATCH), **{each.name: (each.minimum, each.maximum) for each in symbols}}
    analysis = _Analysis(points, ranges, {each.signature.name: each for each in graph_def.library.function})
    tensors = [f"{each.node}:{each.index}" for each in outputs]
    given = {f"{each.node}:0": Value(DATA) for each in feeds}
    values = analysis.run(graph_defs, given, tensors)
    found = [(number, each.choice) for number, each in enumerate(values)]
    return tuple(
        listing.SizeChoice(
            output=number,
            node=each.node,
            operation=each.operation,
            by_batch=BATCH in each.sizes,
            symbols=tuple(sorted(each.sizes - {BATCH})),
        )
        for number, each in found
        if each is not None
    )


def _has_sizes(graph_def: GraphDef) -> bool:
    nodes = itertools.chain(graph_def.node, *(each.node_def for each in graph_def.library.function))
    return any(node.op in _OF_SIZES for node in nodes)


class _Analysis:
    """The values of tensors in graphs of the same computation, one at each point."""

    def __init__(self, points: list[Point], ranges: Ranges, functions: Mapping[str, FunctionDef]) -> None:
        self._points, self._ranges, self._functions = points, ranges, functions
        self._fit = Fit(points[:-1], DEGREE)
        self._bodies: dict[
            tuple[str, tuple[Shape, ...]], list[tuple[GraphDef, dict[str, str]]]
        ] = {}  # graphs of functions by name and shapes of arguments
        self._results_of: dict[tuple[str, tuple[Hashable, ...]], list[Value]] = {}  # by name and values of arguments

    def run(self, graph_defs: list[GraphDef], given: Mapping[str, Value], wanted: list[str]) -> list[Value]:
        """The values of the tensors `wanted`; `given` are those of arguments, by name."""
        for _ in range(_MOST_IMPORTS):
            graphs = [imported(each) for each in graph_defs]
            values, learned = self._values(graphs, given, wanted, {})
            # Once more with what loops of TensorFlow 1 hand to their next turns: a choice in one is one for all.
            for _ in range(_MOST_TURNS if TURNING & {op.type for op in graphs[0].get_operations()} else 0):
                before = {name: value.choice for name, value in values.items()}
                values, learned = self._values(graphs, given, wanted, values)
                if before == {name: value.choice for name, value in values.items()}:
                    break
            if not learned:
                break
            # TensorFlow infers further shapes from these.
            for graph_def, point in zip(graph_defs, self._points, strict=True):
                shapes = {name: (at(shape, point), dtype) for name, (shape, dtype) in learned.items()}
                shape_inference.write(graph_def, shapes)
        return [values[name] for name in wanted]

    def _values(
        self, graphs: list[tf.Graph], given: Mapping[str, Value], wanted: list[str], before: dict[str, Value]
    ) -> tuple[dict[str, Value], Shapes]:
        """(the values of all tensors, by name; the shapes that TensorFlow does not know, by the tensor's name).

        `before` are values that were found without all that loops hand on.
        """
        found_here: dict[str, Value] = {}
        values = collections.ChainMap(found_here, before)
        learned: Shapes = {}
        for op in in_order(graphs[0], needed(graphs[0], wanted)):
            found = [given[t.name] for t in op.outputs if t.name in given]
            if not found:
                found = self._results(graphs, op, values)
            for tensor, value in zip(op.outputs, found, strict=True):
                # That of a list is the shape of its arrays, which TensorFlow does not tell.
                is_list = tensor.dtype == tf.variant
                inferred = None if is_list else self._shape(graphs, tensor)
                shape = value.shape if is_list else _merged_shape(inferred, value.shape)
                is_known = is_list or None not in (inferred or ())
                chosen = value.chosen or (None if is_known else self._uneven(graphs, op, tensor))
                values[tensor.name] = replace(value, shape=shape, chosen=chosen)
                if (
                    not is_list
                    and shape != inferred
                    and complete(shape) is not None
                    and shape_inference.is_new(graphs[0], tensor)
                ):
                    learned[tensor.name] = (shape, tensor.dtype)
        return found_here, learned

    def _shape(self, graphs: list[tf.Graph], tensor: tf.Tensor) -> Shape:
        """The shape of a tensor as polynomials."""
        shapes = [graph.get_tensor_by_name(tensor.name).shape for graph in graphs]
        if any(shape.rank is None or shape.rank != shapes[0].rank for shape in shapes):
            return None
        return tuple(map(self._size, zip(*(shape.as_list() for shape in shapes), strict=True)))

    def _size(self, sizes: tuple[int | None, ...]) -> Polynomial | None:
        fixed = tuple(size for size in sizes if size is not None)
        found = self._fit.polynomial(fixed[:-1]) if len(fixed) == len(sizes) else None
        return found if found is not None and found.at(self._points[-1]) == sizes[-1] else None

    def _uneven(self, graphs: list[tf.Graph], op: tf.Operation, tensor: tf.Tensor) -> Choice | None:
        """A Choice if a size is not linear in the batch."""
        shapes = [graphs[place].get_tensor_by_name(tensor.name).shape for place in (0, 1, -1)]
        if any(shape.rank is None for shape in shapes):
            return None
        rows = [self._points[place][BATCH] for place in (0, 1, -1)]
        for sizes in zip(*(shape.as_list() for shape in shapes), strict=True):
            if None in sizes:
                continue
            (_, first, second), (_, one, two) = ([each - part[0] for each in part] for part in (rows, sizes))
            if one * second != two * first:
                return Choice(op.name, op.type, frozenset({BATCH}))
        return None

    def _results(self, graphs: list[tf.Graph], op: tf.Operation, values: Mapping[str, Value]) -> list[Value]:
        # What a loop of TensorFlow 1 hands to its next turn is not known when its beginning is met.
        operands = tuple(values.get(tensor.name, Value(Computed(frozenset(self._ranges)))) for tensor in op.inputs)
        if op.type in CALLS:
            return self._called(graphs, op, op.get_attr("f").name, operands)
        if op.type in _CONDITIONS:
            return self._branches(graphs, op, operands)
        if op.type in _LOOPS:
            return self._loop(graphs, op, operands)
        if op.type in OLD:
            return OLD[op.type](op, operands)
        if op.type == "XlaCallModule":
            return shape_modules.results(op, operands, self._ranges)
        shapes = tuple(self._shape(graphs, tensor) for tensor in op.outputs)
        step = shape_transfer.Step(op, operands, shapes, self._ranges)
        contents = _constant(op) if op.type == "Const" else shape_transfer.contents_of(step)
        chosen, is_ragged = _chosen(step), _is_ragged(step)
        shape = shape_inference.shape(step)
        # The shape may depend on the same choice: operations have operands that give shapes.
        return [
            Value(each, shape, chosen or (each if isinstance(each, Choice) else None), is_ragged) for each in contents
        ]

    def _called(self, graphs: list[tf.Graph], op: tf.Operation, name: str, operands: tuple[Value, ...]) -> list[Value]:
        """The results of the function `name`."""
        called = (name, tuple(map(key_of, operands)))
        if called not in self._results_of:
            definition = self._functions[name]
            arguments = [f"{each.name}:0" for each in definition.signature.input_arg]
            # By the shapes: other numbers are computed in the same graphs.
            body = self._bodies.setdefault((name, tuple(each.shape for each in operands)), [])
            if not body:
                body += [body_of(graphs[0], definition, [at(each.shape, p) for each in operands]) for p in self._points]
            results = [body[0][1][definition.ret[each.name]] for each in definition.signature.output_arg]
            given = dict(zip(arguments, operands, strict=True))
            self._results_of[called] = self.run([each for each, _ in body], given, results)
        return self._results_of[called]

    def _branches(self, graphs: list[tf.Graph], op: tf.Operation, operands: tuple[Value, ...]) -> list[Value]:
        condition, *arguments = operands
        is_case = op.type.endswith("Case")
        names = (
            [each.name for each in op.get_attr("branches")]
            if is_case
            else [op.get_attr(name).name for name in ("else_branch", "then_branch")]
        )
        decided = condition.content.numbers if isinstance(condition.content, Known) else None
        if decided is not None and not decided.ndim:
            number, last = decided[()], len(names) - 1
            place = int(number if 0 <= number <= last else last) if is_case else int(number != 0)
            return self._called(graphs, op, names[place], tuple(arguments))
        branches = [self._called(graphs, op, name, tuple(arguments)) for name in names]
        results = [either(each) for each in zip(*branches, strict=True)]
        found = condition.choice or decided_early(op, condition.content)
        return [Value(found, each.shape, found) if found else each for each in results]

    def _loop(self, graphs: list[tf.Graph], op: tf.Operation, operands: tuple[Value, ...]) -> list[Value]:
        body, condition = op.get_attr("body").name, op.get_attr("cond").name
        state = list(operands)
        for _ in range(_MOST_TURNS):
            after = self._called(graphs, op, body, tuple(state))
            state = [shape_inference.begun(*each) for each in zip(op.inputs, state, after, strict=True)]
            made = [
                before if same(before, each) else joined(before, each)
                for before, each in zip(state, after, strict=True)
            ]
            if all(map(same, state, made)):
                break
            state = made
        else:
            sizes = frozenset().union(*(sizes_of(each.content) for each in operands))
            state = [Value(Choice(op.name, op.type, sizes or frozenset(self._ranges)))] * len(state)
        (decided,) = self._called(graphs, op, condition, tuple(state))
        if found := decided.choice:
            return [Value(found, each.shape, found) for each in state]
        count = sizes_of(decided.content)
        changed = [key_of(one)[0] != key_of(two)[0] for one, two in zip(operands, state, strict=True)]
        return [
            Value(Computed(sizes_of(each.content) | count), each.shape, each.chosen)
            if differs and is_folded(each.content) and each.choice is None
            else each
            for each, differs in zip(state, changed, strict=True)
        ]


def _constant(op: tf.Operation) -> list[Content]:
    tensor = op.get_attr("value")
    count = 1
    for axis in tensor.tensor_shape.dim:
        count *= axis.size
    if count > _LARGEST_CONSTANT or tensor.string_val:
        return [CONSTANT]
    return [of_constant(tensor_util.MakeNdarray(tensor))]


def _chosen(step: shape_transfer.Step) -> Choice | None:
    """A Choice that the shapes of the results depend on."""
    for value in step.operands:
        if value.chosen is not None:
            return value.chosen
    for place in SIZES.get(step.op.type, ()):
        if place < len(step.operands):
            content = step.operands[place].content
            if found := choice_of(content):
                return found
            if isinstance(content, Computed) and content.sizes:
                return step.choice(content.sizes)
    return chosen_by_shape(step)


def _is_ragged(step: shape_transfer.Step) -> bool:
    """Whether sizes of the results may depend on values."""
    places = SIZES.get(step.op.type, ())
    return (
        any(each.is_ragged for each in step.operands)
        or (step.op.type in _RAGGED and not is_folded(step.operands[0].content))
        or any(not is_folded(step.operands[place].content) for place in places if place < len(step.operands))
    )


def _merged_shape(one: Shape, two: Shape) -> Shape:
    """The sizes that either shape knows."""
    if one is None or two is None or len(one) != len(two):
        return two if one is None else one
    return tuple(second if first is None else first for first, second in zip(one, two, strict=True))
