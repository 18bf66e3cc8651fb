"""A model in a notebook: its signature, graph, latency and verdict, as HTML."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from tfaot_pkg.ground.signature import Signature, Tensor

_MOST_DRAWN = 40
"""Nodes of a graph in a notebook."""


class _Model(Protocol):
    name: str
    version: str
    signature: Signature
    batch_sizes: tuple[int, ...]
    batch_costs: dict[str, dict[int, float]]
    any_batch_size: bool

    @property
    def target(self) -> str: ...


def page_of(model: _Model, drawing: str, verdict: str) -> str:
    """The HTML of `model`; `drawing` is an SVG, `verdict` says against what it was verified; "" if there is none."""
    signature = model.signature
    rows = "".join(
        [*(_row("in", each) for each in signature.inputs), *(_row("out", each) for each in signature.outputs)]
    )
    sizes = "any number of rows" if model.any_batch_size else f"rows: {', '.join(map(str, model.batch_sizes))}"
    lines = [verdict, f"{sizes}; code for {model.target}", _latency(model.batch_costs.get(model.target, {}))]
    told = "".join(f"<div>{html.escape(each)}</div>" for each in lines if each)
    graph = f"<details><summary>graph</summary>{drawing}</details>" if drawing else ""
    return f"<div><b>{html.escape(f'{model.name} {model.version}')}</b>{told}<table>{rows}</table>{graph}</div>"


def _row(way: str, tensor: Tensor) -> str:
    sizes = ", ".join(_axis(tensor.axes, number, size) for number, size in enumerate(tensor.shape))
    cells = (way, tensor.name, tensor.dtype.value, f"[{sizes}]")
    return f"<tr>{''.join(f'<td>{html.escape(each)}</td>' for each in cells)}</tr>"


def _axis(axes: tuple[str, ...], number: int, size: int | None) -> str:
    return str(size) if size is not None else (axes[number] if number < len(axes) and axes[number] else "N")


def _latency(costs: Mapping[int, float]) -> str:
    """About how long a call takes, as the library tells."""
    if not costs:
        return ""
    first, last = min(costs), max(costs)
    several = f", {_time(costs[last])} for {last}" if last != first else ""
    return f"about {_time(costs[first])} for {first} row{'s' if first > 1 else ''}{several}"


def _time(nanoseconds: float) -> str:
    return f"{nanoseconds / 1e3:.2g} us" if nanoseconds < 1e6 else f"{nanoseconds / 1e6:.2g} ms"


def drawing_of(library: Path, name: str, signature: Signature) -> str:
    """The graph of the package around `library` as SVG; "" if there is no package, or too many nodes to draw."""
    package = library.stem.removeprefix("lib")
    try:
        # Copies of this module in Python packages of models have no drawings (pipeline/distributions/vendored.py).
        from tfaot_pkg.package.drawing import nodes_of_document
        from tfaot_pkg.package.svg import svg

        graph = json.loads((library.parent.parent / "share" / package / "graph.json").read_text())
        nodes = nodes_of_document(graph, signature)
        return svg(nodes, name).decode() if len(nodes) <= _MOST_DRAWN else ""
    except (ImportError, OSError, ValueError):
        return ""


def verdict_of(library: Path) -> str:
    """What validation.json of the package around `library` says; "" if there is no package."""
    package = library.stem.removeprefix("lib")
    try:
        report: Any = json.loads((library.parent.parent / "share" / package / "validation.json").read_text())
        return f"verified against {report['reference']}, largest difference {report['max_absolute']:.2g}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""
