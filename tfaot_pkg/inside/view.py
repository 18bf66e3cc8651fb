"""`View`: one look at a model, as text, as JSON values, and as nodes to draw if it is a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from tfaot_pkg.catalogue.drawing import GraphNode

What = Literal["signature", "ops", "hlo", "program", "mlir-tf", "stablehlo", "cpp", "asm", "memory", "sizes"]
WHATS: tuple[What, ...] = get_args(What)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`nodes` are empty if it is no graph."""

    text: str
    document: Mapping[str, object]
    nodes: tuple[GraphNode, ...] = ()


def table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> str:
    """Columns under their heads: texts to the left, numbers to the right, with thousands apart."""
    cells = [heads, *[tuple(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    right = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in cells
    )
