"""Loops of recurrent networks: what their steps share is computed once, and nothing is copied."""

from __future__ import annotations

from itertools import count
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import Compile, Networks, nests, nests_in, opcodes_in
from tests.compiler.test_operations import N, Writer
from tests.toolchains import VERSIONS
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import attributes_of
from tfaot_pkg.compiler.emit import emit, loops_of
from tfaot_pkg.compiler.loops import Block
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.eliminate_dead_stores import of_last_steps
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import (
    NUMPY_TYPES,
    ONE,
    Literal,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Type,
)
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.ground.arrays import Array


@pytest.mark.sweep("2.17.1")
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_step_of_a_recurrent_cell_is_one_product_and_two_loops(networks: Networks, version: str) -> None:
    program = recognize(simplify(networks(version, "lstm").program))
    (loop,) = [each for each in program.entry.operations if each.opcode == "while"]
    # The products with the inputs are computed before the loop, for all steps, in the order of the inputs.
    assert "transpose" not in [each.opcode for each in program.entry.operations]
    assert [each.opcode for each in loop.regions[0].everything()].count("dense") == 1
    (step,) = (node for node in loops_of(program).nodes if isinstance(node, Block) and node.is_repeated)
    # The first product, which is zero, the state, the output gate with tanh of it, and the output into its array.
    assert len([*nests_in(step.nodes)]) == 4


def test_values_of_one_shape_are_computed_in_one_loop() -> None:
    writer = Writer()
    x, y = writer.input(24), writer.input(24)
    product = writer.add("multiply", (N, 24), x, y)
    shared = writer.add("exponential", (N, 24), product)
    first, second = writer.add("add", (N, 24), shared, x), writer.add("subtract", (N, 24), shared, product)
    program = simplify(writer.program(first, second))
    (loop,) = nests(program)
    assert opcodes_in(loop).count("exponential") == 1
    assert emit(program, "program", 4).scratch == 0


def test_a_function_of_another_ones_result_is_computed_in_a_loop_of_its_own(compiled: Compile) -> None:
    """As in the gates of an LSTM. What it does not need is computed with it."""
    writer = Writer()
    x, y = writer.input(24), writer.input(24)
    forget, out = writer.add("logistic", (N, 24), x), writer.add("logistic", (N, 24), y)
    state = writer.add("add", (N, 24), writer.add("multiply", (N, 24), forget, y), y)
    result = writer.add("multiply", (N, 24), writer.add("tanh", (N, 24), state), out)
    program = simplify(writer.program(result, state))
    costly = [[each for each in opcodes_in(loop) if each in ("logistic", "tanh")] for loop in nests(program)]
    assert costly == [["logistic"], ["tanh", "logistic"]]
    given = [np.random.default_rng(seed).normal(size=(5, 24)).astype(np.float32) for seed in (1, 2)]
    forgot, opened = (1 / (1 + np.exp(-each.astype(np.float64))) for each in given)
    wanted = forgot * given[1] + given[1]
    found = compiled(program, 4)(*given)
    np.testing.assert_allclose(found[0], np.tanh(wanted) * opened, rtol=2e-6)
    np.testing.assert_allclose(found[1], wanted, rtol=2e-6)


@pytest.mark.slow
def test_loops_of_any_length_end_with_their_last_element(compiled: Compile) -> None:
    """By whole vectors, a half, and a part of one; sums over an outer axis end in the same ways."""
    writer, lengths = Writer(), range(1, 41)
    given = [writer.input(length) for length in lengths]
    pairs = [writer.input(2, length) for length in (4, 8, 9, 16, 24, 28)]
    results = [writer.add("multiply", (N, length), x, x) for length, x in zip(lengths, given, strict=True)]
    for x in pairs:
        length = writer.operations[x].shape.sizes[-1]
        reducer = writer.reducer("add")
        results.append(writer.add("reduce", (N, length), x, writer.constant(0.0), dimensions=(1,), regions=(reducer,)))
    for known, x in zip(lengths, given, strict=True):  # rows of a known length
        row = writer.add("broadcast", (N, known), writer.constant(np.arange(known)), dimensions=(1,))
        results.append(writer.add("add", (N, known), x, row))
    program = writer.program(*results)
    code, random = compiled(program, 16), np.random.default_rng(7)
    for rows in range(1, 21):
        values = [random.normal(size=(rows, length)).astype(np.float32) for length in lengths]
        twice = [random.normal(size=(rows, 2, length)).astype(np.float32) for length in (4, 8, 9, 16, 24, 28)]
        wanted = [*(x * x for x in values), *(x[:, 0] + x[:, 1] for x in twice)]
        wanted += [x + np.arange(x.shape[1], dtype=np.float32) for x in values]
        for got, expected in zip(code(*values, *twice), wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


def test_equal_reductions_are_computed_once() -> None:
    """As the mean that a standard deviation computes again. Others have the same operands, but not the same results."""
    writer = Writer()
    x, zero = writer.input(6, 7), writer.constant(0.0)
    wanted = [("add", (1,)), ("add", (1,)), ("maximum", (1,)), ("add", (2,))]
    results = [
        writer.add(
            "reduce", (N, 7 if dimensions == (1,) else 6), x, zero, dimensions=dimensions,
            regions=(writer.reducer(opcode),),
        )
        for opcode, dimensions in wanted
    ]  # fmt: skip
    made = simplify(writer.program(*results))
    verify(made)
    assert [each.opcode for each in made.entry.operations].count("reduce") == 3
    values = np.arange(84, dtype=np.float32).reshape(2, 6, 7)
    expected = (values.sum(1), values.sum(1), values.max(1), values.sum(2))
    for found, right in zip(interpret.run(made, 2, [values]), expected, strict=True):
        np.testing.assert_array_equal(found, right)


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


@pytest.mark.slow
def test_memory_that_a_loop_reads_is_kept_while_its_other_values_are_computed(compiled: Compile) -> None:
    """As in a normalization by groups: the loop that subtracts the means needs the layer's values, which were read first."""
    writer = Writer()
    x = writer.input(6, 4)
    weights = np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)
    layer = writer.add("dot", (N, 6, 4), x, writer.constant(weights), contracting=((2,), (0,)), batch=((), ()))
    groups = writer.add("reshape", (N, 6, 2, 2), layer)

    def spread(values: int) -> int:
        wide = writer.add("broadcast", (N, 2, 2), values, dimensions=(0, 1))
        return writer.add("broadcast", (N, 6, 4), writer.add("reshape", (N, 4), wide), dimensions=(0, 2))

    def total(values: int) -> int:
        zero, adding = writer.constant(0.0), (writer.reducer("add"),)
        return writer.add("reduce", (N, 2), values, zero, dimensions=(1, 3), regions=adding)

    sums, squares = total(groups), total(writer.add("multiply", (N, 6, 2, 2), groups, groups))
    centred = writer.add("subtract", (N, 6, 4), layer, spread(sums))
    result = writer.add("multiply", (N, 6, 4), centred, spread(writer.add("sqrt", (N, 2), squares)))
    kept = writer.add("reduce", (N, 4), result, writer.constant(0.0), dimensions=(1,), regions=(writer.reducer("add"),))
    given = np.random.default_rng(4).normal(size=(9, 6, 4)).astype(np.float32)
    values = given @ weights
    by_group = values.reshape(9, 6, 2, 2)
    wanted = (values - by_group.sum((1, 3)).repeat(2, 1)[:, None]) * np.sqrt((by_group**2).sum((1, 3))).repeat(2, 1)[
        :, None
    ]
    found = compiled(recognize(simplify(writer.program(result, kept))), 4)(given)
    np.testing.assert_allclose(found[0], wanted, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(found[1], wanted.sum(1), rtol=2e-5, atol=2e-4)


@pytest.mark.parametrize(("step", "counts_by", "is_left_out"), [(4, 1, True), (3, 1, False), (4, 2, False)])
def test_an_array_of_which_the_last_step_is_read_is_not_filled(step: int, counts_by: int, *, is_left_out: bool) -> None:
    """As exporters write the last state of a recurrent layer, behind a transpose. The state itself is read, too."""
    program = simplify(_recurrent(step, counts_by))
    made = of_last_steps(program)
    verify(made)
    (loop,) = [each for each in made.entry.operations if each.opcode == "while"]
    assert (len(loop.shapes), made is program) == ((2, False) if is_left_out else (3, True))
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    for ours, wanted in zip(interpret.run(made, 6, [x]), interpret.run(program, 6, [x]), strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_an_array_of_one_step_is_the_state_itself() -> None:
    """As Keras keeps the last state of a recurrent layer."""
    made = of_last_steps(simplify(_recurrent(0, 1, steps=1)))
    verify(made)
    (loop,) = [each for each in made.entry.operations if each.opcode == "while"]
    assert len(loop.shapes) == 2
    assert "dynamic-update-slice" not in [each.opcode for each in made.entry.everything()]
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    state = x
    for _ in range(5):
        state = np.tanh(state + x)
    cut, last = interpret.run(made, 6, [x])
    np.testing.assert_allclose(last, state, rtol=1e-6)
    np.testing.assert_array_equal(cut, last[:, None, 1:3])


class _Parts:
    """Adds operations to several regions of one program."""

    def __init__(self) -> None:
        self._ids = count()

    def add(self, to: list[Operation], opcode: str, type_: Type, *operands: int, **more: Any) -> int:
        regions = more.pop("regions", ())
        to.append(
            Operation(
                id=next(self._ids),
                opcode=opcode,
                type=type_,
                operands=operands,
                regions=regions,
                attributes=attributes_of(OPERATIONS[opcode].attributes, more),
            )
        )
        return to[-1].id

    def constant(self, to: list[Operation], values: Any, dtype: str = "f32") -> int:
        array = np.array(values, NUMPY_TYPES[dtype])
        shape = Shape(dtype, tuple(Size(size) for size in array.shape))
        return self.add(to, "constant", shape, literal=Literal(array))

    def below(self, limit: int, *states: Shape) -> Region:
        """The condition of a loop: its first state is below `limit`."""
        made: list[Operation] = []
        tested, *_ = (self.add(made, "parameter", each, number=i) for i, each in enumerate(states))
        found = self.add(made, "compare", Shape("pred", ()), tested, self.constant(made, limit, "s32"), direction="LT")
        return Region(operations=tuple(made), results=(found,))


def _recurrent(step: int, counts_by: int, steps: int = 5) -> Program:
    """Of 5 turns, of which `step` is cut from the array of all; each turn counts `counts_by`."""
    integer, rows, array = Shape("s32", ()), Shape("f32", (N, Size(4))), Shape("f32", (Size(steps), N, Size(4)))
    parts = _Parts()
    add = parts.add
    entry: list[Operation] = []
    body: list[Operation] = []
    x, zero = add(entry, "parameter", rows, number=0), parts.constant(entry, 0, "s32")
    empty = add(entry, "broadcast", array, parts.constant(entry, 0), dimensions=())
    turn, state, states = (add(body, "parameter", each, number=i) for i, each in enumerate((integer, rows, array)))
    after = add(body, "add", integer, turn, parts.constant(body, counts_by, "s32"))
    new = add(body, "tanh", rows, add(body, "add", rows, state, x))
    part = add(body, "reshape", Shape("f32", (Size(1), N, Size(4))), new)
    filled = add(body, "dynamic-update-slice", array, states, part, turn, zero, zero)
    regions = (
        Region(operations=tuple(body), results=(after, new, filled)), parts.below(5, integer, rows, array)
    )  # fmt: skip
    loop = add(entry, "while", (integer, rows, array), zero, x, empty, regions=regions)
    all_ = add(entry, "get-tuple-element", array, loop, index=2)
    turned = add(entry, "transpose", Shape("f32", (N, Size(steps), Size(4))), all_, dimensions=(1, 0, 2))
    slices = ((0, N, 1), (step, step + 1, 1), (1, 3, 1))
    cut = add(entry, "slice", Shape("f32", (N, Size(1), Size(2))), turned, slices=slices)
    last = add(entry, "get-tuple-element", rows, loop, index=1)
    return Program(entry=Region(operations=tuple(entry), results=(cut, last)))


@pytest.mark.sweep(
    "0.0-0.5-True-True-dense", "0.0-0.5-True-True-conv2d", "1.0-0.5-True-False-dense", "0.0-inf-True-False-conv2d"
)
@pytest.mark.parametrize("layer", ["conv2d", "dense"])
@pytest.mark.parametrize(
    ("start", "weight", "has_bias", "is_left_out"),
    [(0.0, 0.5, True, True), (0.0, 0.5, False, True), (1.0, 0.5, True, False), (0.0, np.inf, True, False)],
)
def test_the_product_of_a_first_state_of_zeros_is_its_bias(
    compiled: Compile, layer: str, start: float, weight: float, *, has_bias: bool, is_left_out: bool
) -> None:
    weights = np.random.default_rng(1).normal(size=(20, 20)).astype(np.float32)
    weights[3, 4] = weight
    bias = np.random.default_rng(2).normal(size=20).astype(np.float32)
    program = recognize(simplify(_cell(layer, start, weights, bias if has_bias else None)))
    verify(program)
    (loop,) = [each for each in program.entry.operations if each.opcode == "while"]
    assert ("conditional" in [each.opcode for each in loop.regions[0].operations]) is is_left_out
    assert layer in [each.opcode for each in loop.regions[0].everything()]
    x = np.random.default_rng(0).normal(size=(6, 20)).astype(np.float32)
    state = np.full((6, 20), start)
    with np.errstate(invalid="ignore"):  # of an infinite weight times zero
        for _ in range(3):
            state = np.tanh(state @ weights.astype(np.float64) + (bias if has_bias else 0) + x)
    (ours,) = compiled(program, 8)(x.reshape(6, 1, 1, 20))
    np.testing.assert_allclose(ours.reshape(6, 20), state, rtol=1e-4, atol=1e-6)


def _cell(layer: str, start: float, weights: Array, bias: Array | None) -> Program:
    """Three turns of tanh(state @ weights + bias + x), for images of one pixel; the first state is `start`."""
    integer, rows, images = Shape("s32", ()), Shape("f32", (N, Size(20))), Shape("f32", (N, ONE, ONE, Size(20)))
    parts = _Parts()
    add = parts.add
    entry: list[Operation] = []
    body: list[Operation] = []
    x, zero = add(entry, "parameter", images, number=0), parts.constant(entry, 0, "s32")
    first = add(entry, "broadcast", images, parts.constant(entry, start), dimensions=())
    turn, state = (add(body, "parameter", each, number=i) for i, each in enumerate((integer, images)))
    after = add(body, "add", integer, turn, parts.constant(body, 1, "s32"))
    if layer == "dense":
        made = add(
            body, "dot", rows, add(body, "reshape", rows, state), parts.constant(body, weights),
            contracting=((1,), (0,)), batch=((), ()), order=(0, 1),
        )  # fmt: skip
        made = add(body, "reshape", images, made)
    else:
        made = add(
            body, "convolution", images, state, parts.constant(body, weights[None, None]), input=(0, 3, 1, 2),
            kernel=(3, 2, 0, 1), output=(0, 3, 1, 2), window=((1, 1, 0, 0, 1, 1),) * 2, feature_groups=1,
            batch_groups=1,
        )  # fmt: skip
    if bias is not None:
        spread = add(body, "broadcast", images, parts.constant(body, bias), dimensions=(3,))
        made = add(body, "add", images, made, spread)
    new = add(body, "tanh", images, add(body, "add", images, made, x))
    regions = (Region(operations=tuple(body), results=(after, new)), parts.below(3, integer, images))
    loop = add(entry, "while", (integer, images), zero, first, regions=regions)
    last = add(entry, "get-tuple-element", images, loop, index=1)
    return Program(entry=Region(operations=tuple(entry), results=(last,)))


@pytest.mark.parametrize(("steps", "first"), [(5, 0), (4, 0), (5, 1)])
def test_the_number_of_an_iteration_is_a_place_within_an_array_as_long(
    compiled: Compile, steps: int, first: int
) -> None:
    """Others are limited, as in HLO: the loop ends at 5, whatever it begins with."""
    integer, rows, array = Shape("s32", ()), Shape("f32", (N, Size(20))), Shape("f32", (N, Size(steps), Size(20)))
    parts = _Parts()
    add = parts.add
    entry: list[Operation] = []
    body: list[Operation] = []
    x, start = add(entry, "parameter", array, number=0), parts.constant(entry, first, "s32")
    zeros = add(entry, "broadcast", rows, parts.constant(entry, 0), dimensions=())
    turn, state = (add(body, "parameter", each, number=i) for i, each in enumerate((integer, rows)))
    zero = parts.constant(body, 0, "s32")
    sizes = (N, ONE, Size(20))
    step = add(body, "dynamic-slice", Shape("f32", sizes), x, zero, turn, zero, sizes=sizes)
    new = add(body, "tanh", rows, add(body, "add", rows, state, add(body, "reshape", rows, step)))
    after = add(body, "add", integer, turn, parts.constant(body, 1, "s32"))
    regions = (Region(operations=tuple(body), results=(after, new)), parts.below(5, integer, rows))
    loop = add(entry, "while", (integer, rows), start, zeros, regions=regions)
    last = add(entry, "get-tuple-element", rows, loop, index=1)
    program = simplify(Program(entry=Region(operations=tuple(entry), results=(last,))))
    given = np.random.default_rng(0).normal(size=(6, steps, 20)).astype(np.float32)
    wanted = np.zeros((6, 20))
    for number in range(first, 5):
        wanted = np.tanh(wanted + given[:, min(number, steps - 1)])
    np.testing.assert_allclose(compiled(program, 8)(given)[0], wanted, rtol=1e-5)
