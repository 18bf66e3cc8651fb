"""Dense layers of few rows have code of their own; nobody sees it but by the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.recognize import recognize
from tfaot_pkg.compiler.simplify import simplify

# Columns within a vector, a panel and a strip of each target, at their ends and beyond; the last two have many weights,
# and few columns for many inputs.
_LAYERS = [
    (1, 1),
    (3, 7),
    (5, 8),
    (4, 9),
    (7, 16),
    (2, 17),
    (9, 48),
    (6, 96),
    (5, 97),
    (3, 200),
    (8, 300),
    (200, 400),
    (300, 5),
]


_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "": lambda x: x,
    "relu": lambda x: np.maximum(x, 0.0),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
}


def _activated(writer: Writer, layer: int, outputs: int, activation: str) -> int:
    if activation == "relu":
        return writer.add("maximum", (N, outputs), layer, writer.spread(0.0, outputs))
    opcode = {"tanh": "tanh", "sigmoid": "logistic"}.get(activation)
    return writer.add(opcode, (N, outputs), layer) if opcode else layer


@pytest.mark.parametrize("activation", _ACTIVATIONS)
def test_few_rows_have_the_bits_that_they_have_among_many(compiled: Compile, activation: str) -> None:
    """One row of at most 16 outputs is activated in registers."""
    writer = Writer()
    random = np.random.default_rng(11)
    x = writer.input(300)
    weights = [random.normal(size=sizes).astype(np.float32) for sizes in _LAYERS]
    biases = [random.normal(size=outputs).astype(np.float32) for _, outputs in _LAYERS]
    results = []
    for (inputs, outputs), matrix, numbers in zip(_LAYERS, weights, biases, strict=True):
        cut = writer.add("slice", (N, inputs), x, slices=((0, N, 1), (0, inputs, 1)))
        layer = writer.add("dot", (N, outputs), cut, writer.constant(matrix), contracting=((1,), (0,)), batch=((), ()))
        if outputs % 2:  # the others have no bias
            bias = writer.add("broadcast", (N, outputs), writer.constant(numbers), dimensions=(1,))
            layer = writer.add("add", (N, outputs), layer, bias)
        results.append(_activated(writer, layer, outputs, activation))
    program = recognize(simplify(writer.program(*results)))
    assert [each.opcode for each in program.entry.operations].count("dense") == len(_LAYERS)
    code = compiled(program, 16)
    values = random.normal(size=(16, 300)).astype(np.float32)
    many = code(values)
    for (inputs, outputs), matrix, numbers, given in zip(_LAYERS, weights, biases, many, strict=True):
        wanted = values[:, :inputs].astype(np.float64) @ matrix + (numbers if outputs % 2 else 0.0)
        np.testing.assert_allclose(given, _ACTIVATIONS[activation](wanted), rtol=1e-4, atol=1e-4)
    for rows in range(1, 6):
        for all_rows, given in zip(many, code(values[3 : 3 + rows]), strict=True):
            np.testing.assert_array_equal(given, all_rows[3 : 3 + rows])
