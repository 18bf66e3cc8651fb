"""RNN, GRU and LSTM: a loop over the time steps for each direction."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.program import ONE, ZERO, Shape, Size
from tfaot_pkg.frontends.lowering import loops
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import (
    Arithmetic,
    elu,
    hard_sigmoid,
    leaky_relu,
    softplus,
    softsign,
    thresholded,
)
from tfaot_pkg.frontends.onnx_lowering.indexing import reversed_rows
from tfaot_pkg.frontends.onnx_lowering.moving import cut, element, join, reverse, stretched
from tfaot_pkg.frontends.onnx_lowering.products import centered, matmul
from tfaot_pkg.frontends.onnx_lowering.quantized import by_range
from tfaot_pkg.frontends.onnx_lowering.table import MICROSOFT, Call, Results, operator

_Activation = Callable[[Arithmetic, Value, float, float], Value]

_ACTIVATIONS: Mapping[str, _Activation] = {
    "affine": lambda a, x, alpha, beta: a.add(a.mul(x, alpha), beta),
    "elu": lambda a, x, alpha, _beta: elu(a, x, alpha),
    "hardsigmoid": hard_sigmoid,
    "leakyrelu": lambda a, x, alpha, _beta: leaky_relu(a, x, alpha),
    "relu": lambda a, x, _alpha, _beta: a.max(x, 0),
    "scaledtanh": lambda a, x, alpha, beta: a.mul(a.unary("tanh", a.mul(x, beta)), alpha),
    "sigmoid": lambda a, x, _alpha, _beta: a.unary("logistic", x),
    "softplus": lambda a, x, _alpha, _beta: softplus(a, x),
    "softsign": lambda a, x, _alpha, _beta: softsign(a, x),
    "tanh": lambda a, x, _alpha, _beta: a.unary("tanh", x),
    "thresholdedrelu": lambda a, x, alpha, _beta: thresholded(a, x, alpha),
}
_DEFAULTS = {
    "affine": (1.0, 0.0), "elu": (1.0, 0.0), "hardsigmoid": (0.2, 0.5), "leakyrelu": (0.01, 0.0),
    "scaledtanh": (1.0, 1.0), "thresholdedrelu": (1.0, 0.0),
}  # fmt: skip
"""alpha and beta, from the table on ONNX's page on RNN."""
_GATES = {"RNN": (1, ("Tanh",)), "GRU": (3, ("Sigmoid", "Tanh")), "LSTM": (4, ("Sigmoid", "Tanh", "Tanh"))}
"""Gates of a cell, and its activations."""
_DIRECTIONS = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
"""Whether it runs backwards, for each direction."""


@operator("DynamicQuantizeLSTM", domain=MICROSOFT)
def _dynamic_quantize_lstm(call: Call) -> Results:
    return _outputs(replace(call, node=replace(call.node, op="LSTM")))


@operator("RNN", "GRU", "LSTM")
def _layer(call: Call) -> Results:
    return _outputs(call)


def _outputs(call: Call) -> tuple[Value, ...]:
    """All outputs: [steps, directions, batch, units] and the last states, or with the batch first (`layout` 1)."""
    b, x, lengths = call.builder, call.input(0), call.maybe(4)
    batch_first = bool(call.whole("layout", 0))
    starts = [call.maybe(5), *([call.maybe(6)] if call.op == "LSTM" else [])]
    if batch_first:
        x = b.transpose(x, [1, 0, 2])
        starts = [None if each is None else b.transpose(each, [1, 0, 2]) for each in starts]
    lengths = None if lengths is None or _are_full(lengths, x.sizes[0]) else lengths
    sequences, lasts = [], []
    directions = _DIRECTIONS.get(call.text("direction", "forward").lower())
    if directions is None:
        raise call.fault(f"the direction {call.text('direction', '')!r}")
    for place, backward in enumerate(directions):
        states = [None if each is None else element(b, each, 0, place) for each in starts]
        sequence, last = _direction(b, _cell(call, place), x, lengths, states, backward=backward)
        sequences.append(stretched(b, sequence, [1]))
        lasts.append([stretched(b, each, [0]) for each in last])
    outputs = [join(b, sequences, 1), *(join(b, list(each), 0) for each in zip(*lasts, strict=True))]
    if batch_first:
        return b.transpose(outputs[0], [2, 0, 1, 3]), *(b.transpose(each, [1, 0, 2]) for each in outputs[1:])
    return tuple(outputs)


def _are_full(lengths: Value, steps: Size) -> bool:
    numbers = lengths.numbers
    return numbers is not None and steps.is_constant and bool((numbers == steps.constant).all())


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """Weights [inputs, outputs] of bytes with one scale, or one for each output, and as many zero points."""

    call: Call
    whole: Value
    scale: Value

    def product(self, x: Value) -> Value:
        """With bytes of `x`, whose scale is that of all of its steps, or of one of them."""
        b, (found, scale, zero) = self.call.builder, by_range(self.call, x)
        made = b.convert(matmul(b, centered(b, found, zero, -2), self.whole), "f32")
        a = Arithmetic(b, made)
        return a.mul(made, a.mul(scale, self.scale))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One direction of a layer. Weights are as products need them; `bias` is added to `given`, `late` inside a gate.

    Weights of an LSTM may be bytes. Products with them are those of bytes, too, and biases come after them, as in ONNX
    Runtime.
    """

    builder: Builder
    kind: str
    units: int
    w: Value | Bytes
    r: Value | Bytes
    bias: Value
    late: Value | None
    peepholes: Sequence[Value]
    activations: Sequence[Callable[[Arithmetic, Value], Value]]
    clip: float
    is_coupled: bool

    def products(self, x: Value) -> Value:
        """The products with the inputs of all steps, computed before the loop: they do not depend on the state."""
        made = self._product(x, self.w)
        return made if isinstance(self.w, Bytes) else Arithmetic(self.builder, x).add(made, self.bias)

    def _product(self, x: Value, weights: Value | Bytes) -> Value:
        return weights.product(x) if isinstance(weights, Bytes) else matmul(self.builder, x, weights)

    def step(self, given: Value, states: Sequence[Value]) -> list[Value]:
        """The states after one step; `given` is the step's part of `products`."""
        if self.kind == "RNN":
            a = Arithmetic(self.builder, given)
            return [self._active(a, 0, a.add(given, self._product(states[0], self.r)))]
        return self._gru(given, states[0]) if self.kind == "GRU" else self._lstm(given, states[0], states[1])

    def _part(self, x: Value, start: int, end: int) -> Value:
        return cut(self.builder, x, x.rank - 1, Size(start * self.units), Size(end * self.units))

    def _gru(self, given: Value, state: Value) -> list[Value]:
        b, a = self.builder, Arithmetic(self.builder, given)
        assert isinstance(self.r, Value)
        gates_given, hidden_given = self._part(given, 0, 2), self._part(given, 2, 3)
        if self.late is not None:
            inner = matmul(b, state, self.r)
            gates = self._active(a, 0, a.add(gates_given, self._part(inner, 0, 2)))
            update, reset = self._part(gates, 0, 1), self._part(gates, 1, 2)
            hidden = a.add(hidden_given, a.mul(reset, a.add(self._part(inner, 2, 3), self.late)))
        else:
            gates = self._active(a, 0, a.add(gates_given, matmul(b, state, self._part(self.r, 0, 2))))
            update, reset = self._part(gates, 0, 1), self._part(gates, 1, 2)
            hidden = a.add(hidden_given, matmul(b, a.mul(reset, state), self._part(self.r, 2, 3)))
        # ONNX: the update gate keeps the old state, as in Keras and cuDNN.
        return [a.add(a.mul(a.sub(1, update), self._active(a, 1, hidden)), a.mul(update, state))]

    def _lstm(self, given: Value, state: Value, cell: Value) -> list[Value]:
        a = Arithmetic(self.builder, given)
        gates = a.add(given, self._product(state, self.r))
        gates = a.add(gates, self.bias) if isinstance(self.r, Bytes) else gates
        # ONNX's order: input, output, forget, cell; of peepholes input, output, forget.
        enter, leave, forget, new = (self._part(gates, place, place + 1) for place in range(4))
        if self.peepholes:
            enter, forget = a.add(enter, a.mul(self.peepholes[0], cell)), a.add(forget, a.mul(self.peepholes[2], cell))
        enter = self._active(a, 0, enter)
        forget = a.sub(1, enter) if self.is_coupled else self._active(a, 0, forget)
        cell = a.add(a.mul(forget, cell), a.mul(enter, self._active(a, 1, new)))
        if self.peepholes:
            leave = a.add(leave, a.mul(self.peepholes[1], cell))
        return [a.mul(self._active(a, 0, leave), self._active(a, 2, cell)), cell]

    def _active(self, a: Arithmetic, place: int, x: Value) -> Value:
        # Before the activation, as the standard says.
        return self.activations[place](a, a.min(a.max(x, -self.clip), self.clip) if self.clip else x)


def _cell(call: Call, place: int) -> _Cell:
    b, kind = call.builder, call.op
    gates, names = _GATES[kind]
    w, r = (element(b, call.input(number), 0, place) for number in (1, 2))
    is_of_bytes = call.node.domain == MICROSOFT
    units = call.number(r.sizes[0 if is_of_bytes else -1], "the number of its units")
    width = gates * units
    bias = call.maybe(3)
    both = known(np.zeros(2 * width), "f32" if is_of_bytes else w.dtype) if bias is None else element(b, bias, 0, place)
    first, second = cut(b, both, 0, ZERO, Size(width)), cut(b, both, 0, Size(width), Size(2 * width))
    late = None
    if kind == "GRU" and call.whole("linear_before_reset", 0):
        # The reset gate scales the last third of the second bias, which stays with the product of the state.
        late = cut(b, second, 0, Size(2 * units), Size(width))
        second = join(b, [cut(b, second, 0, ZERO, Size(2 * units)), known(np.zeros(units), w.dtype)], 0)
    peepholes: list[Value] = []
    if kind == "LSTM" and (given := call.maybe(7)) is not None:
        seen = element(b, given, 0, place)
        if seen.numbers is None or seen.numbers.any():
            peepholes = [cut(b, seen, 0, Size(each * units), Size((each + 1) * units)) for each in range(3)]
    return _Cell(
        builder=b, kind=kind, units=units,
        w=_bytes(call, w, place, 8) if is_of_bytes else b.transpose(w, [1, 0]),
        r=_bytes(call, r, place, 10) if is_of_bytes else b.transpose(r, [1, 0]),
        bias=Arithmetic(b, first).add(first, second), late=late, peepholes=peepholes,
        activations=_activations_of(call, names, place), clip=call.real("clip", 0),
        is_coupled=bool(call.whole("input_forget", 0)),
    )  # fmt: skip


def _bytes(call: Call, weights: Value, place: int, scales: int) -> Bytes:
    """The weights of a direction, whose scales and zero points are the inputs from `scales` on."""
    b, zero = call.builder, call.maybe(scales + 1)
    whole = centered(b, weights, None if zero is None else element(b, zero, 0, place), -1)
    return Bytes(call=call, whole=whole, scale=element(b, call.input(scales), 0, place))


def _activations_of(call: Call, names: tuple[str, ...], place: int) -> list[Callable[[Arithmetic, Value], Value]]:
    given = call.texts("activations")
    alphas, betas = call.reals("activation_alpha") or [], call.reals("activation_beta") or []
    found = []
    # One list for all directions, with values only for the activations that take one.
    for name in [each.lower() for each in given or names]:
        if name not in _ACTIVATIONS:
            raise call.fault(f"the activation {name!r}")
        default = _DEFAULTS.get(name, (0.0, 0.0))
        alpha = alphas.pop(0) if alphas and name in _DEFAULTS else default[0]
        beta = betas.pop(0) if betas and name in ("affine", "hardsigmoid", "scaledtanh") else default[1]
        found.append(functools.partial(_applied, _ACTIVATIONS[name], alpha, beta))
    count = len(names)
    return list(found[place * count : (place + 1) * count] if given else found)


def _applied(function: _Activation, alpha: float, beta: float, a: Arithmetic, x: Value) -> Value:
    return function(a, x, alpha, beta)


def _direction(
    b: Builder, cell: _Cell, x: Value, lengths: Value | None, starts: Sequence[Value | None], *, backward: bool
) -> tuple[Value, list[Value]]:
    """The states of all steps ([steps, batch, units]), and the last ones."""
    steps, batch, _ = x.sizes

    def turned(values: Value) -> Value:
        if not backward:
            return values
        return reverse(b, values, 0) if lengths is None else reversed_rows(b, values, lengths, 0, 1)

    given = cell.products(turned(x))
    zeros = b.spread(b.constant(0, x.dtype), [batch, Size(cell.units)])
    states = [zeros if each is None else each for each in starts]
    found = loops.room(b, steps, Shape(x.dtype, (batch, Size(cell.units))))

    def body(step: Value, state: Sequence[Value]) -> list[Value]:
        made, *before = state
        after = cell.step(loops.read(b, given, step), before)
        shown = after[0]
        if lengths is not None:
            a = Arithmetic(b, shown)
            runs = b.reshape(b.compare("LT", b.convert(step, lengths.dtype), lengths), [batch, ONE])
            # A sequence that has ended keeps its last state, and its further outputs are zeros.
            after = [a.where(runs, new, old) for new, old in zip(after, before, strict=True)]
            shown = a.where(runs, shown, 0)
        return [loops.written(b, made, step, shown), *after]

    sequence, *last = loops.repeated(b, steps, [found, *states], body)
    return turned(sequence), last
