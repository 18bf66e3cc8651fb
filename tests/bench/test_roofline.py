"""Rooflines of networks whose sizes are known."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tfaot_pkg.analysis.program.work import Work
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.measure.bench.results import (
    Limits,
    Precision,
    Roof,
    bytes_moved,
    least_times,
    measured,
    rates_of,
    sizes_read,
)

SIZES = (1, 2, 4, 8, 16, 64, 256)
PEAK = 101e9


def _dense(*widths: int) -> tuple[Work, Signature]:
    """A chain of dense layers without biases."""
    weights = sum(a * b for a, b in pairwise(widths))
    signature = Signature(
        inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, widths[0])),),
        outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, widths[-1])),),
    )
    return Work(constant_bytes=4 * weights, operations_per_call=0.0, operations_per_row=2.0 * weights), signature


# Expected: 2 * 66304 operations at 101 GFLOP/s or 265 KB at 104 GB/s; 2 * 608256 at the same peak, 2.43 MB at 80 GB/s.
@pytest.mark.parametrize(
    ("widths", "bandwidth", "microseconds"),
    [
        ((4, 128, 128, 128, 128, 128, 2), 104e9, (2.6, 2.6, 5.3, 10.5, 21, 84, 336)),
        ((64, *[256] * 10, 8), 80e9, (30, 30, 48, 96, 193, 771, 3083)),
    ],
    ids=["5x128", "10x256"],
)
def test_small_batches_are_bound_by_reading_weights_and_large_ones_by_arithmetic(
    widths: tuple[int, ...], bandwidth: float, microseconds: tuple[float, ...]
) -> None:
    work, signature = _dense(*widths)
    limits = Limits(
        target="x86-64-v3",
        flops={"float32": PEAK},
        bandwidths=dict.fromkeys(sizes_read(work, signature, SIZES), bandwidth),
    )
    least = {size: least_times(work, {"float32": 1.0}, signature, size, limits) for size in SIZES}
    for size, expected in zip(SIZES, microseconds, strict=True):
        assert max(least[size]) / 1e3 == pytest.approx(expected, rel=0.03)
    assert Roof.of(limits, {"float32": 1.0}, least).by_reading == (1, 2)[: 1 if bandwidth > PEAK else 2]


def test_each_precision_takes_its_share_of_the_time() -> None:
    work, signature = _dense(1000, 1000)
    limits = Limits(
        target="x86-64-v4",
        flops={"float32": 100e9, "int8": 1600e9},
        bandwidths=dict.fromkeys(sizes_read(work, signature, [64]), 1e15),
    )
    # 128e6 operations, a quarter of them at 100 GFLOP/s and the others at 1,600.
    arithmetic, _ = least_times(work, {"float32": 0.25, "int8": 0.75}, signature, 64, limits)
    assert arithmetic / 1e3 == pytest.approx(320 + 60)


def test_products_of_parts_have_a_third_and_a_sixth_of_the_rate_of_bfloat16() -> None:
    assert measured(["float32x3", "bfloat16", "float64"]) == ("bfloat16", "float64")
    rates: dict[Precision, float] = {"bfloat16": 6e12, "float64": 1e9}
    found = rates_of(["float32x3", "float32x6", "bfloat16", "float64"], rates)
    assert found == {"float32x3": 2e12, "float32x6": 1e12, "bfloat16": 6e12, "float64": 1e9}


def test_inputs_and_outputs_are_moved_once() -> None:
    work, signature = _dense(1000, 10)
    assert bytes_moved(work, signature, 3) == 4 * (10_000 + 3 * 1010)
