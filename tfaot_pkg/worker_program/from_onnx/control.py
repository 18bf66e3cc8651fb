"""Conditionals and loops: unrolled if conditions and trip counts are known, else as those of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.sequences import Sequence
from from_onnx.table import operator
from from_onnx.tensors import rank, sizes, static

if TYPE_CHECKING:
    from from_onnx.table import Node


_MOST_UNROLLED, _MOST_OF_SEQUENCES = 32, 1024
"""Iterations of loops that are unrolled (decision 055), and of loops with sequences, which can only be unrolled."""
_MOST_COUNTED = 256
"""Steps up to which the conditions of a loop are looked at, to learn how often it runs."""
_FAR = 2**31 - 1  # TensorFlow's maximum is an int32; exporters write the largest int64 if there is no limit


@operator("If")
def _if(node: Node, condition: tf.Tensor) -> tf.Tensor:
    branches = [node.get("else_branch"), node.get("then_branch")]
    known = static(condition)
    if known is not None:
        return node.results(branches[int(np.any(known))])
    made = tf.cond(
        tf.reshape(condition, []),
        lambda: _tensors(node, node.results(branches[1])),
        lambda: _tensors(node, node.results(branches[0])),
    )
    return tuple(made)


def _tensors(node: Node, values: tuple[Any, ...]) -> tuple[Any, ...]:
    if any(isinstance(each, Sequence) for each in values):
        raise node.fault("a sequence depends on values of the inputs")
    return values


@operator("Loop")
def _loop(node: Node, most: tf.Tensor, condition: tf.Tensor, *states: tf.Tensor) -> tf.Tensor:
    """Unrolled if it is short; else a loop, which may return an array of all iterations if their number is known."""
    graph, given, known = node.get("body"), static(most), static(condition)
    trips = None if given is None else int(np.ravel(given)[0])
    trips = _counted(node, graph, states) if most is None and known is not None and np.any(known) else trips
    trips = 0 if known is not None and not np.any(known) else trips
    # The body is built once outside of the loop, only to find the types and shapes of its results.
    first = node.results(graph, (tf.constant(0, tf.int64), tf.constant(True), *states))
    goes_on, has_sequences = static(first[0]), any(isinstance(each, Sequence) for each in (*states, *first))
    is_counted = trips is not None and (condition is None or known is not None) and goes_on is not None
    most_unrolled = _MOST_OF_SEQUENCES if has_sequences else _MOST_UNROLLED
    if is_counted and trips is not None and (trips <= most_unrolled or not np.any(goes_on)):
        return _unrolled(node, graph, trips, states)
    _tensors(node, (*states, *first))
    if not is_counted and len(first) > 1 + len(states):
        raise node.fault(
            "the number of its iterations, and so of elements of its outputs, depends on the inputs",
            "export the model with a fixed number of steps",
        )
    return _looped(node, graph, most if trips is None else trips, condition, states, first)


def _counted(node: Node, graph: dict[str, Any], states: tuple[Any, ...]) -> int | None:
    """How often a loop runs that its condition alone ends; None if a condition is not known. Nothing uses the steps.

    tf2onnx writes such loops for layers of Keras: their condition compares a step with the length of the input.
    """
    for step in range(_MOST_COUNTED):
        goes_on, *after = node.results(graph, (tf.constant(step, tf.int64), tf.constant(True), *states))
        known = static(goes_on)
        if known is None or not np.any(known):
            return None if known is None else step + 1
        states = tuple(after[: len(states)])
    return None


def _unrolled(node: Node, graph: dict[str, Any], trips: int, states: tuple[Any, ...]) -> tuple[Any, ...]:
    carried, scanned = states, []
    for step in range(trips):
        goes_on, *results = node.results(graph, (tf.constant(step, tf.int64), tf.constant(True), *carried))
        carried = tuple(results[: len(states)])
        scanned.append(results[len(states) :])
        going = static(goes_on)
        if going is None:
            raise node.fault(
                "its number of iterations depends on the inputs", "export the model with a fixed number of steps"
            )
        if not np.any(going):
            break
    if not scanned and len(graph["outputs"]) > 1 + len(states):
        raise node.fault("it never runs, and its outputs have no shape")
    return carried + tuple(tf.stack(each) for each in zip(*scanned, strict=True))


def _looped(
    node: Node,
    graph: dict[str, Any],
    most: tf.Tensor,
    condition: tf.Tensor,
    states: tuple[Any, ...],
    first: tuple[Any, ...],
) -> tuple[Any, ...]:
    count = len(states)
    room = most if isinstance(most, int) else None
    trips = None if most is None else tf.reshape(tf.cast(most, tf.int64), [])
    arrays = tuple(tf.TensorArray(e.dtype, size=room, element_shape=e.shape) for e in first[1 + count :])
    start = tf.constant(True) if condition is None else tf.reshape(condition, [])

    def body(
        step: tf.Tensor, going: tf.Tensor, kept: tf.Tensor, made: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        del going
        goes_on, *after = node.results(graph, (step, tf.constant(True), *kept))
        written = tuple(a.write(tf.cast(step, tf.int32), b) for a, b in zip(made, after[count:], strict=True))
        return step + 1, tf.reshape(goes_on, []), tuple(after[:count]), written

    shapes = tuple(_common(before.shape, after.shape) for before, after in zip(states, first[1:], strict=False))
    _, _, last, arrays = tf.while_loop(
        lambda step, going, *_: going if trips is None else going & (step < trips),
        body,
        (tf.constant(0, tf.int64), start, states, arrays),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([]), shapes, tuple(tf.TensorShape(None) for _ in arrays)),
        maximum_iterations=None if room is None or room > _FAR else room,
    )
    return (*last, *(each.stack() for each in arrays))


def _common(before: tf.Tensor, after: tf.Tensor) -> tf.Tensor:
    """The sizes of a state that no iteration changes."""
    if before.rank != after.rank or before.rank is None:
        return tf.TensorShape(None)
    return tf.TensorShape([a if a == b else None for a, b in zip(before, after, strict=True)])


@operator("Scan")
def _scan(node: Node, *inputs: tf.Tensor) -> tuple[Any, ...]:
    if node.version < 9:
        raise node.fault("Scan of opset 8 is not supported", "export the model with opset 9 or later")
    graph, number = node.get("body"), node.get("num_scan_inputs")
    states, scanned = list(inputs[: len(inputs) - number]), list(inputs[len(inputs) - number :])
    # The outputs of the body are the states, then those that are stacked.
    outputs = len(graph["outputs"]) - len(states)
    axes, directions = (node.get(f"scan_input_{name}") or [0] * number for name in ("axes", "directions"))
    scanned = [_moved(each, 0, axis % rank(node, each)) for each, axis in zip(scanned, axes, strict=True)]
    scanned = [tf.reverse(each, [0]) if back else each for each, back in zip(scanned, directions, strict=True)]
    found, last = _steps(node, graph, states, scanned)
    axes, directions = (node.get(f"scan_output_{name}") or [0] * outputs for name in ("axes", "directions"))
    found = [tf.reverse(each, [0]) if back else each for each, back in zip(found, directions, strict=True)]
    found = [_moved(each, axis % each.shape.rank, 0) for each, axis in zip(found, axes, strict=True)]
    return (*last, *found)


def _moved(tensor: tf.Tensor, to: int, axis: int) -> tf.Tensor:
    """`tensor` with `axis` moved to the position `to`."""
    if axis == to:
        return tensor
    order = [each for each in range(tensor.shape.rank) if each != axis]
    order.insert(to, axis)
    return tf.transpose(tensor, order)


def _steps(node: Node, graph: dict[str, Any], states: list[Any], scanned: list[Any]) -> tuple[Any, ...]:
    steps = sizes(scanned[0])[0]
    arrays = [tf.TensorArray(each.dtype, size=steps, element_shape=each.shape[1:]).unstack(each) for each in scanned]

    def results(step: tf.Tensor, kept: list[Any]) -> tuple[Any, ...]:
        made = node.results(graph, (*kept, *(each.read(step) for each in arrays)))
        return list(made[: len(states)]), list(made[len(states) :])

    # TensorFlow must know the types and shapes of the body's results before the loop is built.
    first = _signature_of(lambda: results(tf.constant(0), states)[1])
    outputs = [tf.TensorArray(each.dtype, size=steps, element_shape=each.shape) for each in first]

    def body(step: tf.Tensor, kept: tf.Tensor, made: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        after, shown = results(step, list(kept))
        return step + 1, tuple(after), tuple(a.write(step, b) for a, b in zip(made, shown, strict=True))

    _, last, outputs = tf.while_loop(
        lambda step, *_: step < steps, body, (tf.constant(0), tuple(states), tuple(outputs)), maximum_iterations=steps
    )
    return [each.stack() for each in outputs], list(last)


def _signature_of(function: Callable[..., Any]) -> list[Any]:
    """Types and shapes of the results of `function`; nothing uses its operations."""
    return [tf.TensorSpec(each.shape, each.dtype) for each in function()]
