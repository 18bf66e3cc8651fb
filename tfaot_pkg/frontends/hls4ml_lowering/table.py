"""The layers that have a lowering, by hls4ml's names of their classes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.frontends.hls4ml_lowering.numbers import Arithmetic, Fixed
from tfaot_pkg.frontends.onnx_lowering.table import Refused
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fixed_network import FixedLayer, FixedTensor, FixedType


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A layer with its inputs, and their types in hls4ml."""

    layer: FixedLayer
    a: Arithmetic
    inputs: tuple[Fixed, ...]
    given: tuple[FixedTensor, ...]
    numbers: Mapping[str, Array]
    io: str

    @property
    def x(self) -> Fixed:
        return self.inputs[0]

    @property
    def output(self) -> FixedTensor:
        return self.layer.outputs[0]

    def fault(
        self, what: str, hint: str = "choose another form of the layer, and convert the network again"
    ) -> Refused:
        return Refused(f"the layer {self.layer.name!r} ({self.layer.kind}): {what}", hint)

    def whole(self, name: str, default: int | None = None) -> int:
        found = self.layer.numbers.get(name, default)
        if found is None or found != int(found):
            raise self.fault(f"it has no {name}")
        return int(found)

    def real(self, name: str, default: float) -> float:
        return float(self.layer.numbers.get(name, default))

    def text(self, name: str, default: str = "") -> str:
        return self.layer.texts.get(name, default).lower()

    def type(self, name: str) -> FixedType:
        found = self.layer.types.get(name)
        if found is None:
            raise self.fault(f"it has no {name}")
        return found

    def array(self, name: str, *shape: int) -> Array:
        """Integers, as the worker wrote them; with `shape` in this shape."""
        found = self.numbers.get(self.layer.arrays.get(name, ""))
        if found is None or found.dtype.kind not in "iu":
            raise self.fault(f"it has no {name}")
        wide: Array = found.astype(np.int64)
        if shape and wide.size != math.prod(shape):
            raise self.fault(f"{name} has {wide.size} numbers, not {'x'.join(map(str, shape))}")
        return wide.reshape(shape) if shape else wide

    def constant(self, name: str, *shape: int) -> Fixed:
        """Weights with their type."""
        return self.a.constant(self.array(name, *shape), self.type(f"{name}_t"))

    @property
    def is_transposed(self) -> bool:
        """Whether the weights are those of the strategy "resource"."""
        return bool(self.layer.numbers.get("_weights_transposed", 0))


Lowering = Callable[[Call], Fixed]
LAYERS: dict[str, Lowering] = {}
"""Filled by the decorator `layer`."""


def layer(*kinds: str) -> Callable[[Lowering], Lowering]:
    def add(function: Lowering) -> Lowering:
        LAYERS.update(dict.fromkeys(kinds, function))
        return function

    return add
