"""Write the networks that benchmarks/quantized.py measures: ONNX files of floats, and of bytes in the QDQ form.

    PYTHON quantized_models.py FOLDER [NAME...]       in a Python that has NumPy and onnx

Weights are random; both files of a network have the same. Activations have one scale, weights one for each output.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

SPEC = """\
model: {{name: {name}, version: "1.0.0", onnx: {name}.onnx, description: {description}}}
compilation: {{batch_sizes: [1, 16, 64]}}
"""
QUANTIZED = "_int8"
POOL, MEAN, RESIDUAL = "pool", "mean", "residual"
NETWORKS = {
    "mlp_64": ("four dense layers of 64 and one of 10", (64,), [*[64] * 4, 10]),
    "mlp_512": ("four dense layers of 512 and one of 10", (512,), [*[512] * 4, 10]),
    "conv_net": (
        "two 3x3 convolutions of 32, a pool, one of 64, a pool, and a dense layer, of images of 32 x 32",
        (3, 32, 32),
        [(32,), (32,), POOL, (64,), POOL, 10],
    ),
    "res_net": (
        "two residual blocks of 32 and two of 64, the means of channels, and a dense layer, of images of 32 x 32",
        (3, 32, 32),
        [(32,), RESIDUAL, RESIDUAL, POOL, (64,), RESIDUAL, RESIDUAL, MEAN, 10],
    ),
}
STEP_OF_INPUTS, STEP = np.float32(6 / 255), np.float32(3 / 255)


class Writer:
    def __init__(self, *, quantized):
        self.quantized, self.nodes, self.constants = quantized, [], []
        self.random = np.random.default_rng(1)

    def constant(self, name, values):
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def add(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def through_bytes(self, value, step, zero):
        if not self.quantized:
            return value
        scale = [self.constant(f"{value}_step", step), self.constant(f"{value}_zero", np.uint8(zero))]
        return self.add(
            "DequantizeLinear",
            [self.add("QuantizeLinear", [value, *scale], f"{value}_bytes"), *scale],
            f"{value}_floats",
        )

    def weights(self, name, shape, step):
        """Weights and a bias."""
        by_output = (-1, *[1] * (len(shape) - 1))
        numbers = (self.random.normal(size=shape) / np.prod(shape[1:]) ** 0.5).astype(np.float32)
        bias = (self.random.normal(size=shape[0]) / 10).astype(np.float32)
        scales = np.abs(numbers).reshape(shape[0], -1).max(1) / np.float32(127)
        whole = np.rint(numbers / scales.reshape(by_output)).astype(np.int8)
        if not self.quantized:
            return [
                self.constant(f"{name}_weights", whole * scales.reshape(by_output)),
                self.constant(f"{name}_bias", bias),
            ]
        pairs = ("weights", whole, scales), ("bias", np.rint(bias / (step * scales)).astype(np.int32), step * scales)
        found = []
        for part, each, factors in pairs:
            # ONNX Runtime fuses dense layers only if weights have zero points, as its own tools write them.
            kinds = ("whole", each), ("scales", factors), ("zeros", np.zeros(len(factors), each.dtype))
            inputs = [self.constant(f"{name}_{part}_{kind}", values) for kind, values in kinds]
            found.append(self.add("DequantizeLinear", inputs, f"{name}_{part}", axis=0))
        return found

    def convolution(self, key, value, step, filters, channels):
        return self.add("Conv", [value, *self.weights(key, (filters, channels, 3, 3), step)], key, pads=[1, 1, 1, 1])

    def residual(self, key, value, step, channels):
        """What two convolutions add."""
        first = self.convolution(f"{key}_first", value, step, channels, channels)
        inner = self.through_bytes(self.add("Relu", [first], f"{key}_inner"), STEP, 0)
        second = self.convolution(f"{key}_second", inner, STEP, channels, channels)
        total = self.add("Add", [self.through_bytes(second, STEP, 128), value], f"{key}_sum")
        return self.through_bytes(self.add("Relu", [total], f"{key}_relu"), STEP, 0)

    def model(self, name, sizes, layers):
        value, step, shape = self.through_bytes("x", STEP_OF_INPUTS, 128), STEP_OF_INPUTS, sizes
        for place, layer in enumerate(layers):
            key, is_last = f"layer_{place}", place == len(layers) - 1
            if layer == POOL:
                made = self.add("MaxPool", [value], key, kernel_shape=[2, 2], strides=[2, 2])
                shape = (shape[0], shape[1] // 2, shape[2] // 2)
                value = self.through_bytes(made, step, 0)
                continue
            if layer == MEAN:
                value = self.through_bytes(self.add("GlobalAveragePool", [value], key), step, 0)
                shape = (shape[0], 1, 1)
                continue
            if layer == RESIDUAL:
                value, step = self.residual(key, value, step, shape[0]), STEP
                continue
            if isinstance(layer, tuple):
                made, shape = self.convolution(key, value, step, layer[0], shape[0]), (*layer, *shape[1:])
            else:
                value = self.add("Flatten", [value], f"{key}_flat") if len(shape) > 1 else value
                given = [value, *self.weights(key, (layer, int(np.prod(shape))), step)]
                made, shape = self.add("Gemm", given, "y" if is_last else key, transB=1), (layer,)
            step = STEP
            value = made if is_last else self.through_bytes(self.add("Relu", [made], f"{key}_relu"), step, 0)
        ends = [
            helper.make_tensor_value_info(key, TensorProto.FLOAT, ["N", *of])
            for key, of in (("x", sizes), ("y", shape))
        ]
        graph = helper.make_graph(self.nodes, name, ends[:1], ends[1:], self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main(folder, *names):
    for name in names:
        plain = name.removesuffix(QUANTIZED)
        description, sizes, layers = NETWORKS[plain]
        made = Path(folder) / name
        made.mkdir(parents=True, exist_ok=True)
        save(Writer(quantized=name != plain).model(name, sizes, layers), made / f"{name}.onnx")
        of = "bytes" if name != plain else "floats"
        (made / "spec.yaml").write_text(SPEC.format(name=name, description=f'"{description}; {of}"'))


if __name__ == "__main__":
    main(*sys.argv[1:])
