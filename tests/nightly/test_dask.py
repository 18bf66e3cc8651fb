"""Real Dask clusters of two worker processes."""

from __future__ import annotations

import os
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.nightly.nights import (
    STUB,
    Seen,
    builds_below,
    coordinator,
    ends,
    home_of,
    kill_worker_of,
    stub,
    stub_decision,
)
from tests.wording import reported
from tfaot_pkg.errors import NetworkError
from tfaot_pkg.nightly.dask_executor import DaskExecutor
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.types import Decision, Policy
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = [
    pytest.mark.sweep(
        "test_a_lost_worker_costs_only_what_was_in_flight", "test_a_cluster_of_our_own_that_does_not_start_is_told"
    ),
    pytest.mark.slow,
    pytest.mark.timeout(600),
]


class Killer(Seen):
    """Kills one worker, which is at work, when the first build has ended."""

    killed: int = 0

    def built(self, decision: Decision, attempt: Attempt) -> None:
        super().built(decision, attempt)
        while not self.killed:
            for process, worker in builds_below(os.getpid(), STUB):
                if kill_worker_of(process, worker):
                    self.killed = worker
                    break
            else:
                time.sleep(0.01)  # the next build is on its way to a worker


def test_a_lost_worker_costs_only_what_was_in_flight(tmp_path: Path) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(8)]
    watch = Killer()

    night = coordinator(
        tmp_path, home_of(tmp_path), watch=watch, program=stub(0.5),
        executor=lambda _: DaskExecutor(slots=2, memory=2**30, scratch=tmp_path / "dask"),
    ).run(lambda: decisions)  # fmt: skip
    assert watch.killed
    assert night.exit_code == 0, night.outcomes
    assert Counter(outcome.attempts for outcome in night.outcomes) == {1: 7, 2: 1}
    assert len(FolderRegistry.open(tmp_path / "registry").names()) == 8


def test_builds_that_run_when_a_night_is_interrupted_end_with_its_cluster_and_say_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    executor = DaskExecutor(slots=3, memory=2**30, scratch=tmp_path / "dask")
    for number in range(3):
        request = Request(
            decision=stub_decision(f"model{number}"), night="2026-11-21.1", state=tmp_path / "state",
            log=tmp_path / "log", cache=tmp_path, policy=Policy(), program=stub(600),
        )  # fmt: skip
        executor.submit(request)
    while len(builds := builds_below(os.getpid(), STUB)) < 3:
        time.sleep(0.01)
    executor.close()
    assert all(ends(process) for process, _ in builds)
    assert capfd.readouterr().err == ""


def test_a_cluster_of_our_own_that_does_not_start_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with reported(NetworkError):
        DaskExecutor(slots=1, memory=2**30, scratch=tmp_path / "file" / "dask")
