"""Layers between DequantizeLinear and QuantizeLinear are those of bytes: beside sums in int64, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import Node, model_of, node
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import run
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.frontends.onnx_lowering.ends import lowered
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

_ROWS = 37
_STEP, _ZERO = np.float32(0.043), 117
_MADE, _MADE_ZERO = np.float32(0.31), 20


class _Graph:
    """Nodes from x to y, float32, with the constants that they read."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(11)
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}

    def add(self, op: str, inputs: str, output: str, **attributes: Any) -> str:
        self.nodes.append(node(op, inputs, output, **attributes))
        return output

    def bytes_of(self, name: str, scale: Any, zero: Any, output: str = "") -> str:
        """`name` as bytes, and as floats again."""
        self.constants |= {f"{name}_scale": np.asarray(scale, np.float32), f"{name}_zero": np.asarray(zero)}
        parts = f"{name}_scale {name}_zero"
        self.add("QuantizeLinear", f"{name} {parts}", f"{name}_bytes")
        return self.add("DequantizeLinear", f"{name}_bytes {parts}", output or f"{name}_floats")

    def constant(self, name: str, whole: Array, scale: Any, axis: int) -> str:
        self.constants |= {f"{name}_whole": whole, f"{name}_scale": np.asarray(scale, np.float32)}
        return self.add("DequantizeLinear", f"{name}_whole {name}_scale", name, axis=axis)

    def program(self, *sizes: int) -> Program:
        return lower(model_of(self.nodes, (None, *sizes), self.constants))


def _opcodes(program: Program) -> list[str]:
    return [each.opcode for each in program.entry.operations]


def _floats(graph: _Graph, *sizes: int) -> Array:
    return (graph.random.normal(size=(_ROWS, *sizes)) * 3).astype(np.float32)


def _whole(x: Array) -> Array:
    """Bytes of x minus their zero point."""
    return np.asarray(np.clip(np.rint(x / _STEP) + np.float32(_ZERO), 0, 255).astype(np.int64) - _ZERO)


def _made(total: Array, factor: Array, *, relu: bool = False) -> Array:
    """Bytes of sums, as floats again."""
    total = np.maximum(total, 0) if relu else total
    scaled = np.rint(total.astype(np.float32) * (factor / _MADE).astype(np.float32)) + np.float32(_MADE_ZERO)
    return np.asarray((np.clip(scaled, 0, 255) - np.float32(_MADE_ZERO)) * _MADE)


def _dense(graph: _Graph, form: str) -> tuple[Array, Array]:
    """Weights of [inputs, outputs], and a bias, both of integers; the result is "m"."""
    weights = graph.random.integers(-127, 128, (40, 9)).astype(np.int8)
    bias = graph.random.integers(-30_000, 30_000, 9).astype(np.int32)
    scales = graph.random.uniform(0.001, 0.01, 9).astype(np.float32)
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.constant("bias", bias, _STEP * scales, 0)
    if form == "Gemm":
        graph.constant("w", weights.T.copy(), scales, 0)
        graph.add("Gemm", f"{x} w bias", "m", transB=1)
    else:
        graph.constant("w", weights, scales, 1)
        graph.add("MatMul", f"{x} w", "product")
        graph.add("Add", "bias product", "m")
    return weights.astype(np.int64), bias


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("form", ["Gemm", "MatMul"])
def test_dense_layers_are_sums_of_integers(form: str, relu: bool) -> None:
    graph = _Graph()
    weights, bias = _dense(graph, form)
    if relu:
        graph.add("Relu", "m", "r")
    graph.bytes_of("r" if relu else "m", _MADE, np.uint8(_MADE_ZERO), "y")
    program, x = graph.program(40), _floats(graph, 40)
    factor = _STEP * graph.constants["w_scale"]
    for each in (program, run(program)):
        (made,) = interpret.run(each, _ROWS, [x], {})
        np.testing.assert_array_equal(made, _made(_whole(x) @ weights + bias, factor, relu=relu))
    assert _opcodes(run(program)).count("quantized_dense") == 1
    assert "dense" not in _opcodes(run(program))


def test_a_note_names_the_islands_of_floats_and_nothing_else() -> None:
    graph = _Graph()
    _dense(graph, "MatMul")
    graph.add("Softmax", graph.bytes_of("m", _MADE, np.uint8(_MADE_ZERO)), "s")
    graph.bytes_of("s", np.float32(1 / 255), np.uint8(0), "y")
    (note,) = lowered(model_of(graph.nodes, (None, 40), graph.constants), []).warnings
    assert note == "results in float32, not in integers: Softmax (Softmax_of_test)"


def test_sums_of_bytes_that_become_bytes_are_no_island() -> None:
    graph = _Graph()
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.add("Add", f"{x} {x}", "sum")
    graph.add("Relu", "sum", "m")
    graph.bytes_of("m", _MADE, np.uint8(_MADE_ZERO), "y")
    assert not lowered(model_of(graph.nodes, (None, 4), graph.constants), []).warnings
    graph.nodes.pop()
    graph.add("Softmax", "m", "y")
    graph.constants |= {"unused": np.float32(0)}
    (note,) = lowered(model_of(graph.nodes, (None, 4), graph.constants), []).warnings
    assert "Add (Add_of_test)" in note and "Relu" in note


def test_of_files_with_ranges_of_each_call_a_note_names_layers_alone() -> None:
    graph = _Graph()
    weights = graph.random.integers(-127, 128, (40, 9)).astype(np.int8)
    graph.constants |= {"w": weights, "scale": np.float32(0.01), "float_w": np.ones((9, 5), np.float32)}
    graph.add("DynamicQuantizeLinear", "x", "q q_scale q_zero")
    graph.add("MatMulInteger", "q w q_zero", "sums")
    graph.add("Cast", "sums", "floats", to=1)
    graph.add("Mul", "floats q_scale", "m")
    graph.add("Relu", "m", "r")
    graph.add("MatMul", "r float_w", "y")
    (note,) = lowered(model_of(graph.nodes, (None, 40), graph.constants), []).warnings
    assert note == "results in float32, not in integers: MatMul (MatMul_of_test)"


def test_the_last_layer_may_give_floats() -> None:
    graph = _Graph()
    weights, bias = _dense(graph, "Gemm")
    graph.add("Identity", "m", "y")
    program, x = run(graph.program(40)), _floats(graph, 40)
    (made,) = interpret.run(program, _ROWS, [x], {})
    total = (_whole(x) @ weights + bias).astype(np.float32)
    np.testing.assert_array_equal(made, total * (_STEP * graph.constants["w_scale"]))
    assert _opcodes(program).count("quantized_dense") == 1


@pytest.mark.parametrize("groups", [1, 3])
def test_convolutions_are_sums_of_integers_padded_by_the_zero_point(groups: int) -> None:
    graph = _Graph()
    filters = graph.random.integers(-127, 128, (6, 3 // groups, 3, 3)).astype(np.int8)
    bias = graph.random.integers(-3000, 3000, 6).astype(np.int32)
    scales = graph.random.uniform(0.001, 0.01, 6).astype(np.float32)
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.constant("w", filters, scales, 0)
    graph.constant("bias", bias, _STEP * scales, 0)
    graph.add("Conv", f"{x} w bias", "c", pads=[1, 1, 1, 1], group=groups)
    graph.add("Relu", "c", "r")
    graph.bytes_of("r", _MADE, np.uint8(_MADE_ZERO), "y")
    program, given = graph.program(3, 5, 4), _floats(graph, 3, 5, 4)
    seen = np.pad(_whole(given), ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), axis=(2, 3))
    parts = zip(np.split(windows, groups, 1), np.split(filters.astype(np.int64), groups), strict=True)
    total = np.concatenate([np.einsum("nchwij,ocij->nohw", *part) for part in parts], 1) + bias[:, None, None]
    for each in (program, run(program)):
        (made,) = interpret.run(each, _ROWS, [given], {})
        np.testing.assert_array_equal(made, _made(total, (_STEP * scales)[:, None, None], relu=True))
    assert _opcodes(run(program)).count("quantized_conv2d") == 1


def test_the_largest_of_floats_is_that_of_their_bytes() -> None:
    graph = _Graph()
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.add("MaxPool", x, "pool", kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 1, 0])
    graph.bytes_of("pool", _STEP, np.uint8(_ZERO), "y")
    program, given = run(graph.program(3, 5, 4)), _floats(graph, 3, 5, 4)
    (made,) = interpret.run(program, _ROWS, [given], {})
    whole = np.pad(_whole(given), ((0, 0), (0, 0), (0, 1), (0, 0)), constant_values=-_ZERO)
    wanted = whole.reshape(_ROWS, 3, 3, 2, 2, 2).max((3, 5)).astype(np.float32) * _STEP
    np.testing.assert_array_equal(made, wanted)
    types = [each.shape.dtype for each in program.entry.operations if each.opcode == "max_pool"]
    assert types == ["u8"] and _opcodes(program).count("quantize") == 1


def test_bytes_that_are_only_moved_are_the_same_bytes() -> None:
    graph = _Graph()
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.constants["sizes"] = np.array([-1, 6])
    graph.add("Reshape", f"{x} sizes", "flat")
    graph.bytes_of("flat", _STEP, np.uint8(_ZERO), "y")
    program, given = run(graph.program(2, 3)), _floats(graph, 2, 3)
    (made,) = interpret.run(program, _ROWS, [given], {})
    np.testing.assert_array_equal(made, _whole(given).reshape(_ROWS, 6).astype(np.float32) * _STEP)
    assert _opcodes(program).count("quantize") == 1


_MOVES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any], Callable[[Array], Array]]] = {
    "Gather": ({"i": [2, 0, 2]}, {"axis": 1}, lambda x: x[:, [2, 0, 2]]),
    "Pad": ({"i": [0, 0, 1, 0, 0, 0, 0, 2]}, {}, lambda x: np.pad(x, ((0, 0), (0, 0), (1, 0), (0, 2)))),
    "Slice": ({"i": [1], "j": [4], "k": [1]}, {}, lambda x: x[:, 1:4]),
    "Tile": ({"i": [1, 1, 2, 1]}, {}, lambda x: np.tile(x, (1, 1, 2, 1))),
    "Split": ({"i": [1, 3]}, {"axis": 1}, lambda x: x[:, :1]),
    "SpaceToDepth": (
        {},
        {"blocksize": 2},
        lambda x: x.reshape(_ROWS, 4, 1, 2, 1, 2).transpose(0, 3, 5, 1, 2, 4).reshape(_ROWS, 16, 1, 1),
    ),
    "GlobalMaxPool": ({}, {}, lambda x: x.max((2, 3), keepdims=True)),
    "Resize": (
        {"i": np.array([], np.float32), "j": np.array([1, 1, 2, 2], np.float32)},
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        lambda x: x.repeat(2, 2).repeat(2, 3),
    ),
}
"""Constants and attributes of a node, and what it does."""


@pytest.mark.parametrize("op", _MOVES)
def test_what_moves_elements_moves_bytes(op: str) -> None:
    constants, attributes, move = _MOVES[op]
    graph = _Graph()
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.constants |= {name: np.asarray(each) for name, each in constants.items()}
    graph.add(op, " ".join([x, *constants]), "m more" if op == "Split" else "m", **attributes)
    graph.bytes_of("m", _STEP, np.uint8(_ZERO), "y")
    program, given = run(graph.program(4, 2, 2)), _floats(graph, 4, 2, 2)
    (made,) = interpret.run(program, _ROWS, [given], {})
    np.testing.assert_array_equal(made, move(_whole(given)).astype(np.float32) * _STEP)
    assert _opcodes(program).count("quantize") == 1


def test_parts_of_several_scales_become_bytes_of_one_before_they_are_joined() -> None:
    graph, steps = _Graph(), (_STEP, np.float32(0.05))
    for name, step in zip("ab", steps, strict=True):
        graph.add("Identity", "x", name)
        graph.bytes_of(name, step, np.uint8(_ZERO))
    graph.add("Concat", "a_floats b_floats a_floats", "m", axis=1)
    graph.bytes_of("m", _STEP, np.uint8(_ZERO), "y")
    program, given = graph.program(3), _floats(graph, 3)
    second = np.clip(np.rint(given / steps[1]) + np.float32(_ZERO), 0, 255) - np.float32(_ZERO)
    again = np.clip(np.rint(second * steps[1] / _STEP), -_ZERO, 255 - _ZERO)
    whole = _whole(given)
    for each in (program, run(program)):
        (made,) = interpret.run(each, _ROWS, [given], {})
        np.testing.assert_array_equal(made, np.concatenate([whole, again, whole], 1).astype(np.float32) * _STEP)
    joined = [each.shape.dtype for each in program.entry.operations if each.opcode == "concatenate"]
    assert "u8" in joined and _opcodes(run(program)).count("quantize") == 3


def test_lookups_are_those_of_bytes() -> None:
    graph = _Graph()
    table = graph.random.integers(-128, 128, (20, 6)).astype(np.int8)
    graph.constant("table", table, _STEP, 0)
    graph.constants |= {"none": np.float32(0.5)}
    graph.add("Cast", "x", "index", to=7)
    graph.add("Gather", "table index", "found")
    graph.bytes_of("found", _STEP, np.int8(0), "y")
    program, given = run(graph.program(3)), graph.random.integers(0, 20, (_ROWS, 3))
    (made,) = interpret.run(program, _ROWS, [given.astype(np.float32)], {})
    np.testing.assert_array_equal(made, table[given].astype(np.float32) * _STEP)
    assert "quantize" not in _opcodes(program)


def test_the_mean_of_an_image_is_a_sum_of_integers() -> None:
    """As QLinearGlobalAveragePool of ONNX Runtime: half a step is exact, and goes to the even byte."""
    graph = _Graph()
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.add("GlobalAveragePool", x, "m")
    graph.bytes_of("m", _STEP, np.uint8(_ZERO), "y")
    program, given = graph.program(3, 4, 2), _floats(graph, 3, 4, 2)
    sums = _whole(given).sum((2, 3), keepdims=True)
    assert np.any(sums % 8 == 4)
    for each in (program, run(program)):
        (made,) = interpret.run(each, _ROWS, [given], {})
        np.testing.assert_array_equal(made, np.rint(sums / 8).astype(np.float32) * _STEP)


def test_products_of_two_arrays_of_bytes_are_those_of_integers() -> None:
    graph = _Graph()
    for name in "qk":
        graph.add("Identity", "x", name)
        graph.bytes_of(name, _STEP, np.uint8(_ZERO))
    graph.add("Transpose", "k_floats", "turned", perm=[0, 2, 1])
    graph.add("MatMul", "q_floats turned", "m")
    graph.bytes_of("m", _MADE, np.uint8(_MADE_ZERO), "y")
    program, given = graph.program(5, 16), _floats(graph, 5, 16)
    whole = _whole(given)
    total = whole @ whole.transpose(0, 2, 1)
    for each in (program, run(program)):
        (made,) = interpret.run(each, _ROWS, [given], {})
        np.testing.assert_array_equal(made, _made(total, _STEP * _STEP))


_OTHERS: Mapping[str, Mapping[str, Any]] = {
    "weights that int8 has not": {"op": "Conv", "whole": np.full((4, 4, 1, 1), 200, np.uint8), "attributes": {}},
    "weights that int8 has not, of a dense layer": {
        "op": "MatMul",
        "whole": np.full((2, 3), 200, np.uint8),
        "attributes": {},
        "axis": 1,
        "scales": 0.01,
    },
    "scales by input": {"op": "Conv", "whole": np.ones((4, 4, 1, 1), np.int8), "attributes": {}, "axis": 1},
}


@pytest.mark.parametrize("name", _OTHERS)
def test_other_layers_stay_floats(name: str) -> None:
    case, graph = _OTHERS[name], _Graph()
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    scales = case.get("scales", np.linspace(0.01, 0.02, 4))
    graph.constant("w", case["whole"], scales, case.get("axis", 0))
    graph.add(case["op"], f"{x} w", "y", **case["attributes"])
    opcodes = {*_opcodes(run(graph.program(4, 2, 2)))}
    assert opcodes.isdisjoint({"quantized_conv2d", "quantized_dense"})
    assert not opcodes.isdisjoint({"conv2d", "convolution", "dense"})


def test_a_bias_of_another_scale_is_added_to_floats() -> None:
    graph = _Graph()
    weights, bias = graph.random.integers(-127, 128, (40, 9)).astype(np.int8), np.arange(9, dtype=np.float32) / 3
    x = graph.bytes_of("x", _STEP, np.uint8(_ZERO))
    graph.constant("w", weights, np.float32(0.01), 0)
    graph.constants["bias"] = bias
    graph.add("Gemm", f"{x} w bias", "y")
    program, given = run(graph.program(40)), _floats(graph, 40)
    (made,) = interpret.run(program, _ROWS, [given], {})
    product = (_whole(given) @ weights.astype(np.int64)).astype(np.float32) * (_STEP * np.float32(0.01))
    np.testing.assert_array_equal(made, product + bias)
    assert _opcodes(program).count("quantized_dense") == 1


@pytest.mark.parametrize("zero", [None, 0, 100])
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_floats_become_the_nearest_number_in_range_and_nan_the_lowest(dtype: str, zero: int | None) -> None:
    ends, graph = np.iinfo(dtype), _Graph()
    if zero is None and dtype != "uint8":
        graph.add("QuantizeLinear", "x s", "q", output_dtype={"int8": 3, "uint16": 4, "int16": 5}[dtype])
    else:
        graph.add("QuantizeLinear", "x s" if zero is None else "x s z", "q")
    graph.constants |= {"s": np.float32(0.5), "z": np.array(zero or 0, dtype)}
    graph.add("Cast", "q", "y", to=1)
    edges = [np.nan, np.inf, -np.inf, 1e30, -1e30, 0.25, -0.25, 0.75, -0.0, ends.min / 2 - 0.25, ends.max / 2 + 0.25]
    x = np.concatenate([np.array(edges, np.float32), _floats(graph, 3).ravel() * 40])[:, None]
    (made,) = interpret.run(run(graph.program(1)), len(x), [x], {})
    with np.errstate(invalid="ignore"):
        wanted = np.clip(np.rint(x.astype(np.float64) / 0.5) + (zero or 0), ends.min, ends.max)
    np.testing.assert_array_equal(made, np.where(np.isnan(x), ends.min, wanted))
