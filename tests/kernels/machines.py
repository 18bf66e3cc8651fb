"""Where the kernels run: in this process, or in one of their own under an emulator of another CPU."""

from __future__ import annotations

import ctypes
import mmap
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

_libc = ctypes.CDLL(None, use_errno=True)


class Buffer(Protocol):
    """Values between pages of memory that must not be touched. They live as long as this does."""

    @property
    def address(self) -> int: ...

    def read(self) -> NDArray[Any]: ...


class Machine(Protocol):
    """Memory for the kernels, and calls of the functions of bridge.cpp."""

    def buffer(self, values: NDArray[np.generic], *, at_end: bool) -> Buffer:
        """A copy of `values` that ends where such a page begins, or begins where one ends."""

    def call(self, function: str, *arguments: int | ctypes.Structure) -> int:
        """Numbers and addresses are passed as they are, structures by their address. 0 where nothing is returned."""


class Here:
    """A shared library in this process."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))

    def buffer(self, values: NDArray[np.generic], *, at_end: bool) -> Buffer:
        return _Guarded(values, at_end=at_end)

    def call(self, function: str, *arguments: int | ctypes.Structure) -> int:
        called = self._library[function]
        called.restype = ctypes.c_size_t
        words = [ctypes.c_size_t(each) if isinstance(each, int) else ctypes.byref(each) for each in arguments]
        return int(called(*words))


class _Guarded:
    def __init__(self, values: NDArray[np.generic], *, at_end: bool) -> None:
        page = mmap.PAGESIZE
        data = np.ascontiguousarray(values)
        inner = -(-max(data.nbytes, 1) // page) * page
        memory = mmap.mmap(-1, inner + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        for forbidden in (start, start + page + inner):
            assert _libc.mprotect(ctypes.c_void_p(forbidden), ctypes.c_size_t(page), 0) == 0
        offset = page + (inner - data.nbytes if at_end else 0)
        self._values: NDArray[Any] = np.frombuffer(memory, data.dtype, data.size, offset).reshape(data.shape)
        self._values[...] = data

    @property
    def address(self) -> int:
        return int(self._values.ctypes.data)

    def read(self) -> NDArray[Any]:
        return self._values


class Elsewhere:
    """The program server.cpp, started by `argv`. Structures have the same layout there: all CPUs are 64-bit, little-endian."""

    def __init__(self, argv: Sequence[str | Path]) -> None:
        self._process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.dropped: list[int] = []

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def buffer(self, values: NDArray[np.generic], *, at_end: bool) -> Buffer:
        data = np.ascontiguousarray(values)
        return _Remote(self, self._place(data.tobytes(), at_end=at_end), data)

    def call(self, function: str, *arguments: int | ctypes.Structure) -> int:
        words = [each if isinstance(each, int) else self._place(bytes(each), at_end=True) for each in arguments]
        result = self._number(f"call {function} {len(words)} {' '.join(map(str, words))}\n".encode())
        self.dropped += (word for word, each in zip(words, arguments, strict=True) if not isinstance(each, int))
        return result

    def read(self, address: int, size: int) -> bytes:
        return self._ask(f"read {address} {size}\n".encode(), size)

    def _place(self, data: bytes, *, at_end: bool) -> int:
        freed = "".join(f"free {address}\n" for address in self.dropped)
        self.dropped.clear()
        return self._number(f"{freed}new {len(data)} {at_end:d}\n".encode() + data)

    def _number(self, command: bytes) -> int:
        return int.from_bytes(self._ask(command, 8), "little")

    def _ask(self, command: bytes, size: int) -> bytes:
        assert self._process.stdin and self._process.stdout
        with suppress(BrokenPipeError):  # then there is no answer, which is reported
            self._process.stdin.write(command)
            self._process.stdin.flush()
        answer = self._process.stdout.read(size)
        if len(answer) != size:
            raise ChildProcessError(f"the kernels' process ended with {self._process.wait()} at {command[:200]!r}")
        return answer


class _Remote:
    def __init__(self, machine: Elsewhere, address: int, like: NDArray[np.generic]) -> None:
        self._machine, self.address, self._like = machine, address, like

    def __del__(self) -> None:
        self._machine.dropped.append(self.address)

    def read(self) -> NDArray[Any]:
        read = self._machine.read(self.address, self._like.nbytes)
        return np.frombuffer(read, self._like.dtype).reshape(self._like.shape)
