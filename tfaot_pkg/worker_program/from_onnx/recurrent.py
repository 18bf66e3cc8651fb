"""RNN, GRU and LSTM: a loop over the time steps for each direction."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf
from from_onnx.elementwise import hard_sigmoid
from from_onnx.table import operator
from from_onnx.tensors import constant_or, sizes, static, transposed, vector

if TYPE_CHECKING:
    from from_onnx.table import Node


_ACTIVATIONS = {
    "affine": lambda x, alpha, beta: alpha * x + beta,
    "elu": lambda x, alpha, beta: tf.where(x > 0, x, alpha * tf.math.expm1(tf.minimum(x, 0))),
    "hardsigmoid": hard_sigmoid,
    "leakyrelu": lambda x, alpha, beta: tf.nn.leaky_relu(x, alpha),
    "relu": lambda x, alpha, beta: tf.nn.relu(x),
    "scaledtanh": lambda x, alpha, beta: alpha * tf.tanh(beta * x),
    "sigmoid": lambda x, alpha, beta: tf.sigmoid(x),
    "softplus": lambda x, alpha, beta: tf.nn.softplus(x),
    "softsign": lambda x, alpha, beta: tf.nn.softsign(x),
    "tanh": lambda x, alpha, beta: tf.tanh(x),
    "thresholdedrelu": lambda x, alpha, beta: tf.where(x > alpha, x, tf.zeros_like(x)),
}
_DEFAULTS = {
    "affine": (1.0, 0.0), "elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5), "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0), "thresholdedrelu": (1.0, 0.0),
}  # fmt: skip
"""alpha and beta, from the table on ONNX's page on RNN."""
_GATES = {"RNN": (1, ("Tanh",)), "GRU": (3, ("Sigmoid", "Tanh")), "LSTM": (4, ("Sigmoid", "Tanh", "Tanh"))}
"""Gates of a cell, and its activations."""


@operator("RNN")
def _rnn(
    node: Node,
    x: tf.Tensor,
    w: tf.Tensor,
    r: tf.Tensor,
    bias: tf.Tensor | None = None,
    lengths: tf.Tensor | None = None,
    start: tf.Tensor | None = None,
) -> tf.Tensor:
    return _layer(node, x, w, r, bias, lengths, [start])


@operator("GRU")
def _gru(
    node: Node,
    x: tf.Tensor,
    w: tf.Tensor,
    r: tf.Tensor,
    bias: tf.Tensor | None = None,
    lengths: tf.Tensor | None = None,
    start: tf.Tensor | None = None,
) -> tf.Tensor:
    return _layer(node, x, w, r, bias, lengths, [start])


@operator("LSTM")
def _lstm(
    node: Node,
    x: tf.Tensor,
    w: tf.Tensor,
    r: tf.Tensor,
    bias: tf.Tensor | None = None,
    lengths: tf.Tensor | None = None,
    start: tf.Tensor | None = None,
    start_cell: tf.Tensor | None = None,
    peepholes: tf.Tensor | None = None,
) -> tf.Tensor:
    known = static(peepholes)
    seen = peepholes if known is None or known.any() else None
    return _layer(node, x, w, r, bias, lengths, [start, start_cell], seen)


def _layer(
    node: Node,
    x: tf.Tensor,
    w: tf.Tensor,
    r: tf.Tensor,
    bias: tf.Tensor,
    lengths: tf.Tensor,
    starts: list[Any],
    peepholes: tf.Tensor | None = None,
) -> tuple[Any, ...]:
    """All outputs: [steps, directions, batch, units] and the last states, or with the batch first (`layout` 1)."""
    batch_first = node.get("layout", 0)
    x = transposed(x, [1, 0, 2]) if batch_first else x
    starts = [None if each is None else transposed(each, [1, 0, 2]) if batch_first else each for each in starts]
    # Whether it runs backwards, for each direction.
    directions = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[
        node.get("direction", "forward").lower()
    ]
    sequences, lasts = [], []
    for place, backward in enumerate(directions):
        part = _part(place)
        states = [None if each is None else each[place] for each in starts]
        bias_of, seen = (None if each is None else part(each) for each in (bias, peepholes))
        cell = _Cell(node, part(w), part(r), bias_of, place, seen)
        sequence, last = _direction(node, cell, x, lengths, states, backward)
        sequences.append(sequence)
        lasts.append(last)
    outputs = [tf.stack(sequences, 1), *(tf.stack(each) for each in zip(*lasts, strict=True))]
    if batch_first:
        outputs = [tf.transpose(outputs[0], [2, 0, 1, 3]), *(tf.transpose(each, [1, 0, 2]) for each in outputs[1:])]
    return tuple(outputs)


def _part(place: int) -> tf.Tensor:
    return lambda tensor: constant_or(lambda each: each[place], tensor)


class _Cell:
    """One direction of a layer: its weights, as TensorFlow multiplies with them, and its activations."""

    def __init__(
        self, node: Node, w: tf.Tensor, r: tf.Tensor, bias: tf.Tensor, place: int, peepholes: tf.Tensor
    ) -> None:
        self.kind, self._linear_before_reset = node.op, bool(node.get("linear_before_reset", 0))
        self._gates, names = _GATES[node.op]
        self._units = r.shape[-1]
        self._w, self._r = transposed(w, [1, 0]), transposed(r, [1, 0])
        both = self._gates * self._units
        bias = tf.zeros([2 * both], w.dtype) if bias is None else bias
        self._bias_w = constant_or(lambda each: each[:both], bias)
        self._bias_r = constant_or(lambda each: each[both:], bias)
        # Peepholes, weights of the cell state in the gates, in ONNX's order: input, output, forget.
        self._seen = None if peepholes is None else tf.split(peepholes, 3)
        self._activations = _activations_of(node, names, place)
        self._clip, self._couples = node.get("clip"), bool(node.get("input_forget", 0))

    @property
    def units(self) -> int:
        return int(self._units)

    def products(self, x: tf.Tensor) -> tf.Tensor:
        """The products with the inputs of all steps, computed before the loop: they do not depend on the state."""
        bias = self._bias_w
        if self.kind != "GRU" or not self._linear_before_reset:
            bias = bias + self._bias_r
        else:
            # The reset gate scales the last third of the other bias, which stays with the product of the state.
            bias = bias + tf.concat([self._bias_r[: 2 * self._units], tf.zeros([self._units], bias.dtype)], 0)
        return tf.tensordot(x, self._w, [[2], [0]]) + bias

    def step(self, given: tf.Tensor, states: list[Any]) -> list[Any]:
        """The states after one step; `given` is the step's part of `products`."""
        steps: dict[str, Callable[..., list[Any]]] = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}
        return steps[self.kind](given, *states)

    def _rnn(self, given: tf.Tensor, state: tf.Tensor) -> list[Any]:
        return [self._active(0, given + tf.matmul(state, self._r))]

    def _gru(self, given: tf.Tensor, state: tf.Tensor) -> list[Any]:
        units = self._units
        if self._linear_before_reset:
            inner = tf.matmul(state, self._r)
            gates = self._active(0, given[:, : 2 * units] + inner[:, : 2 * units])
            update, reset = gates[:, :units], gates[:, units:]
            hidden = given[:, 2 * units :] + reset * (inner[:, 2 * units :] + self._bias_r[2 * units :])
        else:
            gates = self._active(0, given[:, : 2 * units] + tf.matmul(state, self._r[:, : 2 * units]))
            update, reset = gates[:, :units], gates[:, units:]
            hidden = given[:, 2 * units :] + tf.matmul(reset * state, self._r[:, 2 * units :])
        # ONNX: the update gate keeps the old state, as in Keras and cuDNN.
        return [(1 - update) * self._active(1, hidden) + update * state]

    def _lstm(self, given: tf.Tensor, state: tf.Tensor, cell: tf.Tensor) -> list[Any]:
        units = self._units
        gates = given + tf.matmul(state, self._r)
        # ONNX's order: input, output, forget, cell.
        enter, leave, forget, new = (gates[:, place * units : (place + 1) * units] for place in range(4))
        if self._seen is not None:
            enter, forget = enter + self._seen[0] * cell, forget + self._seen[2] * cell
        enter = self._active(0, enter)
        forget = 1 - enter if self._couples else self._active(0, forget)
        cell = forget * cell + enter * self._active(1, new)
        if self._seen is not None:
            leave = leave + self._seen[1] * cell
        return [self._active(0, leave) * self._active(2, cell), cell]

    def _active(self, place: int, x: tf.Tensor) -> tf.Tensor:
        # Before the activation, as the standard says.
        if self._clip:
            x = tf.clip_by_value(x, -self._clip, self._clip)
        return self._activations[place](x)


def _activations_of(node: Node, names: tuple[Any, ...], place: int) -> list[Any]:
    count = len(names)
    alphas, betas = list(node.get("activation_alpha") or []), list(node.get("activation_beta") or [])
    found = []
    # One list for all directions, with values only for the activations that take one.
    for name in [each.lower() for each in node.get("activations") or names]:
        if name not in _ACTIVATIONS:
            raise node.fault(f"the activation {name!r} is not supported")
        default = _DEFAULTS.get(name, (0.0, 0.0))
        alpha = alphas.pop(0) if alphas and name in _DEFAULTS else default[0]
        beta = betas.pop(0) if betas and name in ("affine", "hardsigmoid", "scaledtanh") else default[1]
        found.append((_ACTIVATIONS[name], alpha, beta))
    chosen = found[place * count : (place + 1) * count] if node.get("activations") else found
    return [functools.partial(_applied, *each) for each in chosen]


def _applied(function: Callable[..., Any], alpha: float, beta: float, x: tf.Tensor) -> tf.Tensor:
    return function(x, alpha, beta)


def _direction(
    node: Node, cell: _Cell, x: tf.Tensor, lengths: tf.Tensor, states: list[Any], backward: bool
) -> tuple[Any, ...]:
    """The states of all steps ([steps, batch, units]), and the last ones."""
    steps, batch, _ = sizes(x)
    known = static(lengths)
    if lengths is not None and known is not None and isinstance(steps, int) and (known == steps).all():
        lengths = None
    if backward:
        x = tf.reverse(x, [0]) if lengths is None else tf.reverse_sequence(x, lengths, seq_axis=0, batch_axis=1)
    given = cell.products(x)
    zeros = tf.zeros(vector([batch, cell.units]), x.dtype)
    states = [zeros if each is None else each for each in states]
    sequence, last = _loop(cell, given, states, steps, lengths)
    if backward:
        sequence = (
            tf.reverse(sequence, [0])
            if lengths is None
            else tf.reverse_sequence(sequence, lengths, seq_axis=0, batch_axis=1)
        )
    return sequence, last


def _loop(cell: _Cell, given: tf.Tensor, states: list[Any], steps: tf.Tensor, lengths: tf.Tensor) -> tuple[Any, ...]:
    inputs = tf.TensorArray(given.dtype, size=steps, element_shape=given.shape[1:]).unstack(given)
    # The batch is not known: neither are the first sizes of the states in the loop.
    shape = tf.TensorShape([None, cell.units])
    outputs = tf.TensorArray(given.dtype, size=steps, element_shape=shape)

    def body(step: tf.Tensor, kept: tf.Tensor, *before: tf.Tensor) -> tuple[Any, ...]:
        after = cell.step(inputs.read(step), list(before))
        shown = after[0]
        if lengths is not None:
            runs = (tf.cast(step, lengths.dtype) < lengths)[:, None]
            # A sequence that has ended keeps its last state, and its further outputs are zeros.
            after = [tf.where(runs, new, old) for new, old in zip(after, before, strict=True)]
            shown = tf.where(runs, shown, tf.zeros_like(shown))
        return step + 1, kept.write(step, shown), *after

    start = (tf.constant(0), outputs, *states)
    shapes = (tf.TensorShape([]), tf.TensorShape(None), *(shape for _ in states))
    _, outputs, *last = tf.while_loop(
        lambda step, *_: step < steps, body, start, shape_invariants=shapes, maximum_iterations=steps
    )
    return outputs.stack(), last
