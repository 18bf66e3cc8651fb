"""`View`: one form of a model, as text, as JSON values, and as nodes to draw if it is a graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from tfaot_pkg.package.drawing import GraphNode

What = Literal[
    "signature", "ops", "hlo", "lowered", "program", "mlir-tf", "stablehlo", "cpp", "asm", "memory", "sizes",
    "precision",
]  # fmt: skip
WHATS: tuple[What, ...] = get_args(What)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """`nodes` is empty if the view is not a graph."""

    text: str
    document: Mapping[str, object]
    nodes: tuple[GraphNode, ...] = ()
