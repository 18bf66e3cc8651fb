"""The runtime parts for products, convolutions and top-k, against NumPy, through the symbols that XLA's code calls."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.nightly, pytest.mark.slow]

Array = npt.NDArray[Any]
_PREFIX = "__xla_cpu_runtime_"
_DTYPES = {"F16": "float16", "F32": "float32", "F64": "float64", "C64": "complex64", "S32": "int32"}


@pytest.fixture(scope="module")
def library(shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The parts' sources as one library that shows their functions."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    environment = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    folder, native = tmp_path_factory.mktemp("parts"), resources.templates() / "native"
    objects: list[Path] = []
    for part in environment.toolchain.parts:
        if part.source in ("classic/matmul.cc", "classic/convolution.cc", "classic/sort.cc"):
            objects.append(folder / f"{len(objects)}.o")
            run(
                ["g++", "-std=c++17", "-O1", "-DNDEBUG", "-fPIC", *part.defines, "-I", native,
                 "-isystem", environment.include, "-c", native / part.source, "-o", objects[-1]]
            )  # fmt: skip
    run(["g++", "-shared", *objects, "-o", folder / "parts.so"])
    return ctypes.CDLL(str(folder / "parts.so"))


def _values(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    values = np.random.default_rng(seed).integers(-4, 5, shape)  # small integers: every order of sums is exact
    return values.astype(dtype) + (values.T.reshape(shape).astype(dtype) * 1j if dtype == "complex64" else 0)


def _address(array: Array) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("suffix", _DTYPES)
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 7, 5), (5, 1, 9), (3, 4, 1), (17, 33, 65), (64, 2, 300)])
def test_products_of_all_transpositions(library: ctypes.CDLL, suffix: str, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    dtype = _DTYPES[suffix]
    function = getattr(library, f"{_PREFIX}EigenSingleThreadedMatMul{suffix}")
    lhs, rhs = _values((m, k), dtype, 1).astype(dtype), _values((k, n), dtype, 2).astype(dtype)
    for transpose_lhs, transpose_rhs in itertools.product((0, 1), repeat=2):
        # Column-major operands; a transposed one is stored as its transpose.
        a = np.ravel(lhs, order="C" if transpose_lhs else "F").copy()
        b = np.ravel(rhs, order="C" if transpose_rhs else "F").copy()
        out = np.full(m * n, 99, dtype)
        sizes_as_c = [ctypes.c_int64(size) for size in (m, n, k)]
        function(None, _address(out), _address(a), _address(b), *sizes_as_c, transpose_lhs, transpose_rhs)
        assert np.array_equal(out.reshape((m, n), order="F"), lhs @ rhs)


def _convolution(
    image: Array, kernel: Array, strides: tuple[int, ...], padding: tuple[int, ...], dilations: tuple[int, ...],
    kernel_dilations: tuple[int, ...], groups: int, output: tuple[int, ...],
) -> Array:  # fmt: skip
    """By the definition, tap by tap: image [batch, space..., channels], kernel [space..., channels / groups, filters]."""
    rank = len(strides)
    dilated_shape = [(size - 1) * dilation + 1 for size, dilation in zip(image.shape[1:-1], dilations, strict=True)]
    margin = 64
    wide = np.zeros((image.shape[0], *[size + 2 * margin for size in dilated_shape], image.shape[-1]))
    places = tuple(slice(margin, margin + size, step) for size, step in zip(dilated_shape, dilations, strict=True))
    inside = (slice(None), *places)
    wide[inside] = image
    filters, per_group = kernel.shape[-1] // groups, kernel.shape[-2]
    result = np.zeros((image.shape[0], *output, kernel.shape[-1]))
    for tap in itertools.product(*map(range, kernel.shape[:rank])):
        starts = [margin - p + t * d for p, t, d in zip(padding, tap, kernel_dilations, strict=True)]
        window = tuple(slice(s, s + o * step, step) for s, o, step in zip(starts, output, strides, strict=True))
        under_tap = (slice(None), *window)
        seen = wide[under_tap]
        for group in range(groups):
            channels, into = (
                slice(group * per_group, (group + 1) * per_group),
                slice(group * filters, (group + 1) * filters),
            )
            weights: tuple[Any, ...] = (*tap, slice(None), into)
            result[..., into] += seen[..., channels] @ kernel[weights]
    return result


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("rank", [2, 3])
def test_convolutions_of_any_geometry(library: ctypes.CDLL, rank: int, seed: int) -> None:
    draw = np.random.default_rng([rank, seed])

    def several(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(size) for size in draw.integers(low, high, rank))

    groups, per_group, group_filters = (int(x) for x in draw.integers(1, 4, 3))
    batch, space, taps = int(draw.integers(1, 3)), several(3, 9), several(1, 4)
    strides, padding, dilations, kernel_dilations = several(1, 3), several(0, 3), several(1, 3), several(1, 3)
    reach = [
        (size - 1) * d + 1 + 2 * p - (t - 1) * kd
        for size, d, p, t, kd in zip(space, dilations, padding, taps, kernel_dilations, strict=True)
    ]
    output = tuple(max(1, -(-size // stride)) for size, stride in zip(reach, strides, strict=True))
    dtype = "F16" if seed % 5 == 0 else "F32"
    image = _values((batch, *space, groups * per_group), _DTYPES[dtype], 3)
    kernel = _values((*taps, per_group, groups * group_filters), _DTYPES[dtype], 4)
    out = np.full((batch, *output, groups * group_filters), 99, _DTYPES[dtype])
    paddings = [side for p in padding for side in (p, p)]
    numbers = [batch, *space, groups * per_group, *taps, per_group, groups * group_filters, *output, *strides,
               *paddings, *dilations, *kernel_dilations, groups]  # fmt: skip
    function = getattr(library, f"{_PREFIX}EigenSingleThreadedConv{rank}D{dtype}")
    function(None, _address(out), _address(image), _address(kernel), *[ctypes.c_int64(number) for number in numbers])
    expected = _convolution(
        image.astype("float64"), kernel.astype("float64"), strides, padding, dilations, kernel_dilations, groups, output
    )
    assert np.array_equal(out, expected.astype(out.dtype))


def test_the_largest_come_first_and_of_equals_the_first_one(library: ctypes.CDLL) -> None:
    values = np.array([[1, 3, -0.0, 0.0, 3], [-np.inf, np.nan, -1, np.inf, -2]], "float32")
    largest, places = np.zeros((2, 4), "float32"), np.zeros((2, 4), "int32")
    sizes = [ctypes.c_int64(size) for size in (2, 5, 4)]
    library[f"{_PREFIX}TopKF32"](*sizes, _address(values), _address(largest), _address(places))
    assert places.tolist() == [[1, 4, 0, 3], [1, 3, 2, 4]]
    assert np.array_equal(largest, np.take_along_axis(values, places, 1), equal_nan=True)
