"""tl2cgen: C code of the trees, compiled, which walks rows one after the other.

Rows are made into its arrays of entries beforehand: numbers of the type of its thresholds, or the mark of missing ones.
"""

from __future__ import annotations

import ctypes

import messages
import numpy as np
import served

_MISSING = -1


class Engine:
    def model(self, path: str, inputs: list, outputs: list) -> Model:
        if not path:
            raise ValueError("no call is made through Python")
        return Model(path, *inputs, outputs)


class Model:
    def __init__(self, path: str, x: np.ndarray, outputs: list) -> None:
        library = ctypes.CDLL(path)
        library.get_threshold_type.restype = ctypes.c_char_p
        self._threshold = library.get_threshold_type().decode()
        self.entries = self.as_read(x)
        self._results = outputs
        function = ctypes.cast(getattr(library, messages.ROWS), ctypes.c_void_p).value
        (result,) = outputs
        self.call = served.CCall(
            function=function, arguments=(self.entries.ctypes.data, *x.shape, result.ctypes.data), keep=library
        )

    def as_read(self, x: np.ndarray) -> np.ndarray:
        """The rows as entries."""
        entries = served.aligned(x.shape, self._threshold)
        entries[...] = x
        # An entry is a union: its first 4 bytes say that it is missing.
        marks = entries.view(np.int32).reshape(*x.shape, -1)
        marks[np.isnan(x), 0] = _MISSING
        return entries

    def results(self) -> list[np.ndarray]:
        return self._results
