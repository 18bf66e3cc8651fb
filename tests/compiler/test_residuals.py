"""Bytes that are added to the result of a quantized layer: compiled code beside NumPy, and quotients beside fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_passes import FOLDER, cases_of
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Quantized
from tfaot_pkg.compiler.passes.pipeline import named, run
from tfaot_pkg.compiler.program import NUMPY_TYPES
from tfaot_pkg.compiler.residuals import reciprocal_of, sums_of_bytes
from tfaot_pkg.compiler.text import parse
from tfaot_pkg.compiler.verifier import verified

_FUSED = [
    case for case in cases_of("fuse-residuals", (FOLDER / "fuse-residuals.txt").read_text()) if "give" in case.wanted
]


@pytest.mark.parametrize("number", range(len(_FUSED)))
def test_fused_layers_give_the_bytes_of_the_sum_alone_and_in_batches(number: int, compiled: Compile) -> None:
    random, given = np.random.default_rng(number), verified(parse(_FUSED[number].given), "reading")
    made = run(given, [named("fuse-residuals")])
    types = [(NUMPY_TYPES[each.shape.dtype], each.shape.sizes[1:]) for each in given.entry.parameters]
    rows = [
        random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (50, *(size.constant for size in sizes)), dtype)
        for dtype, sizes in types
    ]
    (wanted,) = interpret.run(given, 50, rows)
    np.testing.assert_array_equal(interpret.run(made, 50, rows)[0], wanted)
    code = compiled(made, 8)
    for count in (1, 7, 50):
        np.testing.assert_array_equal(code(*(each[:count] for each in rows))[0], wanted[:count])


def test_a_reciprocal_is_given_only_if_all_quotients_are_those_of_a_division() -> None:
    layer, random = Quantized(zero=128, high=255, residual=(0, 0, 0, 255)), np.random.default_rng(3)
    factors = random.uniform(0.001, 2, 3).astype(np.float32)
    sums = sums_of_bytes(layer, "u8", factors)
    assert len(sums) > 60_000
    reciprocal = reciprocal_of(sums, factors[2])
    assert reciprocal == np.float32(1) / factors[2]
    for x in random.choice(sums, 300):
        near = np.float32(x * reciprocal)
        rest = _nearest(Fraction(float(x)) - Fraction(float(near)) * Fraction(float(factors[2])))
        found = _nearest(Fraction(float(near)) + Fraction(float(rest)) * Fraction(float(reciprocal)))
        assert found == x / factors[2]
    # 1 / divisor is infinite, and rests are so small that they are rounded.
    for divisor in (1e-45, 1e-40):
        tiny = np.float32(divisor)
        assert reciprocal_of(np.arange(256).astype(np.float32) * tiny, tiny) == 0


def _nearest(exact: Fraction) -> np.float32:
    """The float32 that is nearest, which is next to the one of a float64."""
    near = np.float32(float(exact))
    around = (np.nextafter(near, np.float32(each)) for each in (-np.inf, np.inf))
    return min((near, *around), key=lambda each: abs(Fraction(float(each)) - exact))
