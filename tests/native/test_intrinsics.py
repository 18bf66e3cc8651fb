"""Conversions and powers that compiled code calls, against NumPy for every half and many others."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    output = tmp_path_factory.mktemp("intrinsics") / "intrinsics.so"
    source = resources.templates() / "native" / "runtime" / "intrinsics.cc"
    run(["g++", "-std=c++17", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", source, "-o", output])
    return ctypes.CDLL(str(output))


def _packed(
    library: ctypes.CDLL, name: str, argument: type, values: npt.NDArray[np.floating]
) -> npt.NDArray[np.uint16]:
    """The 16 bits that `name` gives for each value: they come in the low bits of a float's register."""
    function = getattr(library, name)
    function.argtypes, function.restype = [argument], ctypes.c_float
    results = np.array([_bits(function(argument(value))) for value in values], "uint32")
    return (results & 0xFFFF).astype("uint16")


def _bits(value: float) -> int:
    return int(np.float32(value).view("uint32"))


def _floats() -> Floats:
    """Every half, what lies halfway between two of them, its neighbours, and bit patterns of all kinds."""
    halves = np.arange(0x7C00, dtype="uint16").view("float16").astype("float64")
    middles = (halves[1:] + halves[:-1]) / 2
    beside = np.concatenate([middles * (1 + 2**-20), middles * (1 - 2**-20)])
    patterns = np.random.default_rng(0).integers(0, 2**32, 20000, dtype="uint32").view("float32")
    positive = np.concatenate([halves, middles, beside]).astype("float32")
    return np.concatenate(
        [positive, -positive, patterns, np.array([np.inf, -np.inf, 65519.99, 65520, 1e30], "float32")]
    )


@pytest.mark.slow
def test_floats_become_the_nearest_half(library: ctypes.CDLL) -> None:
    values = _floats()
    values = values[~np.isnan(values)]
    with np.errstate(over="ignore"):
        expected = values.astype("float16").view("uint16")
    for name in ("__truncsfhf2", "__gnu_f2h_ieee"):
        assert np.array_equal(_packed(library, name, ctypes.c_float, values), expected), name


def test_doubles_become_the_nearest_half_with_one_rounding(library: ctypes.CDLL) -> None:
    """Rounding to float first would make a tie of what lies just beside one."""
    halves = np.arange(0x7C00, dtype="uint16").view("float16").astype("float64")
    middles = (halves[1:] + halves[:-1]) / 2
    values = np.concatenate([middles, middles * (1 + 2**-40), middles * (1 - 2**-40), [1e-320, 1e300]])
    with np.errstate(over="ignore"):
        expected = values.astype("float16").view("uint16")
    assert np.array_equal(_packed(library, "__truncdfhf2", ctypes.c_double, values), expected)


def test_floats_become_the_nearest_bfloat16(library: ctypes.CDLL) -> None:
    values = np.random.default_rng(1).integers(0, 2**32, 20000, dtype="uint32").view("float32")
    ties = (np.arange(0x100, 0x7F00, dtype="uint32") << 16 | 0x8000).view("float32")
    values = np.concatenate([values[np.isfinite(values)], ties, np.array([0, np.inf], "float32")])
    values = values[(np.abs(values) >= 2**-126) | (values == 0)]
    bits = values.view("uint32")
    expected = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("uint16")
    assert np.array_equal(_packed(library, "__truncsfbf2", ctypes.c_float, values), expected)
    assert np.array_equal(_packed(library, "__truncdfbf2", ctypes.c_double, values.astype("float64")), expected)


@pytest.mark.parametrize("name", ["__extendhfsf2", "__gnu_h2f_ieee", "__extendhfdf2"])
def test_every_half_becomes_its_value(library: ctypes.CDLL, name: str) -> None:
    function = getattr(library, name)
    function.argtypes = [ctypes.c_float]
    function.restype = ctypes.c_double if name.endswith("df2") else ctypes.c_float
    halves = np.arange(0x10000, dtype="uint32")
    halves = halves[(halves & 0x7FFF) <= 0x7C00]  # Python's way through double would touch NaNs
    given = halves.view("float32")
    results = np.array([function(ctypes.c_float(value)) for value in given])
    expected = halves.astype("uint16").view("float16").astype("float64")
    assert np.array_equal(results, expected) and np.array_equal(np.signbit(results), np.signbit(expected))


def test_not_a_number_stays_one(library: ctypes.CDLL) -> None:
    bits = _packed(library, "__truncsfhf2", ctypes.c_float, np.array([np.nan, -np.nan], "float32"))
    assert np.isnan(bits.view("float16")).all()


@pytest.mark.parametrize(("name", "argument"), [("__powisf2", ctypes.c_float), ("__powidf2", ctypes.c_double)])
def test_powers_of_integers(library: ctypes.CDLL, name: str, argument: type) -> None:
    function = getattr(library, name)
    function.argtypes, function.restype = [argument, ctypes.c_int32], argument
    for base, exponent, expected in (
        (2, 10, 1024), (2, -2, 0.25), (-3, 3, -27), (5, 0, 1), (0, 0, 1), (1, -(2**31), 1), (-1, -(2**31), 1), (0.5, -3, 8),
    ):  # fmt: skip
        assert function(base, exponent) == expected


def test_the_part_defines_what_the_toolchains_say(tmp_path: Path) -> None:
    import re

    from tfaot_pkg.frontends.toolchain.definition import TOOLCHAINS
    from tfaot_pkg.package.binary.elf import defined_symbols

    source = resources.templates() / "native" / "runtime" / "intrinsics.cc"
    run(["g++", "-std=c++17", "-c", source, "-o", tmp_path / "part.o"])
    defined = defined_symbols(tmp_path / "part.o")
    for each in TOOLCHAINS.values():
        (part,) = [part for part in each.parts if part.source == "runtime/intrinsics.cc"]
        assert all(re.fullmatch(part.symbols, symbol) for symbol in defined)
        for foreign in ("__truncxfhf2", "__extendhftf2", "__trunctfhf2", "__extendsfdf2", "__truncdfsf2", "__powitf2"):
            assert not re.fullmatch(part.symbols, foreign)
