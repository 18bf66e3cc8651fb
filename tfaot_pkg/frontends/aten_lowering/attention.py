"""Scaled dot-product attention."""

from __future__ import annotations

import math

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import stretched
from tfaot_pkg.frontends.onnx_lowering.normalizing import softmax
from tfaot_pkg.frontends.onnx_lowering.places import distance
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.frontends.onnx_lowering.reductions import maximum


@operator("scaled_dot_product_attention")
def _attention(call: Call) -> Results:
    b = call.builder
    query, key, value = (call.value(name) for name in ("query", "key", "value"))
    if call.real("dropout_p", 0.0):
        raise Unsupported("it drops values at random: export the model in evaluation mode, model.eval()")
    if call.flag("enable_gqa"):
        key, value = (_repeated(call, each, query.sizes[-3]) for each in (key, value))
    width = call.number(query.sizes[-1], "the size of a head")
    a = Arithmetic(b, query)
    order = [*range(key.rank - 2), key.rank - 1, key.rank - 2]
    scores = matmul(b, a.mul(query, call.real("scale", 1 / math.sqrt(width))), b.transpose(key, order))
    mask = call.maybe("attn_mask")
    if call.flag("is_causal"):
        far = distance(b, query.sizes[-2], key.sizes[-2])
        mask = b.compare("LE", far, b.constant(0, "s64"))
        # The first key is there for every query.
        return matmul(b, softmax(b, a.where(mask, scores, -math.inf), scores.rank - 1), value)
    if mask is None:
        return matmul(b, softmax(b, scores, scores.rank - 1), value)
    scores = a.where(mask, scores, -math.inf) if mask.dtype == "pred" else a.add(scores, mask)
    return matmul(b, _softmax_of_masked(b, scores), value)


def _softmax_of_masked(b: Builder, scores: Value) -> Value:
    """Its softmax, which is 0 where all keys of a query are masked."""
    a, axis = Arithmetic(b, scores), scores.rank - 1
    is_empty = a.compare("EQ", maximum(b, scores, [axis], keep=True), -math.inf)
    return a.where(is_empty, 0, softmax(b, scores, axis))


def _repeated(call: Call, x: Value, heads: Size) -> Value:
    """Each head of `x` for several heads of the query."""
    b, own = call.builder, x.sizes[-3]
    many = call.builder.ranges.divide(heads, own)
    axis = x.rank - 3
    wide = stretched(b, x, [axis + 1])
    sizes = [*x.sizes[: axis + 1], many, *x.sizes[axis + 1 :]]
    return b.reshape(b.spread(wide, sizes), [*x.sizes[:axis], heads, *x.sizes[axis + 1 :]])
