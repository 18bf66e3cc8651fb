"""Softmax and normalizations."""

from __future__ import annotations

import numpy as np

from tfaot_pkg.compiler.attributes import Along
from tfaot_pkg.compiler.program import ONE, ZERO, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, product
from tfaot_pkg.frontends.onnx_lowering.convolutions import by_channel
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, pad
from tfaot_pkg.frontends.onnx_lowering.reductions import maximum, mean, total
from tfaot_pkg.frontends.onnx_lowering.table import Call, operator

_COLUMNS = 4
"""The least distance of neighbours along an inner axis for a softmax along it, as `raise-softmax` has it."""


@operator("Softmax", "LogSoftmax")
def _softmax(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    function = softmax if call.op == "Softmax" else log_softmax
    if call.version >= 13:
        return function(b, x, call.axis(call.whole("axis", -1), x.rank))
    # Up to opset 12, all axes from `axis` on count as one.
    axis = call.axis(call.whole("axis", 1), x.rank)
    flat = b.reshape(x, [*x.sizes[:axis], product(x.sizes[axis:])])
    return b.reshape(function(b, flat, axis), x.sizes)


def softmax(b: Builder, x: Value, axis: int) -> Value:
    if not b.layers or x.dtype != "f32" or x.known is not None:
        a = Arithmetic(b, x)
        powers = a.exp(a.sub(x, maximum(b, x, [axis], keep=True)))
        return a.div(powers, total(b, powers, [axis], keep=True))
    columns = product(x.sizes[axis + 1 :])
    if axis == x.rank - 1 or (columns.is_constant and columns.constant >= _COLUMNS):
        return b.op("softmax", x, attributes=Along(axis=axis))
    order = [*(each for each in range(x.rank) if each != axis), axis]
    made = b.op("softmax", b.transpose(x, order), attributes=Along(axis=x.rank - 1))
    return b.transpose(made, [order.index(each) for each in range(x.rank)])


def log_softmax(b: Builder, x: Value, axis: int) -> Value:
    a = Arithmetic(b, x)
    shifted = a.sub(x, maximum(b, x, [axis], keep=True))
    return a.sub(shifted, a.log(total(b, a.exp(shifted), [axis], keep=True)))


@operator("BatchNormalization")
def _batch_normalization(call: Call) -> Value:
    if call.whole("training_mode", 0) or (call.version < 14 and any(call.node.outputs[1:])):
        raise call.fault("it is in training mode: export the model for inference, model.eval()")
    b, (x, scale, offset, mean_, variance) = call.builder, [call.input(place) for place in range(5)]
    # One factor and one term for each channel, computed now if the statistics are constants.
    a = Arithmetic(b, variance)
    factor = a.div(b.convert(scale, variance.dtype), a.unary("sqrt", a.add(variance, call.real("epsilon", 1e-5))))
    term = a.sub(b.convert(offset, variance.dtype), a.mul(mean_, factor))
    a = Arithmetic(b, x)
    factor, term = (b.convert(each, x.dtype) for each in (factor, term))
    if call.whole("spatial", 1):  # else, in opsets 7 and 8, one for each element of a row
        factor, term = (by_channel(b, each, x.rank) for each in (factor, term))
    return a.add(a.mul(x, factor), term)


def normalized(
    b: Builder, x: Value, axes: list[int], epsilon: float, *, of_images: bool = False
) -> tuple[Value, Value, Value]:
    """`x` minus its mean, over its deviation; the mean, and the inverse of the deviation.

    `of_images`: the mean is the first number, plus the mean of the differences from it. Of equal numbers, as an empty
    image has them, it is then that number. Otherwise its rounding would be their deviation, which each normalization
    divides by sqrt(epsilon): behind two of them the answers of a network would be nothing but roundings.
    """
    a = Arithmetic(b, x)
    if of_images and not b.by_definition:
        first = x
        for axis in axes:
            first = cut(b, first, axis, ZERO, ONE)
        average = a.add(first, mean(b, a.sub(x, first), axes, keep=True))
    else:
        average = mean(b, x, axes, keep=True)
    centred = a.sub(x, average)
    inverse = a.unary("rsqrt", a.add(mean(b, a.mul(centred, centred), axes, keep=True), epsilon))
    return a.mul(centred, inverse), average, inverse


@operator("LayerNormalization")
def _layer_normalization(call: Call) -> tuple[Value, ...]:
    b, x, scale, offset = call.builder, call.input(0), call.input(1), call.maybe(2)
    axis = call.axis(call.whole("axis", -1), x.rank)
    a = Arithmetic(b, x)
    made, average, inverse = normalized(b, x, list(range(axis, x.rank)), call.real("epsilon", 1e-5))
    made = a.mul(made, scale)
    return (made if offset is None else a.add(made, offset)), average, inverse


@operator("SimplifiedLayerNormalization", "RMSNormalization")
def _rms_normalization(call: Call) -> Value:
    b, x, scale = call.builder, call.input(0), call.input(1)
    axis = call.axis(call.whole("axis", -1), x.rank)
    a = Arithmetic(b, x)
    squares = mean(b, a.mul(x, x), list(range(axis, x.rank)), keep=True)
    return a.mul(a.mul(x, a.unary("rsqrt", a.add(squares, call.real("epsilon", 1e-5)))), scale)


@operator("InstanceNormalization")
def _instance_normalization(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    a = Arithmetic(b, x)
    made, _, _ = normalized(b, x, list(range(2, x.rank)), call.real("epsilon", 1e-5), of_images=True)
    scale, offset = (by_channel(b, call.input(place), x.rank) for place in (1, 2))
    return a.add(a.mul(made, scale), offset)


@operator("MeanVarianceNormalization")
def _mean_variance_normalization(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    a, axes = Arithmetic(b, x), [call.axis(each, x.rank) for each in call.wholes("axes") or [0, 2, 3]]
    average = mean(b, x, axes, keep=True)
    # As ONNX defines it, down to the order of operations and the constant below.
    deviation = a.unary("sqrt", a.sub(mean(b, a.mul(x, x), axes, keep=True), a.mul(average, average)))
    return a.div(a.sub(x, average), a.add(deviation, 1e-9))


@operator("LpNormalization")
def _lp_normalization(call: Call) -> Value:
    b, x = call.builder, call.input(0)
    a, axis = Arithmetic(b, x), call.axis(call.whole("axis", -1), x.rank)
    if call.whole("p", 2) == 1:
        norm = total(b, a.unary("abs", x), [axis], keep=True)
    else:
        norm = a.unary("sqrt", total(b, a.mul(x, x), [axis], keep=True))
    # ONNX Runtime gives zeros if the norm is 0.
    return a.where(a.compare("EQ", norm, 0), 0, a.div(x, norm))


@operator("LRN")
def _lrn(call: Call) -> Value:
    b, x, size = call.builder, call.input(0), call.whole("size")
    a, low = Arithmetic(b, x), (size - 1) // 2
    edges = [(0, 0, 0)] * x.rank
    edges[1] = (low, size - 1 - low, 0)
    padded = pad(b, a.mul(x, x), edges, call.constant(0, x))
    parts = [cut(b, padded, 1, Size(place), x.sizes[1] + Size(place)) for place in range(size)]
    whole = parts[0]
    for part in parts[1:]:
        whole = a.add(whole, part)
    share = float(np.float32(call.real("alpha", 1e-4) / size))
    scale = a.add(a.mul(whole, share), call.real("bias", 1.0))
    return a.div(x, a.pow(scale, call.real("beta", 0.75)))
