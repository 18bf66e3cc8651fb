"""Floating-point operations of programs, with the turns of their loops."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
import pytest

from tests.compiler.conftest import Networks, networks
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import attributes_of
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Literal, Operation, Program, Region, Shape, Size, Type
from tfaot_pkg.compiler.work import Counted, work, work_of_row

__all__ = ["networks"]  # a fixture


def test_a_product_is_two_operations_for_each_multiply_add() -> None:
    writer = Writer()
    weights = writer.constant(np.ones((24, 8)))
    product = writer.add("dot", (N, 8), writer.input(24), weights, contracting=((1,), (0,)), batch=((), ()))
    assert work(writer.program(product), 5).operations == 2 * 5 * 24 * 8


@pytest.mark.parametrize(("dilation", "places"), [(1, 8), (2, 15)])
def test_a_convolution_counts_its_window_without_the_zeros_that_it_spreads(dilation: int, places: int) -> None:
    writer = Writer()
    kernel = writer.constant(np.ones((3, 4, 6)))  # place, feature, filter
    made = writer.add(
        "convolution", (N, places, 6), writer.input(8, 4), kernel, input=(0, 2, 1), kernel=(2, 1, 0), output=(0, 2, 1),
        window=((3, 1, 1, 1, 1, dilation),), feature_groups=1, batch_groups=1,
    )  # fmt: skip
    assert work(writer.program(made), 5).operations == 2 * 5 * places * 6 * 3 * 4 / dilation


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A loop with one product, 4 by 4, that counts from `first` while `direction` holds for `last`."""

    first: int = 0
    step: int = 1
    direction: str = "LT"
    last: int = 7
    of_input: bool = False

    def program(self) -> Program:
        """The end of the loop is `last`, or with `of_input` a second input."""
        ids = count()
        integer, rows = Shape("s32", ()), Shape("f32", (N, Size(4)))

        def add(
            operations_: list[Operation], opcode: str, type_: Type, *operands: int, regions: tuple[Region, ...] = (),
            **more: object,
        ) -> int:  # fmt: skip
            attributes = attributes_of(OPERATIONS[opcode].attributes, more)
            made = Operation(
                id=next(ids), opcode=opcode, type=type_, operands=operands, attributes=attributes, regions=regions,
                node="loop",
            )  # fmt: skip
            operations_.append(made)
            return made.id

        def literal(values: object, dtype: type) -> Literal:
            return Literal(np.array(values, dtype))

        entry: list[Operation] = []
        body: list[Operation] = []
        condition: list[Operation] = []
        x = add(entry, "parameter", rows, number=0)
        end = add(entry, "parameter", integer, number=1)
        if not self.of_input:
            end = add(entry, "constant", integer, literal=literal(self.last, np.int32))
        weights = add(entry, "constant", Shape("f32", (Size(4), Size(4))), literal=literal(np.ones((4, 4)), np.float32))
        first = add(entry, "constant", integer, literal=literal(self.first, np.int32))
        turn, state = add(body, "parameter", integer, number=0), add(body, "parameter", rows, number=1)
        limit = add(body, "parameter", integer, number=2)
        step = add(body, "constant", integer, literal=literal(self.step, np.int32))
        after = add(body, "add", integer, step, turn)
        product = add(body, "dot", rows, state, weights, contracting=((1,), (0,)), batch=((), ()))
        tested = add(condition, "parameter", integer, number=0)
        add(condition, "parameter", rows, number=1)
        last = add(condition, "parameter", integer, number=2)
        goes_on = add(condition, "compare", Shape("pred", ()), tested, last, direction=self.direction)
        regions = (
            Region(operations=tuple(body), results=(after, product, limit)),
            Region(operations=tuple(condition), results=(goes_on,)),
        )
        loop = add(entry, "while", (integer, rows, integer), first, x, end, regions=regions)
        result = add(entry, "get-tuple-element", rows, loop, index=1)
        return Program(entry=Region(operations=tuple(entry), results=(result,)))


@pytest.mark.parametrize(
    ("loop", "turns"),
    [
        (Loop(), 7), (Loop(first=3), 4), (Loop(first=9), 0), (Loop(direction="LE"), 8), (Loop(step=3), 3),
        (Loop(step=3, direction="LE", last=6), 3), (Loop(direction="NE"), 7), (Loop(step=7, direction="NE"), 1),
    ],
)  # fmt: skip
def test_a_product_in_a_loop_counts_in_every_turn(loop: Loop, turns: int) -> None:
    found = work(loop.program(), 3)
    # The interpreter takes the same turns: weights of ones multiply the sum of a row by 4 each time.
    ones = np.ones((1, 4), np.float32)
    (result,) = interpret.run(loop.program(), 1, [ones, np.array(0, np.int32)])
    np.testing.assert_array_equal(result, ones * 4.0**turns)
    wanted = turns * 2 * 3 * 16
    assert found == Counted(products=1, kernels=1, operations=wanted, in_kernels=wanted, by_type={"f32": wanted})


@pytest.mark.parametrize(
    "loop", [Loop(of_input=True), Loop(direction="GT"), Loop(step=2, direction="NE"), Loop(step=-1)]
)
def test_a_loop_whose_turns_are_not_known_is_named_and_counts_once(loop: Loop) -> None:
    assert work(loop.program(), 3) == Counted(
        products=1, kernels=1, operations=96, in_kernels=96, by_type={"f32": 96}, open_loops=("loop",)
    )  # 2 * 3 * 16


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_an_lstm_counts_its_steps(networks: Networks) -> None:
    """Four gates, each of a product with the inputs and one with the state, in every step (Keras, LSTM)."""
    found = networks("2.17.1", "lstm")
    (_, steps, width), units = found.inputs[0].shape, 24
    dense = 2 * units * found.outputs[0].shape[1]
    wanted = 2 * steps * 4 * units * (width + units) + dense
    assert work(simplify(found.program), 3).operations == 3 * wanted
    recognized = work_of_row(recognize(simplify(found.program)))
    assert (recognized.operations, recognized.share, recognized.open_loops) == (wanted, 1.0, ())
