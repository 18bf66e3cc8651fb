"""From the worker's listings of a model to `Rows`: which outputs depend on other rows, and at which node."""

from __future__ import annotations

from tfaot_pkg.program.hlo import Unlike, read_program
from tfaot_pkg.program.independence import outputs_of
from tfaot_pkg.program.values import MEET, PLACED, Axis, Cause, Value
from tfaot_pkg.rows import INDEPENDENT, Meeting, Rows
from tfaot_pkg.signature import Signature, Tensor
from tfaot_pkg.worker_program.messages.listing import HloListing


def rows_of(listing: HloListing, signature: Signature) -> Rows:
    """Where rows meet in the model of `signature`; in every output if independence cannot be proved."""
    if not any(tensor.has_batch_axis for tensor in signature.inputs):
        return INDEPENDENT
    if listing.fault:
        return _not_shown(signature, f"it does not compile at other batch sizes: {listing.fault}")
    try:
        program = read_program(listing.modules)
        values = outputs_of(program, [tensor.has_batch_axis for tensor in signature.inputs])
    except Unlike as difference:
        return _not_shown(signature, f"its computation changes with the batch size: {difference}")
    meetings = (_meeting(tensor, value) for tensor, value in zip(signature.outputs, values, strict=True))
    return Rows(meetings=tuple(meeting for meeting in meetings if meeting is not None))


def _not_shown(signature: Signature, reason: str) -> Rows:
    outputs = signature.outputs
    return Rows(meetings=tuple(Meeting(output=t.name, node="", operation="", reason=reason) for t in outputs))


def _meeting(tensor: Tensor, value: Value) -> Meeting | None:
    cause = value.mixed or value.placed
    if cause is None and (value.below_batch or value.known.placed):
        cause = Cause(instruction=None, reason=PLACED)
    own_rows = Axis(dimension=0) if tensor.has_batch_axis else None
    # A caller takes the first axis for the rows: rows along another one would be mistaken.
    if (cause is None and value.axis not in (None, own_rows)) or value.turn:
        cause = Cause(instruction=None, reason=MEET)
    if cause is None:
        return None
    found = cause.instruction
    return Meeting(
        output=tensor.name,
        node="" if found is None else found.node,
        operation="" if found is None else found.opcode,
        reason=cause.reason,
    )
