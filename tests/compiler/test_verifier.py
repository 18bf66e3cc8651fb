"""What the verifier rejects: programs made by hand, a worker's listing that lies, and random programs with one change.

The interpreter says whether a changed program is wrong: it computes arrays, and looks at their sizes and types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from tests.compiler.random_programs import Grower, inputs_of
from tfaot_pkg.analysis.program.hlo import read_program
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Comparison, Dimensions
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.pipeline import Pass, run
from tfaot_pkg.compiler.program import (
    NUMPY_TYPES,
    ROWS,
    Attributes,
    Number,
    Operation,
    Program,
    Region,
    Shape,
    Size,
    Unsupported,
)
from tfaot_pkg.compiler.verifier import InvalidProgram, Verifier, verify
from tfaot_pkg.worker_program.messages import listing

Random = np.random.Generator
_X = Operation(id=0, opcode="parameter", type=Shape("f32", (ROWS, Size(4))), attributes=Number(number=0))
_CHANGES = 40
"""Of each program."""


def _program(*operations: Operation, results: tuple[int, ...] = (1,)) -> Program:
    return Program(entry=Region(operations=(_X, *operations), results=results))


def _made(opcode: str, dtype: str, *sizes: Size, operands: tuple[int, ...] = (0,), **attributes: Any) -> Operation:
    kind = OPERATIONS[opcode].attributes if opcode in OPERATIONS else Attributes
    made = kind(**attributes)
    return Operation(id=1, opcode=opcode, type=Shape(dtype, sizes), operands=operands, attributes=made)


WRONG: Mapping[str, tuple[Operation, str]] = {
    "a type that its operands do not have": (_made("add", "s64", ROWS, Size(9), operands=(0, 0)), "gives f32"),
    "an unknown operation": (_made("frobnicate", "f32", ROWS, Size(4)), "no such operation"),
    "too few operands": (_made("add", "f32", ROWS, Size(4)), "has 1 operands"),
    "no attributes": (
        replace(_made("negate", "f32", Size(4), ROWS), opcode="transpose"),
        "attributes of the type Attributes, not Dimensions",
    ),
    "another attribute": (
        replace(_made("reverse", "f32", ROWS, Size(4), dimensions=(1,)), opcode="negate"),
        "attributes of the type Dimensions, not Attributes",
    ),
    "a wrong attribute": (_made("transpose", "f32", Size(4), ROWS, dimensions="10"), "dimensions is not of its type"),
    "axes twice": (_made("transpose", "f32", ROWS, ROWS, dimensions=(0, 0)), "not different axes"),
    "other elements": (_made("reshape", "f32", ROWS, Size(5)), "has 5 elements"),
    "no weights": (_made("dense", "f32", ROWS, Size(2), weights_axis=0, activation="none"), "has 1 operands"),
    "a later value": (_made("add", "f32", ROWS, Size(4), operands=(0, 2)), "uses %2"),
    "a slice of more": (_made("slice", "f32", ROWS, Size(5), slices=((0, ROWS, 1), (0, 5, 1))), "not inside 4"),
    "a number of rows": (_made("slice", "f32", Size(3), Size(4), slices=((0, 3, 1), (0, 4, 1))), "not inside 1"),
    "an unknown type": (_made("convert", "f99", ROWS, Size(4)), "no type f99"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_operation_is_named(name: str) -> None:
    operation, reason = WRONG[name]
    with pytest.raises(InvalidProgram, match=f"%1 {operation.opcode}.*{reason}"):
        verify(_program(operation))


def test_loops_and_branches_have_the_types_of_their_regions() -> None:
    number = Shape("s32", ())
    state = Operation(id=10, opcode="parameter", type=number, attributes=Number(number=0))
    body = Region(operations=(state,), results=(10,))
    test = Region(
        operations=(
            replace(state, id=20),
            Operation(
                id=21,
                opcode="compare",
                type=Shape("pred", ()),
                operands=(20, 20),
                attributes=Comparison(direction="LT"),
            ),
        ),
        results=(21,),
    )
    start = Operation(id=1, opcode="iota", type=Shape("s32", (Size(4),)), attributes=Dimensions(dimensions=(0,)))
    loop = Operation(id=2, opcode="while", type=Shape("s32", (Size(4),)), operands=(1,), regions=(body, test))
    with pytest.raises(InvalidProgram, match="%2 while: its body has other types"):
        verify(_program(start, loop, results=(2,)))


def test_a_listing_whose_sizes_lie_is_rejected() -> None:
    def module(rows: int) -> listing.Module:
        def instruction(number: int, opcode: str, width: int, operands: tuple[int, ...], attributes: Any) -> Any:
            return listing.Instruction(
                id=number, opcode=opcode, node="x", operation="AddV2", operands=operands, called=(),
                shape=listing.ArrayShape(dtype="f32", sizes=(rows, width)), attributes=attributes,
            )  # fmt: skip

        given = instruction(11, "parameter", 4, (), listing.Number(number=0))
        total = instruction(12, "add", 900, (11, 11), listing.NoAttributes())
        computation = listing.Computation(id=1, root=12, instructions=(given, total))
        return listing.Module(batch_size=rows, entry=1, computations=(computation,), sizes={})

    program = import_program(read_program(tuple(map(module, (5, 7, 64, 2, 3)))), 1, [], ())
    with pytest.raises(InvalidProgram, match=r"add \(node 'x'\) gives f32\[1,4\], not f32\[1,900\]"):
        verify(program)


def _random_program(seed: int) -> Program:
    grower = Grower(np.random.default_rng(seed), symbolic=seed % 2 == 1)
    return grower.program()


def _changed(program: Program, random: Random) -> Program:
    """`program` with one operation changed: its type, an operand, an attribute, or its opcode."""
    operations = list(program.entry.operations)
    place = int(random.integers(len(operations)))
    operation = operations[place]
    kind = random.integers(5)
    if kind == 0 and not isinstance(operation.type, tuple) and operation.shape.rank:
        sizes = list(operation.shape.sizes)
        axis = int(random.integers(len(sizes)))
        sizes[axis] = sizes[axis] + Size(int(random.integers(1, 3)))
        operation = replace(operation, type=replace(operation.shape, sizes=tuple(sizes)))
    elif kind == 1 and not isinstance(operation.type, tuple):
        operation = replace(operation, type=replace(operation.shape, dtype=str(random.choice(list(NUMPY_TYPES)))))
    elif kind == 2 and operation.operands:
        operands = list(operation.operands)
        operands[int(random.integers(len(operands)))] = operations[int(random.integers(place))].id
        operation = replace(operation, operands=tuple(operands))
    elif kind == 3 and (names := [each.name for each in fields(operation.attributes)]):
        name = str(random.choice(names))
        value = _other(getattr(operation.attributes, name))
        operation = replace(operation, attributes=replace(operation.attributes, **{name: value}))
    else:
        alike = [name for name, each in OPERATIONS.items() if each.attributes is type(operation.attributes)]
        operation = replace(operation, opcode=str(random.choice(alike)))
    operations[place] = operation
    return replace(program, entry=replace(program.entry, operations=tuple(operations)))


def _other(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, tuple)):
        return None
    if isinstance(value, tuple):
        return (*map(_other, value),) if value else (0,)
    return value + 1


def _runs(program: Program, random: Random) -> bool:
    """Whether the interpreter computes arrays of the types that the program states, at two batch sizes."""
    sizes = {each.name: 3 for each in program.symbols}
    try:
        for batch in (2, 3):
            interpret.run(program, batch, inputs_of(program, batch, sizes, random), sizes)
    except Unsupported:
        return True  # there is nothing to compare with
    except Exception:  # noqa: BLE001 (whatever it is: the program cannot be computed)
        return False
    return True


def _wrong_ones(seeds: range) -> Iterator[tuple[int, str]]:
    for seed in seeds:
        program, random = _random_program(seed), np.random.default_rng(seed)
        verifier = Verifier()  # as between passes: it has seen most operations of a changed program
        verifier.verify(program)
        for number in range(_CHANGES):
            changed = _changed(program, random)
            try:
                verifier.verify(changed)
            except InvalidProgram:
                continue
            verify(changed)
            if not _runs(changed, random):
                yield seed, f"change {number}"


def test_no_changed_program_passes_that_cannot_be_computed() -> None:
    assert list(_wrong_ones(range(12))) == []


@pytest.mark.nightly
def test_none_of_thousands_of_changed_programs_passes_that_cannot_be_computed() -> None:
    assert list(_wrong_ones(range(100, 175))) == []


@pytest.mark.release
def test_none_of_ten_thousand_changed_programs_passes_that_cannot_be_computed() -> None:
    assert list(_wrong_ones(range(175, 425))) == []


def test_a_pass_that_states_a_wrong_type_is_named() -> None:
    def widened(program: Program) -> Program:
        given, made = program.entry.operations
        wrong = replace(made, type=Shape("f32", (ROWS, Size(900))))
        return replace(program, entry=replace(program.entry, operations=(given, wrong)))

    program = _program(_made("negate", "f32", ROWS, Size(4)))
    with pytest.raises(InvalidProgram, match=r"after widen: %1 negate gives f32\[1,4\], not f32\[1,900\]"):
        run(program, [Pass(name="widen", run=widened, summary="")])
