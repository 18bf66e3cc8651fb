"""Ctrl-C and SIGTERM: one exception, raised once, and delayed while an operation must not be interrupted."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_AFTER = 0.001  # seconds: enough for the finalizer to return, and not noticeable


class Stopped(BaseException):
    """The user or the system wants this process to end. Not a KeyboardInterrupt: typer exits silently on that."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.exit_code = 128 + number


class _Main:
    """State of the main thread: open `shielded` blocks, the signal received (0: none), whether it is still pending."""

    shields = 0
    taken = 0
    waits = False


def take_signals() -> None:
    """From now on the first signal raises `Stopped` in the main thread; later ones do not interrupt the cleanup."""
    # Python allows only the main thread to set handlers.
    if threading.current_thread() is not threading.main_thread():
        return
    _Main.taken = 0
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background
            signal.signal(number, _stop)
    if sys.unraisablehook is not _not_lost:
        _Hook.previous, sys.unraisablehook = sys.unraisablehook, _not_lost


def taken_signal() -> Stopped | None:
    """The first signal since `take_signals`, even if the exception that it raised was lost.

    Python 3.11 turns any exception in a `__set_name__` into a RuntimeError, so a signal may come out as another error.
    """
    return Stopped(_Main.taken) if _Main.taken else None


def ignore_signals() -> None:
    """Ignore signals from now on: this process is exiting already, and the interpreter's own exit takes time."""
    # The timer of `_not_lost` as well: Python removes our handlers at exit, after which SIGALRM would kill the process.
    signal.setitimer(signal.ITIMER_REAL, 0)
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def shielded() -> Iterator[None]:
    """A signal during the block raises `Stopped` at its end. Threads other than the main thread are never stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Main.shields += 1
    try:
        yield
    finally:
        _Main.shields -= 1
        # Blocks may be nested: the outermost one raises.
        if _Main.waits and not _Main.shields:
            _Main.waits = False
            raise Stopped(_Main.taken)


def _stop(number: int, _: FrameType | None) -> None:
    # Users press Ctrl-C again, which must not interrupt the cleanup after the first signal.
    if not _Main.taken:
        _Main.taken = number
        _raise_or_wait()


def _raise_or_wait() -> None:
    if _Main.shields:
        _Main.waits = True
    else:
        raise Stopped(_Main.taken)


class _Hook:
    previous: Callable[[sys.UnraisableHookArgs], object] = sys.__unraisablehook__


def _not_lost(unraisable: sys.UnraisableHookArgs) -> None:
    """Python drops exceptions raised in a finalizer, and a signal may arrive in one: raise it again soon after."""
    if isinstance(unraisable.exc_value, Stopped):
        # A timer, because an exception raised in the hook itself would be dropped as well.
        signal.signal(signal.SIGALRM, lambda *_: _raise_or_wait())
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER)
    else:
        _Hook.previous(unraisable)
