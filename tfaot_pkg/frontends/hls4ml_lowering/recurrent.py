"""Recurrent layers (nnet_recurrent.h): cells of dense layers, whose numbers between are of the accumulator's type."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.program import Size
from tfaot_pkg.frontends.hls4ml_lowering.activations import activated
from tfaot_pkg.frontends.hls4ml_lowering.dense import weights_of
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.sums import Weights, weighted
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.frontends.lowering.values import known

_ACTIVATIONS = ("relu", "sigmoid", "tanh")
"""Those that recurrent layers of hls4ml may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    """One direction of a layer: `parts` are the gates, each of `state` numbers; `prefix` stands before its names."""

    call: Call
    prefix: str
    state: int
    parts: int
    weights: Weights
    bias: Fixed

    def sums(self, x: Fixed) -> Fixed:
        """What the gates take from inputs: those of all steps at once."""
        call = self.call
        weights = weights_of(
            call, f"{self.prefix}weight", call.x.shape[-1], self.parts * self.state, call.given[0].type
        )
        bias = call.constant(f"{self.prefix}bias", self.parts * self.state)
        return weighted(call, x, weights, bias, call.type("accum_t"), self.reuse("reuse_factor"))

    def recurrent(self, hidden: Fixed) -> Fixed:
        reuse = self.reuse(f"{self.prefix}recurrent_reuse_factor")
        return weighted(self.call, hidden, self.weights, self.bias, self.call.type("accum_t"), reuse)

    def reuse(self, name: str) -> int:
        return self.call.whole(name, 1) if self.call.text("strategy") == "resource" else 1

    def gate(self, x: Fixed, first: int, count: int = 1) -> Fixed:
        return self.call.a.cut(x, {x.value.rank - 2: (first * self.state, (first + count) * self.state, 1)})

    def activated(self, x: Fixed, which: str) -> Fixed:
        name = self.call.text(f"{self.prefix}{which}")
        if name not in _ACTIVATIONS:
            raise self.call.fault(
                f"the activation {name!r}", f"hls4ml has {', '.join(_ACTIVATIONS)} in recurrent layers"
            )
        return activated(self.call, x, name, self.call.type("accum_t"))


def _cell(call: Call, kind: str, state: int, prefix: str = "") -> _Cell:
    parts = {"gru": 3, "lstm": 4}[kind]
    given = call.given[0].type
    return _Cell(
        call=call, prefix=prefix, state=state, parts=parts,
        weights=weights_of(call, f"{prefix}recurrent_weight", state, parts * state, given),
        bias=call.constant(f"{prefix}recurrent_bias", parts * state),
    )  # fmt: skip


def _gru(cell: _Cell, inputs: Fixed, states: list[Fixed]) -> list[Fixed]:
    call, (hidden,) = cell.call, states
    a, accum = call.a, call.type("accum_t")
    sums = cell.recurrent(hidden)
    both = cell.activated(a.cast(a.add(cell.gate(inputs, 0, 2), cell.gate(sums, 0, 2)), accum), "recurrent_activation")
    # Keras has the update gate first, PyTorch the reset gate.
    first, second = cell.gate(both, 0), cell.gate(both, 1)
    update, reset = (second, first) if call.whole("pytorch", 0) else (first, second)
    kept = a.cast(a.multiply(reset, cell.gate(sums, 2)), accum)
    new = cell.activated(a.cast(a.add(cell.gate(inputs, 2), kept), accum), "activation")
    mixed = a.add(a.multiply(new, a.subtract(a.whole(1), update)), a.multiply(hidden, update))
    return [a.cast(mixed, call.output.type)]


def _lstm(cell: _Cell, inputs: Fixed, states: list[Fixed]) -> list[Fixed]:
    call, (hidden, memory) = cell.call, states
    a, accum, wanted = call.a, call.type("accum_t"), call.output.type
    sums = a.cast(a.add(inputs, cell.recurrent(hidden)), accum)
    entry, forget, exit_ = (cell.activated(cell.gate(sums, gate), "recurrent_activation") for gate in (0, 1, 3))
    new = cell.activated(cell.gate(sums, 2), "activation")
    memory = a.cast(a.add(a.multiply(new, entry), a.multiply(memory, forget)), wanted)
    return [a.cast(a.multiply(exit_, cell.activated(memory, "activation")), wanted), memory]


_STEPS: dict[str, tuple[Callable[[_Cell, Fixed, list[Fixed]], list[Fixed]], int]] = {
    "gru": (_gru, 1),
    "lstm": (_lstm, 2),
}
"""A step of each kind of cell, and how many states it has."""


def _steps(cell: _Cell, kind: str, *, backward: bool = False) -> list[Fixed]:
    """The hidden states, one for each step, in the order of the steps."""
    call = cell.call
    a, count = call.a, call.x.shape[0]
    step, states = _STEPS[kind]
    sums = cell.sums(call.x)
    nothing = a.whole(0, call.output.type.fraction)
    zeros = a.builder.spread(known(np.zeros(cell.state, np.int32), "s32"), [call.x.value.sizes[0], Size(cell.state)])
    held, made = [replace(nothing, value=zeros)] * states, []
    for place in reversed(range(count)) if backward else range(count):
        one = a.reshape(a.cut(sums, {0: (place, place + 1, 1)}), (cell.parts * cell.state,))
        held = step(cell, one, held)
        made.append(held[0])
    return made


def _stacked(call: Call, steps: list[Fixed]) -> Fixed:
    return call.a.join([call.a.reshape(each, (1, *each.shape)) for each in steps], 0)


def _plain(call: Call) -> None:
    if len(call.inputs) > 1 or len(call.layer.outputs) > 1 or call.text("direction", "forward") != "forward":
        raise call.fault(
            "initial states, or states as results", "let the layer begin with zeros, and return its sequence"
        )
    if call.text("apply_reset_gate", "after") != "after":
        raise call.fault("reset_after=False", "hls4ml computes reset_after=True")


@layer("GRU", "LSTM")
def _recurrent(call: Call) -> Fixed:
    _plain(call)
    kind = call.layer.kind.lower()
    steps = _steps(_cell(call, kind, call.output.shape[-1]), kind)
    return _stacked(call, steps) if call.whole("return_sequences", 0) else steps[-1]


@layer("Bidirectional")
def _bidirectional(call: Call) -> Fixed:
    """Both directions, the results of each step beside one another."""
    _plain(call)
    if call.text("merge_mode", "concat") != "concat":
        raise call.fault(f"the merge mode {call.text('merge_mode')!r}", "choose concat")
    made = []
    for way in ("forward", "backward"):
        kind = call.text(f"{way}_class_name")
        if kind not in _STEPS:
            raise call.fault(f"a cell of the kind {kind!r}", "choose GRU or LSTM")
        cell = _cell(call, kind, call.whole(f"{way}_n_states"), f"{way}_")
        made.append(_steps(cell, kind, backward=way == "backward"))
    if not call.whole("return_sequences", 0):
        return call.a.join([each[-1] for each in made], 0)
    return call.a.join([_stacked(call, made[0]), _stacked(call, made[1][::-1])], 1)
