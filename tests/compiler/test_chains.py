"""Loops over the same short rows: one loop, whose values stay in registers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile, nests
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.body import Body, Lanes
from tfaot_pkg.compiler.chains import Chain, Step, linked, takes
from tfaot_pkg.compiler.each import EachLoop
from tfaot_pkg.compiler.elements import Access, Element, Store
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.program import ONE, ZERO, Program, Size
from tfaot_pkg.ground.arrays import Array

_LINES = 5


def _reduced(writer: Writer, value: int, opcode: str, start: float) -> int:
    reducer = writer.reducer(opcode)
    return writer.add("reduce", (N, _LINES), value, writer.constant(start), dimensions=(2,), regions=(reducer,))


def _of_row(writer: Writer, value: int, size: int) -> int:
    return writer.add("broadcast", (N, _LINES, size), value, dimensions=(0, 1))


def _normalized(writer: Writer, x: int, size: int) -> tuple[int, int]:
    """Rows without their means, divided by their norms and scaled; and these norms."""
    shape = (N, _LINES, size)
    mean = writer.add("divide", (N, _LINES), _reduced(writer, x, "add", 0.0), writer.spread(size, _LINES))
    apart = writer.add("subtract", shape, x, _of_row(writer, mean, size))
    square = writer.add("multiply", shape, apart, apart)
    norm = writer.add("sqrt", (N, _LINES), _reduced(writer, square, "add", 1.0))
    scale = writer.add("broadcast", shape, writer.constant(np.arange(size) + 0.5), dimensions=(2,))
    made = writer.add("divide", shape, apart, _of_row(writer, norm, size))
    return writer.add("multiply", shape, made, scale), norm


def _expected(x: Array) -> tuple[Array, Array]:
    wide = x.astype(np.float64)
    apart = wide - wide.mean(-1, keepdims=True)
    norm = np.sqrt(1 + (apart**2).sum(-1))
    return apart / norm[..., None] * (np.arange(x.shape[-1]) + 0.5), norm


def normalization(size: int) -> Program:
    """Normalized rows, their norms, and the least number of each."""
    writer = Writer()
    x = writer.input(_LINES, size)
    made, norm = _normalized(writer, x, size)
    least = _reduced(writer, made, "minimum", np.inf)
    return writer.program(made, norm, least)


@pytest.mark.slow
@pytest.mark.sweep("20", "64")
@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 9, 20, 64])
def test_rows_are_normalized_with_the_same_bits_in_any_batch(compiled: Compile, size: int) -> None:
    code = compiled(normalization(size), 8)
    values = np.random.default_rng(size).normal(size=(20, _LINES, size)).astype(np.float32)
    many = code(values)
    rows, norms = _expected(values)
    for got, wanted in zip(many, (rows, norms, rows.min(-1)), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=3e-6, atol=1e-6)
    for count in range(1, 20):
        for got, wanted in zip(code(values[:count]), many, strict=True):
            np.testing.assert_array_equal(got, wanted[:count])


def _clipped(size: int) -> Program:
    """Rows divided by their norms if those are above 1, as in clip_by_norm; and whether they are."""
    writer, shape = Writer(), (N, _LINES, size)
    x = writer.input(_LINES, size)
    twice = writer.add("add", shape, x, _of_row(writer, writer.input(_LINES), size))
    norm = writer.add("sqrt", (N, _LINES), _reduced(writer, writer.add("multiply", shape, twice, twice), "add", 0.0))
    one = writer.spread(1.0, _LINES)
    is_long = writer.add("compare", (N, _LINES), norm, one, dtype="pred", direction="GT")
    divisor = writer.add("select", (N, _LINES), is_long, norm, one)
    other = writer.add("select", (N, _LINES), is_long, one, norm)
    of_rows = (_of_row(writer, number, size) for number in (divisor, other))
    made = twice
    for number in of_rows:
        made = writer.add("divide", shape, made, number)
    return writer.program(made, is_long)


@pytest.mark.sweep("5", "20")
@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 5, 20])
def test_truth_values_of_rows_stay_in_registers(compiled: Compile, size: int) -> None:
    program = _clipped(size)
    assert [type(each) for each in nests(program)] == [Chain]
    assert emit(program, "program", 8).scratch == 0
    random, code = np.random.default_rng(size), compiled(program, 8)
    for rows in (1, 2, 20):
        x, added = (
            random.normal(size=sizes, scale=0.7 * size**-0.5) for sizes in ((rows, _LINES, size), (rows, _LINES))
        )
        both = (x.astype(np.float32), added.astype(np.float32))
        made, is_long = code(*both)
        total = both[0].astype(np.float64) + both[1][..., None]
        norm = np.linalg.norm(total, axis=-1)
        np.testing.assert_array_equal(is_long, norm > 1)
        np.testing.assert_allclose(made, total / norm[..., None], rtol=2e-6)


@pytest.mark.slow
def test_rows_that_are_masked_are_those_with_no_other_number_than_zero(compiled: Compile) -> None:
    """As in Masking of Keras: a reduction of truth values before a loop over its rows is not part of a chain."""
    writer, size = Writer(), 20
    shape, x = (N, _LINES, size), writer.input(_LINES, size)
    zeros = writer.spread(0.0, _LINES, size)
    differs = writer.add("compare", shape, x, zeros, dtype="pred", direction="NE")
    regions, start = (writer.reducer("or", "pred"),), writer.constant(False, "pred")
    kept = writer.add("reduce", (N, _LINES), differs, start, dtype="pred", dimensions=(2,), regions=regions)
    spread = writer.add("broadcast", shape, kept, dtype="pred", dimensions=(0, 1))
    exponential = writer.add("exponential", shape, x)
    made = writer.add("select", shape, spread, exponential, writer.spread(3.0, _LINES, size))
    values = np.random.default_rng(6).normal(size=(9, _LINES, size)).astype(np.float32)
    values[::2, ::2], values[0, 0, -1] = 0, 1
    is_kept = np.abs(values).max(-1) > 0
    wanted = np.where(is_kept[..., None], np.exp(values), 3.0)
    given = compiled(writer.program(made, kept, _reduced(writer, made, "add", 0.0)), 8)(values)
    for got, expected in zip(given, (wanted, is_kept, wanted.sum(-1)), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)


def _read_otherwise(size: int, way: str) -> Program:
    """What a chain made of rows, times a number of each row, plus something of the last rows."""
    writer, shape = Writer(), (N, size)

    def of_rows(value: int, opcode: str) -> tuple[int, int]:
        regions = (writer.reducer(opcode),)
        number = writer.add("reduce", (N,), value, writer.constant(0.0), dimensions=(1,), regions=regions)
        return number, writer.add("broadcast", shape, number, dimensions=(0,))

    x = writer.input(size)
    total, spread = of_rows(x, "add")
    made = writer.add("subtract", shape, x, spread)
    scaled = writer.add("multiply", shape, made, of_rows(made, "maximum")[1])
    if way == "longer rows":
        longer = (N, size + 2)
        other = writer.add("broadcast", longer, total, dimensions=(0,))
        return writer.program(scaled, writer.add("multiply", longer, writer.input(size + 2), other))
    last, elements = N + Size(-1), N * Size(size)
    if way == "last row":
        row = writer.add("slice", (1, size), made, slices=((last, N, 1), (0, size, 1)))
        other = writer.add("broadcast", shape, writer.add("reshape", (size,), row), dimensions=(1,))
    elif way == "last number":
        number = writer.add("slice", (1,), total, slices=((last, N, 1),))
        other = writer.add("broadcast", shape, writer.add("reshape", (), number), dimensions=())
    else:
        numbers = writer.add(
            "slice", (N,), writer.add("reshape", (elements,), made), slices=((N * Size(size - 1), elements, 1),)
        )
        other = writer.add("broadcast", shape, numbers, dimensions=(0,))
    return writer.program(writer.add("add", shape, scaled, other))


@pytest.mark.sweep("5-last elements", "20-last number")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("size", "way"), [(3, "last row"), (5, "last elements"), (20, "last number"), (20, "longer rows")]
)
def test_a_loop_that_reads_other_rows_of_a_chain_does_not_join(compiled: Compile, size: int, way: str) -> None:
    program = _read_otherwise(size, way)
    widths = (size, size + 2) if way == "longer rows" else (size,)
    values = [np.random.default_rng(width).normal(size=(40, width)).astype(np.float32) for width in widths]
    wanted = interpret.run(program, 40, values)
    for got, expected in zip(compiled(program, 64)(*values), wanted, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def softmax(size: int, *, joined: bool) -> Program:
    """Of rows plus a number for each; or of their sums, which are an input."""
    writer, shape = Writer(), (N, _LINES, size)
    x = writer.input(_LINES, size)
    if joined:
        x = writer.add("add", shape, x, _of_row(writer, writer.input(_LINES), size))
    return writer.program(writer.add("softmax", shape, x, axis=len(shape) - 1))


@pytest.mark.slow
@pytest.mark.sweep("20")
@pytest.mark.parametrize("size", [3, 4, 6, 8, 10, 20, 50])
def test_a_softmax_joins_with_the_same_bits(compiled: Compile, size: int) -> None:
    """As the kernel library computes many rows, and as it computes one row of a call."""
    (chain,) = nests(softmax(size, joined=True))
    assert isinstance(chain, Chain) and len(chain.steps) == 2
    joined, alone = (compiled(softmax(size, joined=each), block) for each, block in ((True, 8), (False, 9)))
    writer = Writer()
    of_one_row = compiled(writer.program(writer.add("softmax", (N, size), writer.input(size), axis=1)), 10)
    random = np.random.default_rng(size)
    for rows in (1, 2, 7, 20):
        x, added = (
            random.normal(size=each, scale=4).astype(np.float32) for each in ((rows, _LINES, size), (rows, _LINES))
        )
        x[0, 0, :2] = -np.inf, 80.0
        total = x + added[..., None]
        (given,), (wanted,), (single,) = joined(x, added), alone(total), of_one_row(total.reshape(-1, size))
        np.testing.assert_array_equal(given, wanted)
        np.testing.assert_array_equal(given, single.reshape(given.shape))
        powers = np.exp(total.astype(np.float64) - total.max(-1, keepdims=True))
        np.testing.assert_allclose(given, powers / powers.sum(-1, keepdims=True), rtol=1e-5, atol=1e-38)


def _step(of: str, to: str, *, rows: Size = N, size: int = 3, offset: int = 0) -> Step:
    accesses = [
        Access(f"p{place}", base, "f32", Index(Size(offset), (Size(size), ONE)))
        for place, base in enumerate(of.split())
    ]
    store = Store(Access("o0", to, "f32", Index(ZERO, (Size(size), ONE))), Element("x0"))
    body = Body((rows, Size(size)), accesses=accesses)
    step = linked(body.inner(Lanes.WORDS), [store], EachLoop(inner=body.inner(Lanes.WORDS), stores=(store,)))
    assert isinstance(step, Step)
    return step


def test_a_chain_takes_loops_over_its_rows_that_read_what_it_made() -> None:
    chain = [_step("v0", "v1")]
    assert takes(chain, _step("v1", "v2"), {})
    assert takes(chain, _step("v0 v1", "v2"), {})
    assert not takes(chain, _step("v0", "v2"), {}), "of nothing that it made"
    assert not takes(chain, _step("v1", "v2", rows=N + N), {}), "more rows"
    assert not takes(chain, _step("v1", "v2", offset=3), {}), "other rows"
    for overwritten in ("v0", "v1"):  # a tile reads it when the one before has written
        assert not takes(chain, _step("v1", overwritten), {})
    assert takes(chain, _step("v1", "s2"), {"s2": ("v2", "v3")})
    assert not takes(chain, _step("v1", "s2"), {"s2": ("v2", "v0")}), "what a variable may point to"


def test_a_chain_writes_only_what_others_read() -> None:
    """The means and differences are in no memory; the norms and the rows are outputs."""
    (chain,) = nests(normalization(3))
    assert isinstance(chain, Chain)
    assert sum(step.target.base not in chain.dead for step in chain.steps) == 3
    assert emit(normalization(3), "program", 8).scratch == 0


@pytest.mark.slow
def test_what_later_loops_read_of_a_chain_is_in_memory(compiled: Compile) -> None:
    """Means are read by a loop in another order, after a layer in between; a loop that reads its own rows later does not join."""
    writer = Writer()
    x = writer.input(_LINES, 3)
    made, norm = _normalized(writer, x, 3)
    turned = writer.add("reverse", (N, _LINES, 3), made, dimensions=(1,))
    sums = _reduced(writer, turned, "add", 0.0)
    first = writer.add("broadcast", (N, _LINES, 3), writer.add(
        "reshape", (N,), writer.add("slice", (N, 1), norm, slices=((0, N, 1), (0, 1, 1)))
    ), dimensions=(0,))  # fmt: skip
    both = writer.add("add", (N, _LINES, 3), made, first)
    code = compiled(writer.program(sums, both), 8)
    for rows in (1, 3, 11):
        values = np.random.default_rng(rows).normal(size=(rows, _LINES, 3)).astype(np.float32)
        wanted, norms = _expected(values)
        got = code(values)
        np.testing.assert_allclose(got[0], wanted[:, ::-1].sum(-1), rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(got[1], wanted + norms[:, :1, None], rtol=3e-6, atol=1e-6)
