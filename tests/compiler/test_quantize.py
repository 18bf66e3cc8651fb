"""Floats that become bytes, and functions of bytes: compiled code beside exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import named, run
from tfaot_pkg.compiler.quotients import factors_of
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.ground.arrays import Array

_SCALES = (0.1, 0.023641, 1.0, 0.25, 3.0, 1e-30, 7e20, float(np.float32(2**-7) + np.spacing(np.float32(2**-7))))


def _program(order: str, sizes: str) -> str:
    lines = ["%0 f32[batch,40,9] = parameter number=0"]
    for number, scale in enumerate(map(np.float32, _SCALES)):
        zero, low, dtype = (number * 30, 0, "u8") if number % 2 else (number * 11 - 40, -128, "s8")
        lines.append(
            f"%{2 * number + 1} {dtype}[batch,40,9] = quantize %0 scale={float(scale)} zero={zero} low={low} high={low + 250}"
        )
        lines.append(f"%{2 * number + 2} {dtype}[batch,{sizes}] = transpose %{2 * number + 1} dimensions={order}")
    lines.append("give " + " ".join(f"%{2 * number + 2}" for number in range(len(_SCALES))))
    return "\n".join(lines) + "\n"


PROGRAMS = {
    "bytes of floats": verified(parse(_program("[0,1,2]", "40,9")), "reading"),
    "bytes of floats in another order": verified(parse(_program("[0,2,1]", "9,40")), "reading"),
}


def boundaries(shape: tuple[int, ...]) -> Array:
    """Floats next to where quotients by the scales are rounded to another byte, and special ones."""
    random = np.random.default_rng(9)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-40, 1e-38]
    found = [np.array(special, np.float32), random.normal(scale=9, size=1000).astype(np.float32)]
    for scale in map(np.float32, _SCALES):
        near = ((np.arange(-257, 258) + 0.5) * np.float64(scale)).astype(np.float32)
        found += [(near.view(np.int32) + step).view(np.float32) for step in (-2, -1, 0, 1, 2)]
    values = random.permutation(np.concatenate(found))
    return np.resize(values, math.prod(shape)).reshape(shape)


@pytest.mark.parametrize("name", PROGRAMS)
def test_bytes_are_those_of_the_rounded_quotient(name: str, compiled: Compile) -> None:
    program = PROGRAMS[name]
    values = boundaries((80, 40, 9))
    code = compiled(program, 8)
    made = code(values)
    for number, (scale, found) in enumerate(zip(map(np.float32, _SCALES), made, strict=True)):
        zero, low = (number * 30, 0) if number % 2 else (number * 11 - 40, -128)
        with np.errstate(all="ignore"):
            wanted = np.clip(np.rint(values / scale).astype(np.float64) + zero, low, low + 250)
        wanted = np.where(np.isnan(values), low, wanted)
        given = found if found.shape == values.shape else found.transpose(0, 2, 1)
        np.testing.assert_array_equal(given, wanted)


def test_two_products_are_rounded_as_the_quotient() -> None:
    random = np.random.default_rng(4)
    divisors = [*random.uniform(1e-4, 2, 40), *2.0 ** random.uniform(-80, 80, 20), 1.0, 0.5, 2.0**-20, 3.0]
    for divisor in map(np.float32, divisors):
        found = factors_of(float(divisor))
        assert found is not None
        factor, rest = (Fraction(float(each)) for each in found)
        assert rest >= 0
        for whole in (0, 1, 2, 63, 64, 127, 128, *random.integers(0, 257, 20)):
            near = np.float32((whole + 0.5) * np.float64(divisor))
            for step in range(-3, 4):
                x = (near.view(np.int32) + np.int32(step)).view(np.float32)
                exact = Fraction(float(x))
                total = exact * factor + Fraction(float(_nearest(exact * rest)))
                assert np.rint(_nearest(total)) == np.rint(_nearest(exact / Fraction(float(divisor))))


def test_divisors_whose_parts_may_be_subnormal_stay_divisors() -> None:
    assert factors_of(2.0**-100) is None and factors_of(2.0**100) is None


_FUNCTIONS = {
    "gelu-erf": lambda x: x * math.erfc(-x / math.sqrt(2)) / 2,
    "logistic": lambda x: 1 / (1 + math.exp(-x)),
    "tanh": math.tanh,
}


@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize("opcode", _FUNCTIONS)
def test_functions_of_bytes_are_those_of_real_numbers(opcode: str, dtype: str, compiled: Compile) -> None:
    """Rounded once, which is a step off only where a function is nearly between two."""
    text = f"""\
%0 {dtype}[batch,300] = parameter number=0
%1 f32[batch,300] = convert %0
%2 f32[] = constant literal={{0.0625}}
%3 f32[batch,300] = broadcast %2 dimensions=[]
%4 f32[batch,300] = multiply %1 %3
%5 f32[batch,300] = {opcode} %4
%6 u8[batch,300] = quantize %5 scale=0.0625 zero=20 low=0 high=255
give %6
"""
    given = verified(parse(text), "reading")
    made = run(given, [named("tabulate-bytes")])
    assert [each.opcode for each in made.entry.operations] == ["parameter", "constant", "look_up"]
    ends = np.iinfo(np.uint8 if dtype == "u8" else np.int8)
    values = np.resize(np.arange(ends.min, ends.max + 1), (5, 300)).astype(ends.dtype)
    wanted = [min(max(round(_FUNCTIONS[opcode](each / 16) * 16) + 20, 0), 255) for each in values.ravel().tolist()]
    np.testing.assert_array_equal(np.reshape(wanted, values.shape), interpret.run(made, 5, [values])[0])
    np.testing.assert_array_equal(np.reshape(wanted, values.shape), compiled(made, 2)(values)[0])


def _nearest(exact: Fraction) -> np.float32:
    """The float32 that is nearest, of two the even one, which is next to the one of a float64."""
    near = np.float32(float(exact))
    around = [near, *(np.nextafter(near, np.float32(each)) for each in (-np.inf, np.inf))]
    return min(around, key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(np.uint32)) & 1))
