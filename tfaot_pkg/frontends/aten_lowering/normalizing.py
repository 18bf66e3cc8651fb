"""Softmax and normalizations."""

from __future__ import annotations

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.convolutions import by_channel
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic, cast
from tfaot_pkg.frontends.onnx_lowering.normalizing import log_softmax, normalized, softmax
from tfaot_pkg.frontends.onnx_lowering.reductions import mean

_EPSILON = {"f32": 2.0**-23, "f64": 2.0**-52}


@operator("softmax.int", "_softmax", "_safe_softmax", "log_softmax.int", "_log_softmax")
def _softmax(call: Call) -> Results:
    x = call.value("self")
    x = cast(call.builder, x, call.dtype() or x.dtype)
    function = log_softmax if "log" in call.op else softmax
    return function(call.builder, x, call.axis("dim", x.rank))


def _scaled(b: Builder, x: Value, weight: Value | None, bias: Value | None, *, channels: bool) -> Value:
    a = Arithmetic(b, x)
    if weight is not None:
        x = a.mul(x, by_channel(b, weight, x.rank) if channels else weight)
    if bias is not None:
        x = a.add(x, by_channel(b, bias, x.rank) if channels else bias)
    return x


@operator("layer_norm", "native_layer_norm")
def _layer_norm(call: Call) -> Results:
    b, x = call.builder, call.value("input")
    count = len(call.wholes("normalized_shape"))
    made, average, inverse = normalized(b, x, list(range(x.rank - count, x.rank)), call.real("eps", 1e-5))
    made = _scaled(b, made, call.maybe("weight"), call.maybe("bias"), channels=False)
    return (made, average, inverse) if "native" in call.op else made


@operator("rms_norm")
def _rms_norm(call: Call) -> Results:
    b, x = call.builder, call.value("input")
    count = len(call.wholes("normalized_shape"))
    a = Arithmetic(b, x)
    squares = mean(b, a.mul(x, x), list(range(x.rank - count, x.rank)), keep=True)
    made = a.mul(x, a.unary("rsqrt", a.add(squares, call.real("eps", _EPSILON[x.dtype]))))
    return _scaled(b, made, call.maybe("weight"), None, channels=False)


@operator("group_norm", "native_group_norm")
def _group_norm(call: Call) -> Results:
    b, x = call.builder, call.value("input")
    groups = call.whole("group" if "native" in call.op else "num_groups")
    channels = call.number(x.sizes[1], "the number of channels")
    parts = b.reshape(x, [x.sizes[0], Size(groups), Size(channels // groups), *x.sizes[2:]])
    axes = list(range(2, parts.rank))
    made, average, inverse = normalized(b, parts, axes, call.real("eps", 1e-5), of_images=True)
    made = _scaled(b, b.reshape(made, x.sizes), call.maybe("weight"), call.maybe("bias"), channels=True)
    if "native" not in call.op:
        return made
    return made, *(b.reshape(each, [x.sizes[0], Size(groups)]) for each in (average, inverse))


@operator("_native_batch_norm_legit.no_stats")
def _batch_norm_of_batch(call: Call) -> Results:
    """With the statistics of the batch, as layers without running ones have in evaluation, too."""
    b, x = call.builder, call.value("input")
    axes = [axis for axis in range(x.rank) if axis != 1]
    made, average, inverse = normalized(b, x, axes, call.real("eps", 1e-5), of_images=True)
    made = _scaled(b, made, call.maybe("weight"), call.maybe("bias"), channels=True)
    return made, *(b.reshape(each, [x.sizes[1]]) for each in (average, inverse))


@operator("_native_batch_norm_legit_no_training", "batch_norm", "instance_norm")
def _batch_norm(call: Call) -> Results:
    b, x = call.builder, call.value("input")
    weight, bias, epsilon = call.maybe("weight"), call.maybe("bias"), call.real("eps", 1e-5)
    if "instance" in call.op and call.flag("use_input_stats"):
        made, _, _ = normalized(b, x, list(range(2, x.rank)), epsilon, of_images=True)
        return _scaled(b, made, weight, bias, channels=True)
    if call.flag("training"):
        raise Unsupported("it is in training mode: export the model in evaluation mode, model.eval()")
    average, variance = call.value("running_mean"), call.value("running_var")
    # One factor and one term for each channel, computed now if the statistics are constants.
    a = Arithmetic(b, variance)
    one = known([1], variance.dtype)
    scale = b.spread(one, variance.sizes) if weight is None else weight
    factor = a.div(scale, a.unary("sqrt", a.add(variance, epsilon)))
    term = a.mul(average, factor)
    term = a.unary("negate", term) if bias is None else a.sub(bias, term)
    made = _scaled(b, x, factor, term, channels=True)
    if "native" not in call.op:
        return made
    nothing = b.spread(b.constant(0, x.dtype), [Size(0)])
    return made, nothing, nothing
