"""Memory with pages before and behind it that nobody may touch: a program that reads or writes beyond an array dies.

AddressSanitizer does not see what masked vector instructions read, and knows no border within one allocation; pages do.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import mmap

import numpy as np

from tfaot_pkg.ground.arrays import Array

_PAGE = mmap.PAGESIZE
_NO_ACCESS = 0
_C = ctypes.CDLL(None, use_errno=True)


def guarded(size: int, *, alignment: int, is_last: bool, fill: int = 0xFF) -> Array:
    """`size` bytes that are `fill`, which end where a page begins that nobody may touch; or begin behind one.

    With `is_last` they end there, up to `alignment`: memory of 5 bytes whose beginning is aligned to 4 has 3 behind it.
    """
    whole = -(-max(size, 1) // _PAGE) * _PAGE
    memory = mmap.mmap(-1, whole + 2 * _PAGE)
    made = np.frombuffer(memory, np.uint8)  # holds the mapping as long as a view of it lives
    for border in (0, whole + _PAGE):
        if _C.mprotect(ctypes.c_void_p(made.ctypes.data + border), ctypes.c_size_t(_PAGE), _NO_ACCESS):
            raise OSError(ctypes.get_errno(), "mprotect")
    start = _PAGE + (whole - -(-size // alignment) * alignment if is_last else 0)
    inside = made[start : start + size]
    inside[...] = fill
    return inside
