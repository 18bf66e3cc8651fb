"""Convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence

from tfaot_pkg.compiler.attributes import Side
from tfaot_pkg.compiler.program import ONE, Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Undecided, Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join
from tfaot_pkg.frontends.onnx_lowering.pooling import completed, max_pooled, max_pooled_places
from tfaot_pkg.frontends.onnx_lowering.reductions import WHOLE, maximum, mean, windowed

_MOST_PARTS = 4096
"""Of adaptive pooling whose parts differ in size: each is an operation of the program."""


def _each(given: Sequence[int], count: int, default: int) -> tuple[int, ...]:
    """One number for each axis of space: one that is given counts for all."""
    if not given:
        return (default,) * count
    return tuple(given) if len(given) == count else tuple(given[:1]) * count


@operator("convolution", "conv1d", "conv2d", "conv3d")
def _convolution(call: Call) -> Results:
    x, weight, bias = call.value("input"), call.value("weight"), call.maybe("bias")
    count = weight.rank - 2
    pads = _each(call.wholes("padding"), count, 0)
    geometry = {
        "strides": _each(call.wholes("stride"), count, 1),
        "dilations": _each(call.wholes("dilation"), count, 1),
        "pads": (*pads, *pads),
    }
    unbatched = x.rank == weight.rank - 1
    if unbatched:
        x = call.builder.reshape(x, [ONE, *x.sizes])
    if call.flag("transposed"):
        extra = _each(call.wholes("output_padding"), count, 0)
        made = call.onnx_one(
            "ConvTranspose", x, weight, bias, group=call.whole("groups", 1), output_padding=extra, **geometry
        )
    else:
        made = call.onnx_one("Conv", x, weight, bias, group=call.whole("groups", 1), **geometry)
    return call.builder.reshape(made, made.sizes[1:]) if unbatched else made


# -- pooling -------------------------------------------------------------------------------------------------------


def _batched(call: Call, count: int) -> tuple[Value, bool]:
    """The array with a batch, and whether it had none."""
    x = call.value("self")
    if x.rank == count + 1:
        return call.builder.reshape(x, [ONE, *x.sizes]), True
    return x, False


def _axes_of(call: Call) -> int:
    return next((int(each) for each in "123" if f"{each}d" in call.op), 2)


def _sides(call: Call, x: Value) -> list[Side]:
    """The windows over the axes of space."""
    count = x.rank - 2
    kernel = _each(call.wholes("kernel_size"), count, 1)
    strides = _each(call.wholes("stride"), count, 0) if call.wholes("stride") else kernel
    pads, holes = _each(call.wholes("padding"), count, 0), _each(call.wholes("dilation"), count, 1)
    sides: list[Side] = [
        (width, stride, pad, pad, hole, 1)
        for width, stride, pad, hole in zip(kernel, strides, pads, holes, strict=True)
    ]
    if call.flag("ceil_mode"):
        sides = [completed(side, call.number(size, "ceil_mode")) for side, size in zip(sides, x.sizes[2:], strict=True)]
    return sides


@operator("max_pool1d", "max_pool2d", "max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices",
          "max_pool3d_with_indices")  # fmt: skip
def _max_pool(call: Call) -> Results:
    count = _axes_of(call)
    b, (x, unbatched) = call.builder, _batched(call, count)
    sides = _sides(call, x)
    if 1 in call.used:
        space = [call.number(size, "its image") for size in x.sizes[2:]]
        made: tuple[Value, ...] = max_pooled_places(b, x, sides, space, keeps_nan=True)
    else:
        made = (max_pooled(b, x, sides, keeps_nan=True),)
    found = [b.reshape(each, each.sizes[1:]) if unbatched else each for each in made]
    return found[0] if "with_indices" not in call.op else (*found, None)[:2]


@operator("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _average_pool(call: Call) -> Results:
    count = _axes_of(call)
    x, unbatched = _batched(call, count)
    if call.has("divisor_override"):
        sums = windowed(call.builder, "add", x, [WHOLE, WHOLE, *_sides(call, x)], 0)
        made = Arithmetic(call.builder, sums).div(sums, call.whole("divisor_override"))
    else:
        kernel, pads = _each(call.wholes("kernel_size"), count, 1), _each(call.wholes("padding"), count, 0)
        made = call.onnx_one(
            "AveragePool", x, kernel_shape=kernel, strides=_each(call.wholes("stride"), count, 0)
            if call.wholes("stride") else kernel, pads=(*pads, *pads), ceil_mode=int(call.flag("ceil_mode")),
            count_include_pad=int(call.get("count_include_pad") is not False),
        )  # fmt: skip
    return call.builder.reshape(made, made.sizes[1:]) if unbatched else made


@operator("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "_adaptive_avg_pool2d",
          "_adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")  # fmt: skip
def _adaptive_pool(call: Call) -> Results:
    x, count, largest = call.value("self"), _axes_of(call), "max" in call.op
    wanted = call.sizes("output_size")
    for place, length in enumerate(wanted):
        x = _adapted(call, x, x.rank - count + place, length, largest=largest)
    if not largest:
        return x
    if 1 in call.used:
        raise Unsupported("the places of adaptive maxima: use max_pool with return_indices")
    return x, None


def _adapted(call: Call, x: Value, axis: int, wanted: Size, *, largest: bool) -> Value:
    """Means (or maxima) of as many parts of an axis: they are separable, because parts are rectangles."""
    b, size = call.builder, x.sizes[axis]
    if size == wanted:
        return x
    function = maximum if largest else mean
    try:
        part = b.ranges.divide(size, wanted)
    except Undecided:
        return _uneven(call, x, axis, call.number(wanted, "its output"), largest=largest)
    wide = b.reshape(x, [*x.sizes[:axis], wanted, part, *x.sizes[axis + 1 :]])
    return function(b, wide, [axis + 1], keep=False)


def _uneven(call: Call, x: Value, axis: int, count: int, *, largest: bool) -> Value:
    b: Builder = call.builder
    size = call.number(x.sizes[axis], "the size of its image")
    if not 0 < count <= _MOST_PARTS:
        raise Unsupported(f"{count} parts of unequal size of an axis of {size} elements: at most {_MOST_PARTS}")
    function = maximum if largest else mean
    ends = [(place * size // count, -(-(place + 1) * size // count)) for place in range(count)]
    return join(b, [function(b, cut(b, x, axis, Size(low), Size(high)), [axis], keep=True) for low, high in ends], axis)
