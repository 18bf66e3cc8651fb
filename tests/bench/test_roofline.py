"""Rooflines of networks whose sizes are known."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tfaot_pkg.analysis.program.work import Work
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.measure.bench.results import Limits, bytes_moved, least_time, sizes_read

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
        target="x86-64-v3", flops=PEAK, bandwidths=dict.fromkeys(sizes_read(work, signature, SIZES), bandwidth)
    )
    for size, expected in zip(SIZES, microseconds, strict=True):
        assert least_time(work, signature, size, limits) / 1e3 == pytest.approx(expected, rel=0.03)


def test_inputs_and_outputs_are_moved_once() -> None:
    work, signature = _dense(1000, 10)
    assert bytes_moved(work, signature, 3) == 4 * (10_000 + 3 * 1010)
