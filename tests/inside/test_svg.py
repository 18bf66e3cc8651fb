"""Drawings that stand alone."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tfaot_pkg.errors import ModelError
from tfaot_pkg.package.drawing import GraphNode
from tfaot_pkg.package.svg import MOST_NODES, svg

_SVG = "{http://www.w3.org/2000/svg}"


def node(label: str, *sources: int, kind: str = "operation") -> GraphNode:
    return GraphNode(label=label, detail="f32[batch,4]", kind=kind, title=f"{label}: a node", sources=sources)


def test_a_drawing_has_a_box_for_each_node_and_a_line_for_each_edge() -> None:
    nodes = [node("x", kind="input"), node("dense", 0), node("add", 0, 1), node("y", 2, kind="output")]
    root = ET.fromstring(svg(nodes, "net: program"))
    assert len(root.findall(f".//{_SVG}rect")) == 4 and len(root.findall(f"{_SVG}path")) == 4
    assert [each.text for each in root.findall(f".//{_SVG}text")][:2] == ["x", "f32[batch,4]"]


def test_names_of_a_hostile_model_are_text_only() -> None:
    hostile = "<script>alert(1)</script>\x1b[31m&\"'"
    root = ET.fromstring(svg([node(hostile)], hostile))
    assert root.findall(f".//{_SVG}script") == []
    assert root.findall(f".//{_SVG}g/{_SVG}title")[0].text == "<script>alert(1)</script>\\x1b[31m&\"': a node"


@pytest.mark.parametrize("count", [0, MOST_NODES + 1])
def test_a_drawing_that_nobody_could_read_is_an_error(count: int) -> None:
    with pytest.raises(ModelError) as caught:
        svg([node("x")] * count, "net")
    assert caught.value.hint
