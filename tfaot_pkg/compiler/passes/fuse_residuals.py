"""Bytes that are added to those of a quantized layer, as in a residual block, become part of the layer."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.attributes import Quantized
from tfaot_pkg.compiler.layer_types import BYTES
from tfaot_pkg.compiler.passes.raise_quantized import LAYERS, Rounded, bounded, rounded, shaped, with_scalar
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, Operation, Shape
from tfaot_pkg.compiler.residuals import sums_of_bytes
from tfaot_pkg.compiler.use_def import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class _Represented:
    """Floats: bytes less a zero point, times a scale."""

    bytes_: int
    zero: int
    scale: float


def with_residual(look: Look, operation: Operation) -> Operation | None:
    """Bytes of a sum, over a number, of which one summand is the result of a layer that has no other use."""
    made = rounded(look, operation)
    quotient = None if made is None else look.made_by(made.value, "divide", once=True)
    divisor = None if quotient is None else look.scalar(quotient.operands[1])
    if made is None or quotient is None or divisor is None or not 0 < divisor < math.inf:
        return None
    value, ends = bounded(look, quotient.operands[0])
    total = look.made_by(value, "add", once=True)
    if total is None:
        return None
    for first, second in (total.operands, total.operands[::-1]):
        result, added = _represented(look, first, once=True), _represented(look, second)
        layer = None if result is None else _layer(look, result.bytes_)
        if result is None or added is None or layer is None:
            continue
        if (fused := _fused(look, operation, layer, result, added, divisor, _within(made, ends, divisor))) is not None:
            return fused
    return None


def _layer(look: Look, value: int) -> Operation | None:
    """The layer whose bytes `value` is, perhaps in another shape, for one use."""
    while (moved := look.made_by(value, "reshape", once=True)) is not None:
        (value,) = moved.operands
    return look.made_by(value, *LAYERS, once=True)


def _within(made: Rounded, ends: tuple[float, float], divisor: float) -> Rounded:
    """With the bounds of the sum, which keep their order when they are divided and rounded."""
    bounds = (float(np.rint(np.float32(each) / np.float32(divisor))) + made.zero for each in ends)
    low, high = (int(min(max(each, made.low), made.high)) for each in bounds)
    return replace(made, low=low, high=high)


def _fused(
    look: Look, operation: Operation, layer: Operation, result: _Represented, added: _Represented, divisor: float,
    made: Rounded,
) -> Operation | None:  # fmt: skip
    given, other = Quantized.of(layer), look.known[added.bytes_]
    has_scales = len(layer.operands) == 4 and not given.residual
    if not has_scales or result.zero != given.zero or operation.shape.sizes != other.shape.sizes:
        return None
    if layer.shape.dtype != operation.shape.dtype or not made.low <= made.high:
        return None
    factors = np.array([result.scale, added.scale, divisor], np.float32)
    whole = replace(given, residual=(added.zero, made.zero, made.low, made.high))
    with np.errstate(all="ignore"):
        if not np.all(np.isfinite(sums_of_bytes(whole, other.shape.dtype, factors) / factors[2])):
            return None
    beside = added.bytes_
    if layer.shape.sizes != other.shape.sizes:
        moved = replace(
            other, id=look.fresh(), opcode="reshape", operands=(beside,), attributes=NO_ATTRIBUTES, regions=()
        )
        beside = look.add(replace(moved, type=Shape(other.shape.dtype, layer.shape.sizes))).id
    operands = (*layer.operands, beside, look.add_constant(factors, operation))
    return shaped(look, operation, layer, operands, whole)


def _represented(look: Look, value: int, *, once: bool = False) -> _Represented | None:
    """What floats are made of; if `once`, each step must have a single use."""
    scale, zero = 1.0, 0.0
    if (found := look.made_by(value, "multiply", once=once)) is not None:
        value, number = with_scalar(look, found)
        if number is None or not math.isfinite(number):
            return None
        scale = number
    for dtype in ("f32", "s32"):
        if (found := look.made_by(value, "subtract", once=once)) is not None and found.shape.dtype == dtype:
            number = look.scalar(found.operands[1])
            if number is None:
                return None
            value, zero = found.operands[0], zero + number
        if (found := look.made_by(value, "convert", once=once)) is None or found.shape.dtype != dtype:
            return None
        (value,) = found.operands
        if (source := look.known[value].shape.dtype) in BYTES:
            ends = np.iinfo(np.uint8 if source == "u8" else np.int8)
            is_byte = ends.min <= zero <= ends.max and zero == math.floor(zero)
            return _Represented(bytes_=value, zero=int(zero), scale=scale) if is_byte else None
    return None
