"""What Linux must permit a process before a model's code may use it: tiles of the CPU (AMX). Libraries do not ask."""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache

TILES = 1  # TFAOT_TILES
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18  # of x86-64; asm/prctl.h: ARCH_REQ_XCOMP_PERM


@cache
def may_use_tiles() -> bool:
    """Ask Linux, once, to let this process use tiles for the rest of its life. It refuses if the CPU has none."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    system_call = ctypes.CDLL(None).syscall
    system_call.restype = ctypes.c_long
    return bool(system_call(*map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA))) == 0)
