"""Products of matrices. Those with constant weights are layers of the kernel library."""

from __future__ import annotations

import math

from tfaot_pkg.frontends.aten_lowering.reductions import norm
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, product
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import element, join, stretched
from tfaot_pkg.frontends.onnx_lowering.products import dense, is_layer, matmul
from tfaot_pkg.frontends.onnx_lowering.reductions import total


def affine(b: Builder, x: Value, weight: Value, bias: Value | None) -> Value:
    """The product of [..., inputs] and the transpose of [outputs, inputs], plus a bias for each output."""
    if weight.rank == 2 and is_layer(b, x, weight) and (bias is None or bias.numbers is not None):
        return dense(b, x, weight, 1, bias)
    made = matmul(b, x, b.transpose(weight, [1, 0]) if weight.rank == 2 else weight)
    return made if bias is None else Arithmetic(b, made).add(made, bias)


@operator("linear")
def _linear(call: Call) -> Results:
    return affine(call.builder, call.value("input"), call.value("weight"), call.maybe("bias"))


@operator("mm", "bmm", "matmul", "mv", "dot")
def _matmul(call: Call) -> Results:
    names = {"matmul": ("self", "other"), "mv": ("self", "vec"), "dot": ("self", "tensor")}
    first, second = names.get(call.op.split(".")[1], ("self", "mat2"))
    return matmul(call.builder, call.value(first), call.value(second))


@operator("addmm", "baddbmm", "addmv", "addbmm")
def _addmm(call: Call) -> Results:
    b, added = call.builder, call.value("self")
    first, second = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec")}.get(
        call.op.split(".")[1], ("batch1", "batch2")
    )
    x, y = call.value(first), call.value(second)
    a, alpha, beta = Arithmetic(b, x), call.real("alpha", 1), call.real("beta", 1)
    if alpha == beta == 1 and is_layer(b, x, y) and added.numbers is not None and added.sizes == (y.sizes[-1],):
        return dense(b, x, y, 0, added)
    made = matmul(b, x, y)
    if "addbmm" in call.op:
        made = b.reduce("add", made, [0], 0)
    made = made if alpha == 1 else a.mul(made, alpha)
    if beta == 0:
        return made
    return a.add(made, added if beta == 1 else a.mul(added, beta))


@operator("cdist", "_cdist_forward")
def _cdist(call: Call) -> Results:
    """Distances of each pair, by their differences: products of matrices would lose digits of small distances."""
    b, x, y = call.builder, call.value("x1"), call.value("x2")
    difference = b.map("subtract", stretched(b, x, [x.rank - 1]), stretched(b, y, [y.rank - 2]))
    a, order = Arithmetic(b, difference), call.real("p", 2.0)
    if math.isinf(order):  # PyTorch leaves NaN out of the largest difference, but not out of norms
        difference = a.where(a.compare("EQ", difference, difference), difference, 0)
    if order == 0:  # NaN counts as itself, where a norm counts it as one
        differs = a.where(
            a.compare("EQ", difference, difference), b.convert(a.compare("NE", difference, 0), x.dtype), difference
        )
        return total(b, differs, [difference.rank - 1], keep=False)
    return norm(b, difference, [difference.rank - 1], order, keep=False)


@operator("dist")
def _dist(call: Call) -> Results:
    b = call.builder
    difference = b.map("subtract", call.value("self"), call.value("other"))
    return norm(b, difference, list(range(difference.rank)), call.real("p", 2.0), keep=False)


@operator("_trilinear")
def _trilinear(call: Call) -> Results:
    """The product of three arrays with new axes of size 1, added up over `sumdim`; that of nn.Bilinear is a layer."""
    b, names = call.builder, ("i1", "i2", "i3")
    one, two, three = (call.value(name) for name in names)
    new, summed = [call.wholes(f"expand{place}") for place in (1, 2, 3)], call.wholes("sumdim")
    if (*map(tuple, new), tuple(summed)) == ((1, 3), (0,), (1, 2), (2, 3)):
        pairs = b.map("multiply", stretched(b, one, [2]), stretched(b, three, [1]))
        rows = b.reshape(pairs, [pairs.sizes[0], product(pairs.sizes[1:])])
        return affine(b, rows, b.reshape(two, [two.sizes[0], product(two.sizes[1:])]), None)
    wide = [stretched(b, each, axes) for each, axes in zip((one, two, three), new, strict=True)]
    return total(b, b.map("multiply", b.map("multiply", *wide[:2]), wide[2]), summed, keep=False)


@operator("linalg_cross")
def _cross(call: Call) -> Results:

    b, x, y = call.builder, call.value("self"), call.value("other")
    rank = max(x.rank, y.rank)
    axis = call.axis("dim", rank, -1)
    a = Arithmetic(b, x)
    parts = []
    for one, two in ((1, 2), (2, 0), (0, 1)):
        left = a.mul(element(b, x, axis - rank + x.rank, one), element(b, y, axis - rank + y.rank, two))
        right = a.mul(element(b, x, axis - rank + x.rank, two), element(b, y, axis - rank + y.rank, one))
        parts.append(stretched(b, a.sub(left, right), [axis]))
    return join(b, parts, axis)
