"""LSTM, GRU and RNN: a loop over the time steps for each direction of each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tfaot_pkg.compiler.program import Shape, Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.products import affine
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering import loops
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, element, join, reverse, stretched


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One direction of one layer; weights are [gates * units, inputs], as PyTorch has them.

    `projection` makes the output of an LSTM smaller (proj_size).
    """

    builder: Builder
    kind: str
    inner: Value
    outer: Value
    inner_bias: Value | None
    outer_bias: Value | None
    projection: Value | None

    @property
    def units(self) -> int:
        return self.inner.sizes[0].constant // {"lstm": 4, "gru": 3}.get(self.kind, 1)

    def products(self, x: Value) -> Value:
        """The products with the inputs of all steps, computed before the loop: they do not depend on the state."""
        bias = self.inner_bias
        if self.kind != "gru" and bias is not None and self.outer_bias is not None:
            bias = Arithmetic(self.builder, bias).add(bias, self.outer_bias)
        return affine(self.builder, x, self.inner, bias)

    def step(self, given: Value, states: Sequence[Value]) -> list[Value]:
        """The states after one step; `given` is the step's part of `products`."""
        a = Arithmetic(self.builder, given)
        if self.kind == "gru":
            return [self._gru(a, given, states[0])]
        gates = a.add(given, affine(self.builder, states[0], self.outer, None))
        if self.kind == "lstm":
            return self._lstm(a, gates, states[1])
        return [a.unary("tanh", gates) if self.kind == "rnn_tanh" else a.max(gates, 0)]

    def _part(self, x: Value, start: int, end: int) -> Value:
        return cut(self.builder, x, x.rank - 1, Size(start * self.units), Size(end * self.units))

    def _lstm(self, a: Arithmetic, gates: Value, cell: Value) -> list[Value]:
        # PyTorch's order: input, forget, cell, output.
        enter, forget, new, leave = (self._part(gates, place, place + 1) for place in range(4))
        kept = a.mul(a.unary("logistic", forget), cell)
        cell = a.add(kept, a.mul(a.unary("logistic", enter), a.unary("tanh", new)))
        hidden = a.mul(a.unary("logistic", leave), a.unary("tanh", cell))
        if self.projection is not None:
            hidden = affine(self.builder, hidden, self.projection, None)
        return [hidden, cell]

    def _gru(self, a: Arithmetic, given: Value, state: Value) -> Value:
        inner = affine(self.builder, state, self.outer, self.outer_bias)
        # PyTorch's order: reset, update, new.
        gates = a.unary("logistic", a.add(self._part(given, 0, 2), self._part(inner, 0, 2)))
        reset, update = self._part(gates, 0, 1), self._part(gates, 1, 2)
        new = a.unary("tanh", a.add(self._part(given, 2, 3), a.mul(reset, self._part(inner, 2, 3))))
        return a.add(a.mul(a.sub(1, update), new), a.mul(update, state))


@operator("lstm.input", "gru.input", "rnn_tanh.input", "rnn_relu.input")
def _layers(call: Call) -> Results:
    """All steps of the last layer, and the last states of all layers."""
    b, kind, x = call.builder, call.op.split(".")[1], call.value("input")
    if call.real("dropout", 0.0) and call.flag("train"):
        raise Unsupported("it drops values at random: export the model in evaluation mode, model.eval()")
    starts = call.values("hx") if kind == "lstm" else [call.value("hx")]
    batch_first = call.flag("batch_first")
    unbatched = x.rank == 2
    if unbatched:
        x = stretched(b, x, [1])
        starts = [stretched(b, each, [1]) for each in starts]
    elif batch_first:
        x = b.transpose(x, [1, 0, 2])
    directions = 2 if call.flag("bidirectional") else 1
    cells, lasts = _cells(call, kind), list[list[Value]]()
    if len(cells) != directions * call.whole("num_layers", 1):
        raise Unsupported(f"it has weights for {len(cells)} of {directions * call.whole('num_layers', 1)} directions")
    for first in range(0, len(cells), directions):
        found = []
        for number in range(directions):
            states = [element(b, each, 0, first + number) for each in starts]
            steps, last = _direction(b, cells[first + number], x, states, backward=number == 1)
            found.append(steps)
            lasts.append(last)
        x = join(b, found, 2)
    ends = [join(b, [stretched(b, each, [0]) for each in kind_of], 0) for kind_of in zip(*lasts, strict=True)]
    if unbatched:
        x = b.reshape(x, [x.sizes[0], x.sizes[2]])
        ends = [b.reshape(each, [each.sizes[0], each.sizes[2]]) for each in ends]
    elif batch_first:
        x = b.transpose(x, [1, 0, 2])
    return x, *ends


def _cells(call: Call, kind: str) -> list[_Cell]:
    given = call.values("params")
    has_bias = call.flag("has_biases")
    directions = call.whole("num_layers", 1) * (2 if call.flag("bidirectional") else 1)
    count = len(given) // max(directions, 1)
    usual = 4 if has_bias else 2
    if count not in (usual, usual + 1) or (count > usual and kind != "lstm"):
        raise Unsupported(f"it has {len(given)} weights")
    cells = []
    for start in range(0, count * directions, count):
        part = given[start : start + count]
        cells.append(_Cell(
            builder=call.builder, kind=kind, inner=part[0], outer=part[1],
            inner_bias=part[2] if has_bias else None, outer_bias=part[3] if has_bias else None,
            projection=part[usual] if count > usual else None,
        ))  # fmt: skip
    return cells


def _direction(
    b: Builder, cell: _Cell, x: Value, states: Sequence[Value], *, backward: bool
) -> tuple[Value, list[Value]]:
    """The outputs of all steps ([steps, batch, outputs]), and the last states."""
    steps = x.sizes[0]
    given = cell.products(reverse(b, x, 0) if backward else x)
    sequence = loops.room(b, steps, Shape(x.dtype, states[0].sizes))

    def body(step: Value, state: Sequence[Value]) -> list[Value]:
        made, *before = state
        after = cell.step(loops.read(b, given, step), before)
        return [loops.written(b, made, step, after[0]), *after]

    found, *last = loops.repeated(b, steps, [sequence, *states], body)
    return reverse(b, found, 0) if backward else found, last
