"""The kernel library, compiled for one target and called on NumPy arrays that end (or begin) at a forbidden page."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.kernels.machines import Buffer, Floats, Machine
from tfaot_pkg.compiler.attributes import Quantized
from tfaot_pkg.compiler.bfloat16 import BLOCK, Windows, windows_of
from tfaot_pkg.compiler.bfloat16 import packed as packed_bfloat16
from tfaot_pkg.compiler.narrow import packed_narrow
from tfaot_pkg.compiler.pruned import kept, listed
from tfaot_pkg.compiler.quantized_layers import packed_depthwise, packed_groups, packed_quantized
from tfaot_pkg.compiler.residuals import affine_form
from tfaot_pkg.compiler.short_sums import Steps, steps_of
from tfaot_pkg.frontends.toolchain.definition import NO_CONTRACTION
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.storage import locked
from tfaot_pkg.ground.targets import Target

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPE = REPOSITORY / "recipes" / "tfaot-kernels" / "all"
BRIDGE = Path(__file__).with_name("bridge.cpp")
SERVER = Path(__file__).with_name("server.cpp")
KERNELS = RECIPE / "src" / "kernels.cpp"
FLAGS = (
    *("-std=c++17", "-O2", NO_CONTRACTION, "-fPIC", "-fno-exceptions", "-fno-rtti", "-fvisibility=hidden"),
    *(f"-I{RECIPE / 'include'}", f"-I{RECIPE / 'src'}"),
)
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wno-sign-conversion", "-Werror")


def compile_library(folder: Path, target: Target, *, compiler: str = "g++", more: Sequence[str] = ()) -> Path:
    """The shared library of the kernels, kept in `folder` for as long as nothing of it changes."""
    return _compiled(folder, target, compiler, [*more, "-shared"], BRIDGE)


def compile_server(folder: Path, target: Target, *, compiler: str, more: Sequence[str] = ()) -> Path:
    """The program server.cpp with the kernels, which needs no library. Kept likewise."""
    return _compiled(folder, target, compiler, [*more, "-static"], SERVER)


def _compiled(folder: Path, target: Target, compiler: str, more: Sequence[str], caller: Path) -> Path:
    files = sorted([BRIDGE, caller, Path(__file__), *RECIPE.rglob("*.h"), *RECIPE.rglob("*.cpp")])
    state = hashlib.sha256("".join(map(sha256_file, files)).encode()).hexdigest()[:16]
    made = folder / f"{compiler}-{target.name}-{state}{''.join(more).replace('=', '-')}"
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / f"{made.name}.lock", what="the tests' kernels"):
        if not made.is_file():
            part = made.with_suffix(".part")
            run([compiler, *FLAGS, *WARNINGS, *target.flags, *more, "-o", part, KERNELS, caller], timeout=1200)
            part.rename(made)
    return made


class _Window(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "in_height in_width channels out_height out_width height width stride_height stride_width "
            "dilation_height dilation_width pad_top pad_left"
        ).split()
    ]


class _Activation(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int if name == "kind" else ctypes.c_float) for name in ("kind", "slope", "low", "high")]


_KINDS = "none relu elu selu tanh sigmoid softplus gelu_erf gelu_tanh swish hard_swish leaky_relu clip".split()
ACTIVATIONS: Mapping[str, _Activation] = {
    **{kind: _Activation(number) for number, kind in enumerate(_KINDS)},
    "leaky_relu": _Activation(_KINDS.index("leaky_relu"), slope=0.3),
    "falling_relu": _Activation(_KINDS.index("leaky_relu"), slope=-0.5),  # the largest value has not the largest result
    "clip": _Activation(_KINDS.index("clip"), low=0, high=6),
}


class _Dense(ctypes.Structure):
    _fields_ = [
        ("inputs", ctypes.c_size_t),
        ("outputs", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("activation", _Activation),
    ]


class _NarrowDense(ctypes.Structure):
    _fields_ = [
        ("inputs", ctypes.c_size_t),
        ("outputs", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("activation", _Activation),
    ]


class _Bfloat16Dense(ctypes.Structure):
    _fields_ = [
        *_Dense._fields_,
        ("parts", ctypes.c_size_t),
        ("is_rounded", ctypes.c_bool),
        ("rounds", ctypes.c_bool),
        ("added", ctypes.c_void_p),
        ("stride", ctypes.c_size_t),
    ]


class _SparseDense(ctypes.Structure):
    _fields_ = [
        ("dense", _Dense),
        ("fewest", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in ("weights", "places", "columns", "counts")),
    ]


class _Bfloat16Conv2d(ctypes.Structure):
    _fields_ = [("window", _Window), ("product", _Bfloat16Dense)]


class _Residual(ctypes.Structure):
    _fields_ = [
        ("added", ctypes.c_void_p),
        ("mask", ctypes.c_int32),
        ("zero_of_added", ctypes.c_int32),
        ("scale", ctypes.c_float),
        ("scale_of_added", ctypes.c_float),
        ("divisor", ctypes.c_float),
        ("factor", ctypes.c_float),
        ("factor_of_added", ctypes.c_float),
        ("offset", ctypes.c_float),
        ("zero", ctypes.c_int32),
        ("low", ctypes.c_int32),
        ("high", ctypes.c_int32),
    ]


class _Steps(ctypes.Structure):
    _fields_ = [("begins", ctypes.c_void_p), ("weights", ctypes.c_void_p), ("words", ctypes.c_void_p)]


class _QuantizedDense(ctypes.Structure):
    _fields_ = [
        ("inputs", ctypes.c_size_t),
        ("outputs", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("zero", ctypes.c_int32),
        ("low", ctypes.c_int32),
        ("high", ctypes.c_int32),
        ("flip", ctypes.c_uint8),
        ("steps", _Steps),
        ("residual", _Residual),
        ("stride", ctypes.c_size_t),
    ]


class _QuantizedConv2d(ctypes.Structure):
    _fields_ = [("window", _Window), ("product", _QuantizedDense), ("padding", ctypes.c_uint8)]


class _QuantizedGroups(ctypes.Structure):
    _fields_ = [("layer", _QuantizedConv2d), ("groups", ctypes.c_size_t)]


@lru_cache(maxsize=8)
def _steps(weights: bytes, shape: tuple[int, int]) -> Steps | None:
    """As many as it takes, whether or not these are faster."""
    return steps_of(np.frombuffer(weights, np.int8).reshape(shape))


@dataclass(frozen=True, kw_only=True)
class Added:
    """Bytes that are added to the result of a quantized layer, and what is made of the sums; `factors` are those of the
    result and of `values`, and the divisor.
    """

    values: NDArray[Any]
    zero_of_values: int
    factors: tuple[np.float32, np.float32, np.float32]
    zero: int
    low: int
    high: int


@dataclass(frozen=True, kw_only=True)
class Requantized:
    """What a quantized layer makes of its sums."""

    scales: NDArray[np.float32]
    zero: int
    low: int
    high: int
    added: Added | None = None

    @property
    def affine(self) -> tuple[np.float32, ...] | None:
        """As the compiler gives it to a layer."""
        assert self.added is not None
        added = self.added
        residual = added.zero_of_values, added.zero, added.low, added.high
        layer = Quantized(zero=self.zero, low=self.low, high=self.high, residual=residual)
        dtype, factors = ("u8" if added.values.dtype == np.uint8 else "s8"), np.array(added.factors, np.float32)
        return affine_form(layer, dtype, factors)


class Form(Enum):
    """How a quantized layer is computed; the values are parts of names in bridge.cpp."""

    FASTEST = ""
    IN_PAIRS = "_in_pairs"  # as on CPUs without dot products
    BY_STEPS = "_by_steps"  # as on CPUs with AVX2 and without dot products
    BY_TILES = "_by_tiles"
    BY_TEAM = "_by_team"
    TILES_BY_TEAM = "_tiles_by_team"


class Bfloat16Form(Enum):
    """The same for layers of bfloat16."""

    FASTEST = ""
    AS_FLOATS = "_as_floats"  # as on CPUs without products of bfloat16
    BY_TEAM = "_by_team"


class _Conv2d(ctypes.Structure):
    _fields_ = [
        ("window", _Window),
        ("filters", ctypes.c_size_t),
        ("groups", ctypes.c_size_t),
        ("weights", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("activation", _Activation),
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

    @property
    def of_bfloat16(self) -> Windows:
        """How a layer of bfloat16 reads them."""
        window = self.window()
        return windows_of([getattr(window, field[0]) for field in window._fields_])

    def over_spread(self) -> Shape:
        """The same over images with zeros between pixels, stride - 1 of them."""
        height, width = ((size - 1) * stride + 1 for size, stride in zip(self.size, self.stride, strict=True))
        return replace(self, size=(height, width), stride=(1, 1))

    def transposed(self) -> _Window:
        out = self.over_spread().out
        return _Window(*self.size, self.channels, *out, *self.kernel, *self.stride, *self.dilation, *self.before)

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


class Kernels:
    """The kernels of one target on a machine. All arrays that they are given lie beside forbidden pages."""

    def __init__(self, machine: Machine, *, at_end: bool = True) -> None:
        self._machine = machine
        self._at_end = at_end

    def beside_start(self) -> Kernels:
        """The same with arrays that begin, rather than end, at a forbidden page."""
        return Kernels(self._machine, at_end=False)

    def _in(self, values: NDArray[np.generic]) -> Buffer:
        return self._exactly(np.asarray(values, np.float32))

    def _exactly(self, values: NDArray[np.generic]) -> Buffer:
        return self._machine.buffer(values, at_end=self._at_end)

    def _out(self, *shape: int) -> Buffer:
        return self._in(np.full(shape, 12345.0))

    def activate(self, activation: str, values: Floats) -> Floats:
        data, out = self._in(values), self._out(*values.shape)
        self._machine.call("activate", ACTIVATIONS[activation], values.size, data.address, out.address)
        return out.read()

    def add(self, activation: str, first: Floats, second: Floats) -> Floats:
        arrays = self._in(first), self._in(second), self._out(*first.shape)
        self._machine.call("add", ACTIVATIONS[activation], first.size, *(array.address for array in arrays))
        return arrays[-1].read()

    def softmax(self, values: Floats) -> Floats:
        data, out = self._in(values), self._out(*values.shape)
        self._machine.call("softmax", *values.shape, data.address, out.address)
        return out.read()

    def scale_rows(self, values: Floats, factors: Floats, added: Floats) -> Floats:
        """`values * factors[:, None] + added`, of rows among others, for the widths that bridge.cpp lists."""
        rows, size = values.shape
        apart = np.concatenate([values, np.full_like(values, np.nan)], axis=1).ravel()[:-size]
        data, numbers, row = self._in(apart), self._in(factors), self._in(added)
        out = self._out(rows * (size + 1) - 1)
        self._machine.call("scale_rows", size, rows, data.address, numbers.address, row.address, out.address)
        return np.append(out.read(), np.float32(0)).reshape(rows, size + 1)[:, :size]

    def _packed(self, weights: Floats) -> Buffer:
        data, packed = self._in(weights), self._out(self._machine.call("packed_size", *weights.shape))
        self._machine.call("pack", data.address, *weights.shape, packed.address)
        return packed

    def pack(self, weights: Floats) -> Floats:
        return self._packed(weights).read()

    def dense(self, values: Floats, weights: Floats, bias: Floats | None, activation: str = "none") -> Floats:
        packed, terms, data = self._packed(weights), None if bias is None else self._in(bias), self._in(values)
        out = self._out(len(values), weights.shape[1])
        layer = _Dense(*weights.shape, packed.address, terms and terms.address, ACTIVATIONS[activation])
        self._machine.call("dense", layer, len(values), data.address, out.address)
        return out.read()

    def sparse_dense(
        self, values: Floats, weights: Floats, bias: Floats | None, activation: str = "none", *, fewest: int = 1
    ) -> Floats:
        """The same by lists of the weights that are not zero, from `fewest` rows on."""
        packed, terms, data = self._packed(weights), None if bias is None else self._in(bias), self._in(values)
        made = listed(weights, kept(weights, bias), fewest)
        arrays = [self._exactly(each) for each in (made.weights, made.places, made.columns, made.counts)]
        whole = _Dense(*weights.shape, packed.address, terms and terms.address, ACTIVATIONS[activation])
        layer = _SparseDense(whole, fewest, *(each.address for each in arrays))
        scratch = self._out(self._machine.call("sparse_dense_scratch", *weights.shape))
        out = self._out(len(values), weights.shape[1])
        self._machine.call("sparse_dense", layer, len(values), data.address, out.address, scratch.address)
        return out.read()

    def narrow_dense(
        self,
        values: Floats,
        weights: NDArray[np.generic],
        scales: Floats | None,
        bias: Floats | None,
        activation: str = "none",
    ) -> Floats:
        """`weights`: int8 with `scales`, otherwise float32 that are rounded to bfloat16."""
        numbers = packed_narrow(weights, scales)
        held = [None if each is None else self._exactly(each) for each in (*numbers, bias)]
        addresses = [each and each.address for each in held]
        data, out = self._in(values), self._out(len(values), weights.shape[1])
        layer = _NarrowDense(*weights.shape, *addresses, ACTIVATIONS[activation])
        self._machine.call("narrow_dense", layer, len(values), data.address, out.address)
        return out.read()

    def bfloat16_dense(
        self,
        values: Floats | NDArray[np.uint16],
        weights: Floats,
        bias: Floats | None,
        activation: str = "none",
        *,
        parts: int = 1,
        rounds: bool = False,
        added: Floats | None = None,
        form: Bfloat16Form = Bfloat16Form.FASTEST,
    ) -> Floats:
        """Of floats, or of bits of bfloat16. If it `rounds`, results are such bits, here as floats."""
        layer, _held = self._bfloat16(weights, bias, activation, parts)
        scratch = self._scratch("bfloat16_dense_scratch", len(weights), parts)
        call = f"bfloat16_dense{form.value}"
        return self._reduced(
            call, layer, layer, values, (len(values), weights.shape[1]), scratch, rounds=rounds, added=added
        )

    def _reduced(
        self,
        function: str,
        layer: ctypes.Structure,
        product: _Bfloat16Dense,
        values: Floats | NDArray[np.uint16],
        made: tuple[int, ...],
        scratch: Buffer,
        *,
        rounds: bool,
        added: Floats | None,
    ) -> Floats:
        product.is_rounded, product.rounds = values.dtype == np.uint16, rounds
        held = None if added is None else self._in(added)
        product.added = None if held is None else held.address
        data = self._exactly(values) if product.is_rounded else self._in(values)
        out = self._exactly(np.full(made, 12345, np.uint16)) if rounds else self._out(*made)
        self._machine.call(function, layer, len(values), data.address, out.address, scratch.address)
        found = out.read()
        return (found.astype(np.uint32) << 16).view(np.float32) if rounds else found

    def bfloat16_conv2d(
        self,
        shape: Shape,
        images: Floats | NDArray[np.uint16],
        filters: Floats,
        bias: Floats | None,
        activation: str = "none",
        *,
        parts: int = 1,
        rounds: bool = False,
        added: Floats | None = None,
        form: Bfloat16Form = Bfloat16Form.FASTEST,
    ) -> Floats:
        """The same of the windows of images."""
        read = shape.of_bfloat16
        weights = read.filled(filters, 2).reshape(-1, filters.shape[3])
        product, _held = self._bfloat16(weights, bias, activation, parts, read.block)
        layer = _Bfloat16Conv2d(shape.window(), product)
        scratch = self._scratch("bfloat16_conv2d_scratch", layer.window, parts)
        made = (len(images), *shape.out, filters.shape[3])
        call = f"bfloat16_conv2d{form.value}"
        return self._reduced(call, layer, layer.product, images, made, scratch, rounds=rounds, added=added)

    def bfloat16_product(self, values: Floats, matrix: Floats) -> Floats:
        """Rows times a matrix, both of which may be views with any strides; results lie three floats apart."""
        (count, inputs), outputs = values.shape, matrix.shape[1]
        steps = [step // matrix.itemsize for step in (*matrix.strides, values.strides[0])]
        held = [self._exactly(_reached(each)) for each in (matrix, values)]
        size = self._machine.call("packed_bfloat16_size", inputs, outputs)
        packed = self._out(size + self._machine.call("bfloat16_dense_scratch", inputs, 1))
        self._machine.call("pack_bfloat16", held[0].address, inputs, outputs, *steps[:2], packed.address)
        out = self._out(count, outputs + 3)
        layer = _Bfloat16Dense(inputs, outputs, None, None, ACTIVATIONS["none"], 1, False, False, None, outputs + 3)
        self._machine.call("bfloat16_product", layer, count, held[1].address, steps[2], out.address, packed.address)
        return out.read()[:, :outputs]

    def _bfloat16(
        self, weights: Floats, bias: Floats | None, activation: str, parts: int, block: int = BLOCK
    ) -> tuple[_Bfloat16Dense, list[Buffer]]:
        """A layer, and the memory that it points to."""
        held = [self._exactly(packed_bfloat16(weights, block, parts)), *([] if bias is None else [self._in(bias)])]
        addresses = [each.address for each in held] + [None] * (bias is None)
        return _Bfloat16Dense(*weights.shape, *addresses, ACTIVATIONS[activation], parts, False, False, None, 0), held

    def _scratch(self, function: str, *sizes: int | ctypes.Structure) -> Buffer:
        """Words that are NaN as floats."""
        return self._exactly(np.full(self._machine.call(function, *sizes), 0xFFFFFFFF, np.uint32))

    def quantized_dense(
        self,
        values: NDArray[np.integer],
        weights: NDArray[np.int8],
        bias: NDArray[np.int32],
        made: Requantized | None = None,
        *,
        form: Form = Form.FASTEST,
    ) -> NDArray[np.integer]:
        """Its results as `values.dtype` with `made`, otherwise its sums."""
        layer, _held = self._quantized(values.dtype, weights, bias, made)
        call = "quantized_dense", layer, (len(values), weights.shape[1])
        return self._of_bytes(*call, values, made, form=form)

    def quantized_conv2d(
        self,
        shape: Shape,
        images: NDArray[np.integer],
        filters: NDArray[np.int8],
        bias: NDArray[np.int32],
        made: Requantized | None = None,
        *,
        padding: int,
        form: Form = Form.FASTEST,
    ) -> NDArray[np.integer]:
        """The same of the windows of images."""
        product, _held = self._quantized(images.dtype, filters.reshape(-1, filters.shape[3]), bias, made)
        layer = _QuantizedConv2d(shape.window(), product, padding % 256)
        call = "quantized_conv2d", layer, (len(images), *shape.out, filters.shape[3])
        return self._of_bytes(*call, images, made, form=form)

    def quantized_groups(
        self,
        shape: Shape,
        images: NDArray[np.integer],
        filters: NDArray[np.int8],
        bias: NDArray[np.int32],
        made: Requantized | None = None,
        *,
        padding: int,
        form: Form = Form.FASTEST,
    ) -> NDArray[np.integer]:
        """The same in groups of channels, as many as `filters` have for the channels of the images."""
        groups, (depth, count) = shape.channels // filters.shape[2], filters.shape[2:]
        is_depthwise = depth == 1 and count == groups
        scales = None if made is None else made.scales
        numbers = (
            packed_depthwise(filters, bias, scales, images.dtype)
            if is_depthwise
            else packed_groups(filters, groups, bias, scales, images.dtype)
        )
        held = [self._exactly(each) for each in numbers]
        product = self._layer(images.dtype, (filters[..., 0].size, count), held, made)
        layer: Any = _QuantizedConv2d(shape.window(), product, padding % 256)
        layer = layer if is_depthwise else _QuantizedGroups(layer, groups)
        name = "quantized_depthwise" if is_depthwise else "quantized_groups"
        return self._of_bytes(name, layer, (len(images), *shape.out, count), images, made, form=form)

    def may_use_tiles(self) -> bool:
        """Whether the CPU has tiles for products of bytes, and Linux lets this process use them from now on."""
        return self._machine.call("may_use_tiles") != 0

    def _quantized(
        self, dtype: np.dtype[Any], weights: NDArray[np.int8], bias: NDArray[np.int32], made: Requantized | None
    ) -> tuple[_QuantizedDense, list[Buffer]]:
        """A layer, and the memory that it points to."""
        numbers = packed_quantized(weights, bias, None if made is None else made.scales, dtype)
        given = [self._exactly(each) for each in numbers]
        layer = self._layer(dtype, weights.shape, given, made)
        if (steps := _steps(weights.tobytes(), weights.shape)) is not None:
            arrays = [self._exactly(each) for each in (steps.begins, steps.weights, steps.words)]
            layer.steps = _Steps(*(each.address for each in arrays))
            given += arrays
        return layer, given

    def _layer(
        self, dtype: np.dtype[Any], sizes: tuple[int, ...], numbers: list[Buffer], made: Requantized | None
    ) -> _QuantizedDense:
        layer = _QuantizedDense(*sizes, *(each.address for each in numbers))
        layer.flip = 0x80 if dtype == np.int8 else 0
        if made is not None:
            layer.zero, layer.low, layer.high = made.zero, made.low, made.high
        if made is not None and (added := made.added) is not None:
            values = self._exactly(added.values)
            numbers.append(values)
            mask = 255 if added.values.dtype == np.uint8 else -1
            ends = added.zero, added.low, added.high
            factors = *added.factors, *(made.affine or (0, 0, 0))
            layer.residual = _Residual(values.address, mask, added.zero_of_values, *map(float, factors), *ends)
        return layer

    def _of_bytes(
        self,
        name: str,
        layer: _QuantizedDense | _QuantizedConv2d | _QuantizedGroups,
        shape: tuple[int, ...],
        values: NDArray[np.integer],
        made: Requantized | None,
        *,
        form: Form,
    ) -> NDArray[np.integer]:
        scratch = self._exactly(np.full(self._machine.call(f"{name}_scratch", layer), 0xDEADBEEF, np.uint32))
        data, out = self._exactly(values), self._exactly(np.full(shape, 99, np.int32 if made is None else values.dtype))
        self._machine.call(f"{name}{form.value}", layer, len(values), data.address, out.address, scratch.address)
        return out.read()

    def _packed_conv2d(self, shape: Shape, filters: Floats, groups: int) -> Buffer:
        layer = _Conv2d(shape.window(), filters.shape[3], groups, None, None)
        packed, data = self._out(self._machine.call("packed_conv2d_size", layer)), self._in(filters)
        self._machine.call("pack_conv2d", layer, data.address, packed.address)
        return packed

    def pack_conv2d(self, shape: Shape, filters: Floats, groups: int) -> Floats:
        return self._packed_conv2d(shape, filters, groups).read()

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
        keeps_nan: bool = False,
    ) -> Floats:
        """With a maximum pooling behind it if `pool` says how."""
        packed, data = self._packed_conv2d(shape, filters, groups), self._in(images)
        terms = None if bias is None else self._in(bias)
        layer = _Conv2d(shape.window(), filters.shape[3], groups, packed.address, terms and terms.address)
        layer.activation = ACTIVATIONS[activation]
        name, layers = ("conv2d", [layer]) if pool is None else ("conv2d_max_pool", [layer, pool.window()])
        scratch = self._out(self._machine.call(f"{name}_scratch", *layers))
        name = f"{name}_nan" if keeps_nan else name
        out = self._out(len(images), *(pool or shape).out, filters.shape[3])
        self._machine.call(name, *layers, len(images), data.address, out.address, scratch.address)
        return out.read()

    def transposed_conv2d(
        self, shape: Shape, images: Floats, filters: Floats, bias: Floats | None, activation: str = "none"
    ) -> Floats:
        """`shape` moves over the images with zeros between their pixels; its stride is how many there are, plus one."""
        packed, data = self._packed_conv2d(shape, filters, 1), self._in(images)
        terms = None if bias is None else self._in(bias)
        layer = _Conv2d(shape.transposed(), filters.shape[3], 1, packed.address, terms and terms.address)
        layer.activation = ACTIVATIONS[activation]
        scratch = self._out(self._machine.call("transposed_conv2d_scratch", layer))
        out = self._out(len(images), *shape.over_spread().out, filters.shape[3])
        self._machine.call("transposed_conv2d", layer, len(images), data.address, out.address, scratch.address)
        return out.read()

    def max_pool(self, shape: Shape, images: Floats, *, keeps_nan: bool = False) -> Floats:
        return self._pool("max_pool_nan" if keeps_nan else "max_pool", shape, images)

    def average_pool(self, shape: Shape, images: Floats) -> Floats:
        return self._pool("average_pool", shape, images)

    def _pool(self, name: str, shape: Shape, images: Floats) -> Floats:
        data, out = self._in(images), self._out(len(images), *shape.out, shape.channels)
        self._machine.call(name, shape.window(), len(images), data.address, out.address)
        return out.read()

    def max_pool_of_bytes(self, shape: Shape, images: NDArray[np.integer]) -> NDArray[np.integer]:
        out = np.full((len(images), *shape.out, shape.channels), 99, images.dtype)
        data, made = self._exactly(images), self._exactly(out)
        name = "max_pool_s8" if images.dtype == np.int8 else "max_pool_u8"
        self._machine.call(name, shape.window(), len(images), data.address, made.address)
        return made.read()

    def look_up(self, table: NDArray[np.uint8], values: NDArray[np.uint8]) -> NDArray[np.integer]:
        known, data, made = self._exactly(table), self._exactly(values), self._exactly(np.full_like(values, 99))
        self._machine.call("look_up", known.address, len(values), data.address, made.address)
        return made.read()


def _reached(view: Floats) -> Floats:
    """All floats from the first one of a view to its last one."""
    size = 1 + sum((size - 1) * step // view.itemsize for size, step in zip(view.shape, view.strides, strict=True))
    return np.array(np.lib.stride_tricks.as_strided(view, (size,), (view.itemsize,)), np.float32)


def sized_like_input(shape: Shape) -> Shape:
    """The same with TensorFlow's padding SAME: as many outputs as inputs over stride, rounded up."""
    pairs = zip(shape.size, shape.stride, shape.reach, strict=True)
    total = [max((-(-size // stride) - 1) * stride + reach - size, 0) for size, stride, reach in pairs]
    before = (total[0] // 2, total[1] // 2)
    return replace(shape, before=before, after=(total[0] - before[0], total[1] - before[1]))
