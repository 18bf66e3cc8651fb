"""Ctrl-C and the system's request to end: one exception, once, which waits while something must not be torn apart."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN_AFTER = 0.001  # seconds


class Stopped(BaseException):
    """The user or the system wants this process to end. Not a KeyboardInterrupt, which typer would end silently."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number
        self.exit_code = 128 + number


class _Main:
    """The main thread: its `shielded` blocks, the signal that it got (0: none), and whether that still waits."""

    shields = 0
    taken = 0
    waits = False


def take_signals() -> None:
    """From now on the first signal is a `Stopped` in the main thread; more of them do not disturb the cleaning up."""
    if threading.current_thread() is not threading.main_thread():
        return
    _Main.taken = 0
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background
            signal.signal(number, _stop)
    if sys.unraisablehook is not _not_lost:
        _Hook.previous, sys.unraisablehook = sys.unraisablehook, _not_lost


def ignore_signals() -> None:
    """What is being ended anyway is ended in peace, up to the interpreter's own end."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def shielded() -> Iterator[None]:
    """A signal that comes in the block is `Stopped` at its end. Other threads than the main one are never stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _Main.shields += 1
    try:
        yield
    finally:
        _Main.shields -= 1
        if _Main.waits and not _Main.shields:
            _Main.waits = False
            raise Stopped(_Main.taken)


def _stop(number: int, _: FrameType | None) -> None:
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
    """Python drops what is raised in a finalizer, and a signal may come in one: it comes again, after that."""
    if isinstance(unraisable.exc_value, Stopped):
        signal.signal(signal.SIGALRM, lambda *_: _raise_or_wait())
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_AFTER)
    else:
        _Hook.previous(unraisable)
