"""Products of computed arrays: where operands and results lie does not matter, and nothing is copied for them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.emit import emit, loops_of
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program, Size
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.ground.arrays import Array

_QUERIES, _KEYS, _HEADS, _SIZE = 6, 19, 3, 8


def _scores(order: tuple[int, ...]) -> Program:
    """As attention has them: [rows, queries, heads, size] by [rows, keys, heads, size], the result in some order."""
    writer = Writer()
    queries, keys = writer.input(_QUERIES, _HEADS, _SIZE), writer.input(_KEYS, _HEADS, _SIZE)
    sizes: tuple[int | Size, ...] = (N, _HEADS, _QUERIES, _KEYS)
    product = writer.add("dot", sizes, queries, keys, contracting=((3,), (3,)), batch=((0, 2), (0, 2)))
    return writer.program(writer.add("transpose", [sizes[axis] for axis in order], product, dimensions=order))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3), (0, 3, 1, 2), (0, 2, 3, 1)])
def test_products_of_computed_arrays_read_and_write_any_order(compiled: Compile, order: tuple[int, ...]) -> None:
    program = _scores(order)
    made = recognize(simplify(program))
    verify(made)
    code = compiled(made, 4)
    random = np.random.default_rng(3)
    values = [random.normal(size=(9, items, _HEADS, _SIZE)).astype(np.float32) for items in (_QUERIES, _KEYS)]
    (wanted,) = interpret.run(program, 9, values)
    (whole,) = code(*values)
    np.testing.assert_allclose(whole, wanted, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(code(*(each[2:7] for each in values))[0], whole[2:7])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3), (0, 3, 1, 2)])
def test_only_the_second_operand_of_a_product_is_brought_into_another_form(order: tuple[int, ...]) -> None:
    emitted = emit(recognize(simplify(_scores(order))), "program", 1)
    packed = {_QUERIES: 16, _KEYS: 32}  # columns as whole panels
    assert emitted.scratch == 4 * _SIZE * packed[_QUERIES if order.index(2) > order.index(3) else _KEYS]


def test_several_inner_axes_and_transposed_rows_are_brought_into_order(compiled: Compile) -> None:
    writer = Writer()
    x, y = writer.input(4, 5, 7), writer.input(4, 9, 5)
    product = writer.add("dot", (N, 7, 9), x, y, contracting=((1, 2), (1, 3)), batch=((0,), (0,)))
    program = writer.program(product)
    random = np.random.default_rng(3)
    values = [random.normal(size=(5, *sizes)).astype(np.float32) for sizes in ((4, 5, 7), (4, 9, 5))]
    (given,) = compiled(recognize(simplify(program)), 2)(*values)
    np.testing.assert_allclose(given, np.einsum("nabm,nacb->nmc", *values), rtol=1e-5, atol=1e-5)


def _packed(program: Program) -> int:
    """How many operands of products are copied into the order of the kernels: one matrix at a time, whatever the batch."""
    return sum(not buffer.elements.grows for buffer in loops_of(program).buffers)


def test_single_rows_are_not_packed_and_add_up_in_the_same_order(compiled: Compile) -> None:
    random, writer = np.random.default_rng(3), Writer()
    row, matrix = (random.normal(size=(9, *sizes)).astype(np.float32) for sizes in ((3, 1, 12), (3, 12, 37)))
    products = [  # of two rows, the second operand is packed
        writer.add(
            "dot", (N, 3, rows, 37), writer.input(3, rows, 12), writer.input(3, 12, 37), contracting=((3,), (2,)),
            batch=((0, 1), (0, 1)),
        )
        for rows in (1, 2)
    ]  # fmt: skip
    made = recognize(simplify(writer.program(*products)))
    assert _packed(made) == 1
    row_alone, row_of_two = compiled(made, 4)(row, matrix, row.repeat(2, 2), matrix)
    np.testing.assert_allclose(row_alone, row @ matrix, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(row_alone, row_of_two[:, :, :1])


def _in_tree(rows: Array, column: Array) -> Array:
    """Sums of products as decision 039 has them: fused into 16 partial sums, which are added in pairs."""
    partial = np.zeros((*rows.shape[:-1], 16), np.float32)
    for start in range(0, rows.shape[-1], 16):
        factors = [each[..., start : start + 16].astype(np.float64) for each in (rows, column)]
        products = factors[0] * factors[1]
        partial[..., : products.shape[-1]] = products + partial[..., : products.shape[-1]]
    for half in (8, 4, 2, 1):
        partial = partial[..., :half] + partial[..., half : 2 * half]
    return partial[..., 0]


@pytest.mark.sweep("1-150", "29-37")
@pytest.mark.parametrize(("rows", "inner"), [(1, 150), (3, 5), (13, 16), (29, 37)])
def test_a_single_column_is_not_packed_and_its_products_add_up_in_a_tree(
    compiled: Compile, rows: int, inner: int
) -> None:
    """A column of its own for each matrix, one for all of them, numbers that lie apart, and weights."""
    random, writer = np.random.default_rng(inner), Writer()
    weights = random.normal(size=(2, inner, 1)).astype(np.float32)
    sizes = {"own": (2, inner), "apart": (2, inner, 3)}
    columns = {name: random.normal(size=(9, *size)).astype(np.float32) for name, size in sizes.items()}
    matrices = random.normal(size=(9, 2, rows, inner)).astype(np.float32)
    x, of_each, apart = writer.input(2, rows, inner), writer.input(*sizes["own"]), writer.input(*sizes["apart"])
    third = writer.add("slice", (N, 2, inner, 1), apart, slices=((0, N, 1), (0, 2, 1), (0, inner, 1), (2, 3, 1)))
    of_weights = (x, writer.constant(weights))
    weighed = writer.add("dot", (2, N, rows, 1), *of_weights, contracting=((3,), (1,)), batch=((1,), (0,)))
    made = writer.program(
        writer.add("dot", (N, 2, rows), x, of_each, contracting=((3,), (2,)), batch=((0, 1), (0, 1))),
        writer.add("dot", (N, 2, rows, 1), x, third, contracting=((3,), (2,)), batch=((0, 1), (0, 1))),
        writer.add("transpose", (N, 2, rows, 1), weighed, dimensions=(1, 0, 2, 3)),
        writer.add("dot", (N,), of_each, of_each, contracting=((1, 2), (1, 2)), batch=((0,), (0,))),
    )
    program = recognize(simplify(made))
    assert _packed(program) == 0
    code, (own, of_three) = compiled(program, 4), columns.values()
    wanted = (
        _in_tree(matrices, own[:, :, None]), _in_tree(matrices, of_three[:, :, None, :, 2])[..., None],
        _in_tree(matrices, weights[:, None, :, 0])[..., None],
        _in_tree(own.reshape(9, -1), own.reshape(9, -1)),
    )  # fmt: skip
    for given, expected in zip(code(matrices, own, of_three), wanted, strict=True):
        np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize(("rows", "inner", "width"), [(1, 4, 3), (5, 7, 3), (13, 20, 16), (20, 33, 9)])
def test_matrices_of_few_columns_are_not_packed_and_give_the_same_bits(
    compiled: Compile, rows: int, inner: int, width: int
) -> None:
    """Also if the first operand is transposed; a matrix of more columns is packed."""
    random, writer, wide = np.random.default_rng(3), Writer(), 37
    x = random.normal(size=(9, 2, rows, inner)).astype(np.float32)
    matrix = random.normal(size=(9, 2, inner, wide)).astype(np.float32)
    first, turned = writer.input(2, rows, inner), writer.input(2, inner, rows)
    narrow, packed = writer.input(2, inner, width), writer.input(2, inner, wide)
    batch = ((0, 1), (0, 1))
    results = [
        writer.add("dot", (N, 2, rows, width), first, narrow, contracting=((3,), (2,)), batch=batch),
        writer.add("dot", (N, 2, rows, width), turned, narrow, contracting=((2,), (2,)), batch=batch),
        writer.add("dot", (N, 2, rows, wide), first, packed, contracting=((3,), (2,)), batch=batch),
    ]
    program = recognize(simplify(writer.program(*results)))
    assert _packed(program) == (rows > 1)
    code = compiled(program, 4)
    plain, of_turned, of_wide = code(x, x.swapaxes(2, 3), matrix[..., :width], matrix)
    np.testing.assert_allclose(plain, x @ matrix[..., :width], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(of_turned, plain)
    np.testing.assert_array_equal(of_wide[..., :width], plain)


def test_a_single_row_times_contiguous_columns_is_rows_times_a_column(compiled: Compile) -> None:
    writer, random = Writer(), np.random.default_rng(3)
    row, columns = (random.normal(size=(9, 2, size, 21)).astype(np.float32) for size in (1, 30))
    product = writer.add(
        "dot", (N, 2, 1, 30), writer.input(2, 1, 21), writer.input(2, 30, 21), contracting=((3,), (3,)),
        batch=((0, 1), (0, 1)),
    )  # fmt: skip
    program = recognize(simplify(writer.program(product)))
    assert _packed(program) == 0
    (given,) = compiled(program, 4)(row, columns)
    np.testing.assert_array_equal(given[:, :, 0], _in_tree(columns, row))


# What numpy.einsum says of computed values and weights, their sizes, and how HLO multiplies them.
_WEIGHTS = [
    ("nas,shd->nahd", (7, 18), (18, 2, 9), ((2,), (0,)), ((), ())),  # heads of attention
    ("nahd,hds->nas", (7, 2, 9), (2, 9, 5), ((2, 3), (0, 1)), ((), ())),
    ("naf,ak->nfk", (14, 6), (14, 20), ((1,), (0,)), ((), ())),  # edges of a graph
    ("nis,s->ni", (4, 6), (6,), ((2,), (0,)), ((), ())),
    ("kas,nas->kn", (14, 6), (20, 14, 6), ((1, 2), (1, 2)), ((), ())),  # weights on the left
    ("nes,esk->enk", (5, 14), (5, 14, 20), ((2,), (1,)), ((1,), (0,))),  # experts, each with weights of its own
    ("nabs,basc->abnc", (4, 5, 6), (5, 4, 6, 3), ((3,), (2,)), ((1, 2), (1, 0))),
    ("nis,iso->ino", (6, 9), (6, 9, 1), ((2,), (1,)), ((1,), (0,))),  # so few weights that no kernel reads them
    ("nei,eio->eno", (5, 4), (5, 4, 3), ((2,), (1,)), ((1,), (0,))),
]


def test_weights_of_any_order_are_packed_before(compiled: Compile) -> None:
    writer, random = Writer(), np.random.default_rng(3)
    values, wanted, results = [], [], []
    for einsum, sizes, of_weights, contracting, batch in _WEIGHTS:
        weights = random.normal(size=of_weights).astype(np.float32)
        values.append(random.normal(size=(9, *sizes)).astype(np.float32))
        of_both = [(writer.input(*sizes), values[-1]), (writer.constant(weights), weights)]
        operands, arrays = zip(*(of_both if einsum[0] == "n" else of_both[::-1]), strict=True)
        expected = np.einsum(einsum, *arrays)
        place = einsum.partition("->")[2].index("n")
        made = (*expected.shape[:place], N, *expected.shape[place + 1 :])
        product = writer.add("dot", made, *operands, contracting=contracting, batch=batch)
        order = (place, *(axis for axis in range(expected.ndim) if axis != place))
        results.append(writer.add("transpose", [made[axis] for axis in order], product, dimensions=order))
        wanted.append(expected.transpose(order))
    program = recognize(simplify(writer.program(*results)))
    assert [each.opcode for each in program.entry.operations].count("dense") == 5  # experts' are several matrices
    assert _packed(program) == 0
    for given, expected in zip(compiled(program, 4)(*values), wanted, strict=True):
        np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-5)


def test_products_that_add_up_nothing_are_those_of_elements() -> None:
    writer = Writer()
    x, y, column, row = writer.input(15, 30), writer.input(30), writer.input(30, 1), writer.input(1, 15)
    both = writer.add("dot", (N, 30, 15), x, y, contracting=((), ()), batch=((0, 2), (0, 1)))
    outer = writer.add("dot", (N, 30, 15), column, row, contracting=((2,), (1,)), batch=((0,), (0,)))
    program = writer.program(both, outer)
    made = simplify(program)
    assert "dot" not in [each.opcode for each in made.entry.operations]
    random = np.random.default_rng(3)
    values = [random.normal(size=(4, *sizes)).astype(np.float32) for sizes in ((15, 30), (30,), (30, 1), (1, 15))]
    for given, wanted in zip(*(interpret.run(each, 4, values) for each in (made, program)), strict=True):
        np.testing.assert_array_equal(given, wanted)


def test_a_factor_behind_moved_elements_becomes_part_of_the_layer(compiled: Compile) -> None:
    """The scale of attention's queries, which comes behind their transposition."""
    writer = Writer()
    x = writer.input(5, 9)
    weights = writer.constant(np.random.default_rng(3).normal(size=(9, 24)))
    rows = writer.add("reshape", (Size(0, 5), 9), x)
    layer = writer.add("dot", (Size(0, 5), 24), rows, weights, contracting=((1,), (0,)), batch=((), ()))
    heads = writer.add("reshape", (N, 5, 3, 8), layer)
    moved = writer.add("transpose", (N, 3, 5, 8), heads, dimensions=(0, 2, 1, 3))
    program = writer.program(writer.add("multiply", (N, 3, 5, 8), moved, writer.spread(0.3, 3, 5, 8)))
    made = recognize(simplify(program))
    assert "multiply" not in [each.opcode for each in made.entry.operations]
    values = np.random.default_rng(7).normal(size=(6, 5, 9)).astype(np.float32)
    (wanted,) = interpret.run(program, 6, [values])
    np.testing.assert_allclose(compiled(made, 4)(values)[0], wanted, rtol=1e-5, atol=1e-6)
