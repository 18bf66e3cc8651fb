"""Dense layers of few rows have code of their own; nobody sees it but by the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.ground.arrays import Array

# Columns within a vector, a panel and a strip of each target, at their ends and beyond; then many weights, few columns for
# many inputs, and columns that are sums in a tree.
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
    (16, 1),
    (21, 1),
    (290, 1),
    (32, 2),
    (45, 2),
    (49, 3),
    (100, 3),
    (67, 4),
    (300, 4),
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


def layers_of(activation: str) -> tuple[Program, list[Array], list[Array]]:
    """A program of all layers, each of the first columns of 300; their weights, and their biases."""
    writer = Writer()
    random = np.random.default_rng(11)
    x = writer.input(300)
    weights = [random.normal(size=sizes).astype(np.float32) for sizes in _LAYERS]
    biases = [random.normal(size=outputs).astype(np.float32) for _, outputs in _LAYERS]
    results = []
    for (inputs, outputs), matrix, numbers in zip(_LAYERS, weights, biases, strict=True):
        cut = writer.add("slice", (N, inputs), x, slices=((0, N, 1), (0, inputs, 1)))
        layer = writer.add("dot", (N, outputs), cut, writer.constant(matrix), contracting=((1,), (0,)), batch=((), ()))
        if inputs % 2:  # the others have no bias
            bias = writer.add("broadcast", (N, outputs), writer.constant(numbers), dimensions=(1,))
            layer = writer.add("add", (N, outputs), layer, bias)
        results.append(_activated(writer, layer, outputs, activation))
    return recognize(simplify(writer.program(*results))), weights, biases


@pytest.mark.sweep("tanh", night=["sigmoid"])
@pytest.mark.parametrize("activation", _ACTIVATIONS)
def test_few_rows_have_the_bits_that_they_have_among_many(compiled: Compile, activation: str) -> None:
    """One row of at most 16 outputs is activated in registers."""
    program, weights, biases = layers_of(activation)
    assert [each.opcode for each in program.entry.operations].count("dense") == len(_LAYERS)
    code = compiled(program, 32)
    values = np.random.default_rng(12).normal(size=(32, 300)).astype(np.float32)
    many = code(values)
    for (inputs, _), matrix, numbers, given in zip(_LAYERS, weights, biases, many, strict=True):
        wanted = values[:, :inputs].astype(np.float64) @ matrix + (numbers if inputs % 2 else 0.0)
        np.testing.assert_allclose(given, _ACTIVATIONS[activation](wanted), rtol=1e-4, atol=1e-4)
    for rows in (1, 2, 3, 4, 5, 18):
        for all_rows, given in zip(many, code(values[3 : 3 + rows]), strict=True):
            np.testing.assert_array_equal(given, all_rows[3 : 3 + rows])


def test_sums_of_products_that_vanish_have_one_sign_in_any_batch(compiled: Compile) -> None:
    """Of negative products below the smallest float: -0 with fused multiply-adds, whatever the number of rows."""
    writer = Writer()
    x, weights = writer.input(64), writer.constant(np.full((64, 2), 0.1))
    layer = writer.add("dot", (N, 2), x, weights, contracting=((1,), (0,)), batch=((), ()))
    code = compiled(recognize(simplify(writer.program(layer))), 32)
    for rows in (1, 3, 4, 20):
        (given,) = code(np.full((rows, 64), -1e-45, np.float32))
        assert np.signbit(given).all(), f"{rows} rows"


@pytest.mark.parametrize(("stride", "padding", "is_dense"), [(1, 0, True), (2, 2, False), (1, 1, False)])
def test_a_pointwise_convolution_with_few_filters_is_a_layer_of_pixels(
    compiled: Compile, stride: int, padding: int, *, is_dense: bool
) -> None:
    writer, random = Writer(), np.random.default_rng(5)
    filters, bias = random.normal(size=(40, 2)).astype(np.float32), random.normal(size=2).astype(np.float32)
    size = (5 + 2 * padding - 1) // stride + 1
    shape = (N, size, size, 2)
    layer = writer.add(
        "convolution", shape, writer.input(5, 5, 40), writer.constant(filters[None, None]), input=(0, 3, 1, 2),
        kernel=(3, 2, 0, 1), output=(0, 3, 1, 2), window=((1, stride, padding, padding, 1, 1),) * 2,
        feature_groups=1, batch_groups=1,
    )  # fmt: skip
    spread = writer.add("broadcast", shape, writer.constant(bias), dimensions=(3,))
    program = recognize(simplify(writer.program(writer.add("add", shape, layer, spread))))
    # Convolutions have memory for windows.
    assert (emit(program, "program", 8).scratch == 0) is is_dense
    x = random.normal(size=(3, 5, 5, 40)).astype(np.float32)
    around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    wanted = np.pad(x.astype(np.float64), around)[:, ::stride, ::stride] @ filters + bias
    np.testing.assert_allclose(compiled(program, 8)(x)[0], wanted, rtol=1e-4, atol=1e-5)
