"""Which workers get no builds, and whose failures count against a task."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from tests.nightly.nights import stub_decision
from tfaot_pkg.nightly.executors import Done, attempts
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.standing import Standing, pause_after
from tfaot_pkg.nightly.types import Policy

WORKERS = ("good", "other", "bad")


def failing(*tasks: str) -> Standing:
    """`bad` failed `tasks`, at the time 0."""
    standing = Standing(pause=10.0)
    for task in tasks:
        assert not standing.ended(task, "bad", failed=True, now=0.0)
    return standing


def test_a_worker_waits_after_two_different_builds_longer_each_time() -> None:
    standing = failing("a", "a")
    assert not standing.suspended(WORKERS, 0.0), "one build may be to blame itself"
    standing.ended("b", "bad", failed=True, now=0.0)
    assert standing.suspended(WORKERS, 9.0) == {"bad"}
    assert not standing.suspended(WORKERS, 10.0)
    standing.ended("c", "bad", failed=True, now=10.0)
    assert standing.suspended(WORKERS, 29.0) == {"bad"}


def test_a_worker_that_builds_again_is_as_good_as_any() -> None:
    standing = failing("a", "b")
    standing.ended("a", "good", failed=False, now=1.0)
    standing.ended("b", "good", failed=False, now=1.0)
    standing.ended("c", "bad", failed=False, now=2.0)
    assert not standing.suspended(WORKERS, 2.0)
    standing.ended("d", "bad", failed=True, now=3.0)
    assert not standing.ended("d", "good", failed=False, now=4.0), "what was before it worked does not count"


def test_a_worker_is_excluded_by_what_others_built_and_it_did_not() -> None:
    standing = failing("a", "b", "c")
    assert not standing.ended("a", "good", failed=False, now=1.0)
    assert not standing.ended("b", "other", failed=False, now=1.0)
    assert not standing.ended("x", "good", failed=False, now=1.0)
    assert standing.ended("c", "good", failed=False, now=1.0) == [("bad", "it failed a, b, c, which others built")]
    assert standing.suspended(WORKERS, 1e9) == {"bad"}


def test_failures_of_workers_in_doubt_do_not_count_against_a_task() -> None:
    standing = failing("a", "b")
    assert standing.counted("a", WORKERS) == 0
    standing.ended("a", "good", failed=True, now=1.0)
    assert standing.counted("a", WORKERS) == 1
    assert standing.failed_at("a") == {"bad", "good"}


def test_if_all_workers_fail_none_is_kept_from_builds_and_all_failures_count() -> None:
    standing = Standing(pause=10.0)
    for worker in WORKERS:
        for task in ("a", "b"):
            standing.ended(task, worker, failed=True, now=0.0)
    assert not standing.suspended(WORKERS, 1.0)
    assert standing.counted("a", WORKERS) == 3


def test_a_build_that_all_workers_failed_or_would_not_get_counts_all_of_its_failures() -> None:
    """Else it would go for ever to the one that is in doubt."""
    standing = failing("a", "b")
    for worker in ("good", "other"):
        standing.ended("a", worker, failed=True, now=1.0)
    assert standing.counted("a", WORKERS) == 3


def test_a_build_does_not_try_all_workers_of_a_farm() -> None:
    standing, farm = Standing(pause=10.0), [f"w{number}" for number in range(200)]
    for worker in farm[:8]:
        for task in ("a", "b"):
            standing.ended(task, worker, failed=True, now=0.0)
    assert standing.counted("a", farm) == 3


class Clocked:
    """An executor of two workers in virtual time, of which the second one is busy for ever; all builds fail."""

    slots, description = 2, "virtual"

    def __init__(self) -> None:
        self.now = 0.0
        self._suspended: frozenset[str] = frozenset()
        self._waiting: list[Request] = []

    def submit(self, request: Request, avoid: Collection[str] = ()) -> None:
        self._waiting.append(request)

    def suspend(self, workers: Collection[str]) -> None:
        self._suspended = frozenset(workers)

    def workers(self) -> Collection[str]:
        return ("free", "busy")

    def refused(self) -> Mapping[str, str]:
        return {}

    def next(self, timeout: float | None) -> Done | None:
        if self._waiting and "free" not in self._suspended:
            self.now += 1.0
            failed = Attempt(kind="infrastructure failed", night="n", worker="free")
            return self._waiting.pop(0), failed
        assert timeout is not None, "it would wait for ever"
        self.now += timeout + 1e-3
        return None

    def running(self) -> Sequence[str]:
        return ()

    def close(self) -> None: ...


def test_a_worker_gets_builds_again_though_no_other_build_ends(tmp_path: Path) -> None:
    executor = Clocked()
    requests = [
        Request(
            decision=stub_decision(name), night="n", state=tmp_path, log=tmp_path, cache=tmp_path, policy=Policy()
        )
        for name in "abc"
    ]  # fmt: skip
    ended = attempts(executor, requests, retries=0, pause=10.0, excluded=lambda *_: None, clock=lambda: executor.now)
    assert len(list(ended)) == 3


def test_a_pause_has_an_end() -> None:
    assert [pause_after(number, 5.0) for number in (0, 1, 5, 9, 5000)] == [5.0, 10.0, 160.0, 1800.0, 1800.0]


def test_attempts_without_a_worker_count_for_their_task_alone() -> None:
    standing = Standing(pause=10.0)
    for task in ("a", "a", "b"):
        standing.ended(task, "", failed=True, now=0.0)
    assert (standing.counted("a", ()), standing.counted("a", WORKERS)) == (2, 2)
    assert not standing.suspended((), 1.0)
    assert not standing.failed_at("a")
