"""What `tune` prints of composed batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tfaot_pkg.analysis.rows import INDEPENDENT, Meeting, Rows
from tfaot_pkg.cli.tune import _costs_table
from tfaot_pkg.ground.signature import DType, Signature, Tensor

MEETING = Rows(meetings=(Meeting(output="y", node="mean", operation="reduce", reason="rows interact"),))


def _tuned(rows: Rows) -> Any:
    tensor = Tensor(name="y", dtype=DType.FLOAT32, shape=(None, 2))
    frozen = SimpleNamespace(rows=rows, signature=Signature(inputs=(tensor,), outputs=(tensor,)))
    tuning = SimpleNamespace(batch_costs={"x86-64-v3": {1: 10.0, 2: 15.0, 4: 20.0}})
    return SimpleNamespace(build=SimpleNamespace(frozen=frozen), tuning=tuning)


@pytest.mark.parametrize(("rows", "composed"), [(INDEPENDENT, True), (MEETING, False)])
def test_batches_are_composed_only_of_independent_rows(rows: Rows, composed: bool) -> None:
    lines = _costs_table(_tuned(rows), "x86-64-v3")
    assert any("rows are run as" in line for line in lines) is composed
    assert any("15" in line for line in lines)
