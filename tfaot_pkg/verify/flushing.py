"""Flush subnormal numbers to zero, as TensorFlow does while it runs: a setting of the CPU's floating-point unit."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Iterator
from contextlib import contextmanager

_ENVIRONMENT_BYTES = 64  # of fenv_t, or more
_FIELDS = {"x86_64": (28, 0x8040), "aarch64": (0, 1 << 24)}
"""The control word's place in fenv_t (glibc's bits/fenv.h), and its bits: FTZ and DAZ of MXCSR, FZ of FPCR."""


@contextmanager
def subnormals_flushed() -> Iterator[None]:
    """For this thread; no change on machines that this does not know."""
    if platform.machine() not in _FIELDS:
        yield
        return
    offset, bits = _FIELDS[platform.machine()]
    library = ctypes.CDLL("libm.so.6")
    before = ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    library.fegetenv(before)
    flushing = ctypes.create_string_buffer(before.raw, _ENVIRONMENT_BYTES)
    ctypes.c_uint32.from_buffer(flushing, offset).value |= bits
    library.fesetenv(flushing)
    try:
        yield
    finally:
        library.fesetenv(before)
