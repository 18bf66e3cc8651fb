"""Timing: C functions by a loop in C, Python functions by one in Python, in chunks (templates/bench/chunks.h)."""

from __future__ import annotations

import ctypes
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

_ROOM = 100_000


@dataclass(frozen=True)
class CCall:
    """A C function and its arguments, all of them words; its result is zero where all is well.

    `wide`: the result is a pointer, else an int. `keep` holds what the arguments point to.
    """

    function: int
    arguments: tuple
    wide: bool = False
    keep: object = None


Call = CCall | Callable[[], object]


class Chunks:
    """`library` is templates/bench/calls.cc, compiled."""

    def __init__(self, library: str) -> None:
        self._calls = ctypes.CDLL(library).tfaot_bench_calls
        self._calls.restype = ctypes.c_ssize_t
        self._times = (ctypes.c_double * _ROOM)()
        self._runs: dict = {}

    def once(self, call: Call) -> None:
        """Run `call` once. Raises RuntimeError where it fails."""
        if isinstance(call, CCall):
            self._in_c(call, ctypes.c_int64(1), 0, 0)
        else:
            call()

    def times(self, call: Call, key: object, shortest: int, duration: int) -> list:
        """Nanoseconds of one run, chunk by chunk; `key` remembers how many runs make a chunk."""
        if isinstance(call, CCall):
            return self._in_c(call, self._runs.setdefault(key, ctypes.c_int64(1)), shortest, duration)
        return self._in_python(call, key, shortest, duration)

    def _in_c(self, call: CCall, runs: ctypes.c_int64, shortest: int, duration: int) -> list:
        words = (ctypes.c_void_p * max(1, len(call.arguments)))(*call.arguments)
        count = self._calls(
            ctypes.c_void_p(call.function), ctypes.c_size_t(len(call.arguments)), words, int(call.wide),
            ctypes.c_int64(shortest), ctypes.c_int64(duration), ctypes.byref(runs), self._times, ctypes.c_size_t(_ROOM),
        )  # fmt: skip
        if count < 0:
            raise RuntimeError("the engine's function failed")
        return self._times[:count]

    def _in_python(self, call: Callable[[], object], key: object, shortest: int, duration: int) -> list:
        now, runs, times = time.monotonic_ns, self._runs.get(key, 1), []
        begin = now()
        while not times or now() - begin < duration:
            start = now()
            for _ in itertools.repeat(None, runs):
                call()
            taken = now() - start
            if taken < shortest:
                runs *= 2
            else:
                times.append(taken / runs)
        self._runs[key] = runs
        return times
