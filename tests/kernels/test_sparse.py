"""Dense layers that skip the zeros of their weights, beside the kernel that multiplies them: to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.library import Kernels
from tests.kernels.machines import Floats
from tfaot_pkg.compiler.pruned import lists

fixed_kernels = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


def _same(found: Floats, wanted: Floats) -> None:
    """To the bit, signs of zeros included; the bits of a NaN are open."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(found[numbers].view(np.uint32), wanted[numbers].view(np.uint32))


def _pruned(random: np.random.Generator, inputs: int, outputs: int, zeros: float = 0.8) -> Floats:
    """Zeros of both signs, as masks that are multiplied leave them."""
    masked = random.normal(size=(inputs, outputs)) * (random.random((inputs, outputs)) >= zeros)
    return masked.astype(np.float32)


def _values(random: np.random.Generator, *shape: int) -> Floats:
    """Half of them zeros, as a rectifier leaves them."""
    return np.maximum(random.normal(size=shape), 0).astype(np.float32)


@fixed_kernels
@given(
    batch=st.integers(1, 40),
    inputs=st.integers(1, 127),
    outputs=st.integers(9, 90),
    zeros=st.sampled_from([0.0, 0.5, 0.8, 0.95, 1.0]),
    seed=st.integers(0, 2**32 - 1),
    activation=st.sampled_from(["none", "relu", "clip", "tanh", "leaky_relu"]),
)
def test_a_layer_has_the_bits_of_the_dense_kernel(
    kernels: Kernels, batch: int, inputs: int, outputs: int, zeros: float, seed: int, activation: str
) -> None:
    random = np.random.default_rng(seed)
    values, weights = _values(random, batch, inputs), _pruned(random, inputs, outputs, zeros)
    bias = None if seed % 3 == 0 else random.normal(size=outputs).astype(np.float32)
    wanted = kernels.dense(values, weights, bias, activation)
    for where in (kernels, kernels.beside_start()):
        _same(where.sparse_dense(values, weights, bias, activation), wanted)


def test_wide_layers_have_the_bits_of_the_dense_kernel(kernels: Kernels) -> None:
    random = np.random.default_rng(3)
    values, weights = _values(random, 37, 512), _pruned(random, 512, 200, 0.9)
    wanted = kernels.dense(values, weights, None)
    for fewest in (1, 6, 17):
        _same(kernels.sparse_dense(values, weights, None, fewest=fewest), wanted)


def test_a_row_has_the_same_bits_in_any_batch(kernels: Kernels) -> None:
    random = np.random.default_rng(4)
    values, weights = _values(random, 40, 300), _pruned(random, 300, 70)
    whole = kernels.sparse_dense(values, weights, None, "tanh", fewest=5)
    for size in (1, 2, 4, 5, 15, 16, 17, 21, 33):
        _same(kernels.sparse_dense(values[:size], weights, None, "tanh", fewest=5), whole[:size])


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_a_zero_times_what_is_not_finite_is_nan(kernels: Kernels, special: float) -> None:
    """In any row and at any input; other rows keep their numbers."""
    random = np.random.default_rng(5)
    weights = _pruned(random, 67, 41)
    for row, column in ((0, 0), (13, 66), (15, 31), (16, 40), (21, 5)):
        values = _values(random, 22, 67)
        values[row, column] = special
        found = kernels.sparse_dense(values, weights, None)
        _same(found, kernels.dense(values, weights, None))
        assert np.isnan(found[row]).any() and np.isfinite(np.delete(found, row, axis=0)).all()


def test_weights_and_biases_that_are_not_finite_are_no_zeros(kernels: Kernels) -> None:
    random = np.random.default_rng(6)
    values, weights, bias = _values(random, 16, 40), _pruned(random, 40, 41), np.zeros(41, np.float32)
    weights[3, 7], weights[5, 9], weights[1, 1], bias[[2, 4]] = np.inf, np.nan, 3e38, [np.inf, np.nan]
    values[:, 1] = 1e10
    _same(kernels.sparse_dense(values, weights, bias), kernels.dense(values, weights, bias))


def test_the_end_of_a_short_list_keeps_a_sum_of_minus_zero(kernels: Kernels) -> None:
    """In column 12, whose list is shorter than those of its group, and no other one; without fused products it is 0."""
    weights = np.full((40, 16), -0.0, np.float32)
    weights[20], weights[21] = 1.0, 1.0
    weights[:, 12] = -0.0
    weights[3, 12] = -1e-30
    values = np.full((16, 40), 1e-30, np.float32)
    wanted = kernels.dense(values, weights, None)
    assert (wanted[:, 12] == 0).all() and (np.delete(wanted, 12, axis=1) > 0).all()
    _same(kernels.sparse_dense(values, weights, None), wanted)


def test_a_sum_that_underflows_to_minus_zero_becomes_zero_by_a_skipped_product(kernels: Kernels) -> None:
    """1e-30 * -1e-30 + 0 rounds to -0, and -0 + 0 * 1 is 0."""
    weights = np.zeros((40, 41), np.float32)
    weights[3], weights[20, :5] = -1e-30, 1.0
    values = np.zeros((16, 40), np.float32)
    values[:8, 3], values[4:, 7], values[6, 20] = 1e-30, 1.0, 1.0
    for bias in (None, np.zeros(41, np.float32)):
        wanted = kernels.dense(values, weights, bias)
        _same(kernels.sparse_dense(values, weights, bias), wanted)


def test_sums_that_stay_minus_zero_keep_their_sign(kernels: Kernels) -> None:
    """Products of -0 do that to a bias of -0, whatever the length of the column's list; one product of 0 ends it."""
    random = np.random.default_rng(7)
    bias = np.where(random.random(41) < 0.5, -0.0, 0.5).astype(np.float32)
    weights = np.where(random.random((40, 41)) < 0.2, random.normal(size=(40, 41)), -0.0).astype(np.float32)
    weights[:, :7] = -0.0
    weights[11, 3] = 0.0
    values = _values(random, 16, 40)
    values[2] = 0.0
    wanted = kernels.dense(values, weights, bias)
    assert (np.signbit(wanted) & (wanted == 0)).any()
    _same(kernels.sparse_dense(values, weights, bias), wanted)


def test_lists_are_made_of_layers_that_gain() -> None:
    random = np.random.default_rng(8)
    assert lists(_pruned(random, 128, 128, 0.75), None) is not None
    assert lists(_pruned(random, 128, 128, 0.65), None) is None
    assert lists(_pruned(random, 100, 100, 0.9), None) is None
    assert lists(_pruned(random, 2**16, 40, 0.9), None) is None
    found = [lists(_pruned(random, 512, 512, zeros), None) for zeros in (0.99, 0.9, 0.8, 0.72)]
    assert [each and each.fewest for each in found] == [2, 5, 8, 11]
    found = [lists(_pruned(random, 512, 512, zeros), None, 2**20) for zeros in (0.9, 0.72)]
    assert [each and each.fewest for each in found] == [1, 11]


def test_columns_whose_sums_begin_with_minus_zero_keep_their_zeros() -> None:
    weights, bias = _pruned(np.random.default_rng(9), 256, 256, 0.9), np.zeros(256, np.float32)
    bias[:20] = -0.0
    found = lists(weights, bias)
    assert found is not None and sum(found.counts[-3:]) >= 2 * 256 + np.count_nonzero(weights[:, 20:], axis=0).max()
    bias[:] = -0.0
    assert lists(weights, bias) is None
