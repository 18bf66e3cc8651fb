"""Operators of com.microsoft, into which ONNX Runtime's tools fuse layers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tfaot_pkg.compiler.program import ONE, ZERO, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.convolutions import channels_first, convolution
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic, gelu, hard_sigmoid, leaky_relu, swish
from tfaot_pkg.frontends.onnx_lowering.indexing import take
from tfaot_pkg.frontends.onnx_lowering.moving import cut
from tfaot_pkg.frontends.onnx_lowering.normalizing import normalized, softmax
from tfaot_pkg.frontends.onnx_lowering.places import distance
from tfaot_pkg.frontends.onnx_lowering.products import gemm, matmul
from tfaot_pkg.frontends.onnx_lowering.reductions import mean, total
from tfaot_pkg.frontends.onnx_lowering.table import MICROSOFT, Call, operator
from tfaot_pkg.ground.arrays import Array


def _sum(b: Builder, *values: Value | None) -> Value:
    given = [each for each in values if each is not None]
    made = given[0]
    for each in given[1:]:
        made = b.map("add", made, each)
    return made


@operator("Gelu", "BiasGelu", "FastGelu", domain=MICROSOFT)
def _gelu(call: Call) -> Value:
    return gelu(call, _sum(call.builder, call.input(0), call.maybe(1)), tanh=call.op == "FastGelu")


@operator("QuickGelu", domain=MICROSOFT)
def _quick_gelu(call: Call) -> Value:
    return swish(call, call.input(0), call.real("alpha", 1.702))


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(call: Call) -> Value:
    b = call.builder
    x, y = (_turned(call, call.input(place), name) for place, name in ((0, "A"), (1, "B")))
    made = matmul(b, x, y)
    return made if call.real("alpha", 1) == 1 else Arithmetic(b, made).mul(made, call.real("alpha", 1))


def _turned(call: Call, x: Value, name: str) -> Value:
    """`x` with its first axis after the others of the batch, and its last two exchanged, as the attributes say."""
    order = list(range(x.rank))
    if call.whole(f"transBatch{name}", 0):
        order = [*order[1:-1], order[0], order[-1]]
    if call.whole(f"trans{name}", 0):
        order[-2:] = order[-2:][::-1]
    return call.builder.transpose(x, order)


def _activated(call: Call, x: Value) -> Value:
    kind, more, a = call.text("activation", ""), call.reals("activation_params") or [], Arithmetic(call.builder, x)
    if kind == "":
        return x
    if kind == "Relu":
        return a.max(x, 0)
    if kind in ("Sigmoid", "Tanh"):
        return a.unary("logistic" if kind == "Sigmoid" else "tanh", x)
    if kind == "LeakyRelu":
        return leaky_relu(a, x, more[0] if more else call.real("activation_alpha", 0.01))
    if kind == "Clip":
        return a.min(a.max(x, more[0]), more[1])
    if kind == "HardSigmoid":
        return hard_sigmoid(a, x, more[0], more[1])
    raise call.fault(f"the activation {kind!r}")


@operator("FusedConv", domain=MICROSOFT)
def _fused_conv(call: Call) -> Value:
    made = channels_first(call.builder, convolution(call, call.input(0), call.input(1), call.maybe(2)))
    return _activated(call, _sum(call.builder, made, call.maybe(3)))


@operator("FusedGemm", domain=MICROSOFT)
def _fused_gemm(call: Call) -> Value:
    return _activated(call, gemm(call))


@operator("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_normalization(call: Call) -> tuple[Value, ...]:
    whole = _sum(call.builder, call.input(0), call.input(1), call.maybe(4))
    made, average, inverse = _scaled(call, whole, call.input(2), call.maybe(3))
    # Later layers read the sum, which is their skip connection.
    return made, average, inverse, whole


def _scaled(call: Call, x: Value, scale: Value, offset: Value | None) -> tuple[Value, Value, Value]:
    # The default epsilon of com.microsoft; ONNX's own LayerNormalization has 1e-5.
    made, average, inverse = normalized(call.builder, x, [x.rank - 1], call.real("epsilon", 1e-12))
    a = Arithmetic(call.builder, x)
    made = a.mul(made, scale)
    return (made if offset is None else a.add(made, offset)), average, inverse


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_simplified_layer_normalization(call: Call) -> tuple[Value | None, ...]:
    b = call.builder
    whole = _sum(b, call.input(0), call.input(1), call.maybe(3))
    a = Arithmetic(b, whole)
    square = mean(b, a.mul(whole, whole), [whole.rank - 1], keep=True)
    inverse = a.unary("rsqrt", a.add(square, call.real("epsilon", 1e-12)))
    return a.mul(a.mul(whole, inverse), call.input(2)), None, inverse, whole


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_normalization(call: Call) -> tuple[Value, ...]:
    b, ids, segments, mask, place_ids = call.builder, call.input(0), call.maybe(1), call.maybe(7), call.maybe(8)
    places = call.input(3)
    added = cut(b, places, 0, ZERO, ids.sizes[1]) if place_ids is None else take(b, places, place_ids, 0)
    whole = b.map("add", take(b, call.input(2), ids, 0), added)
    if segments is not None:
        whole = b.map("add", whole, take(b, call.input(4), segments, 0))
    made, _, _ = _scaled(call, whole, call.input(5), call.input(6))
    # Attention reads how many keys of each row its mask shows.
    if mask is None:
        seen = b.spread(b.constant(0, "s32"), ids.sizes)
    else:
        seen = b.convert(b.compare("EQ", mask, b.constant(1, mask.dtype)), "s32")
    return made, total(b, seen, [1], keep=False), whole


@operator("Attention", domain=MICROSOFT)
def _attention(call: Call) -> Value:
    """One product for queries, keys and values, which are then cut into heads."""
    if call.maybe(4) is not None or call.maybe(6) is not None or call.whole("do_rotary", 0):
        raise call.fault("keys and values of earlier calls")
    b = call.builder
    made = _sum(b, matmul(b, call.input(0), call.input(1)), call.maybe(2))
    width = call.number(made.sizes[-1], "the width of its product")
    parts, start = [], 0
    for size in call.wholes("qkv_hidden_sizes") or [width // 3] * 3:
        parts.append(cut(b, made, made.rank - 1, Size(start), Size(start + size)))
        start += size
    return _heads(call, parts, call.maybe(3), call.maybe(5))


@operator("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(call: Call) -> Value:
    b = call.builder
    if any(call.maybe(place) is not None for place in range(6, len(call.inputs))):
        raise call.fault("keys and values of earlier calls")
    parts = [call.input(place) for place in range(3)]
    if any(each.rank != 3 for each in parts):
        raise call.fault("packed inputs, or keys and values with heads")
    bias = call.maybe(3)
    if bias is not None:
        start = ZERO
        for place, each in enumerate(parts):
            end = start + each.sizes[-1]
            parts[place] = b.map("add", each, cut(b, bias, 0, start, end))
            start = end
    return _heads(call, parts, call.maybe(4), call.maybe(5))


def _heads(call: Call, parts: Sequence[Value], mask: Value | None, added: Value | None) -> Value:
    b, count = call.builder, call.whole("num_heads")
    query, key, value = (_cut(call, each, count) for each in parts)
    width = call.number(query.sizes[-1], "the width of its heads")
    # 0 stands for the default.
    scale = call.real("scale", 0.0) or 1 / math.sqrt(width)
    a = Arithmetic(b, query)
    scores = a.mul(matmul(b, query, b.transpose(key, [0, 1, 3, 2])), scale)
    if mask is not None:
        far = call.real("mask_filter_value", -10000.0)
        scores = a.add(scores, a.where(_seen(call, mask, scores.sizes[-1]), 0, far))
    if call.whole("unidirectional", 0):
        rows, columns = scores.sizes[-2:]
        # Queries are the last of the keys: with more keys than queries, the first query sees all earlier keys.
        behind = b.compare("LE", distance(b, rows, columns), b.size(columns + rows * Size(-1)))
        scores = a.where(behind, scores, float(np.finfo(np.float32).min))
    scores = _sum(b, scores, added)
    made = b.transpose(matmul(b, softmax(b, scores, 3), value), [0, 2, 1, 3])
    batch, length, _, size = made.sizes
    return b.reshape(made, [batch, length, Size(count) * size])


def _seen(call: Call, mask: Value, length: Size) -> Value:
    """Which of `length` keys a mask shows, in axes of scores. With one axis it has the number of keys of each row."""
    b = call.builder
    if mask.rank == 1:
        wide = b.reshape(mask, [*mask.sizes, ONE, ONE, ONE])
        return b.compare("LT", b.iota(mask.dtype, [length], 0), wide)
    kinds: Mapping[int, Sequence[int | None]] = {2: (0, None, None, 1), 3: (0, None, 1, 2), 4: (0, 1, 2, 3)}
    places = kinds.get(mask.rank)
    if places is None:
        raise call.fault(f"its mask has {mask.rank} axes")
    wide = b.reshape(mask, [ONE if place is None else mask.sizes[place] for place in places])
    return b.compare("GT", wide, b.constant(0, mask.dtype))


def _cut(call: Call, x: Value, count: int) -> Value:
    """[batch, heads, length, width]"""
    batch, length, width = x.sizes
    each = Size(call.number(width, "the width of its heads") // count)
    return call.builder.transpose(call.builder.reshape(x, [batch, length, Size(count), each]), [0, 2, 1, 3])


@operator("MatMulNBits", domain=MICROSOFT)
def _matmul_of_few_bits(call: Call) -> Value:
    """Weights of 2, 4 or 8 bits, in blocks with a scale each: unpacked now."""
    if call.maybe(4) is not None or call.whole("weight_prepacked", 0):
        raise call.fault("groups in another order")
    bits, block, rows, columns = call.whole("bits", 4), call.whole("block_size"), call.whole("K"), call.whole("N")
    count = -(-rows // block)
    values = _unpacked(_constant(call, 1).reshape(columns, -1), bits).reshape(columns, count, -1)
    factors = _constant(call, 2).reshape(columns, count, 1).astype(np.float32)
    # Without zero points, the middle of the range stands for 0.
    middle: Array = np.array(1 << (bits - 1), np.float32)
    if call.maybe(3) is not None:
        given = _constant(call, 3).reshape(columns, -1)
        middle = (_unpacked(given, bits) if given.dtype == np.uint8 else given)[:, :count].reshape(columns, count, 1)
    weights = ((values[..., :block].astype(np.float32) - middle) * factors).reshape(columns, -1)[:, :rows].T
    made = matmul(call.builder, call.input(0), known(np.ascontiguousarray(weights), call.input(0).dtype))
    return _sum(call.builder, made, call.maybe(5))


def _constant(call: Call, place: int) -> Array:
    found = call.input(place).numbers
    if found is None:
        raise call.fault("its weights are computed")
    return found


def _unpacked(values: Array, bits: int) -> Array:
    """The numbers in bytes, the lowest bits first, along the last axis."""
    shifts = np.arange(0, 8, bits)
    return np.asarray((values[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*values.shape[:-1], -1)
