"""Indices that are joined of single numbers are read where these lie."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile, nests, opcodes_in
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.emit import emit, loops_of
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program

_ROWS, _COLUMNS, _COUNT = 6, 7, 5


def _modulo(writer: Writer, value: int, size: int) -> int:
    """As of Python's integers: never negative."""
    divisor = writer.spread(size, _COUNT, dtype="s32")
    rest = writer.add("remainder", (N, _COUNT), value, divisor, dtype="s32")
    is_negative = writer.add(
        "compare", (N, _COUNT), rest, writer.spread(0, _COUNT, dtype="s32"), dtype="pred", direction="LT"
    )
    added = writer.add("add", (N, _COUNT), rest, divisor, dtype="s32")
    return writer.add("select", (N, _COUNT), is_negative, added, rest, dtype="s32")


def _program(*, kept: bool = False, computed: bool = False) -> Program:
    """As gather_nd within rows: the number of the row, and a stack of two; `kept`: the stack is an output, too."""
    writer = Writer()
    x, i, j = writer.input(_ROWS, _COLUMNS), writer.input(_COUNT, dtype="s32"), writer.input(_COUNT, dtype="s32")
    if computed:
        i, j = _modulo(writer, i, _ROWS), _modulo(writer, j, _COLUMNS)
    singles = [writer.add("reshape", (N, _COUNT, 1), value, dtype="s32") for value in (i, j)]
    stack = writer.add("concatenate", (N, _COUNT, 2), *singles, dtype="s32", dimensions=(2,))
    row = writer.add("iota", (N, _COUNT, 1), dtype="s32", dimensions=(0,))
    zeros = writer.add("broadcast", (N, _COUNT, 1), writer.constant([0] * _COUNT, "s32"), dtype="s32", dimensions=(1,))
    row = writer.add("add", (N, _COUNT, 1), row, zeros, dtype="s32")
    indices = writer.add("concatenate", (N, _COUNT, 3), row, stack, dtype="s32", dimensions=(2,))
    found = writer.add(
        "gather", (N, _COUNT), x, indices, offset=(), collapsed=(0, 1, 2), indexed=(0, 1, 2), vector=2,
        operand_batch=(), index_batch=(), sizes=(1, 1, 1),
    )  # fmt: skip
    return simplify(writer.program(found, *([stack] if kept else [])))


@pytest.mark.slow  # compiles its code
@pytest.mark.parametrize("kept", [False, True])
def test_stacks_of_indices_give_the_elements_there(compiled: Compile, kept: bool) -> None:
    code, random = compiled(_program(kept=kept), 4), np.random.default_rng(3)
    x = random.normal(size=(4, _ROWS, _COLUMNS)).astype(np.float32)
    i, j = (random.integers(0, size, (4, _COUNT)).astype(np.int32) for size in (_ROWS, _COLUMNS))
    given, *stacks = code(x, i, j)
    np.testing.assert_array_equal(given, x[np.arange(4)[:, None], i, j])
    assert all((stack == np.stack([i, j], -1)).all() for stack in stacks)


def test_vectors_of_indices_are_not_written_to_memory() -> None:
    assert emit(_program(), "program").scratch == 0
    assert emit(_program(kept=True), "program").scratch > 0


@pytest.mark.slow
def test_one_loop_computes_all_numbers_of_indices(compiled: Compile) -> None:
    program = _program(computed=True)
    assert len(loops_of(program).buffers) == 2
    assert len([loop for loop in nests(program) if "remainder" in opcodes_in(loop)]) == 1
    code, random = compiled(program, 4), np.random.default_rng(4)
    x = random.normal(size=(4, _ROWS, _COLUMNS)).astype(np.float32)
    i, j = (random.integers(-50, 50, (4, _COUNT)).astype(np.int32) for _ in range(2))
    np.testing.assert_array_equal(code(x, i, j)[0], x[np.arange(4)[:, None], i % _ROWS, j % _COLUMNS])


@pytest.mark.slow
@pytest.mark.parametrize("way", ["of another shape", "in memory"])
def test_numbers_that_are_no_simple_count_are_read_as_indices(compiled: Compile, way: str) -> None:
    """Those of an iota with two axes that became one, or of an iota that an operation before has read in memory."""
    writer, results = Writer(), list[int]()
    x, j = writer.input(_ROWS, _COLUMNS), writer.input(_ROWS, dtype="s32")
    if way == "in memory":
        i = writer.add("iota", (N, _ROWS, 1), dtype="s32", dimensions=(1,))
        order = writer.reducer("compare", "s32", result="pred", direction="GT")
        results.append(writer.add("sort", (N, _ROWS, 1), i, dtype="s32", dimensions=(1,), regions=(order,)))
    else:
        halves = writer.add("iota", (N, 2, _ROWS // 2), dtype="s32", dimensions=(1,))
        i = writer.add("reshape", (N, _ROWS, 1), halves, dtype="s32")
    own = writer.add("iota", (N, _ROWS, 1), dtype="s32", dimensions=(0,))
    parts = (own, i, writer.add("reshape", (N, _ROWS, 1), j, dtype="s32"))
    indices = writer.add("concatenate", (N, _ROWS, 3), *parts, dtype="s32", dimensions=(2,))
    found = writer.add(
        "gather", (N, _ROWS), x, indices, offset=(), collapsed=(0, 1, 2), indexed=(0, 1, 2), vector=2,
        operand_batch=(), index_batch=(), sizes=(1, 1, 1),
    )  # fmt: skip
    code, random = compiled(writer.program(found, *results), 4), np.random.default_rng(4)
    values = random.normal(size=(3, _ROWS, _COLUMNS)).astype(np.float32)
    columns = random.integers(0, _COLUMNS, (3, _ROWS)).astype(np.int32)
    rows = np.arange(_ROWS) if way == "in memory" else np.arange(_ROWS) // (_ROWS // 2)
    np.testing.assert_array_equal(code(values, columns)[0], values[np.arange(3)[:, None], rows, columns])
