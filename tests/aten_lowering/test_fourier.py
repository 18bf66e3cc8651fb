"""Fourier transforms as products of small matrices, compared with NumPy's in float64."""

from __future__ import annotations

import numpy as np
import pytest

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import ROWS, Shape, Size, Unsupported
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.onnx_lowering.fourier import LONGEST, Parts, of_real, to_real, transformed
from tfaot_pkg.ground.arrays import Array

_LENGTHS = [*range(1, 40), 48, 64, 97, 100, 127, 128, 131, 210, 251, 256, 509, 1000, 1009, 1024, 2047, 4096]
"""Short ones, products of small primes, powers of two, and large primes, which are convolutions."""


def _run(length: int, outputs: str) -> tuple[Array, list[Array]]:
    b = Builder(())
    shape = Shape("f32", (ROWS, Size(length)))

    def made(x: Parts) -> list[Parts]:
        assert x.imaginary is not None
        if outputs == "whole":
            return [transformed(b, x, -1)]
        return [of_real(b, x.real), Parts(to_real(b, Parts(x.real, x.imaginary), length), None)]

    program = b.program(
        [shape, shape],
        lambda given: [
            part for each in made(Parts(*given)) for part in (each.real, each.imaginary) if part is not None
        ],
    )
    verify(program)
    x = np.random.default_rng(length).standard_normal((2, 3, length)).astype(np.float32)
    return x, interpret.run(program, 3, [*x], {})


def _error(found: Array, wanted: Array) -> float:
    """The root of the mean square, relative to that of the result."""
    return float(np.sqrt(np.mean(np.abs(found - wanted) ** 2) / np.mean(np.abs(wanted) ** 2)))


@pytest.mark.parametrize("length", _LENGTHS)
def test_transforms_are_as_exact_as_float32_allows(length: int) -> None:
    x, (real, imaginary) = _run(length, "whole")
    x = x.astype(np.float64)
    assert _error(real + 1j * imaginary, np.fft.fft(x[0] + 1j * x[1])) < 3e-7
    _, (half, rest, back) = _run(length, "real")
    assert _error(half + 1j * rest, np.fft.rfft(x[0])) < 3e-7
    assert (rest[:, 0] == 0).all()
    # Half of a spectrum, as long as the whole one: the remainder is cropped.
    kept = (x[0] + 1j * x[1])[:, : length // 2 + 1]
    assert _error(back, length * np.fft.irfft(kept, length)) < 3e-7


def test_a_transform_beyond_the_limit_is_rejected() -> None:
    with pytest.raises(Unsupported, match=f"a Fourier transform of {LONGEST + 1} elements"):
        _run(LONGEST + 1, "whole")
