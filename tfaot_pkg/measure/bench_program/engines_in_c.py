"""Engines that are called through their C APIs: inputs and outputs are bound to the caller's memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import served

# Places of functions in OrtApi (onnxruntime_c_api.h): a table to which versions only append.
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
_ONNX_TYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float64": 11,
    "uint32": 12, "uint64": 13,
}  # fmt: skip


class _OrtApiBase(ctypes.Structure):
    _fields_ = (
        ("get_api", ctypes.CFUNCTYPE(ctypes.POINTER(ctypes.c_void_p * (_LAST + 1)), ctypes.c_uint32)),
        ("get_version", ctypes.c_void_p),
    )


class OnnxRuntime:
    """One session per batch size."""

    def __init__(self) -> None:
        import onnxruntime

        library = next((Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*"))
        base = ctypes.CDLL(str(library)).OrtGetApiBase
        base.restype = ctypes.POINTER(_OrtApiBase)
        self._table = base().contents.get_api(_API_VERSION).contents
        self._env = self._made(_CREATE_ENV, _WARNING, b"bench")
        self._options = self._made(_CREATE_SESSION_OPTIONS)
        for setting in (_SET_INTRA_OP_NUM_THREADS, _SET_INTER_OP_NUM_THREADS):
            self._call(setting, self._options, 1)
        self._memory = self._made(_CREATE_CPU_MEMORY_INFO, _ARENA_ALLOCATOR, 0)

    def model(self, path: str, inputs: list, outputs: list) -> OnnxModel:
        return OnnxModel(self, path, inputs, outputs)

    def function(self, index: int) -> int:
        return self._table[index]

    def session(self, path: str) -> ctypes.c_void_p:
        return self._made(_CREATE_SESSION, self._env, path.encode(), self._options)

    def tensor(self, array: np.ndarray) -> ctypes.c_void_p:
        """An OrtValue over the array's memory."""
        shape = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        return self._made(
            _CREATE_TENSOR_WITH_DATA, self._memory, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes),
            shape, ctypes.c_size_t(array.ndim), _ONNX_TYPES[array.dtype.name],
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


class OnnxModel:
    def __init__(self, engine: OnnxRuntime, path: str, inputs: list, outputs: list) -> None:
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


# ov_element_type_e
_OPENVINO_TYPES = {
    "bool": 1, "float32": 4, "float64": 5, "int8": 7, "int16": 8, "int32": 9, "int64": 10, "uint8": 16, "uint16": 17,
    "uint32": 18, "uint64": 19,
}  # fmt: skip
_PROPERTIES = {
    "PERFORMANCE_HINT": "LATENCY",
    "NUM_STREAMS": "1",
    "INFERENCE_NUM_THREADS": "1",
    "INFERENCE_PRECISION_HINT": "f32",
}


class _Shape(ctypes.Structure):
    _fields_ = (("rank", ctypes.c_int64), ("dims", ctypes.POINTER(ctypes.c_int64)))


class OpenVino:
    """One compiled model and request per batch size."""

    def __init__(self) -> None:
        import openvino

        # The library that the Python package has loaded, with its plugins.
        library = next((Path(openvino.__file__).parent / "libs").glob("libopenvino_c.so.*"))
        self.library = ctypes.CDLL(str(library))
        self.library.ov_get_last_err_msg.restype = ctypes.c_char_p
        self._core = self._made("ov_core_create")

    def model(self, path: str, inputs: list, outputs: list) -> OpenVinoModel:
        return OpenVinoModel(self, path, inputs, outputs)

    def request(self, path: str) -> ctypes.c_void_p:
        model = self._made("ov_core_read_model", self._core, path.encode(), None)
        compiled = ctypes.c_void_p()
        # Properties are variadic arguments: first their number, then, after the result, keys and values.
        words = [word.encode() for pair in _PROPERTIES.items() for word in pair]
        self.check(
            self.library.ov_core_compile_model(
                self._core, model, b"CPU", ctypes.c_size_t(len(words)), ctypes.byref(compiled), *words
            )
        )
        return self._made("ov_compiled_model_create_infer_request", compiled)

    def tensor(self, array: np.ndarray) -> ctypes.c_void_p:
        dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
        shape = _Shape(array.ndim, dims)
        data = ctypes.c_void_p(array.ctypes.data)
        return self._made("ov_tensor_create_from_host_ptr", _OPENVINO_TYPES[array.dtype.name], shape, data)

    def check(self, status: int) -> None:
        if status:
            message = self.library.ov_get_last_err_msg() or b""
            raise RuntimeError(f"status {status} {message.decode(errors='replace')}".strip())

    def _made(self, name: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.check(getattr(self.library, name)(*arguments, ctypes.byref(made)))
        return made


class OpenVinoModel:
    def __init__(self, engine: OpenVino, path: str, inputs: list, outputs: list) -> None:
        request = engine.request(path)
        self._results = outputs
        for kind, arrays in (("input", inputs), ("output", outputs)):
            for i, array in enumerate(arrays):
                name = f"{kind}_{i}:0".encode()
                engine.check(engine.library.ov_infer_request_set_tensor(request, name, engine.tensor(array)))
        function = ctypes.cast(engine.library.ov_infer_request_infer, ctypes.c_void_p).value
        self.call = served.CCall(function=function, arguments=(request.value,), keep=(inputs, outputs))

    def results(self) -> list[np.ndarray]:
        return self._results
