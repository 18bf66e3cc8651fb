"""Layers of floats as layers of bytes, with scales that calibration found (decision 098).

The sums of a layer become floats again, unless its result goes to layers of bytes alone: then it is bytes at once, also
through what only moves bytes. Bytes of floats are those of `QuantizeLinear` in ONNX, except that floats are multiplied
by the reciprocal of the scale.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import (
    Comparison,
    Conv2d,
    Conv2dMaxPool,
    Dense,
    Dimensions,
    Layer,
    MaxPool,
    Quantize,
    Quantized,
    QuantizedConv2d,
)
from tfaot_pkg.compiler.passes.rewriting import by_region
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, Attributes, Operation, Program, Region, Shape, used
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

LAYERS = ("conv2d", "conv2d_max_pool", "dense")
HIGHEST = 255
"""Of bytes, which are unsigned."""
LEAST_INPUTS, _MOST_INPUTS = 16, 1 << 15
"""With fewer inputs making bytes costs what the products gain; with more, sums and a bias could exceed int32."""
_FEW = 4
_LARGEST_WEIGHT = 127
_LARGEST_BIAS = float(1 << 30)
_LEAST_STEP = 2.0**-96
"""Of weights, so that products of steps are normal numbers."""
MOVES = ("max_pool", "reshape", "transpose")
"""What gives the same for bytes as for the floats that they stand for."""
_BY_BOUNDS = ("none", "relu", "clipped")
"""Activations that are bounds of bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Bytes stand for (byte - zero) * step. Zero is always among them, as padding needs."""

    step: float
    zero: int


@dataclass(frozen=True, slots=True)
class WholeWeights:
    """Weights as int8, with the step of each output, which is the last axis."""

    whole: Array
    steps: Array


def weights_of(look: Look, layer: Operation) -> Array | None:
    """Weights of a layer that may compute with bytes, the outputs along the last axis; None for other operations."""
    if layer.opcode not in LAYERS or layer.shape.dtype != "f32":
        return None
    weights = look.constant(layer.operands[1])
    if weights is None or any(look.constant(each) is None for each in layer.operands[2:]):
        return None
    if layer.opcode == "dense" and Dense.of(layer).weights_axis == 1:
        weights = weights.T
    elif layer.opcode != "dense" and Conv2d.of(layer).groups != 1:
        return None
    fits = LEAST_INPUTS <= math.prod(weights.shape[:-1]) <= _MOST_INPUTS and weights.shape[-1] > _FEW
    return weights if fits and np.all(np.isfinite(weights)) else None


def bias_of(look: Look, layer: Operation) -> Array:
    biases = [look.constant(each) for each in layer.operands[2:]]
    return sum((each.astype(np.float64) for each in biases if each is not None), np.zeros(1))


def quantize_layers(scales: Mapping[int, Scale]) -> Callable[[Program], Program]:
    """The pass for the layers whose ids have the scales of their inputs."""

    def change(region: Region, outside: Mapping[int, Operation], ids: Iterator[int]) -> Region:
        return _Quantizing(region, outside, ids, scales).made() if scales else region

    return by_region(change)


class _Quantizing:
    """One region."""

    def __init__(
        self, region: Region, outside: Mapping[int, Operation], ids: Iterator[int], scales: Mapping[int, Scale]
    ) -> None:
        self._region, self._scales = region, scales
        self._look = Look(region, outside, ids)
        self._bytes: dict[tuple[int, Scale], int] = {}
        self._own = {each.id for each in region.operations}
        self._users: dict[int, list[Operation]] = {}
        for each in region.operations:
            for operand in {*each.operands, *each.captured()}:
                self._users.setdefault(operand, []).append(each)

    def made(self) -> Region:
        look, made = self._look, list[Operation]()
        if not any(each.id in self._scales for each in self._region.operations):
            return self._region
        for operation in self._region.operations:
            last = self._layer(operation) if operation.id in self._scales else operation
            made += look.new
            look.new.clear()
            made += [last] if last is not None else []
        return Region(operations=used(made, self._region.results), results=self._region.results)

    def _layer(self, layer: Operation) -> Operation | None:
        """Its last operation, which has its id; None if only bytes of its result are used."""
        look, scale = self._look, self._scales[layer.id]
        weights, bias = weights_of(look, layer), bias_of(look, layer)
        assert weights is not None
        x = self._as_bytes(layer.operands[0], scale)
        found = quantized_weights(weights, bias, scale.step)
        factors = scale.step * found.steps
        sums = np.rint(bias / factors) - scale.zero * found.whole.sum(tuple(range(weights.ndim - 1)), dtype=np.int64)
        operands = (
            x,
            look.add_constant(np.ascontiguousarray(found.whole), layer),
            look.add_constant(sums.astype(np.int64).astype(np.int32), layer),
        )
        if (of_result := self._scale_of_result(layer)) is None:
            return self._floats(layer, operands, factors.astype(np.float32), scale)
        bounds = _bounds(layer, of_result)
        scales = look.add_constant((factors / of_result.step).astype(np.float32), layer)
        made = self._add(self._call(layer, "u8", (*operands, scales), scale, bounds))
        self._bytes[layer.id, of_result] = self._pooled(layer, made).id
        return None

    def _call(
        self, layer: Operation, dtype: str, operands: tuple[int, ...], scale: Scale, attributes: Quantized
    ) -> Operation:
        sizes, given = layer.shape.sizes, attributes
        if layer.opcode != "dense":
            window = Conv2d.of(layer).window
            sizes = (sizes[0], as_size(window[3]), as_size(window[4]), sizes[3])
            attributes = QuantizedConv2d(
                window=window, padding=scale.zero, zero=given.zero, low=given.low, high=given.high
            )
        opcode = "quantized_dense" if layer.opcode == "dense" else "quantized_conv2d"
        return replace(
            layer, id=self._look.fresh(), opcode=opcode, type=Shape(dtype, sizes), operands=operands,
            attributes=attributes,
        )  # fmt: skip

    def _pooled(self, layer: Operation, value: Operation) -> Operation:
        """The maxima of `value`, if the layer is pooled."""
        if layer.opcode != "conv2d_max_pool":
            return value
        pool = MaxPool(window=Conv2dMaxPool.of(layer).pool)
        shape = Shape(value.shape.dtype, layer.shape.sizes)
        return self._then("max_pool", shape, value.id, like=layer, attributes=pool)

    def _floats(self, layer: Operation, operands: tuple[int, ...], factors: Array, scale: Scale) -> Operation:
        """The sums, times their steps, with the activation."""
        call = self._add(self._call(layer, "s32", operands, scale, Quantized()))
        shape = Shape("f32", call.shape.sizes)
        vector = self._look.add_constant(factors, layer)
        spread = self._then("broadcast", shape, vector, like=layer, attributes=_along(shape.rank - 1))
        floats = self._then("convert", shape, call.id, like=layer)
        values = self._then("multiply", shape, floats.id, spread.id, like=layer)
        made = self._pooled(layer, self._activated(layer, values))
        # The last operation has the layer's id: it was added last.
        self._look.new.remove(made)
        return replace(made, id=layer.id)

    def _activated(self, layer: Operation, x: Operation) -> Operation:
        name, numbers = _activation(layer)

        def then(opcode: str, *operands: int, shape: Shape = x.shape, attributes: Attributes = NO_ATTRIBUTES) -> int:
            return self._then(opcode, shape, *operands, like=layer, attributes=attributes).id

        def number(value: float) -> int:
            return then("broadcast", self._number(value, layer), attributes=_along())

        match name:
            case "none":
                return x
            case "relu":
                made = then("maximum", x.id, number(0))
            case "clipped":
                made = then("minimum", then("maximum", x.id, number(numbers[0])), number(numbers[1]))
            case "leakyRelu":
                below = then("multiply", then("minimum", x.id, number(0)), number(numbers[0]))
                made = then("add", then("maximum", x.id, number(0)), below)
            case "elu":
                test = then("compare", x.id, number(0), shape=Shape("pred", x.shape.sizes), attributes=_ABOVE)
                made = then("select", test, x.id, then("exponential-minus-one", x.id))
            case _:
                made = then(_OPCODES.get(name, name.replace("_", "-")), x.id)
        return self._look.known[made]

    def _as_bytes(self, value: int, scale: Scale) -> int:
        """`value` as bytes of `scale`: moved as bytes, if what it is made of is bytes already or moved to it."""
        if (value, scale) in self._bytes:
            return self._bytes[value, scale]
        found = self._look.known[value]
        if found.opcode in MOVES and value in self._own:
            (source,) = found.operands
            moved = self._as_bytes(source, scale)
            shape = Shape("u8", found.shape.sizes)
            made = self._then(found.opcode, shape, moved, like=found, attributes=found.attributes)
        else:
            made = self._rounded(found, scale)
        self._bytes[value, scale] = made.id
        return made.id

    def _rounded(self, x: Operation, scale: Scale) -> Operation:
        """Bytes of floats, half to even; those of NaN are the lowest, as ONNX Runtime has them."""

        factor = self._then("broadcast", x.shape, self._number(1.0 / scale.step, x), like=x, attributes=_along())
        scaled = self._then("multiply", x.shape, x.id, factor.id, like=x)
        numbers = Quantize(scale=1.0, zero=scale.zero, low=0, high=HIGHEST)
        return self._then("quantize", Shape("u8", x.shape.sizes), scaled.id, like=x, attributes=numbers)

    def _scale_of_result(self, layer: Operation) -> Scale | None:
        """The scale of a layer's result if all that use it take bytes of one scale; None if one takes floats."""
        if _activation(layer)[0] not in _BY_BOUNDS:
            return None
        found = self._scales_of_users(layer.id)
        return found.pop() if found is not None and len(found) == 1 else None

    def _scales_of_users(self, value: int) -> set[Scale] | None:
        if value in self._region.results:
            return None
        found = set[Scale]()
        for user in self._users.get(value, ()):
            if user.id in self._scales and user.operands[0] == value:
                found.add(self._scales[user.id])
            elif user.opcode in MOVES and (inner := self._scales_of_users(user.id)) is not None:
                found |= inner
            else:
                return None
        return found

    def _number(self, value: float, like: Operation) -> int:
        return self._look.add_constant(np.array(value, np.float32), like)

    def _add(self, operation: Operation) -> Operation:
        return self._look.add(operation)

    def _then(
        self, opcode: str, shape: Shape, *operands: int, like: Operation, attributes: Attributes = NO_ATTRIBUTES
    ) -> Operation:
        made = Operation(
            id=self._look.fresh(), opcode=opcode, type=shape, operands=operands, attributes=attributes, node=like.node
        )
        return self._add(made)


_ABOVE = Comparison(direction="GT")
_OPCODES = {"sigmoid": "logistic"}


def _along(*axes: int) -> Dimensions:
    return Dimensions(dimensions=axes)


def _activation(layer: Operation) -> tuple[str, list[float]]:
    """Its name and its numbers."""
    name, *numbers = re.findall(r"[^(), ]+", Layer.of(layer).activation)
    return name, [
        float(each.replace("kNoEnd", "inf")) if "kNoEnd" in each else float.fromhex(each.removesuffix("f"))
        for each in numbers
    ]


def _bounds(layer: Operation, scale: Scale) -> Quantized:
    """The bytes between which the activation leaves its results."""
    name, numbers = _activation(layer)
    low, high = {"relu": (0.0, math.inf), "clipped": tuple(numbers)}.get(name, (-math.inf, math.inf))
    ends = np.clip(np.rint(np.divide((low, high), scale.step)) + scale.zero, 0, HIGHEST)
    return Quantized(zero=scale.zero, low=int(ends[0]), high=int(ends[1]))


def quantized_weights(weights: Array, bias: Array, step: float) -> WholeWeights:
    """Weights as integers, a scale for each output, large enough that the bias is an integer, too."""
    most = np.abs(weights.astype(np.float64)).max(tuple(range(weights.ndim - 1)))
    steps = np.maximum(np.maximum(most / _LARGEST_WEIGHT, np.abs(bias) / (step * _LARGEST_BIAS)), _LEAST_STEP)
    whole = np.clip(np.rint(weights / steps), -_LARGEST_WEIGHT, _LARGEST_WEIGHT).astype(np.int8)
    return WholeWeights(whole, steps)
