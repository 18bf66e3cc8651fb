"""OpenVINO through its C API: one compiled model and request per batch size, tensors over the caller's memory."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import openvino
import served

# ov_element_type_e
_TYPES = {
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


class Engine:
    def __init__(self) -> None:
        # The runtime that the Python package found and loaded its plugins for.
        library = next((Path(openvino.__file__).parent / "libs").glob("libopenvino_c.so.*"))
        self.library = ctypes.CDLL(str(library))
        self.library.ov_get_last_err_msg.restype = ctypes.c_char_p
        self._core = self._made("ov_core_create")

    def model(self, path: str, inputs: list, outputs: list) -> Model:
        return Model(self, path, inputs, outputs)

    def request(self, path: str) -> ctypes.c_void_p:
        model = self._made("ov_core_read_model", self._core, path.encode(), None)
        compiled = ctypes.c_void_p()
        # Properties are variable arguments: their number, then keys and values behind the result.
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
        return self._made("ov_tensor_create_from_host_ptr", _TYPES[array.dtype.name], shape, data)

    def check(self, status: int) -> None:
        if status:
            message = self.library.ov_get_last_err_msg() or b""
            raise RuntimeError(f"status {status} {message.decode(errors='replace')}".strip())

    def _made(self, name: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.check(getattr(self.library, name)(*arguments, ctypes.byref(made)))
        return made


class Model:
    def __init__(self, engine: Engine, path: str, inputs: list, outputs: list) -> None:
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
