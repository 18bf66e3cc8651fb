"""Calibration: the scales of bytes, what layers cost alone, and which become float32 until the bars hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from tests.compiler.test_quantize_layers import literal, numbers, program_of, rows_of
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.calibration import Calibrated, Judged, Rows, calibrate, rounded_to, scale_of
from tfaot_pkg.compiler.passes.quantize_layers import quantize_layers
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.ground.arrays import Array


class _Bar:
    """Judges by the largest error of all outputs."""

    def __init__(self, largest: float) -> None:
        self.largest = largest

    def __call__(self, ours: Sequence[Array], theirs: Sequence[Array]) -> Judged:
        errors = np.concatenate([np.abs(a - b).ravel() for a, b in zip(ours, theirs, strict=True)]).astype(np.float64)
        return Judged(
            of_bars=float(errors.max()) / self.largest, largest=float(errors.max()), mean=float(errors.mean())
        )


def found_with(program: Program, x: Array, largest: float) -> Calibrated:
    return calibrate(program, Rows(arrays=[x], batched=[True], count=len(x)), _Bar(largest))


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (0.0, 0.7), (-5e-8, 0.0), (-1e20, 1e20)])
def test_bytes_reach_both_ends_and_have_zero(low: float, high: float) -> None:
    scale = scale_of(low, high)
    ends = np.array([low, 0.0, high])
    assert rounded_to(ends, scale)[1] == 0.0
    assert np.all(np.abs(rounded_to(ends, scale) - ends) <= scale.step)
    assert (high - low) / 255 <= scale.step <= (high - low) / 255 * (1 + 2.0**-11)
    assert float(np.float32(scale.step)) == scale.step


def test_a_value_that_is_zero_has_a_scale() -> None:
    assert scale_of(0.0, 0.0).step == 1.0
    program = program_of("dense, none")
    assert found_with(program, np.zeros((4, 3, 70), np.float32), 1.0).scales[3].step == 1.0


def test_a_rare_large_number_does_not_decide_the_scale() -> None:
    program, x = program_of("dense, none"), rows_of(program_of("dense, none"), 200)
    x[7, 1, 3] = 200.0
    found = found_with(program, x, 1e9)
    assert found.layers[0].how != "min-max" and found.scales[3].step < 0.3 * 200 / 255
    assert found_with(program, rows_of(program, 200), 1e9).scales[3].step < 0.06


def test_prices_are_the_errors_of_each_layer_alone() -> None:
    program, x = program_of("chain"), rows_of(program_of("chain"), 30)
    found = found_with(program, x, 1e9)
    (theirs,) = interpret.run(program, 30, [x])
    assert [each.operation for each in found.layers] == ["conv2d_max_pool", "conv2d", "dense", "dense"]
    for layer, price in zip((3, 5, 9, 11), found.layers, strict=True):
        (ours,) = interpret.run(quantize_layers({layer: found.scales[layer]})(program), 30, [x])
        assert price.largest == np.abs(ours - theirs).max() and price.mean == pytest.approx(
            np.abs(ours - theirs).mean()
        )
    # 8 x 8 pixels by 36 by 8, 4 x 4 by 72 by 6, and two dense layers.
    work = np.array([64 * 36 * 8, 16 * 72 * 6, 96 * 16, 160])
    np.testing.assert_allclose([each.share for each in found.layers], work / work.sum())


def test_the_layers_that_cost_most_alone_become_float32_until_the_bars_hold() -> None:
    program, x = program_of("chain"), rows_of(program_of("chain"), 30)
    free = found_with(program, x, 1e9)
    by_cost = sorted(free.layers, key=lambda each: each.largest)
    dropped = set[int]()
    for largest in np.geomspace(0.2, 1e-4, 12):
        found = found_with(program, x, float(largest))
        made = verified(quantize_layers(found.scales)(program), "quantize-layers")
        (ours,), (theirs,) = interpret.run(made, 30, [x]), interpret.run(program, 30, [x])
        assert np.abs(ours - theirs).max() <= largest
        kept = [each.compute for each in sorted(found.layers, key=lambda each: each.largest)]
        assert kept == sorted(kept, reverse=True) and len(kept) == len(by_cost)  # int8 first, then float32
        dropped.add(kept.count("float32"))
    assert {0, 4} <= dropped and len(dropped) > 2


def test_the_same_rows_give_the_same_choice() -> None:
    program, x = program_of("chain"), rows_of(program_of("chain"), 30)
    found = [dataclasses.asdict(found_with(program, x, 0.01)) for _ in range(2)]
    assert found[0] == found[1]


def test_layers_that_read_one_value_have_one_scale_and_get_bytes_of_the_layer_before() -> None:
    text = f"""%0 f32[batch,16] = parameter number=0
%1 f32[16,16] = constant literal={literal(numbers(16, 16, seed=3))}
%2 f32[batch,16] = dense %0 %1 activation=relu weights_axis=0
%3 f32[16,8] = constant literal={literal(numbers(16, 8, seed=4))}
%4 f32[batch,8] = dense %2 %3 weights_axis=0
%5 f32[16,6] = constant literal={literal(numbers(16, 6, seed=5))}
%6 f32[batch,6] = dense %2 %5 activation=tanh weights_axis=0
give %4 %6
"""
    program = verified(parse(text), "reading")
    found = found_with(program, rows_of(program, 40), 1e9)
    assert found.scales[4] == found.scales[6] != found.scales[2]
    made = quantize_layers(found.scales)(program).entry.operations
    assert [each.shape.dtype for each in made if each.opcode == "quantized_dense"] == ["u8", "s32", "s32"]


def test_a_program_without_layers_is_not_run() -> None:
    text = "%0 f32[batch,4] = parameter number=0\n%1 f32[batch,4] = tanh %0\ngive %1\n"
    program = verified(parse(text), "reading")
    assert found_with(program, np.zeros((2, 4), np.float32), 1.0) == Calibrated(scales={}, layers=())
