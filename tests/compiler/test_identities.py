"""What simplifying makes of every operation with corner values: the same bits for corner values.

Each program is run by the interpreter, as it is and simplified. x + 0.0 is not x for -0.0, x * 0 not 0 for NaN and x / x
not 1: a rule that takes such a thing for an identity is found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes import simpler_arithmetic, simplify
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program
from tfaot_pkg.ground.arrays import Array

_FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.0,
    -2.0,
    3.0,
    4.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-40,
    -1e-40,
    1e30,
    -1e30,
    7.25,
]
_UNARY = {
    "f": "abs ceil exponential exponential-minus-one floor log log-plus-one logistic negate round-nearest-even rsqrt sign sqrt "
    "tanh",
    "i": "abs negate not sign",
    "u": "not",
    "b": "not",
}
_BINARY = {
    "f": "add divide maximum minimum multiply power remainder subtract",
    "i": "add and divide maximum minimum multiply or remainder subtract xor shift-left",
    "u": "add and divide maximum minimum multiply or remainder subtract xor",
    "b": "and or xor",
}
_NEAR = frozenset({"power"})
"""Products and roots instead of powers may have another last bit; corner values are exact."""
_DTYPES = ("f32", "f64", "s32", "u8", "pred")


def _corners(dtype: str) -> Array:
    kind: Any = NUMPY_TYPES[dtype].type
    if np.dtype(kind).kind == "f":
        limits = np.finfo(kind)
        return np.array([*_FLOATS, limits.max, -limits.max, limits.tiny, limits.smallest_subnormal], kind)
    if np.dtype(kind).kind == "b":
        return np.array([False, True])
    limits_of = np.iinfo(kind)
    numbers = [0, 1, 2, 3, 5, limits_of.max, limits_of.max - 1, limits_of.min, limits_of.min + 1]
    return np.array([*numbers, *([-1, -2, -3] if limits_of.min else [])], kind)


def _same(one: Array, other: Array, *, near: bool) -> bool:
    if one.dtype.kind != "f":
        return bool((one == other).all())
    signs = (np.signbit(one) == np.signbit(other)) | np.isnan(one)
    same = ((one == other) & signs) | (np.isnan(one) & np.isnan(other))
    if near:
        with np.errstate(all="ignore"):
            same |= np.isfinite(one) & np.isfinite(other) & (np.abs(one - other) <= 4 * np.spacing(np.abs(one)))
    return bool(same.all())


def _programs(dtype: str) -> Iterator[tuple[str, Program]]:
    """Programs of one or two operations, with a constant on either side, or the same value on both."""
    kind = np.dtype(NUMPY_TYPES[dtype]).kind
    unary, binary, corners = _UNARY[kind].split(), _BINARY[kind].split(), _corners(dtype)

    def writer() -> tuple[Writer, int]:
        made = Writer()
        return made, made.input(len(corners), dtype=dtype)

    def add(to: Writer, opcode: str, *operands: int, dtype: str = dtype, **more: Any) -> int:
        return to.add(opcode, (N, len(corners)), *operands, dtype=dtype, **more)

    for first in unary:
        for second in unary:
            made, x = writer()
            yield f"{second}({first}(x))", made.program(add(made, second, add(made, first, x)))
    for opcode in binary:
        made, x = writer()
        yield f"{opcode}(x, x)", made.program(add(made, opcode, x, x))
        for number in corners:
            for is_first in (False, True):
                made, x = writer()
                filled = made.spread(number, len(corners), dtype=dtype)
                result = add(made, opcode, *((filled, x) if is_first else (x, filled)))
                # What follows sees the result of the rule, and may take part in one.
                following = [] if opcode in _NEAR else [each for each in binary if each not in _NEAR]
                more = [add(made, each, result, operand) for each in following for operand in (x, filled)]
                yield f"{opcode} of {number!r}, first: {is_first}", made.program(result, *more)
    for direction in ("EQ", "NE", "LT", "LE", "GT", "GE"):
        for number in corners:
            made, x = writer()
            filled = made.spread(number, len(corners), dtype=dtype)
            known = made.spread(corners[1], len(corners), dtype=dtype)
            pairs = ((x, filled), (filled, x), (x, x), (filled, known))
            found = [add(made, "compare", *pair, dtype="pred", direction=direction) for pair in pairs]
            chosen = [add(made, "select", each, x, filled) for each in found]
            same = [add(made, "select", each, x, x) for each in found]
            yield f"{direction} of {number!r}", made.program(*found, *chosen, *same)
    for other in _DTYPES:
        made, x = writer()
        there = add(made, "convert", x, dtype=other)
        yield f"to {other} and back", made.program(there, add(made, "convert", there))


def _faults(dtype: str, opcode: str = "") -> list[str]:
    """What simplifying changes, in programs that begin with `opcode` if it is given."""
    corners, found = _corners(dtype), []
    # Each constant meets each value of x.
    values = [np.array([corners, corners[::-1]])]
    for name, program in _programs(dtype):
        if not name.startswith(opcode):
            continue
        with np.errstate(all="ignore"):
            plain = interpret.run(program, 2, values)
            simple = interpret.run(simplify.simplify(program), 2, values)
        for number, (one, other) in enumerate(zip(plain, simple, strict=True)):
            if not _same(one, other, near=name.startswith(tuple(_NEAR))):
                found.append(f"{name}, result {number}: {one[one != other]}, and simplified {other[one != other]}")
    return found


@pytest.mark.sweep("f32", "s32")
@pytest.mark.parametrize("dtype", _DTYPES)
def test_simplifying_changes_no_bit_of_corner_values(dtype: str) -> None:
    assert not (found := _faults(dtype)), "\n".join(found)


@pytest.mark.sweep("add-0.0", "multiply--1.0")
@pytest.mark.parametrize(
    ("opcode", "neutral"), [("add", 0.0), ("subtract", -0.0), ("multiply", -1.0), ("maximum", -np.inf)]
)
def test_what_is_no_identity_is_found(monkeypatch: pytest.MonkeyPatch, opcode: str, neutral: float) -> None:
    rule = simpler_arithmetic.with_neutral(neutral, both_sides=True)
    monkeypatch.setattr(simplify, "_RULES", {**simplify._RULES, opcode: rule})
    found = _faults("f32", opcode)
    # The largest of x and minus infinity is x, for NaN and zeros, too.
    assert bool(found) is (opcode != "maximum")
