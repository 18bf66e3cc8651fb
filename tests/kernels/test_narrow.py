"""Dense layers whose weights have fewer bits in memory: their sums beside float64, and the same bits on all targets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.library import Kernels
from tests.kernels.machines import Floats
from tfaot_pkg.compiler.bfloat16 import rounded
from tfaot_pkg.compiler.narrow import in_steps, packed_narrow
from tfaot_pkg.ground.targets import TARGETS

fixed_kernels = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)


def _fused(x: Floats, weights: Floats) -> Floats:
    """Sums by fused multiply-adds in the order of inputs; float64 has their products, and rounds sums to odd first."""
    sums = np.zeros((len(x), weights.shape[1]), np.float32)
    for column, row in zip(x.T.astype(np.float64), weights.astype(np.float64), strict=True):
        product, addend = np.multiply.outer(column, row), sums.astype(np.float64)
        total = product + addend
        # The error of the sum (Knuth), by which the last bit becomes odd, so that rounding again is as rounding once.
        part = total - product
        error = (product - (total - part)) + (addend - part)
        bits = total.view(np.int64)
        odd = np.where((error != 0) & (bits & 1 == 0), bits + np.where((error > 0) == (total > 0), 1, -1), bits)
        sums = odd.view(np.float64).astype(np.float32)
    return sums


def _assert_dense(
    kernels: Kernels, request: pytest.FixtureRequest, batch: int, inputs: int, outputs: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    values, matrix, bias = (
        random.normal(size=shape).astype(np.float32) for shape in ((batch, inputs), (inputs, outputs), (outputs,))
    )
    steps, scales = in_steps(matrix)
    target = request.node.callspec.params["kernels"]
    fuses = target not in TARGETS or TARGETS[target].has_fma
    for weights, factors, given_bias in ((matrix, None, bias), (steps, scales, bias), (matrix, None, None)):
        numbers = rounded(matrix) if factors is None else steps.astype(np.float32)
        wanted = _fused(values, numbers) * (np.float32(1) if factors is None else factors)
        wanted = wanted + (np.float32(0) if given_bias is None else given_bias)
        found = kernels.narrow_dense(values, weights, factors, given_bias)
        if fuses:
            np.testing.assert_array_equal(found.view(np.uint32), wanted.view(np.uint32))
        exact = values.astype(np.float64) @ numbers * (1 if factors is None else factors)
        sizes = np.abs(values).astype(np.float64) @ np.abs(numbers) * (1 if factors is None else factors)
        assert (
            np.abs(found - exact - (0 if given_bias is None else given_bias)) <= (inputs + 3) * 2.0**-24 * (sizes + 4)
        ).all()


@fixed_kernels
@given(
    batch=st.integers(1, 40), inputs=st.integers(1, 150), outputs=st.integers(1, 150), seed=st.integers(0, 2**32 - 1)
)
def test_sums_are_those_of_widened_weights(
    kernels: Kernels, request: pytest.FixtureRequest, batch: int, inputs: int, outputs: int, seed: int
) -> None:
    _assert_dense(kernels, request, batch, inputs, outputs, seed)


def test_every_number_of_rows_inputs_and_columns_ends_inside_its_arrays(
    kernels: Kernels, request: pytest.FixtureRequest
) -> None:
    for batch, inputs, outputs in ((1, 1, 1), (3, 4, 17), (7, 31, 16), (17, 6, 33), (2, 65, 130), (1, 9, 300)):
        _assert_dense(kernels.beside_start(), request, batch, inputs, outputs, seed=inputs)


def test_activations_follow_the_bias(kernels: Kernels) -> None:
    random = np.random.default_rng(8)
    values, weights = random.normal(size=(5, 40)).astype(np.float32), random.normal(size=(40, 21)).astype(np.float32)
    sums = values.astype(np.float64) @ rounded(weights)
    np.testing.assert_allclose(
        kernels.narrow_dense(values, weights, None, None, "relu"), np.maximum(sums, 0), atol=1e-5
    )
    np.testing.assert_allclose(kernels.narrow_dense(values, weights, None, None, "tanh"), np.tanh(sums), atol=1e-5)


def test_weights_in_steps_are_at_most_half_a_step_off_and_the_largest_is_exact() -> None:
    weights = np.random.default_rng(3).normal(size=(70, 9)).astype(np.float32)
    weights[:, 4], weights[:, 5] = 0, np.float32(1e-44)
    steps, scales = in_steps(weights)
    error = np.abs(steps * scales.astype(np.float64) - weights)
    assert (error <= 0.5000001 * scales).all() and scales.shape == (9,)
    assert np.abs(steps).max(axis=0)[[0, 1, 2, 3]].tolist() == [127] * 4 and not steps[:, 4].any()


def test_packed_weights_are_panels_of_sixteen_columns() -> None:
    numbers, scales = packed_narrow(np.arange(51, dtype=np.int8).reshape(3, 17), np.arange(17, dtype=np.float32))
    assert numbers.shape == (2, 3, 16) and numbers[0, 2, 5] == 39 and numbers[1, 1, 0] == 33
    assert scales is not None and scales.tolist() == [*range(17), *[0] * 15]
    bits, none = packed_narrow(np.full((1, 2), 1.0, np.float32), None)
    assert none is None and bits.dtype == np.uint16 and bits[0, 0].tolist() == [0x3F80, 0x3F80, *[0] * 14]
