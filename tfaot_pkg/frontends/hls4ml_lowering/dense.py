"""Dense layers and batch normalization (nnet_dense_latency.h, nnet_dense_resource.h, nnet_batchnorm.h)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.sums import Weights, product_of, weighted
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.worker_program.messages.fixed_network import EXPONENT_BITS, FixedType


def weights_of(call: Call, name: str, inputs: int, outputs: int, data: FixedType) -> Weights:
    """Weights [inputs, outputs] by which products are those of hls4ml."""
    made = scaled_weights(call, name, (outputs, inputs) if call.is_transposed else (inputs, outputs), data)
    return replace(made, values=made.values.T) if call.is_transposed else made


def scaled_weights(call: Call, name: str, shape: tuple[int, int], data: FixedType) -> Weights:
    """Weights of this shape, by which products are those of hls4ml for inputs of the type `data`."""
    values, type_ = call.array(name, *shape), call.type(f"{name}_t")
    _require_exact_powers(call, name, type_, data)
    kind = product_of(data, type_)
    if kind == "weight_binary":
        values = np.where(values == 0, -1, 1)
    elif kind == "weight_ternary":
        # Numbers above 0 are 1: the type has -2, too.
        values = np.where(values == 0, 0, np.where(values == -1, -1, 1))
    elif kind != "mult":
        raise call.fault("inputs of one bit (binary_tanh)", "choose binary weights alone, or more bits for activations")
    return Weights(values=values, fraction=type_.fraction)


def _require_exact_powers(call: Call, name: str, weights: FixedType, data: FixedType) -> None:
    """Products by powers of two have as many bits before the point as behind it: all of them, or it is a fault."""
    bits = call.whole(f"{name}{EXPONENT_BITS}", 0)
    # The least and the largest exponent; powers have one bit more than exponents need, and a sign.
    least, most = -weights.fraction, weights.integer - 3
    if bits and (-least > bits + data.integer or most + data.integer > bits + data.width):
        raise call.fault(
            f"products by powers of two from 2^{least} to 2^{most}, whose places hls4ml cuts off",
            "choose more bits for the quantizer, or for inputs before the point",
        )


@layer("Dense")
def _dense(call: Call) -> Fixed:
    data, inputs, outputs = call.given[0].type, call.whole("n_in"), call.whole("n_out")
    weights = weights_of(call, "weight", inputs, outputs, data)
    reuse = call.whole("reuse_factor", 1) if call.text("strategy") == "resource" else 1
    made = weighted(call, call.x, weights, call.constant("bias", outputs), call.type("accum_t"), reuse)
    return call.a.cast(made, call.output.type)


@layer("BatchNormalization", "ApplyAlpha")
def _batch_normalization(call: Call) -> Fixed:
    """X * scale + bias, exactly, and then converted."""
    a, x, scale, bias = call.a, call.x, call.constant("scale"), call.constant("bias")
    _require_exact_powers(call, "scale", call.type("scale_t"), call.given[0].type)
    kind = product_of(call.given[0].type, call.type("scale_t"))
    if kind not in ("mult", "weight_ternary"):
        raise call.fault("numbers of one bit")
    if call.whole("n_filt", -1) == -1:
        shape = call.x.shape
        scale, bias = (_shaped(call, each, shape) for each in (scale, bias))
    return a.cast(a.add(a.multiply(x, scale), bias), call.output.type)


def _shaped(call: Call, numbers: Fixed, shape: tuple[int, ...]) -> Fixed:
    values = numbers.value.numbers
    assert values is not None
    if values.size == int(np.prod(shape)):
        return call.a.reshape(numbers, shape)
    return numbers


@layer("BatchNormalizationQuantizedTanh")
def _quantized_tanh(call: Call) -> Fixed:
    """The signs of x at thresholds; a bit stands for -1 or 1 if there are two of them."""
    a, x = call.a, call.x
    one, nothing = a.whole(1), a.whole(0)
    if call.whole("quantize") == 2:
        return a.select(a.compare("GE", x, call.constant("threshold")), one, nothing)
    lower = a.select(a.compare("LE", x, call.constant("threshold_lo")), a.whole(-1), nothing)
    return a.select(a.compare("GT", x, call.constant("threshold_hi")), one, lower)
