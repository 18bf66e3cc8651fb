"""Dense layers against NumPy in double precision, within the bound of floating-point summation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kernels.library import ACTIVATIONS, Kernels
from tests.kernels.machines import Floats
from tfaot_pkg.compiler.layers import packed_dense

pytestmark = pytest.mark.slow  # together half a minute

ODD = (1, 3, 7, 17, 33, 129)
UNIT = 2.0**-24  # of rounding, float32
TINY = 2.0**-149  # the smallest float32: what underflow can cost each step

fixed_kernels = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def numbers(seed: int, *shape: int) -> Floats:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(shape) * 10.0 ** generator.integers(-3, 3, shape)).astype(np.float32)


def bound(values: NDArray[np.generic], weights: NDArray[np.generic], bias: NDArray[np.generic]) -> NDArray[np.float64]:
    """Higham, "Accuracy and Stability of Numerical Algorithms", 3.1: gamma_n times the sum of magnitudes, any order."""
    terms = weights.shape[0] + 1
    gamma = terms * UNIT / (1 - terms * UNIT)
    magnitudes = np.abs(values.astype(np.float64)) @ np.abs(weights.astype(np.float64)) + np.abs(bias)
    result: NDArray[np.float64] = gamma * magnitudes + terms * TINY
    return result


def assert_dense(kernels: Kernels, batch: int, inputs: int, outputs: int, seed: int, *, biased: bool = True) -> None:
    values, weights = numbers(seed, batch, inputs), numbers(seed + 1, inputs, outputs)
    bias = numbers(seed + 2, outputs) if biased else None
    known = np.zeros(outputs, np.float32) if bias is None else bias
    expected = values.astype(np.float64) @ weights.astype(np.float64) + known
    error = np.abs(kernels.dense(values, weights, bias) - expected)
    assert (error <= bound(values, weights, known)).all(), (batch, inputs, outputs)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 7, 8, 13, 64, 65])
def test_odd_sizes_keep_the_bound_of_summation(kernels: Kernels, batch: int) -> None:
    for inputs, outputs in itertools.product(ODD, ODD):
        assert_dense(kernels, batch, inputs, outputs, seed=inputs * outputs)


@fixed_kernels
@given(
    batch=st.integers(1, 140),
    inputs=st.integers(1, 300),
    outputs=st.integers(1, 150),
    seed=st.integers(0, 2**31),
    biased=st.booleans(),
    at_end=st.booleans(),
)
def test_any_size_keeps_the_bound_of_summation(
    kernels: Kernels, batch: int, inputs: int, outputs: int, seed: int, biased: bool, at_end: bool
) -> None:
    assert_dense(kernels if at_end else kernels.beside_start(), batch, inputs, outputs, seed, biased=biased)


@pytest.mark.parametrize("outputs", [2, 16, 17, 32, 33, 64, 80, 129])
def test_a_row_has_the_same_bits_whatever_the_batch(kernels: Kernels, outputs: int) -> None:
    for inputs in (3, 18, 129):
        values, weights, bias = numbers(1, 67, inputs), numbers(2, inputs, outputs), numbers(3, outputs)
        whole = kernels.dense(values, weights, bias, "tanh")
        for batch in range(1, 14):
            np.testing.assert_array_equal(kernels.dense(values[:batch], weights, bias, "tanh"), whole[:batch])


@pytest.mark.parametrize("inputs", [5, 16, 17, 32, 33])
def test_many_rows_of_few_inputs_have_the_bits_of_few_rows(kernels: Kernels, inputs: int) -> None:
    """Rows are multiplied 64, 128 or 256 at a time, by the number of inputs."""
    assert_dense(kernels, 300, inputs, 24, seed=inputs)
    values, weights = numbers(1, 300, inputs), numbers(2, inputs, 24)
    parts = [kernels.dense(values[row : row + 50], weights, None, "relu") for row in range(0, 300, 50)]
    np.testing.assert_array_equal(kernels.dense(values, weights, None, "relu"), np.concatenate(parts))


@pytest.mark.parametrize("outputs", [160, 161])
@pytest.mark.parametrize("batch", [7, 9, 13, 20, 65])
def test_large_weights_are_gone_through_once_for_blocks_of_all_sizes(
    kernels: Kernels, batch: int, outputs: int
) -> None:
    assert_dense(kernels, batch, 900, outputs, seed=batch)
    values, weights = numbers(1, batch, 900), numbers(2, 900, outputs)
    whole = kernels.dense(values, weights, None, "relu")
    for row in (0, batch // 2, batch - 1):
        np.testing.assert_array_equal(kernels.dense(values[row : row + 1], weights, None, "relu"), whole[row : row + 1])


@pytest.mark.nightly
def test_large_weights_need_no_block_that_x86_64_v4_lacks(sixteen: Kernels) -> None:
    """Blocks of 5 rows have up to 5 vectors, those of 4 rows up to 4: 9 rows, which are both, once called a null pointer."""
    for batch in range(7, 18):
        assert_dense(sixteen, batch, 1640, 80, seed=batch)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_fused_activation_is_the_activation_of_the_sums(kernels: Kernels, activation: str) -> None:
    for batch, outputs in itertools.product((1, 2, 7), (5, 16, 70)):
        values, weights, bias = numbers(4, batch, 9), numbers(5, 9, outputs), numbers(6, outputs)
        sums = kernels.dense(values, weights, bias)
        fused = kernels.dense(values, weights, bias, activation)
        np.testing.assert_array_equal(fused, kernels.activate(activation, sums))


@pytest.mark.parametrize("outputs", [3, 40])
def test_nan_and_infinity_stay_in_their_row_and_reach_all_of_it(kernels: Kernels, outputs: int) -> None:
    for batch in (3, 7, 70):
        values, weights = np.abs(numbers(7, batch, 21)), np.abs(numbers(8, 21, outputs))
        clean = kernels.dense(values, weights, None)
        values[0, 20], values[2, 0] = np.nan, np.inf
        result = kernels.dense(values, weights, None)
        assert np.isnan(result[0]).all()
        assert (result[2] == np.inf).all()
        rest = [row for row in range(batch) if row not in (0, 2)]
        np.testing.assert_array_equal(result[rest], clean[rest])


def test_infinity_times_zero_and_opposite_infinities_are_nan(kernels: Kernels) -> None:
    weights = np.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]], np.float32)
    values = np.array([[np.inf, -np.inf], [-np.inf, 1.0]], np.float32)
    expected = [[np.nan, np.nan, np.nan], [np.nan, -np.inf, -np.inf]]
    np.testing.assert_array_equal(kernels.dense(values, weights, None), np.array(expected, np.float32))


def test_denormals_are_kept(kernels: Kernels) -> None:
    values = np.array([[1e-40, 3e-42]], np.float32)
    result = kernels.dense(values, np.eye(2, 40, dtype=np.float32), None)
    np.testing.assert_array_equal(result[0, :2], values[0])


@fixed_kernels
@given(rows=st.integers(1, 40), columns=st.integers(1, 70))
def test_both_packings_are_the_same_bytes_in_the_documented_order(kernels: Kernels, rows: int, columns: int) -> None:
    weights = numbers(9, rows, columns)
    packed = kernels.pack(weights)
    np.testing.assert_array_equal(packed_dense(weights).ravel(), packed)
    panel, lane = divmod(columns - 1, 16)
    assert packed[(panel * rows + rows - 1) * 16 + lane] == weights[-1, -1]
    assert not packed.reshape(-1, rows, 16)[panel, :, lane + 1 :].any()
