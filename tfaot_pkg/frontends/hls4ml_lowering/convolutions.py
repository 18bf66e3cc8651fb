"""Convolutions, as hls4ml computes them: each place of the result is a dense layer of the numbers under the filter."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tfaot_pkg.compiler.attributes import Dimensions, Pad
from tfaot_pkg.frontends.hls4ml_lowering.dense import scaled_weights
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Fixed
from tfaot_pkg.frontends.hls4ml_lowering.sums import Weights, weighted, weighted_each
from tfaot_pkg.frontends.hls4ml_lowering.table import Call, layer
from tfaot_pkg.frontends.lowering.values import known
from tfaot_pkg.worker_program.messages.fixed_network import MOST_NUMBERS, FixedType


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A spatial axis: its size, and the window on it."""

    size: int
    window: int
    stride: int
    before: int
    after: int
    results: int


def sides_of(call: Call, window: str, sizes: tuple[str, str], results: tuple[str, str]) -> list[Side]:
    """The sides of an image, or of a line, by hls4ml's names."""
    made = []
    pairs = [("height", "top", "bottom"), ("width", "left", "right")]
    for place, (name, before, after) in enumerate(
        pairs if call.x.value.rank == 4 else pairs[1:], 4 - call.x.value.rank
    ):
        made.append(
            Side(
                size=call.whole(sizes[place]), window=call.whole(f"{window}_{name}"),
                stride=call.whole(f"stride_{name}"), before=call.whole(f"pad_{before}", 0),
                after=call.whole(f"pad_{after}", 0), results=call.whole(results[place]),
            )
        )  # fmt: skip
    return made


def padded(call: Call, x: Fixed, sides: list[Side], number: int) -> Fixed:
    """x, channels last, with a number around it."""
    if not any(each.before or each.after for each in sides):
        return x
    if not all(0 <= edge <= MOST_NUMBERS for each in sides for edge in (each.before, each.after)):
        raise call.fault("a padding of negative width, or a very wide one")
    b, low, high = call.a.builder, min(x.low, number), max(x.high, number)
    edges = ((0, 0, 0), *((each.before, each.after, 0) for each in sides), (0, 0, 0))
    value = known(np.asarray(number), x.value.dtype)
    return replace(x, value=b.op("pad", x.value, value, attributes=Pad(padding=edges)), low=low, high=high)


def windows(call: Call, x: Fixed, sides: list[Side]) -> list[Fixed]:
    """For each place in the window, the numbers under it: [results..., channels]."""
    made = []
    for each in sides:
        end = (each.results - 1) * each.stride + each.window
        if min(each.window, each.stride, each.results) < 1 or end > each.size + each.before + each.after:
            raise call.fault(f"a window of {each.window} that is moved {each.results} times over {each.size} numbers")
    for places in np.ndindex(*(each.window for each in sides)):
        ends = [place + (each.results - 1) * each.stride + 1 for place, each in zip(places, sides, strict=True)]
        strides = [each.stride for each in sides]
        made.append(call.a.cut(x, dict(enumerate(zip(places, ends, strides, strict=True)))))
    return made


def _last(call: Call) -> None:
    if call.text("data_format", "channels_last") != "channels_last":
        raise call.fault("channels first", "convert the network with channels last (hls4ml does so for PyTorch)")


def _sides(call: Call) -> list[Side]:
    _last(call)
    if call.whole("dilation_width", 1) != 1 or call.whole("dilation_height", 1) != 1:
        raise call.fault("a dilation")
    return sides_of(call, "filt", ("in_height", "in_width"), ("out_height", "out_width"))


def _patches(call: Call, x: Fixed, sides: list[Side]) -> Fixed:
    """[results..., window * channels]."""
    parts = windows(call, padded(call, x, sides, 0), sides)
    if len(parts) == 1:
        return parts[0]
    axis = x.value.rank - 1
    made = call.a.builder.op(
        "concatenate", *(each.value for each in parts), attributes=Dimensions(dimensions=(axis,))
    )  # fmt: skip
    return replace(parts[0], value=made)


@layer("Conv1D", "Conv2D", "PointwiseConv1D", "PointwiseConv2D", "Conv2DBatchnorm")
def _convolution(call: Call) -> Fixed:
    sides, channels, filters = _sides(call), call.whole("n_chan"), call.whole("n_filt")
    inputs = channels * prod(each.window for each in sides)
    weights = _weights(call, "weight", inputs, filters, call.given[0].type)
    reuse = call.whole("reuse_factor", 1) if call.text("strategy") == "resource" else 1
    made = weighted(
        call, _patches(call, call.x, sides), weights, call.constant("bias", filters), call.type("accum_t"), reuse
    )
    return call.a.cast(made, call.output.type)


def _weights(call: Call, name: str, inputs: int, outputs: int, data: FixedType) -> Weights:
    """Filters [window..., channels, filters]; of the strategy "resource" the filters come first."""
    shape = (outputs, inputs) if call.is_transposed else (inputs, outputs)
    made = scaled_weights(call, name, shape, data)
    return replace(made, values=made.values.T) if call.is_transposed else made


def _depthwise(call: Call, name: str, bias: Fixed, accum: FixedType) -> Fixed:
    """Each channel has a filter of its own."""
    sides, channels = _sides(call), call.whole("n_chan")
    if call.whole("depth_multiplier", 1) != 1:
        raise call.fault("several filters for each channel", "hls4ml has none either: choose depth_multiplier=1")
    area = prod(each.window for each in sides)
    weights = scaled_weights(call, name, (area, channels), call.given[0].type)
    return weighted_each(call, windows(call, padded(call, call.x, sides, 0), sides), weights, bias, accum)


@layer("DepthwiseConv1D", "DepthwiseConv2D")
def _depthwise_convolution(call: Call) -> Fixed:
    made = _depthwise(call, "weight", call.constant("bias", call.whole("n_chan")), call.type("accum_t"))
    return call.a.cast(made, call.output.type)


@layer("SeparableConv1D", "SeparableConv2D")
def _separable_convolution(call: Call) -> Fixed:
    """A depthwise convolution without a bias, whose result has a type of its own, and a dense layer at each place."""
    a, channels, filters = call.a, call.whole("n_chan"), call.whole("n_filt")
    between = call.type("depthwise_result_t")
    middle = a.cast(_depthwise(call, "depthwise", a.whole(0), call.type("depthwise_accum_t")), between)
    weights = _weights(call, "pointwise", channels, filters, between)
    made = weighted(call, middle, weights, call.constant("bias", filters), call.type("pointwise_accum_t"))
    return a.cast(made, call.output.type)


@layer("ZeroPadding1D", "ZeroPadding2D")
def _zero_padding(call: Call) -> Fixed:
    _last(call)
    names = [("top", "bottom"), ("left", "right")][4 - call.x.value.rank :]
    sides = [
        Side(size=0, window=1, stride=1, before=call.whole(f"pad_{first}", 0), after=call.whole(f"pad_{last}", 0),
             results=0)
        for first, last in names
    ]  # fmt: skip
    return call.a.cast(padded(call, call.x, sides, 0), call.output.type)


@layer("Cropping1D", "Cropping2D")
def _cropping(call: Call) -> Fixed:
    _last(call)
    names = [("top", "height"), ("left", "width")][4 - call.x.value.rank :]
    starts = [call.whole(f"crop_{name}", 0) for name, _ in names]
    ends = [start + call.whole(f"out_{name}") for start, (_, name) in zip(starts, names, strict=True)]
    places = {axis: (start, end, 1) for axis, (start, end) in enumerate(zip(starts, ends, strict=True))}
    return call.a.cast(call.a.cut(call.x, places), call.output.type)
