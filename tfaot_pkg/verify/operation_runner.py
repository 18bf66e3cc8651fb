"""Runs operations of a model's author alone, in a process of its own, on rows between inaccessible pages.

    python -m tfaot_pkg.verify.operation_runner JOB.json

The job: {"library", "answers": .npz file, "calls": [{"target", "name", "inputs": .npz file, "batched": [bool],
"outputs": [[dtype, sizes]]}]}. Answers hold "NAME/PLACE" with a row for each row of the inputs. Each row is computed
twice: in memory that ends, and in memory that begins, at an inaccessible page, the second time in the opposite order
and over other bytes. Inputs are read-only.
"""

from __future__ import annotations

import ctypes
import json
import math
import mmap
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.elements import write_arrays

_NONE, _READ, _WRITE = 0, 1, 2
_ANONYMOUS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


class Guarded:
    """`nbytes` of memory between two inaccessible pages: at the end of the accessible ones, or at their beginning."""

    def __init__(self, nbytes: int, *, at_end: bool) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        # From libc, because Python's mmap cannot protect pages.
        self._libc.mmap.restype = ctypes.c_void_p
        self._nbytes, self._bytes = nbytes, max(1, -(-nbytes // mmap.PAGESIZE)) * mmap.PAGESIZE
        whole = ctypes.c_size_t(self._bytes + 2 * mmap.PAGESIZE)
        base = self._libc.mmap(None, whole, _NONE, _ANONYMOUS, -1, ctypes.c_long(0))
        if base in (None, ctypes.c_void_p(-1).value):
            raise MemoryError
        self._pages = base + mmap.PAGESIZE
        self.protect(_READ | _WRITE)
        self.address = self._pages + (self._bytes - nbytes if at_end else 0)

    def protect(self, rights: int) -> None:
        if self._libc.mprotect(ctypes.c_void_p(self._pages), ctypes.c_size_t(self._bytes), rights):
            raise OSError(ctypes.get_errno(), "mprotect")

    def write(self, content: bytes) -> None:
        self.protect(_READ | _WRITE)
        ctypes.memmove(self.address, content, self._nbytes)

    def read(self) -> bytes:
        return ctypes.string_at(self.address, self._nbytes)


def main(argv: list[str]) -> None:
    job = json.loads(Path(argv[0]).read_text())
    library = ctypes.CDLL(job["library"])
    answers: dict[str, Array] = {}
    for call in job["calls"]:
        with np.load(call["inputs"], allow_pickle=False) as file:
            inputs = [file[str(place)] for place in range(len(call["batched"]))]
        first = _rows(library, call, inputs, at_end=True)
        second = _rows(library, call, inputs, at_end=False)
        for place, (dtype, sizes) in enumerate(call["outputs"]):
            one, two = (
                np.frombuffer(b"".join(rows[place] for rows in each), np.dtype(dtype)).reshape(-1, *sizes)
                for each in (first, second)
            )
            answers[f"{call['name']}/{place}"] = one
            if one.tobytes() != two.tobytes():
                answers[f"{call['name']}/{place}/again"] = two
    write_arrays(job["answers"], answers)


def _rows(library: ctypes.CDLL, call: dict[str, Any], inputs: list[Array], *, at_end: bool) -> list[list[bytes]]:
    """The bytes of each output, by row."""
    function = getattr(library, call["target"])
    function.restype = None
    batched = call["batched"]
    count = max(len(each) for each, has_rows in zip(inputs, batched, strict=True) if has_rows)
    read = [
        Guarded(each[0].nbytes if has_rows else each.nbytes, at_end=at_end)
        for each, has_rows in zip(inputs, batched, strict=True)
    ]
    sizes = [math.prod(sizes) * np.dtype(dtype).itemsize for dtype, sizes in call["outputs"]]
    given = [Guarded(size, at_end=at_end) for size in sizes]
    pointers = [(ctypes.c_void_p * len(border))(*(each.address for each in border)) for border in (read, given)]
    found: dict[int, list[bytes]] = {}
    # In the opposite order, so that a result that depends on the row before differs.
    for row in range(count) if at_end else range(count - 1, -1, -1):
        for memory, values, has_rows in zip(read, inputs, batched, strict=True):
            memory.write(np.ascontiguousarray(values[row] if has_rows else values).tobytes())
            memory.protect(_READ)
        # Over different bytes in both runs, so that an element that is not written differs.
        for memory, size in zip(given, sizes, strict=True):
            memory.write((b"\xa5" if at_end else b"\x5a") * size)
        function(*pointers)
        found[row] = [memory.read() for memory in given]
    return [found[row] for row in range(count)]


if __name__ == "__main__":
    main(sys.argv[1:])
