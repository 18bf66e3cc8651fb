"""Layers between DequantizeLinear and QuantizeLinear, in integers: the quantized operators (quantized.py) in parts.

Bytes minus a zero point are integers times a scale. So are products of such numbers with such weights, and their sums
with a bias of the same scale; rounded to another scale they are those of `QLinearMatMul` and `QLinearConv`, which ONNX
Runtime makes of these nodes, too, if it fuses operators (decision 088).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tfaot_pkg.frontends.lowering.values import Value, known, number_of
from tfaot_pkg.frontends.onnx_lowering.convolutions import channels_first, convolution
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import join
from tfaot_pkg.frontends.onnx_lowering.moving_bytes import MOVES, joined, mean, moved
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.frontends.onnx_lowering.quantized import axis_of, requantized, spread_along
from tfaot_pkg.frontends.onnx_lowering.scaled_values import BYTES, Joined, Scaled, is_same, of_bytes, scaled, zero_of
from tfaot_pkg.frontends.onnx_lowering.table import MICROSOFT, ONNX, OPERATORS, Call, Results
from tfaot_pkg.ground.arrays import Array


def in_integers(call: Call) -> Results | None:
    """What a node makes of such floats; None if it computes with floats."""
    form = _FORMS.get(call.op) if call.node.domain in (ONNX, MICROSOFT) else None
    given = [each for each in call.inputs if isinstance(each, Value)]
    if form is None or any(each.short or each.padded is not None for each in given):
        return None
    return form(call)


def _dequantized(call: Call) -> Value | None:
    x, scale, zero = call.input(0), call.input(1), call.maybe(2)
    if call.whole("block_size", 0) or x.dtype not in (*BYTES, "s32") or scale.dtype != "f32":
        return None
    factor = scale.numbers
    if factor is None or factor.ndim > 1 or not np.all(np.isfinite(factor)) or not np.all(factor > 0):
        return None
    is_one = factor.size == 1
    axis = None if is_one else axis_of(call, x, scale)
    return of_bytes(call.builder, x, zero, factor.reshape(()) if is_one else factor, axis)


# -- products ----------------------------------------------------------------------------------------------------------


def _operands(call: Call, outputs: int) -> tuple[Scaled, Scaled] | None:
    """Bytes of one scale, and constant weights of int8 whose scales are those of the axis `outputs`, if they differ."""
    x, w = call.input(0), call.input(1)
    if not (isinstance(x, Scaled) and isinstance(w, Scaled)) or x.bytes is None:
        return None
    numbers = w.whole.numbers
    if x.axis is not None or w.axis not in (None, outputs) or x.known is not None or numbers is None:
        return None
    if not numbers.size or numbers.min() < -128 or numbers.max() > 127:
        return None
    summed = tuple(axis for axis in range(numbers.ndim) if axis != outputs)
    largest = np.abs(numbers.astype(np.int64)).sum(summed).max()
    return (x, w) if 255 * largest < 1 << 30 else None


def _with_bias(
    call: Call, x: Scaled, w: Scaled, bias: Value | None, axis: int, sums: Callable[[Value | None], Value]
) -> Value:
    """`sums`, which gets a bias of integers if it has the factor of products; another one is added to floats."""
    factor = np.asarray(x.factor * w.factor, np.float32)
    whole = _whole_bias(bias, factor)
    total = sums(whole)
    made = scaled(call.builder, total, factor, axis if factor.ndim else None)
    if bias is None or whole is not None:
        return made
    a = Arithmetic(call.builder, made)
    return a.add(made, spread_along(call.builder, bias, made, axis) if bias.rank == 1 else bias)


def _whole_bias(bias: Value | None, factor: Array) -> Value | None:
    """A constant bias as integers, if it has the factor of products, or is a multiple of it and it is a power of 2."""
    if bias is None or bias.numbers is None or bias.rank != 1:
        return None
    if np.all(np.frexp(factor)[0] == 0.5) and factor.shape in ((), bias.numbers.shape):
        many = bias.numbers.astype(np.float64) / factor
        is_whole = bool(np.all(np.abs(many) < 1 << 30) and np.all(many == np.rint(many)))
        return known(many.astype(np.int32), "s32") if is_whole else None
    if not isinstance(bias, Scaled) or bias.whole.numbers is None:
        return None
    numbers = bias.whole.numbers
    both = np.broadcast_arrays(bias.factor, factor, numbers)
    is_same = np.array_equal(both[0], both[1]) and both[0].shape == numbers.shape
    return bias.whole if is_same and np.abs(numbers.astype(np.int64)).max(initial=0) < 1 << 30 else None


def _of_activations(call: Call) -> Value | None:
    """The product of two arrays of bytes, as of queries and keys."""
    x, y = call.input(0), call.input(1)
    if not (isinstance(x, Scaled) and isinstance(y, Scaled)) or x.bytes is None or y.bytes is None:
        return None
    if any(each is not None for each in (x.axis, y.axis, x.known, y.known)) or min(x.rank, y.rank) < 2:
        return None
    summed = number_of(x.sizes[-1])
    if summed is None or summed >= _MOST_MULTIPLIED or zero_of(x.zero) is None or zero_of(y.zero) is None:
        return None
    made = matmul(call.builder, x.whole, y.whole)
    return scaled(call.builder, made, np.asarray(x.factor * y.factor, np.float32), None)


_MOST_MULTIPLIED = 1 << 15
"""Products of two bytes minus zero points whose sum is in int32 for sure."""


def _matmul(call: Call) -> Value | None:
    pair = _operands(call, 1)
    if pair is None and (made := _of_activations(call)) is not None:
        return made
    if pair is None or pair[1].rank != 2 or not pair[0].rank:
        return None
    x, w = pair
    made = matmul(call.builder, x.whole, w.whole)
    return _with_bias(call, x, w, None, made.rank - 1, lambda _: made)


def _gemm(call: Call) -> Value | None:
    is_turned = bool(call.whole("transB", 0))
    pair, b = _operands(call, 0 if is_turned else 1), call.builder
    if pair is None or call.whole("transA", 0) or (call.real("alpha", 1), call.real("beta", 1)) != (1, 1):
        return None
    x, w = pair
    product = matmul(b, x.whole, b.transpose(w.whole, [1, 0]) if is_turned else w.whole)

    def sums(bias: Value | None) -> Value:
        return product if bias is None else b.map("add", product, bias)

    return _with_bias(call, x, w, call.maybe(2), 1, sums)


def _conv(call: Call) -> Value | None:
    pair = _operands(call, 0)
    if pair is None:
        return None
    x, w = pair

    def sums(bias: Value | None) -> Value:
        return channels_first(call.builder, convolution(call, x.whole, w.whole, bias))

    return _with_bias(call, x, w, call.maybe(2), 1, sums)


def _add(call: Call) -> Value | None:
    """A bias after a product, as exporters of `MatMul` have it."""
    for x, bias in ((call.input(0), call.input(1)), (call.input(1), call.input(0))):
        if not isinstance(x, Scaled) or x.bytes is not None or x.known is not None:
            continue
        if x.axis not in (None, x.rank - 1) or bias.rank != 1 or bias.sizes != x.sizes[-1:]:
            continue
        whole = _whole_bias(bias, x.factor)
        if whole is not None:
            return scaled(call.builder, call.builder.map("add", x.whole, whole), x.factor, x.axis)
    return None


def _relu(call: Call) -> Value | None:
    x, b = call.input(0), call.builder
    if not isinstance(x, Scaled) or x.known is not None:
        return None
    if x.bytes is not None and x.axis is None and (zero := zero_of(x.zero)) is not None:
        most = Arithmetic(b, b.convert(x.bytes, "s32")).max(b.convert(x.bytes, "s32"), zero)
        return of_bytes(b, b.convert(most, x.bytes.dtype), x.zero, x.factor, None)
    return scaled(b, Arithmetic(b, x.whole).max(x.whole, 0), x.factor, x.axis)


def _quantized(call: Call) -> Value | None:
    x, scale, zero = call.input(0), call.input(1), call.maybe(2)
    if x.known is not None or scale.numbers is None or scale.numbers.size != 1:
        return None
    if isinstance(x, Joined):
        return join(call.builder, [_one_quantized(call, each) for each in x.parts], x.axis)
    if not isinstance(x, Scaled) or zero is None or zero_of(zero) is None or zero.dtype not in BYTES:
        return None
    step = scale.numbers.reshape(())
    if x.bytes is not None:
        is_same_scale = x.factor.ndim == 0 and x.factor == step
        return x.bytes if is_same_scale and x.bytes.dtype == zero.dtype and is_same(x.zero, zero) else None
    return _of_sums(call, x, step, zero)


def _of_sums(call: Call, x: Scaled, step: Array, zero: Value) -> Value | None:
    with np.errstate(all="ignore"):
        factor = np.asarray(x.factor / (step * np.float32(x.count)), np.float32)
    if not np.all(np.isfinite(factor)):
        return None
    shape = [-1 if place == x.axis else 1 for place in range(x.rank)] if factor.ndim else []
    return requantized(call, x.whole, known(factor.reshape(shape), "f32"), call.builder.reshape(zero, []))


def _one_quantized(call: Call, x: Value) -> Value:
    one = replace(call, inputs=(x, *call.inputs[1:]))
    made: Results | None = _quantized(one)
    made = OPERATORS[call.node.domain, call.op](one) if made is None else made
    assert isinstance(made, Value)
    return made


_FORMS: Mapping[str, Callable[[Call], Results | None]] = {
    "Add": _add,
    "Concat": joined,
    "Conv": _conv,
    "DequantizeLinear": _dequantized,
    "Gemm": _gemm,
    "GlobalAveragePool": mean,
    "MatMul": _matmul,
    "QuantizeLinear": _quantized,
    "Relu": _relu,
    **dict.fromkeys(MOVES, moved),
}
