"""Floats that are integers times a factor: what layers in integers (scaled.py) know of a value."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.program import Shape
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.quantized import spread_along
from tfaot_pkg.ground.arrays import Array

BYTES = frozenset({"u8", "s8"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaled(Value):
    """Floats that are `whole`, int32, times `factor`: a number, or one for each element along `axis`.

    They may be `bytes` minus `zero`, which are as small as operands of products must be.
    """

    whole: Value
    factor: Array
    axis: int | None = None
    bytes: Value | None = None
    zero: Value | None = None
    count: int = 1  # a mean is a sum over so many, whose factor is divided by that and by the scale at once


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Joined(Value):
    """Floats that lie side by side along `axis`, which become bytes one by one: some are `Scaled`."""

    parts: tuple[Value, ...]
    axis: int


def scaled(b: Builder, whole: Value, factor: Array, axis: int | None, count: int = 1) -> Scaled:
    """Integers times `factor`, along `axis` if there are several; the mean of `count` if `whole` is their sum."""
    shape = [-1 if place == axis else 1 for place in range(whole.rank)]
    by = known(np.asarray(factor / np.float32(count)).reshape(shape if factor.ndim else ()), "f32")
    made = b.map("multiply", b.convert(whole, "f32"), by)
    return Scaled(
        shape=Shape("f32", made.sizes), known=made.known, id=made.id, whole=whole, factor=factor, axis=axis, count=count
    )  # fmt: skip


def of_bytes(b: Builder, x: Value, zero: Value | None, factor: Array, axis: int | None) -> Scaled:
    """Bytes minus a zero point (0 if it is None), times `factor`."""
    whole = b.convert(x, "s32")
    if zero is not None:
        whole = Arithmetic(b, whole).sub(whole, b.convert(spread_along(b, zero, x, axis or 0), "s32"))
    made = scaled(b, whole, factor, axis)
    return replace(made, bytes=x if x.dtype in BYTES else None, zero=zero)


def zero_of(zero: Value | None) -> int | None:
    """A zero point; None if there are several, or it is computed."""
    if zero is None:
        return 0
    return int(zero.numbers.reshape(())) if zero.numbers is not None and zero.numbers.size == 1 else None


def is_same(one: Value | None, two: Value | None) -> bool:
    number = zero_of(one)
    return number is not None and number == zero_of(two)
