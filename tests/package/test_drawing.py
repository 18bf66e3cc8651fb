"""Drawings of graphs."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalogue.registries import graph_document
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.package.drawing import GraphNode, draw, nodes_of_document, nodes_of_signature


def node(*sources: int, kind: str = "operation") -> GraphNode:
    return GraphNode(label="op", detail="", kind=kind, title="op", sources=sources)


@given(st.lists(st.lists(st.integers(0, 29), max_size=4), min_size=1, max_size=30))
def test_any_graph_even_with_circles_is_drawn_without_boxes_on_each_other(sources: list[list[int]]) -> None:
    drawing = draw([node(*(s for s in each if s < len(sources))) for each in sources])
    assert len(drawing.boxes) == len(sources)
    for one, other in combinations(drawing.boxes, 2):
        assert abs(one.x - other.x) >= drawing.box_width or abs(one.y - other.y) >= drawing.box_height
    for box in drawing.boxes:
        assert 0 <= box.x <= drawing.width - drawing.box_width
        assert 0 <= box.y <= drawing.height - drawing.box_height
    for path in drawing.edges:
        assert re.fullmatch(r"[MCV0-9. e-]+", path)


def test_what_comes_later_stands_lower_and_outputs_stand_last() -> None:
    drawing = draw(nodes_of_document(graph_document()))
    y = [box.y for box in drawing.boxes]
    for number, box in enumerate(drawing.boxes):
        assert all(y[source] < y[number] for source in box.node.sources)
    assert y[-1] == max(y)
    assert drawing == draw(nodes_of_document(graph_document()))


def test_a_model_without_a_graph_is_one_box_between_what_goes_in_and_out() -> None:
    tensors = tuple(Tensor(name=f"x{n}", dtype=DType.FLOAT32, shape=(None, n)) for n in range(40))
    drawing = draw(nodes_of_signature(Signature(inputs=tensors, outputs=tensors[:1]), "digits"))
    assert [box.label for box in drawing.boxes][-3:] == ["and 28 more", "digits", "x0"]
    assert drawing.boxes[0].detail == "float32 [N, 0]"


def test_each_of_many_towers_has_its_name_and_a_colour_of_its_own() -> None:
    inputs = [GraphNode(label=f"x{n}", detail="", kind="input", title="x", sources=()) for n in range(8)]
    towers = [node(n) for n in range(8)] + [node(8 + n) for n in range(8)]
    drawing = draw([*inputs, *towers, node(*range(16, 24)), node(24, kind="output")])
    assert [(one.name, one.operations) for one in drawing.towers] == [(f"x{n}", 2) for n in range(8)]
    assert [box.tower for box in drawing.boxes] == [None] * 8 + 2 * list(range(8)) + [None] * 2


def test_axes_that_calls_bring_have_their_names_and_only_the_first_one_is_the_batch() -> None:
    tracks = Tensor(name="tracks", dtype=DType.FLOAT32, shape=(None, 40, 6), axes=("", "n", ""))
    signature = Signature(inputs=(tracks,), outputs=(replace(tracks, name="y", shape=(None, 6), axes=()),))
    assert [node.detail for node in nodes_of_signature(signature, "tagger")] == [
        "float32 [N, n, 6]",
        "",
        "float32 [N, 6]",
    ]
    nodes = [{"name": "tracks", "op": "Placeholder", "kind": "input", "dtype": "float32", "shape": [None, 40, 6], "inputs": []},
             {"name": "relu", "op": "Relu", "kind": "operation", "dtype": "float32", "shape": [None, None, 6], "inputs": [0]}]  # fmt: skip
    details = [node.detail for node in nodes_of_document({"nodes": nodes}, signature)]
    assert details == ["float32 [N, n, 6]", "float32 [N, ?, 6]"]


@pytest.mark.parametrize("nodes", [[], [{}], [{"name": "a", "op": "b", "kind": "operation", "inputs": [5]}],
                                   [{"name": "a", "op": "b", "kind": "<g>", "inputs": []}], 7, [graph_document()] * 2])  # fmt: skip
def test_a_document_that_is_no_graph_is_a_value_error(nodes: object) -> None:
    with pytest.raises(ValueError):
        nodes_of_document({"nodes": nodes})
