"""Inputs and outputs of a model, in the order of its signature."""

from __future__ import annotations

import math

import numpy as np

_ALIGNMENT = 64


class Tensors:
    def __init__(self, options: dict) -> None:
        self._inputs, self._outputs = options["inputs"], options["outputs"]
        self._values = [self._read(tensor, options["rows"]) for tensor in self._inputs]

    def inputs_at(self, size: int) -> list:
        """The first `size` rows of each: aligned memory that all batch sizes share."""
        return [
            values[:size] if is_batched(tensor) else values
            for tensor, values in zip(self._inputs, self._values, strict=True)
        ]

    def outputs_at(self, size: int) -> list:
        """Empty arrays, for engines that write into their caller's memory."""
        return [aligned(shape_at(tensor, size), tensor["dtype"]) for tensor in self._outputs]

    def output_bytes(self, arrays: list, size: int) -> bytes:
        """What an engine gave for the outputs; ValueError where one is of another kind."""
        for tensor, array in zip(self._outputs, arrays, strict=True):
            if array.dtype != np.dtype(tensor["dtype"]) or array.size != math.prod(shape_at(tensor, size)):
                raise ValueError(f"output {tensor['name']} is {array.dtype}{list(array.shape)}")
        return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)

    def _read(self, tensor: dict, rows: int) -> np.ndarray:
        values = aligned(shape_at(tensor, rows), tensor["dtype"])
        values[...] = np.fromfile(tensor["file"], tensor["dtype"]).reshape(values.shape)
        return values


def is_batched(tensor: dict) -> bool:
    return bool(tensor["shape"]) and tensor["shape"][0] is None


def shape_at(tensor: dict, size: int) -> tuple:
    return tuple(size if axis is None else axis for axis in tensor["shape"])


def aligned(shape: tuple, dtype: str) -> np.ndarray:
    """An empty array at an address that every engine takes as it is."""
    count = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    return memory[start : start + count].view(dtype).reshape(shape)
