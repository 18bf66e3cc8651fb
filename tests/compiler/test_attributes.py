"""Attributes of operations: what is read into their types, and what is rejected."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from tfaot_pkg.analysis.program.hlo import read_program
from tfaot_pkg.compiler.attributes import (
    Comparison,
    Dimensions,
    Dot,
    MalformedAttributes,
    Slices,
    attributes_of,
    numbers,
    varies,
    with_sizes,
)
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.program import ROWS, Attributes, Size, Unsupported
from tfaot_pkg.worker_program.messages import listing


def test_attributes_are_read_into_the_type_of_the_operation() -> None:
    assert attributes_of(Dimensions, {"dimensions": (1, 0)}) == Dimensions(dimensions=(1, 0))
    assert attributes_of(Comparison, {"direction": "LT"}) == Comparison(direction="LT", order="")
    assert attributes_of(Slices, {"slices": ((0, ROWS, 1),)}).slices == ((0, ROWS, 1),)


@pytest.mark.parametrize(
    ("kind", "given", "reason"),
    [
        (Dimensions, {}, "lacks dimensions"),
        (Dimensions, {"dimensions": (0,), "axis": 1}, "no attribute axis"),
        (Dimensions, {"dimensions": [0]}, "dimensions is not of its type"),
        (Dimensions, {"dimensions": (0, "1")}, "dimensions is not of its type"),
        (Dimensions, {"dimensions": (True,)}, "dimensions is not of its type"),
        (Dimensions, {"dimensions": (ROWS,)}, "dimensions is not of its type"),
        (Slices, {"slices": ((0, ROWS),)}, "slices is not of its type"),
        (Dot, {"contracting": ((0,),), "batch": ((), ())}, "contracting is not of its type"),
        (Comparison, {"direction": None}, "direction is not of its type"),
        (Attributes, {"direction": "LT"}, "no attribute direction"),
    ],
)
def test_other_attributes_are_rejected(kind: type[Attributes], given: dict[str, Any], reason: str) -> None:
    with pytest.raises(MalformedAttributes, match=reason):
        attributes_of(kind, given)


@pytest.mark.parametrize("opcode", sorted(set(listing.ATTRIBUTES) & set(OPERATIONS)))
def test_what_a_listing_has_an_operation_has_too(opcode: str) -> None:
    """Except constants, whose values a listing has as numbers, or leaves out."""
    listed = {each.name for each in fields(listing.ATTRIBUTES[opcode])}
    assert opcode == "constant" or listed <= {each.name for each in fields(OPERATIONS[opcode].attributes)}


def test_sizes_in_attributes_are_found_and_changed() -> None:
    cut = Slices(slices=((0, ROWS, 1), (0, 4, 1)))
    assert varies(cut) and not varies(Slices(slices=((0, Size(4), 1),)))
    assert with_sizes(cut, lambda size: size + Size(1)).slices == ((0, ROWS + Size(1), 1), (0, 4, 1))
    assert numbers(cut.slices[0]) is None and numbers(cut.slices[1]) == (0, 4, 1)


def test_an_operation_that_programs_lack_is_left_to_xla() -> None:
    """The gradient of a maximum over windows: XLA compiles the model instead, and nothing is wrong with it."""

    def module(rows: int) -> listing.Module:
        def instruction(number: int, opcode: str, operands: tuple[int, ...], attributes: Any) -> listing.Instruction:
            return listing.Instruction(
                id=number, opcode=opcode, node="gradient", operation="MaxPoolGrad", operands=operands, called=(),
                shape=listing.ArrayShape(dtype="f32", sizes=(rows, 4)), attributes=attributes,
            )  # fmt: skip

        side = (1, 1, 0, 0, 1, 1)
        given = instruction(11, "parameter", (), listing.Number(number=0))
        made = instruction(12, "select-and-scatter", (11, 11, 11), listing.Windows(window=(side, side)))
        computation = listing.Computation(id=1, root=12, instructions=(given, made))
        return listing.Module(batch_size=rows, entry=1, computations=(computation,), sizes={})

    with pytest.raises(Unsupported, match=r"select-and-scatter \(node 'gradient'\)"):
        import_program(read_program(tuple(map(module, (5, 7, 64, 2, 3)))), 1, [], ())


def test_the_table_says_what_each_operation_computes() -> None:
    """Except parameters, which are given, and calls of code that the program does not have."""
    assert {name for name, each in OPERATIONS.items() if each.meaning is None} == {"custom-call", "parameter"}
    assert {name for name, each in OPERATIONS.items() if not each.is_pure} == {"custom-call"}
    assert set(listing.ATTRIBUTES).isdisjoint(name for name, each in OPERATIONS.items() if each.summary)
