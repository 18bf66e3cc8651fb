"""Layers of bfloat16 beside sums of exact products: every form of every target gives the bits that AMX defines.

Numbers of two and three parts are float32x3 and float32x6 of specs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.kernels.library import Bfloat16Form, Kernels, Shape
from tests.kernels.machines import Floats
from tfaot_pkg.compiler.bfloat16 import in_parts, packed, products, rounded, rounded_bits
from tfaot_pkg.ground.targets import TARGETS

fixed_kernels = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


def _same(found: Floats, wanted: Floats) -> None:
    """To the bit, signs of zeros included; the bits of a NaN are open."""
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(
        found[numbers].view(np.uint32), np.asarray(wanted, np.float32)[numbers].view(np.uint32)
    )


def _numbers(random: np.random.Generator, *shape: int) -> Floats:
    """Of all magnitudes whose products do not overflow, with numbers that become zero, ties, and zeros of both signs."""
    scale = 2.0 ** random.uniform(-70, 50, shape)
    ties = 1 + (2 * random.integers(0, 128, shape) + 1) * 2.0**-8
    made = np.where(
        random.random(shape) < 0.2, ties, random.normal(size=shape) * np.where(random.random(shape) < 0.5, 1, scale)
    )
    return np.where(random.random(shape) < 0.05, random.choice([0.0, -0.0], shape), made).astype(np.float32)


_ORDERS = {1: [[11]], 2: [[21, 11, 12]], 3: [[31, 21, 22, 12, 13], [11]]}
"""The parts of inputs and weights that are multiplied, as decision 120 has them."""


def _dot_as_defined(x: Floats, weights: Floats, parts: int) -> float:
    """One sum by the text of the instruction, number by number in float64, which has products and sums here exactly."""
    left, right = ([np.pad(part, (0, -len(part) % 32)) for part in _split(each, parts)] for each in (x, weights))
    total = np.float32(0)
    for order in _ORDERS[parts]:
        for block in range(0, len(left[0]), 32):
            for pair in order:
                x1, w1 = (each[block : block + 32] for each in (left[pair // 10 - 1], right[pair % 10 - 1]))
                total = np.float32(total + _block_as_defined(x1, w1))
    return float(total)


def _split(x: Floats, parts: int) -> list[Floats]:
    """Finite numbers: what remains of them is exact in float64."""
    rest, found = x.astype(np.float64), []
    for _ in range(parts):
        found.append(rounded(rest.astype(np.float32)))
        rest = rest - found[-1]
    return found


def _block_as_defined(x: Floats, weights: Floats) -> float:
    chains = []
    for start in (0, 1):
        chain = np.float32(0)
        for k in range(start, 32, 2):
            chain = np.float32(np.float64(x[k]) * np.float64(weights[k]) + np.float64(chain))
        chains.append(chain)
    return float(chains[0] + chains[1])


def test_numbers_round_to_even_and_small_ones_to_zeros_of_their_sign() -> None:
    given = np.array(
        [1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 2.0**-56, np.nextafter(np.float32(2**-56), np.float32(0)), -(2.0**-57),
         -0.0, np.inf, -np.inf, 3.3895314e38, 3.3961775e38],
        np.float32,
    )  # fmt: skip
    wanted = np.array(
        [1, 1 + 2**-6, 1 + 2**-7, 2.0**-56, 0.0, -0.0, -0.0, np.inf, -np.inf, 3.3895314e38, np.inf], np.float32
    )
    _same(rounded(given), wanted)
    quiet = rounded_bits(np.array([0x7F800001, 0xFFFFFFFF], np.uint32).view(np.float32))
    np.testing.assert_array_equal(quiet, [0x7FC0, 0xFFFF])


def test_packed_weights_are_pairs_of_inputs_of_sixteen_columns() -> None:
    weights = np.arange(33 * 17, dtype=np.float32).reshape(33, 17) % 250
    found = packed(weights)
    assert found.shape == (2, 1, 32, 16)
    found = found[:, 0]
    low, high = ((found & 0xFFFF) << 16).view(np.float32), (found & 0xFFFF0000).view(np.float32)
    assert (low[0, 3, 5], high[0, 3, 5], low[1, 16, 0]) == (weights[6, 5], weights[7, 5], weights[32, 16])
    assert not high[:, 16].any() and not found[1, :, 1:].any()


def test_packed_parts_of_a_panel_follow_one_another() -> None:
    weights = np.random.default_rng(2).normal(size=(40, 20)).astype(np.float32)
    found = packed(weights, parts=3)
    assert found.shape == (2, 3, 32, 16)
    for number, part in enumerate(in_parts(weights, 3)):
        np.testing.assert_array_equal(found[:, number], packed(part)[:, 0])


def test_parts_are_rounded_rests_and_what_is_not_finite_is_the_last_one() -> None:
    given = np.array([1 + 2**-8 + 2**-9 + 2**-20, -3.3, 2.0**-50 + 2.0**-58, 0.0, np.inf, -np.inf, 3.4e38], np.float32)
    first, second, third = in_parts(given, 3)
    _same(first[:3], np.array([1 + 2**-7, -3.296875, 2.0**-50], np.float32))
    np.testing.assert_array_equal(second[[0, 2]], [np.float32(-(2.0**-9)), 0])
    _same(third[[0, 2]], np.array([2**-20, 0], np.float32))
    np.testing.assert_array_equal([first[4:], second[4:]], np.zeros((2, 3)))
    np.testing.assert_array_equal(third[4:], [np.inf, -np.inf, np.inf])
    exact = np.sum(np.array(in_parts(given[:2], 3), np.float64), 0)
    np.testing.assert_array_equal(exact, given[:2])
    assert np.isnan(in_parts(np.array([np.nan], np.float32), 2)[1])


_PARTS = (1, 2, 3)


@pytest.mark.parametrize("parts", _PARTS)
def test_products_are_those_of_the_instructions_text(parts: int) -> None:
    random = np.random.default_rng(1)
    x, weights = _numbers(random, 3, 75), _numbers(random, 75, 4)
    wanted = np.array([[_dot_as_defined(row, column, parts) for column in weights.T] for row in x], np.float32)
    _same(products(x, weights, parts=parts), wanted)


@pytest.mark.parametrize("inputs", [32, 576, 4096])
def test_more_parts_have_the_errors_that_they_promise(inputs: int) -> None:
    """Root mean squares of errors, of sums of random products; one chain of float32 has 4.6e-7 of 576 inputs."""
    random = np.random.default_rng(inputs)
    x, weights = (random.normal(size=shape).astype(np.float32) for shape in ((8, inputs), (inputs, 40)))
    exact = x.astype(np.float64) @ weights
    size = np.sqrt(np.mean(exact**2))
    errors = [np.sqrt(np.mean((products(x, weights, parts=parts) - exact) ** 2)) / size for parts in _PARTS]
    assert 1e-3 < errors[0] < 4e-3 and 2e-6 < errors[1] < 1e-5 and 1e-8 < errors[2] < 6e-7


def _assert_dense(
    kernels: Kernels, batch: int, inputs: int, outputs: int, seed: int, activation: str = "none", parts: int = 1
) -> None:
    random = np.random.default_rng(seed)
    values, weights = _numbers(random, batch, inputs), _numbers(random, inputs, outputs)
    bias = None if seed % 3 == 0 else _numbers(random, outputs)
    wanted = products(values, weights, parts=parts)
    if bias is not None:
        wanted = wanted + bias
    bounds = {"none": (-np.inf, np.inf), "relu": (0, np.inf), "clip": (0, 6)}[activation]
    for form in Bfloat16Form:
        found = kernels.bfloat16_dense(values, weights, bias, activation, parts=parts, form=form)
        if activation == "none":
            _same(found, wanted)
        else:
            np.testing.assert_array_equal(found, np.clip(wanted, *bounds))
        if parts > 1:
            continue
        bits = rounded_bits(values)
        _same(kernels.bfloat16_dense(bits, weights, bias, activation, form=form), found)
        _same(kernels.bfloat16_dense(bits, weights, bias, activation, rounds=True, form=form), rounded(found))
    _assert_added(kernels, (values, weights, bias), wanted, activation, parts)


def _assert_added(
    kernels: Kernels, layer: tuple[Floats, Floats, Floats | None], sums: Floats, activation: str, parts: int
) -> None:
    added = _numbers(np.random.default_rng(7), *sums.shape)
    with np.errstate(over="ignore"):
        wanted = (sums if layer[2] is not None else sums + np.float32(0)) + added
    bounds = {"none": (-np.inf, np.inf), "relu": (0, np.inf), "clip": (0, 6)}[activation]
    for form in Bfloat16Form:
        found = kernels.bfloat16_dense(*layer, activation, parts=parts, added=added, form=form)
        np.testing.assert_array_equal(found, np.clip(wanted, *bounds))
        if parts == 1:
            made = kernels.bfloat16_dense(*layer, activation, added=added, rounds=True, form=form)
            _same(made, rounded(found))


@fixed_kernels
@given(
    batch=st.integers(1, 70),
    inputs=st.integers(1, 200),
    outputs=st.integers(1, 150),
    seed=st.integers(0, 2**32 - 1),
    activation=st.sampled_from(["none", "relu", "clip"]),
    parts=st.sampled_from(_PARTS),
)
def test_dense_layers_have_the_bits_of_the_definition(
    kernels: Kernels, batch: int, inputs: int, outputs: int, seed: int, activation: str, parts: int
) -> None:
    _assert_dense(kernels, batch, inputs, outputs, seed, activation, parts)


@pytest.mark.parametrize("parts", _PARTS)
def test_every_number_of_rows_inputs_and_columns_ends_inside_its_arrays(kernels: Kernels, parts: int) -> None:
    for batch, inputs, outputs in (
        (1, 1, 1),
        (3, 4, 17),
        (7, 31, 16),
        (13, 64, 33),
        (2, 65, 130),
        (33, 5, 8),
        (1, 96, 200),
    ):
        _assert_dense(kernels.beside_start(), batch, inputs, outputs, seed=inputs, parts=parts)


@pytest.mark.parametrize("parts", _PARTS)
def test_a_row_has_the_same_bits_in_any_batch(kernels: Kernels, parts: int) -> None:
    random = np.random.default_rng(5)
    values, weights = random.normal(size=(67, 90)).astype(np.float32), random.normal(size=(90, 50)).astype(np.float32)
    whole = kernels.bfloat16_dense(values, weights, None, "tanh", parts=parts)
    for size in (1, 2, 3, 5, 8, 31, 33, 64):
        _same(kernels.bfloat16_dense(values[:size], weights, None, "tanh", parts=parts), whole[:size])


_SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 3e38, -0.0, 0.0, 1e-40, -1e-40, 1.0, -1.0, 2.0**-56, 2.0**60], np.float32
)


@pytest.mark.parametrize("parts", _PARTS)
def test_nan_infinities_and_overflow_are_those_of_float32(kernels: Kernels, parts: int) -> None:
    """Also between chains; products beyond float32 are infinite without fused multiply-add, so they are left out here."""
    _assert_special(kernels, parts)


@pytest.mark.parametrize("parts", _PARTS)
def test_an_infinity_stays_one_beside_weights_that_are_their_first_part(kernels: Kernels, parts: int) -> None:
    """Later parts of weights are zeros or have the other sign, whose products would make NaN of it."""
    values, weights = np.full((3, 40), 0.1, np.float32), np.full((40, 6), 1, np.float32)
    weights[5, 1::2] = 1 - np.float32(2**-12)
    values[1, 5], values[2, 5] = np.inf, -np.inf
    for form in Bfloat16Form:
        found = kernels.bfloat16_dense(values, weights, None, parts=parts, form=form)
        np.testing.assert_array_equal(found[1:], np.full((2, 6), np.inf) * [[1], [-1]])
        assert np.isfinite(found[0]).all()


def _assert_special(kernels: Kernels, parts: int) -> None:
    for seed in range(20):
        random = np.random.default_rng(seed)
        values = np.where(random.random((9, 70)) < 0.1, random.choice(_SPECIAL, (9, 70)), random.normal(size=(9, 70)))
        weights = np.where(random.random((70, 20)) < 0.1, random.choice([0.0, 1.0, -1.0], (70, 20)), 2.0**-3)
        values, weights = values.astype(np.float32), weights.astype(np.float32)
        for form in Bfloat16Form:
            _same(
                kernels.bfloat16_dense(values, weights, None, parts=parts, form=form),
                products(values, weights, parts=parts),
            )


def test_an_overflowing_product_cancels_where_it_is_fused(kernels: Kernels, request: pytest.FixtureRequest) -> None:
    """-3e38 + 2e19 * 2e19 is a float, although 4e38 is none: with a fused multiply-add it is, as AMX has it."""
    target = request.node.callspec.params["kernels"]
    values, weights = np.array([[3e38, 0, 2e19]], np.float32), np.array([[-1], [0], [2e19]], np.float32)
    assert np.isfinite(products(values, weights)).all()
    found = kernels.bfloat16_dense(values, weights, None)
    if target not in TARGETS or TARGETS[target].has_fma:
        _same(found, products(values, weights))
    else:
        np.testing.assert_array_equal(found, np.inf)


_WINDOWS = {
    "inside": Shape(size=(5, 7), channels=3, kernel=(3, 3)),
    "padded": Shape(size=(5, 7), channels=8, kernel=(3, 3), before=(1, 1), after=(1, 1)),
    "pointwise": Shape(size=(3, 4), channels=17, kernel=(1, 1)),
    "with strides": Shape(size=(9, 8), channels=2, kernel=(3, 2), stride=(2, 3), before=(1, 0), after=(1, 1)),
    "with strides beyond the window": Shape(size=(9, 8), channels=5, kernel=(1, 1), stride=(2, 3)),
    "dilated": Shape(size=(8, 9), channels=5, kernel=(2, 3), dilation=(3, 2), before=(2, 3), after=(1, 0)),
    "dilated, of whole blocks": Shape(size=(8, 21), channels=64, kernel=(2, 3), dilation=(3, 2), before=(2, 3)),
    "of one line, dilated": Shape(
        size=(1, 35), channels=32, kernel=(1, 3), dilation=(1, 4), stride=(1, 2), before=(0, 8)
    ),
    "larger than the image": Shape(size=(2, 2), channels=4, kernel=(5, 4), before=(3, 2), after=(2, 3)),
    "of one line": Shape(size=(1, 20), channels=16, kernel=(1, 5), before=(0, 4)),
    "of smaller blocks": Shape(size=(6, 21), channels=16, kernel=(3, 3), before=(1, 1), after=(1, 1)),
    "of smaller blocks, with strides": Shape(
        size=(9, 35), channels=10, kernel=(3, 2), stride=(2, 2), dilation=(2, 1), before=(2, 0), after=(1, 1)
    ),
    "of too small blocks": Shape(size=(6, 18), channels=2, kernel=(3, 3)),
    "of colours, with strides": Shape(size=(21, 37), channels=3, kernel=(7, 7), stride=(2, 2), before=(3, 3)),
    "dilated, of whole blocks but for one channel": Shape(size=(5, 9), channels=31, kernel=(1, 3), dilation=(1, 2)),
    "of an odd number of channels": Shape(size=(5, 19), channels=33, kernel=(3, 2), before=(1, 1), after=(1, 0)),
    "of lines in parts": Shape(size=(40, 70), channels=16, kernel=(3, 3), before=(1, 1), after=(1, 1)),
}


@pytest.mark.parametrize("parts", _PARTS)
@pytest.mark.parametrize("name", _WINDOWS)
def test_convolutions_are_products_of_windows(kernels: Kernels, name: str, parts: int) -> None:
    _assert_convolution(kernels, _WINDOWS[name], parts)


def _assert_convolution(kernels: Kernels, shape: Shape, parts: int) -> None:
    random = np.random.default_rng(shape.channels)
    for filters in (1, 18):
        images = _numbers(random, 2, *shape.size, shape.channels)
        weights, bias = _numbers(random, *shape.kernel, shape.channels, filters), _numbers(random, filters)
        read, rows = shape.of_bfloat16, 2 * np.prod(shape.out)
        windows = read.filled(shape.patches(images.astype(np.float64), 0.0), 5).reshape(rows, -1).astype(np.float32)
        wanted = products(windows, read.filled(weights, 2).reshape(-1, filters), read.block, parts) + bias
        for form in Bfloat16Form:
            found = kernels.bfloat16_conv2d(shape, images, weights, bias, parts=parts, form=form)
            _same(found.reshape(-1, filters), wanted)
            if parts > 1:
                continue
            bits = rounded_bits(images)
            _same(kernels.bfloat16_conv2d(shape, bits, weights, bias, form=form), found)
            _same(kernels.bfloat16_conv2d(shape, bits, weights, bias, rounds=True, form=form), rounded(found))
            added = _numbers(random, *found.shape)
            made = kernels.bfloat16_conv2d(shape, bits, weights, bias, added=added, form=form)
            np.testing.assert_array_equal(made, found + added)


def _assert_products(kernels: Kernels) -> None:
    random = np.random.default_rng(11)
    for count, inputs, outputs in ((1, 1, 1), (5, 31, 3), (16, 33, 17), (40, 64, 64), (37, 197, 30)):
        values = _numbers(random, 2 * count, inputs + 5)[::2, 2 : 2 + inputs]
        matrices = (_numbers(random, inputs, outputs + 4)[:, :outputs], _numbers(random, outputs, inputs).T)
        for matrix in matrices:
            _same(kernels.bfloat16_product(values, matrix), products(values, matrix))


def test_products_of_computed_arrays_have_the_sums_of_layers(kernels: Kernels) -> None:
    _assert_products(kernels)


def test_products_of_computed_arrays_by_tiles_have_them(tiled: Kernels) -> None:
    _assert_products(tiled)


def test_gelu_for_bfloat16_is_off_by_less_than_a_hundredth_of_the_rounding(kernels: Kernels) -> None:
    """Sums are zero, so that biases are what is activated."""
    special = np.array([0.0, -0.0, np.inf, np.nan, 4.3, -4.3, 1e30, -1e30, 1e-30, -1e-39], np.float32)
    bias = np.concatenate([np.linspace(-7, 7, 20000).astype(np.float32), special])
    layer = np.zeros((3, 32), np.float32), np.zeros((32, len(bias)), np.float32), bias, "gelu_erf"
    found = kernels.bfloat16_dense(*layer, rounds=True)
    with np.errstate(all="ignore"):
        wanted = np.array([x * math.erfc(-x / math.sqrt(2)) / 2 for x in bias.astype(np.float64).tolist()])
        # In all cases beside that of the rounding, which makes zero of numbers below 2^-56.
        allowed = 2**-8 * np.abs(wanted) + 2**-16 * np.abs(bias) + 2**-56
        assert np.all((np.abs(found - wanted) <= allowed)[:, np.isfinite(bias)])
    np.testing.assert_array_equal(found[0][-10:-6], [0.0, -0.0, np.inf, np.nan])
    # Without it the error is that of the activation.
    np.testing.assert_allclose(kernels.bfloat16_dense(*layer)[0][:20000], wanted[:20000], rtol=1e-6, atol=1e-30)


def test_other_activations_follow_the_bias(kernels: Kernels) -> None:
    random = np.random.default_rng(8)
    values, weights = random.normal(size=(5, 40)).astype(np.float32), random.normal(size=(40, 21)).astype(np.float32)
    bias = random.normal(size=21).astype(np.float32)
    sums = products(values, weights) + bias
    found = kernels.bfloat16_dense(values, weights, bias, "tanh")
    np.testing.assert_allclose(found, np.tanh(sums), rtol=4e-7)
    for form in Bfloat16Form:
        made = kernels.bfloat16_dense(values, weights, bias, "tanh", rounds=True, form=form)
        _same(made, rounded(found))
        added = random.normal(size=sums.shape).astype(np.float32)
        made = kernels.bfloat16_dense(values, weights, bias, "tanh", rounds=True, added=added, form=form)
        np.testing.assert_allclose(made, np.tanh(sums + added), rtol=2**-8)


@fixed_kernels
@given(
    batch=st.integers(1, 140),
    inputs=st.integers(1, 200),
    outputs=st.integers(1, 150),
    seed=st.integers(0, 2**32 - 1),
    parts=st.sampled_from(_PARTS),
)
def test_tiles_of_the_cpu_have_these_bits(
    tiled: Kernels, batch: int, inputs: int, outputs: int, seed: int, parts: int
) -> None:
    _assert_dense(tiled, batch, inputs, outputs, seed, parts=parts)


@pytest.mark.parametrize("parts", _PARTS)
def test_tiles_end_inside_their_arrays(tiled: Kernels, parts: int) -> None:
    for kernels in (tiled, tiled.beside_start()):
        for batch, inputs, outputs in (
            (1, 1, 1),
            (16, 64, 32),
            (17, 65, 33),
            (31, 30, 16),
            (32, 96, 50),
            (65, 130, 17),
        ):
            _assert_dense(kernels, batch, inputs, outputs, seed=inputs, activation="relu", parts=parts)
    _assert_special(tiled, parts)


@pytest.mark.parametrize("parts", _PARTS)
@pytest.mark.parametrize("name", _WINDOWS)
def test_convolutions_by_tiles_have_these_bits(tiled: Kernels, name: str, parts: int) -> None:
    _assert_convolution(tiled, _WINDOWS[name], parts)
