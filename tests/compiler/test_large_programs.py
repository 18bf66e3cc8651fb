"""Programs that are deep, long or large: code of a size that fits theirs, or an error that says what is too much."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.conftest import Compile
from tests.compiler.test_operations import N, Writer
from tfaot_pkg.analysis.program import hlo
from tfaot_pkg.compiler.emit import emit, loops_of
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.loops import Buffer
from tfaot_pkg.compiler.memory import Lifetime, Memory
from tfaot_pkg.compiler.passes.pipeline import recognize
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Size, Unsupported
from tfaot_pkg.worker_program.messages.listing import NoAttributes, Number
from tools.loops_text import text_of_loops

_SCALAR = hlo.Shape("f32", ())


def _chain(length: int) -> Writer:
    writer = Writer()
    value, weights = writer.input(3), writer.input(3)
    for _ in range(length):
        value = writer.add("add", (N, 3), value, weights)
        value = writer.add("reverse", (N, 3), value, dimensions=(1,))
    return writer


def test_thousands_of_operations_on_one_element_are_computed_in_parts(compiled: Compile) -> None:
    writer = _chain(600)
    program = recognize(simplify(writer.program(len(writer.operations) - 1)))
    x, y = np.ones((5, 3), np.float32), np.array([[1.0, 2.0, 3.0]] * 5, np.float32)
    np.testing.assert_array_equal(compiled(program, 2)(x, y)[0], x + 300 * y + 300 * y[:, ::-1])


def test_code_grows_with_the_number_of_operations() -> None:
    """Of numbers, and of arrays that are only moved between: neither is computed more often than once."""
    sizes = []
    for length in (20, 40):
        writer = Writer()
        x, one = writer.input(4), writer.constant(1.5)
        number, value = one, x
        for _ in range(length):
            number = writer.add("multiply", (), number, number)
            value = writer.add("multiply", (N, 4), value, writer.add("reverse", (N, 4), value, dimensions=(1,)))
        spread = writer.add("broadcast", (N, 4), number, dimensions=())
        program = writer.program(writer.add("add", (N, 4), value, spread))
        sizes.append(text_of_loops(loops_of(program)).count("\n"))
    assert sizes[1] < 2.2 * sizes[0]


def test_memory_of_a_thread_has_a_limit() -> None:
    writer = Writer()
    x = writer.input(4)
    wide = writer.add("broadcast", (N, 4, 1 << 28), x, dimensions=(0, 1))
    region = writer.reducer("add")
    window = ((1, 1, 0, 0, 1, 1), (1, 1, 0, 0, 1, 1), (2, 2, 0, 0, 1, 1))
    made = writer.add(
        "reduce-window", (N, 4, 1 << 27), wide, writer.constant(0.0), window=window, regions=(region,)
    )  # fmt: skip
    with pytest.raises(Unsupported, match=r"MiB of memory for 1 rows"):
        emit(writer.program(made), "program")


@pytest.mark.parametrize(
    ("floats", "rows"), [(1 << 10, (64, 64, 8)), (1 << 13, (8, 8, 1)), (1 << 16, (1, 8, 1)), (1 << 19, (1, 2, 1))]
)
def test_a_block_suits_a_cache_and_has_eight_rows_for_products_in_loops(
    floats: int, rows: tuple[int, int, int]
) -> None:
    def chosen(*, multiplies_in_loops: bool, repeats: bool) -> int:
        memory = Memory(
            buffers=[Buffer("v0", "f32", N * Size(floats))], lifetimes={"v0": Lifetime(0, 1)}, symbols=(), weights=0,
            layers=(), entries=1, repeats=repeats,
        )  # fmt: skip
        return memory.chosen_block(multiplies_in_loops=multiplies_in_loops)

    in_loops = [chosen(multiplies_in_loops=each, repeats=True) for each in (False, True)]
    assert (*in_loops, chosen(multiplies_in_loops=False, repeats=False)) == rows


@pytest.mark.parametrize(("floats", "rows"), [(1 << 8, 32), (1 << 10, 8), (1 << 16, 1)])
def test_a_block_of_steps_suits_the_first_cache(floats: int, rows: int) -> None:
    memory = Memory(
        buffers=[Buffer("v0", "f32", N * Size(floats))], lifetimes={"v0": Lifetime(0, 1)}, symbols=(), weights=0,
        layers=(), entries=1, repeats=True,
    )  # fmt: skip
    assert memory.chosen_block(takes_steps=True) == rows


def _function(called: tuple[int, ...]) -> hlo.Computation:
    """f(x) = called(x) and so on, one after the other."""
    number = Number(number=0)
    made = [_instruction(0, "parameter", (), (), number)]
    made += [_instruction(i, "call", (i - 1,), (function,), NoAttributes()) for i, function in enumerate(called, 1)]
    return hlo.Computation(instructions=tuple(made), root=len(called))


def _instruction(
    id_: int, opcode: str, operands: tuple[int, ...], called: tuple[int, ...], attributes: object
) -> hlo.Instruction:
    return hlo.Instruction(
        id=id_, opcode=opcode, node="", operation="", shape=_SCALAR, operands=operands, called=called,
        attributes=(attributes, attributes),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        (1, "more than 24 deep"),
        pytest.param(4, "more than 200000 operations", marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
)
def test_functions_within_functions_have_a_limit(calls: int, message: str) -> None:
    depth = 40 if calls == 1 else 20
    functions = {number: _function((number - 1,) * calls if number else ()) for number in range(depth)}
    with pytest.raises(Unsupported, match=message):
        import_program(hlo.Program(batch_sizes=(5, 7), computations=functions, entry=depth - 1), 1, [])
