"""ONNX's Fourier transforms, compared with NumPy's in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.onnx_lowering.small_graphs import model_of, node, run_by_interpreter
from tfaot_pkg.compiler.program import Unsupported
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

_LENGTHS = [1, 2, 3, 8, 15, 64, 66, 97, 100, 131, 134, 512, 1000, 1009, 4099]
"""One product; two steps; prime factors; large primes, which are convolutions; more than a dense matrix may have."""


def _complex(x: Array) -> Array:
    return x[..., 0] + 1j * x[..., 1] if x.shape[-1] == 2 else x[..., 0]


def _random(*shape: int) -> Array:
    return np.random.default_rng(shape[-2]).standard_normal(shape).astype(np.float32)


def _transform(x: Array, length: int | None = None, **attributes: Any) -> Array:
    inputs, tensors = ("x", {}) if length is None else ("x length", {"length": length})
    return _complex(run_by_interpreter([node("DFT", inputs, "y", **attributes)], x, tensors))


def _error(found: Array, wanted: Array) -> float:
    """The root of the mean square, relative to that of the result."""
    assert found.shape == wanted.shape
    return float(np.sqrt(np.mean(np.abs(found - wanted) ** 2) / np.mean(np.abs(wanted) ** 2)))


@pytest.mark.parametrize("length", _LENGTHS)
def test_transforms_of_any_length_are_as_exact_as_float32_allows(length: int) -> None:
    real, pairs = _random(2, length, 1), _random(2, length, 2)
    x, z = (_complex(each.astype(np.float64)) for each in (real, pairs))
    errors = {
        "real": _error(_transform(real), np.fft.fft(x)),
        "onesided": _error(_transform(real, onesided=1), np.fft.rfft(x)),
        "complex": _error(_transform(pairs), np.fft.fft(z)),
        "inverse": _error(_transform(pairs, inverse=1), np.fft.ifft(z)),
        "inverse of real": _error(_transform(real, inverse=1), np.fft.ifft(x)),
        "inverse onesided": _error(
            _transform(pairs[:, : length // 2 + 1], length, inverse=1, onesided=1),
            np.fft.irfft(z[:, : length // 2 + 1], length),
        ),
        "inverse onesided of real": _error(
            _transform(real[:, : length // 2 + 1], length, inverse=1, onesided=1),
            np.fft.irfft(x[:, : length // 2 + 1], length),
        ),
    }
    assert {name: each for name, each in errors.items() if each > 4e-7} == {}


@pytest.mark.parametrize("axis", [1, 2, -2, -3])
@pytest.mark.parametrize("length", [5, 9, 70, 140])
@pytest.mark.parametrize(
    ("parts", "attributes", "wanted"),
    [
        (1, {}, np.fft.fft), (2, {}, np.fft.fft), (1, {"onesided": 1}, np.fft.rfft), (2, {"inverse": 1}, np.fft.ifft),
        (2, {"inverse": 1, "onesided": 1}, np.fft.irfft),
    ],
)  # fmt: skip
def test_an_axis_is_cut_or_filled_with_zeros_up_to_the_length(
    parts: int, attributes: dict[str, int], wanted: Callable[[Array, int, int], Array], length: int, axis: int
) -> None:
    x = _random(2, 7, 90, parts)
    found = _transform(x, length, axis=axis, **attributes)
    numpys = axis if axis > 0 else axis + 1  # NumPy's arrays have no axis of parts
    assert _error(found, wanted(_complex(x.astype(np.float64)), length, numpys)) < 3e-7


def test_huge_numbers_do_not_reach_results_that_do_not_depend_on_them() -> None:
    x = np.zeros((1, 8, 1), np.float32)
    x[0, 2] = 3e38
    found = _transform(x)[0]
    assert (found.real[1::2] == 0).all()  # i^k of odd k is imaginary
    assert (found.imag[::2] == 0).all()


@pytest.mark.parametrize("frames", [16, 100])
@pytest.mark.parametrize("parts", [1, 2])
def test_frames_of_a_signal_are_weighed_and_transformed(frames: int, parts: int) -> None:
    x, window = _random(2, 210, parts), np.hanning(frames).astype(np.float32)
    found = run_by_interpreter([node("STFT", "x step window", "y")], x, {"step": np.int64(7), "window": window})
    signal, numbers = _complex(x.astype(np.float64)), window.astype(np.float64)
    starts = range(0, 210 - frames + 1, 7)
    cut = np.stack([signal[:, start : start + frames] * numbers for start in starts], 1)
    assert _error(_complex(found), np.fft.rfft(cut) if parts == 1 else np.fft.fft(cut)) < 3e-7


def test_what_is_no_signal_is_refused() -> None:
    with pytest.raises(Unsupported, match="a transform of 0 elements"):
        _transform(_random(2, 4, 1), 0)
    with pytest.raises(Unsupported, match="a Fourier transform of 65537 elements: at most 65536"):
        _transform(_random(2, 4, 1), 65537)
    with pytest.raises(Unsupported, match="a signal of 3 numbers for each element"):
        lower(model_of([node("DFT", "x", "y")], (2, 4, 3)))
