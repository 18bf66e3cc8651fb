"""Layers whose inputs are quantized in each call: sums of bytes, beside NumPy's int64, row by row or of all rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import model_of, node
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import run
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

_ROWS = 11


def _quantized(x: Array) -> tuple[Array, Array, Array]:
    """As the standard says of DynamicQuantizeLinear."""
    low, high = np.minimum(x.min(), 0), np.maximum(x.max(), 0)
    scale = np.asarray((high - low) / np.float32(255), np.float32)
    zero = np.rint(np.clip(-low / scale, 0, 255))
    return np.clip(np.rint(x / scale) + zero, 0, 255).astype(np.int64), scale, zero.astype(np.int64)


def _each(x: Array, *, by_row: bool) -> list[Array]:
    return np.split(x, len(x)) if by_row else [x]


def _opcodes(program: Program) -> list[str]:
    return [each.opcode for each in program.entry.everything()]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("by_row", [True, False])
def test_dense_layers_sum_bytes_and_scales_are_those_of_a_row(dtype: type, by_row: bool) -> None:
    random = np.random.default_rng(5)
    weights = random.integers(-128, 128, (40, 9)) + (128 if dtype == np.uint8 else 0)
    constants = {
        "w": weights.astype(dtype),
        "w_zero": dtype(128 if dtype == np.uint8 else 0),
        "w_scale": np.float32(0.02),
    }
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"), node("MatMulInteger", "q w z w_zero", "sums"),
        node("Cast", "sums", "floats", to=1), node("Mul", "s w_scale", "factor"), node("Mul", "floats factor", "y"),
    ]  # fmt: skip
    # Rows of several steps, and of very different sizes.
    x = (random.normal(size=(_ROWS, 3, 40)) * 10.0 ** random.integers(-3, 4, (_ROWS, 1, 1))).astype(np.float32)
    program = lower(model_of(nodes, (None, 3, 40), constants, by_row=by_row))
    verify(program)
    raised, wanted = run(program), []
    for part in _each(x, by_row=by_row):
        found, scale, zero = _quantized(part)
        total = (found - zero) @ (weights - int(constants["w_zero"]))
        wanted.append(total.astype(np.float32) * (scale * np.float32(0.02)))
    for each in (program, raised):
        (made,) = interpret.run(each, _ROWS, [x], {})
        np.testing.assert_array_equal(made, np.concatenate(wanted))
    assert "quantized_dense" in _opcodes(raised) and "dense" not in _opcodes(raised)


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize(("groups", "pads"), [(1, [1, 0, 2, 1]), (4, [1, 1, 1, 1]), (1, [0, 0, 0, 0])])
def test_convolutions_sum_bytes_and_are_padded_by_the_zero_point_of_a_row(
    groups: int, pads: list[int], by_row: bool
) -> None:
    random = np.random.default_rng(8)
    filters = random.integers(-128, 128, (8, 4 // groups, 3, 3)).astype(np.int8)
    nodes = [
        node("DynamicQuantizeLinear", "x", "q s z"), node("ConvInteger", "q w z", "sums", pads=pads, group=groups),
        node("Cast", "sums", "floats", to=1), node("Mul", "floats s", "y"),
    ]  # fmt: skip
    x = random.normal(size=(_ROWS, 4, 6, 5)) * 10.0 ** random.integers(-3, 4, (_ROWS, 1, 1, 1)) + 0.5
    x = x.astype(np.float32)
    program = lower(model_of(nodes, (None, 4, 6, 5), {"w": filters}, by_row=by_row))
    verify(program)
    raised, wanted = run(program), []
    verify(raised)
    for part in _each(x, by_row=by_row):
        found, scale, zero = _quantized(part)
        seen = np.pad(found - zero, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
        windows = np.lib.stride_tricks.sliding_window_view(seen, (3, 3), axis=(2, 3))
        pairs = zip(np.split(windows, groups, 1), np.split(filters.astype(np.int64), groups), strict=True)
        total = np.concatenate([np.einsum("nchwij,ocij->nohw", *pair) for pair in pairs], 1)
        wanted.append(total.astype(np.float32) * scale)
    for each in (program, raised):
        (made,) = interpret.run(each, _ROWS, [x], {})
        np.testing.assert_array_equal(made, np.concatenate(wanted))
    assert "quantized_conv2d" in _opcodes(raised) and "conv2d" not in _opcodes(raised)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x.astype(np.float64))))


@pytest.mark.parametrize("by_row", [True, False])
def test_recurrent_layers_quantize_inputs_once_and_states_in_each_step(by_row: bool) -> None:
    random, (steps, width, units) = np.random.default_rng(6), (5, 6, 4)
    w, r = (random.integers(-127, 128, (1, each, 4 * units)).astype(np.int8) for each in (width, units))
    w_scale, r_scale = np.array([0.004], np.float32), random.uniform(0.002, 0.006, (1, 4 * units)).astype(np.float32)
    bias = (random.normal(size=(1, 8 * units)) / 5).astype(np.float32)
    constants = {
        "w": w, "r": r, "b": bias, "ws": w_scale, "wz": np.zeros(1, np.int8), "rs": r_scale,
        "rz": np.zeros((1, 4 * units), np.int8),
    }  # fmt: skip
    layer = node("DynamicQuantizeLSTM", "", "states y", domain="com.microsoft", hidden_size=units)
    layer["inputs"] = ["turned", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"]
    nodes = [node("Transpose", "x", "turned", perm=[1, 0, 2]), layer]
    x = (random.normal(size=(_ROWS, steps, width)) * 10.0 ** random.integers(-1, 2, (_ROWS, 1, 1))).astype(np.float32)
    program = lower(model_of(nodes, (None, steps, width), constants, by_row=by_row))
    verify(program)
    raised, wanted = run(program), []
    for part in _each(x, by_row=by_row):
        found, scale, zero = _quantized(part)
        given = ((found - zero) @ w[0]).astype(np.float32) * (scale * w_scale)
        state = cell = np.zeros((len(part), units))
        for step in range(steps):
            late = np.zeros((len(part), 4 * units))
            if step:  # the first states are zeros
                found, scale, zero = _quantized(state.astype(np.float32))
                late = ((found - zero) @ r[0]).astype(np.float32) * (scale * r_scale[0])
            enter, leave, forget, new = np.split(given[:, step] + late + bias.reshape(2, -1).sum(0), 4, 1)
            cell = _sigmoid(forget) * cell + _sigmoid(enter) * np.tanh(new)
            state = _sigmoid(leave) * np.tanh(cell)
        wanted.append(state)
    for each in (program, raised):
        (made,) = interpret.run(each, _ROWS, [x], {})
        # A state that lies between two steps may become the other byte: a step of 1/255 by the sum of a few weights.
        off = np.abs(np.asarray(made)[0] - np.concatenate(wanted))
        assert np.mean(off > 1e-5) < 0.1 and off.max() < 0.01
    assert _opcodes(raised).count("quantized_dense") == 2
