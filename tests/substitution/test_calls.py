"""Chains of layers, and where the plan of a call puts what lies between them: without TensorFlow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfaot_pkg.kernels.calls import Call, Place, Plan, Step, calls_of, plan_of
from tfaot_pkg.kernels.costs import estimated
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.worker_program.messages.graph import Weight

TARGET = TARGETS["x86-64-v3"]


def _layer(name: str, after: str, operation: dict[str, Any], sizes: tuple[int, int], parameters: int = 0) -> Layer:
    packed = Weight(node=f"{name}/parameters", dtype="float32", shape=(parameters,), offset=0)
    return Layer(
        name=name, after=after, operation=operation, reads=(after or "x", 0), reads_input=not after,
        gives_output=False, input_size=sizes[0], output_size=sizes[1], output_shape=(sizes[1],),
        parameters=packed if parameters else None,
    )  # fmt: skip


def dense(name: str, inputs: int, outputs: int, *, after: str = "", activation: str = "relu") -> Layer:
    operation = {"kind": "dense", "rows": 1, "inputs": inputs, "outputs": outputs, "activation": activation}
    return _layer(name, after, operation, (inputs, outputs), -(-outputs // 16) * 16 * inputs + outputs)


def _window(size: int, channels: int, kernel: int, *, stride: int = 1, same: bool = False) -> dict[str, int]:
    out = -(-size // stride) if same else (size - kernel) // stride + 1
    pad = max(0, (out - 1) * stride + kernel - size) // 2 if same else 0
    window = {"channels": channels, "pad_top": pad, "pad_left": pad}
    for axis in ("height", "width"):
        window |= {f"in_{axis}": size, f"out_{axis}": out, axis: kernel, f"stride_{axis}": stride}
        window[f"dilation_{axis}"] = 1
    return window


def conv(name: str, size: int, channels: int, filters: int, *, after: str = "", same: bool = False) -> Layer:
    window = _window(size, channels, 3, same=same)
    operation = {"kind": "conv2d", **window, "filters": filters, "groups": 1, "activation": "relu"}
    sizes = (size * size * channels, window["out_height"] * window["out_width"] * filters)
    return _layer(name, after, operation, sizes, 9 * channels * (-(-filters // 16) * 16) + filters)


def max_pool(name: str, size: int, channels: int, *, after: str) -> Layer:
    window = _window(size, channels, 2, stride=2)
    out = window["out_height"] * window["out_width"] * channels
    return _layer(name, after, {"kind": "max_pool", **window}, (size * size * channels, out))


def softmax(name: str, size: int, *, after: str) -> Layer:
    return _layer(name, after, {"kind": "softmax", "rows": 1, "size": size}, (size, size))


def added(name: str, size: int, *, after: str, adds: str) -> Layer:
    operation = {"kind": "add", "size": size, "activation": "relu"}
    return replace(_layer(name, after, operation, (size, size)), adds=adds)


NETWORK = (
    conv("c1", 12, 3, 8, same=True),
    max_pool("p1", 12, 8, after="c1"),
    conv("c2", 6, 8, 16, after="p1"),
    dense("d1", 256, 100, after="c2"),
    dense("d2", 100, 40, after="d1"),
    softmax("s", 40, after="d2"),
)
ALL = frozenset(layer.name for layer in NETWORK)


def _names(calls: tuple[Call, ...]) -> list[list[str]]:
    return [[layer.name for layer in call.layers] for call in calls]


def test_a_chain_ends_where_a_layer_is_not_chosen() -> None:
    assert _names(calls_of(NETWORK, ALL)) == [["c1", "p1", "c2", "d1", "d2", "s"]]
    assert _names(calls_of(NETWORK, ALL - {"c2"})) == [["c1", "p1"], ["d1", "d2", "s"]]


def test_layers_without_weights_alone_are_no_call() -> None:
    assert _names(calls_of(NETWORK, ALL - {"c1", "d2"})) == [["p1", "c2", "d1"]]


def test_layers_that_read_the_same_are_calls_apart() -> None:
    layers = (dense("a", 64, 64), dense("b", 64, 64), dense("c", 64, 64, after="b"))
    assert _names(calls_of(layers, frozenset("abc"))) == [["a"], ["b", "c"]]


RESIDUAL = (
    dense("a", 20, 64),
    dense("b", 64, 64, after="a"),
    dense("c", 64, 64, after="b"),
    added("s", 64, after="c", adds="b"),
    dense("d", 64, 9, after="s"),
)


@pytest.mark.parametrize(
    ("left_out", "calls"),
    [
        ("", [["a", "b", "c", "s", "d"]]),
        ("a", [["b", "c", "s", "d"]]),
        ("b", [["a"], ["c"], ["d"]]),
        ("c", [["a"], ["b"], ["d"]]),
        ("s", [["a"], ["b", "c"], ["d"]]),  # what b reads is needed for the sum too
        ("d", [["a", "b", "c", "s"]]),
    ],
)
def test_a_sum_is_in_the_call_that_knows_what_it_adds(left_out: str, calls: list[list[str]]) -> None:
    chosen = frozenset(layer.name for layer in RESIDUAL) - {left_out}
    assert _names(calls_of(RESIDUAL, chosen)) == calls


def test_a_pooling_whose_input_is_added_is_not_taken_along() -> None:
    pool = max_pool("p", 12, 8, after="c")
    layers = (conv("c", 12, 3, 8, same=True), pool, added("s", 6 * 6 * 8, after="p", adds="p"))
    (call,) = calls_of(layers, frozenset("cps"))
    assert [step.layer.name for stage in plan_of(call, 2).stages for step in stage.steps] == ["c", "p", "s"]


def test_a_convolution_takes_its_pooling_along() -> None:
    (call,) = calls_of(NETWORK, ALL)
    steps = [step for stage in plan_of(call, 4).stages for step in stage.steps]
    assert [(step.layer.name, step.pool and step.pool.name) for step in steps] == [
        ("c1", "p1"), ("c2", None), ("d1", None), ("d2", None), ("s", None),
    ]  # fmt: skip


class _Buffers:
    """The buffers of a call, with numbers that stand for a layer's row in place of its values."""

    def __init__(self, plan: Plan, call: Call) -> None:
        self._memory = np.full(plan.scratch, -1)
        self._numbers = {layer.name: number for number, layer in enumerate(call.layers)}

    def follow(self, step: Step, row: int, rows: int) -> None:
        """Let `step` read what it should and find it there, and write elsewhere."""
        last = step.pool or step.layer
        source = self._at(step.source, row, rows, step.layer.input_size)
        target = self._at(step.target, row, rows, last.output_size)
        assert not np.shares_memory(source, target)
        self._expect(step.source, source, step.layer.name, row)
        if step.layer.adds:
            assert step.added is not None
            other = self._at(step.added, row, rows, step.layer.input_size)
            assert not np.shares_memory(other, target)
            self._expect(step.added, other, step.layer.adds, row)
        target[...] = self._code(self._numbers[last.name] + 1, row, rows)

    def _at(self, place: Place, row: int, rows: int, size: int) -> npt.NDArray[np.int64]:
        if place.base != "memory":
            return np.empty((rows, size), np.int64)
        assert place.row_size in (0, size)
        start = place.offset + row * place.row_size
        return self._memory[start : start + rows * size].reshape(rows, size)  # not so many if it ends behind the memory

    def _expect(self, place: Place, found: npt.NDArray[np.int64], reader: str, row: int) -> None:
        number = self._numbers[reader]
        if place.base == "input":
            assert number == 0
        else:
            np.testing.assert_array_equal(found, np.broadcast_to(self._code(number, row, len(found)), found.shape))

    def _code(self, number: int, row: int, rows: int) -> npt.NDArray[np.int64]:
        """Of what the layer with `number` reads, and the one before it gives."""
        return number * 1_000_000 + np.arange(row, row + rows)[:, None]


def _check(plan: Plan, call: Call) -> None:
    """Follow every row through `plan`: each layer finds what it reads, and nothing leaves the memory."""
    buffers = _Buffers(plan, call)
    for stage in plan.stages:
        for row in range(0, plan.block, stage.rows):
            rows = min(stage.rows, plan.block - row)
            for step in stage.steps:
                buffers.follow(step, row, rows)
                assert plan.scratch + step.scratch <= plan.memory
    first, last = plan.stages[0].steps[0], plan.stages[-1].steps[-1]
    assert first.source == Place(base="input", offset=0, row_size=call.layers[0].input_size)
    assert last.target == Place(base="result", offset=0, row_size=call.layers[-1].output_size)
    done = [layer for stage in plan.stages for step in stage.steps for layer in (step.layer, step.pool) if layer]
    assert done == list(call.layers)


@pytest.mark.parametrize("batch_size", [1, 3, 64, 100, 257])
def test_plans_keep_buffers_apart(batch_size: int) -> None:
    (call,) = calls_of(NETWORK, ALL)
    _check(plan_of(call, batch_size), call)


def _sums(draw: st.DrawFn, layers: list[Layer]) -> None:
    """Perhaps a sum with what one of `layers` reads."""
    last = layers[-1]
    fitting = [layer.name for layer in layers if layer.input_size == last.output_size]
    adds = draw(st.sampled_from(["", *fitting]))
    if adds:
        layers.append(added(f"a{len(layers)}", last.output_size, after=last.name, adds=adds))


@st.composite
def _chains(draw: st.DrawFn) -> tuple[Layer, ...]:
    """Convolutions and poolings, then dense layers and softmax, and sums between them."""
    layers: list[Layer] = []
    size, channels = draw(st.integers(5, 20)), draw(st.integers(1, 9))
    for index in range(draw(st.integers(0, 5))):
        if size < 4:
            break
        after = layers[-1].name if layers else ""
        if layers and draw(st.integers(0, 2)) == 0:
            layers.append(max_pool(f"p{index}", size, channels, after=after))
            size = layers[-1].operation["out_height"]
        else:
            filters, same = draw(st.sampled_from((channels, 1, 33))), draw(st.booleans())
            layers.append(conv(f"c{index}", size, channels, filters, after=after, same=same))
            size, channels = layers[-1].operation["out_height"], filters
        _sums(draw, layers)
    width = layers[-1].output_size if layers else draw(st.integers(1, 300))
    for index in range(draw(st.integers(0 if layers else 1, 5))):
        after, outputs = layers[-1].name if layers else "", draw(st.sampled_from([width, 7, 16, 33, 600]))
        layers.append(dense(f"d{index}", width, outputs, after=after))
        width = outputs
        if draw(st.booleans()):
            layers.append(softmax(f"s{index}", width, after=layers[-1].name))
        _sums(draw, layers)
    return tuple(layers)


@given(_chains(), st.integers(1, 300))
def test_plans_of_any_chain_keep_buffers_apart(layers: tuple[Layer, ...], batch_size: int) -> None:
    for call in calls_of(layers, frozenset(layer.name for layer in layers)):
        _check(plan_of(call, batch_size), call)


def test_narrow_layers_are_left_to_xla_and_wide_ones_are_not() -> None:
    narrow = tuple(dense(f"n{i}", 16, 16, after=f"n{i - 1}" if i else "") for i in range(4))
    wide = tuple(dense(f"w{i}", 256, 256, after=f"w{i - 1}" if i else "") for i in range(4))
    assert estimated(narrow, 16, TARGET) == frozenset()
    assert estimated(wide, 16, TARGET) == {layer.name for layer in wide}


def test_a_narrow_end_stays_in_the_call_of_a_wide_chain() -> None:
    layers = (dense("a", 64, 200), dense("b", 200, 200, after="a"), dense("c", 200, 3, after="b"))
    assert estimated(layers, 8, TARGET) == {"a", "b", "c"}
    assert estimated(layers[2:], 8, TARGET) == frozenset()


def test_convolutions_are_always_chosen() -> None:
    assert {"c1", "p1", "c2"} <= estimated(NETWORK, 1, TARGET)


def test_large_weights_are_in_one_form_at_all_batch_sizes() -> None:
    layers = tuple(dense(f"w{i}", 256, 256, after=f"w{i - 1}" if i else "") for i in range(3))
    assert len({estimated(layers, size, TARGET) for size in (1, 2, 16, 256)}) == 1
