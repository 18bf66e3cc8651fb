"""Loops of recurrent networks: what their steps share is computed once, and nothing is copied."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.compiler.conftest import Networks
from tests.compiler.test_operations import N, Writer
from tests.toolchains import VERSIONS
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.recognize import recognize
from tfaot_pkg.compiler.simplify import simplify


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_step_of_a_recurrent_cell_is_one_product_and_one_loop(networks: Networks, version: str) -> None:
    program = recognize(simplify(networks(version, "lstm").program))
    (loop,) = [each for each in program.entry.operations if each.opcode == "while"]
    # The products with the inputs are computed before the loop, for all steps.
    assert [each.opcode for each in loop.regions[0].operations].count("dense") == 1
    step = emit(program, "program", 8).source.split("for (;;) {")[1].split("\n  }\n")[0]
    assert step.count("dense<") == 1
    # The gates, and the output into the array of outputs.
    assert len(re.findall(r"\beach\(", step)) == 2


def test_values_of_one_shape_are_computed_in_one_loop() -> None:
    writer = Writer()
    x, y = writer.input(24), writer.input(24)
    product = writer.add("multiply", (N, 24), x, y)
    shared = writer.add("exponential", (N, 24), product)
    first, second = writer.add("add", (N, 24), shared, x), writer.add("subtract", (N, 24), shared, product)
    source = emit(simplify(writer.program(first, second)), "program", 4).source
    assert len(re.findall(r"\beach\(", source)) == 1
    assert source.count("exponentialOf(") == 1
    assert emit(simplify(writer.program(first, second)), "program", 4).scratch == 0


def test_a_part_that_lies_in_one_piece_is_not_copied() -> None:
    writer = Writer()
    x = writer.input(24)
    whole = writer.add("transpose", (24, N), x, dimensions=(1, 0))
    part = writer.add("slice", (8, N), whole, slices=((4, 12, 1), (0, N, 1)))
    reduced = writer.add("transpose", (N, 8), part, dimensions=(1, 0))
    assert emit(simplify(writer.program(reduced)), "program", 4).scratch == 0


def test_equal_constants_are_stored_once() -> None:
    """As the weights of an unrolled layer, which each of its steps has."""
    writer = Writer()
    x = writer.input(24)
    for _ in range(3):
        weights = writer.constant(np.eye(24) * 2)
        x = writer.add(
            "tanh", (N, 24), writer.add("dot", (N, 24), x, weights, contracting=((1,), (0,)), batch=((), ()))
        )
    emitted = emit(recognize(writer.program(x)), "program", 4)
    assert [values.size for _, values in emitted.constants] == [24 * 32]
