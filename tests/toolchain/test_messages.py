"""Messages between host and worker: what one side writes the other reads, and nothing else is read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfaot_pkg.worker_program.messages import graph, listing, requests
from tfaot_pkg.worker_program.messages.wire import built, decoded, encoded, plain

WEIGHT = graph.Weight(node="w", dtype="float32", shape=(2, 3), offset=64)
MODEL = graph.FrozenGraph(
    inputs=(graph.Feed(name="x", node="x", dtype="float32", shape=(None, 2)),),
    outputs=(graph.Fetch(name="y", node="y", index=1, dtype="float32", shape=()),),
    weights=(WEIGHT,), segments=(), warnings=("a warning",), graph=None,
)  # fmt: skip


def _instruction(**changed: Any) -> listing.Instruction:
    fields: dict[str, Any] = {
        "id": 1, "opcode": "iota", "node": "", "operation": "", "shape": listing.ArrayShape(dtype="s32", sizes=(5,)),
        "operands": (), "called": (), "attributes": listing.Dimensions(dimensions=(0,)),
    }  # fmt: skip
    return listing.Instruction(**{**fields, **changed})


@pytest.mark.parametrize(
    "message",
    [
        MODEL,
        requests.Nothing(),
        requests.OperationTable(operations={"Add": ({"T": ("float32", "int8")}, {})}),
        _instruction(),
        _instruction(opcode="tuple", attributes=listing.NoAttributes(), shape=listing.TupleShape(
            parts=(listing.ArrayShape(dtype="f32", sizes=()), listing.TupleShape(parts=())))),
        _instruction(opcode="constant", attributes=listing.Literals(digest="d", values=(1, 2))),
        _instruction(opcode="constant", attributes=listing.Literals(digest="d", values=(True, False))),
        _instruction(opcode="constant", attributes=listing.Literals(digest="d", values=(0.5, float("inf")))),
        _instruction(opcode="constant", attributes=listing.Literals(digest="d", values=None)),
        requests.Reference(
            folder="f", tags=("serve",), signature="s", inputs="i", out="o", batch_sizes=(1, 8), batched=(), stacked=()
        ),
    ],
    ids=lambda message: type(message).__name__,
)  # fmt: skip
def test_a_message_survives_the_line(message: object) -> None:
    assert decoded(type(message), json.loads(encoded(message)), "message") == message


def _changed(place: list[Any], value: object) -> Any:
    """`MODEL` as JSON values, with another value at `place`; a name that ends in "-" is removed."""
    document = plain(MODEL)
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    if isinstance(place[-1], str) and place[-1].endswith("-"):
        del inner[place[-1][:-1]]
    else:
        inner[place[-1]] = value
    return document


@pytest.mark.parametrize(
    ("place", "value", "fault"),
    [
        (["warnings"], "text", "model.warnings: must be a list"),
        (["warnings", 0], 1, r"model.warnings\[0\]: must be a text"),
        (["more"], 1, "model: unknown field 'more'"),
        (["weights-"], None, "model: missing field 'weights'"),
        (["weights", 0], None, r"model.weights\[0\]: must be an object"),
        (["weights", 0, "offset"], True, r"model.weights\[0\].offset: must be an integer"),
        (["weights", 0, "offset"], 1.5, r"model.weights\[0\].offset: must be an integer"),
        (["inputs", 0, "shape", 1], "2", r"model.inputs\[0\].shape\[1\]: of no known form"),
        (["outputs", 0, "index"], -1, r"model.outputs\[0\]: index must not be negative"),
        (["weights", 0, "offset"], -64, r"model.weights\[0\]: offset and shape must not be negative"),
        (["weights", 0, "shape", 0], -2, r"model.weights\[0\]: offset and shape must not be negative"),
        (["graph"], {"format": 1}, "model.graph: of no known form"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_rejected_with_its_path(place: list[Any], value: object, fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{fault}"):
        decoded(graph.FrozenGraph, _changed(place, value), "model")


def test_attributes_must_be_those_of_the_opcode() -> None:
    document = plain(_instruction())
    with pytest.raises(ValueError, match="attributes of gather must be Gather"):
        decoded(listing.Instruction, {**document, "opcode": "gather"}, "instruction")


def test_nesting_without_end_is_rejected() -> None:
    shape: Any = {"parts": []}
    for _ in range(5000):
        shape = {"parts": [shape]}
    with pytest.raises(ValueError, match="nested too deeply"):
        decoded(listing.TupleShape, shape, "shape")


def test_an_answer_is_known_by_the_names_of_its_fields() -> None:
    assert built(requests.Reply, {"memory": True}, "reply") == requests.OutOfMemory(memory=True)
    with pytest.raises(ValueError, match="reply: of no known form"):
        built(requests.Reply, {"memory": True, "error": ""}, "reply")
