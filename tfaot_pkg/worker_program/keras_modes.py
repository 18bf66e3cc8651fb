"""Preprocessing layers that Keras computes in another way in a graph than eagerly.

A package has the graph's numbers, those of `model.predict(x)`; `model(x)` gives the others. Keras 3.6 rounds the inputs
of Discretization to integers in a graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from framework_types import Array, Keras, KerasLayer


_NEAR = (-0.5, 0.0, 0.5)
"""Values are tried at these distances from each number of a layer's configuration."""
_MOST_NUMBERS = 200


def differing(keras: Keras, layers: Iterable[KerasLayer]) -> str:
    """What a layer gives in a graph and eagerly, if these differ; "" if none does."""
    for layer in layers:
        if ".preprocessing." not in type(layer).__module__:
            continue
        border = _border(layer)
        if border is None:
            continue
        values = _values(layer, border.shape)
        both = _both(keras, layer, values)
        if both and (where := _first_difference(*both, values)):
            return f"the layer {layer.name!r} ({type(layer).__name__}) gives {where}"
    return ""


def _both(keras: Keras, layer: KerasLayer, values: Array) -> tuple[Array, Array] | None:
    """What the layer gives for `values` eagerly, and in a graph; None if it refuses them."""
    given = keras.Input(values.shape[1:], dtype="float32")
    try:
        model = keras.Model(given, layer(given))
        traced: Callable[[tf.Tensor], tf.Tensor] = tf.function(lambda x: model(x, training=False))
        return np.asarray(model(tf.constant(values), training=False)), np.asarray(traced(tf.constant(values)))
    except Exception:  # a layer that takes indices only may raise anything
        return None


def _border(layer: KerasLayer) -> Any:
    """The layer's input; None if it has several, no floats, or is called more than once."""
    try:
        given = layer.input
    except (AttributeError, ValueError, RuntimeError):  # Keras's ways to say that there is not one
        return None
    is_float = hasattr(given, "dtype") and tf.as_dtype(given.dtype).is_floating
    return given if is_float and given.shape[0] is None else None


def _values(layer: KerasLayer, shape: Sequence[int | None]) -> Array:
    """Rows of numbers at and around those of the layer's configuration, as boundaries are."""
    numbers = {0.0, 1.0, 2.5, -2.5, *list(_numbers(layer.get_config()))[:_MOST_NUMBERS]}
    near = sorted({np.float32(number + each) for number in numbers for each in _NEAR})
    sizes = [3 if size is None else size for size in shape[1:]]
    rows = max(2, math.ceil(len(near) / max(1, math.prod(sizes))))
    return np.resize(np.array(near, np.float32), (rows, *sizes))


def _numbers(config: object) -> Iterator[float]:
    waiting = [config]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, (list, tuple)):
            waiting += value
        elif isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30:
            yield float(value)


def _first_difference(eager: Array, traced: Array, values: Array) -> str:
    same = np.isclose(eager, traced, rtol=1e-3, atol=1e-5, equal_nan=True) if eager.shape == traced.shape else np.False_
    if np.all(same):
        return ""
    if same.shape != values.shape:
        return "other numbers in a graph, as in model.predict(x), than in model(x)"
    place = tuple(np.argwhere(~same)[0])
    return f"{traced[place]} for {values[place]} in a graph, as in model.predict(x), and {eager[place]} in model(x)"
