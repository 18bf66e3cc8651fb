"""Loops over the same short rows: one loop, whose values stay in registers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.program import Program

_LINES = 5


def _reduced(writer: Writer, value: int, opcode: str, start: float) -> int:
    reducer = writer.reducer(opcode)
    return writer.add("reduce", (N, _LINES), value, writer.constant(start), dimensions=(2,), regions=(reducer,))


def _of_row(writer: Writer, value: int, size: int) -> int:
    return writer.add("broadcast", (N, _LINES, size), value, dimensions=(0, 1))


def _normalized(writer: Writer, x: int, size: int) -> tuple[int, int]:
    """Rows without their means, divided by their norms and scaled; and these norms."""
    shape = (N, _LINES, size)
    mean = writer.add("divide", (N, _LINES), _reduced(writer, x, "add", 0.0), writer.spread(size, _LINES))
    apart = writer.add("subtract", shape, x, _of_row(writer, mean, size))
    square = writer.add("multiply", shape, apart, apart)
    norm = writer.add("sqrt", (N, _LINES), _reduced(writer, square, "add", 1.0))
    scale = writer.add("broadcast", shape, writer.constant(np.arange(size) + 0.5), dimensions=(2,))
    made = writer.add("divide", shape, apart, _of_row(writer, norm, size))
    return writer.add("multiply", shape, made, scale), norm


def _expected(x: Array) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    apart = wide - wide.mean(-1, keepdims=True)
    norm = np.sqrt(1 + (apart**2).sum(-1))
    return apart / norm[..., None] * (np.arange(x.shape[-1]) + 0.5), norm


def _program(size: int) -> Program:
    writer = Writer()
    x = writer.input(_LINES, size)
    made, norm = _normalized(writer, x, size)
    least = _reduced(writer, made, "minimum", np.inf)
    return writer.program(made, norm, least)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 9])
def test_rows_are_normalized_with_the_same_bits_in_any_batch(compiled: Compile, size: int) -> None:
    code = compiled(_program(size), 8)
    values = np.random.default_rng(size).normal(size=(20, _LINES, size)).astype(np.float32)
    many = code(values)
    rows, norms = _expected(values)
    for got, wanted in zip(many, (rows, norms, rows.min(-1)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=1e-6)
    for count in range(1, 20):
        for got, wanted in zip(code(values[:count]), many, strict=True):
            np.testing.assert_array_equal(got, wanted[:count])


def test_a_chain_writes_only_what_others_read() -> None:
    """The means and differences are in no memory; the norms and the rows are outputs."""
    source = emit(_program(3), "program", 8).source
    assert re.findall(r"(?<!\.)\beach\w*[<(]", source.split("namespace {")[1]) == ["eachTile<"]
    assert len(re.findall(r"tile\.store\(", source)) == 3
    assert emit(_program(3), "program", 8).scratch == 0


@pytest.mark.slow
def test_what_later_loops_read_of_a_chain_is_in_memory(compiled: Compile) -> None:
    """Means are read by a loop in another order, after a layer in between; a loop that reads its own rows later does not join."""
    writer = Writer()
    x = writer.input(_LINES, 3)
    made, norm = _normalized(writer, x, 3)
    turned = writer.add("reverse", (N, _LINES, 3), made, dimensions=(1,))
    sums = _reduced(writer, turned, "add", 0.0)
    first = writer.add("broadcast", (N, _LINES, 3), writer.add(
        "reshape", (N,), writer.add("slice", (N, 1), norm, slices=((0, N, 1), (0, 1, 1)))
    ), dimensions=(0,))  # fmt: skip
    both = writer.add("add", (N, _LINES, 3), made, first)
    code = compiled(writer.program(sums, both), 8)
    for rows in (1, 3, 11):
        values = np.random.default_rng(rows).normal(size=(rows, _LINES, 3)).astype(np.float32)
        wanted, norms = _expected(values)
        got = code(values)
        np.testing.assert_allclose(got[0], wanted[:, ::-1].sum(-1), rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(got[1], wanted + norms[:, :1, None], rtol=3e-6, atol=1e-6)
