"""Operators of com.microsoft: what ONNX Runtime's tools make of layers."""

import tensorflow as tf
from from_onnx.products import matmul
from from_onnx.table import operator

_MICROSOFT = "com.microsoft"


@operator("Gelu", "BiasGelu", domain=_MICROSOFT)
def _gelu(node, x, bias=None):
    return tf.nn.gelu(x if bias is None else x + bias, approximate=False)


@operator("FastGelu", domain=_MICROSOFT)
def _fast_gelu(node, x, bias=None):
    return tf.nn.gelu(x if bias is None else x + bias, approximate=True)


@operator("QuickGelu", domain=_MICROSOFT)
def _quick_gelu(node, x):
    return x * tf.sigmoid(tf.constant(node.get("alpha", 1.702), x.dtype) * x)


@operator("FusedMatMul", domain=_MICROSOFT)
def _fused_matmul(node, a, b):
    if node.get("transBatchA", 0) or node.get("transBatchB", 0):
        raise node.fault("transposed batches are not read")
    a = tf.linalg.matrix_transpose(a) if node.get("transA", 0) else a
    b = tf.linalg.matrix_transpose(b) if node.get("transB", 0) else b
    made = matmul(node, a, b)
    return made if node.get("alpha", 1.0) == 1 else made * tf.constant(node.get("alpha"), made.dtype)


@operator("SkipLayerNormalization", domain=_MICROSOFT)
def _skip_layer_normalization(node, x, skip, scale, offset=None, bias=None):
    total = x + skip if bias is None else x + skip + bias
    mean = tf.reduce_mean(total, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(total, mean), -1, keepdims=True)
    inverse = tf.math.rsqrt(variance + tf.constant(node.get("epsilon", 1e-12), x.dtype))
    made = (total - mean) * inverse * scale
    return (made if offset is None else made + offset), mean, inverse, total
