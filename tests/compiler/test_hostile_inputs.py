"""Inputs that were made to do harm: code reads and writes no memory but its own, and nothing in it is undefined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import FLAGS, INCLUDES
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.program import NUMPY_TYPES, Program
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import run

_NUMBERS = (2**31 - 1, -(2**31), -1, 0, 7, 31, 32, 5)
_FLOATS = (np.inf, -np.inf, np.nan, 3e9, -3e9, 1e30, -0.0, 2.5)


def _program() -> Program:
    writer = Writer()
    x, numbers = writer.input(8), writer.input(8, dtype="s32")
    integers = [
        writer.add(name, (N, 8), numbers, writer.add("reverse", (N, 8), numbers, dtype="s32", dimensions=(1,)), dtype="s32")
        for name in ("add", "subtract", "multiply", "divide", "remainder", "power", "shift-left", "shift-right-arithmetic")
    ]  # fmt: skip
    integers += [writer.add(name, (N, 8), numbers, dtype="s32") for name in ("abs", "negate", "sign")]
    wide = writer.add("convert", (N, 8), x, dtype="s64")
    narrow = writer.add("convert", (N, 8), x, dtype="u8")
    index = writer.add("reshape", (N, 8, 1), numbers, dtype="s32")
    rows = writer.add("iota", (N, 8, 1), dtype="s32", dimensions=(0,))
    places = writer.add("concatenate", (N, 8, 2), rows, index, dtype="s32", dimensions=(2,))
    how: dict[str, Any] = {"indexed": (0, 1), "vector": 2, "operand_batch": (), "index_batch": ()}
    gathered = writer.add("gather", (N, 8), x, places, offset=(), collapsed=(0, 1), sizes=(1, 1), **how)
    added = writer.reducer("add")
    scattered = writer.add("scatter", (N, 8), x, places, x, window=(), inserted=(0, 1), regions=(added,), **how)
    before = writer.reducer("compare", result="pred", direction="LT")
    in_order = writer.add("sort", (N, 8), x, dimensions=(1,), regions=(before,))
    return writer.program(*integers, wide, narrow, gathered, scattered, in_order)


@pytest.mark.slow
def test_hostile_inputs_reach_nothing_outside_and_leave_nothing_undefined(tmp_path: Path) -> None:
    _check(_program(), [np.array([_FLOATS] * 3, np.float32), np.array([_NUMBERS] * 3, np.int32)], "g++", tmp_path)


@pytest.mark.slow
def test_addresses_that_go_backwards_are_no_overflow(tmp_path: Path) -> None:
    """Of lines in reverse order; Clang sees an overflow where a negative number was made an unsigned one."""
    writer = Writer()
    turned = writer.add("reverse", (N, 2, 3), writer.input(2, 3), dimensions=(1,))
    program = writer.program(writer.add("exponential", (N, 2, 3), turned))
    _check(program, [np.ones((3, 2, 3), np.float32)], "clang++", tmp_path)


def _check(program: Program, given: Sequence[Array], compiler: str, folder: Path) -> None:
    """Run it with sanitizers."""
    emitted = emit(program, "program", 2)
    known = program.entry.by_id()
    sizes = [known[result].shape.elements.at(3) * NUMPY_TYPES[known[result].shape.dtype].itemsize
             for result in program.entry.results]  # fmt: skip
    arrays = ", ".join(f"copy({{{', '.join(map(str, each.view(np.uint32).reshape(-1)))}}})" for each in given)
    outputs = ", ".join(f"std::malloc({size})" for size in sizes)
    source = folder / "program.cc"
    # Each array has memory of its own, of its own size: the sanitizer sees what is read beyond it.
    source.write_text(
        f"{emitted.source}\n#include <cstdlib>\n#include <initializer_list>\n"
        "static const void* copy(std::initializer_list<std::uint32_t> values) {\n"
        "  void* const made = std::malloc(values.size() * 4);\n"
        "  std::memcpy(made, values.begin(), values.size() * 4);\n"
        "  return made;\n}\n"
        f"int main() {{\n  const void* const in[] = {{{arrays}}};\n  void* const out[] = {{{outputs}}};\n"
        f"  program(3, in, out, static_cast<unsigned char*>(std::aligned_alloc(64, 1 << 16)),\n"
        f"          static_cast<unsigned char*>(std::aligned_alloc(64, {-(-emitted.scratch // 64) * 64})), nullptr);\n}}\n"
    )
    assert not emitted.constants
    flags = [*FLAGS, "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    run([compiler, *flags, *INCLUDES, source, "-o", folder / "program"])
    run([folder / "program"], env={"ASAN_OPTIONS": "detect_leaks=0"})
