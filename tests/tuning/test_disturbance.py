"""Costs are written on a quiet machine only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.measure.tuning import measure
from tfaot_pkg.measure.tuning.measure import Wanted, disturbance
from tfaot_pkg.verify import latency
from tfaot_pkg.verify.latency import Latency, TimedUnit, Timer, latency_of

QUIET = [100.0, 101.0, 99.0, 100.0, 400.0]  # one round of five was disturbed
DISTURBED = [100.0, 160.0, 90.0, 240.0, 130.0]


def _measured(times: Sequence[float]) -> tuple[Latency, ...]:
    return (latency_of(TimedUnit(library=Path("library"), target="t", batch_size=1), times),)


def _costs(monkeypatch: pytest.MonkeyPatch, wanted: Wanted, *tries: Sequence[float]) -> object:
    left = iter(tries)
    monkeypatch.setattr(latency, "measure", lambda *_: _measured(next(left)))
    return measure.measure_costs(Path("library"), Timer(program=Path("none")), ["t"], wanted, Silent())


def test_a_machine_that_others_use_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with reported(RunError):
        _costs(monkeypatch, Wanted(), DISTURBED, DISTURBED, DISTURBED)


def test_it_is_tried_again_before(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _costs(monkeypatch, Wanted(), DISTURBED, DISTURBED, QUIET) == {"t": {1: 100.0}}


def test_who_asks_for_it_gets_such_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _costs(monkeypatch, Wanted(noise=True), DISTURBED) == {"t": {1: 130.0}}


def test_one_batch_size_alone_does_not_count() -> None:
    assert disturbance([*_measured(QUIET), *_measured(QUIET), *_measured(DISTURBED)]) == pytest.approx(0.0148, abs=1e-4)
