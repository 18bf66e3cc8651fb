"""The last elements of rows, which fill a part of a vector, of types with elements of one or two bytes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.program import NUMPY_TYPES

pytestmark = pytest.mark.slow  # compiles its code


@pytest.mark.sweep("3", "21")
@pytest.mark.parametrize("size", [1, 3, 7, 21, 36])
def test_truth_values_and_short_floats_of_any_row_are_read_and_written(compiled: Compile, size: int) -> None:
    writer = Writer()
    x, which, bits = writer.input(size), writer.input(size, dtype="pred"), writer.input(size, dtype="u16")
    weights = np.random.default_rng(size).normal(size=size).astype(np.float32)
    spread = writer.add("broadcast", (N, size), writer.constant(weights), dimensions=(1,))
    chosen = writer.add("select", (N, size), which, x, spread)  # rows stay apart: weights are those of each
    above = writer.add("compare", (N, size), x, spread, dtype="pred", direction="GT")
    half = writer.add("f16-of-bits", (N, size), bits)
    rounded = writer.add("round-to-f16", (N, size), writer.add("maximum", (N, size), half, spread))
    back = writer.add("bits-of-f16", (N, size), rounded, dtype="u16")
    code = compiled(writer.program(chosen, above, half, back), 4)
    random = np.random.default_rng(3)
    for rows in (1, 9):
        values, truths = random.normal(size=(rows, size)).astype(np.float32), random.random((rows, size)) < 0.5
        short = random.normal(size=(rows, size)).astype(np.float16)
        given = code(values, truths, short.view(np.uint16))
        largest = np.maximum(short.astype(np.float32), weights).astype(np.float16)
        np.testing.assert_array_equal(given[0], np.where(truths, values, weights))
        np.testing.assert_array_equal(given[1], values > weights)
        np.testing.assert_array_equal(given[2], short.astype(np.float32))
        np.testing.assert_array_equal(given[3], largest.view(np.uint16))


_EDGES = (
    -3e9,
    -256.5,
    -129,
    -128.5,
    -128,
    -1.5,
    -0.5,
    -0.0,
    0.5,
    1.5,
    127,
    127.5,
    128,
    255,
    255.5,
    256,
    3e9,
    np.inf,
    -np.inf,
    np.nan,
)
"""Floats around the ends of bytes."""


@pytest.mark.parametrize("size", [1, 5, 8, 20, 37])
@pytest.mark.parametrize("dtype", ["s8", "u8"])
def test_bytes_in_vectors_of_integers_stay_bytes(compiled: Compile, dtype: str, size: int) -> None:
    """Whole vectors and parts, side by side, apart and turned around. Integers lose bits, floats are limited."""
    writer, kind = Writer(), NUMPY_TYPES[dtype]
    x, y = writer.input(size, 3, dtype=dtype), writer.input(size, 3, dtype=dtype)
    whole, real, cross = writer.input(size, 3, dtype="s32"), writer.input(size, 3), writer.input(3, size, dtype="s32")
    row, every = (N, size), (N, size, 3)

    def cut(value: int, dtype: str) -> int:
        """Elements that lie three apart."""
        part = writer.add("slice", (N, size, 1), value, dtype=dtype, slices=((0, N, 1), (0, size, 1), (1, 2, 1)))
        return writer.add("reshape", row, part, dtype=dtype)

    def convert(value: int, dtype: str) -> int:
        return writer.add("convert", row, value, dtype=dtype)

    a, b, n, f = cut(x, dtype), cut(y, dtype), cut(whole, "s32"), cut(real, "f32")
    turned = writer.add("reverse", every, y, dtype=dtype, dimensions=(1,))
    is_less = writer.add("compare", row, a, b, dtype="pred", direction="LT")
    results = (
        convert(f, dtype), convert(n, dtype), convert(is_less, dtype), convert(a, "f32"), convert(a, "s32"), convert(a, "pred"),
        convert(a, "u8" if dtype == "s8" else "s8"), writer.add("select", row, is_less, a, b, dtype=dtype),
        writer.add("xor", row, a, b, dtype=dtype), writer.add("compare", row, a, b, dtype="pred", direction="GE"),
        writer.add("maximum", every, x, turned, dtype=dtype),
        writer.add("convert", every, writer.add("minimum", every, x, y, dtype=dtype)),
        writer.add("convert", (N, 3, size), writer.add("transpose", (N, 3, size), real, dimensions=(0, 2, 1)), dtype=dtype),
        writer.add("convert", every, writer.add("transpose", every, cross, dtype="s32", dimensions=(0, 2, 1)), dtype=dtype),
    )  # fmt: skip
    code = compiled(writer.program(*results), 8)
    random = np.random.default_rng(size)
    for rows in (1, 9):
        bytes_ = [random.integers(-128, 256, (rows, size, 3)).astype(kind) for _ in range(2)]
        integers = random.integers(-(2**31), 2**31, (rows, size, 3)).astype(np.int32)
        floats = random.choice(np.array(_EDGES, np.float32), (rows, size, 3))
        first, second, numbers = (each[:, :, 1] for each in (*bytes_, integers))
        ends = np.iinfo(kind)
        with np.errstate(invalid="ignore"):
            whole_floats = np.trunc(np.clip(np.nan_to_num(floats.astype(np.float64), nan=0.0), ends.min, ends.max))
        other = np.int8 if kind == np.uint8 else np.uint8
        wanted = (
            whole_floats[:, :, 1].astype(kind), numbers.astype(kind), (first < second).astype(kind), first.astype(np.float32), first.astype(np.int32), first != 0,
            first.astype(other), np.where(first < second, first, second), first ^ second, first >= second,
            np.maximum(bytes_[0], bytes_[1][:, ::-1]), np.minimum(*bytes_).astype(np.float32),
            whole_floats.swapaxes(1, 2).astype(kind), integers.astype(kind),
        )  # fmt: skip
        for given, expected in zip(code(*bytes_, integers, floats, integers.swapaxes(1, 2)), wanted, strict=True):
            np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("dtype", ["s32", "u8", "s64"])
def test_bits_are_counted(compiled: Compile, dtype: str) -> None:
    writer = Writer()
    x = writer.input(21, dtype=dtype)
    code = compiled(
        writer.program(*(writer.add(name, (N, 21), x, dtype=dtype) for name in ("popcnt", "count-leading-zeros"))), 4
    )
    kind = np.dtype({"s32": np.int32, "u8": np.uint8, "s64": np.int64}[dtype])
    random, width = np.random.default_rng(3), 8 * kind.itemsize
    values = random.integers(0, 2**width, (9, 21), dtype=np.uint64) >> random.integers(
        0, width, (9, 21), dtype=np.uint64
    )
    values[0, :3] = [0, 1, 2**width - 1]
    ones, zeros = code(values.astype(f"u{kind.itemsize}").view(kind))
    np.testing.assert_array_equal(ones, np.vectorize(lambda value: int(value).bit_count())(values))
    np.testing.assert_array_equal(zeros, np.vectorize(lambda value: width - int(value).bit_length())(values))


def test_truth_values_side_by_side_are_combined_in_vectors(compiled: Compile) -> None:
    """Whether each number is among a few, and whether it is all of them."""
    writer, few = Writer(), [3, -1, 7, 4, 4]
    x = writer.input(21, dtype="s32")
    spread = writer.add("broadcast", (N, 21, 5), x, dtype="s32", dimensions=(0, 1))
    numbers = writer.add("broadcast", (N, 21, 5), writer.constant(few, "s32"), dtype="s32", dimensions=(2,))
    found = [
        writer.add(
            "reduce", (N, 21), writer.add("compare", (N, 21, 5), spread, numbers, dtype="pred", direction="EQ"),
            writer.constant(start, "pred"), dtype="pred", dimensions=(2,), regions=(writer.reducer(name, "pred"),),
        )
        for name, start in (("or", False), ("and", True), ("or", True))
    ]  # fmt: skip
    program = writer.program(*found)
    values = np.random.default_rng(3).integers(-2, 9, (9, 21)).astype(np.int32)
    among, all_of, always = compiled(program, 4)(values)
    np.testing.assert_array_equal(among, np.isin(values, few))
    assert not all_of.any()
    assert always.all()
