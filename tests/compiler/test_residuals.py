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
from tfaot_pkg.compiler.residuals import affine_form
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


def test_an_affine_form_gives_the_bytes_of_the_division_for_all_pairs() -> None:
    layer, random = Quantized(zero=128, high=255, residual=(131, 3, 0, 255)), np.random.default_rng(3)
    result, added = np.arange(-128, 128).astype(np.float32), np.arange(256).astype(np.float32)
    for number in range(20):
        factors = random.uniform(0.001, 2, 3).astype(np.float32)
        form = affine_form(layer, "u8", factors)
        assert form is not None
        quotients = (result[:, np.newaxis] * factors[0] + (added - np.float32(131)) * factors[1]) / factors[2]
        wanted = np.clip(np.rint(quotients) + 3, 0, 255)
        # Exactly, where a rounding could decide, and for some others.
        close = np.argwhere(np.abs(quotients - np.floor(quotients) - 0.5) < 1e-4)
        for i, j in (*close, *random.integers(0, 256, (20, 2))):
            addend = _nearest(Fraction(float(added[j])) * Fraction(float(form[1])) + Fraction(float(form[2])))
            found = _nearest(Fraction(float(result[i])) * Fraction(float(form[0])) + Fraction(float(addend)))
            assert min(max(round(Fraction(float(found))) + 3, 0), 255) == wanted[i, j], number


def test_scales_whose_quotient_is_no_number_have_no_affine_form() -> None:
    layer = Quantized(zero=128, high=255, residual=(0, 0, 0, 255))
    for factors in ((0.5, 0.5, 1e-45), (1e-45, 0.5, 2.0)):
        assert affine_form(layer, "u8", np.array(factors, np.float32)) is None


def _nearest(exact: Fraction) -> np.float32:
    """The float32 that is nearest, which is next to the one of a float64."""
    near = np.float32(float(exact))
    around = (np.nextafter(near, np.float32(each)) for each in (-np.inf, np.inf))
    return min((near, *around), key=lambda each: abs(Fraction(float(each)) - exact))
