"""The drawing of a graph (drawing.py) as an SVG file that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from tfaot_pkg.errors import ModelError
from tfaot_pkg.ground.wording import counted, printable
from tfaot_pkg.package.drawing import GraphNode, draw

MOST_NODES = 600
"""The most nodes of a drawing: larger ones take seconds, and nobody can read them."""
_COLOURS = {"input": "#dbeafe", "operation": "#f3f4f6", "output": "#dcfce7"}
_FONT = "font-family:ui-monospace,monospace;font-size:12px"


def svg(nodes: Sequence[GraphNode], title: str) -> bytes:
    """The drawing of `nodes`. Raises ModelError if there are too many."""
    if not 0 < len(nodes) <= MOST_NODES:
        raise ModelError(
            f"the graph has {counted(len(nodes), 'node')}; a drawing has 1 to {MOST_NODES}",
            hint="write it as text or JSON instead: -o FILE.txt, -o FILE.json",
        )
    drawing = draw(nodes)
    # Built as XML, not as text, because names and titles come from the model, and must be escaped.
    root = ET.Element(
        "svg",
        xmlns="http://www.w3.org/2000/svg",
        width=str(drawing.width),
        height=str(drawing.height),
        viewBox=f"0 0 {drawing.width} {drawing.height}",
    )
    ET.SubElement(root, "title").text = printable(title)
    for path in drawing.edges:
        ET.SubElement(root, "path", d=path, fill="none", stroke="#6b7280")
    for box in drawing.boxes:
        group = ET.SubElement(root, "g")
        ET.SubElement(group, "title").text = printable(box.node.title)
        ET.SubElement(
            group, "rect", x=str(box.x), y=str(box.y), width=str(drawing.box_width), height=str(drawing.box_height),
            rx="6", fill=_COLOURS[box.node.kind], stroke="#374151",
        )  # fmt: skip
        for line, text in enumerate((box.label, box.detail)):
            place = {"x": str(box.x + 8), "y": str(box.y + 19 + 17 * line), "style": _FONT}
            ET.SubElement(group, "text", place).text = printable(text)
    content: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"
