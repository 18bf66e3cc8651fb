"""Convolutions and pooling against a plain NumPy picture of what every window sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels.library import ACTIVATIONS, Kernels, Shape, sized_like_input
from tests.kernels.machines import Floats
from tests.kernels.test_dense import bound, fixed_kernels, numbers
from tfaot_pkg.compiler.layers import packed_conv2d

pytestmark = pytest.mark.slow  # together half a minute


@st.composite
def shapes(draw: st.DrawFn, channels: st.SearchStrategy[int]) -> Shape:
    """Windows of every kind that fit their input, with padding that is never all that a window sees."""
    pairs = {}
    for name, least, most in (("kernel", 1, 4), ("stride", 1, 3), ("dilation", 1, 3)):
        pairs[name] = (draw(st.integers(least, most)), draw(st.integers(least, most)))
    shape = Shape(size=(1, 1), channels=draw(channels), **pairs)
    height, width = (reach + draw(st.integers(0, 7)) for reach in shape.reach)
    shape = Shape(size=(height, width), channels=shape.channels, **pairs)
    kind = draw(st.sampled_from(("valid", "same", "any")))
    if kind == "same":
        return sized_like_input(shape)
    if kind == "valid":
        return shape
    padding = [draw(st.integers(0, 2)) for _ in range(4)]
    return Shape(
        size=shape.size,
        channels=shape.channels,
        **pairs,
        before=(padding[0], padding[1]),
        after=(padding[2], padding[3]),
    )


def assert_convolution(
    kernels: Kernels, shape: Shape, filters_per_group: int, groups: int, *, batch: int = 2, biased: bool = True
) -> None:
    depth = shape.channels // groups
    images = numbers(1, batch, *shape.size, shape.channels)
    filters = numbers(2, *shape.kernel, depth, groups * filters_per_group)
    bias = numbers(3, filters.shape[3]) if biased else np.zeros(filters.shape[3], np.float32)
    result = kernels.conv2d(shape, images, filters, bias if biased else None, groups=groups)
    seen = shape.patches(images.astype(np.float64), 0.0)
    for group in range(groups):
        columns = slice(group * filters_per_group, (group + 1) * filters_per_group)
        rows = seen[..., group * depth : (group + 1) * depth].reshape(batch, *shape.out, -1)
        matrix = filters[..., columns].reshape(-1, filters_per_group)
        error = np.abs(result[..., columns] - (rows @ matrix.astype(np.float64) + bias[columns]))
        assert (error <= bound(rows, matrix, bias[columns])).all(), group


@fixed_kernels
@given(
    shape=shapes(st.sampled_from((1, 2, 3, 4, 17, 33))),
    filters=st.sampled_from((1, 3, 16, 17, 40)),
    batch=st.integers(1, 3),
    biased=st.booleans(),
    at_end=st.booleans(),
)
def test_any_convolution_keeps_the_bound_of_summation(
    kernels: Kernels, shape: Shape, filters: int, batch: int, biased: bool, at_end: bool
) -> None:
    assert_convolution(kernels if at_end else kernels.beside_start(), shape, filters, 1, batch=batch, biased=biased)


@fixed_kernels
@given(
    shape=shapes(st.just(12)),
    groups=st.sampled_from((2, 3, 4, 6, 12)),
    filters=st.sampled_from((1, 2, 5, 18)),
    at_end=st.booleans(),
)
def test_any_grouped_convolution_keeps_the_bound_of_summation(
    kernels: Kernels, shape: Shape, groups: int, filters: int, at_end: bool
) -> None:
    assert_convolution(kernels if at_end else kernels.beside_start(), shape, filters, groups)


@fixed_kernels
@given(
    shape=shapes(st.sampled_from((2, 7, 15, 31, 32, 33, 70))),
    multiplier=st.sampled_from((1, 1, 2)),
    biased=st.booleans(),
    at_end=st.booleans(),
)
def test_any_depthwise_convolution_keeps_the_bound_of_summation(
    kernels: Kernels, shape: Shape, multiplier: int, biased: bool, at_end: bool
) -> None:
    aimed = kernels if at_end else kernels.beside_start()
    assert_convolution(aimed, shape, multiplier, shape.channels, biased=biased)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("groups", [1, 35])
def test_a_fused_activation_is_the_activation_of_the_sums(kernels: Kernels, activation: str, groups: int) -> None:
    shape = sized_like_input(Shape(size=(5, 6), channels=35, kernel=(3, 3)))
    images, filters = numbers(4, 1, 5, 6, 35), numbers(5, 3, 3, 35 // groups, 35)
    sums = kernels.conv2d(shape, images, filters, None, groups=groups)
    fused = kernels.conv2d(shape, images, filters, None, groups=groups, activation=activation)
    np.testing.assert_array_equal(fused, kernels.activate(activation, sums))


@pytest.mark.parametrize("filters", [1, 7, 13, 24, 40])
@pytest.mark.parametrize("activation", ["relu", "clip", "elu"])
def test_few_filters_are_activated_like_their_sums(kernels: Kernels, activation: str, filters: int) -> None:
    shape = Shape(size=(7, 11), channels=5, kernel=(1, 1))
    images, weights = numbers(13, 2, 7, 11, 5), numbers(14, 1, 1, 5, filters)
    sums = kernels.conv2d(shape, images, weights, None)
    fused = kernels.conv2d(shape, images, weights, None, activation=activation)
    np.testing.assert_array_equal(fused, kernels.activate(activation, sums))


@pytest.mark.parametrize("activation", ["none", "clip"])
@pytest.mark.parametrize("width", [4, 7, 8, 13, 17])
@pytest.mark.parametrize(
    ("kernel", "stride", "dilation"),
    [((3, 3), (1, 1), 1), ((2, 3), (2, 2), 2), ((5, 5), (1, 1), 1), ((3, 5), (3, 2), 1)],
)
def test_depthwise_windows_give_the_bits_of_each_channel_alone(
    kernels: Kernels, kernel: tuple[int, int], stride: tuple[int, int], dilation: int, width: int, activation: str
) -> None:
    def result(channels: slice, groups: int) -> Floats:
        part = np.ascontiguousarray(images[..., channels])
        shape = Shape(
            size=(9, width * stride[1]), channels=part.shape[3], kernel=kernel, stride=stride, dilation=(dilation, 1)
        )
        chosen = np.ascontiguousarray(filters[..., channels])
        return kernels.conv2d(
            sized_like_input(shape), part, chosen, bias[channels], groups=groups, activation=activation
        )

    images, filters, bias = numbers(10, 2, 9, width * stride[1], 21), numbers(11, *kernel, 1, 21), numbers(12, 21)
    together = result(slice(None), 21)
    for channel in (0, 7, 8, 15, 20):
        np.testing.assert_array_equal(together[..., channel], result(slice(channel, channel + 1), 1)[..., 0])


def test_padding_does_not_change_the_bits_of_what_it_does_not_touch(kernels: Kernels) -> None:
    # Windows inside are read where they lie, the others are copied: two ways to the same sum.
    images, filters, bias = numbers(6, 2, 9, 9, 5), numbers(7, 3, 3, 5, 20), numbers(8, 20)
    shape = Shape(size=(9, 9), channels=5, kernel=(3, 3))
    same = kernels.conv2d(sized_like_input(shape), images, filters, bias)
    np.testing.assert_array_equal(same[:, 1:-1, 1:-1], kernels.conv2d(shape, images, filters, bias))


def test_nan_reaches_the_windows_that_see_it_and_no_other(kernels: Kernels) -> None:
    images, filters = np.ones((1, 9, 9, 40), np.float32), np.ones((3, 3, 1, 40), np.float32)
    images[0, 4, 4, 7] = np.nan
    shape = sized_like_input(Shape(size=(9, 9), channels=40, kernel=(3, 3)))
    depthwise = np.isnan(kernels.conv2d(shape, images, filters, None, groups=40))
    full = np.isnan(kernels.conv2d(shape, images, np.ones((3, 3, 40, 3), np.float32), None))
    assert depthwise[0, 3:6, 3:6, 7].all() and depthwise.sum() == 9
    assert full[0, 3:6, 3:6].all() and full.sum() == 9 * 3


@pytest.mark.parametrize(("channels", "filters", "groups"), [(3, 20, 1), (12, 24, 3), (8, 8, 8), (4, 8, 4)])
def test_both_packings_of_filters_are_the_same_bytes(
    kernels: Kernels, channels: int, filters: int, groups: int
) -> None:
    shape = Shape(size=(5, 5), channels=channels, kernel=(3, 2))
    values = numbers(9, 3, 2, channels // groups, filters)
    packed = kernels.pack_conv2d(shape, values, groups)
    np.testing.assert_array_equal(packed_conv2d(values, groups=groups), packed)


@fixed_kernels
@given(shape=shapes(st.sampled_from((1, 3, 8, 16, 33))), batch=st.integers(1, 3), at_end=st.booleans())
def test_pooling_is_the_maximum_or_the_mean_of_what_is_no_padding(
    kernels: Kernels, shape: Shape, batch: int, at_end: bool
) -> None:
    images = numbers(10, batch, *shape.size, shape.channels)
    seen = shape.patches(images.astype(np.float64), np.nan)
    count = np.sum(~np.isnan(seen), axis=(3, 4))
    if not count.all():
        return  # a window of nothing but padding, which TensorFlow has not
    aimed = kernels if at_end else kernels.beside_start()
    np.testing.assert_array_equal(aimed.pool("max_pool", shape, images), np.nanmax(seen, axis=(3, 4)))
    error = np.abs(aimed.pool("average_pool", shape, images) - np.nansum(seen, axis=(3, 4)) / count)
    assert (error <= (count + 1) * 2.0**-23 * np.nanmean(np.abs(seen), axis=(3, 4))).all()


def test_the_largest_value_passes_over_nan_as_xla_does(kernels: Kernels) -> None:
    def row(*values: float) -> Floats:
        return np.repeat(np.array(values, np.float32).reshape(1, 1, -1, 1), 19, axis=3)

    images = row(1, np.nan, np.nan, 1, np.nan, np.nan, -np.inf, -np.inf, np.inf, 2)
    shape = Shape(size=(1, 10), channels=19, kernel=(1, 2), stride=(1, 2))
    np.testing.assert_array_equal(kernels.pool("max_pool", shape, images), row(1, 1, -np.inf, -np.inf, np.inf))
    means = kernels.pool("average_pool", shape, images)
    np.testing.assert_array_equal(means, row(np.nan, np.nan, np.nan, -np.inf, np.inf))
