"""Real Dask clusters of two worker processes."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
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
from tfaot_pkg.nightly.dask_executor import DaskExecutor, perform_here
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
    """Kills one worker, which is at work, when a build has ended."""

    killed: int = 0

    def built(self, decision: Decision, attempt: Attempt) -> None:
        super().built(decision, attempt)
        # The next build is on its way to a worker. On a busy machine all that were may have ended: then after the next.
        end = time.monotonic() + 5
        while not self.killed and time.monotonic() < end:
            for process, worker in builds_below(os.getpid(), STUB):
                if kill_worker_of(process, worker):
                    self.killed = worker
                    break
            else:
                time.sleep(0.01)


DASK_TEXT = r"(?<=does not answer)( any more)?: [^\n]*"
"""Words of Dask's own: how it loses a connection differs between versions, and from one time to the next."""


def test_a_lost_worker_costs_only_what_was_in_flight(tmp_path: Path) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(8)]
    watch = Killer()

    night = coordinator(
        tmp_path, home_of(tmp_path), watch=watch, program=stub(2),
        executor=lambda _: DaskExecutor(slots=2, memory=2**30, scratch=tmp_path / "dask"),
    ).run(lambda: decisions)  # fmt: skip
    assert watch.killed
    assert night.exit_code == 0, night.outcomes
    assert Counter(outcome.attempts for outcome in night.outcomes) == {1: 7, 2: 1}
    assert len(FolderRegistry.open(tmp_path / "registry").names()) == 8


@contextmanager
def cluster(folder: Path, *, broken: int = 0) -> Iterator[tuple[Path, int]]:
    """A scheduler and two workers of their own, as someone else runs them; the scheduler's file and process.

    `broken` more workers fail each build at once.
    """
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file), "--nthreads", "1"]
    commands = [[*dask, "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file)], worker, worker]
    with (folder / "dask.log").open("wb") as log:
        processes = [subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) for command in commands]
        worse = {**os.environ, "LANG": "broken"}
        processes += [subprocess.Popen(worker, cwd=folder, stdout=log, stderr=log, env=worse) for _ in range(broken)]
    try:
        _wait_for(file, processes[0])
        yield file, processes[0].pid
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def _wait_for(file: Path, scheduler: subprocess.Popen[bytes]) -> None:
    """Limits of time in tests are for a lost scheduler, and not for Python's start on a busy machine."""
    while not file.exists() and scheduler.poll() is None:
        time.sleep(0.05)


def test_a_cluster_that_runs_already_is_used_by_its_scheduler_file(tmp_path: Path) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(4)]
    with cluster(tmp_path) as (file, _):
        night = coordinator(
            tmp_path, home_of(tmp_path), program=stub(0.1),
            executor=lambda _: DaskExecutor(scheduler_file=file, scratch=tmp_path / "dask"),
        ).run(lambda: decisions)  # fmt: skip
    assert night.counts == {"published": 4}


def test_broken_workers_cost_no_model_its_package_and_are_named(tmp_path: Path) -> None:
    """A worker that fails at once is free at once: it would get most builds of the night, and all their retries."""
    decisions = [stub_decision(f"model{number}") for number in range(20)]
    watch = Seen()
    with cluster(tmp_path, broken=1) as (file, _):
        executor = DaskExecutor(scheduler_file=file, scratch=tmp_path / "dask")
        while len(executor.workers()) < 3:  # else the sound ones may have built all before it comes
            executor.look()
        night = coordinator(
            tmp_path, home_of(tmp_path), watch=watch, program=stub(0.3), executor=lambda _: executor, pause=0.5
        ).run(lambda: decisions)
    assert night.counts == {"published": 20}
    (worker,) = watch.excluded_
    assert {one.worker for one in watch.built_} == set(executor.workers()) - {worker}
    assert json.loads((night.night.folder / "night.json").read_text())["excluded"] == watch.excluded_


def test_a_lost_scheduler_ends_the_night_and_costs_only_what_was_in_flight(tmp_path: Path) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(6)]
    with cluster(tmp_path) as (file, scheduler):

        class Killer(Seen):
            def built(self, decision: Decision, attempt: Attempt) -> None:
                super().built(decision, attempt)
                if len(self.built_) == 2:
                    os.kill(scheduler, signal.SIGKILL)

        night = coordinator(
            tmp_path, home_of(tmp_path), watch=Killer(), program=stub(0.5),
            executor=lambda _: DaskExecutor(scheduler_file=file, scratch=tmp_path / "dask", timeout=8.0),
        )  # fmt: skip
        with reported(NetworkError, varies=DASK_TEXT):
            night.run(lambda: decisions)
    seen = Seen()
    night = coordinator(tmp_path, home_of(tmp_path), watch=seen, program=stub(0.1))
    assert night.run(lambda: decisions).counts == {"published": 6}
    ((_, published),) = seen.begun
    assert published + sum(seen.stored_) >= 2


def test_a_worker_that_does_not_see_the_state_folder_says_so_and_who_it_is(tmp_path: Path) -> None:
    request = Request(
        decision=stub_decision("model"), night="n", state=tmp_path / "elsewhere", log=tmp_path / "log",
        cache=tmp_path, policy=Policy(), program=("/no/such/program",),
    )  # fmt: skip
    attempt = perform_here(request)
    assert (attempt.kind, attempt.error_class) == ("infrastructure failed", "no common folder")
    assert f"there is no {tmp_path}/elsewhere on this worker" in attempt.error and platform.node() in attempt.builder


@contextmanager
def scheduler(folder: Path) -> Iterator[Path]:
    """A scheduler without workers; its file."""
    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    with (folder / "dask.log").open("wb") as log:
        argv = [*command, "--no-dashboard", "--scheduler-file", str(file)]
        process = subprocess.Popen(argv, cwd=folder, stdout=log, stderr=log)
    try:
        _wait_for(file, process)
        yield file
    finally:
        process.terminate()
        process.wait()


def test_a_cluster_without_workers_is_told_apart(tmp_path: Path) -> None:
    with scheduler(tmp_path) as file, closing(DaskExecutor(scheduler_file=file, scratch=tmp_path / "dask")) as executor:
        assert executor.description.startswith("as soon as there are workers, on Dask, tcp://127.0.0.1:")


def test_a_night_that_gets_no_worker_ends_and_says_so(tmp_path: Path) -> None:
    notes: list[str] = []
    with scheduler(tmp_path) as file:
        night = coordinator(
            tmp_path, home_of(tmp_path), program=stub(0),
            executor=lambda _: DaskExecutor(
                scheduler_file=file, scratch=tmp_path / "dask", worker_wait=3, note=notes.append
            ),
        )  # fmt: skip
        with reported(NetworkError):
            night.run(lambda: [stub_decision("one")])
    assert len(notes) == 1 and "waiting for one for 3 s" in notes[0]
    again = coordinator(tmp_path, home_of(tmp_path), program=stub(0)).run(lambda: [stub_decision("one")])
    assert again.counts == {"published": 1}


def test_workers_that_come_late_are_all_used(tmp_path: Path) -> None:
    """Three come while the one that was there is held up by a build that waits for the others."""
    command = [sys.executable, "-m", "distributed.cli.dask_worker", "--nthreads", "1", "--scheduler-file"]
    with scheduler(tmp_path) as file, (tmp_path / "workers.log").open("wb") as log, ExitStack() as started:

        def start() -> None:
            process = subprocess.Popen([*command, str(file)], cwd=tmp_path, stdout=log, stderr=log)
            started.callback(process.wait)
            started.callback(process.terminate)

        class Late(Seen):
            def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
                for _ in range(3):
                    start()

        start()
        night = coordinator(
            tmp_path, home_of(tmp_path), watch=Late(), program=stub(0),
            executor=lambda _: DaskExecutor(scheduler_file=file, scratch=tmp_path / "dask"),
        ).run(lambda: [stub_decision(f"meet4_{number}") for number in range(4)])  # fmt: skip
    assert night.counts == {"published": 4}
    assert {one.attempts for one in night.outcomes} == {1}


def test_builds_that_run_when_a_night_is_interrupted_end_with_its_cluster_and_say_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "state").mkdir()  # as each night has one
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


def test_a_scheduler_that_is_not_there_is_told(tmp_path: Path) -> None:
    with reported(NetworkError, varies=DASK_TEXT):
        with closing(DaskExecutor(scheduler="tcp://127.0.0.1:1", scratch=tmp_path, timeout=1.0)):
            pass


def test_a_scheduler_file_that_does_not_come_is_told(tmp_path: Path) -> None:
    with reported(NetworkError):
        with closing(DaskExecutor(scheduler_file=tmp_path / "none.json", scratch=tmp_path, timeout=1.0)):
            pass
