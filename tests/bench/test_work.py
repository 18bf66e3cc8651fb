"""Operations of models with loops, which a roofline needs."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest

from tests.compiler.conftest import Networks, networks
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.bench.work import operations
from tfaot_pkg.compiler.program import Literal, Operation, Program, Region, Shape, Size

__all__ = ["networks"]  # a fixture


def test_a_product_is_two_operations_for_each_multiply_add() -> None:
    writer = Writer()
    weights = writer.constant(np.ones((24, 8)))
    product = writer.add("dot", (N, 8), writer.input(24), weights, contracting=((1,), (0,)), batch=((), ()))
    assert operations(writer.program(product), 5) == 2 * 5 * 24 * 8


@pytest.mark.parametrize(("dilation", "places"), [(1, 8), (2, 15)])
def test_a_convolution_counts_its_window_without_the_zeros_that_it_spreads(dilation: int, places: int) -> None:
    writer = Writer()
    kernel = writer.constant(np.ones((3, 4, 6)))  # place, feature, filter
    made = writer.add(
        "convolution", (N, places, 6), writer.input(8, 4), kernel, input=(0, 2, 1), kernel=(2, 1, 0), output=(0, 2, 1),
        window=((3, 1, 1, 1, 1, dilation),), feature_groups=1, batch_groups=1,
    )  # fmt: skip
    assert operations(writer.program(made), 5) == 2 * 5 * places * 6 * 3 * 4 / dilation


def test_a_product_in_a_loop_counts_in_every_turn() -> None:
    ids = count()
    integer, rows = Shape("s32", ()), Shape("f32", (N, Size(4)))

    def add(operations_: list[Operation], opcode: str, type_: object, *operands: int, **more: object) -> int:
        regions = more.pop("regions", ())
        made = Operation(
            id=next(ids), opcode=opcode, type=type_, operands=operands, attributes=more, regions=regions,  # type: ignore[arg-type]  # as given
        )  # fmt: skip
        operations_.append(made)
        return made.id

    def literal(values: object, dtype: type) -> Literal:
        return Literal(np.array(values, dtype))

    entry: list[Operation] = []
    body: list[Operation] = []
    condition: list[Operation] = []
    x = add(entry, "parameter", rows, number=0)
    weights = add(entry, "constant", Shape("f32", (Size(4), Size(4))), literal=literal(np.ones((4, 4)), np.float32))
    first = add(entry, "constant", integer, literal=literal(0, np.int32))
    step, state = add(body, "parameter", integer, number=0), add(body, "parameter", rows, number=1)
    one = add(body, "constant", integer, literal=literal(1, np.int32))
    after = add(body, "add", integer, step, one)
    product = add(body, "dot", rows, state, weights, contracting=((1,), (0,)), batch=((), ()))
    turn = add(condition, "parameter", integer, number=0)
    add(condition, "parameter", rows, number=1)
    last = add(condition, "constant", integer, literal=literal(7, np.int32))
    goes_on = add(condition, "compare", Shape("pred", ()), turn, last, direction="LT")
    regions = (
        Region(operations=tuple(body), results=(after, product)),
        Region(operations=tuple(condition), results=(goes_on,)),
    )
    loop = add(entry, "while", (integer, rows), first, x, regions=regions)
    result = add(entry, "get-tuple-element", rows, loop, index=1)
    program = Program(entry=Region(operations=tuple(entry), results=(result,)))
    assert operations(program, 3) == 7 * 2 * 3 * 4 * 4


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_an_lstm_counts_its_steps(networks: Networks) -> None:
    """Four gates, each of a product with the inputs and one with the state, in every step (Keras, LSTM)."""
    found = networks("2.17.1", "lstm")
    (_, steps, width), units = found.inputs[0].shape, 24
    dense = 2 * units * found.outputs[0].shape[1]
    assert operations(found.program, 3) == 3 * (2 * steps * 4 * units * (width + units) + dense)
