"""One step for what several threads want at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Generic, TypeVar

from tfaot_pkg.errors import TfaotError

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class _Waiting(Generic[T]):
    item: T
    is_done: bool = False
    error: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Batches(Generic[T]):
    """Calls `act` with all items that wait; it returns the error of each, or None.

    Whoever comes while it is at work waits, and is part of the next call. What `act` raises is raised for each item.
    """

    act: Callable[[Sequence[T]], Sequence[TfaotError | None]]
    _turn: Lock = field(default_factory=Lock)
    _adding: Lock = field(default_factory=Lock)
    _waiting: list[_Waiting[T]] = field(default_factory=list)

    def put(self, item: T) -> None:
        """Have `item` done, and return when it is. Raises its error."""
        mine = _Waiting(item)
        with self._adding:
            self._waiting.append(mine)
        with self._turn:
            if not mine.is_done:
                self._do(self._taken())
        if mine.error is not None:
            raise mine.error

    def _taken(self) -> list[_Waiting[T]]:
        with self._adding:
            taken = self._waiting[:]
            self._waiting.clear()
        return taken

    def _do(self, batch: Sequence[_Waiting[T]]) -> None:
        try:
            errors: Sequence[BaseException | None] = self.act([one.item for one in batch])
        except BaseException as raised:  # noqa: BLE001 - raised in each of the threads
            errors = [raised] * len(batch)
        for one, error in zip(batch, errors, strict=True):
            one.error, one.is_done = error, True
