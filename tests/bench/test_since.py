"""Which differences between two runs are real: rounds drawn from distributions whose medians are known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.made import LITERT, OURS, bench, row
from tfaot_pkg.cli.bench import _text as text
from tfaot_pkg.measure.bench.results import Bench
from tfaot_pkg.measure.bench.table import Verdict, compare

ROUNDS = 15


def _run(seed: int, *, ours: float = 1000.0, machine: float = 1.0, noise: float = 0.02, cpu: str = "a CPU") -> Bench:
    """A run whose engines take these nanoseconds, times `machine`, with normal noise."""
    random = np.random.default_rng(seed)

    def rounds(mean: float) -> dict[int, list[float]]:
        return {n: list(machine * n * mean * random.normal(1.0, noise, ROUNDS)) for n in (1, 4)}

    peers = [row(name, rounds(2000.0)) for name in (LITERT, "onnxruntime", "openvino", "iree")]
    return bench(row(OURS, rounds(ours)), *peers, roof={1: 500.0 * machine, 4: 2000.0 * machine}, cpu=cpu)


def _ours(new: Bench, old: Bench) -> list[Verdict]:
    return [change.verdict for change in compare(new, old).changes if change.engine == OURS]


@pytest.mark.parametrize("seed", range(8))
def test_noise_alone_is_no_change(seed: int) -> None:
    found = compare(_run(2 * seed), _run(2 * seed + 1))
    assert {change.verdict for change in found.changes} == {"same"} and not found.slower


@pytest.mark.parametrize(("ours", "verdict"), [(1150.0, "slower"), (850.0, "faster")])
def test_what_is_beyond_the_noise_is_told(ours: float, verdict: Verdict) -> None:
    found = compare(_run(1, ours=ours), _run(2))
    assert _ours(_run(1, ours=ours), _run(2)) == [verdict, verdict]
    for change in found.changes[:2]:
        assert change.low < ours / 1000.0 < change.high
    assert bool(found.slower) == (verdict == "slower")


def test_a_slower_machine_is_not_a_slower_library() -> None:
    found = compare(_run(1, machine=1.4), _run(2))
    assert found.machine == pytest.approx(1.4, rel=0.02)
    assert {change.verdict for change in found.changes} == {"same"}


def test_a_library_that_became_slower_with_its_machine_is_found() -> None:
    assert _ours(_run(1, ours=1200.0, machine=0.8), _run(2)) == ["slower", "slower"]


def test_much_noise_hides_a_small_change() -> None:
    assert _ours(_run(1, ours=1040.0, noise=0.3), _run(2, noise=0.3)) == ["same", "same"]


def test_a_small_change_without_noise_is_within_the_tolerance() -> None:
    assert _ours(_run(1, ours=1020.0, noise=0.001), _run(2, noise=0.001)) == ["same", "same"]


def test_only_what_both_runs_have_is_compared_and_another_cpu_is_told() -> None:
    old = _run(1, cpu="another CPU")
    found = compare(bench(row(OURS, {1: [1000.0], 16: [9000.0]})), old)
    assert [(change.engine, change.batch_size) for change in found.changes] == [(OURS, 1)]
    assert not found.same_machine


def test_a_run_with_nothing_of_the_earlier_one_is_told() -> None:
    new, old = bench(row(OURS, {16: [9000.0]})), bench(row(OURS, {1: [1000.0]}))
    assert "nothing to compare" in text(new, compare(new, old), [])
