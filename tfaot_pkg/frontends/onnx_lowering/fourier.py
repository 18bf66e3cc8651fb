"""Fourier transforms as products of real arrays with small constant matrices, which the kernel library has.

worker_program/messages/fourier_constants.py has the algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join, pad, reverse
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.worker_program.messages.fourier_constants import chirp, matrix, radix, twiddles

LONGEST = 1 << 16
"""Elements of a transform: its constants then take some MB."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Complex numbers: real and imaginary parts. Numbers that are real have no imaginary part."""

    real: Value
    imaginary: Value | None

    def each(self, function: Callable[[Value], Value]) -> Parts:
        return Parts(function(self.real), None if self.imaginary is None else function(self.imaginary))


def transformed(b: Builder, x: Parts, sign: int) -> Parts:
    """The sums of x[j] exp(sign 2 pi i j k / size) over j, along the last axis, whose size is known."""
    return _along(b, x, _length(x.real), sign)


def of_real(b: Builder, x: Value) -> Parts:
    """The first size // 2 + 1 results for real `x`, with the sign -1."""
    size = _length(x)
    kept = size // 2 + 1
    if radix(size) == size:
        made = _product(b, Parts(x, None), matrix(size, -1)[:, :kept])
    else:
        made = _along(b, Parts(x, None), size, -1)
    assert made.imaginary is not None
    # The first result, and the middle one of even lengths, are real even if an input is infinite.
    last = (size + 1) // 2
    inner = [_cut(b, made.imaginary, 1, last)] if last > 1 else []
    zeros = b.spread(b.constant(0, x.dtype), (*x.sizes[:-1], Size(1)))
    parts = [zeros, *inner, *([zeros] if size % 2 == 0 else [])]
    return Parts(_cut(b, made.real, 0, kept), join(b, parts, x.rank - 1))


def to_real(b: Builder, x: Parts, size: int) -> Value:
    """The real numbers whose `of_real` is `x`, times `size`: its parts are cropped or padded to size // 2 + 1 first."""
    x = fitted(b, x, size // 2 + 1)
    if radix(size) != size:
        return transformed(b, mirrored(b, x, size), 1).real
    # Each number but the first, and the middle one of an even length, stands for its conjugate, too.
    factors = matrix(size, 1)[: size // 2 + 1]
    factors[1 : (size + 1) // 2] *= 2
    return _real_product(b, x, factors)


def mirrored(b: Builder, x: Parts, size: int) -> Parts:
    """All `size` results for real numbers, of which `x` are the first size // 2 + 1: the others are conjugates."""
    last, axis = (size + 1) // 2, x.real.rank - 1
    # The first result, and the middle one of an even length, have no counterpart in the other half.
    if last <= 1:
        return x
    rest = x.each(lambda part: reverse(b, _cut(b, part, 1, last), axis))
    real = join(b, [x.real, rest.real], axis)
    if x.imaginary is None or rest.imaginary is None:
        return Parts(real, None)
    return Parts(real, join(b, [x.imaginary, b.op("negate", rest.imaginary)], axis))


def swapped_with_last(b: Builder, x: Parts, axis: int) -> Parts:
    order = list(range(x.real.rank))
    order[-1], order[axis] = order[axis], order[-1]
    return x.each(lambda part: b.transpose(part, order))


def _length(x: Value) -> int:
    size = x.sizes[-1]
    if not size.is_constant:
        raise Unsupported(f"a Fourier transform along an axis of {size} elements: export with a number for that axis")
    if not 0 < size.constant <= LONGEST:
        raise Unsupported(f"a Fourier transform of {size} elements: at most {LONGEST} are supported")
    return size.constant


def _along(b: Builder, x: Parts, size: int, sign: int) -> Parts:
    first = radix(size)
    if first == size:
        return _product(b, x, matrix(size, sign))
    if not first:
        return _bluestein(b, x, size, sign)
    rest = size // first
    # j = rest * j1 + j2, k = k1 + first * k2: first along j1, which is moved to the end.
    x = x.each(lambda part: _swapped(b, _split(b, part, first, rest)))
    x = _product(b, x, matrix(first, sign))
    x = _scaled(b, x, twiddles(rest, first, sign))
    x = _along(b, x.each(lambda part: _swapped(b, part)), rest, sign)
    return x.each(lambda part: b.reshape(_swapped(b, part), (*part.sizes[:-2], Size(size))))


def _bluestein(b: Builder, x: Parts, size: int, sign: int) -> Parts:
    factors = chirp(size, sign)
    length = len(factors.kernel)
    x = _along(b, fitted(b, _scaled(b, x, factors.turns), length), length, -1)
    x = _along(b, _scaled(b, x, factors.kernel), length, 1)
    return _scaled(b, x.each(lambda part: _cut(b, part, 0, size)), factors.turns)


def _product(b: Builder, x: Parts, factors: Array) -> Parts:
    """The products of complex rows with a matrix, as one product of real arrays."""
    columns = factors.shape[1]
    # The imaginary part of z is the real part of -i z.
    made = _real_product(b, x, np.concatenate([factors, -1j * factors], 1))
    return Parts(_cut(b, made, 0, columns), _cut(b, made, columns, 2 * columns))


def _real_product(b: Builder, x: Parts, factors: Array) -> Value:
    """The real part of the product of complex rows with a matrix."""
    weights, given = factors.real, x.real
    if x.imaginary is not None:
        weights = np.concatenate([weights, -factors.imag], 0)
        given = join(b, [x.real, x.imaginary], given.rank - 1)
    return matmul(b, given, known(np.ascontiguousarray(weights), given.dtype))


def _scaled(b: Builder, x: Parts, factors: Array) -> Parts:
    """The product with complex constants."""
    a = Arithmetic(b, x.real)
    real, imaginary = (known(np.ascontiguousarray(each), x.real.dtype) for each in (factors.real, factors.imag))
    if x.imaginary is None:
        # No imaginary part to multiply: zeros times infinities would be NaN.
        return Parts(a.mul(x.real, real), a.mul(x.real, imaginary))
    return Parts(
        a.sub(a.mul(x.real, real), a.mul(x.imaginary, imaginary)),
        a.add(a.mul(x.real, imaginary), a.mul(x.imaginary, real)),
    )


def _cut(b: Builder, x: Value, start: int, end: int) -> Value:
    return cut(b, x, x.rank - 1, Size(start), Size(end))


def fitted(b: Builder, x: Parts, size: int) -> Parts:
    """`x` with `size` elements along the last axis: cropped, or padded with zeros."""

    def fit(part: Value) -> Value:
        kept = _cut(b, part, 0, min(size, part.sizes[-1].constant))
        edges = [(0, 0, 0)] * (part.rank - 1) + [(0, size - kept.sizes[-1].constant, 0)]
        return pad(b, kept, edges, b.constant(0, part.dtype))

    return x.each(fit)


def _split(b: Builder, x: Value, *sizes: int) -> Value:
    return b.reshape(x, (*x.sizes[:-1], *map(Size, sizes)))


def _swapped(b: Builder, x: Value) -> Value:
    return b.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])
