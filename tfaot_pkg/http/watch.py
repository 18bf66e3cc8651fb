"""The watch over one exchange with a server: when it has taken too long.

A socket's time-out begins anew with every byte. So a server could keep a client waiting for ever: with a header that
never ends, with the sizes of chunks sent digit by digit, with trailers without end. Here time is what counts, and only
bytes of the body are progress.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tfaot_pkg.http.patience import Patience


class TooSlow(TimeoutError):
    """The exchange has taken too long."""


class Watch:
    """Begins with the exchange. `whole` is the longest time (seconds) for all of it."""

    def __init__(self, patience: Patience, whole: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._patience = patience
        self._clock = clock
        self._begin = clock()
        self._end = self._begin + max(whole, patience.silence)
        self._in_body = False
        self._window = self._begin
        self._delivered = 0
        self._brief = float("inf")
        self.count = 0
        """Bytes of the body so far."""
        self.connected = False
        """Whether a machine has answered: what is slow is a server then, and not the way to it."""

    @property
    def expired(self) -> bool:
        """Whether it has taken too long."""
        return self._clock() >= self._until()

    def begin_body(self) -> None:
        """The head of the final answer is there."""
        self._in_body, self._window = True, self._clock()

    def deliver(self, count: int) -> None:
        """`count` bytes of the body have come."""
        self.count += count
        self._delivered += count

    @property
    def passed(self) -> float:
        """Seconds since the exchange began."""
        return self._clock() - self._begin

    def left(self) -> float:
        """The longest time (seconds) that may now pass without any byte. Raises TooSlow."""
        left = self._until() - self._clock()
        if left <= 0:
            raise TooSlow
        return left

    def left_to_connect(self) -> float:
        """The longest time (seconds) for a connection that is made now. Raises TooSlow."""
        return min(self.left(), self._patience.connect)

    @contextmanager
    def brief(self, most: float = 0.5) -> Iterator[None]:
        """What is done inside is not worth more than `most` seconds, and may fail."""
        self._brief = self._clock() + most
        try:
            yield
        finally:
            self._brief = float("inf")

    def _until(self) -> float:
        if not self._in_body:
            return min(self._begin + self._patience.silence, self._end, self._brief)
        return min(self._window_end(), self._end, self._brief)

    def _window_end(self) -> float:
        """When the body will have been too slow, if nothing more comes."""
        now, length = self._clock(), self._patience.silence
        if now >= self._window + length and self._delivered >= self._patience.slowest * (now - self._window):
            self._window, self._delivered = now, 0
        enough = self._delivered >= self._patience.slowest * length
        return self._window + (2 * length if enough else length)


_WATCH: ContextVar[Watch] = ContextVar("watch")


def current() -> Watch:
    """The watch over the exchange that this thread is in."""
    return _WATCH.get()


@contextmanager
def watching(watch: Watch) -> Iterator[None]:
    """Connections that are made or used inside keep to `watch`: requests has no way to hand it to them."""
    token = _WATCH.set(watch)
    try:
        yield
    finally:
        _WATCH.reset(token)
