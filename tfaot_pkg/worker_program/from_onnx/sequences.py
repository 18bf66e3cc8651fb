"""Sequences and optional values inside of a graph: lists whose length is known while the graph is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import axis_of, ints, rank, required, reshaped, sizes

if TYPE_CHECKING:
    from from_onnx.table import Node


@dataclass(frozen=True, slots=True)
class Sequence:
    """A sequence of tensors or of sequences. An optional value that is empty is one whose items are None."""

    items: tuple[Any, ...] | None


def _items(node: Node, value: tf.Tensor) -> list[Any]:
    if not isinstance(value, Sequence) or value.items is None:
        raise node.fault("its input is not a sequence")
    return list(value.items)


def _place(node: Node, items: list[Any], position: tf.Tensor, *, behind: bool = False) -> int:
    place = ints(node, position, "the place in a sequence")[0]
    count = len(items) + behind
    if not -count <= place < count:
        raise node.fault(f"place {place} of a sequence of {len(items)}")
    # Negative positions count from the end.
    return place % count


@operator("SequenceConstruct")
def _construct(node: Node, *items: tf.Tensor) -> tf.Tensor:
    return Sequence(items)


@operator("SequenceEmpty")
def _empty(node: Node) -> tf.Tensor:
    return Sequence(())


@operator("SequenceInsert")
def _insert(node: Node, sequence: tf.Tensor, item: tf.Tensor, position: tf.Tensor | None = None) -> tf.Tensor:
    items = _items(node, sequence)
    items.insert(len(items) if position is None else _place(node, items, position, behind=True), item)
    return Sequence(tuple(items))


@operator("SequenceErase")
def _erase(node: Node, sequence: tf.Tensor, position: tf.Tensor | None = None) -> tf.Tensor:
    items = _items(node, sequence)
    del items[-1 if position is None else _place(node, items, position)]
    return Sequence(tuple(items))


@operator("SequenceAt")
def _at(node: Node, sequence: tf.Tensor, position: tf.Tensor) -> tf.Tensor:
    items = _items(node, sequence)
    return items[_place(node, items, position)]


@operator("SequenceLength")
def _length(node: Node, sequence: tf.Tensor) -> tf.Tensor:
    return tf.constant(len(_items(node, sequence)), tf.int64)


@operator("SplitToSequence")
def _split(node: Node, x: tf.Tensor, split: tf.Tensor | None = None) -> tf.Tensor:
    axis = axis_of(node, node.get("axis", 0), rank(node, x))
    size = x.shape[axis]
    if size is None:
        raise node.fault("the size of the axis that it divides is not known")
    if split is None:
        parts = tf.split(x, size, axis)
        if not node.get("keepdims", 1):
            parts = [reshaped(each, [s for place, s in enumerate(sizes(each)) if place != axis]) for each in parts]
        return Sequence(tuple(parts))
    wanted = required(node, split, "the sizes of its parts")
    step = int(wanted) if wanted.ndim == 0 else 0
    lengths = [min(step, size - start) for start in range(0, size, step)] if step else [int(each) for each in wanted]
    return Sequence(tuple(tf.split(x, lengths, axis)))


@operator("ConcatFromSequence")
def _concat(node: Node, sequence: tf.Tensor) -> tf.Tensor:
    items, axis = _items(node, sequence), node.get("axis")
    if node.get("new_axis", 0):
        return tf.stack(items, axis)
    return tf.concat(items, axis_of(node, axis, rank(node, items[0])))


@operator("SequenceMap")
def _map(node: Node, first: tf.Tensor, *others: tf.Tensor) -> tf.Tensor:
    graph, items = node.get("body"), _items(node, first)
    lists = [_items(node, each) if isinstance(each, Sequence) else [each] * len(items) for each in others]
    # Once for each item, because the number of items is known while the graph is built.
    made = [node.results(graph, row) for row in zip(items, *lists, strict=True)]
    return tuple(Sequence(column) for column in zip(*made, strict=True)) or tuple(Sequence(()) for _ in node.outputs)


@operator("Optional")
def _optional(node: Node, value: tf.Tensor | None = None) -> tf.Tensor:
    return Sequence(None) if value is None else value


def _is_empty(value: tf.Tensor) -> bool:
    return value is None or (isinstance(value, Sequence) and value.items is None)


@operator("OptionalHasElement")
def _has_element(node: Node, value: tf.Tensor | None = None) -> tf.Tensor:
    return tf.constant(not _is_empty(value))


@operator("OptionalGetElement")
def _get_element(node: Node, value: tf.Tensor) -> tf.Tensor:
    if _is_empty(value):
        raise node.fault("its input is empty")
    return value
