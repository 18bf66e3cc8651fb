"""Reductions along axes, places of extreme elements, and running sums."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tfaot_pkg.compiler.attributes import Windows
from tfaot_pkg.compiler.program import NUMPY_TYPES, ONE, Shape, Size
from tfaot_pkg.frontends.aten_lowering.elementwise import floating
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, product
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic, cast
from tfaot_pkg.frontends.onnx_lowering.moving import squeezed
from tfaot_pkg.frontends.onnx_lowering.reductions import (
    extreme,
    maximum,
    mean,
    minimum,
    running,
    total,
    up_to_each,
    windowed_places,
)


def _of_kind(call: Call, x: Value) -> Value:
    """`x` in the type of its sum: that which is asked for, or int64 for integers."""
    dtype = call.dtype()
    if dtype is None:
        dtype = x.dtype if NUMPY_TYPES[x.dtype].kind == "f" else "s64"
    return cast(call.builder, x, dtype)


@operator("sum", "sum.dim_IntList")
def _sum(call: Call) -> Results:
    x = _of_kind(call, call.value("self"))
    return total(call.builder, x, call.axes("dim", x.rank), keep=call.flag("keepdim"))


@operator("mean", "mean.dim")
def _mean(call: Call) -> Results:
    x = call.value("self")
    x = cast(call.builder, x, call.dtype() or x.dtype)
    return mean(call.builder, x, call.axes("dim", x.rank), keep=call.flag("keepdim"))


@operator("prod", "prod.dim_int")
def _prod(call: Call) -> Results:
    x = _of_kind(call, call.value("self"))
    return call.builder.reduce("multiply", x, call.axes("dim", x.rank), 1, keep=call.flag("keepdim"))


@operator("amax", "amin", "max", "min")
def _extreme(call: Call) -> Results:
    x = call.value("self")
    return _extremes(call, x, call.axes("dim", x.rank), keep=call.flag("keepdim"))


def _extremes(call: Call, x: Value, axes: list[int], *, keep: bool) -> Value:
    is_max = "max" in call.op
    if x.dtype == "pred":
        return call.builder.reduce("or" if is_max else "and", x, axes, not is_max, keep=keep)
    return (maximum if is_max else minimum)(call.builder, x, axes, keep=keep)


@operator("max.dim", "min.dim")
def _extreme_with_place(call: Call) -> Results:
    x, keep = call.value("self"), call.flag("keepdim")
    axis = call.axis("dim", x.rank)
    found = _extremes(call, x, [axis], keep=keep)
    if 1 not in call.used:
        return found, None
    return found, _place(call.builder, x, axis, largest="max" in call.op, keep=keep)


def _place(b: Builder, x: Value, axis: int, *, largest: bool, keep: bool) -> Value:
    found = _first_extreme(b, x, axis, largest=largest)
    sizes = [ONE if each == axis else size for each, size in enumerate(x.sizes)]
    return b.reshape(found, sizes) if keep else found


def _first_extreme(b: Builder, x: Value, axis: int, *, largest: bool) -> Value:
    """The first of equal elements; to PyTorch, NaN is both the largest and the least number."""
    best = (maximum if largest else minimum)(b, x, [axis], keep=True)
    is_best = b.compare("EQ", x, best)
    if x.is_float:  # the extreme of elements with NaN is NaN, which equals none
        is_best = b.map("or", is_best, b.compare("NE", x, x))
    # There is a best element, so that the last place may stand for none.
    chosen = b.map("select", is_best, b.iota("s64", x.sizes, axis), b.size(x.sizes[axis] + Size(-1)))
    return minimum(b, chosen, [axis], keep=False)


@operator("argmax", "argmin")
def _arg(call: Call) -> Results:
    b, x, keep = call.builder, call.value("self"), call.flag("keepdim")
    largest = "argmax" in call.op
    if call.has("dim"):
        return _place(b, x, call.axis("dim", x.rank), largest=largest, keep=keep)
    found = _first_extreme(b, b.reshape(x, [product(x.sizes)]), 0, largest=largest)
    return b.reshape(found, [ONE] * x.rank) if keep else found


@operator("any", "any.dim", "any.dims", "all", "all.dim", "all.dims")
def _truth(call: Call) -> Results:
    x = cast(call.builder, call.value("self"), "pred")
    is_any = "any" in call.op
    return call.builder.reduce(
        "or" if is_any else "and", x, call.axes("dim", x.rank), not is_any, keep=call.flag("keepdim")
    )


@operator("var.correction", "std.correction", "var_mean.correction", "var.dim", "std.dim")
def _variance(call: Call) -> Results:
    b, x, keep = call.builder, call.value("self"), call.flag("keepdim")
    axes, a = call.axes("dim", x.rank), Arithmetic(call.builder, x)
    correction = call.real("correction", 1.0)
    if call.has("unbiased"):
        correction = 1.0 if call.flag("unbiased") else 0.0
    average = mean(b, x, axes, keep=True)
    centred = a.sub(x, average)
    squares = total(b, a.mul(centred, centred), axes, keep=keep)
    count = b.count([x.sizes[axis] for axis in axes], x.dtype)
    made = a.div(squares, a.max(a.sub(count, correction), 0) if correction else count)
    made = a.unary("sqrt", made) if "std" in call.op else made
    if "var_mean" in call.op:
        return made, average if keep else squeezed(b, average, axes)
    return made


@operator("logsumexp")
def _log_sum_exp(call: Call) -> Results:
    b, x, keep = call.builder, floating(call), call.flag("keepdim")
    axes, a = call.axes("dim", x.rank), Arithmetic(call.builder, x)
    most = maximum(b, x, axes, keep=True)
    # An infinite maximum would give NaN as its difference to itself.
    most = a.where(b.op("is-finite", most), most, 0)
    made = a.add(a.log(total(b, a.exp(a.sub(x, most)), axes, keep=True)), most)
    return made if keep else squeezed(b, made, axes)


@operator("linalg_vector_norm", "norm.ScalarOpt_dim", "norm.Scalar")
def _norm(call: Call) -> Results:
    b, x, keep = call.builder, call.value("self"), call.flag("keepdim")
    axes = call.axes("dim", x.rank)
    order = call.real("ord" if "vector_norm" in call.op else "p", 2.0)
    return norm(b, x, axes, order, keep=keep)


def norm(b: Builder, x: Value, axes: list[int], order: float, *, keep: bool) -> Value:
    a = Arithmetic(b, x)
    if order == 2:
        return a.unary("sqrt", total(b, a.mul(x, x), axes, keep=keep))
    size = a.unary("abs", x)
    if order == 1:
        return total(b, size, axes, keep=keep)
    if math.isinf(order):
        return (maximum if order > 0 else minimum)(b, size, axes, keep=keep)
    if order == 0:
        return total(b, b.convert(a.compare("NE", x, 0), x.dtype), axes, keep=keep)
    return a.pow(total(b, a.pow(size, order), axes, keep=keep), 1 / order)


@operator("cumsum", "cumprod")
def _cumulated(call: Call) -> Results:
    b, x = call.builder, _of_kind(call, call.value("self"))
    if not x.rank:
        return x
    axis = call.axis("dim", x.rank)
    opcode, start = ("add", 0) if "cumsum" in call.op else ("multiply", 1)
    return running(b, x, axis, opcode, start)


@operator("logcumsumexp")
def _log_sum_exp_up_to_each(call: Call) -> Results:
    b, x = call.builder, call.value("self")
    if not x.rank:
        return x
    number = Shape(x.dtype, ())

    def together(pair: Sequence[Value]) -> list[Value]:
        a, (one, two) = Arithmetic(b, pair[0]), pair
        # Equal infinities are not apart.
        apart = a.where(a.compare("EQ", one, two), 0, a.unary("abs", a.sub(one, two)))
        return [a.add(a.max(one, two), a.unary("log-plus-one", a.exp(a.unary("negate", apart))))]

    window = tuple(up_to_each(x, call.axis("dim", x.rank)))
    return b.op(
        "reduce-window", x, b.constant(-math.inf, x.dtype), attributes=Windows(window=window),
        regions=[b.region([number, number], together)],
    )  # fmt: skip


@operator("cummax", "cummin")
def _running_extreme(call: Call) -> Results:
    """The largest element up to each, and its last place. NaN is above (below) all, as in PyTorch."""
    b, x, is_largest = call.builder, call.value("self"), "cummax" in call.op
    if not x.rank:
        return x, b.constant(0, "s64")
    axis = call.axis("dim", x.rank)
    start = extreme(x.dtype, largest=is_largest)
    if 1 not in call.used:
        return running(b, x, axis, "maximum" if is_largest else "minimum", start), None

    def better(other: Value, value: Value) -> Value:
        is_later = b.compare("GE" if is_largest else "LE", other, value)
        return b.op("or", is_later, b.compare("NE", other, other)) if x.is_float else is_later

    return windowed_places(b, x, b.iota("s64", x.sizes, axis), up_to_each(x, axis), start, better)
