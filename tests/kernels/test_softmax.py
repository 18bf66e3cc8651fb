"""Softmax against double precision, and the rows where exponentials overflow or vanish."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.library import Kernels
from tests.kernels.machines import Floats
from tests.kernels.test_activations import Doubles, units
from tests.kernels.test_dense import fixed_kernels

pytestmark = pytest.mark.slow  # a few seconds for each target


def exact(values: Floats) -> Doubles:
    distances = values.astype(np.float64) - values.max(axis=1, keepdims=True)
    powers = np.exp(distances)
    result: Doubles = powers / powers.sum(axis=1, keepdims=True)
    return result


def assert_softmax(kernels: Kernels, values: Floats) -> None:
    result = kernels.softmax(values)
    error = units(result.ravel(), exact(values).ravel()).reshape(values.shape)
    distance = values.max(axis=1, keepdims=True).astype(np.float64) - values
    assert (error <= 4 + values.shape[1] / 16 + distance).all()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 129, 1000])
def test_the_error_is_as_stated_for_every_size(kernels: Kernels, size: int) -> None:
    generator = np.random.default_rng(size)
    for rows in (1, 2, 3, 7, 17, 33, 129):
        for scale in (0.1, 4.0, 40.0):
            values = (generator.standard_normal((rows, size)) * scale).astype(np.float32)
            assert_softmax(kernels, values)
            assert_softmax(kernels.beside_start(), values)


@fixed_kernels
@given(rows=st.integers(1, 40), size=st.integers(1, 70), seed=st.integers(0, 2**31))
def test_a_row_has_the_same_bits_beside_any_others(kernels: Kernels, rows: int, size: int, seed: int) -> None:
    values = np.random.default_rng(seed).uniform(-20, 20, (rows, size)).astype(np.float32)
    whole = kernels.softmax(values)
    for row in {0, rows // 2, rows - 1}:
        np.testing.assert_array_equal(kernels.softmax(values[row : row + 1]), whole[row : row + 1])


@pytest.mark.parametrize("size", [2, 3, 8, 16, 21, 40])
def test_infinities_and_nan_give_what_xla_gives(kernels: Kernels, size: int) -> None:
    values = np.zeros((6, size), np.float32)
    values[0, size - 1] = -np.inf  # one of them vanishes
    values[1] = -np.inf
    values[2, 0] = np.inf
    values[3, size // 2] = np.nan
    values[4] = 3e38  # nothing overflows
    result = kernels.softmax(values)
    np.testing.assert_allclose(result[0, :-1], 1 / (size - 1), rtol=3e-7)
    assert result[0, -1] == 0
    assert np.isnan(result[1:4]).all()
    np.testing.assert_allclose(result[4:], 1 / size, rtol=3e-7)


def test_what_vanishes_does_so_by_way_of_denormals(kernels: Kernels) -> None:
    result = kernels.softmax(np.array([[0.0, -100.0], [0.0, -120.0]], np.float32))
    np.testing.assert_allclose(result[:, 1], [np.exp(-100.0), 0.0], rtol=0.02, atol=0)
