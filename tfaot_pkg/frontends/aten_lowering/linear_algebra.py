"""Determinants, systems of linear equations, inverses and Cholesky factors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tfaot_pkg.compiler.program import ONE, Size, Unsupported
from tfaot_pkg.frontends.aten_lowering.table import Call, Results, operator
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known, product
from tfaot_pkg.frontends.onnx_lowering.determinants import determinant, eliminated, stepwise
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.moving import cut, join
from tfaot_pkg.frontends.onnx_lowering.products import matmul
from tfaot_pkg.frontends.onnx_lowering.reductions import total
from tfaot_pkg.ground.arrays import Array

_MOST_INVERTED = 256
"""The largest known matrices that are inverted here, in less than a second: larger ones are eliminated by each call."""


def _size(call: Call, x: Value) -> int:
    """Of square matrices."""
    if x.rank < 2 or x.sizes[-1] != x.sizes[-2]:
        raise Unsupported("its input is no square matrix")
    return call.number(x.sizes[-1], "the size of its matrices")


def _flat(b: Builder, x: Value) -> Value:
    """Matrices one after the other."""
    return b.reshape(x, [product(x.sizes[:-2]), *x.sizes[-2:]])


def _without_factors(call: Call, *found: Value) -> tuple[Value | None, ...]:
    """The results, of which those of LAPACK behind the first ones (factors, pivots, what failed) are not computed."""
    if any(place >= len(found) for place in call.used):
        raise Unsupported("the factors, pivots or errors that it returns beside the answer")
    return (*found, *[None] * 3)


@operator("_linalg_det")
def _det(call: Call) -> Results:
    x = call.value("A")
    return _without_factors(call, determinant(call.builder, x, _size(call, x)))


@operator("_linalg_slogdet")
def _slogdet(call: Call) -> Results:
    """The sign, and the logarithm of the size."""
    b, x = call.builder, call.value("A")
    a, matrices = Arithmetic(b, x), _flat(b, x)

    def step(number: Value, state: Sequence[Value]) -> list[Value]:
        left, pivot = eliminated(b, number, state[0])
        sign, logarithm = a.unary("sign", pivot), a.log(a.unary("abs", pivot))
        return [left, a.mul(state[1], sign), a.add(state[2], logarithm)]

    one, zero = (b.spread(b.constant(each, x.dtype), matrices.sizes[:1]) for each in (1, 0))
    made = stepwise(b, _size(call, x), [matrices, one, zero], step)
    return _without_factors(call, *(b.reshape(each, x.sizes[:-2]) for each in made[1:]))


def _solved(call: Call, x: Value, right: Value) -> Value:
    """The solutions of `x` times them = `right`, [..., size, n]: elimination in all rows, with row exchanges.

    A matrix that is known, as the factor of a covariance, is inverted now, and its product is left.
    """
    b, size = call.builder, _size(call, x)
    inverse = _known_inverse(x.numbers) if x.numbers is not None and right.numbers is None else None
    if inverse is not None:
        return matmul(b, known(inverse, x.dtype), right)
    batch = b.fitted(x.sizes[:-2], right.sizes[:-2])
    x, right = (b.spread(each, [*batch, *each.sizes[-2:]]) for each in (x, right))
    both = join(b, [_flat(b, x), _flat(b, right)], 2)
    (made,) = stepwise(b, size, [both], lambda step, state: [eliminated(b, step, state[0], all_rows=True)[0]])
    return b.reshape(cut(b, made, 2, Size(size), both.sizes[2]), [*batch, *right.sizes[-2:]])


def _known_inverse(matrices: Array) -> Array | None:
    """In float64, by elimination; None if there are too many numbers, or a matrix has no inverse.

    NumPy's own would have other bits with another library for linear algebra.
    """
    size = matrices.shape[-1]
    if size > _MOST_INVERTED or not 0 < matrices.size <= _MOST_INVERTED**2:
        return None
    flat = matrices.reshape(-1, size, size).astype(np.float64)
    both, each = np.concatenate([flat, np.broadcast_to(np.eye(size), flat.shape)], 2), np.arange(len(flat))
    with np.errstate(all="ignore"):
        for step in range(size):
            best = step + np.argmax(np.abs(both[:, step:, step]), 1)
            both[each, best], both[:, step] = both[:, step].copy(), both[each, best]
            unit = both[:, step] / both[:, step, step, None]
            both -= both[:, :, step, None] * unit[:, None]
            both[:, step] = unit
    found: Array = both[:, :, size:].reshape(matrices.shape).astype(matrices.dtype)
    return found if np.isfinite(found).all() else None


def _unit(b: Builder, size: int, dtype: str) -> Value:
    row, column = (b.iota("s64", [Size(size), Size(size)], axis) for axis in (0, 1))
    return b.convert(b.compare("EQ", row, column), dtype)


@operator("linalg_inv_ex")
def _inverse(call: Call) -> Results:
    x = call.value("A")
    unit = _unit(call.builder, _size(call, x), x.dtype)
    return _without_factors(call, _solved(call, x, call.builder.spread(unit, x.sizes)))


@operator("_linalg_solve_ex")
def _solve(call: Call) -> Results:
    b, x, right = call.builder, call.value("A"), call.value("B")
    # One vector for each matrix, as torch.linalg.solve sees it.
    is_vector = right.rank == 1 or (right.rank == x.rank - 1 and right.sizes == x.sizes[:-1])
    right = b.reshape(right, [*right.sizes, ONE]) if is_vector else right
    if call.get("left") is False:
        made = _swapped(b, _solved(call, _swapped(b, x), _swapped(b, right)))
    else:
        made = _solved(call, x, right)
    return _without_factors(call, b.reshape(made, made.sizes[:-1]) if is_vector else made)


@operator("linalg_solve_triangular")
def _solve_triangular(call: Call) -> Results:
    b, x, right = call.builder, call.value("self"), call.value("B")
    x = _triangle(b, x, is_upper=call.flag("upper"), is_unit=call.flag("unitriangular"))
    if call.get("left") is False:
        return _swapped(b, _solved(call, _swapped(b, x), _swapped(b, right)))
    return _solved(call, x, right)


def _swapped(b: Builder, x: Value) -> Value:
    """The last two axes."""
    return b.transpose(x, [*range(x.rank - 2), x.rank - 1, x.rank - 2])


def _triangle(b: Builder, x: Value, *, is_upper: bool, is_unit: bool = False) -> Value:
    row, column = (b.iota("s64", x.sizes[-2:], axis) for axis in (0, 1))
    a = Arithmetic(b, x)
    x = a.where(b.compare("LE" if is_upper else "GE", row, column), x, 0)
    return a.where(b.compare("EQ", row, column), 1, x) if is_unit else x


@operator("linalg_cholesky_ex", "cholesky")
def _cholesky(call: Call) -> Results:
    """The factor of the lower triangle, column by column; NaN if the matrix is not positive definite."""
    b, x, is_upper = call.builder, call.value("self"), call.flag("upper")
    a, matrices = Arithmetic(b, x), _flat(b, x)
    matrices = _swapped(b, matrices) if is_upper else matrices
    place = b.iota("s64", matrices.sizes[1:2], 0)

    def step(number: Value, state: Sequence[Value]) -> list[Value]:
        left, made = state
        now = b.convert(number, "s64")
        is_now = b.compare("EQ", place, now)
        column = total(b, a.where(is_now, left, 0), [2], keep=False)
        pivot = total(b, a.where(is_now, column, 0), [1], keep=True)
        column = a.where(b.compare("GE", place, now), a.div(column, a.unary("sqrt", pivot)), 0)
        tall, wide = (b.reshape(column, [column.sizes[0], *each]) for each in
                      ([column.sizes[1], ONE], [ONE, column.sizes[1]]))  # fmt: skip
        return [a.sub(left, a.mul(tall, wide)), a.where(is_now, tall, made)]

    zeros = b.spread(b.constant(0, x.dtype), matrices.sizes)
    _, made = stepwise(b, _size(call, x), [matrices, zeros], step)
    made = b.reshape(_swapped(b, made) if is_upper else made, x.sizes)
    return made if call.op.endswith("cholesky.default") else _without_factors(call, made)


@operator("cholesky_solve", "cholesky_inverse")
def _cholesky_solve(call: Call) -> Results:
    b, is_upper = call.builder, call.flag("upper")
    is_inverse = "inverse" in call.op
    factor = _triangle(b, call.value("self" if is_inverse else "input2"), is_upper=is_upper)
    right = b.spread(_unit(b, _size(call, factor), factor.dtype), factor.sizes) if is_inverse else call.value("self")
    lower, upper = (_swapped(b, factor), factor) if is_upper else (factor, _swapped(b, factor))
    return _solved(call, upper, _solved(call, lower, right))
