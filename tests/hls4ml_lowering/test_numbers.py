"""Fixed-point numbers are rounded and cut off as their types say: compared with exact fractions."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import ROWS, Shape, Unsupported
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.frontends.hls4ml_lowering.numbers import Arithmetic, Fixed
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.worker_program.messages.fixed_network import FixedType, converted

ROUNDINGS = ("TRN", "TRN_ZERO", "RND", "RND_ZERO", "RND_INF", "RND_MIN_INF", "RND_CONV")
OVERFLOWS = ("WRAP", "SAT", "SAT_ZERO", "SAT_SYM")


def _expected(value: Fraction, type_: FixedType) -> int:
    """From the definitions in UG1399, on exact fractions."""
    scaled = value * Fraction(2) ** type_.fraction
    down, up = scaled.__floor__(), scaled.__ceil__()
    half = Fraction(1, 2)
    near = round(scaled)  # half to even
    is_tie = scaled - down == half
    whole: int = {
        "TRN": down,
        "TRN_ZERO": int(scaled),
        "RND": up if is_tie else near,
        "RND_ZERO": int(scaled) if is_tie else near,
        "RND_INF": (up if scaled > 0 else down) if is_tie else near,
        "RND_MIN_INF": down if is_tie else near,
        "RND_CONV": near,
    }[type_.rounding]
    low = -(2 ** (type_.width - 1)) if type_.signed else 0
    high = 2 ** (type_.width - type_.signed) - 1
    if low <= whole <= high and not (type_.overflow == "SAT_SYM" and type_.signed and whole == low):
        return whole
    if type_.overflow == "WRAP":
        return (whole - low) % (1 << type_.width) + low
    if type_.overflow == "SAT_ZERO":
        return 0
    return high if whole > high else low + (type_.overflow == "SAT_SYM" and type_.signed)


def _types(most: int) -> st.SearchStrategy[FixedType]:
    return st.builds(
        FixedType,
        width=st.integers(1, most),
        integer=st.integers(-4, most),
        signed=st.booleans(),
        rounding=st.sampled_from(ROUNDINGS),
        overflow=st.sampled_from(OVERFLOWS),
    )


@given(st.floats(-1e6, 1e6) | st.integers(-2000, 2000).map(lambda x: x / 16), _types(40))
def test_floats_are_converted_by_the_definition(value: float, type_: FixedType) -> None:
    assert int(converted(np.array(value), type_)) == _expected(Fraction(value), type_)


@pytest.mark.parametrize("sign", [1, -1])
def test_infinities_and_nan_have_no_bits_and_saturate_by_sign(sign: int) -> None:
    for value in (np.inf * sign, np.copysign(np.nan, sign)):
        assert int(converted(np.array(np.inf * sign), FixedType(width=8, integer=4, signed=True))) == 0
        if np.isinf(value):
            type_ = FixedType(width=8, integer=4, signed=True, overflow="SAT")
            assert int(converted(np.array(value), type_)) == (127 if sign > 0 else -128)


def _run(x: np.ndarray, dtype: str, body) -> np.ndarray:  # type: ignore[no-untyped-def]
    builder = Builder(())
    program = builder.program([Shape(dtype, (ROWS,))], lambda values: [body(Arithmetic(builder), values[0])])
    (found,) = interpret.run(verified(program, "test"), len(x), [x], {})
    return np.asarray(found)


@settings(max_examples=50)
@given(st.lists(st.integers(-(2**20), 2**20 - 1), min_size=1, max_size=20), st.integers(-3, 20), _types(30))
def test_numbers_are_converted_by_the_definition(values: list[int], fraction: int, type_: FixedType) -> None:
    def cast(a: Arithmetic, x: Value) -> Value:
        made = a.cast(Fixed(value=x, fraction=fraction, low=-(2**20), high=2**20 - 1), type_)
        assert made.fraction == type_.fraction
        ends.append((made.low, made.high))
        return made.value

    ends: list[tuple[int, int]] = []
    found = _run(np.array(values, np.int32), "s32", cast)
    expected = [_expected(Fraction(each) / Fraction(2) ** fraction, type_) for each in values]
    assert found.tolist() == expected
    assert all(ends[0][0] <= each <= ends[0][1] for each in expected), "within the bounds"


@settings(max_examples=50)
@given(st.lists(st.floats(width=32), min_size=1, max_size=20), _types(30))
def test_inputs_are_converted_by_the_definition(values: list[float], type_: FixedType) -> None:
    x = np.array(values, np.float32)
    found = _run(x, "f32", lambda a, value: a.of_floats(value, type_).value)
    for one, ours in zip(x, found.tolist(), strict=True):
        if np.isfinite(one):
            assert ours == _expected(Fraction(float(one)), type_)
        elif type_.overflow in ("WRAP", "SAT_ZERO"):
            assert ours == 0
        else:
            assert ours == (type_.least if np.signbit(one) else type_.high)


@given(st.integers(-(2**33), 2**33), st.integers(1, 30))
def test_outputs_are_rounded_half_to_even(value: int, fraction: int) -> None:
    def out(a: Arithmetic, x: Value) -> Value:
        return a.to_floats(Fixed(value=x, fraction=fraction, low=-(2**33), high=2**33))

    found = _run(np.array([value], np.int64), "s64", out)
    assert found[0] == np.float32(value / 2**fraction)


def test_bounds_choose_the_type_and_wider_numbers_are_refused() -> None:
    a = Arithmetic(Builder(()))
    large = a.whole((1 << 31) - 1)
    assert (large.value.dtype, a.add(large, large).value.dtype) == ("s32", "s64")
    wide = replace(large, high=(1 << 62) - 1)
    with pytest.raises(Unsupported, match="types of up to 64 are computed"):
        a.multiply(wide, wide)
