"""Quantize ONNX files with ONNX Runtime's own tool: benchmarks/precision.py measures them.

    PYTHON quantize.py FOLDER NAME...       in a Python that has onnx and onnxruntime

Reads FOLDER/NAME/NAME.onnx and writes FOLDER/NAME_int8/NAME_int8.onnx with its spec: the QDQ form, activations of
uint8, weights of int8 with a scale for each output. Inputs for the scales are random, as the networks' weights are.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

SPEC = """\
model: {{name: {name}, version: "1.0.0", onnx: {name}.onnx, description: "{plain}, quantized"}}
compilation: {{batch_sizes: [1, 16, 64]}}
validation: {{rtol: 1e-3, atol: 1e-5}}
"""


class Rows(CalibrationDataReader):
    def __init__(self, model: onnx.ModelProto, batches: int = 8, rows: int = 4) -> None:
        random = np.random.default_rng(1)
        self._left = [
            {
                each.name: random.standard_normal(
                    (rows, *(axis.dim_value for axis in each.type.tensor_type.shape.dim[1:]))
                ).astype(np.float32)
                for each in model.graph.input
            }
            for _ in range(batches)
        ]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self._left.pop() if self._left else None


def main(folder: str, *names: str) -> None:
    for plain in names:
        name = f"{plain}_int8"
        source, made = Path(folder) / plain / f"{plain}.onnx", Path(folder) / name
        made.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as work:
            prepared = Path(work) / "prepared.onnx"
            quant_pre_process(source, prepared, skip_symbolic_shape=True)  # folds batch normalizations
            quantize_static(
                prepared, made / f"{name}.onnx", Rows(onnx.load(source)), quant_format=QuantFormat.QDQ,
                per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8,
            )  # fmt: skip
        (made / "spec.yaml").write_text(SPEC.format(name=name, plain=plain))


if __name__ == "__main__":
    main(*sys.argv[1:])
