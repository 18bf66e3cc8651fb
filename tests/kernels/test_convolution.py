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


@st.composite
def transposed_shapes(draw: st.DrawFn) -> Shape:
    """Windows over images with zeros between pixels: each sees at least one pixel, or padding in its place."""
    stride = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
    height, width = (each + draw(st.integers(0, 3)) for each in stride)
    top, left = (each - 1 + draw(st.integers(0, 4)) for each in stride)
    sizes = [
        draw(st.integers(max(1, 1 - (before + 1 - kernel) // each), 9))
        for kernel, before, each in zip((height, width), (top, left), stride, strict=True)
    ]
    return Shape(
        size=(sizes[0], sizes[1]), channels=draw(st.sampled_from((1, 2, 3, 5, 8, 17, 33))), kernel=(height, width),
        stride=stride, before=(top, left), after=(draw(st.integers(0, 4)), draw(st.integers(0, 4))),
    )  # fmt: skip


def spread(images: Floats, stride: tuple[int, int]) -> Floats:
    """Images with zeros between their pixels."""
    count, height, width, channels = images.shape
    made = np.zeros((count, (height - 1) * stride[0] + 1, (width - 1) * stride[1] + 1, channels), np.float32)
    made[:, :: stride[0], :: stride[1]] = images
    return made


def assert_transposed(kernels: Kernels, shape: Shape, filters: int, *, batch: int = 2, biased: bool = True) -> None:
    images, weights = numbers(1, batch, *shape.size, shape.channels), numbers(2, *shape.kernel, shape.channels, filters)
    bias = numbers(3, filters) if biased else np.zeros(filters, np.float32)
    result = kernels.transposed_conv2d(shape, images, weights, bias if biased else None)
    rows = shape.over_spread().patches(spread(images, shape.stride).astype(np.float64), 0.0)
    rows, matrix = rows.reshape(*rows.shape[:3], -1), weights.reshape(-1, filters)
    error = np.abs(result - (rows @ matrix.astype(np.float64) + bias))
    assert (error <= bound(rows, matrix, bias)).all()


@fixed_kernels
@given(
    shape=transposed_shapes(),
    filters=st.integers(1, 7),
    batch=st.integers(1, 2),
    biased=st.booleans(),
    at_end=st.booleans(),
)
def test_any_transposed_convolution_keeps_the_bound_of_summation(
    kernels: Kernels, shape: Shape, filters: int, batch: int, biased: bool, at_end: bool
) -> None:
    filters = min(filters, 8 // shape.stride[1])
    assert_transposed(kernels if at_end else kernels.beside_start(), shape, filters, batch=batch, biased=biased)


_LARGE = [(3, 700, 3), (60, 31, 17), (2, 300, 40), (1, 2000, 1)]
"""Images that are computed some lines or columns at a time."""


@pytest.mark.parametrize(("height", "width", "channels"), _LARGE)
def test_transposed_convolutions_of_large_images_keep_it_too(
    kernels: Kernels, height: int, width: int, channels: int
) -> None:
    shape = Shape(size=(height, width), channels=channels, kernel=(3, 4), stride=(2, 2), before=(1, 2), after=(2, 1))
    assert_transposed(kernels, shape, 3)


@pytest.mark.parametrize("filters", range(1, 8))
@pytest.mark.parametrize(("height", "width", "channels"), [(5, 6, 1), (9, 11, 3), (7, 19, 40), *_LARGE])
def test_few_filters_give_the_bits_that_they_give_among_many(
    kernels: Kernels, height: int, width: int, channels: int, filters: int
) -> None:
    images, weights = numbers(1, 2, height, width, channels), numbers(2, 3, 3, channels, 20)
    bias = numbers(3, 20)
    valid = Shape(size=(height, width), channels=channels, kernel=(min(3, height), 3))
    weights = np.ascontiguousarray(weights[: valid.kernel[0]])
    few = np.ascontiguousarray(weights[..., :filters])
    slow = Shape(size=(height, width), channels=channels, kernel=valid.kernel, stride=(1, 2), dilation=(1, 2))
    slower = Shape(size=(height, width), channels=channels, kernel=valid.kernel, stride=(2, 3))
    for shape in (valid, sized_like_input(valid), sized_like_input(slow), sized_like_input(slower)):
        for activation in ("none", "clip", "tanh"):
            made = kernels.conv2d(shape, images, few, bias[:filters], activation=activation)
            among = kernels.conv2d(shape, images, weights, bias, activation=activation)
            np.testing.assert_array_equal(made, among[..., :filters])


@pytest.mark.parametrize("filters", [1, 2, 3])
def test_few_filters_of_one_pixel_give_the_bits_that_they_give_among_many(kernels: Kernels, filters: int) -> None:
    shape = Shape(size=(40, 41), channels=12, kernel=(1, 1))
    images, weights = numbers(1, 3, 40, 41, 12), numbers(2, 1, 1, 12, 20)
    few = np.ascontiguousarray(weights[..., :filters])
    among = kernels.conv2d(shape, images, weights, None)
    np.testing.assert_array_equal(kernels.conv2d(shape, images, few, None), among[..., :filters])


def test_nan_reaches_the_pixels_of_a_transposed_convolution_that_see_it(kernels: Kernels) -> None:
    shape = Shape(size=(4, 20), channels=3, kernel=(3, 3), stride=(2, 2), before=(1, 1), after=(2, 2))
    images = np.ones((1, 4, 20, 3), np.float32)
    images[0, 2, 10, 1] = np.nan
    made = np.isnan(kernels.transposed_conv2d(shape, images, np.ones((3, 3, 3, 2), np.float32), None))
    assert made[0, 3:6, 19:22].all() and made.sum() == 9 * 2


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
    np.testing.assert_array_equal(aimed.max_pool(shape, images), np.nanmax(seen, axis=(3, 4)))
    error = np.abs(aimed.average_pool(shape, images) - np.nansum(seen, axis=(3, 4)) / count)
    assert (error <= (count + 1) * 2.0**-23 * np.nanmean(np.abs(seen), axis=(3, 4))).all()


def test_the_largest_value_passes_over_nan_or_keeps_it(kernels: Kernels) -> None:
    def row(*values: float) -> Floats:
        return np.repeat(np.array(values, np.float32).reshape(1, 1, -1, 1), 19, axis=3)

    images = row(1, np.nan, np.nan, 1, np.nan, np.nan, -np.inf, -np.inf, np.inf, 2)
    shape = Shape(size=(1, 10), channels=19, kernel=(1, 2), stride=(1, 2))
    np.testing.assert_array_equal(kernels.max_pool(shape, images), row(1, 1, -np.inf, -np.inf, np.inf))
    kept = kernels.max_pool(shape, images, keeps_nan=True)
    np.testing.assert_array_equal(kept, row(np.nan, np.nan, np.nan, -np.inf, np.inf))
    means = kernels.average_pool(shape, images)
    np.testing.assert_array_equal(means, row(np.nan, np.nan, np.nan, -np.inf, np.inf))
