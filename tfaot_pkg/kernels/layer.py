"""`Layer`: a part of a frozen graph that the kernel library can compute (worker_program/layers.py finds them)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tfaot_pkg.signature import DType

Kind = Literal["dense", "conv2d", "max_pool", "average_pool", "softmax", "add"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer: `input_size` floats in and `output_size` out per row of the batch.

    `operation` is its kind and what that needs to know, in the words of tfaot_kernels/kernels.h. `reads` is the tensor
    (node, index) that it takes, `name` the node whose first output it gives, of `output_shape` behind the first axis;
    `reads_input` and `gives_output` say that these are the model's only input and only output, but for their shape.
    `after` is the layer that makes what this one reads where nothing else uses that, "" where there is none. Of a sum,
    `adds` is the layer before it in its chain whose input it adds; that input may be used by both.
    `parameters` is the weight (as those of a FrozenModel) that holds packed weights and bias, None where it has none.
    """

    name: str
    operation: Mapping[str, Any]
    reads: tuple[str, int]
    after: str
    adds: str = ""
    reads_input: bool
    gives_output: bool
    input_size: int
    output_size: int
    output_shape: tuple[int, ...]
    parameters: Mapping[str, Any] | None

    @classmethod
    def from_worker(cls, item: Mapping[str, Any]) -> Layer:
        node, index = item["reads"]
        fields = {**item, "reads": (node, index), "output_shape": tuple(item["output_shape"])}
        return cls(**fields)

    @property
    def kind(self) -> Kind:
        kind: Kind = self.operation["kind"]
        return kind

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
        return int(math.prod(self.parameters["shape"]) * DType(self.parameters["dtype"]).itemsize)

    @property
    def bias_offset(self) -> int:
        """Where the bias begins among the parameters, in floats."""
        columns = self.operation["outputs" if self.kind == "dense" else "filters"]
        return int(math.prod(self.parameters["shape"] if self.parameters else ()) - columns)

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
