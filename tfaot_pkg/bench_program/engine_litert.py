"""LiteRT (TensorFlow Lite with XNNPACK): one interpreter per batch size, called through its Python binding.

The wheel exports no C function to run a model; the binding costs some 0.3 us a call.
"""

from __future__ import annotations

import re

import numpy as np
from ai_edge_litert import interpreter

_INPUT = re.compile(r"input_(\d+)")


class Engine:
    def model(self, path: str, inputs: list, outputs: list) -> Model:
        return Model(path, inputs, outputs)


class Model:
    def __init__(self, path: str, inputs: list, outputs: list) -> None:
        self._interpreter = interpreter.Interpreter(model_path=path, num_threads=1)
        self._interpreter.allocate_tensors()
        for detail in self._interpreter.get_input_details():
            place = _INPUT.search(detail["name"])
            if place is None:
                raise ValueError(f"unknown input {detail['name']}")
            self._interpreter.set_tensor(detail["index"], inputs[int(place[1])])
        self._outputs = [detail["index"] for detail in self._interpreter.get_output_details()]
        # What `invoke` calls after its checks.
        self.call = self._interpreter._interpreter.Invoke  # noqa: SLF001

    def results(self) -> list[np.ndarray]:
        return [self._interpreter.get_tensor(index) for index in self._outputs]
