"""Costs of batch sizes: the estimate has the properties that composing needs, and measurements go before it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfaot_pkg.analysis.program.work import Work
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.batching.costs import batch_costs, estimated_cost
from tfaot_pkg.spec.types import Tuning

V2, V3, V4 = (TARGETS[f"x86-64-v{level}"] for level in (2, 3, 4))
SIZES = (1, 2, 4, 8, 16)
SIGNATURE = Signature(
    inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 8)),),
    outputs=(Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2)),),
)
WORK = Work(constant_bytes=200_000, operations_per_call=10.0, operations_per_row=1_000_000.0)
WORKS = st.builds(
    Work,
    constant_bytes=st.integers(0, 10**12),
    operations_per_call=st.floats(0, 1e15),
    operations_per_row=st.floats(0, 1e15),
)
TARGET = st.sampled_from(sorted(TARGETS.values(), key=lambda target: target.name))


def _tuned(**rows: Mapping[int, float]) -> list[list[float]]:
    """The costs of v2, v3 and v4 with a tuning of `v3={1: ...}`."""
    tuning = Tuning(model="m", batch_costs={f"x86-64-{name}": row for name, row in rows.items()})
    return [batch_costs(SIZES, each, work=WORK, signature=SIGNATURE, tuning=tuning) for each in (V2, V3, V4)]


ESTIMATES = {
    each.name: [estimated_cost(n, each, work=WORK, signature=SIGNATURE) for n in SIZES] for each in (V2, V3, V4)
}


@given(work=WORKS, target=TARGET, size=st.integers(1, 65_535))
def test_an_estimate_is_finite_positive_and_never_less_for_more_rows(work: Work, target: object, size: int) -> None:
    costs = [estimated_cost(n, target, work=work, signature=SIGNATURE) for n in (size, size + 1)]  # type: ignore[arg-type]
    assert all(math.isfinite(cost) and cost > 0 for cost in costs)
    assert costs[0] <= costs[1]


@given(work=WORKS, size=st.integers(1, 32_768))
def test_one_run_of_twice_the_size_never_costs_more_than_two_runs(work: Work, size: int) -> None:
    once, twice = (estimated_cost(n, V3, work=work, signature=SIGNATURE) for n in (size, 2 * size))
    assert twice <= 2 * once * (1 + 1e-5)


@given(work=WORKS, size=st.integers(1, 65_536))
def test_wider_vectors_never_cost_more(work: Work, size: int) -> None:
    costs = [estimated_cost(size, target, work=work, signature=SIGNATURE) for target in (V2, V3, V4)]
    assert costs == sorted(costs, reverse=True)


def test_the_estimate_is_the_documented_formula() -> None:
    computing = Work(constant_bytes=0, operations_per_call=0.0, operations_per_row=3_200_000.0)
    assert estimated_cost(2, V3, work=computing, signature=SIGNATURE) == 50 + 2 * 3_200_000 / (4 * 8)
    reading = Work(constant_bytes=3_200_000, operations_per_call=0.0, operations_per_row=1_000_000.0)
    assert estimated_cost(1, V3, work=reading, signature=SIGNATURE) == pytest.approx(
        50 + (3_200_000 + 40) / 32, rel=1e-5
    )


def test_a_table_counts_only_as_far_as_it_is_looked_up() -> None:
    table = Work(constant_bytes=10**9, operations_per_call=0.0, operations_per_row=64.0)
    assert estimated_cost(1, V3, work=table, signature=SIGNATURE) < 100


def test_without_measurements_costs_are_the_estimates() -> None:
    for tuning in (None, Tuning(model="m"), Tuning(model="m", batch_costs={"aarch64": {1: 1.0}, "x86-64-v3": {}})):
        assert batch_costs(SIZES, V3, work=WORK, signature=SIGNATURE, tuning=tuning) == ESTIMATES["x86-64-v3"]


def test_what_was_measured_is_taken_as_it_is() -> None:
    row = {1: 812.25, 2: 1200.0, 4: 2100.125, 8: 4000.0, 16: 7900.0, 32: 1.0}
    assert _tuned(v3=row)[1] == [812.25, 1200.0, 2100.125, 4000.0, 7900.0]


def test_sizes_that_were_not_measured_follow_the_estimate_scaled_as_their_neighbours() -> None:
    estimates = ESTIMATES["x86-64-v3"]
    row = _tuned(v3={2: 2 * estimates[1], 8: 4 * estimates[3]})[1]
    assert row == pytest.approx([s * e for s, e in zip((2, 2, 3, 4, 4), estimates, strict=True)], rel=1e-5)


def test_targets_that_were_not_measured_follow_the_nearest_one_that_was() -> None:
    v2, v3, v4 = _tuned(v2={1: 3 * ESTIMATES["x86-64-v2"][0]}, v4={1: 5 * ESTIMATES["x86-64-v4"][0]})
    assert v2 == pytest.approx([3 * cost for cost in ESTIMATES["x86-64-v2"]], rel=1e-5)
    assert v3 == pytest.approx([3 * cost for cost in ESTIMATES["x86-64-v3"]], rel=1e-5)  # of two, the lower one
    assert v4 == pytest.approx([5 * cost for cost in ESTIMATES["x86-64-v4"]], rel=1e-5)


def test_measurements_of_another_architecture_say_nothing() -> None:
    assert _tuned(v3={1: 1e9})[0] != ESTIMATES["x86-64-v2"]
    aarch64 = TARGETS["aarch64"]
    tuning = Tuning(model="m", batch_costs={"x86-64-v3": {1: 1e9}})
    costs = batch_costs(SIZES, aarch64, work=WORK, signature=SIGNATURE, tuning=tuning)
    assert costs == [estimated_cost(n, aarch64, work=WORK, signature=SIGNATURE) for n in SIZES]
