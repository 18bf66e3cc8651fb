"""The requests that a process with an engine serves."""

from __future__ import annotations

import importlib
import time

import chunks
import tensors


class Server:
    def __init__(self, options: dict, began: int) -> None:
        self._options, self._began = options, began
        self._tensors = tensors.Tensors(options)
        self._chunks = chunks.Chunks(options["calls"])
        self._engine = None
        self._ready: dict = {}
        self._empty = 0

    def start(self, size: str) -> dict:
        self._empty = peak_memory()
        began = time.monotonic_ns()
        self._engine = importlib.import_module(f"engine_{self._options['engine']}").Engine(self._options)
        self._chunks.once(self._model(size).call)
        return {"nanoseconds": time.monotonic_ns() - began}

    def time(self, size: str, shortest: str, duration: str) -> dict:
        return {"times": self._chunks.times(self._model(size).call, int(size), int(shortest), int(duration))}

    def answers(self, size: str, file: str) -> dict:
        model = self._model(size)
        self._chunks.once(model.call)
        with open(file, "wb") as written:
            written.write(self._tensors.output_bytes(model.results(), int(size)))
        return {}

    def overhead(self, shortest: str, duration: str) -> dict:
        """As `time`, for the model that does nothing."""
        array = [tensors.aligned((1,), "float32")]
        model = self._engine.model(self._options["identity"], array, [tensors.aligned((1,), "float32")])
        self._chunks.once(model.call)
        return {"times": self._chunks.times(model.call, "identity", int(shortest), int(duration))}

    def memory(self) -> dict:
        return {"empty": self._empty, "peak": peak_memory()}

    def _model(self, size: str):
        """The model at one batch size, its inputs bound."""
        if size not in self._ready:
            inputs = self._tensors.inputs_at(int(size))
            outputs = self._tensors.outputs_at(int(size))
            self._ready[size] = self._engine.model(self._options["models"][size], inputs, outputs)
        return self._ready[size]


def peak_memory() -> int:
    """Peak resident memory in kB, VmHWM; proc_pid_status(5)."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM:"))
