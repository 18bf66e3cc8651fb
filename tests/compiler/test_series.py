"""Polynomials of constants, whose steps are rounded once."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.ground.arrays import Array

_NUMBERS = (0.37, -1.83, 0.91, 2.2, -0.77)


def _series(writer: Writer, x: int, numbers: tuple[float, ...], dtype: str = "f32", *, from_left: bool = True) -> int:
    def spread(number: float) -> int:
        return writer.add("broadcast", (N, 50), writer.constant(number, dtype), dtype=dtype, dimensions=())

    made = spread(numbers[0])
    for number in numbers[1:]:
        factors = (made, x) if from_left else (x, made)
        product = writer.add("multiply", (N, 50), *factors, dtype=dtype)
        terms = (product, spread(number)) if from_left else (spread(number), product)
        made = writer.add("add", (N, 50), *terms, dtype=dtype)
    return made


def _fused(x: Array, numbers: tuple[float, ...]) -> Array:
    made = np.full_like(x, numbers[0])
    for number in numbers[1:]:
        last = Fraction(float(x.dtype.type(number)))
        sums = [Fraction(float(a)) * Fraction(float(b)) + last for a, b in zip(made.flat, x.flat, strict=True)]
        made = np.array([float(each) for each in sums]).astype(x.dtype).reshape(x.shape)
    return made


@pytest.mark.slow  # compiles its code
def test_each_step_of_a_series_is_rounded_once(compiled: Compile) -> None:
    """Factors and terms in both orders; short sums of products round twice of numbers."""
    writer, short = Writer(), _NUMBERS[:3]
    x, wide = writer.input(50), writer.input(50, dtype="f64")
    results = [
        _series(writer, x, _NUMBERS), _series(writer, x, _NUMBERS, from_left=False), _series(writer, x, short),
        _series(writer, wide, _NUMBERS, "f64"),
    ]  # fmt: skip
    code = compiled(recognize(writer.program(*results)), 16)
    values = np.random.default_rng(5).normal(size=(20, 50))
    narrow = values.astype(np.float32)
    left, right, plain, doubles = code(narrow, values)
    np.testing.assert_array_equal(left, _fused(narrow, _NUMBERS))
    np.testing.assert_array_equal(right, left)
    a, b, c = np.array(short, np.float32)
    np.testing.assert_array_equal(plain, (a * narrow + b) * narrow + c)
    np.testing.assert_array_equal(doubles, _fused(values, _NUMBERS))


def test_only_sums_of_one_x_with_numbers_are_series() -> None:
    def steps(*, dtype: str = "f32", used_twice: bool = False, other: bool = False) -> int:
        writer = Writer()
        x, y = writer.input(50, dtype=dtype), writer.input(50, dtype=dtype)
        made = _series(writer, x, _NUMBERS[:3], dtype)
        made = writer.add("multiply", (N, 50), made, y if other else x, dtype=dtype)
        number = writer.spread(1.0, 50, dtype=dtype)
        results = [writer.add("add", (N, 50), made, number, dtype=dtype), *([made] if used_twice else [])]
        return [each.opcode for each in recognize(writer.program(*results)).entry.operations].count("multiply-add")

    assert (steps(), steps(dtype="f64"), steps(dtype="s32")) == (3, 3, 0)
    assert (steps(used_twice=True), steps(other=True)) == (0, 0)
