"""QONNX's operators, beside the formulas of its documentation in NumPy, and layers of them beside sums in int64."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import Node, document, node
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import run
from tfaot_pkg.compiler.program import Program, Unsupported
from tfaot_pkg.frontends.onnx_lowering.ends import lowered
from tfaot_pkg.frontends.onnx_lowering.graph import Model, read
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.from_onnx.graphs import QONNX

_ROWS = 40
_EDGES = [0.0, -0.0, 0.25, -0.25, 0.75, 1e-45, -1e-38, 3.4e38, -3.4e38, math.inf, -math.inf, math.nan]


class _Graph:
    """Nodes from x to y, and the constants that they read."""

    def __init__(self, version: int = 1) -> None:
        self.random = np.random.default_rng(5)
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self._version = version

    def constant(self, values: Any, dtype: str = "f4") -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(values, dtype)
        return name

    def add(self, op: str, inputs: str, output: str, **attributes: Any) -> str:
        self.nodes.append(node(op, inputs, output, **attributes))
        return output

    def quant(self, x: str, scale: Any, bits: float, output: str, *, zero: float = 0, **attributes: Any) -> str:
        parts = f"{self.constant(scale)} {self.constant(zero)} {self.constant(bits)}"
        given = {"signed": 1, "narrow": 0, "rounding_mode": "ROUND", **attributes}
        return self.add("Quant", f"{x} {parts}", output, domain=QONNX, **given)

    def model(self, *sizes: int) -> Model:
        made = document(self.nodes, self.constants, (None, *sizes))
        made["opsets"][QONNX] = self._version
        return read(json.dumps(made).encode(), self.constants)

    def program(self, *sizes: int) -> Program:
        return lower(self.model(*sizes))


def _answers(program: Program, x: Array) -> Array:
    with np.errstate(all="ignore"):
        (made,) = interpret.run(program, len(x), [x], {})
    return np.asarray(made)


def _floats(sizes: tuple[int, ...], *, edges: bool = True) -> Array:
    random = np.random.default_rng(3)
    x = (random.normal(size=(_ROWS, *sizes)) * 3).astype(np.float32)
    x[: _ROWS // 2] = np.rint(x[: _ROWS // 2] * 8) / 8  # between two steps, for steps of 1/4
    if edges:
        x.reshape(-1)[: len(_EDGES)] = _EDGES
    return x


_ROUNDED: Mapping[str, Callable[[Array], Array]] = {
    "ROUND": np.rint,
    "half_even": np.rint,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.trunc,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + np.float32(0.5)),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - np.float32(0.5)),
}


@pytest.mark.parametrize("mode", _ROUNDED)
@pytest.mark.parametrize(
    ("bits", "signed", "narrow", "zero", "ends"),
    [
        (4, 1, 0, 0, (-8, 7)),
        (4, 1, 1, -2, (-7, 7)),
        (3, 0, 0, 0, (0, 7)),
        (3, 0, 1, 5, (0, 6)),
        (12, 1, 0, 0.5, (-2048, 2047)),
    ],
)
def test_quantizers_have_the_bits_of_their_formula(
    mode: str, bits: float, signed: int, narrow: int, zero: float, ends: tuple[int, int]
) -> None:
    graph, scale = _Graph(), np.array([0.25, 0.3, 1.7], np.float32)
    graph.quant("x", scale, bits, "y", zero=zero, signed=signed, narrow=narrow, rounding_mode=mode)
    x = _floats((3,))
    with np.errstate(all="ignore"):
        moved = x / scale + np.float32(zero)
        whole = _ROUNDED[mode](np.clip(moved, np.float32(ends[0]), np.float32(ends[1])))
        wanted = (whole - np.float32(zero)) * scale
    for program in (graph.program(3), run(graph.program(3))):
        np.testing.assert_array_equal(_answers(program, x), wanted)


def test_one_bit_is_a_sign() -> None:
    graph, x = _Graph(), _floats((3,))
    graph.add("BipolarQuant", f"x {graph.constant([0.5, 0.3, 2])}", "b", domain=QONNX)
    graph.quant("b", 0.25, 1, "y", narrow=1)
    np.testing.assert_array_equal(_answers(graph.program(3), x), np.where(x >= 0, 0.25, -0.25).astype(np.float32))


@pytest.mark.parametrize("version", [1, 2])
def test_trunc_drops_low_bits(version: int) -> None:
    graph, x = _Graph(version), _floats((3,), edges=False)
    graph.quant("x", 0.25, 8, "q")
    more = (8, 6) if version == 1 else (8, 1.0, 4)
    parts = " ".join(graph.constant(each) for each in (0.25, 0.0, *more))
    graph.add("Trunc", f"q {parts}", "y", domain=QONNX, rounding_mode="FLOOR")
    whole = np.clip(np.rint(x / np.float32(0.25)), -128, 127)
    few = np.floor(whole / 4)
    # Version 1 keeps the scale, version 2 has the new one and bounds.
    wanted = few * 0.25 if version == 1 else np.clip(few, -8, 7)
    np.testing.assert_array_equal(_answers(graph.program(3), x), wanted.astype(np.float32))


def _opcodes(program: Program) -> list[str]:
    return [each.opcode for each in program.entry.operations]


@pytest.mark.parametrize("mode", ["ROUND", "FLOOR"])
def test_layers_of_few_bits_are_sums_of_integers(mode: str) -> None:
    graph = _Graph()
    weights = graph.random.integers(-15, 16, (12, 30))
    scales = graph.random.uniform(0.01, 0.03, (12, 1)).astype(np.float32)
    graph.quant("x", 0.0625, 8, "q", zero=3)
    graph.quant(graph.constant(weights * scales), scales, 5, "w", narrow=1)
    graph.add("Transpose", "w", "t", perm=[1, 0])
    graph.add("MatMul", "q t", "m")
    graph.add("Relu", "m", "r")
    graph.quant("r", 0.17, 6, "y", signed=0, rounding_mode=mode)
    x = _floats((30,), edges=False)
    whole = np.clip(np.rint(x * 16) + 3, -128, 127).astype(np.int64) - 3
    sums = np.maximum(whole @ weights.T, 0).astype(np.float32)
    factor = (np.float32(0.0625) * scales[:, 0]) / np.float32(0.17)
    wanted = np.clip(_ROUNDED[mode](sums * factor), 0, 63) * np.float32(0.17)
    program = graph.program(30)
    for each in (program, run(program)):
        np.testing.assert_array_equal(_answers(each, x), wanted)
    assert _opcodes(run(program)).count("quantized_dense") == 1
    assert "dense" not in _opcodes(run(program))
    assert not lowered(graph.model(30), []).warnings


def test_biases_that_are_multiples_of_the_products_scale_are_integers() -> None:
    graph = _Graph()
    weights, bias = graph.random.integers(-15, 16, (30, 12)), graph.random.integers(-900, 900, 12)
    graph.quant("x", 0.0625, 8, "q")
    graph.quant(graph.constant(weights / 32), 2.0**-5, 5, "w", narrow=1)
    graph.add("MatMul", "q w", "m")
    graph.add("Add", f"{graph.constant(bias * 2.0**-8)} m", "y")
    x = _floats((30,), edges=False)
    whole = np.clip(np.rint(x * 16), -128, 127).astype(np.int64)
    program = run(graph.program(30))
    np.testing.assert_array_equal(_answers(program, x), (whole @ weights + 2 * bias) / 512)
    assert _opcodes(program).count("quantized_dense") == 1
    assert _opcodes(program).count("add") == 1  # the zero point of the input


def test_bytes_stay_bytes_where_they_are_moved_joined_and_cut_at_zero() -> None:
    graph = _Graph()
    filters = graph.random.integers(-15, 16, (4, 6, 2))
    graph.quant("x", 0.25, 6, "q")
    graph.add("Relu", "q", "r")
    graph.add("Concat", "q r", "j", axis=1)
    graph.add("MaxPool", "j", "p", kernel_shape=[2], strides=[2])
    graph.quant(graph.constant(filters / 32), 2.0**-5, 5, "w", narrow=1)
    graph.add("Conv", "p w", "y", kernel_shape=[2])
    x = _floats((3, 8), edges=False)
    whole = np.clip(np.rint(x * 4), -32, 31).astype(np.int64)
    joined = np.concatenate([whole, np.maximum(whole, 0)], 1).reshape(_ROWS, 6, 4, 2).max(3)
    windows = np.stack([joined[:, :, place : place + 2] for place in range(3)], 2)
    program = run(graph.program(3, 8))
    np.testing.assert_array_equal(_answers(program, x), np.einsum("nipk,oik->nop", windows, filters) / 128)
    assert "quantized_conv2d" in _opcodes(program)


def test_a_note_names_what_is_computed_in_floats() -> None:
    graph = _Graph()
    graph.quant("x", 0.25, 8, "q")
    graph.add("MatMul", f"q {graph.constant(graph.random.normal(size=(3, 3)))}", "m")
    graph.quant("m", 0.25, 8, "y")
    assert lowered(graph.model(3), []).warnings == ("results in float32, not in integers: MatMul (MatMul_of_test)",)


@pytest.mark.parametrize(
    ("attributes", "bits", "message"),
    [
        ({"rounding_mode": "STOCHASTIC"}, 4, "Quant (node 'Quant_of_test', opset 1): the rounding mode 'STOCHASTIC'"),
        ({}, 0, "0.0 bits"),
        ({}, 65, "65.0 bits"),
    ],
)
def test_forms_that_qonnx_does_not_have_are_refused(attributes: dict[str, Any], bits: float, message: str) -> None:
    graph = _Graph()
    graph.quant("x", 0.25, bits, "y", **attributes)
    with pytest.raises(Unsupported) as caught:
        graph.program(3)
    assert message in str(caught.value)


def test_operators_that_have_no_lowering_are_named() -> None:
    graph = _Graph()
    graph.add("FloatQuant", "x", "y", domain=QONNX)
    with pytest.raises(Unsupported, match=r"qonnx.custom_op.general.FloatQuant .*: this operator is not supported"):
        graph.program(3)
