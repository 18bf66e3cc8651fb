"""Bytes between DequantizeLinear and QuantizeLinear that are moved, joined and averaged."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.frontends.lowering.values import Held, Value
from tfaot_pkg.frontends.onnx_lowering.quantized import count_of
from tfaot_pkg.frontends.onnx_lowering.reductions import total
from tfaot_pkg.frontends.onnx_lowering.scaled_values import Joined, Scaled, is_same, of_bytes, scaled, zero_of
from tfaot_pkg.frontends.onnx_lowering.table import OPERATORS, Call, Results

MOVES = frozenset(
    "DepthToSpace Expand Flatten Gather GatherElements GatherND GlobalMaxPool MaxPool Pad ReduceMax ReduceMin Reshape "
    "Resize Slice SpaceToDepth Split Squeeze Tile Transpose Unsqueeze".split()
)
"""Their results are elements of their first input. Scales are positive, so that the largest float is the largest byte.
"""
_TURNS = frozenset("Flatten Reshape Squeeze Transpose Unsqueeze".split())
"""Those of which weights may come."""


def moved(call: Call) -> Results | None:
    x = call.input(0)
    if not isinstance(x, Scaled) or (call.op == "MaxPool" and any(call.node.outputs[1:])):
        return None
    if x.whole.numbers is not None and call.op in _TURNS:
        return _turned(call, x)
    if x.bytes is None or x.axis is not None:
        return None
    others = _others(call, x)
    if others is None:
        return None
    made = OPERATORS[call.node.domain, call.op](replace(call, inputs=(x.bytes, *others)))
    several = made if isinstance(made, tuple) else (made,)
    found = tuple(of_bytes(call.builder, each, x.zero, x.factor, None) for each in several if isinstance(each, Value))
    return found if isinstance(made, tuple) else found[0]


def _others(call: Call, x: Scaled) -> list[Held | None] | None:
    """The inputs behind the first one, for bytes; None if the node makes other numbers than those of `x`."""
    others = list(call.inputs[1:])
    if call.op == "Resize":
        is_moved = call.text("mode", "nearest") == "nearest"
        return others if is_moved and call.text("coordinate_transformation_mode", "") != "tf_crop_and_resize" else None
    if call.op != "Pad" or call.text("mode", "constant") != "constant":
        return others
    zero, filler = zero_of(x.zero), call.maybe(2)
    is_zero = filler is None or (filler.numbers is not None and not filler.numbers.any())
    if zero is None or x.bytes is None or not is_zero or not others:
        return None
    return [others[0], call.constant(zero, x.bytes), *others[2:]]


def _turned(call: Call, x: Scaled) -> Scaled | None:
    """Constant integers in another shape, or with axes in another order."""
    if x.axis is not None and call.op != "Transpose":
        return None
    moved = OPERATORS[call.node.domain, call.op](replace(call, inputs=(x.whole, *call.inputs[1:])))
    assert isinstance(moved, Value)
    order = call.wholes("perm") or list(range(x.rank))[::-1]
    return scaled(call.builder, moved, x.factor, None if x.axis is None else order.index(x.axis))


def mean(call: Call) -> Value | None:
    """The mean of bytes over an image, which is a sum of integers in ONNX Runtime as well."""
    x = call.input(0)
    if not isinstance(x, Scaled) or x.bytes is None or x.axis is not None or x.known is not None:
        return None
    count = count_of(x.sizes[2:])
    if zero_of(x.zero) is None or count is None:
        return None
    return scaled(call.builder, total(call.builder, x.whole, range(2, x.rank), keep=True), x.factor, None, count)


def joined(call: Call) -> Value | None:
    """Bytes side by side: of one scale and zero point at once, of several as bytes of the scale that they will get."""
    given = call.all()
    first = given[0]
    if not any(isinstance(each, Scaled) and each.known is None for each in given):
        return None
    parts = [each.bytes for each in given if isinstance(each, Scaled) and _is_like(each, first) and each.bytes]
    given_bytes = tuple(parts) if len(parts) == len(given) else call.inputs
    made = OPERATORS[call.node.domain, call.op](replace(call, inputs=given_bytes))
    assert isinstance(made, Value)
    if isinstance(first, Scaled) and len(parts) == len(given):
        return of_bytes(call.builder, made, first.zero, first.factor, None)
    axis = call.axis(call.whole("axis"), first.rank)
    return Joined(shape=made.shape, known=made.known, id=made.id, parts=tuple(given), axis=axis)


def _is_like(one: Scaled, two: Value) -> bool:
    """Whether both are bytes of one type, scale and zero point."""
    if not isinstance(two, Scaled) or one.bytes is None or two.bytes is None or (one.axis, two.axis) != (None, None):
        return False
    return one.bytes.dtype == two.bytes.dtype and one.factor == two.factor and is_same(one.zero, two.zero)
