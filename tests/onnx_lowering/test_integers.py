"""Products and convolutions of bytes are exact: beside sums in int64, at the ends of the types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import FLAGS, HEADERS, compiled_together, kernel_object
from tests.onnx_lowering.small_graphs import model_of, node
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import run
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.ground.arrays import Array

_ROWS = 5
_WIDTH = 1024
"""So many products of bytes have sums of up to 2^26: float32 would round them."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """`op` of x, weights w, and zero points; None for one that is left out. `x` has a batch as its first axis."""

    op: str
    x: Array
    w: Array
    x_zero: Array | None = None
    w_zero: Array | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)

    def program(self) -> Program:
        zeros = {"x_zero": self.x_zero, "w_zero": self.w_zero}
        given = {name: zero for name, zero in zeros.items() if zero is not None}
        names = ["x", "w", *(name if name in given else "" for name in zeros)]
        nodes = [{**node(self.op, "", "y", **self.attributes), "inputs": names if given else names[:2]}]
        program = lower(model_of(nodes, (None, *self.x.shape[1:]), {"w": self.w, **given}, dtype=self.x.dtype.name))
        verify(program)
        return program

    def wanted(self) -> Array:
        """The sums in int64."""
        x, w = self.x.astype(np.int64), self.w.astype(np.int64)
        if self.x_zero is not None:
            x = x - (self.x_zero.astype(np.int64)[:, None] if self.x_zero.ndim else int(self.x_zero))
        if self.w_zero is not None:
            zero = self.w_zero.astype(np.int64)
            w = w - (zero[:, None, None, None] if zero.ndim and self.op == "ConvInteger" else zero)
        return x @ w if self.op == "MatMulInteger" else _convolved(x, w, **self.attributes)


def _convolved(x: Array, w: Array, *, strides: tuple[int, int], pads: tuple[int, ...], group: int) -> Array:
    """Padding is the zero point, which is 0 here."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    views = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, :: strides[0], :: strides[1]]
    parts = zip(np.split(views, group, axis=1), np.split(w, group), strict=True)
    return np.concatenate([np.einsum("nchwij,ocij->nohw", view, part) for view, part in parts], axis=1)


def _ends(random: np.random.Generator, dtype: type, *shape: int) -> Array:
    """Both ends of the type, and what is beside them: sums are as large as they can be, and cancel."""
    limits = np.iinfo(dtype)
    return random.choice([limits.min, limits.min + 1, limits.max - 1, limits.max], shape).astype(dtype)


def _largest(dtype: type, *shape: int) -> Array:
    """All at the end that is farthest from 0, but for one product of 2 and 1: the sum is even, and large."""
    limits = np.iinfo(dtype)
    return np.full(shape, limits.min or limits.max, dtype)


def _cases() -> dict[str, Case]:
    random = np.random.default_rng(3)
    found = {}
    for first in (np.uint8, np.int8):
        for second in (np.uint8, np.int8):
            name = f"{first.__name__} by {second.__name__}"
            x, w = _ends(random, first, _ROWS, 3, _WIDTH), _ends(random, second, _WIDTH, 4)
            x_zeros, w_zeros = _ends(random, first, 3), _ends(random, second, 4)
            found[name] = Case(op="MatMulInteger", x=x, w=w)
            found[f"{name}, a zero point each"] = Case(
                op="MatMulInteger", x=x, w=w, x_zero=x_zeros[0], w_zero=w_zeros[0]
            )
            found[f"{name}, a zero point for each row and column"] = Case(
                op="MatMulInteger", x=x, w=w, x_zero=x_zeros, w_zero=w_zeros
            )
            x, w = _largest(first, _ROWS, _WIDTH), _largest(second, _WIDTH, 2)
            x[:, 0], w[0, 0] = 2, 1
            found[f"{name}, the largest"] = Case(op="MatMulInteger", x=x, w=w, w_zero=np.zeros(2, second))
            x, w = _ends(random, first, _ROWS, _WIDTH, 3, 4), _ends(random, second, 4, _WIDTH // 2, 2, 3)
            found[f"{name}, a zero point for each filter"] = Case(
                op="ConvInteger", x=x, w=w, x_zero=x_zeros[0], w_zero=w_zeros,
                attributes={"strides": (1, 2), "pads": (1, 0, 0, 2), "group": 2},
            )  # fmt: skip
    return found


_CASES = _cases()


@pytest.mark.parametrize("name", _CASES)
def test_sums_of_bytes_are_exact(name: str) -> None:
    case = _CASES[name]
    (made,) = interpret.run(case.program(), _ROWS, [case.x], {})
    assert made.dtype == np.int32
    assert np.array_equal(made, case.wanted())


_SCALES = (np.float32(0.37), np.array([0.21, 0.0113, 1.7, 0.5], np.float32), np.float32(131.7))
"""Of x, of each column or filter, and of the result: it is rounded often, and saturates at times."""


def quantized(op: str, width: int, domain: str) -> tuple[Program, Array, Array]:
    """A program, its x and its results: sums in int64, rounded once to float32, times one factor, rounded half to even."""
    random = np.random.default_rng(width)
    x_zero, w_zero, zero = np.uint8(7), np.int8(-3), np.uint8(120)
    x_scale, w_scale, scale = _SCALES
    bias = random.integers(-(10**6), 10**6, 4).astype(np.int32)
    if op == "QLinearConv":
        x, w = _ends(random, np.uint8, _ROWS, width, 2, 3), random.integers(-128, 128, (4, width, 2, 2)).astype(np.int8)
        centered = [each.astype(np.int64) - int(at) for each, at in ((x, x_zero), (w, w_zero))]
        total = _convolved(*centered, strides=(1, 1), pads=(0, 0, 0, 0), group=1) + bias[:, None, None]
        factor = (x_scale * w_scale / scale)[:, None, None]
    else:
        x, w = _ends(random, np.uint8, _ROWS, width), random.integers(-128, 128, (width, 4)).astype(np.int8)
        total = (x.astype(np.int64) - int(x_zero)) @ (w.astype(np.int64) - int(w_zero))
        total = total + bias if op == "QGemm" else total
        factor = x_scale * w_scale / scale
    constants = {
        "x_scale": x_scale, "x_zero": x_zero, "w": w, "w_scale": w_scale, "w_zero": w_zero, "scale": scale,
        "zero": zero, "bias": bias,
    }  # fmt: skip
    last = {
        "QLinearMatMul": ["scale", "zero"],
        "QLinearConv": ["scale", "zero", "bias"],
        "QGemm": ["bias", "scale", "zero"],
    }
    inputs = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", *last[op]]
    graph = model_of(
        [{**node(op, "", "y", domain=domain), "inputs": inputs}], (None, *x.shape[1:]), constants, dtype="uint8"
    )
    program = lower(graph)
    verify(program)
    scaled = np.rint(total.astype(np.float32) * factor.astype(np.float32)) + np.float32(zero)
    return program, x, np.clip(scaled, 0, 255).astype(np.uint8)


QUANTIZED = [
    (op, width, domain)
    for op, domain in (("QLinearMatMul", "ai.onnx"), ("QLinearConv", "ai.onnx"), ("QGemm", "com.microsoft"))
    for width in (3, 40, 2048)
]


@pytest.mark.parametrize(("op", "width", "domain"), QUANTIZED)
def test_quantized_layers_sum_integers_and_round_once(op: str, width: int, domain: str) -> None:
    program, x, wanted = quantized(op, width, domain)
    for each in (program, run(program)):
        (made,) = interpret.run(each, _ROWS, [x], {})
        assert made.dtype == np.uint8
        assert np.array_equal(made, wanted)


def _at_steps() -> tuple[Program, Array, Array]:
    """Sums of more than 2^26, which lie beside the middle between two results: rounded twice, some are one step off."""
    step = 1 << 19
    totals = [place * step + step // 2 + off for place in range(150, 200, 7) for off in range(-24, 25)]
    full, width = 255 * 127, 1 + max(totals) // (255 * 127) + 2
    x = np.zeros((len(totals), width), np.uint8)
    for row, total in zip(x, totals, strict=True):
        row[: total // full] = 255
        row[-2:] = total % full // 127, total % full % 127
    w = np.full((width, 1), 127, np.int8)
    w[-1] = 1
    assert np.array_equal((x.astype(np.int64) @ w)[:, 0], totals)
    scales = {"x_scale": np.float32(2**-10), "w_scale": np.float32(2**-9), "scale": np.float32(1)}
    zeros = {"x_zero": np.uint8(0), "w_zero": np.int8(0), "zero": np.uint8(0)}
    inputs = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "scale", "zero"]
    graph = model_of(
        [{**node("QLinearMatMul", "", "y"), "inputs": inputs}],
        (None, width),
        {"w": w, **scales, **zeros},
        dtype="uint8",
    )
    return lower(graph), x, np.rint(np.array(totals, np.float32) / np.float32(step)).astype(np.uint8)[:, None]


@pytest.mark.slow
def test_compiled_quantized_layers_round_once(shared_home_folder: Path) -> None:
    kernels = kernel_object(shared_home_folder, "g++", FLAGS, headers=HEADERS)
    cases = {
        "at steps": _at_steps(),
        **{f"{op} {width}": quantized(op, width, more) for op, width, more in QUANTIZED},
    }
    made = compiled_together({name: run(program) for name, (program, *_) in cases.items()}, kernels, 2)
    wrong = [name for name, (_, x, wanted) in cases.items() if not np.array_equal(made[name](x)[0], wanted)]
    assert wrong == []


@pytest.mark.slow
def test_compiled_sums_of_bytes_are_exact(shared_home_folder: Path) -> None:
    kernels = kernel_object(shared_home_folder, "g++", FLAGS, headers=HEADERS)
    made = compiled_together({name: run(case.program()) for name, case in _CASES.items()}, kernels, 2)
    wrong = [name for name, case in _CASES.items() if not np.array_equal(made[name](case.x)[0], case.wanted())]
    assert wrong == []
