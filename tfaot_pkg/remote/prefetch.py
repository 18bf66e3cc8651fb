"""Asking for several files at once, for a reader that takes them one by one and in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from tfaot_pkg.http.connection import AT_ONCE
from tfaot_pkg.progress import Progress

_T = TypeVar("_T")


class Ahead(Generic[_T]):
    """What `ask` answers for each of `paths`, each answer once; `label` names the work to `progress`.

    Not many more are asked for, and kept, than the reader has taken.
    """

    def __init__(self, ask: Callable[[str], _T], paths: Sequence[str], progress: Progress, label: str) -> None:
        self._answers = _answers(ask, paths, progress, label)
        self._next: tuple[str, Future[_T]] | None = None

    def take(self, path: str) -> Future[_T] | None:
        """The answer for `path` where that comes next, else None."""
        if self._next is None:
            self._next = next(self._answers, None)
        if self._next is None or self._next[0] != path:
            return None
        (_, found), self._next = self._next, None
        return found

    def close(self) -> None:
        """The reader has gone: ask for nothing more."""
        self._answers.close()
        self._next = None


def _answers(
    ask: Callable[[str], _T], paths: Sequence[str], progress: Progress, label: str
) -> Generator[tuple[str, Future[_T]], None, None]:
    waiting: deque[tuple[str, Future[_T]]] = deque()
    with progress.step(label, total=len(paths), unit="files") as step, ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for path in paths:
                waiting.append((path, pool.submit(ask, path)))
                if len(waiting) > 2 * AT_ONCE:
                    yield waiting.popleft()
                    step.advance()
            while waiting:
                yield waiting.popleft()
                step.advance()
        finally:
            for _, future in waiting:
                future.cancel()
