"""tfaot/half.h: conversions of every float16 and bfloat16, and of floats to them."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.package.conftest import WARNINGS
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

pytestmark = pytest.mark.slow

_SOURCE = """
#include <tfaot/half.h>
#include <cstddef>
template <class T> static void widen(const std::uint16_t* from, float* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = T::from_bits(from[i]);
}
template <class T> static void narrow(const float* from, std::uint16_t* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) to[i] = T(from[i]).bits;
}
extern "C" void widen_half(const std::uint16_t* f, float* t, std::size_t n) { widen<tfaot::float16>(f, t, n); }
extern "C" void widen_brain(const std::uint16_t* f, float* t, std::size_t n) { widen<tfaot::bfloat16>(f, t, n); }
extern "C" void narrow_half(const float* f, std::uint16_t* t, std::size_t n) { narrow<tfaot::float16>(f, t, n); }
extern "C" void narrow_brain(const float* f, std::uint16_t* t, std::size_t n) { narrow<tfaot::bfloat16>(f, t, n); }
"""
ALL = np.arange(1 << 16, dtype=np.uint16)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("half")
    (folder / "half.cpp").write_text(_SOURCE)
    flags = ["-std=c++17", "-O2", *WARNINGS, "-Wconversion", "-shared", "-fPIC", f"-I{resources.headers()}"]
    run(["g++", *flags, folder / "half.cpp", "-o", folder / "half.so"])
    return ctypes.CDLL(str(folder / "half.so"))


def widened(library: ctypes.CDLL, kind: str, bits: np.ndarray) -> np.ndarray:
    made = np.empty(bits.shape, np.float32)
    library[f"widen_{kind}"](bits.ctypes.data_as(ctypes.c_void_p), made.ctypes.data_as(ctypes.c_void_p), bits.size)
    return made


def narrowed(library: ctypes.CDLL, kind: str, values: np.ndarray) -> np.ndarray:
    made = np.empty(values.shape, np.uint16)
    library[f"narrow_{kind}"](values.ctypes.data_as(ctypes.c_void_p), made.ctypes.data_as(ctypes.c_void_p), made.size)
    return made


def floats() -> np.ndarray:
    """All halves, what lies in the middle of two, the floats beside that, and floats of any bits."""
    with np.errstate(all="ignore"):
        halves = ALL.view(np.float16).astype(np.float32)
        middles = (halves + np.roll(halves, 1)) / 2
        beside = [np.nextafter(middles, np.float32(side)) for side in (np.inf, -np.inf)]
    any_bits = np.random.default_rng(0).integers(0, 1 << 32, 1 << 18, dtype=np.uint32).view(np.float32)
    return np.concatenate([halves, middles, *beside, any_bits, np.array([65519.9, 65520, -65520, 1e38], np.float32)])


def test_every_float16_is_the_number_that_numpy_reads(library: ctypes.CDLL) -> None:
    np.testing.assert_array_equal(widened(library, "half", ALL), ALL.view(np.float16).astype(np.float32))


def test_floats_become_the_float16_that_numpy_rounds_to(library: ctypes.CDLL) -> None:
    values = floats()
    with np.errstate(all="ignore"):
        wanted = values.astype(np.float16)
    found = narrowed(library, "half", values).view(np.float16)
    is_nan = np.isnan(values)
    assert np.isnan(found[is_nan]).all()
    np.testing.assert_array_equal(found[~is_nan].view(np.uint16), wanted[~is_nan].view(np.uint16))


def test_every_bfloat16_is_the_float_of_its_upper_half(library: ctypes.CDLL) -> None:
    np.testing.assert_array_equal(widened(library, "brain", ALL), (ALL.astype(np.uint32) << 16).view(np.float32))


def test_floats_become_the_nearest_bfloat16_with_ties_to_even(library: ctypes.CDLL) -> None:
    values = floats()
    values = values[np.abs(values) < 3e38]  # the largest bfloat16 is 3.39e38
    bits = narrowed(library, "brain", values)
    exact, found = values.astype(np.float64), widened(library, "brain", bits).astype(np.float64)
    for step in (-1, 1):
        beside = widened(library, "brain", (bits.astype(np.int32) + step).astype(np.uint16)).astype(np.float64)
        known = np.isfinite(beside) & (np.signbit(beside) == np.signbit(found))
        off, other = np.abs(exact - found)[known], np.abs(exact - beside)[known]
        assert (off <= other).all()
        assert (bits[known][off == other] % 2 == 0).all()
    assert np.isnan(widened(library, "brain", narrowed(library, "brain", np.array([np.nan], np.float32)))).all()
