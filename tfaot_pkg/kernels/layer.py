"""`Layer`: a part of a frozen graph that the kernel library can compute (worker_program/layers.py finds them)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, cast

from tfaot_pkg.signature import DType
from tfaot_pkg.worker_program.messages.graph import FoundLayer

# kRowsAtATime and kFloats of tfaot_kernels/scratch.h: generated code compares both results by a static_assert.
_ROWS_AT_A_TIME = 64
_FLOATS_AT_A_TIME = 16384

_Operation = Mapping[str, int]


def conv2d_scratch(conv: _Operation) -> int:
    """conv2dScratch: a copy of some lines of the input between zeros, if windows see padding."""
    lines, columns = _reach(conv, "height", 1), _reach(conv, "width", conv["out_width"])
    whole = _reach(conv, "height", conv["out_height"])
    inside = columns <= conv["in_width"] and whole <= conv["in_height"]
    if inside and not conv["pad_top"] and not conv["pad_left"]:
        return 0
    most = _FLOATS_AT_A_TIME // (columns * conv["channels"])
    fitting = (most - lines) // conv["stride_height"] + 1 if most > lines else 1
    at_a_time = min(max(fitting, -(-_ROWS_AT_A_TIME // conv["out_width"])), conv["out_height"])
    return ((at_a_time - 1) * conv["stride_height"] + lines) * columns * conv["channels"]


def conv2d_max_pool_scratch(conv: _Operation, pool: _Operation) -> int:
    """conv2dMaxPoolScratch: that, and the lines of the convolution that wait for their pooling."""
    at_a_time = min(1 + _ROWS_AT_A_TIME // (pool["stride_height"] * conv["out_width"]), pool["out_height"])
    return conv2d_scratch(conv) + _reach(pool, "height", at_a_time) * conv["out_width"] * conv["filters"]


def _reach(operation: _Operation, axis: str, windows: int) -> int:
    """Elements along an axis that `windows` successive windows cover."""
    kernel = (operation[axis] - 1) * operation[f"dilation_{axis}"] + 1
    return (windows - 1) * operation[f"stride_{axis}"] + kernel


Kind = Literal["dense", "conv2d", "max_pool", "average_pool", "softmax", "add"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(FoundLayer):
    """One layer: `input_size` floats in and `output_size` out per row of the batch.

    `operation` is its kind and what that needs to know, in the words of tfaot_kernels/kernels.h. `reads` is the tensor
    (node, index) that it takes, `name` the node whose first output it gives, of `output_shape` behind the first axis;
    `reads_input` and `gives_output` say that these are the model's only input and only output, apart from their shape.
    `after` is the layer that makes what this one reads if nothing else uses that, "" if there is none. Of a sum,
    `adds` is the layer before it in its chain whose input it adds; that input may be used by both.
    `parameters` is the weight that holds packed weights and bias, None if it has none.
    """

    operation: Mapping[str, Any]

    @classmethod
    def of(cls, found: FoundLayer) -> Layer:
        return cls(**{field.name: getattr(found, field.name) for field in fields(found)})

    @property
    def kind(self) -> Kind:
        return cast("Kind", self.operation["kind"])

    @property
    def is_product(self) -> bool:
        return self.parameters is not None

    @property
    def is_spatial(self) -> bool:
        """Whether it works on images, of which each is better followed through several layers than all at once."""
        return self.kind in ("conv2d", "max_pool", "average_pool")

    @property
    def parameters_size(self) -> int:
        """Bytes of the parameters."""
        if self.parameters is None:
            return 0
        return math.prod(self.parameters.shape) * DType(self.parameters.dtype).itemsize

    @property
    def bias_offset(self) -> int:
        """Where the bias begins among the parameters, in floats."""
        columns = self.operation["outputs" if self.kind == "dense" else "filters"]
        return int(math.prod(self.parameters.shape if self.parameters else ()) - columns)

    @property
    def multiply_adds(self) -> int:
        """Per row of the batch."""
        op = self.operation
        if self.kind == "dense":
            return int(op["rows"] * op["inputs"] * op["outputs"])
        if self.kind == "conv2d":
            window = op["height"] * op["width"] * (op["channels"] // op["groups"])
            return int(op["out_height"] * op["out_width"] * window * op["filters"])
        return 0
