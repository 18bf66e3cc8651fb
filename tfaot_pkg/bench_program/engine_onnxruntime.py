"""ONNX Runtime through its C API: one session per batch size, inputs and outputs bound to the caller's memory.

The C API is a table of functions whose order never changes (onnxruntime_c_api.h, OrtApi).
"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import onnxruntime
import served

_API_VERSION = 16
_GET_ERROR_MESSAGE = 2
_CREATE_ENV = 3
_CREATE_SESSION = 7
_RUN = 9
_CREATE_SESSION_OPTIONS = 10
_SET_INTRA_OP_NUM_THREADS = 24
_SET_INTER_OP_NUM_THREADS = 25
_CREATE_TENSOR_WITH_DATA = 49
_CREATE_CPU_MEMORY_INFO = 69
_LAST = _CREATE_CPU_MEMORY_INFO

_ARENA_ALLOCATOR = 1
_WARNING = 2
# ONNXTensorElementDataType
_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float64": 11,
    "uint32": 12, "uint64": 13,
}  # fmt: skip


class _Base(ctypes.Structure):
    _fields_ = (
        ("get_api", ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p * (_LAST + 1)), ctypes.c_uint32)),
        ("get_version", ctypes.c_void_p),
    )


class Engine:
    def __init__(self) -> None:
        library = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
        base = ctypes.CDLL(str(library)).OrtGetApiBase
        base.restype = ctypes.POINTER(_Base)
        self._table = base().contents.get_api(_API_VERSION).contents
        self._env = self._made(_CREATE_ENV, _WARNING, b"bench")
        self._options = self._made(_CREATE_SESSION_OPTIONS)
        for setting in (_SET_INTRA_OP_NUM_THREADS, _SET_INTER_OP_NUM_THREADS):
            self._call(setting, self._options, 1)
        self._memory = self._made(_CREATE_CPU_MEMORY_INFO, _ARENA_ALLOCATOR, 0)

    def model(self, path: str, inputs: list, outputs: list) -> Model:
        return Model(self, path, inputs, outputs)

    def function(self, index: int) -> int:
        return self._table[index]

    def session(self, path: str) -> ctypes.c_void_p:
        return self._made(_CREATE_SESSION, self._env, path.encode(), self._options)

    def tensor(self, array: np.ndarray) -> ctypes.c_void_p:
        """An OrtValue over the array's memory."""
        shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        return self._made(
            _CREATE_TENSOR_WITH_DATA, self._memory, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes),
            shape, ctypes.c_size_t(array.ndim), _TYPES[array.dtype.name],
        )  # fmt: skip

    def _made(self, index: int, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call(index, *arguments, ctypes.byref(made))
        return made

    def _call(self, index: int, *arguments: object) -> None:
        status = ctypes.CFUNCTYPE(ctypes.c_void_p)(self._table[index])(*arguments)
        if status:
            message = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)(self._table[_GET_ERROR_MESSAGE])(status)
            raise RuntimeError(message.decode(errors="replace"))


class Model:
    def __init__(self, engine: Engine, path: str, inputs: list, outputs: list) -> None:
        self._results = outputs
        session = engine.session(path)
        names = [
            _words([ctypes.c_char_p(f"{kind}_{i}:0".encode()) for i in range(len(arrays))])
            for kind, arrays in (("input", inputs), ("output", outputs))
        ]
        values = [_words([engine.tensor(array) for array in arrays]) for arrays in (inputs, outputs)]
        self.call = served.CCall(
            function=engine.function(_RUN),
            arguments=(
                session.value, 0, _address(names[0]), _address(values[0]), len(inputs),
                _address(names[1]), len(outputs), _address(values[1]),
            ),
            wide=True,
            keep=(session, names, values, inputs),
        )  # fmt: skip

    def results(self) -> list[np.ndarray]:
        return self._results


def _words(items: list) -> ctypes.Array:
    array = (ctypes.c_void_p * max(1, len(items)))(*[ctypes.cast(item, ctypes.c_void_p).value for item in items])
    array.items = items
    return array


def _address(array: ctypes.Array) -> int:
    return ctypes.addressof(array)
