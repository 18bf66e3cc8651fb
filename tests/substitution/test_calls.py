"""Chains of layers, and where the plan of a call puts what lies between them: without TensorFlow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfaot_pkg.kernels.calls import Call, Place, Plan, calls_of, plan_of
from tfaot_pkg.kernels.choice import estimated
from tfaot_pkg.kernels.layer import Layer
from tfaot_pkg.targets import TARGETS

TARGET = TARGETS["x86-64-v3"]


def _layer(name: str, after: str, operation: dict[str, object], sizes: tuple[int, int], parameters: int = 0) -> Layer:
    packed = {"node": f"{name}/parameters", "dtype": "float32", "shape": [parameters], "offset": 0}
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


def test_a_convolution_takes_its_pooling_along() -> None:
    (call,) = calls_of(NETWORK, ALL)
    steps = [step for stage in plan_of(call, 4).stages for step in stage.steps]
    assert [(step.layer.name, step.pool and step.pool.name) for step in steps] == [
        ("c1", "p1"), ("c2", None), ("d1", None), ("d2", None), ("s", None),
    ]  # fmt: skip


def _spans(plan: Plan, place: Place, rows: int, row: int, size: int) -> range:
    """The floats of `memory` that a step touches at `place`, of `rows` rows from `row` on; none elsewhere."""
    if place.base != "memory":
        return range(0)
    start = place.offset + row * place.row_size
    return range(start, start + rows * size)


def _check(plan: Plan, call: Call) -> None:
    """Follow every row through `plan`: nothing leaves the memory, no step writes where it reads, none reads other rows'."""
    width = call.layers[0].input_size
    for number, stage in enumerate(plan.stages):
        done = 0
        for row in range(0, plan.block, stage.rows):
            rows = min(stage.rows, plan.block - row)
            for step in stage.steps:
                taken, given_size = step.layer.input_size, (step.pool or step.layer).output_size
                source = _spans(plan, step.source, rows, row, taken)
                target = _spans(plan, step.target, rows, row, given_size)
                for span in (source, target):
                    assert not span or (span.start >= 0 and span.stop <= plan.scratch)
                assert not (source and target) or source.stop <= target.start or target.stop <= source.start
                assert plan.scratch + step.scratch <= plan.memory
            done += rows
        assert done == plan.block
        assert stage.steps[0].source.row_size == stage.steps[0].layer.input_size
        if number == 0:
            assert stage.steps[0].source == Place(base="input", offset=0, row_size=width)
        else:
            assert stage.steps[0].source == plan.stages[number - 1].steps[-1].target
    assert plan.stages[-1].steps[-1].target == Place(base="result", offset=0, row_size=call.layers[-1].output_size)
    done_layers = [layer for stage in plan.stages for step in stage.steps for layer in (step.layer, step.pool) if layer]
    assert done_layers == list(call.layers)
    _check_stages(plan)


def _check_stages(plan: Plan) -> None:
    """What a stage takes from the one before it is not written over by what lies between its own layers."""
    for stage in plan.stages:
        kept = stage.steps[0].source
        whole = _spans(plan, kept, plan.block, 0, stage.steps[0].layer.input_size)
        for step in stage.steps:
            written = _spans(plan, step.target, plan.block if step.target.row_size else stage.rows, 0,
                             (step.pool or step.layer).output_size)  # fmt: skip
            assert not whole or not written or whole.stop <= written.start or written.stop <= whole.start


@pytest.mark.parametrize("batch_size", [1, 3, 64, 100, 257])
def test_plans_keep_buffers_apart(batch_size: int) -> None:
    (call,) = calls_of(NETWORK, ALL)
    _check(plan_of(call, batch_size), call)


@st.composite
def _chains(draw: st.DrawFn) -> tuple[Layer, ...]:
    """Convolutions and poolings, then dense layers and softmax."""
    layers: list[Layer] = []
    size, channels = draw(st.integers(5, 20)), draw(st.integers(1, 9))
    for index in range(draw(st.integers(0, 4))):
        if size < 4:
            break
        after = layers[-1].name if layers else ""
        is_pool = draw(st.booleans())
        if layers and is_pool:
            layers.append(max_pool(f"p{index}", size, channels, after=after))
        else:
            filters = draw(st.integers(1, 33))
            layers.append(conv(f"c{index}", size, channels, filters, after=after, same=draw(st.booleans())))
            channels = filters
        size = layers[-1].operation["out_height"]
    width = layers[-1].output_size if layers else draw(st.integers(1, 300))
    for index in range(draw(st.integers(0 if layers else 1, 5))):
        after, outputs = layers[-1].name if layers else "", draw(st.sampled_from([1, 7, 16, 33, 600]))
        layers.append(dense(f"d{index}", width, outputs, after=after))
        width = outputs
        if draw(st.booleans()):
            layers.append(softmax(f"s{index}", width, after=layers[-1].name))
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
