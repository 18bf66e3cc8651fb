"""Memory between guard pages: what lies in it may be used, and nothing beside it."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.compiler.guarded import guarded
from tests.kept import REPOSITORY


@pytest.mark.parametrize("size", [0, 1, 5, 4096, 5000])
def test_all_bytes_may_be_used(size: int) -> None:
    for is_last in (False, True):
        memory = guarded(size, alignment=1, is_last=is_last)
        assert memory.size == size and (memory == 0xFF).all()
        memory[...] = 3
        assert (memory == 3).all()


@pytest.mark.parametrize(("place", "is_last"), [(-1, False), (12, True)])
def test_the_byte_beside_an_array_ends_the_program(place: int, is_last: bool) -> None:
    text = (
        "import ctypes; from tests.compiler.guarded import guarded; "
        f"array = guarded(12, alignment=4, is_last={is_last}); ctypes.string_at(array.ctypes.data + {place}, 1)"
    )
    ended = subprocess.run([sys.executable, "-c", text], cwd=REPOSITORY, check=False, capture_output=True)
    assert ended.returncode == -signal.SIGSEGV
