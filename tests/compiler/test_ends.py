"""Functions at the ends of their domains: the code gives what float64 (for doubles: long double) computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.program import NUMPY_TYPES
from tfaot_pkg.ground.arrays import Array

pytestmark = pytest.mark.slow  # compiles its code

_TYPES: Mapping[str, type[np.floating[Any]]] = {"f32": np.float64, "f64": np.longdouble}
"""The type in which the right answers are computed."""


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(lambda each: math.erf(float(each)), otypes=[np.float64])(x))


FUNCTIONS: Mapping[str, tuple[Callable[..., Array], float]] = {
    "abs": (np.abs, 0),
    "cbrt": (np.cbrt, 5),
    "ceil": (np.ceil, 0),
    "erf": (_erf, 8),
    "exponential": (np.exp, 4),
    "exponential-minus-one": (np.expm1, 6),
    "floor": (np.floor, 0),
    "log": (np.log, 3),
    "log-plus-one": (np.log1p, 3),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), 6),
    "round-nearest-even": (np.rint, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 3),
    "sign": (lambda x: np.asarray(np.where(x == 0, x, np.sign(x))), 0),
    "sqrt": (np.sqrt, 1),
    "tanh": (np.tanh, 8),
}
"""What is right, and the units in the last place that the code may be off."""
_PERIODIC: Mapping[str, tuple[Callable[..., Array], float]] = {
    "cosine": (np.cos, 4),
    "sine": (np.sin, 4),
    "tan": (np.tan, 4),
}
"""Of doubles, NumPy reduces huge arguments exactly."""
_PAIRS: Mapping[str, tuple[Callable[..., Array], float]] = {
    "atan2": (np.arctan2, 4),
    "divide": (np.divide, 1),
    "power": (np.power, 4),
    "remainder": (np.fmod, 0),
}


def _ends(dtype: str) -> Array:
    """Every power of ten, both ends of all ranges, and both sides of where functions overflow, of both signs."""
    kind: Any = NUMPY_TYPES[dtype].type
    limits = np.finfo(kind)
    numbers = [0, limits.smallest_subnormal, limits.tiny, limits.max, np.inf, np.nan, 0.5, 1.5, 2, 3, math.pi]
    numbers += [10.0**power for power in range(-45 if dtype == "f32" else -323, 39 if dtype == "f32" else 309)]
    largest = math.log(float(limits.max))
    edges = [
        1,
        limits.max / 2,
        limits.max * 0.7,
        limits.max * 0.72,
        largest,
        largest + 16,
        limits.tiny,
        2.0**23,
        2.0**31,
    ]
    edges += [limits.tiny * 4, float(limits.max) ** 0.5, float(limits.tiny) ** 0.5, float(limits.eps), 2.0**52, 2.0**63]
    with np.errstate(all="ignore"):
        near = np.array([*numbers, *edges], kind)
        beside = [np.nextafter(near[-len(edges) :], kind(end)) for end in (-np.inf, np.inf)]
        found = np.concatenate([near, *beside])
    return np.concatenate([found, -found])


def _faults(name: str, given: Array, exact: Array, ulps: float, *inputs: Array) -> list[str]:
    kind = given.dtype.type
    with np.errstate(all="ignore"):
        wanted = exact.astype(kind)
        unit = np.spacing(np.maximum(np.abs(wanted), np.finfo(kind).tiny))
        near = np.abs(given.astype(exact.dtype) - exact) <= ulps * unit
        # An infinite answer may be a rounding away from the largest number.
        most = np.isinf(given) & (np.abs(exact) >= np.finfo(kind).max * (1 - 8 * np.finfo(kind).eps))
        same = (given == wanted) | (np.isnan(given) & np.isnan(wanted))
        right = same | (near & np.isfinite(given) & np.isfinite(wanted)) | (most & (np.sign(given) == np.sign(exact)))
        right &= (given != 0) | (wanted != 0) | (np.signbit(given) == np.signbit(wanted))
    return [f"{name}({', '.join(repr(each[i]) for each in inputs)}): {given[i]!r}, and not {wanted[i]!r}"
            for i in np.flatnonzero(~right)]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_functions_are_right_at_the_ends_of_their_domains(compiled: Compile, dtype: str) -> None:
    writer = Writer()
    x = writer.input(dtype=dtype)
    functions = {**FUNCTIONS, **_PERIODIC}
    code = compiled(writer.program(*(writer.add(name, (N,), x, dtype=dtype) for name in functions)), 8)
    values = _ends(dtype)
    faults = []
    for (name, (function, ulps)), given in zip(functions.items(), code(values), strict=True):
        with np.errstate(all="ignore"):
            exact = function(values.astype(_TYPES[dtype]))
        faults += _faults(name, given, exact, ulps, values)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_functions_of_two_numbers_are_right_at_the_ends_of_their_domains(compiled: Compile, dtype: str) -> None:
    writer = Writer()
    x, y = writer.input(dtype=dtype), writer.input(dtype=dtype)
    code = compiled(writer.program(*(writer.add(name, (N,), x, y, dtype=dtype) for name in _PAIRS)), 8)
    some = np.concatenate([_ends(dtype)[::7], np.array([0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, -2, 3])])
    one, other = (each.ravel().astype(NUMPY_TYPES[dtype]) for each in np.meshgrid(some, some))
    faults = []
    for (name, (function, ulps)), given in zip(_PAIRS.items(), code(one, other), strict=True):
        with np.errstate(all="ignore"):
            exact = function(*(each.astype(_TYPES[dtype]) for each in (one, other)))
        faults += _faults(name, given, exact, ulps, one, other)
    assert not faults, "\n".join(faults)
