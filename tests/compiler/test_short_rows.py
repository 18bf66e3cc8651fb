"""Rows that fill a part of a vector: several of them go into one, with the results of one row at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.ground.arrays import Array

pytestmark = pytest.mark.slow  # each compiles its code

_ROWS = (1, 2, 7, 40)
_LINES = 5


def _spread(writer: Writer, sizes: tuple[int, ...], value: int, *axes: int, dtype: str = "f32") -> int:
    return writer.add("broadcast", (N, *sizes), value, dtype=dtype, dimensions=axes)


@pytest.mark.sweep("3", "4", "9")
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7, 8, 9])
def test_short_rows_are_computed_for_any_number_of_rows(compiled: Compile, size: int) -> None:
    """Rows by a number of each row, by one row for all, in pairs, and cut out of longer rows; integers as well."""
    writer, shape, pairs = Writer(), (_LINES, size), (_LINES, _LINES, size)
    x, of_row, of_all = writer.input(*shape), writer.input(_LINES), writer.input(size)
    whole, numbers = writer.input(3 * size), writer.input(*shape, dtype="s32")
    by_row = writer.add("multiply", (N, *shape), x, _spread(writer, shape, of_row, 0, 1))
    by_all = writer.add("subtract", (N, *shape), x, _spread(writer, shape, of_all, 0, 2))
    outer = writer.add("add", (N, *shape), _spread(writer, shape, of_row, 0, 1), _spread(writer, shape, of_all, 0, 2))
    paired = writer.add("multiply", (N, *pairs), _spread(writer, pairs, x, 0, 1, 3), _spread(writer, pairs, x, 0, 2, 3))
    cut = [
        writer.add("slice", (N, size), whole, slices=((0, N, 1), (part * size, (part + 1) * size, 1)))
        for part in range(3)
    ]
    summed = writer.add("add", (N, size), writer.add("add", (N, size), cut[0], cut[1]), cut[2])
    weights = writer.constant(range(size), "s32")
    scaled = writer.add("multiply", (N, *shape), numbers, _spread(writer, shape, weights, 2, dtype="s32"), dtype="s32")
    code = compiled(writer.program(by_row, by_all, outer, paired, summed, scaled), 16)
    random = np.random.default_rng(size)
    for rows in _ROWS:
        a, b, c, d = (
            random.normal(size=(rows, *each)).astype(np.float32) for each in (shape, (_LINES,), (size,), (3 * size,))
        )
        e = random.integers(-(2**31), 2**31 - 1, size=(rows, *shape)).astype(np.int32)
        wanted = [
            a * b[:, :, None], a - c[:, None], b[:, :, None] + c[:, None], a[:, :, None] * a[:, None],
            d[:, :size] + d[:, size : 2 * size] + d[:, 2 * size :], e * np.arange(size, dtype=np.int32),
        ]  # fmt: skip
        for got, expected in zip(code(a, b, c, d, e), wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("size", [3, 6, 8])
def test_short_rows_count_their_elements_and_themselves(compiled: Compile, size: int) -> None:
    writer, shape = Writer(), (_LINES, size)
    x, y = writer.input(*shape), writer.input(size)
    line, place = (writer.add("iota", (N, *shape), dtype="s32", dimensions=(axis,)) for axis in (1, 2))
    on_diagonal = writer.add("compare", (N, *shape), line, place, dtype="pred", direction="EQ")
    diagonal = writer.add("select", (N, *shape), on_diagonal, _spread(writer, shape, y, 0, 2), x)
    row = writer.add("iota", (N, *shape), dtype="f32", dimensions=(0,))
    summed = writer.add("add", (N, *shape), row, writer.add("iota", (N, *shape), dimensions=(2,)))
    code = compiled(writer.program(diagonal, writer.add("multiply", (N, *shape), summed, x)), 16)
    random = np.random.default_rng(size)
    for rows in _ROWS:
        a, b = (random.normal(size=(rows, *each)).astype(np.float32) for each in (shape, (size,)))
        given, scaled = code(a, b)
        np.testing.assert_array_equal(given, np.where(np.eye(_LINES, size, dtype=bool), b[:, None], a))
        if rows <= 16:  # rows are counted within a block
            counts = np.arange(rows, dtype=np.float32)[:, None, None] + np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(scaled, a * counts)


@pytest.mark.sweep("1-2", "2-3", "3-8", "1-5")
@pytest.mark.parametrize("channels", [2, 3, 5, 8])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_windows_over_few_channels_give_numpys_maxima(compiled: Compile, channels: int, stride: int) -> None:
    writer, windows = Writer(), (17 - 3) // stride + 1
    x = writer.input(17, channels)
    whole = (1, 1, 0, 0, 1, 1)
    made = writer.add(
        "reduce-window", (N, windows, channels), x, writer.constant(-np.inf), regions=(writer.reducer("maximum"),),
        window=(whole, (3, stride, 0, 0, 1, 1), whole),
    )  # fmt: skip
    code = compiled(writer.program(made), 16)
    for rows in _ROWS:
        values = np.random.default_rng(rows).normal(size=(rows, 17, channels)).astype(np.float32)
        seen = np.lib.stride_tricks.sliding_window_view(values, 3, axis=1)[:, ::stride]
        np.testing.assert_array_equal(code(values)[0], seen.max(-1))


@pytest.mark.sweep("3", "8")
@pytest.mark.parametrize("size", [2, 3, 5, 7, 8])
def test_outer_axes_of_short_rows_are_reduced_in_their_order(compiled: Compile, size: int) -> None:
    """Near and far rows, sums and maxima."""
    writer = Writer()
    near, far = writer.input(6, size), writer.input(_LINES, 4, size)
    start, lowest = writer.constant(0.25), writer.constant(-np.inf)

    def reduced(opcode: str, sizes: tuple[int, ...], value: int, first: int, *axes: int) -> int:
        return writer.add("reduce", (N, *sizes), value, first, dimensions=axes, regions=(writer.reducer(opcode),))

    summed = reduced("add", (size,), near, start, 1)
    largest = reduced("maximum", (_LINES, size), far, lowest, 2)
    both = reduced("add", (size,), far, start, 1, 2)
    positive = writer.add("compare", (N, 6, size), near, writer.spread(0.0, 6, size), dtype="pred", direction="GT")
    any_of = writer.add(
        "reduce", (N, size), positive, writer.constant(False, "pred"), dtype="pred", dimensions=(1,),
        regions=(writer.reducer("or", "pred"),),
    )  # fmt: skip
    code = compiled(writer.program(summed, largest, both, any_of), 16)
    random = np.random.default_rng(size)
    for rows in _ROWS:
        a, b = (random.normal(size=(rows, *each)).astype(np.float32) for each in ((6, size), (_LINES, 4, size)))
        b[0, 0, 1, 0] = np.nan
        first, second = np.full((2, rows, size), 0.25, np.float32)
        for line in range(6):
            first = first + a[:, line]
        for line in range(_LINES * 4):
            second = second + b.reshape(rows, -1, size)[:, line]
        for got, expected in zip(code(a, b), (first, b.max(2), second, (a > 0).any(1)), strict=True):
            np.testing.assert_array_equal(got, expected)


_COMBINED: Mapping[str, tuple[float, Callable[..., Array]]] = {
    "add": (-0.0, np.add), "multiply": (1.0, np.multiply), "maximum": (-np.inf, np.maximum),
}  # fmt: skip


def _combined(opcode: str, start: float, values: Array) -> Array:
    """Each row in the tree of decision 039, after `start`."""
    neutral, function = _COMBINED[opcode]
    tree = np.full((*values.shape[:-1], 16), neutral, np.float32)
    tree[..., : values.shape[-1]] = values
    for half in (8, 4, 2, 1):
        tree = function(tree[..., :half], tree[..., half : 2 * half])
    return np.asarray(function(np.float32(start), tree[..., 0]))


@pytest.mark.sweep("3", "4", "9")
@pytest.mark.parametrize("size", [2, 3, 4, 5, 6, 7, 8, 9])
def test_short_rows_are_reduced_in_the_tree_of_long_ones(compiled: Compile, size: int) -> None:
    """Of a few rows, and of many; with a factor for each row."""
    writer = Writer()
    shapes = [(lines, size) for lines in (3, 11)]
    numbers, results = writer.input(11), []
    inputs = [writer.input(*shape) for shape in shapes]
    for x, shape in zip(inputs, shapes, strict=True):
        for opcode in _COMBINED:
            regions = (writer.reducer(opcode),)
            results.append(
                writer.add("reduce", (N, shape[0]), x, writer.constant(0.5), dimensions=(2,), regions=regions)
            )
    scaled = writer.add("multiply", (N, *shapes[1]), inputs[1], _spread(writer, shapes[1], numbers, 0, 1))
    regions = (writer.reducer("add"),)
    results.append(writer.add("reduce", (N, 11), scaled, writer.constant(0.5), dimensions=(2,), regions=regions))
    code = compiled(writer.program(*results), 16)
    random = np.random.default_rng(size)
    for rows in _ROWS:
        factors = random.normal(size=(rows, 11)).astype(np.float32)
        values = [random.normal(size=(rows, *shape)).astype(np.float32) for shape in shapes]
        values[1][0, 4, size - 1] = np.nan
        wanted = [_combined(opcode, 0.5, each) for each in values for opcode in _COMBINED]
        wanted.append(_combined("add", 0.5, values[1] * factors[:, :, None]))
        for got, expected in zip(code(factors, *values), wanted, strict=True):
            np.testing.assert_array_equal(got, expected)
