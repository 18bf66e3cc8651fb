"""Products, reductions and convolutions of float64 and int64, which vectors of half as many elements compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Size, Symbol
from tfaot_pkg.ground.arrays import Array

pytestmark = pytest.mark.slow  # each compiles its code

_ROWS = (1, 7, 40)


@pytest.mark.sweep("9-400", "13-3")
@pytest.mark.parametrize(("inner", "columns"), [(13, 3), (20, 32), (64, 10), (1, 70), (9, 400)])
def test_products_of_doubles_are_nearly_exact_for_any_number_of_rows(
    compiled: Compile, inner: int, columns: int
) -> None:
    writer, random = Writer(), np.random.default_rng(inner)
    weights = random.normal(size=(inner, columns))
    x, matrix = writer.input(inner, dtype="f64"), writer.constant(weights, "f64")
    made = writer.add("dot", (N, columns), x, matrix, dtype="f64", contracting=((1,), (0,)), batch=((), ()))
    code = compiled(writer.program(made), 16)
    values = random.normal(size=(_ROWS[-1], inner))
    wanted = values.astype(np.longdouble) @ weights.astype(np.longdouble)
    bound = np.abs(values) @ np.abs(weights) * inner * np.finfo(np.float64).eps
    (whole,) = code(values)
    assert np.all(np.abs(whole - wanted) <= bound)
    for rows in _ROWS:
        np.testing.assert_array_equal(code(values[-rows:])[0], whole[-rows:])


def test_products_of_doubles_know_their_columns_at_run_time(compiled: Compile) -> None:
    writer, size = Writer(), Size.symbol("n")
    x, y = writer.input(7, 3, dtype="f64"), writer.input(3, size, dtype="f64")
    made = writer.add("dot", (N, 7, size), x, y, dtype="f64", contracting=((2,), (1,)), batch=((0,), (0,)))
    code = compiled(writer.program(made, symbols=(Symbol("n", 70),)), 4)
    random = np.random.default_rng(2)
    for columns in (1, 7, 8, 9, 28, 56, 70):
        one, other = random.normal(size=(3, 7, 3)), random.normal(size=(3, 3, columns))
        np.testing.assert_allclose(code.at_sizes([columns], one, other)[0], one @ other, rtol=1e-12, atol=1e-14)


_COMBINED: Mapping[str, tuple[float, Callable[..., Any]]] = {
    "add": (0.5, np.sum), "multiply": (2.0, np.prod), "maximum": (-np.inf, np.max), "minimum": (np.inf, np.min),
}  # fmt: skip


@pytest.mark.sweep("add-1", "maximum-2", "multiply-2")
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("opcode", sorted(_COMBINED))
def test_reductions_of_doubles_give_numpys_result(compiled: Compile, opcode: str, axis: int) -> None:
    start, function = _COMBINED[opcode]
    random, sizes = np.random.default_rng(4), (1, 3, 16, 37)
    writer, values, wanted = Writer(), [], []
    results = []
    for size in sizes:
        shape = (5, size) if axis == 2 else (size, 21)
        x, kept = writer.input(*shape, dtype="f64"), shape[2 - axis]
        square = writer.add("multiply", (N, *shape), x, x, dtype="f64")
        results.append(
            writer.add(
                "reduce", (N, kept), square, writer.constant(start, "f64"), dtype="f64", dimensions=(axis,),
                regions=(writer.reducer(opcode, "f64"),),
            )
        )  # fmt: skip
        given = random.uniform(0.5, 1.5, size=(_ROWS[-1], *shape))
        given[3, 0, -1] = np.nan
        values.append(given)
        wanted.append(function((given * given).astype(np.longdouble), axis=axis, initial=start))
    code = compiled(writer.program(*results), 16)
    whole = code(*values)
    for got, expected in zip(whole, wanted, strict=True):
        np.testing.assert_allclose(got, expected.astype(np.float64), rtol=1e-14)
    for rows in _ROWS:
        for got, expected in zip(code(*(each[-rows:] for each in values)), whole, strict=True):
            np.testing.assert_array_equal(got, expected[-rows:])


@pytest.mark.parametrize(("opcode", "start"), [("add", 0), ("maximum", -(2**63))])
def test_reductions_of_long_integers_wrap(compiled: Compile, opcode: str, start: int) -> None:
    writer = Writer()
    x, first = writer.input(6, 19, dtype="s64"), writer.constant(start, "s64")
    made = writer.add(
        "reduce", (N, 19), x, first, dtype="s64", dimensions=(1,), regions=(writer.reducer(opcode, "s64"),)
    )
    values = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, size=(9, 6, 19))
    (got,) = compiled(writer.program(made), 4)(values)
    np.testing.assert_array_equal(got, values.sum(1) if opcode == "add" else values.max(1))


_SIDES: Mapping[str, tuple[tuple[int, int], tuple[tuple[int, ...], ...]]] = {
    "padded": ((6, 5), ((3, 1, 1, 1, 1, 1), (2, 1, 0, 0, 1, 1))),
    "strided": ((3, 3), ((3, 2, 0, 1, 1, 1), (2, 2, 0, 0, 1, 1))),
    "dilated": ((4, 6), ((2, 1, 0, 0, 2, 1), (3, 1, 2, 2, 2, 1))),
    "transposed": ((12, 12), ((3, 1, 1, 2, 1, 2), (2, 1, 1, 1, 1, 2))),
}


@pytest.mark.sweep("False-dilated", "True-transposed", "True-padded")
@pytest.mark.parametrize("kind", sorted(_SIDES))
@pytest.mark.parametrize("first", [False, True])
def test_convolutions_of_doubles_are_products_of_windows(compiled: Compile, kind: str, *, first: bool) -> None:
    """`first`: channels come before the image."""
    (out, sides), writer = _SIDES[kind], Writer()
    laid = (0, 1, 2, 3) if first else (0, 3, 1, 2)
    image, sizes = ((2, 6, 6), (5, *out)) if first else ((6, 6, 2), (*out, 5))
    filters = np.random.default_rng(8).normal(size=(sides[0][0], sides[1][0], 2, 5))
    made = writer.add(
        "convolution", (N, *sizes), writer.input(*image, dtype="f64"), writer.constant(filters, "f64"), dtype="f64",
        input=laid, output=laid, kernel=(3, 2, 0, 1), window=sides, feature_groups=1, batch_groups=1,
    )  # fmt: skip
    program = writer.program(made)
    simple = recognize(simplify(program))
    opcodes = [each.opcode for each in simple.entry.operations]
    assert (opcodes.count("dot"), opcodes.count("convolution")) == (1, 0)
    values: list[Array] = [np.random.default_rng(9).normal(size=(5, *image))]
    code, (wanted,) = compiled(simple, 2), interpret.run(program, 5, values)
    np.testing.assert_allclose(code(*values)[0], wanted, rtol=1e-12, atol=1e-13)
