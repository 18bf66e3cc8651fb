"""Requests to their ends: what the machines failed is tried again, later each time."""

from __future__ import annotations

import heapq
import time
from collections import Counter
from collections.abc import Iterator, Sequence

from tfaot_pkg.nightly.attempt import Attempt, Request
from tfaot_pkg.nightly.executors import Executor

FIRST_PAUSE = 5.0
"""Seconds before the second try; each further one waits twice as long."""


def attempts(
    executor: Executor, requests: Sequence[Request], *, retries: int, pause: float = FIRST_PAUSE
) -> Iterator[tuple[Request, Attempt, int]]:
    """Perform all `requests`; each with what came of it in the end, and the number of tries, in the order of ending."""
    tries: Counter[str] = Counter()
    waiting: list[tuple[float, str, Request]] = []
    for request in requests:
        executor.submit(request)
    left = len(requests)
    while left:
        ended = executor.next(max(0.0, waiting[0][0] - time.monotonic()) if waiting else None)
        while waiting and waiting[0][0] <= time.monotonic():
            executor.submit(heapq.heappop(waiting)[2])
        if ended is None:
            continue
        request, attempt = ended
        name = request.decision.task.id
        tries[name] += 1
        if not attempt.is_final and tries[name] <= retries:
            again = time.monotonic() + pause * 2 ** (tries[name] - 1)
            heapq.heappush(waiting, (again, name, request))
            continue
        left -= 1
        yield request, attempt, tries[name]
