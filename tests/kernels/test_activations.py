"""Activations against double precision over all magnitudes of float32, and at the values where functions go wrong."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.kernels.library import ACTIVATIONS, Kernels
from tests.kernels.machines import Floats

pytestmark = pytest.mark.slow  # together half a minute

Doubles = NDArray[np.float64]

_erfc = np.vectorize(math.erfc, otypes=[np.float64])
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def sigmoid(x: Doubles) -> Doubles:
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def inner(x: Doubles) -> Doubles:
    """The argument of the hyperbolic tangent in GELU's second form."""
    return math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)


def gelu_erf(x: Doubles) -> Doubles:
    result: Doubles = 0.5 * x * _erfc(-x / math.sqrt(2.0))
    return result


EXACT: dict[str, Callable[[Doubles], Doubles]] = {
    "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "selu": lambda x: SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0))),
    "tanh": np.tanh,
    "sigmoid": sigmoid,
    "softplus": lambda x: np.logaddexp(0.0, x),
    "gelu_erf": gelu_erf,
    "gelu_tanh": lambda x: x * sigmoid(2.0 * inner(x)),
    "swish": lambda x: x * sigmoid(x),
    "hard_swish": lambda x: x * (np.clip(x + 3.0, 0.0, 6.0) / 6.0),
    "leaky_relu": lambda x: np.where(x > 0, x, float(np.float32(0.3)) * x),
    "falling_relu": lambda x: np.where(x > 0, x, -0.5 * x),
    "clip": lambda x: np.clip(x, 0.0, 6.0),
}

# As stated at Activation in tfaot_kernels/kernels.h, in units in the last place of the true value.
STATED = {
    "none": 0.0,
    "relu": 0.0,
    "elu": 1.0,
    "selu": 2.0,
    "tanh": 2.0,
    "sigmoid": 2.0,
    "softplus": 2.0,
    "gelu_erf": 2.0,
    "gelu_tanh": 2.0,
    "swish": 2.0,
    "hard_swish": 2.0,
    "leaky_relu": 1.0,
    "falling_relu": 1.0,
    "clip": 0.0,
}


NOT_FUSED = ("x86-64", "x86-64-v2")  # targets without fused multiply-add
_ROUGHER = ("tanh", "softplus", "gelu_erf", "gelu_tanh", "hard_swish")
"""What they compute with larger errors."""


def every(step: int) -> Floats:
    """Every `step`-th finite float32 of both signs, from the smallest denormal to the largest number."""
    positive = np.arange(0, 0x7F800000, step, dtype=np.uint32)
    return np.concatenate([positive, positive | np.uint32(0x80000000)]).view(np.float32)


def units(result: Floats, exact: Doubles) -> Doubles:
    """The error in units in the last place of the true value, which for zero is the smallest denormal."""
    with np.errstate(over="ignore"):
        rounded = exact.astype(np.float32)
    inside = np.isfinite(rounded)
    assert (result[~inside] == rounded[~inside]).all()
    error: Doubles = np.abs(result[inside].astype(np.float64) - exact[inside])
    unit: Doubles = np.spacing(np.abs(rounded[inside])).astype(np.float64)
    scaled = np.zeros(len(exact))
    scaled[inside] = error / unit
    return scaled


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_error_is_as_stated_over_the_whole_range(
    kernels: Kernels, activation: str, request: pytest.FixtureRequest
) -> None:
    near = np.linspace(-20, 20, 100_001, dtype=np.float32)
    tails = np.linspace(-130, -20, 30_001, dtype=np.float32)
    values = np.concatenate([every(20_011), near, tails])
    with np.errstate(over="ignore", invalid="ignore"):
        exact = EXACT[activation](values.astype(np.float64))
        allowed = np.full(len(values), STATED[activation])
        if request.node.callspec.params["kernels"] in NOT_FUSED:
            allowed += 1.0 if activation in _ROUGHER else 0.0
            if activation == "gelu_tanh":
                allowed += np.where(values < 0, 7.0 * np.abs(inner(values.astype(np.float64))), 0.0)
    error = units(kernels.activate(activation, values), exact)
    worst = int(np.argmax(error - allowed))
    assert error[worst] <= allowed[worst], (values[worst], error[worst])


def test_a_hyperbolic_tangent_is_never_beyond_one(kernels: Kernels) -> None:
    values = np.linspace(7, 12, 200_001, dtype=np.float32)
    assert kernels.activate("tanh", values).max() == 1
    assert kernels.activate("tanh", -values).min() == -1


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40]
# What XLA's CPU code answers, but for denormals, which it flushes here and there.
ANSWERS = {
    "none": SPECIAL,
    "relu": [np.nan, np.inf, 0.0, 0.0, -0.0, 1e-40, 0.0],
    "elu": [np.nan, np.inf, -1.0, 0.0, -0.0, 1e-40, -1e-40],
    "selu": [np.nan, np.inf, -SELU_SCALE * SELU_ALPHA, 0.0, -0.0, SELU_SCALE * 1e-40, -SELU_SCALE * SELU_ALPHA * 1e-40],
    "tanh": [np.nan, 1.0, -1.0, 0.0, -0.0, 1e-40, -1e-40],
    "sigmoid": [np.nan, 1.0, 0.0, 0.5, 0.5, 0.5, 0.5],
    "softplus": [np.nan, np.inf, 0.0, *[math.log(2.0)] * 4],
    "gelu_erf": [np.nan, np.inf, np.nan, 0.0, -0.0, 0.5e-40, -0.5e-40],
    "gelu_tanh": [np.nan, np.inf, np.nan, 0.0, -0.0, 0.5e-40, -0.5e-40],
    "swish": [np.nan, np.inf, np.nan, 0.0, -0.0, 0.5e-40, -0.5e-40],
    "hard_swish": [np.nan, np.inf, np.nan, 0.0, -0.0, 0.5e-40, -0.5e-40],
    "leaky_relu": [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -0.3e-40],
    "falling_relu": [np.nan, np.inf, np.inf, -0.0, 0.0, 1e-40, 0.5e-40],
    "clip": [np.nan, 6.0, 0.0, 0.0, -0.0, 1e-40, 0.0],
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_nan_infinities_zeros_and_denormals(kernels: Kernels, activation: str) -> None:
    result = kernels.activate(activation, np.array(SPECIAL, np.float32))
    expected = np.array(ANSWERS[activation], np.float32)
    np.testing.assert_allclose(result, expected, rtol=3e-7, atol=2 * 2.0**-149)
    np.testing.assert_array_equal(result == 0, expected == 0)
    np.testing.assert_array_equal(np.signbit(result[3:5]), np.signbit(expected[3:5]))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_a_value_has_the_same_result_at_every_place_of_an_array(kernels: Kernels, activation: str) -> None:
    values = np.linspace(-9, 9, 67, dtype=np.float32)
    whole = kernels.activate(activation, values)
    for count in (1, 2, 15, 16, 17, 33):
        np.testing.assert_array_equal(kernels.activate(activation, values[:count]), whole[:count])
        np.testing.assert_array_equal(kernels.beside_start().activate(activation, values[-count:]), whole[-count:])


@pytest.mark.parametrize("activation", ["none", "relu", "leaky_relu", "elu"])
@pytest.mark.parametrize("count", [1, 15, 17, 2047, 2049, 5000])
def test_a_sum_is_activated_as_its_values_are(kernels: Kernels, activation: str, count: int) -> None:
    random = np.random.default_rng(count)
    first, second = (random.standard_normal(count).astype(np.float32) for _ in range(2))
    first[0], second[-1] = np.nan, np.inf
    for aimed in (kernels, kernels.beside_start()):
        np.testing.assert_array_equal(
            aimed.add(activation, first, second), kernels.activate(activation, first + second)
        )
