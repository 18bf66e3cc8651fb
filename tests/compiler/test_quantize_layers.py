"""Layers of bytes: compiled code gives the bits of the interpreter, and errors are those of roundings to steps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from tests.compiler.conftest import Compile, Networks
from tests.toolchains import VERSIONS
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.calibration import Judged, Rows, calibrate, rounded_to, scale_of
from tfaot_pkg.compiler.passes.pipeline import PASSES, run
from tfaot_pkg.compiler.passes.quantize_layers import Scale, quantize_layers
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.ground.arrays import Array


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(np.float32)


def literal(values: Array) -> str:
    return f"{{{','.join(map(repr, values.ravel().tolist()))}}}"


def weights(*shape: int) -> str:
    return literal(numbers(*shape) / np.float32(np.prod(shape[:-1]) ** 0.5))


def dense(inputs: int, outputs: int, activation: str, axis: int = 0) -> str:
    shape = (inputs, outputs) if axis == 0 else (outputs, inputs)
    matrix = numbers(*shape, seed=1)
    return f"""%0 f32[batch,3,{inputs}] = parameter number=0
%1 f32[{shape[0]},{shape[1]}] = constant literal={literal(matrix)}
%2 f32[{outputs}] = constant literal={literal(numbers(outputs, seed=2))}
%3 f32[batch,3,{outputs}] = dense %0 %1 %2 activation="{activation}" weights_axis={axis}
give %3
"""


CHAIN = f"""%0 f32[batch,8,8,4] = parameter number=0
%1 f32[3,3,4,8] = constant literal={weights(3, 3, 4, 8)}
%2 f32[8] = constant literal={literal(numbers(8))}
%3 f32[batch,4,4,8] = conv2d_max_pool %0 %1 %2 activation=relu window=[8,8,4,8,8,3,3,1,1,1,1,1,1] groups=1 pool=[8,8,8,4,4,2,2,2,2,1,1,0,0]
%4 f32[3,3,8,6] = constant literal={weights(3, 3, 8, 6)}
%5 f32[batch,4,4,6] = conv2d %3 %4 activation="clipped(-0x1.0p-1f, 0x1.0p+1f)" window=[4,4,8,4,4,3,3,1,1,1,1,1,1] groups=1
%6 f32[batch,6,4,4] = transpose %5 dimensions=[0,3,1,2]
%7 f32[batch,96] = reshape %6
%8 f32[96,16] = constant literal={weights(96, 16)}
%9 f32[batch,16] = dense %7 %8 activation=gelu_tanh weights_axis=0
%10 f32[16,10] = constant literal={weights(16, 10)}
%11 f32[batch,10] = dense %9 %10 weights_axis=0
give %11
"""
RESIDUAL = f"""%0 f32[batch,5,5,8] = parameter number=0
%1 f32[3,3,8,8] = constant literal={weights(3, 3, 8, 8)}
%2 f32[batch,5,5,8] = conv2d %0 %1 activation=relu window=[5,5,8,5,5,3,3,1,1,1,1,1,1] groups=1
%3 f32[1,1,8,8] = constant literal={weights(1, 1, 8, 8)}
%4 f32[3,3,8,8] = constant literal={weights(3, 3, 8, 8)}
%5 f32[batch,5,5,8] = conv2d %2 %4 window=[5,5,8,5,5,3,3,1,1,1,1,1,1] groups=1
%6 f32[batch,5,5,8] = add %5 %2
give %6
"""
ACTIVATIONS = (
    "none", "relu", "clipped(-0x1.0p+0f, kNoEnd)", "leakyRelu(0x1.0p-2f)", "elu", "swish", "gelu_erf", "gelu_tanh",
    "sigmoid", "tanh",
)  # fmt: skip
PROGRAMS = {
    **{f"dense, {each}": dense(70, 21, each) for each in ACTIVATIONS},
    "dense, transposed weights": dense(33, 16, "relu", axis=1),
    "chain": CHAIN,
    "residual": RESIDUAL,
}  # fmt: skip


def program_of(name: str) -> Program:
    return verified(parse(PROGRAMS[name]), "reading")


def rows_of(program: Program, count: int, seed: int = 5) -> Array:
    return numbers(*program.entry.parameters[0].shape.at(count, {}), seed=seed)


def scales_of(program: Program, x: Array) -> Mapping[int, Scale]:
    """Of all layers, whatever they cost."""
    found = calibrate(program, Rows(arrays=[x], batched=[True], count=len(x)), lambda *_: _FREE)
    return found.scales


_FREE = Judged(of_bars=0.0, largest=0.0, mean=0.0)


def made_of(program: Program) -> Program:
    return verified(quantize_layers(scales_of(program, rows_of(program, 40)))(program), "quantize-layers")


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_code_gives_the_interpreters_bytes(name: str, compiled: Compile) -> None:
    """To the bit, except functions like tanh, whose last digits are the kernels' own."""
    program = made_of(program_of(name))
    assert not any(each.opcode in ("dense", "conv2d", "conv2d_max_pool") for each in program.entry.operations)
    code, given = compiled(program, 8), rows_of(program, 19)
    given.ravel()[::11] *= 40  # beyond the range of the calibration
    (wanted,) = interpret.run(program, 19, [given])
    whole = code(given)[0]
    for rows in (1, 3, 19):
        np.testing.assert_array_equal(code(given[:rows])[0], whole[:rows])
    np.testing.assert_allclose(whole, wanted, rtol=3e-6, atol=1e-6)
    if name.partition(", ")[2] in ("none", "relu", "transposed weights") or name == "residual":
        np.testing.assert_array_equal(whole, wanted)


def test_layers_that_follow_one_another_exchange_bytes() -> None:
    found = made_of(program_of("chain")).entry
    kinds = {each.id: each.shape.dtype for each in found.operations}
    assert [(each.opcode, kinds[each.id]) for each in found.operations if each.opcode in _OF_BYTES] == [
        ("quantized_conv2d", "u8"), ("max_pool", "u8"), ("quantized_conv2d", "u8"), ("transpose", "u8"),
        ("reshape", "u8"), ("quantized_dense", "s32"), ("quantized_dense", "s32"),
    ]  # fmt: skip


_OF_BYTES = ("quantized_conv2d", "quantized_dense", "max_pool", "transpose", "reshape")


def test_what_is_also_read_as_floats_becomes_bytes_once() -> None:
    found = made_of(program_of("residual")).entry.operations
    assert sum(each.opcode == "quantize" for each in found) == 2  # the input, and the sum's addend
    assert [each.shape.dtype for each in found if each.opcode == "quantized_conv2d"] == ["s32", "s32"]


def test_errors_are_those_of_half_a_step_of_inputs_and_weights() -> None:
    program, x = program_of("dense, none"), rows_of(program_of("dense, none"), 50)
    scale = scale_of(float(x.min()), float(x.max()))
    made = quantize_layers({3: scale})(program)
    (found,) = interpret.run(made, 50, [x])
    matrix, bias = numbers(70, 21, seed=1).astype(np.float64), numbers(21, seed=2)
    exact = x.astype(np.float64) @ matrix + bias
    steps = np.abs(matrix).max(0) / 127
    most = scale.step / 2 * np.abs(matrix).sum(0) + np.abs(rounded_to(x, scale)).sum(-1, keepdims=True) * steps / 2
    assert np.all(np.abs(found - exact) <= most + scale.step * steps + 1e-5)
    assert np.abs(found - exact).max() > 1e-3


def test_a_large_bias_is_kept() -> None:
    text = f"""%0 f32[batch,16] = parameter number=0
%1 f32[16,5] = constant literal={literal(np.full((16, 5), 1e-6, np.float32))}
%2 f32[5] = constant literal={{1e6,-1e6,0.0,3e20,1.0}}
%3 f32[batch,5] = dense %0 %1 %2 weights_axis=0
give %3
"""
    made = quantize_layers({3: scale_of(-1.0, 1.0)})(verified(parse(text), "reading"))
    (found,) = interpret.run(made, 2, [np.ones((2, 16), np.float32)])
    np.testing.assert_allclose(found, [[1e6, -1e6, 1.6e-5, 3e20, 1.0]] * 2, rtol=scale_of(-1.0, 1.0).step / 2)
    np.testing.assert_allclose(found[:, [0, 1, 3]], [[1e6, -1e6, 3e20]] * 2, rtol=2.0**-24)


def test_layers_of_few_inputs_or_outputs_and_of_groups_stay() -> None:
    for inputs, outputs in ((15, 8), (16, 4)):
        program = verified(parse(dense(inputs, outputs, "none")), "reading")
        assert not scales_of(program, rows_of(program, 9))
    text = f"""%0 f32[batch,4,4,16] = parameter number=0
%1 f32[3,3,1,16] = constant literal={weights(3, 3, 1, 16)}
%2 f32[batch,4,4,16] = conv2d %0 %1 window=[4,4,16,4,4,3,3,1,1,1,1,1,1] groups=16
give %2
"""
    program = verified(parse(text), "reading")
    assert not scales_of(program, rows_of(program, 9))
    assert quantize_layers({})(program) is program


def test_nan_becomes_the_lowest_byte(compiled: Compile) -> None:
    program = verified(quantize_layers({3: Scale(step=0.03, zero=7)})(program_of("dense, none")), "quantize-layers")
    given = rows_of(program, 3)
    given[1, :, :5] = np.nan
    given[2, :, :5] = np.inf
    np.testing.assert_array_equal(compiled(program, 8)(given)[0], interpret.run(program, 3, [given])[0])


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
@pytest.mark.sweep("lstm", night=["images"])
@pytest.mark.parametrize("name", ["images", "lstm", "attention", "towers"])
def test_networks_keep_their_answers_roughly(networks: Networks, compiled: Compile, name: str) -> None:
    """Layers in loops too, whose inputs are seen in each iteration."""
    network = networks(VERSIONS[0], name)
    program = run(network.program, PASSES)
    found = calibrate(program, Rows(arrays=network.inputs, batched=[True] * len(network.inputs), count=17), _judge)
    assert len(found.scales) == len(found.layers) > 0
    code = compiled(verified(quantize_layers(found.scales)(program), "quantize-layers"), 8)
    for given, wanted in zip(code(*network.inputs), network.outputs, strict=True):
        assert 0 < np.abs(given - wanted).max() <= 0.05 * np.abs(wanted).max()


def _judge(ours: object, theirs: object) -> Judged:
    return _FREE
