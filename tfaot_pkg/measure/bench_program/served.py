"""The requests that a process with an engine serves: its tensors, its runs and their timing."""

from __future__ import annotations

import ctypes
import importlib
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from messages import Input, Memory, Options, Output, Started, Times, Written

_ALIGNMENT = 64
_ENGINES = {
    "tensorflow": ("engines_in_python", "TensorFlow"),
    "tensorflow_jit": ("engines_in_python", "JitTensorFlow"),
    "litert": ("engines_in_python", "LiteRt"),
    "iree": ("engines_in_python", "Iree"),
    "library": ("engines_of_trees", "Library"),
    "tl2cgen": ("engines_of_trees", "Tl2cgen"),
}
"""Module and class of each."""
_ROOM = 100_000  # times that one request can return: 20 ms of chunks of 100 us are 200


class Server:
    def __init__(self, options: Options) -> None:
        self._options = options
        self._tensors = Tensors(options)
        self._chunks = Chunks(options.calls)
        self._engine = None
        self._ready: dict = {}
        self._turning: dict = {}
        self._empty = 0

    def start(self, size: str) -> Started:
        self._empty = peak_memory()
        # The import of the engine is part of its start.
        began = time.monotonic_ns()
        module, name = _ENGINES[self._options.engine]
        self._engine = getattr(importlib.import_module(module), name)()
        self._chunks.once(self._model(size).call)
        return Started(nanoseconds=time.monotonic_ns() - began)

    def time(self, size: str, shortest: str, duration: str) -> Times:
        call = self._model(size).call
        return Times(
            times=tuple(self._chunks.times(call, int(size), int(shortest), int(duration), self._turning[size]))
        )

    def answers(self, size: str, file: str) -> Written:
        model = self._model(size)
        self._chunks.once(model.call)
        with open(file, "wb") as written:
            written.write(self._tensors.output_bytes(model.results(), int(size)))
        return Written()

    def overhead(self, shortest: str, duration: str) -> Times:
        """As `time`, for the model that does nothing."""
        array = [aligned((1,), "float32")]
        model = self._engine.model(self._options.identity, array, [aligned((1,), "float32")])
        self._chunks.once(model.call)
        return Times(times=tuple(self._chunks.times(model.call, "identity", int(shortest), int(duration))))

    def memory(self) -> Memory:
        return Memory(empty=self._empty, peak=peak_memory())

    def _model(self, size: str):
        """The model at one batch size, its inputs bound."""
        if size not in self._ready:
            inputs = self._tensors.inputs_at(int(size))
            outputs = self._tensors.outputs_at(int(size))
            self._ready[size] = model = self._engine.model(self._options.models[size], inputs, outputs)
            self._turning[size] = self._tensors.turning(model, inputs) if self._options.turning else None
        return self._ready[size]


def peak_memory() -> int:
    """Peak resident memory in kB, VmHWM; proc_pid_status(5)."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))


# --- timing: C functions by a loop in C, Python functions by one in Python (templates/bench/chunks.h) ----------------


@dataclass(frozen=True)
class CCall:
    """A C function and its arguments, all of them words; it returns the int zero for success.

    `keep` holds what the arguments point to.
    """

    function: int
    arguments: tuple
    keep: object = None


Call = CCall | Callable[[], object]


@dataclass(frozen=True)
class Turning:
    """The next rows of `rows` go to `to`, where the engine reads them, before each run; both are contiguous."""

    to: np.ndarray
    rows: np.ndarray

    def each(self) -> Iterator[np.ndarray]:
        size = len(self.to)
        parts = [self.rows[start : start + size] for start in range(0, len(self.rows) - size + 1, size)]
        return itertools.cycle(parts)


class Chunks:
    """`library` is templates/bench/calls.cc, compiled."""

    def __init__(self, library: str) -> None:
        self._calls = ctypes.CDLL(library).tfaot_bench_calls
        self._calls.restype = ctypes.c_ssize_t
        self._times = (ctypes.c_double * _ROOM)()
        self._runs: dict = {}

    def once(self, call: Call) -> None:
        """Run `call` once. Raises RuntimeError if it fails."""
        if isinstance(call, CCall):
            self._in_c(call, ctypes.c_int64(1), 0, 0, None)
        else:
            call()

    def times(self, call: Call, key: object, shortest: int, duration: int, turning: Turning | None = None) -> list:
        """Nanoseconds of one run, chunk by chunk; `key` remembers how many runs make a chunk."""
        if isinstance(call, CCall):
            return self._in_c(call, self._runs.setdefault(key, ctypes.c_int64(1)), shortest, duration, turning)
        if turning is None:
            return self._in_python(call, key, shortest, duration)
        parts = turning.each()

        def call_with_next() -> None:
            turning.to[...] = next(parts)
            call()

        times = self._in_python(call_with_next, key, shortest, duration)
        turning.to[...] = turning.rows[: len(turning.to)]
        return times

    def _in_c(self, call: CCall, runs: ctypes.c_int64, shortest: int, duration: int, turning: Turning | None) -> list:
        to, rows = (turning.to, turning.rows) if turning else (None, None)
        words = (ctypes.c_void_p * max(1, len(call.arguments)))(*call.arguments)
        count = self._calls(
            ctypes.c_void_p(call.function), ctypes.c_size_t(len(call.arguments)), words,
            ctypes.c_int64(shortest), ctypes.c_int64(duration), ctypes.byref(runs), self._times, ctypes.c_size_t(_ROOM),
            *(ctypes.c_void_p(None if each is None else each.ctypes.data) for each in (to, rows)),
            *(ctypes.c_size_t(0 if each is None else each.nbytes) for each in (to, rows)),
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


# --- inputs and outputs of a model, in the order of its signature ----------------------------------------------------


class Tensors:
    def __init__(self, options: Options) -> None:
        self._inputs, self._outputs, self._is_turning = options.inputs, options.outputs, options.turning
        self._values = [self._read(tensor, options.rows) for tensor in self._inputs]

    def inputs_at(self, size: int) -> list:
        """The first `size` rows of each: aligned memory that all batch sizes share, or copies if the rows change."""
        found = [
            values[:size] if is_batched(tensor) else values
            for tensor, values in zip(self._inputs, self._values, strict=True)
        ]
        return [_copied(values) for values in found] if self._is_turning else found

    def turning(self, model: object, inputs: list) -> Turning:
        """For a model of one input: as it reads rows, if it has its own form of them."""
        (x,), (rows,) = inputs, self._values
        as_read = getattr(model, "as_read", None)
        return Turning(to=x, rows=rows) if as_read is None else Turning(to=model.entries, rows=as_read(rows))

    def outputs_at(self, size: int) -> list:
        """Empty arrays, for engines that write into their caller's memory."""
        return [aligned(shape_at(tensor, size), tensor.dtype) for tensor in self._outputs]

    def output_bytes(self, arrays: list, size: int) -> bytes:
        """The bytes of an engine's outputs; ValueError if one has another type or size."""
        for tensor, array in zip(self._outputs, arrays, strict=True):
            if array.dtype != np.dtype(tensor.dtype) or array.size != math.prod(shape_at(tensor, size)):
                raise ValueError(f"output {tensor.name} is {array.dtype}{list(array.shape)}")
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)

    def _read(self, tensor: Input, rows: int) -> np.ndarray:
        values = aligned(shape_at(tensor, rows), tensor.dtype)
        values[...] = np.fromfile(tensor.file, tensor.dtype).reshape(values.shape)
        return values


def _copied(values: np.ndarray) -> np.ndarray:
    copy = aligned(values.shape, values.dtype.name)
    copy[...] = values
    return copy


def is_batched(tensor: Input | Output) -> bool:
    return bool(tensor.shape) and tensor.shape[0] is None


def shape_at(tensor: Input | Output, size: int) -> tuple:
    return tuple(size if axis is None else axis for axis in tensor.shape)


def aligned(shape: tuple, dtype: str) -> np.ndarray:
    """An uninitialized array at an aligned address, which no engine has to copy."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(dtype).reshape(shape)
