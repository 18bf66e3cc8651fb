"""LiteRT (TensorFlow Lite with XNNPACK): one interpreter per batch size, called through its Python binding.

The wheel exports no C function of the interpreter; the binding costs some 0.3 us a call.
"""

from __future__ import annotations

import numpy as np
from ai_edge_litert import interpreter


class Engine:
    def model(self, path: str, inputs: list, outputs: list) -> Model:
        return Model(path, inputs, outputs)


class Model:
    def __init__(self, path: str, inputs: list, outputs: list) -> None:
        # One thread, as all engines: a core is compared with a core.
        self._interpreter = interpreter.Interpreter(model_path=path, num_threads=1)
        self._interpreter.allocate_tensors()
        # The model lists its tensors in another order than the signature does.
        signature = self._interpreter.get_signature_runner()
        wanted, given = signature.get_input_details(), signature.get_output_details()
        for i, array in enumerate(inputs):
            if f"input_{i}" in wanted:  # the converter leaves out what is not used
                self._interpreter.set_tensor(wanted[f"input_{i}"]["index"], array)
        self._outputs = [given[f"output_{i}"]["index"] for i in range(len(outputs))]
        # What `invoke` calls after its checks.
        self.call = self._interpreter._interpreter.Invoke  # noqa: SLF001

    def results(self) -> list[np.ndarray]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]
