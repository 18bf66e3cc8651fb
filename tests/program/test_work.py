"""How much a listing computes is counted from its shapes: a listing that lies gives another estimate, and no more."""

from __future__ import annotations

from typing import Any

import pytest

from tfaot_pkg.analysis.program.work import Work, work_of_listing
from tfaot_pkg.worker_program.messages import listing

INPUTS, STORED = 1, 400


def _array(*sizes: int) -> listing.ArrayShape:
    return listing.ArrayShape(dtype="f32", sizes=sizes)


def _made(number: int, opcode: str, shape: listing.ArrayShape, *operands: int, **kept: Any) -> listing.Instruction:
    made: dict[str, Any] = {"node": "", "operation": "", "called": (), "attributes": listing.NoAttributes(), **kept}
    return listing.Instruction(id=number, opcode=opcode, shape=shape, operands=operands, **made)


def _dense(rows: int, *, wide: int = 3, called: tuple[int, ...] = ()) -> listing.Module:
    """A product of `rows` of two numbers with weights, and its hyperbolic tangent."""
    dot = listing.Dot(contracting=((1,), (0,)), batch=((), ()))
    instructions = (
        _made(0, "parameter", _array(rows, 2), attributes=listing.Number(number=0)),
        _made(1, "parameter", _array(2, wide), attributes=listing.Number(number=1)),
        _made(2, "dot", _array(rows, wide), 0, 1, attributes=dot),
        _made(3, "tanh", _array(rows, wide), 2),
        *(_made(4 + place, "call", _array(rows, wide), 3, called=(each,)) for place, each in enumerate(called)),
    )
    entry = listing.Computation(id=9, root=instructions[-1].id, instructions=instructions)
    return listing.Module(batch_size=rows, entry=9, computations=(entry,), sizes={})


def _listed(*modules: listing.Module) -> listing.HloListing:
    return listing.HloListing(modules=modules, samples=(), fault="" if modules else "no")


def _of(**kept: Any) -> Work:
    return work_of_listing(_listed(*(_dense(rows, **kept) for rows in (5, 7, 1000, 2))), INPUTS, STORED)


def test_products_count_twice_and_other_operations_once_per_element() -> None:
    assert _of() == Work(constant_bytes=24, operations_per_call=0, operations_per_row=2 * 2 * 3 + 3)


def test_without_a_listing_each_row_multiplies_by_what_is_stored() -> None:
    assert work_of_listing(_listed(), INPUTS, STORED) == Work(
        constant_bytes=STORED, operations_per_call=0, operations_per_row=2 * STORED / 4
    )


@pytest.mark.parametrize("wide", [10**12, 10**80, 10**400])
def test_sizes_that_no_model_has_give_finite_amounts(wide: int) -> None:
    found = _of(wide=wide)
    assert 0 <= found.operations_per_row <= 1e18 and found.constant_bytes <= 10**18


def test_a_function_that_calls_itself_is_not_followed() -> None:
    with pytest.raises(RecursionError):
        _of(called=(9,))
