"""Conditionals and loops: with known conditions and trip counts, or as loops that TensorFlow compiles."""

import numpy as np
import tensorflow as tf
from from_onnx.table import operator
from from_onnx.tensors import rank, sizes, static

_MOST_UNROLLED = 32


@operator("If")
def _if(node, condition):
    branches = [node.get("else_branch"), node.get("then_branch")]
    known = static(condition)
    if known is not None:
        return _results(node, branches[int(np.any(known))], {})
    made = tf.cond(
        tf.reshape(condition, []), lambda: _results(node, branches[1], {}), lambda: _results(node, branches[0], {})
    )
    return tuple(made)


def _results(node, graph: dict, given: dict) -> tuple:
    values = node.run(graph, given)
    return tuple(values[name] for name in graph["outputs"])


@operator("Loop")
def _loop(node, most, condition, *states):
    graph = node.get("body")
    trips, known = static(most), static(condition)
    always = condition is None or (known is not None and np.all(known))
    if known is not None and not np.any(known):
        trips = 0
    if trips is None or not (always or trips == 0):
        raise node.fault(
            "how often it runs depends on the inputs", "export the model with a fixed number of steps, or use Scan"
        )
    trips = int(np.ravel(trips)[0])
    if trips > _MOST_UNROLLED:
        raise node.fault(f"it runs {trips} times, more than the {_MOST_UNROLLED} that are written out", "use Scan")
    carried, scanned = list(states), []
    for step in range(trips):
        names = graph["inputs"]
        given = dict(zip(names, [tf.constant(step, tf.int64), tf.constant(True), *carried], strict=True))
        goes_on, *results = _results(node, graph, given)
        carried = results[: len(states)]
        scanned.append(results[len(states) :])
        going = static(goes_on)
        if going is None:
            raise node.fault("when it ends depends on the inputs", "export the model with a fixed number of steps")
        if not np.any(going):
            break
    if not scanned and len(graph["outputs"]) > 1 + len(states):
        raise node.fault("it never runs, and its outputs have no shape")
    return tuple(carried) + tuple(tf.stack(each) for each in zip(*scanned, strict=True))


@operator("Scan")
def _scan(node, *inputs):
    if node.version < 9:
        raise node.fault("Scan of opset 8 is not read", "export the model with opset 9 or later")
    graph, number = node.get("body"), node.get("num_scan_inputs")
    states, scanned = list(inputs[: len(inputs) - number]), list(inputs[len(inputs) - number :])
    outputs = len(graph["outputs"]) - len(states)
    axes, directions = (node.get(f"scan_input_{name}") or [0] * number for name in ("axes", "directions"))
    scanned = [_moved(each, 0, axis % rank(node, each)) for each, axis in zip(scanned, axes, strict=True)]
    scanned = [tf.reverse(each, [0]) if back else each for each, back in zip(scanned, directions, strict=True)]
    found, last = _steps(node, graph, states, scanned)
    axes, directions = (node.get(f"scan_output_{name}") or [0] * outputs for name in ("axes", "directions"))
    found = [tf.reverse(each, [0]) if back else each for each, back in zip(found, directions, strict=True)]
    found = [_moved(each, axis % each.shape.rank, 0) for each, axis in zip(found, axes, strict=True)]
    return (*last, *found)


def _moved(tensor, to: int, axis: int):
    """`tensor` with `axis` at the place `to`."""
    if axis == to:
        return tensor
    order = [each for each in range(tensor.shape.rank) if each != axis]
    order.insert(to, axis)
    return tf.transpose(tensor, order)


def _steps(node, graph: dict, states: list, scanned: list) -> tuple:
    steps = sizes(scanned[0])[0]
    arrays = [tf.TensorArray(each.dtype, size=steps, element_shape=each.shape[1:]).unstack(each) for each in scanned]

    def results(step, kept: list) -> tuple:
        given = dict(zip(graph["inputs"], [*kept, *(each.read(step) for each in arrays)], strict=True))
        made = _results(node, graph, given)
        return list(made[: len(states)]), list(made[len(states) :])

    # The types and shapes of what a step gives, which the loop has to know before it runs.
    first = _signature_of(lambda: results(tf.constant(0), states)[1])
    outputs = [tf.TensorArray(each.dtype, size=steps, element_shape=each.shape) for each in first]

    def body(step, kept, made):
        after, shown = results(step, list(kept))
        return step + 1, tuple(after), tuple(a.write(step, b) for a, b in zip(made, shown, strict=True))

    _, last, outputs = tf.while_loop(
        lambda step, *_: step < steps, body, (tf.constant(0), tuple(states), tuple(outputs)), maximum_iterations=steps
    )
    return [each.stack() for each in outputs], list(last)


def _signature_of(function) -> list:
    """Types and shapes of what `function` gives; its operations are used by nothing."""
    return [tf.TensorSpec(each.shape, each.dtype) for each in function()]
