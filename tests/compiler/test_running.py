"""Windows of which each contains the one before it, as in running sums: one step each, in either direction."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.emit import loops_of
from tfaot_pkg.compiler.loops import Block, For, Node
from tfaot_pkg.ground.arrays import Array

pytestmark = pytest.mark.slow  # compiles its code

_SIZE, _COLUMNS = 23, 5


def _running(values: Array, axis: int, empty: int, *, backwards: bool) -> Array:
    """Sums one by one from the first element, or from the last one; the first `empty` windows have none."""
    if backwards:
        return np.flip(_running(np.flip(values, axis), axis, empty, backwards=False), axis)
    zeros = [(0, 0)] * values.ndim
    zeros[axis] = (empty, 0)
    return np.pad(np.add.accumulate(values, axis), zeros)


def _depth(nodes: Iterable[Node]) -> int:
    """How many counted loops are within one another."""
    blocks = [node for node in nodes if isinstance(node, Block)]
    return max((isinstance(each.head, For) + _depth(each.nodes) for each in blocks), default=0)


def test_running_sums_take_one_step_for_each_element(compiled: Compile) -> None:
    """Along the last axis, and along one before it, whose columns share vectors; with windows without elements."""
    writer = Writer()
    x = writer.input(_SIZE, _COLUMNS)
    cases = [(axis, empty, backwards) for axis in (1, 2) for empty in (0, 1, 2) for backwards in (False, True)]
    sizes, results = (_SIZE, _COLUMNS), []
    for axis, empty, backwards in cases:
        size = sizes[axis - 1]
        padding = (0, size + empty - 1) if backwards else (size + empty - 1, 0)
        window = [(1, 1, 0, 0, 1, 1)] * 3
        window[axis] = (size, 1, *padding, 1, 1)
        made = [each + empty * (axis == number) for number, each in enumerate(sizes, 1)]
        results.append(
            writer.add(
                "reduce-window", (N, *made), x, writer.constant(0.0), window=tuple(window),
                regions=(writer.reducer("add"),),
            )
        )  # fmt: skip
    program = writer.program(*results)
    # Over the rows of the batch, the columns where vectors do not hold them, and the steps: not over windows.
    blocks = [node for node in loops_of(program).nodes if isinstance(node, Block)]
    assert [_depth([block]) for block in blocks] == [axis + 1 for axis, _, _ in cases]
    values = np.random.default_rng(3).normal(size=(9, *sizes)).astype(np.float32)
    for (axis, empty, backwards), given in zip(cases, compiled(program, 4)(values), strict=True):
        np.testing.assert_array_equal(given, _running(values, axis, empty, backwards=backwards))
