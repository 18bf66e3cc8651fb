"""The order of tests, and when no long one begins any more: what CI has not run at its end counts as failed.

Long ones come first, so that no worker is still busy with one when the others have nothing left.

How long a test takes is told by its marks: by a limit of time longer than usual (`timeout`), and by `slow`. Tests that
have the same marks stay in the order of pytest-randomly.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict

import pytest

MINUTES = "TFAOT_TEST_MINUTES"
"""The variable that limits a run: `slow` tests that would begin later are skipped."""
_BEGUN = time.monotonic()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = os.environ.get(MINUTES)
    if minutes and item.get_closest_marker("slow") and time.monotonic() - _BEGUN > 60 * float(minutes):
        pytest.skip(f"the {minutes} minutes of this run are over")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    is_random = config.getoption("randomly_reorganize", default=False)  # otherwise the order is that of the files
    # Where not all may be run, any may be left out, and not always the shorter ones.
    if workers > 1 and is_random and not os.environ.get(MINUTES):
        items[:] = dealt(items, workers)


def dealt(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """`items` in a part for each worker, which begins with long ones.

    Workers start with equal numbers of tests in this order, and one that is done takes tests from the end of another's
    (xdist's worksteal). Tests of a file that have the same marks stay together, for what they share.
    """
    groups: dict[tuple[float, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[_seconds(item), str(item.path)].append(item)
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for key in sorted(groups, key=lambda each: -each[0]):
        min(parts, key=len).extend(groups[key])
    return [item for part in parts for item in part]


def _seconds(item: pytest.Item) -> float:
    """The limit of a slow test's time, 0 if it has no longer one than others; -1 for a quick test."""
    if not item.get_closest_marker("slow"):
        return -1
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark and mark.args else 0
