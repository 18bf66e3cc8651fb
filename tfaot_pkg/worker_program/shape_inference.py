"""Shapes that TensorFlow does not infer: of arrays in lists, where recurrent layers keep steps, and of given sizes.

They are written into graphs, so that TensorFlow infers further ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

import tensorflow as tf
from polynomials import Polynomial
from shape_slices import length_of_range
from shape_values import Known, complete, known
from wiring import LOOPS, tensor_name

if TYPE_CHECKING:
    from framework_types import GraphDef
    from shape_transfer import Step
    from shape_values import Content, Shape, Value


Rule: TypeAlias = Callable[["Step"], "Shape"]
"""The shape of the results of an operation; None if it does not follow from the operands."""


def shape(step: Step) -> Shape:
    """The shape of the results that follows from the operands; None if it does not."""
    found = _SHAPES.get(step.op.type)
    return None if found is None else found(step)


def begun(tensor: tf.Tensor, before: Value, after: Value) -> Value:
    """The value of a list before the first turn of a loop, with the shape of the arrays that a turn sets."""
    is_list = tensor.dtype == tf.variant and before.shape is None
    return replace(before, shape=after.shape) if is_list else before


def _given(place: int) -> Rule:
    """The rule of an operation that makes an array of the sizes in an operand."""
    return lambda step: _sizes(step, step.operands[place].content)


def _sizes(step: Step, content: Content) -> Shape:
    if not isinstance(content, Known) or content.choice or content.values.ndim != 1:
        return None
    sizes = tuple(content.values)
    return None if any(size.bounds(step.ranges)[0] < 0 for size in sizes) else sizes


def _reshaped(step: Step) -> Shape:
    """Of the sizes in an operand, of which one may be -1: what is left."""
    content, before = step.operands[1].content, complete(step.operands[0].shape)
    left = Polynomial.number(-1)
    if not isinstance(content, Known) or content.choice or left not in content.values or before is None:
        return _sizes(step, content)
    others: Polynomial = math.prod((size for size in content.values if size != left), start=Polynomial.number(1))
    whole: Polynomial = math.prod(before, start=Polynomial.number(1))
    rest = whole.quotient(others)
    if rest is None or not rest.is_integer:
        return None
    return _sizes(step, known([rest if size == left else size for size in content.values]))


def _counted(step: Step) -> Shape:
    found = length_of_range(step)
    return _sizes(step, known([found])) if isinstance(found, Polynomial) else None


def _tiled(step: Step) -> Shape:
    before, times = step.operands[0].shape, step.operands[1].content
    if before is None or None in before or not isinstance(times, Known) or times.choice:
        return None
    return tuple(size * each for size, each in zip(before, times.values, strict=True))


def _of_first(step: Step) -> Shape:
    return step.operands[0].shape


def _set(step: Step) -> Shape:
    found = step.operands[2].shape
    return step.operands[0].shape if found is None or None in found else found


def _pushed(step: Step) -> Shape:
    return step.operands[1].shape


def _parts(step: Step) -> Shape:
    found = step.operands[0].shape
    return None if not found else found[1:]


def _stacked(step: Step) -> Shape:
    """A list of so many arrays of one shape."""
    given = step.operands[0]
    if not isinstance(given.content, Known) or given.content.values.size != 1 or given.shape is None:
        return None
    return None if given.content.choice else (given.content.element, *given.shape)


_SHAPES: dict[str, Rule] = {
    **dict.fromkeys(
        "Identity StopGradient Snapshot Relu Tanh Sigmoid Elu Neg Cast ZerosLike OnesLike TensorListGetItem".split(),
        _of_first,
    ),
    **dict.fromkeys(("EmptyTensorList", "TensorListReserve", "Fill"), _given(0)),
    "BroadcastTo": _given(1),
    "Range": _counted,
    "Reshape": _reshaped,
    "Tile": _tiled,
    "Slice": _given(2),
    "TensorListFromTensor": _parts,
    "TensorListPushBack": _pushed,
    "TensorListSetItem": _set,
    "TensorListStack": _stacked,
}

_UNINFERRED = LOOPS | frozenset(
    "If StatelessIf Case StatelessCase TensorListGetItem TensorListStack "
    "BroadcastTo Fill Range Reshape Slice Tile".split()
)
_MARK = "tfaot_shape"


def is_new(graph: tf.Graph, tensor: tf.Tensor) -> bool:
    """Whether TensorFlow would not infer the shape of `tensor`, and does not have it from here."""
    if tensor.op.type not in _UNINFERRED:
        return False
    try:
        graph.get_operation_by_name(_shaped(tensor.name))
    except KeyError:
        return True
    return False


def write(graph_def: GraphDef, shapes: Mapping[str, tuple[tf.TensorShape, tf.DType]]) -> None:
    """Let the users of each tensor in `shapes`, by name, take it with this shape and type."""
    for node in graph_def.node:
        for place, text in enumerate(node.input):
            if text[:1] != "^" and tensor_name(text) in shapes:
                node.input[place] = _shaped(tensor_name(text))
    for name, (shape, dtype) in shapes.items():
        made = graph_def.node.add(name=_shaped(name), op="EnsureShape", input=[name])
        made.attr["shape"].shape.CopyFrom(shape.as_proto())
        made.attr["T"].type = dtype.as_datatype_enum


def _shaped(name: str) -> str:
    return f"{_MARK}/{name.replace(':', '/')}"
