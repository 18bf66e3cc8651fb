"""Rows of which whole vectors leave a part: the parts of several rows share a vector, with the bits of one row at a time."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.emit import loops_of
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.ground.arrays import Array
from tools.loops_text import text_of_loops

_LINES = 3


def _cut(writer: Writer, value: int, sizes: tuple[int, ...], first: int, *, dtype: str = "f32") -> int:
    """`sizes[-1]` elements of the last axis from `first` on."""
    whole = ((0, N, 1), *((0, size, 1) for size in sizes[:-1]))
    slices = (*whole, (first, first + sizes[-1], 1))
    return writer.add("slice", (N, *sizes), value, dtype=dtype, slices=slices)


def _halves(size: int, opcode: str = "tanh") -> Program:
    """The first half of rows times a function of the second one."""
    writer = Writer()
    x = writer.input(2 * size)
    gate = writer.add(opcode, (N, size), _cut(writer, x, (size,), size))
    return writer.program(writer.add("multiply", (N, size), _cut(writer, x, (size,), 0), gate))


def chain(size: int, *, flat: bool) -> Program:
    """Random operations on rows of `size` elements; if `flat`, all elements are one row."""
    random, writer = np.random.default_rng(size), Writer()
    shape: tuple[int, ...] = (_LINES * size,) if flat else (_LINES, size)
    if flat:
        *floats, numbers = (*(writer.input(*shape) for _ in range(4)), writer.input(*shape, dtype="s32"))
    else:
        whole, of_row, of_all = writer.input(_LINES, 2 * size), writer.input(_LINES), writer.input(size)
        integers = writer.input(_LINES, 2 * size, dtype="s32")
        floats = [
            *(_cut(writer, whole, shape, part * size) for part in range(2)),
            writer.add("broadcast", (N, *shape), of_row, dimensions=(0, 1)),
            writer.add("broadcast", (N, *shape), of_all, dimensions=(0, 2)),
        ]
        numbers = _cut(writer, integers, shape, size, dtype="s32")
    operands = [*floats, writer.add("convert", (N, *shape), numbers)]
    value = operands[-1]
    for _ in range(6):
        value = writer.add(
            str(random.choice(["add", "multiply", "maximum", "subtract"])), (N, *shape), value,
            operands[random.integers(len(operands))],
        )  # fmt: skip
        value = writer.add(str(random.choice(["tanh", "logistic", "sine", "negate"])), (N, *shape), value)
    value = writer.add("tanh", (N, *shape), writer.add("add", (N, *shape), value, floats[0]))
    thousand = writer.add("multiply", (N, *shape), value, writer.spread(1000.0, *shape))
    return writer.program(value, writer.add("convert", (N, *shape), thousand, dtype="s32"))


def inputs_of_chain(size: int, rows: int) -> list[Array]:
    random = np.random.default_rng(rows)
    floats = (random.normal(size=(rows, *sizes)) for sizes in ((_LINES, 2 * size), (_LINES,), (size,)))
    return [
        *(each.astype(np.float32) for each in floats),
        random.integers(-9, 10, (rows, _LINES, 2 * size)).astype(np.int32),
    ]


def _flattened(inputs: list[Array], size: int) -> list[Array]:
    whole, of_row, of_all, integers = inputs
    shape = (len(whole), _LINES, size)
    parts = whole[..., :size], whole[..., size:], of_row[:, :, None], of_all[:, None], integers[..., size:]
    return [np.ascontiguousarray(np.broadcast_to(part, shape)).reshape(len(whole), -1) for part in parts]


def lstm(units: int, steps: int) -> Program:
    """The steps of an LSTM whose inputs are already multiplied; all states of h, and the last one of c."""
    writer, random, shape = Writer(), np.random.default_rng(units), (units,)
    x, h, c = writer.input(steps, 4 * units), writer.input(units), writer.input(units)
    weights = writer.constant(random.normal(size=(units, 4 * units)) / np.sqrt(units))
    bias = writer.constant(random.normal(size=4 * units))
    all_of_h = []
    for step in range(steps):
        slices = ((0, N, 1), (step, step + 1, 1), (0, 4 * units, 1))
        z = writer.add("reshape", (N, 4 * units), writer.add("slice", (N, 1, 4 * units), x, slices=slices))
        product = writer.add("dot", (N, 4 * units), h, weights, contracting=((1,), (0,)), batch=((), ()))
        z = writer.add("add", (N, 4 * units), z, product)
        z = writer.add("add", (N, 4 * units), z, writer.add("broadcast", (N, 4 * units), bias, dimensions=(1,)))
        i, f, o = (writer.add("logistic", (N, *shape), _cut(writer, z, shape, part * units)) for part in (0, 1, 3))
        g = writer.add("tanh", (N, *shape), _cut(writer, z, shape, 2 * units))
        kept, new = writer.add("multiply", (N, *shape), f, c), writer.add("multiply", (N, *shape), i, g)
        c = writer.add("add", (N, *shape), kept, new)
        h = writer.add("multiply", (N, *shape), o, writer.add("tanh", (N, *shape), c))
        all_of_h.append(writer.add("reshape", (N, 1, units), h))
    return writer.program(writer.add("concatenate", (N, steps, units), *all_of_h, dimensions=(1,)), c)


def inputs_of_lstm(units: int, steps: int, rows: int) -> list[Array]:
    random = np.random.default_rng(rows)
    return [random.normal(size=(rows, *sizes)).astype(np.float32) for sizes in ((steps, 4 * units), (units,), (units,))]


_SHARED = "by vectors, and rows in vectors for the rest"


def _loops(program: Program) -> str:
    return text_of_loops(loops_of(recognize(simplify(program))))


@pytest.mark.parametrize("size", [9, 17, 20, 33, 50, 100])
def test_rows_share_a_vector_if_what_is_computed_takes_long(size: int) -> None:
    assert f"loop [batch, {size}] {_SHARED}" in _loops(_halves(size))
    assert _SHARED not in _loops(_halves(size, "abs"))


@pytest.mark.parametrize("size", [15, 16, 31, 48])
def test_rows_have_vectors_of_their_own_if_no_target_gains(size: int) -> None:
    assert _SHARED not in _loops(_halves(size))


def test_what_is_computed_once_for_a_row_stays_before_its_loop() -> None:
    writer, shape = Writer(), (_LINES, 50)
    x, of_row = writer.input(_LINES, 50), writer.input(_LINES)
    # Users of a broadcast compute its operand, so this is what a loop would hold.
    spread = writer.add("broadcast", (N, *shape), of_row, dimensions=(0, 1))
    made = writer.add("tanh", (N, *shape), writer.add("multiply", (N, *shape), x, spread))
    assert _SHARED in _loops(writer.program(made))
    spread = writer.add("broadcast", (N, *shape), writer.add("abs", (N, _LINES), of_row), dimensions=(0, 1))
    made = writer.add("tanh", (N, *shape), writer.add("multiply", (N, *shape), x, spread))
    assert _SHARED not in _loops(writer.program(made))


@pytest.mark.slow
@pytest.mark.sweep("50")
@pytest.mark.parametrize("size", [5, 9, 17, 18, 20, 33, 50])
def test_random_chains_give_the_bits_of_one_long_row_and_what_the_interpreter_does(
    compiled: Compile, size: int
) -> None:
    program = chain(size, flat=False)
    tails, flat = compiled(simplify(program), 16), compiled(simplify(chain(size, flat=True)), 17)
    for rows in (1, 2, 5, 40):
        inputs = inputs_of_chain(size, rows)
        made, wanted = tails(*inputs), interpret.run(program, rows, inputs)
        for given, long in zip(made, flat(*_flattened(inputs, size)), strict=True):
            np.testing.assert_array_equal(given.reshape(rows, -1), long)
        np.testing.assert_allclose(made[0], wanted[0], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_an_lstm_of_50_units_has_the_same_bits_in_every_batch(compiled: Compile) -> None:
    program = lstm(50, 3)
    assert f"50] {_SHARED}" in _loops(program)
    code, inputs = compiled(recognize(simplify(program)), 16), inputs_of_lstm(50, 3, 40)
    whole = code(*inputs)
    for given, wanted in zip(whole, interpret.run(program, 40, inputs), strict=True):
        np.testing.assert_allclose(given, wanted, rtol=1e-4, atol=1e-5)
    for rows in range(1, 41):
        for given, long in zip(code(*(each[-rows:] for each in inputs)), whole, strict=True):
            np.testing.assert_array_equal(given, long[-rows:])


@pytest.mark.parametrize("size", [2, 50])
def test_rows_may_lie_far_apart(compiled: Compile, size: int) -> None:
    """As the steps of a long sequence do, of which each iteration reads one; 50 leave a part of two."""
    writer = Writer()
    x = writer.input(2000 * 8, size)
    step = writer.add("slice", (N, 1, size), x, slices=((0, N, 1), (7, 8, 1), (0, size, 1)))
    rows = writer.add("reshape", (N, size), step)
    program = simplify(writer.program(writer.add("exponential", (N, size), rows)))
    text = text_of_loops(loops_of(program))
    assert "rows in vectors" in text and f"[{16000 * size}*i0 + i1 + {7 * size}]" in text
    given = np.random.default_rng(size).normal(size=(12, 16000, size)).astype(np.float32)
    (found,) = compiled(program, 12)(given)
    np.testing.assert_allclose(found, np.exp(given[:, 7]), rtol=3e-7)
