"""How many rows are computed at a time: those whose values stay in a cache, and that layers of few rows gain by."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program

_RANDOM = np.random.default_rng(5)
_CHANNELS, _KERNEL = 16, 3
_LAID = (0, 3, 1, 2)


def _convolved(writer: Writer, x: int, length: int, layers: int) -> int:
    """Causal convolutions over `length` steps, as a temporal network has them."""
    for _ in range(layers):
        filters = writer.constant(_RANDOM.normal(size=(1, _KERNEL, _CHANNELS, _CHANNELS)) / 7)
        x = writer.add(
            "convolution", (N, 1, length, _CHANNELS), x, filters, input=_LAID, kernel=(3, 2, 0, 1), output=_LAID,
            window=((1, 1, 0, 0, 1, 1), (_KERNEL, 1, _KERNEL - 1, 0, 1, 1)), feature_groups=1, batch_groups=1,
        )  # fmt: skip
    return x


def _rows(program: Program) -> int:
    return emit(recognize(simplify(program)), "program").block


@pytest.mark.parametrize(("size", "rows"), [(16, 64), (1 << 11, 2), (1 << 17, 1)])
def test_as_many_rows_at_a_time_as_the_first_cache_holds(size: int, rows: int) -> None:
    writer = Writer()
    x = writer.input(size)
    # Lies in memory, because all elements of a row are needed before the first result: 2 * size floats.
    twice = writer.add("concatenate", (N, 2 * size), x, x, dimensions=(1,))
    start, regions = writer.constant(0.0), (writer.reducer("add"),)
    total = writer.add("reduce", (N,), twice, start, dimensions=(1,), regions=regions)
    assert emit(simplify(writer.program(total)), "program").block == rows


@pytest.mark.parametrize(("length", "most"), [(50, 4), (200, 1), (1000, 1)])
def test_values_between_convolutions_stay_in_the_first_cache(length: int, most: int) -> None:
    writer = Writer()
    program = writer.program(_convolved(writer, writer.input(1, length, _CHANNELS), length, 6))
    # Two images of 64 bytes a step are there at a time, and 32 KiB of cache.
    assert 1 <= _rows(program) <= most


def test_a_large_layer_of_one_row_gets_many_rows_all_the_same() -> None:
    length, columns = 50, 256
    writer = Writer()
    image = _convolved(writer, writer.input(1, length, _CHANNELS), length, 6)
    flat = writer.add("reshape", (N, length * _CHANNELS), image)
    weights = writer.constant(_RANDOM.normal(size=(length * _CHANNELS, columns)))
    made = writer.add("dot", (N, columns), flat, weights, contracting=((1,), (0,)), batch=((), ()))
    # The layer's 800 KiB of weights are read once for a block.
    assert _rows(writer.program(made)) == 64


def test_layers_of_small_values_get_many_rows() -> None:
    writer = Writer()
    x = writer.input(_CHANNELS)
    for _ in range(3):
        weights = writer.constant(_RANDOM.normal(size=(_CHANNELS, _CHANNELS)))
        x = writer.add("dot", (N, _CHANNELS), x, weights, contracting=((1,), (0,)), batch=((), ()))
        x = writer.add("tanh", (N, _CHANNELS), x)
    assert _rows(writer.program(x)) == 64
