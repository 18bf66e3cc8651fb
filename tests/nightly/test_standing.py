"""Which workers get no builds, and whose failures count against a task."""

from __future__ import annotations

from tfaot_pkg.nightly.standing import Standing

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


def test_attempts_without_a_worker_count_for_their_task_alone() -> None:
    standing = Standing(pause=10.0)
    for task in ("a", "a", "b"):
        standing.ended(task, "", failed=True, now=0.0)
    assert (standing.counted("a", ()), standing.counted("a", WORKERS)) == (2, 2)
    assert not standing.suspended((), 1.0)
    assert not standing.failed_at("a")
