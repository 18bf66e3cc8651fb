"""Quantized layers beside 64-bit arithmetic: every form of every target gives the same integers."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.kernels.library import Added, Form, Kernels, Requantized, Shape

Bytes = NDArray[Any]
_TYPES = (np.uint8, np.int8)
_ALONE = (Form.FASTEST, Form.IN_PAIRS)
_FORMS = (*_ALONE, Form.BY_STEPS, Form.BY_TEAM)

fixed_kernels = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


def _bytes(random: np.random.Generator, dtype: type, *shape: int) -> Bytes:
    """Bytes of all kinds; half of them are at the ends of the type, so that sums of pairs are as large as can be."""
    limits = np.iinfo(dtype)
    ends = random.choice([limits.min, limits.min + 1, limits.max - 1, limits.max], shape)
    any_ = random.integers(limits.min, limits.max + 1, shape)
    return np.where(random.integers(0, 2, shape), ends, any_).astype(dtype)


def _sums(values: Bytes, weights: Bytes, bias: NDArray[np.int32]) -> NDArray[np.int32]:
    return np.asarray(values.astype(np.int64) @ weights.astype(np.int64) + bias).astype(np.int32)


def _requantized(sums: NDArray[np.int32], made: Requantized, dtype: Any) -> Bytes:
    scaled = np.rint(sums.astype(np.float32) * made.scales).astype(np.float64) + made.zero
    found = scaled.clip(made.low, made.high)
    if (added := made.added) is not None:
        factor, factor_of_values, divisor = added.factors
        first = (found - made.zero).astype(np.float32) * factor
        second = (added.values.astype(np.float32) - np.float32(added.zero_of_values)) * factor_of_values
        whole = np.rint((first + second) / divisor).astype(np.float64) + added.zero
        found = whole.clip(added.low, added.high)
    return np.asarray(found.astype(dtype))


def _range(random: np.random.Generator, dtype: type) -> tuple[int, int, int]:
    """A zero point, and two bounds."""
    limits = np.iinfo(dtype)
    zero, low, high = (int(each) for each in random.integers(limits.min, limits.max + 1, 3))
    return zero, min(low, high), max(low, high)


def _with_added(random: np.random.Generator, made: Requantized, shape: tuple[int, ...], dtype: type) -> Requantized:
    """Bytes of either sign are added. Scales are alike, powers of two with many ties, or so far apart that one is lost."""
    of_values = _TYPES[random.integers(2)]
    factors = random.uniform(0.5, 2, 3) if random.integers(2) else 2.0 ** random.integers(-3, 3, 3)
    factors[random.integers(3)] *= random.choice([1, 1, 2.0**-20, 2.0**20])
    zero, low, high = _range(random, dtype)
    added = Added(
        values=_bytes(random, of_values, *shape), zero_of_values=_range(random, of_values)[0],
        factors=tuple(factors.astype(np.float32)), zero=zero, low=low, high=high,
    )  # fmt: skip
    return replace(made, added=added)


def _assert_dense(
    kernels: Kernels, dtype: type, batch: int, inputs: int, outputs: int, seed: int, forms: Sequence[Form] = _FORMS
) -> None:
    random = np.random.default_rng(seed)
    values, weights = _bytes(random, dtype, batch, inputs), _bytes(random, np.int8, inputs, outputs)
    bias = random.integers(-(2**31), 2**31, outputs).astype(np.int32)
    zero, low, high = _range(random, dtype)
    # Of all magnitudes: results are all alike, ties, spread over the bytes, or beyond them.
    scales = (2.0 ** random.uniform(-40, 10, outputs)).astype(np.float32)
    made = Requantized(scales=scales, zero=zero, low=low, high=high)
    wanted = _sums(values, weights, bias)
    for form in forms:
        np.testing.assert_array_equal(kernels.quantized_dense(values, weights, bias, form=form), wanted)
        for each in (made, _with_added(random, made, wanted.shape, dtype)):
            found = kernels.quantized_dense(values, weights, bias, each, form=form)
            np.testing.assert_array_equal(found, _requantized(wanted, each, dtype))


@fixed_kernels
@given(
    dtype=st.sampled_from(_TYPES),
    batch=st.integers(1, 40),
    inputs=st.integers(1, 300),
    outputs=st.integers(1, 200),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_are_those_of_64_bits_and_bytes_those_of_the_standard(
    kernels: Kernels, dtype: type, batch: int, inputs: int, outputs: int, seed: int
) -> None:
    _assert_dense(kernels, dtype, batch, inputs, outputs, seed)


@pytest.mark.parametrize("dtype", _TYPES)
def test_every_number_of_rows_inputs_and_columns_ends_inside_its_arrays(kernels: Kernels, dtype: type) -> None:
    for batch, inputs, outputs in ((1, 1, 1), (3, 4, 17), (7, 63, 16), (17, 64, 33), (2, 65, 130), (33, 5, 8)):
        _assert_dense(kernels.beside_start(), dtype, batch, inputs, outputs, seed=inputs)


@pytest.mark.parametrize("dtype", _TYPES)
def test_the_largest_sums_neither_saturate_nor_lose_bits(kernels: Kernels, dtype: type) -> None:
    _assert_extremes(kernels, dtype, _FORMS)


def _assert_extremes(kernels: Kernels, dtype: type, forms: Sequence[Form]) -> None:
    """All products have one sign: instructions that saturate pairs of 16 bits would show, and sums pass 2^31."""
    for least in (True, False):
        limits = np.iinfo(dtype)
        values: Bytes = np.full((5, 70_000), limits.min if least and limits.min else limits.max, dtype)
        for weight in (-128, 127):
            weights, bias = np.full((70_000, 18), weight, np.int8), np.zeros(18, np.int32)
            wanted = _sums(values, weights, bias)
            for form in forms:
                np.testing.assert_array_equal(kernels.quantized_dense(values, weights, bias, form=form), wanted)


def _ties() -> tuple[Bytes, NDArray[np.int64], Requantized]:
    """Sums of -300 ... 300 by a half: every second one is in the middle between two bytes."""
    sums = np.arange(-300, 301)
    values = np.stack([np.minimum(np.abs(sums), 255), np.maximum(np.abs(sums) - 255, 0)], 1).astype(np.uint8)
    return values, sums, Requantized(scales=np.full(2, 0.5, np.float32), zero=3, low=-128, high=127)


@pytest.mark.parametrize("form", _FORMS)
def test_ties_go_to_the_even_byte_before_the_zero_point_is_added(kernels: Kernels, form: Form) -> None:
    values, sums, made = _ties()
    weights, bias = np.array([[1, -1], [1, -1]], np.int8), np.zeros(2, np.int32)
    as_signed = (values.astype(np.int16) - 128).astype(np.int8)
    found = kernels.quantized_dense(as_signed, weights, bias + 128 * weights.sum(0, np.int32), made, form=form)
    wanted = np.stack([np.abs(sums), -np.abs(sums)], 1) / 2
    np.testing.assert_array_equal(found, np.clip(np.rint(wanted) + 3, -128, 127))


def test_sums_of_bytes_in_affine_form_are_those_of_a_division(kernels: Kernels) -> None:
    """Of all pairs of bytes; sums of halves are ties."""
    values = np.repeat(np.arange(256), 256).astype(np.uint8).reshape(-1, 1)
    added = np.tile(np.arange(256), 256).astype(np.uint8).reshape(-1, 1)
    weights, bias = np.ones((1, 1), np.int8), np.zeros(1, np.int32)
    for factors in ((0.5, 0.25, 0.5), (0.0117, 0.0117, 0.0117), (0.031, 0.0171, 0.0249), (1, 3, 7)):
        numbers = tuple(np.float32(each) for each in factors)
        given = Added(values=added, zero_of_values=128, factors=numbers, zero=7, low=0, high=255)
        made = Requantized(scales=np.ones(1, np.float32), zero=0, low=0, high=255, added=given)
        assert made.affine is not None
        found = kernels.quantized_dense(values, weights, bias, made)
        np.testing.assert_array_equal(found, _requantized(values.astype(np.int32), made, np.uint8))


_WINDOWS = {
    "inside": Shape(size=(5, 7), channels=3, kernel=(3, 3)),
    "padded": Shape(size=(5, 7), channels=8, kernel=(3, 3), before=(1, 1), after=(1, 1)),
    "pointwise": Shape(size=(3, 4), channels=17, kernel=(1, 1)),
    "with strides": Shape(size=(9, 8), channels=2, kernel=(3, 2), stride=(2, 3), before=(1, 0), after=(1, 1)),
    "dilated": Shape(size=(8, 9), channels=5, kernel=(2, 3), dilation=(3, 2), before=(2, 3), after=(1, 0)),
    "larger than the image": Shape(size=(2, 2), channels=4, kernel=(5, 4), before=(3, 2), after=(2, 3)),
    "of one line": Shape(size=(1, 20), channels=16, kernel=(1, 5), before=(0, 4)),
}


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("name", _WINDOWS)
def test_convolutions_are_products_of_windows(kernels: Kernels, name: str, dtype: type) -> None:
    _assert_convolution(kernels, _WINDOWS[name], dtype, _FORMS)


def _assert_convolution(kernels: Kernels, shape: Shape, dtype: type, forms: Sequence[Form]) -> None:
    random, limits = np.random.default_rng(shape.channels), np.iinfo(dtype)
    for filters in (1, 18, 70) if Form.BY_TILES in forms else (1, 18):
        images = _bytes(random, dtype, 2, *shape.size, shape.channels)
        weights = _bytes(random, np.int8, *shape.kernel, shape.channels, filters)
        bias, padding = random.integers(-(2**20), 2**20, filters).astype(np.int32), int(limits.min + 7)
        made = Requantized(
            scales=random.uniform(0, 2**-8, filters).astype(np.float32), zero=padding, low=limits.min, high=limits.max
        )
        windows = shape.patches(images.astype(np.float64), padding).reshape(2, *shape.out, -1)
        wanted = _sums(windows, weights.reshape(-1, filters), bias)
        for form in forms:
            given = shape, images, weights, bias
            found = kernels.quantized_conv2d(*given, padding=padding, form=form)
            np.testing.assert_array_equal(found, wanted)
            for each in (made, _with_added(random, made, wanted.shape, dtype)):
                found = kernels.quantized_conv2d(*given, each, padding=padding, form=form)
                np.testing.assert_array_equal(found, _requantized(wanted, each, dtype))


_GROUPS = {
    "one for each channel": (1, 1),
    "several filters for each channel": (1, 2),
    "of a few channels": (3, 5),
    "of four channels": (4, 6),
    "of many filters": (8, 35),
}
"""Channels of a group, and filters of one."""


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("name", _WINDOWS)
@pytest.mark.parametrize("kind", _GROUPS)
def test_convolutions_in_groups_are_products_of_their_channels(
    kernels: Kernels, name: str, kind: str, dtype: type
) -> None:
    random, limits, (depth, each) = np.random.default_rng(7), np.iinfo(dtype), _GROUPS[kind]
    for groups in (1, 3, 16, 37):
        shape = replace(_WINDOWS[name], channels=groups * depth)
        images, filters = _bytes(random, dtype, 2, *shape.size, shape.channels), groups * each
        weights = _bytes(random, np.int8, *shape.kernel, depth, filters)
        bias, padding = random.integers(-(2**20), 2**20, filters).astype(np.int32), int(limits.min + 7)
        made = Requantized(
            scales=random.uniform(0, 2**-8, filters).astype(np.float32), zero=padding, low=limits.min, high=limits.max
        )
        seen = shape.patches(images.astype(np.float64), padding).reshape(2, *shape.out, -1, groups, depth)
        parts = [
            seen[..., group, :].reshape(2, *shape.out, -1).astype(np.int64) @ part.reshape(-1, each)
            for group, part in enumerate(np.split(weights.astype(np.int64), groups, 3))
        ]
        wanted = (np.concatenate(parts, -1) + bias).astype(np.int32)
        for form in _ALONE:
            given = shape, images, weights, bias
            found = kernels.quantized_groups(*given, padding=padding, form=form)
            np.testing.assert_array_equal(found, wanted)
            for every in (made, _with_added(random, made, wanted.shape, dtype)):
                found = kernels.quantized_groups(*given, every, padding=padding, form=form)
                np.testing.assert_array_equal(found, _requantized(wanted, every, dtype))


@pytest.mark.parametrize("dtype", _TYPES)
def test_pools_take_the_largest_bytes_and_no_padding(kernels: Kernels, dtype: type) -> None:
    random, least = np.random.default_rng(4), np.iinfo(dtype).min
    for shape in (*_WINDOWS.values(), Shape(size=(6, 6), channels=70, kernel=(2, 2), stride=(2, 2))):
        images = _bytes(random, dtype, 2, *shape.size, shape.channels)
        wanted = shape.patches(images.astype(np.float64), float(least)).max((3, 4))
        np.testing.assert_array_equal(kernels.max_pool_of_bytes(shape, images), wanted)


def test_bytes_are_looked_up_whatever_their_number(kernels: Kernels) -> None:
    random = np.random.default_rng(5)
    every = np.concatenate([np.arange(256), random.integers(0, 256, 300)]).astype(np.uint8)
    for count in (0, 1, 15, 16, 63, 64, 65, 127, 200, 256, len(every)):
        table = random.integers(0, 256, 256).astype(np.uint8)
        np.testing.assert_array_equal(kernels.look_up(table, every[:count]), table[every[:count]])


@fixed_kernels
@given(
    dtype=st.sampled_from(_TYPES),
    batch=st.integers(1, 140),
    inputs=st.integers(1, 300),
    outputs=st.integers(1, 100),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_by_tiles_are_those_of_64_bits(
    tiled: Kernels, dtype: type, batch: int, inputs: int, outputs: int, seed: int
) -> None:
    _assert_dense(tiled, dtype, batch, inputs, outputs, seed, [*Form])


@pytest.mark.parametrize("dtype", _TYPES)
def test_tiles_end_inside_their_arrays_and_lose_no_bits(tiled: Kernels, dtype: type) -> None:
    for kernels in (tiled, tiled.beside_start()):
        for inputs in (1, 4, 36, 60, 64, 65, 128, 130, 192):
            for batch, outputs in ((1, 1), (15, 16), (16, 17), (17, 32), (31, 33), (33, 48), (200, 50)):
                _assert_dense(kernels, dtype, batch, inputs, outputs, inputs, [*Form])
    _assert_extremes(tiled, dtype, [Form.BY_TILES, Form.TILES_BY_TEAM])


_MORE_WINDOWS = {
    "of several tiles": Shape(size=(9, 37), channels=16, kernel=(3, 3), before=(1, 1), after=(1, 1)),
    "of lines of tiles": Shape(size=(6, 16), channels=64, kernel=(3, 3), before=(1, 1), after=(1, 1)),
    "of unequal tiles": Shape(size=(5, 33), channels=44, kernel=(2, 3), before=(0, 2), after=(1, 0)),
    "of a prime number": Shape(size=(5, 18), channels=68, kernel=(3, 1), before=(1, 0), after=(1, 0)),
    "pointwise with strides": Shape(size=(9, 9), channels=32, kernel=(1, 1), stride=(2, 2)),
    "with strides of tiles": Shape(
        size=(21, 40), channels=32, kernel=(3, 3), stride=(2, 2), before=(0, 0), after=(1, 1)
    ),
    "with pixels apart": Shape(size=(9, 20), channels=32, kernel=(3, 2), dilation=(2, 3), before=(3, 1), after=(2, 0)),
    "of one line, with pixels apart": Shape(
        size=(1, 35), channels=36, kernel=(1, 3), dilation=(1, 4), stride=(1, 2), before=(0, 8)
    ),
    "with many pixels apart": Shape(size=(5, 9), channels=72, kernel=(2, 2), dilation=(1, 2), before=(1, 1)),
    "with lines apart": Shape(size=(9, 20), channels=32, kernel=(3, 2), dilation=(3, 1), before=(3, 1), after=(2, 0)),
    "in several bands": Shape(size=(40, 30), channels=64, kernel=(3, 3), before=(1, 1), after=(1, 1)),
    "with padding alone": Shape(size=(1, 1), channels=32, kernel=(2, 2), before=(4, 6), after=(3, 20)),
}


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("name", [*_WINDOWS, *_MORE_WINDOWS])
def test_convolutions_by_tiles_are_products_of_windows(tiled: Kernels, name: str, dtype: type) -> None:
    for kernels in (tiled, tiled.beside_start()):
        _assert_convolution(kernels, {**_WINDOWS, **_MORE_WINDOWS}[name], dtype, [*Form])


def test_signals_leave_tiles_as_they_are(tiled: Kernels) -> None:
    """Handlers run between the instructions of a layer, which goes on with its sums."""
    random = np.random.default_rng(1)
    values, weights = _bytes(random, np.uint8, 300, 500), _bytes(random, np.int8, 500, 300)
    bias, seen = np.arange(300, dtype=np.int32), []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
        found = [tiled.quantized_dense(values, weights, bias, form=Form.BY_TILES) for _ in range(50)]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert seen
    for each in found:
        np.testing.assert_array_equal(each, _sums(values, weights, bias))
