"""Layers that combine results, and those that move them (nnet_merge.h, nnet_transpose.h, nnet_embed.h)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tfaot_pkg.frontends.hls4ml_lowering.numbers import Arithmetic, Fixed
from tfaot_pkg.frontends.hls4ml_lowering.sums import product_of, summed
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.frontends.lowering.values import known
from tfaot_pkg.frontends.onnx_lowering.indexing import take


def _average(a: Arithmetic, first: Fixed, second: Fixed) -> Fixed:
    made = a.add(first, second)
    return replace(made, fraction=made.fraction + 1)


_MERGED: Mapping[str, Callable[[Arithmetic, Fixed, Fixed], Fixed]] = {
    "add": Arithmetic.add,
    "subtract": Arithmetic.subtract,
    "multiply": Arithmetic.multiply,
    "average": _average,
    "maximum": Arithmetic.maximum,
    "minimum": Arithmetic.minimum,
}


@layer("Merge")
def _merge(call: Call) -> Fixed:
    """Element by element; the smaller one is repeated as a whole."""
    kind = call.text("op") or call.text("class_name")
    if kind not in _MERGED:
        raise call.fault(f"the operation {kind!r}", f"there are {', '.join(_MERGED)} and concatenate")
    a, shape = call.a, call.output.shape
    first, second = (_repeated(call, each, shape) for each in call.inputs)
    if kind in ("maximum", "minimum"):
        # Each is converted before one of them is chosen; the comparison is that of the numbers before.
        direction = "GT" if kind == "maximum" else "LT"
        return a.select(
            a.compare(direction, first, second), *(a.cast(each, call.output.type) for each in (first, second))
        )
    return a.cast(_MERGED[kind](a, first, second), call.output.type)


def _repeated(call: Call, x: Fixed, shape: tuple[int, ...]) -> Fixed:
    """As `data[i % n]` of the flat array: so the last axes of both must be the same."""
    given = x.shape
    if given == shape:
        return x
    while given and given[0] == 1:
        given = given[1:]
    if given != shape[len(shape) - len(given) :]:
        raise call.fault(f"inputs of the shapes {list(x.shape)} and {list(shape)}", "repeat the smaller one yourself")
    return call.a.reshape(x, (*[1] * (len(shape) - len(given)), *given))


@layer("Concatenate")
def _concatenate(call: Call) -> Fixed:
    a, rank, axis = call.a, len(call.output.shape), call.whole("axis", -1)
    if rank > 3:
        raise call.fault("more than three axes")
    place = rank - 1 if rank == 1 else axis - 1 if axis > 0 else rank + axis
    return a.join([a.cast(each, call.output.type) for each in call.inputs], place)


@layer("Dot")
def _dot(call: Call) -> Fixed:
    """The sum of the products of two vectors."""
    if product_of(call.given[0].type, call.given[1].type) != "mult":
        raise call.fault("numbers of few bits")
    made = summed(call, call.a.multiply(call.inputs[0], call.inputs[1]), call.type("accum_t"))
    return call.a.cast(made, call.output.type)


@layer("Reshape", "Repack")
def _reshape(call: Call) -> Fixed:
    return call.a.reshape(call.x, call.output.shape)


@layer("Clone")
def _clone(call: Call) -> Fixed:
    return call.x


@layer("Transpose")
def _transpose(call: Call) -> Fixed:
    return call.a.cast(call.a.transpose(call.x, call.layer.lists.get("perm", ())), call.output.type)


@layer("Constant")
def _constant(call: Call) -> Fixed:
    return call.a.constant(call.array("value"), call.output.type)


@layer("Resize")
def _resize(call: Call) -> Fixed:
    """The nearest pixel, by ratios of 16 bits."""
    if call.text("algorithm", "nearest") != "nearest":
        raise call.fault("a bilinear resize", "choose nearest: hls4ml has no other one")
    b, made = call.a.builder, call.x
    axes = [("height", 1), ("width", 2)] if call.x.value.rank == 4 else [("width", 1)]
    for name, axis in axes:
        size, new = call.whole(f"in_{name}"), call.whole(f"out_{name}")
        if (size, new) != (call.x.shape[axis - 1], call.output.shape[axis - 1]):
            raise call.fault(f"{size} and {new} numbers along an axis of {list(call.x.shape)}")
        ratio = (size << 16) // new + 1
        chosen = [(place * ratio) >> 16 for place in range(new)]
        made = replace(made, value=take(b, made.value, known(np.array(chosen), "s32"), axis))
    return made


@layer("Embedding")
def _embedding(call: Call) -> Fixed:
    """Rows of a table; numbers beyond it have no meaning in hls4ml, and are the ends of it here."""
    a, words, size = call.a, call.whole("vocab_size"), call.whole("n_out")
    if call.given[0].type.fraction > 0:
        raise call.fault("indices with fractions", "choose an integer type for the input, such as uint<8>")
    table = call.constant("embeddings", words, size)
    numbers = a.cast(table, call.output.type)
    places = a.minimum(a.maximum(a.shifted(call.x, -call.x.fraction), a.whole(0)), a.whole(words - 1))
    made = take(a.builder, numbers.value, places.value, 0)
    return replace(numbers, value=made)
