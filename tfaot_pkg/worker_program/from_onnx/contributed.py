"""Operators of com.microsoft, into which ONNX Runtime's tools fuse or quantize layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from from_onnx.elementwise import hard_sigmoid
from from_onnx.layers import convolution
from from_onnx.products import gemm, matmul
from from_onnx.table import MICROSOFT, operator
from from_onnx.tensors import axis_of, by_channel, constant_or, rank, required, reshaped, sizes

if TYPE_CHECKING:
    from from_onnx.table import Node


SAVE_BASIC = "save the file with ORT_ENABLE_BASIC, or take the one that was not optimized"


@operator("Gelu", "BiasGelu", domain=MICROSOFT)
def _gelu(node: Node, x: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    return tf.nn.gelu(x if bias is None else x + bias, approximate=False)


@operator("FastGelu", domain=MICROSOFT)
def _fast_gelu(node: Node, x: tf.Tensor, bias: tf.Tensor | None = None) -> tf.Tensor:
    return tf.nn.gelu(x if bias is None else x + bias, approximate=True)


@operator("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: Node, x: tf.Tensor) -> tf.Tensor:
    return x * tf.sigmoid(tf.constant(node.get("alpha", 1.702), x.dtype) * x)


@operator("FusedMatMul", "TransposeMatMul", domain=MICROSOFT)
def _fused_matmul(node: Node, a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
    a, b = (_batches_last(node, each, f"transBatch{name}") for each, name in ((a, "A"), (b, "B")))
    a = tf.linalg.matrix_transpose(a) if node.get("transA", 0) else a
    # Weights are transposed now, once.
    b = constant_or(tf.linalg.matrix_transpose, b) if node.get("transB", 0) else b
    made = matmul(node, a, b)
    return made if node.get("alpha", 1.0) == 1 else made * tf.constant(node.get("alpha"), made.dtype)


def _batches_last(node: Node, x: tf.Tensor, name: str) -> tf.Tensor:
    """`x` with its first axis moved after the other axes of the batch, if the attribute `name` is set."""
    if not node.get(name, 0):
        return x
    count = rank(node, x)
    return tf.transpose(x, [*range(1, count - 1), 0, count - 1])


def _activated(node: Node, x: tf.Tensor) -> tf.Tensor:
    kind, more = node.get("activation", ""), list(node.get("activation_params") or [])
    functions: dict[str, Callable[[], tf.Tensor]] = {
        "": lambda: x,
        "Relu": lambda: tf.nn.relu(x),
        "Sigmoid": lambda: tf.sigmoid(x),
        "Tanh": lambda: tf.tanh(x),
        "LeakyRelu": lambda: tf.nn.leaky_relu(x, more[0] if more else node.get("activation_alpha", 0.01)),
        "Clip": lambda: tf.clip_by_value(x, tf.constant(more[0], x.dtype), tf.constant(more[1], x.dtype)),
        "HardSigmoid": lambda: hard_sigmoid(x, *more[:2]),
    }
    if kind not in functions:
        raise node.fault(f"the activation {kind!r} is not supported", SAVE_BASIC)
    return functions[kind]()


@operator("FusedConv", domain=MICROSOFT)
def _fused_conv(
    node: Node, x: tf.Tensor, w: tf.Tensor, bias: tf.Tensor | None = None, added: tf.Tensor | None = None
) -> tf.Tensor:
    made = convolution(node, x, w)
    if bias is not None:
        made = made + by_channel(bias, x.shape.rank)
    return _activated(node, made if added is None else made + added)


@operator("FusedGemm", domain=MICROSOFT)
def _fused_gemm(node: Node, a: tf.Tensor, b: tf.Tensor, c: tf.Tensor | None = None) -> tf.Tensor:
    return _activated(node, gemm(node, a, b, c))


@operator("SkipLayerNormalization", domain=MICROSOFT)
def _skip_layer_normalization(
    node: Node,
    x: tf.Tensor,
    skip: tf.Tensor,
    scale: tf.Tensor,
    offset: tf.Tensor | None = None,
    bias: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    total = x + skip if bias is None else x + skip + bias
    made, mean, inverse = _normalized(node, total, scale, offset)
    # The order of ONNX Runtime. Later layers read the sum, which is their skip connection.
    return made, mean, inverse, total


def _normalized(node: Node, x: tf.Tensor, scale: tf.Tensor, offset: tf.Tensor) -> tuple[Any, ...]:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    # The default epsilon of com.microsoft; ONNX's own LayerNormalization has 1e-5.
    inverse = tf.math.rsqrt(variance + tf.constant(node.get("epsilon", 1e-12), x.dtype))
    made = (x - mean) * inverse * scale
    return made if offset is None else made + offset, mean, inverse


def _by_mean_square(node: Node, x: tf.Tensor, scale: tf.Tensor, epsilon: float) -> tuple[Any, ...]:
    axis = axis_of(node, node.get("axis", -1), rank(node, x))
    square = tf.reduce_mean(tf.square(x), list(range(axis, x.shape.rank)), keepdims=True)
    inverse = tf.math.rsqrt(square + tf.constant(node.get("epsilon", epsilon), x.dtype))
    return x * inverse * scale, inverse


@operator("SimplifiedLayerNormalization")
def _simplified_layer_normalization(node: Node, x: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """ONNX Runtime's name for RMSNormalization; it puts the operator into ONNX's own domain."""
    return _by_mean_square(node, x, scale, 1e-5)


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_simplified_layer_normalization(
    node: Node, x: tf.Tensor, skip: tf.Tensor, scale: tf.Tensor, bias: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
    total = x + skip if bias is None else x + skip + bias
    made, inverse = _by_mean_square(node, total, scale, 1e-12)
    return made, None, inverse, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def _embed_layer_normalization(
    node: Node,
    ids: tf.Tensor,
    segments: tf.Tensor,
    words: tf.Tensor,
    places: tf.Tensor,
    parts: tf.Tensor,
    scale: tf.Tensor,
    offset: tf.Tensor,
    mask: tf.Tensor | None = None,
    place_ids: tf.Tensor | None = None,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    length = sizes(ids)[1]
    added = places[:length] if place_ids is None else tf.gather(places, place_ids)
    total = tf.gather(words, ids) + added
    total = total if segments is None else total + tf.gather(parts, segments)
    made, *_ = _normalized(node, total, scale, offset)
    # Attention reads how many keys of each row its mask shows.
    seen = tf.zeros_like(ids) if mask is None else tf.cast(mask == 1, tf.int32)
    return made, tf.reduce_sum(seen, 1), total


@operator("Attention", domain=MICROSOFT)
def _attention(
    node: Node,
    x: tf.Tensor,
    weights: tf.Tensor,
    bias: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
    past: tf.Tensor | None = None,
    added: tf.Tensor | None = None,
    lengths: tf.Tensor | None = None,
) -> tf.Tensor:
    """One product for queries, keys and values, which are then cut into heads."""
    if past is not None or lengths is not None or node.get("do_rotary", 0):
        raise node.fault("keys and values of earlier calls are not supported", SAVE_BASIC)
    made = tf.tensordot(x, weights, 1)
    made = made if bias is None else made + bias
    total = made.shape[-1]
    given = node.get("qkv_hidden_sizes") or [total // 3] * 3
    return _heads(node, *tf.split(made, given, -1), mask=mask, added=added, causal=bool(node.get("unidirectional", 0)))


@operator("MultiHeadAttention", domain=MICROSOFT)
def _multi_head_attention(
    node: Node,
    query: tf.Tensor,
    key: tf.Tensor | None = None,
    value: tf.Tensor | None = None,
    bias: tf.Tensor | None = None,
    mask: tf.Tensor | None = None,
    added: tf.Tensor | None = None,
    past_key: tf.Tensor | None = None,
    *more: tf.Tensor,
) -> tf.Tensor:
    if past_key is not None or any(each is not None for each in more) or key is None or value is None:
        raise node.fault("packed inputs, and keys and values of earlier calls, are not supported", SAVE_BASIC)
    if rank(node, key) != 3 or rank(node, value) != 3:
        raise node.fault("its keys and values have heads already", SAVE_BASIC)
    if bias is not None:
        widths = [each.shape[-1] for each in (query, key, value)]
        query, key, value = (e + b for e, b in zip((query, key, value), tf.split(bias, widths), strict=True))
    return _heads(node, query, key, value, mask=mask, added=added, causal=bool(node.get("unidirectional", 0)))


def _heads(
    node: Node, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, *, mask: tf.Tensor, added: tf.Tensor, causal: bool
) -> tf.Tensor:
    count = node.get("num_heads")
    query, key, value = (_cut(each, count) for each in (query, key, value))
    # 0 stands for the default.
    scale = node.get("scale", 0.0) or 1 / math.sqrt(query.shape[-1])
    scores = tf.matmul(query, key, transpose_b=True) * tf.constant(scale, query.dtype)
    far = tf.constant(node.get("mask_filter_value", -10000.0), scores.dtype)
    if mask is not None:
        scores = scores + tf.where(_seen(node, mask, sizes(scores)[-1]), tf.zeros((), scores.dtype), far)
    if causal:
        rows, columns = sizes(scores)[-2:]
        # Queries are the last of the keys: with more keys than queries, the first query sees all earlier keys.
        seen = tf.range(columns)[None, :] <= tf.range(rows)[:, None] + (columns - rows)
        scores = tf.where(seen, scores, scores.dtype.min)
    scores = scores if added is None else scores + added
    made = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    batch, length, _, width = sizes(made)
    return reshaped(made, [batch, length, count * width])


def _seen(node: Node, mask: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
    """Which of `length` keys a mask shows, in axes of scores. With one axis it has the number of keys of each row."""
    if rank(node, mask) == 1:
        return tf.range(length, dtype=mask.dtype) < mask[:, None, None, None]
    shapes: dict[int, list[int | None]] = {2: [0, None, None, 1], 3: [0, None, 1, 2], 4: [0, 1, 2, 3]}
    shape = shapes.get(mask.shape.rank)
    if shape is None:
        raise node.fault(f"its mask has {mask.shape.rank} axes", SAVE_BASIC)
    given = sizes(mask)
    return reshaped(mask, [1 if place is None else given[place] for place in shape]) > 0


def _cut(x: tf.Tensor, count: int) -> tf.Tensor:
    """[batch, heads, length, width]"""
    batch, length, width = sizes(x)
    return tf.transpose(reshaped(x, [batch, length, count, width // count]), [0, 2, 1, 3])


@operator("MatMulNBits", domain=MICROSOFT)
def _matmul_of_few_bits(
    node: Node,
    a: tf.Tensor,
    packed: tf.Tensor,
    scales: tf.Tensor,
    zeros: tf.Tensor | None = None,
    groups: tf.Tensor | None = None,
    bias: tf.Tensor | None = None,
) -> tf.Tensor:
    """Weights of 2, 4 or 8 bits, in blocks with a scale each: unpacked now."""
    if groups is not None or node.get("weight_prepacked", 0):
        raise node.fault("groups in another order are not supported")
    bits, block, rows, columns = (node.get(name) for name in ("bits", "block_size", "K", "N"))
    bits, count = bits or 4, -(-rows // block)
    values = _unpacked(required(node, packed, "its weights").reshape(columns, -1), bits).reshape(columns, count, -1)
    factors = required(node, scales, "the scales of its weights").reshape(columns, count, 1).astype(np.float32)
    # Without zero points, the middle of the range stands for 0.
    middle: Any = np.float32(1 << (bits - 1))
    if zeros is not None:
        known = required(node, zeros, "the zero points of its weights").reshape(columns, -1)
        middle = (_unpacked(known, bits) if zeros.dtype == tf.uint8 else known)[:, :count].reshape(columns, count, 1)
    weights = ((values[..., :block].astype(np.float32) - middle) * factors).reshape(columns, -1)[:, :rows].T
    made = matmul(node, a, tf.constant(np.ascontiguousarray(weights), a.dtype))
    return made if bias is None else made + bias


def _unpacked(values: tf.Tensor, bits: int) -> tf.Tensor:
    """The numbers in bytes, the lowest bits first, along the last axis."""
    shifts = np.arange(0, 8, bits)
    return ((values[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*values.shape[:-1], -1)
