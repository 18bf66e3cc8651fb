"""The kernel library, compiled for one target and called on NumPy arrays that end (or begin) at a forbidden page."""

from __future__ import annotations

import ctypes
import importlib.util
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.keys import sha256_file
from tfaot_pkg.process import run
from tfaot_pkg.storage import locked
from tfaot_pkg.targets import Target

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPE = REPOSITORY / "recipes" / "tfaot-kernels" / "all"
PACKING = REPOSITORY / "tfaot_pkg" / "worker_program" / "packing.py"
BRIDGE = Path(__file__).with_name("bridge.cpp")
SOURCES = (RECIPE / "src" / "kernels.cpp", BRIDGE)
FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", f"-I{RECIPE / 'include'}")
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror")

ACTIVATIONS = ("none", "relu", "elu", "selu", "tanh", "sigmoid", "softplus", "gelu_erf", "gelu_tanh", "swish")
Floats = NDArray[np.float32]

_libc = ctypes.CDLL(None, use_errno=True)


def load_packing() -> ModuleType:
    """The packing of the program that runs in toolchains."""
    spec = importlib.util.spec_from_file_location("packing", PACKING)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compile_library(folder: Path, target: Target, *, compiler: str = "g++", more: Sequence[str] = ()) -> Path:
    """The shared library of the kernels, kept in `folder` for as long as nothing of it changes."""
    files = sorted([BRIDGE, Path(__file__), *RECIPE.rglob("*.h"), *RECIPE.rglob("*.cpp")])
    state = "-".join(sha256_file(file)[:4] for file in files)
    library = folder / f"{compiler}-{target.name}-{state}{''.join(more).replace('=', '-')}.so"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / "lock", what="the tests' kernels"):
        if not library.is_file():
            made = library.with_suffix(".part")
            run([compiler, *FLAGS, *WARNINGS, *target.flags, *more, "-shared", "-o", made, *SOURCES], timeout=300)
            made.rename(library)
    return library


def guarded(values: NDArray[np.generic], *, at_end: bool = True) -> Floats:
    """A float32 copy of `values` that ends where memory ends that may be touched, or begins where it begins."""
    page = mmap.PAGESIZE
    data = np.ascontiguousarray(values, np.float32)
    inner = -(-max(data.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, inner + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for forbidden in (start, start + page + inner):
        assert _libc.mprotect(ctypes.c_void_p(forbidden), ctypes.c_size_t(page), 0) == 0
    offset = page + (inner - data.nbytes if at_end else 0)
    view = np.frombuffer(memory, np.float32, data.size, offset).reshape(data.shape)
    view[...] = data
    return view


class _Window(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "in_height in_width channels out_height out_width height width stride_height stride_width "
            "dilation_height dilation_width pad_top pad_left"
        ).split()
    ]


class _Dense(ctypes.Structure):
    _fields_ = [
        ("inputs", ctypes.c_size_t),
        ("outputs", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("activation", ctypes.c_int),
    ]


class _Conv2d(ctypes.Structure):
    _fields_ = [
        ("window", _Window),
        ("filters", ctypes.c_size_t),
        ("groups", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("activation", ctypes.c_int),
    ]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A window's way over its input. Pairs are (height, width)."""

    size: tuple[int, int]
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)

    @property
    def reach(self) -> tuple[int, int]:
        """What the window covers."""
        height, width = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))
        return height, width

    @property
    def out(self) -> tuple[int, int]:
        sizes = zip(self.size, self.before, self.after, self.reach, self.stride, strict=True)
        height, width = ((size + b + a - reach) // stride + 1 for size, b, a, reach, stride in sizes)
        return height, width

    def window(self) -> _Window:
        return _Window(*self.size, self.channels, *self.out, *self.kernel, *self.stride, *self.dilation, *self.before)

    def patches(self, images: NDArray[np.float64], padding: float) -> NDArray[np.float64]:
        """What each window sees: (batch, out height, out width, kernel height, kernel width, channels)."""
        (top, left), (bottom, right) = self.before, self.after
        padded = np.pad(images, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=padding)
        (height, width), (out_height, out_width) = self.kernel, self.out
        result = np.empty((len(images), out_height, out_width, height, width, self.channels))
        for y in range(out_height):
            for x in range(out_width):
                rows = y * self.stride[0] + np.arange(height) * self.dilation[0]
                columns = x * self.stride[1] + np.arange(width) * self.dilation[1]
                result[:, y, x] = padded[:, rows][:, :, columns]
        return result


def _address(array: Floats | None) -> int | None:
    return None if array is None else array.ctypes.data


class Kernels:
    """One compiled library. All arrays that it is given lie beside forbidden pages."""

    def __init__(self, library: Path, *, at_end: bool = True) -> None:
        self.path = library
        self.at_end = at_end
        self._library = ctypes.CDLL(str(library))
        for name in ("packed_size", "packed_conv2d_size", "conv2d_scratch", "conv2d_max_pool_scratch"):
            getattr(self._library, name).restype = ctypes.c_size_t

    def beside_start(self) -> Kernels:
        """The same with arrays that begin, rather than end, at a forbidden page."""
        return Kernels(self.path, at_end=False)

    def _in(self, values: NDArray[np.generic]) -> Floats:
        return guarded(values, at_end=self.at_end)

    def _out(self, *shape: int) -> Floats:
        return self._in(np.full(shape, 12345.0))

    def activate(self, activation: str, values: Floats) -> Floats:
        data, out = self._in(values), self._out(*values.shape)
        pointers = ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data)
        self._library.activate(ACTIVATIONS.index(activation), ctypes.c_size_t(values.size), *pointers)
        return out

    def softmax(self, values: Floats) -> Floats:
        data, out = self._in(values), self._out(*values.shape)
        rows, size = (ctypes.c_size_t(n) for n in values.shape)
        self._library.softmax(rows, size, ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data))
        return out

    def pack(self, weights: Floats) -> Floats:
        rows, columns = (ctypes.c_size_t(n) for n in weights.shape)
        data, packed = self._in(weights), self._out(self._library.packed_size(rows, columns))
        self._library.pack(ctypes.c_void_p(data.ctypes.data), rows, columns, ctypes.c_void_p(packed.ctypes.data))
        return packed

    def dense(self, values: Floats, weights: Floats, bias: Floats | None, activation: str = "none") -> Floats:
        packed, terms, data = self._in(self.pack(weights)), None if bias is None else self._in(bias), self._in(values)
        out = self._out(len(values), weights.shape[1])
        layer = _Dense(*weights.shape, _address(packed), _address(terms), ACTIVATIONS.index(activation))
        pointers = ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data)
        self._library.dense(ctypes.byref(layer), ctypes.c_size_t(len(values)), *pointers)
        return out

    def pack_conv2d(self, shape: Shape, filters: Floats, groups: int) -> Floats:
        layer = _Conv2d(shape.window(), filters.shape[3], groups, None, None, 0)
        packed, data = self._out(self._library.packed_conv2d_size(ctypes.byref(layer))), self._in(filters)
        pointers = ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(packed.ctypes.data)
        self._library.pack_conv2d(ctypes.byref(layer), *pointers)
        return packed

    def conv2d(
        self,
        shape: Shape,
        images: Floats,
        filters: Floats,
        bias: Floats | None,
        *,
        groups: int = 1,
        activation: str = "none",
        pool: Shape | None = None,
    ) -> Floats:
        """With a maximum pooling behind it if `pool` says how."""
        packed, data = self.pack_conv2d(shape, filters, groups), self._in(images)
        terms = None if bias is None else self._in(bias)
        layer = _Conv2d(shape.window(), filters.shape[3], groups, _address(packed), _address(terms))
        layer.activation = ACTIVATIONS.index(activation)
        count = ctypes.c_size_t(len(images))
        if pool is None:
            scratch = self._out(self._library.conv2d_scratch(ctypes.byref(layer)))
            out = self._out(len(images), *shape.out, filters.shape[3])
            pointers = [ctypes.c_void_p(array.ctypes.data) for array in (data, out, scratch)]
            self._library.conv2d(ctypes.byref(layer), count, *pointers)
            return out
        window = pool.window()
        scratch = self._out(self._library.conv2d_max_pool_scratch(ctypes.byref(layer), ctypes.byref(window)))
        out = self._out(len(images), *pool.out, filters.shape[3])
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in (data, out, scratch)]
        self._library.conv2d_max_pool(ctypes.byref(layer), ctypes.byref(window), count, *pointers)
        return out

    def pool(self, name: str, shape: Shape, images: Floats) -> Floats:
        """`name`: max_pool or average_pool."""
        window, data, out = shape.window(), self._in(images), self._out(len(images), *shape.out, shape.channels)
        pointers = ctypes.c_void_p(data.ctypes.data), ctypes.c_void_p(out.ctypes.data)
        getattr(self._library, name)(ctypes.byref(window), ctypes.c_size_t(len(images)), *pointers)
        return out


def sized_like_input(shape: Shape) -> Shape:
    """The same with TensorFlow's padding SAME: as many outputs as inputs over stride, rounded up."""
    pairs = zip(shape.size, shape.stride, shape.reach, strict=True)
    total = [max((-(-size // stride) - 1) * stride + reach - size, 0) for size, stride, reach in pairs]
    before = (total[0] // 2, total[1] // 2)
    return replace(shape, before=before, after=(total[0] - before[0], total[1] - before[1]))
