"""Layers that a team of threads computes have the bits of one thread, whatever their shapes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.conftest import Code, Team, called_by, library_of
from tests.compiler.test_few_rows import layers_of
from tests.compiler.test_operations import N, Writer
from tests.compiler.test_pruned import layer, weights
from tfaot_pkg.compiler.attributes import attributes_of
from tfaot_pkg.compiler.emit import emit
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import NUMPY_TYPES, Literal, Operation, Program, Region, Shape, Size
from tfaot_pkg.compiler.verifier import verify
from tfaot_pkg.ground.arrays import Array

Share = Callable[[Program], Code]


@pytest.fixture
def shared(kernels: Path) -> Share:
    """The code of a program all of whose layers are shared."""

    def make(program: Program) -> Code:
        emitted = emit(program, "program", 32, divided_from=0)
        return Code.of(program, emitted, ctypes.CDLL(str(library_of(emitted.source, kernels))).program)

    return make


def check(code: Code, x: Array, *, parts: int = 2) -> None:
    """Teams give the bits of one thread; they compute at least `parts` parts of each layer."""
    expected = code(x)
    for size in (2, 3, 5):
        team = Team(size=size)
        for one, other in zip(code.at_sizes([], x, team=team), expected, strict=True):
            assert one.tobytes() == other.tobytes(), (len(x), size)
        assert team.parts and min(team.parts) >= parts, team.parts


@pytest.mark.parametrize("activation", ["", "relu", "tanh"])
def test_parts_of_dense_layers_have_the_bits_of_the_whole(shared: Share, activation: str) -> None:
    program, _, _ = layers_of(activation)
    code = shared(program)
    values = np.random.default_rng(12).normal(size=(32, 300)).astype(np.float32)
    for rows in (1, 3, 7, 32):
        check(code, values[:rows], parts=1)


def test_many_rows_of_a_dense_layer_are_divided(shared: Share) -> None:
    writer, random = Writer(), np.random.default_rng(3)
    weights = writer.constant(random.normal(size=(80, 100)).astype(np.float32))
    layer = writer.add("dense", (N, 150, 100), writer.input(150, 80), weights, weights_axis=0)
    check(shared(writer.program(layer)), random.normal(size=(2, 150, 80)).astype(np.float32), parts=6)


def test_few_rows_of_a_pruned_layer_are_divided(shared: Share) -> None:
    code = shared(layer(weights(0.75, 512, 256)))
    check(code, np.random.default_rng(5).normal(size=(3, 512)).astype(np.float32))


# Image, kernel, strides, dilations, padding on each side, groups, filters.
IMAGES = {
    "padded": ((9, 11, 3), (3, 3), (1, 1), (1, 1), (1, 1), 1, 40),
    "not padded": ((12, 20, 5), (3, 2), (1, 1), (1, 1), (0, 0), 1, 17),
    "few lines, many filters": ((4, 4, 20), (3, 3), (1, 1), (1, 1), (1, 1), 1, 200),
    "strides": ((21, 19, 8), (3, 3), (2, 2), (1, 1), (1, 1), 1, 33),
    "dilated": ((15, 14, 7), (3, 3), (1, 1), (2, 3), (2, 3), 1, 24),
    "groups": ((10, 10, 12), (3, 3), (1, 1), (1, 1), (1, 1), 3, 36),
    "pointwise": ((13, 13, 30), (1, 1), (1, 1), (1, 1), (0, 0), 1, 65),
    "pointwise with strides": ((13, 13, 30), (1, 1), (2, 2), (1, 1), (0, 0), 1, 20),
    "depthwise": ((12, 12, 24), (3, 3), (1, 1), (1, 1), (1, 1), 24, 24),
    "depthwise, other windows": ((12, 9, 10), (4, 2), (1, 1), (1, 1), (1, 0), 10, 10),
    "few filters": ((14, 15, 6), (3, 3), (1, 1), (1, 1), (1, 1), 1, 3),
    "pointwise with few filters": ((9, 16, 10), (1, 1), (1, 1), (1, 1), (0, 0), 1, 1),
    "one line": ((1, 100, 16), (1, 5), (1, 1), (1, 1), (0, 2), 1, 48),
    "one column": ((100, 1, 16), (5, 1), (1, 1), (1, 1), (2, 0), 1, 48),
    "large lines": ((5, 200, 40), (3, 3), (1, 1), (1, 1), (1, 1), 1, 16),
    "one window": ((6, 6, 9), (6, 6), (1, 1), (1, 1), (0, 0), 1, 90),
}


def image_layer(name: str, pool: Sequence[int] = ()) -> Program:
    """A layer of IMAGES with a bias and ReLU; `pool` is a window and its strides."""
    (height, width, channels), kernel, strides, dilations, pads, groups, filters = IMAGES[name]
    out = [
        (size + 2 * pad - (side - 1) * dilation - 1) // stride + 1
        for size, pad, side, dilation, stride in zip((height, width), pads, kernel, dilations, strides, strict=True)
    ]
    writer, random = Writer(), np.random.default_rng(len(name))
    x = writer.input(height, width, channels)
    matrix = writer.constant(random.normal(size=(*kernel, channels // groups, filters)).astype(np.float32))
    bias = writer.constant(random.normal(size=filters).astype(np.float32))
    window = (height, width, channels, *out, *kernel, *strides, *dilations, *pads)
    if not pool:
        made = writer.add(
            "conv2d", (N, *out, filters), x, matrix, bias, window=window, groups=groups, activation="relu"
        )
        return writer.program(made)
    side, step = pool
    pooled = [(size - side) // step + 1 for size in out]
    made = writer.add(
        "conv2d_max_pool", (N, *pooled, filters), x, matrix, bias, window=window, groups=groups, activation="relu",
        pool=(*out, filters, *pooled, side, side, step, step, 1, 1, 0, 0),
    )  # fmt: skip
    return writer.program(made)


@pytest.mark.parametrize("name", IMAGES)
def test_parts_of_convolutions_have_the_bits_of_the_whole(shared: Share, name: str) -> None:
    code, random = shared(image_layer(name)), np.random.default_rng(7)
    for images in (1, 3):
        check(code, random.normal(size=(images, *IMAGES[name][0])).astype(np.float32))


def test_a_small_image_is_divided_before_it_is_pooled(shared: Share) -> None:
    code = shared(image_layer("few lines, many filters", (2, 2)))
    check(code, np.random.default_rng(8).normal(size=(1, *IMAGES["few lines, many filters"][0])).astype(np.float32))


@pytest.mark.parametrize("pool", [(2, 2), (3, 2), (2, 3), (3, 1)])
@pytest.mark.parametrize("name", ["padded", "not padded", "strides", "depthwise"])
def test_parts_of_pooled_convolutions_have_the_bits_of_the_whole(shared: Share, name: str, pool: Sequence[int]) -> None:
    code, random = shared(image_layer(name, pool)), np.random.default_rng(8)
    for images in (1, 2):
        check(code, random.normal(size=(images, *IMAGES[name][0])).astype(np.float32), parts=1)


def of_bytes(writer: Writer, kernel: tuple[int, ...], outputs: int, *, is_requantized: bool) -> list[int]:
    """The operands of a layer after its input."""
    random = np.random.default_rng(outputs)
    weights = random.integers(-128, 128, (*kernel, outputs))
    operands = [writer.constant(weights, "s8"), writer.constant(random.integers(-999, 999, outputs), "s32")]
    return [*operands, *([writer.constant(random.uniform(0, 1e-3, outputs))] if is_requantized else [])]


@pytest.mark.parametrize("dtype", ["u8", "s8"])
@pytest.mark.parametrize("is_requantized", [False, True])
def test_parts_of_layers_of_bytes_have_the_bits_of_the_whole(shared: Share, dtype: str, is_requantized: bool) -> None:
    least, most = (0, 255) if dtype == "u8" else (-128, 127)
    given: dict[str, Any] = {"zero": 3, "low": least, "high": most} if is_requantized else {}
    made, writer = dtype if is_requantized else "s32", Writer()
    x = writer.input(60, 80, dtype=dtype)
    layer = of_bytes(writer, (80,), 100, is_requantized=is_requantized)
    dense = shared(writer.program(writer.add("quantized_dense", (N, 60, 100), x, *layer, dtype=made, **given)))
    (height, width, channels), kernel, _, _, (top, left), _, filters = IMAGES["padded"]
    writer = Writer()
    x = writer.input(height, width, channels, dtype=dtype)
    layer = of_bytes(writer, (*kernel, channels), filters, is_requantized=is_requantized)
    window = (height, width, channels, height, width, *kernel, 1, 1, 1, 1, top, left)
    conv = shared(
        writer.program(
            writer.add(
                "quantized_conv2d", (N, height, width, filters), x, *layer, dtype=made, window=window, padding=5, **given
            )
        )
    )  # fmt: skip
    random = np.random.default_rng(7)
    for rows in (1, 3):
        check(dense, random.integers(least, most, (rows, 60, 80)).astype(NUMPY_TYPES[dtype]), parts=4)
        check(conv, random.integers(least, most, (rows, height, width, channels)).astype(NUMPY_TYPES[dtype]), parts=4)


@pytest.mark.parametrize(("activation", "count"), [("none", 1), ("relu", 1), ("tanh", 1), ("relu", 2), ("none", 3)])
def test_parts_of_layers_of_bfloat16_have_the_bits_of_the_whole(shared: Share, activation: str, count: int) -> None:
    """`count`: the parts of numbers."""
    random, writer = np.random.default_rng(2), Writer()
    same: dict[str, Any] = {"activation": activation, "parts": count}
    weights, bias = (writer.constant(random.normal(size=size)) for size in ((80, 100), (100,)))
    x = writer.input(60, 80)
    dense = shared(writer.program(writer.add("bfloat16_dense", (N, 60, 100), x, weights, bias, **same)))
    (height, width, channels), kernel, _, _, (top, left), _, filters = IMAGES["few lines, many filters"]
    writer = Writer()
    filter_, bias = (writer.constant(random.normal(size=size)) for size in ((*kernel, channels, filters), (filters,)))
    window = (height, width, channels, height, width, *kernel, 1, 1, 1, 1, top, left)
    x = writer.input(height, width, channels)
    made = writer.add("bfloat16_conv2d", (N, height, width, filters), x, filter_, bias, window=window, groups=1, **same)
    conv = shared(writer.program(made))
    for rows in (1, 3):
        check(dense, random.normal(size=(rows, 60, 80)).astype(np.float32), parts=4)
        check(conv, random.normal(size=(rows, height, width, channels)).astype(np.float32), parts=4)


def elementwise(writer: Writer) -> list[int]:
    x = writer.input(128, 160)
    beside = writer.add("multiply", (N, 128, 160), x, x)
    return [writer.add("tanh", (N, 128, 160), writer.add("add", (N, 128, 160), x, beside))]


def of_rows(writer: Writer) -> list[int]:
    x = writer.input(60, 90)
    total = writer.add("reduce", (N, 60), x, writer.constant(0.0), dimensions=(2,), regions=(writer.reducer("add"),))
    spread = writer.add("broadcast", (N, 60, 90), total, dimensions=(0, 1))
    slices = ((0, N, 1), (1, 60, 1), (10, 90, 1))
    return [writer.add("slice", (N, 59, 80), writer.add("divide", (N, 60, 90), x, spread), slices=slices)]


def softmax(writer: Writer) -> list[int]:
    return [writer.add("softmax", (N, 12, 18, 70), writer.input(12, 18, 70), axis=3)]


def moved(writer: Writer) -> list[int]:
    x = writer.input(6, 33, 40)
    return [writer.add("transpose", (N, 33, 6, 40), x, dimensions=(0, 2, 1, 3))]


def attention(writer: Writer) -> list[int]:
    x = writer.input(50, 6, 32)
    heads = writer.add("transpose", (N, 6, 50, 32), x, dimensions=(0, 2, 1, 3))
    both = ((0, 1), (0, 1))
    scores = writer.add("dot", (N, 6, 50, 50), heads, heads, contracting=((3,), (3,)), batch=both)
    shares = writer.add("softmax", (N, 6, 50, 50), scores, axis=3)
    return [writer.add("dot", (N, 6, 50, 32), shares, heads, contracting=((3,), (2,)), batch=both)]


def counted(writer: Writer) -> list[int]:
    numbers = writer.add("iota", (N, 64, 320), dimensions=(2,))
    return [writer.add("add", (N, 64, 320), writer.input(64, 320), numbers)]


LOOPS = (elementwise, of_rows, softmax, moved, attention, counted)


@pytest.mark.parametrize("make", LOOPS, ids=lambda make: make.__name__)
def test_parts_of_loops_have_the_bits_of_the_whole(shared: Share, make: Callable[[Writer], list[int]]) -> None:
    writer = Writer()
    program = writer.program(*make(writer))
    (parameter,) = program.entry.parameters
    sizes = [size.constant for size in parameter.shape.sizes[1:]]
    code, random = shared(program), np.random.default_rng(4)
    for rows in (1, 3):
        check(code, random.normal(size=(rows, *sizes)).astype(np.float32), parts=6)


@pytest.mark.parametrize("make", LOOPS, ids=lambda make: make.__name__)
def test_small_loops_have_no_code_for_teams(make: Callable[[Writer], list[int]]) -> None:
    writer = Writer()
    program = writer.program(*make(writer))
    members = [emit(program, "program", divided_from=least).member_scratch for least in (1 << 30, 0)]
    assert members[0] is None and members[1] is not None


def test_turns_that_depend_on_one_another_are_not_divided() -> None:
    writer = Writer()
    x = writer.input(64, 320)
    columns = writer.add("reduce", (N, 320), x, writer.constant(0.0), dimensions=(1,), regions=(writer.reducer("add"),))
    assert emit(writer.program(columns), "program", divided_from=0).member_scratch is None


class Towers:
    """Loops of 5 turns with a state of 20 numbers each: tanh(state @ weights + x), with the turn before as start."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.random = np.random.default_rng(5)
        self.x = self.add(self.operations, "parameter", Shape("f32", (N, Size(20))), number=0)

    def add(
        self, to: list[Operation], opcode: str, type_: Shape | tuple[Shape, ...], *operands: int,
        regions: tuple[Region, ...] = (), **more: Any,
    ) -> int:  # fmt: skip
        made = Operation(
            id=next(_NUMBERS), opcode=opcode, type=type_, operands=operands, regions=regions,
            attributes=attributes_of(OPERATIONS[opcode].attributes, more),
        )  # fmt: skip
        to.append(made)
        return made.id

    def constant(self, to: list[Operation], values: Any, dtype: str = "f32") -> int:
        array = np.array(values, NUMPY_TYPES[dtype])
        shape = Shape(dtype, tuple(map(Size, array.shape)))
        return self.add(to, "constant", shape, literal=Literal(array))

    def loop(self, start: int) -> int:
        integer, rows = Shape("s32", ()), Shape("f32", (N, Size(20)))
        body, test = list[Operation](), list[Operation]()
        turn, state, given = (
            self.add(body, "parameter", each, number=i) for i, each in enumerate((integer, rows, rows))
        )
        weights = self.constant(body, self.random.normal(size=(20, 20)))
        product = self.add(body, "dense", rows, state, weights, weights_axis=0)
        new = self.add(body, "tanh", rows, self.add(body, "add", rows, product, given))
        after = self.add(body, "add", integer, turn, self.constant(body, 1, "s32"))
        tested, *_ = (self.add(test, "parameter", each, number=i) for i, each in enumerate((integer, rows, rows)))
        less = self.add(test, "compare", Shape("pred", ()), tested, self.constant(test, 5, "s32"), direction="LT")
        regions = (
            Region(operations=tuple(body), results=(after, new, given)),
            Region(operations=tuple(test), results=(less,)),
        )
        zero = self.constant(self.operations, 0, "s32")
        made = self.add(self.operations, "while", (integer, rows, rows), zero, start, self.x, regions=regions)
        return self.add(self.operations, "get-tuple-element", rows, made, index=1)

    def scan(self, given: int) -> int:
        """All five states of a loop, [batch, 5, 20], with the steps of `given` as x."""
        integer, rows, steps = Shape("s32", ()), Shape("f32", (N, Size(20))), Shape("f32", (N, Size(5), Size(20)))
        types = (integer, rows, steps, steps)
        body, test = list[Operation](), list[Operation]()
        turn, state, made, read = (self.add(body, "parameter", each, number=i) for i, each in enumerate(types))
        weights = self.constant(body, self.random.normal(size=(20, 20)))
        zero, step = self.constant(body, 0, "s32"), Shape("f32", (N, Size(1), Size(20)))
        part = self.add(body, "dynamic-slice", step, read, zero, turn, zero, sizes=step.sizes)
        x = self.add(body, "reshape", rows, part)
        product = self.add(body, "dense", rows, state, weights, weights_axis=0)
        new = self.add(body, "tanh", rows, self.add(body, "add", rows, product, x))
        update = self.add(body, "reshape", step, new)
        written = self.add(body, "dynamic-update-slice", steps, made, update, zero, turn, zero)
        after = self.add(body, "add", integer, turn, self.constant(body, 1, "s32"))
        tested, *_ = (self.add(test, "parameter", each, number=i) for i, each in enumerate(types))
        less = self.add(test, "compare", Shape("pred", ()), tested, self.constant(test, 5, "s32"), direction="LT")
        regions = (
            Region(operations=tuple(body), results=(after, new, written, read)),
            Region(operations=tuple(test), results=(less,)),
        )
        start, empty = self.constant(self.operations, 0, "s32"), self.constant(self.operations, 0.0)
        initial = self.add(self.operations, "broadcast", steps, empty, dimensions=())
        loop = self.add(self.operations, "while", types, start, self.x, initial, given, regions=regions)
        return self.add(self.operations, "get-tuple-element", steps, loop, index=2)

    def scaled(self, value: int, factor: float) -> int:
        number = self.constant(self.operations, factor)
        spread = self.add(self.operations, "broadcast", Shape("f32", (N, Size(20))), number, dimensions=())
        return self.add(self.operations, "multiply", Shape("f32", (N, Size(20))), value, spread)

    def program(self, *results: int) -> Program:
        made = Program(entry=Region(operations=tuple(self.operations), results=results))
        verify(made)
        return made


_NUMBERS = count(1)
LEAST = 1000
"""A loop has 2,000 multiply-adds, and its layer 400."""


def two_towers(made: Towers) -> list[int]:
    return [made.loop(made.x), made.loop(made.scaled(made.x, 0.5))]


def three_towers_and_what_joins_two(made: Towers) -> list[int]:
    first, second = made.loop(made.x), made.loop(made.scaled(made.x, 2.0))
    joined = made.add(made.operations, "add", Shape("f32", (N, Size(20))), first, second)
    return [made.scaled(joined, 3.0), made.loop(made.scaled(made.x, -1.0)), made.loop(joined), second]


def one_behind_the_other(made: Towers) -> list[int]:
    return [made.loop(made.scaled(made.loop(made.x), 0.5))]


def one_over_what_the_other_writes_as_an_output(made: Towers) -> list[int]:
    steps = Shape("f32", (N, Size(5), Size(20)))
    first = made.scan(made.add(made.operations, "broadcast", steps, made.x, dimensions=(0, 2)))
    return [first, made.scan(first)]


def two_that_write_outputs(made: Towers) -> list[int]:
    steps = Shape("f32", (N, Size(5), Size(20)))
    spread = made.add(made.operations, "broadcast", steps, made.x, dimensions=(0, 2))
    return [made.scan(spread), made.scan(spread)]


@pytest.mark.parametrize(
    ("make", "at_once"),
    [
        (two_towers, [2]),
        (three_towers_and_what_joins_two, [3]),
        (one_behind_the_other, []),
        (one_over_what_the_other_writes_as_an_output, []),
        (two_that_write_outputs, [2]),
    ],
)
def test_loops_that_do_not_depend_on_one_another_run_side_by_side(
    kernels: Path, make: Callable[[Towers], list[int]], at_once: list[int]
) -> None:
    made = Towers()
    program = made.program(*make(made))
    emitted = emit(program, "program", 8, divided_from=LEAST)
    code = Code.of(program, emitted, ctypes.CDLL(str(library_of(emitted.source, kernels))).program)
    x = np.random.default_rng(6).normal(size=(11, 20)).astype(np.float32)
    alone, team = code(x), Team(size=2)
    for one, other in zip(code.at_sizes([], x, team=team), alone, strict=True):
        assert one.tobytes() == other.tobytes()
    assert sorted(set(team.parts)) == at_once
    as_before = emit(program, "program", 8, divided_from=1 << 30)
    code = Code.of(program, as_before, ctypes.CDLL(str(library_of(as_before.source, kernels))).program)
    for one, other in zip(code(x), alone, strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("towers", [8, 40])
def test_so_many_loops_run_side_by_side_that_one_thread_has_blocks_as_long(towers: int) -> None:
    made = Towers()
    program = made.program(*(made.loop(made.scaled(made.x, float(i))) for i in range(towers)))
    beside, alone = (emit(program, "program", divided_from=least) for least in (LEAST, 1 << 30))
    assert beside.block == alone.block
    assert alone.scratch < beside.scratch <= 2 * alone.scratch


def test_only_large_layers_are_divided() -> None:
    writer = Writer()
    small, large = (writer.constant(np.ones(shape, np.float32)) for shape in ((500, 16), (500, 600)))
    x = writer.input(500)
    program = writer.program(
        writer.add("dense", (N, 16), x, small, weights_axis=0), writer.add("dense", (N, 600), x, large, weights_axis=0)
    )
    assert [name for name in called_by(program) if "ByTeam" in name] == ["denseByTeam<500, 600>"]
    assert emit(program, "program").member_scratch == 0
    assert emit(image_layer("padded"), "program").member_scratch is None
    emitted = emit(image_layer("padded"), "program", divided_from=1000)
    assert emitted.member_scratch is not None and 0 < emitted.member_scratch <= emitted.scratch


def test_layers_of_bytes_are_divided_from_four_times_the_size_on() -> None:
    for outputs, is_divided in ((500, False), (2200, True)):
        writer = Writer()
        x = writer.input(500, dtype="u8")
        layer = of_bytes(writer, (500,), outputs, is_requantized=False)
        emitted = emit(writer.program(writer.add("quantized_dense", (N, outputs), x, *layer, dtype="s32")), "program")
        assert ("quantizedDense(team, " in emitted.source) == is_divided
        assert (emitted.member_scratch is not None) == is_divided
