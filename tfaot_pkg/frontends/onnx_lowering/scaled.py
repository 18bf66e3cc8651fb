"""Layers between DequantizeLinear and QuantizeLinear, in integers: the quantized operators (quantized.py) in parts.

Bytes minus a zero point are integers times a scale. So are products of such numbers with such weights, and their sums
with a bias of the same scale; rounded to another scale they are those of `QLinearMatMul` and `QLinearConv`, which ONNX
Runtime makes of these nodes, too, if it fuses operators (decision 088).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.program import Shape
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.convolutions import channels_first, convolution
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.frontends.onnx_lowering.quantized import axis_of, requantized, spread_along
from tfaot_pkg.frontends.onnx_lowering.table import MICROSOFT, ONNX, OPERATORS, Call
from tfaot_pkg.ground.arrays import Array

_BYTES = frozenset({"u8", "s8"})
_MOVES = frozenset("Flatten MaxPool Reshape Squeeze Transpose Unsqueeze".split())
"""Their results are elements of their inputs. Scales are positive, so that the largest float is the largest byte."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaled(Value):
    """Floats that are `whole`, int32, times `factor`: a number, or one for each element along `axis`.

    They may be `bytes` minus `zero`, which are as small as operands of products must be.
    """

    whole: Value
    factor: Array
    axis: int | None = None
    bytes: Value | None = None
    zero: Value | None = None


def in_integers(call: Call) -> Value | None:
    """What a node makes of such floats; None if it computes with floats."""
    form = _FORMS.get(call.op) if call.node.domain in (ONNX, MICROSOFT) else None
    given = [each for each in call.inputs if isinstance(each, Value)]
    if form is None or any(each.short or each.padded is not None for each in given):
        return None
    return form(call)


def scaled(b: Builder, whole: Value, factor: Array, axis: int | None) -> Scaled:
    """Integers times `factor`, along `axis` if there are several."""
    shape = [-1 if place == axis else 1 for place in range(whole.rank)]
    by = known(factor.reshape(shape if factor.ndim else ()), "f32")
    made = b.map("multiply", b.convert(whole, "f32"), by)
    return Scaled(
        shape=Shape("f32", made.sizes), known=made.known, id=made.id, whole=whole, factor=factor, axis=axis
    )  # fmt: skip


def of_bytes(b: Builder, x: Value, zero: Value | None, factor: Array, axis: int | None) -> Scaled:
    """Bytes minus a zero point (0 if it is None), times `factor`."""
    whole = b.convert(x, "s32")
    if zero is not None:
        whole = Arithmetic(b, whole).sub(whole, b.convert(spread_along(b, zero, x, axis or 0), "s32"))
    made = scaled(b, whole, factor, axis)
    return replace(made, bytes=x if x.dtype in _BYTES else None, zero=zero)


def _dequantized(call: Call) -> Value | None:
    x, scale, zero = call.input(0), call.input(1), call.maybe(2)
    if call.whole("block_size", 0) or x.dtype not in (*_BYTES, "s32") or scale.dtype != "f32":
        return None
    factor = scale.numbers
    if factor is None or factor.ndim > 1 or not np.all(np.isfinite(factor)) or not np.all(factor > 0):
        return None
    is_one = factor.size == 1
    axis = None if is_one else axis_of(call, x, scale)
    return of_bytes(call.builder, x, zero, factor.reshape(()) if is_one else factor, axis)


def _moved(call: Call) -> Value | None:
    x = call.input(0)
    if not isinstance(x, Scaled) or any(call.node.outputs[1:]):
        return None
    is_constant, is_turned = x.whole.numbers is not None, call.op == "Transpose"
    if (x.bytes is None and not is_constant) or (x.axis is not None and not (is_constant and is_turned)):
        return None
    moving = x.whole if x.bytes is None or is_constant else x.bytes
    moved = OPERATORS[call.node.domain, call.op](replace(call, inputs=(moving, *call.inputs[1:])))
    assert isinstance(moved, Value)
    if is_constant:
        order = call.wholes("perm") or list(range(x.rank))[::-1]
        return scaled(call.builder, moved, x.factor, None if x.axis is None else order.index(x.axis))
    return of_bytes(call.builder, moved, x.zero, x.factor, None)


def _joined(call: Call) -> Value | None:
    """Bytes of one scale and zero point side by side."""
    given = call.arrays
    first = given[0]
    if not isinstance(first, Scaled) or first.bytes is None or first.axis is not None:
        return None
    parts = [first.bytes]
    for each in given[1:]:
        if not isinstance(each, Scaled) or each.bytes is None or each.axis is not None:
            return None
        if each.bytes.dtype != first.bytes.dtype or each.factor != first.factor or not _is_same(each.zero, first.zero):
            return None
        parts.append(each.bytes)
    joined = OPERATORS[call.node.domain, call.op](replace(call, inputs=tuple(parts)))
    assert isinstance(joined, Value)
    return of_bytes(call.builder, joined, first.zero, first.factor, None)


def _is_same(one: Value | None, two: Value | None) -> bool:
    number = _number(one)
    return number is not None and number == _number(two)


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


def _matmul(call: Call) -> Value | None:
    pair = _operands(call, 1)
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
    if x.bytes is not None and x.axis is None and (zero := _number(x.zero)) is not None:
        most = Arithmetic(b, b.convert(x.bytes, "s32")).max(b.convert(x.bytes, "s32"), zero)
        return of_bytes(b, b.convert(most, x.bytes.dtype), x.zero, x.factor, None)
    return scaled(b, Arithmetic(b, x.whole).max(x.whole, 0), x.factor, x.axis)


def _quantized(call: Call) -> Value | None:
    x, scale, zero = call.input(0), call.input(1), call.maybe(2)
    if not isinstance(x, Scaled) or x.known is not None or scale.numbers is None or scale.numbers.size != 1:
        return None
    if zero is None or _number(zero) is None or zero.dtype not in _BYTES:
        return None
    step = scale.numbers.reshape(())
    if x.bytes is not None:
        is_same = x.bytes.dtype == zero.dtype and _number(x.zero) == _number(zero)
        return x.bytes if is_same and x.factor.ndim == 0 and x.factor == step else None
    with np.errstate(all="ignore"):
        factor = np.asarray(x.factor / step, np.float32)
    if not np.all(np.isfinite(factor)):
        return None
    shape = [-1 if place == x.axis else 1 for place in range(x.rank)] if factor.ndim else []
    return requantized(call, x.whole, known(factor.reshape(shape), "f32"), call.builder.reshape(zero, []))


def _number(zero: Value | None) -> int | None:
    """A zero point; None if there are several, or it is computed."""
    if zero is None:
        return 0
    return int(zero.numbers.reshape(())) if zero.numbers is not None and zero.numbers.size == 1 else None


_FORMS: Mapping[str, Callable[[Call], Value | None]] = {
    "Add": _add,
    "Concat": _joined,
    "Conv": _conv,
    "DequantizeLinear": _dequantized,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "QuantizeLinear": _quantized,
    "Relu": _relu,
    **dict.fromkeys(_MOVES, _moved),
}
