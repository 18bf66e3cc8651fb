"""A convolution with its pooling in one call, against the two calls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.library import ACTIVATIONS, Kernels, Shape, sized_like_input
from tests.kernels.test_convolution import shapes
from tests.kernels.test_dense import fixed_kernels, numbers

pytestmark = pytest.mark.slow  # a few seconds for each target

MONOTONE = ("none", "relu", "elu", "selu", "tanh", "sigmoid", "softplus", "leaky_relu", "clip")


def assert_fused(
    kernels: Kernels,
    shape: Shape,
    pool: Shape,
    filters: int,
    *,
    activation: str = "none",
    batch: int = 2,
    nan: bool = False,
    keeps_nan: bool = False,
) -> None:
    images, weights = numbers(1, batch, *shape.size, shape.channels), numbers(2, *shape.kernel, shape.channels, filters)
    bias = numbers(3, filters)
    if nan:
        images[:, 2:5, 2:5] = np.nan
        images[0, 7, 7, 0], images[0, 9, 9, 0] = np.inf, -np.inf
    # A monotone activation comes last: it shows in windows of nothing but NaN.
    first, last = ("none", activation) if activation in MONOTONE else (activation, "none")
    convolved = kernels.conv2d(shape, images, weights, bias, activation=first)
    pooled = kernels.max_pool(pool, convolved, keeps_nan=keeps_nan)
    expected = kernels.activate(last, pooled.ravel()).reshape(pooled.shape)
    fused = kernels.conv2d(shape, images, weights, bias, activation=activation, pool=pool, keeps_nan=keeps_nan)
    np.testing.assert_array_equal(fused, expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("channels", "filters"), [(1, 32), (3, 32), (32, 32), (5, 7)])
def test_every_activation(kernels: Kernels, activation: str, channels: int, filters: int) -> None:
    shape = Shape(size=(19, 17), channels=channels, kernel=(3, 3))
    for windows in (shape, sized_like_input(shape)):
        pool = Shape(size=windows.out, channels=filters, kernel=(2, 2), stride=(2, 2))
        assert_fused(kernels, windows, pool, filters, activation=activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_and_infinity(kernels: Kernels, activation: str) -> None:
    shape = Shape(size=(19, 17), channels=3, kernel=(3, 3))
    pool = Shape(size=shape.out, channels=18, kernel=(2, 2), stride=(2, 2))
    for keeps_nan in (False, True):
        assert_fused(kernels, shape, pool, 18, activation=activation, nan=True, keeps_nan=keeps_nan)


@fixed_kernels
@given(
    shape=shapes(st.sampled_from((1, 2, 3, 17))),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    dilation=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    same=st.booleans(),
    filters=st.sampled_from((1, 8, 17, 32)),
    at_end=st.booleans(),
)
def test_any_window(
    kernels: Kernels,
    shape: Shape,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    same: bool,
    filters: int,
    at_end: bool,
) -> None:
    pool = Shape(size=shape.out, channels=filters, kernel=kernel, stride=stride, dilation=dilation)
    if same:
        pool = sized_like_input(pool)
    elif min(size - reach for size, reach in zip(pool.size, pool.reach, strict=True)) < 0:
        return
    assert_fused(kernels if at_end else kernels.beside_start(), shape, pool, filters)
