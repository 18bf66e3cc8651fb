"""Drawings of a model's graph by a small deterministic layout. Pure.

Longest-path layers, places in a layer by the mean of the neighbours' (Sugiyama's barycentre sweeps); an edge
over several layers goes through a place of its own in each. The graph is the package's (`graph.json`) or, if it has
none, is made of its signature alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.ground.wording import counted

# The worker draws 100 at most (worker_program/outline.py); documents of other tools may have some more.
MOST_NODES = 120
# Sugiyama's sweeps change little after a few: 8 are instant at 120 nodes.
_TENSORS, _SWEEPS = 12, 8
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _LANE, _MARGIN = 196, 46, 20, 34, 12, 12
_CHARS = 23
_PARTS, _PART = 40, 60
# What TensorFlow adds to names: the call of a signature's function, and revisions of operations.
_CALL, _REVISION = re.compile(r"^((Stateful)?PartitionedCall(_\d+)?/)+"), re.compile(r"(?<=[a-z])V[2-9]$")
_MOST_TOWERS = 12  # site.css has as many colours


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """An operation of a block, and its type and shape; it may be `inside` the loop or condition before it."""

    label: str
    name: str
    detail: str
    inside: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """`kind` is input, operation or output, `detail` a second line (a shape), `sources` the indices of its inputs.

    A block has `parts`, not all if it has more than `members` says.
    """

    label: str
    detail: str
    kind: str
    title: str
    sources: tuple[int, ...]
    name: str = ""
    parts: tuple[Part, ...] = ()
    members: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """The `operations` that depend on one input alone, if there are several inputs; `style` numbers its colour."""

    name: str
    operations: int
    style: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A drawn node; lengths in pixels. `tower` is the number of the tower that it is in, if any."""

    x: float
    y: float
    node: GraphNode
    tower: int | None = None

    @property
    def label(self) -> str:
        return _short(self.node.label)

    @property
    def detail(self) -> str:
        return _short(self.node.detail, _CHARS + 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Boxes and edges (SVG path data) on a sheet of `width` by `height` pixels."""

    boxes: tuple[Box, ...]
    edges: tuple[str, ...]
    width: int
    height: int
    summary: str
    towers: tuple[Tower, ...] = ()
    box_width: int = _WIDTH
    box_height: int = _HEIGHT


def nodes_of_signature(signature: Signature, operation: str) -> tuple[GraphNode, ...]:
    """Inputs, the model as one operation, outputs."""
    inputs = _tensor_nodes(signature.inputs, "input", ())
    middle = GraphNode(
        label=operation, detail="", kind="operation", title=_short(operation, 80), sources=tuple(range(len(inputs)))
    )
    outputs = _tensor_nodes(signature.outputs, "output", (len(inputs),))
    return (*inputs, middle, *outputs)


def _tensor_nodes(tensors: Sequence[Tensor], kind: str, sources: tuple[int, ...]) -> list[GraphNode]:
    nodes = [_tensor_node(tensor, kind, sources) for tensor in tensors[:_TENSORS]]
    if len(tensors) > _TENSORS:
        text = f"and {len(tensors) - _TENSORS} more"
        nodes.append(GraphNode(label=text, detail="", kind=kind, title=text, sources=sources))
    return nodes


def _tensor_node(tensor: Tensor, kind: str, sources: tuple[int, ...]) -> GraphNode:
    shape = f"{tensor.dtype.value} [{', '.join(sizes_of(tensor))}]"
    return GraphNode(label=tensor.name, detail=shape, kind=kind, title=_short(str(tensor), 80), sources=sources)


def sizes_of(tensor: Tensor) -> list[str]:
    """A tensor's shape for people: N is the size of the batch, and symbols have their names."""
    axes = tensor.axes or ("",) * len(tensor.shape)
    return [symbol or ("N" if size is None else str(size)) for symbol, size in zip(axes, tensor.shape, strict=True)]


def nodes_of_document(document: Mapping[str, Any], signature: Signature | None = None) -> tuple[GraphNode, ...]:
    """The nodes in a package's `graph.json`; `signature` gives its inputs and outputs the names of symbols.

    Raises ValueError for a document of another form.
    """
    borders = {"input": signature.inputs, "output": signature.outputs} if signature else {}
    known = {kind: {each.name: each for each in tensors if each.axes} for kind, tensors in borders.items()}
    try:
        nodes = tuple(_node(one, len(document["nodes"]), known) for one in document["nodes"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a graph: {error!r}") from error
    if not nodes or len(nodes) > MOST_NODES:
        raise ValueError(f"a graph of {len(nodes)} nodes")
    return nodes


def _node(value: Mapping[str, Any], count: int, known: Mapping[str, Mapping[str, Tensor]]) -> GraphNode:
    sources = tuple(int(number) for number in value["inputs"])
    if any(not 0 <= number < count for number in sources) or value["kind"] not in ("input", "operation", "output"):
        raise ValueError("not a graph: a node that is not of the form")
    tensor = known.get(value["kind"], {}).get(str(value["name"]))
    dims = f"[{', '.join(sizes_of(tensor))}]" if tensor else _dims(value.get("shape"))
    members = int(value.get("members", 1))
    name = _CALL.sub("", str(value["name"]))
    label = _REVISION.sub("", str(value["op"])) if value["kind"] == "operation" else name
    parts = [_part(part) for part in value.get("parts", ())[:_PARTS]]
    detail = f"{value.get('dtype', '')} {dims}".strip() if members == 1 else f"{members} operations"
    return GraphNode(
        label=label,
        detail=detail,
        kind=str(value["kind"]),
        title=_short(f"{name}: {label} {detail}", 80),
        sources=sources,
        name=_short(name, 80),
        parts=tuple(parts),
        members=members,
    )


def _part(value: Mapping[str, Any]) -> Part:
    return Part(
        label=_short(_REVISION.sub("", str(value["op"])), _PART),
        name=_short(str(value["name"]), _PART),
        detail=_short(f"{value.get('dtype', '')} {_dims(value.get('shape'))}".strip(), _PART),
        inside=value.get("inside") is True,
    )


def _dims(shape: object) -> str:
    return _shape([None if size is None else int(size) for size in shape]) if isinstance(shape, list) else ""


def _shape(shape: Sequence[int | None]) -> str:
    """Only the first axis is the batch: another one without a size depends on what a call brings."""
    unknown = ["N", *"?" * len(shape)]
    return (
        "[" + ", ".join(name if size is None else str(size) for name, size in zip(unknown, shape, strict=False)) + "]"
    )


@dataclass(slots=True)
class _Place:
    """A node, or the point at which a long edge crosses a layer (`node` is None)."""

    node: GraphNode | None
    layer: int
    before: list[_Place] = field(default_factory=list)
    after: list[_Place] = field(default_factory=list)
    order: float = 0
    x: float = 0

    @property
    def width(self) -> int:
        return _WIDTH if self.node else _LANE


def draw(nodes: Sequence[GraphNode]) -> Drawing:
    """The drawing of `nodes` (at least one); equal nodes give an equal drawing."""
    layers = _layers_of(nodes)
    places = [_Place(node, layer) for node, layer in zip(nodes, layers, strict=True)]
    rows: list[list[_Place]] = [[] for _ in range(max(layers) + 1)]
    for place in places:
        rows[place.layer].append(place)
    chains = [
        _chain(places[source], place, rows)
        for place in places
        # One edge for a tensor that is used twice; edges that close a cycle lead upwards and are left out.
        for source in dict.fromkeys(place.node.sources if place.node else ())
        if places[source].layer < place.layer
    ]
    _order(rows)
    width = _set_x(rows)
    found = _towers(nodes)
    numbers = {node: number for number, (_, inside) in enumerate(found) for node in inside}
    kinds = [node.kind for node in nodes]
    operations, boxes = sum(node.members for node in nodes if node.kind == "operation"), kinds.count("operation")
    within = f" in {counted(boxes, 'block')}" if operations > boxes else ""
    return Drawing(
        boxes=tuple(
            Box(x=_r(p.x), y=_top(p.layer), node=p.node, tower=numbers.get(n)) for n, p in enumerate(places) if p.node
        ),
        edges=tuple(map(_edge, chains)),
        width=round(width + 2 * _MARGIN),
        height=_top(len(rows) - 1) + _HEIGHT + _MARGIN,
        summary=f"{counted(kinds.count('input'), 'input')}, {counted(operations, 'operation')}{within}, "
        f"{counted(kinds.count('output'), 'output')}",
        towers=tuple(
            Tower(name=nodes[start].label, operations=sum(nodes[n].members for n in inside), style=number)
            for number, (start, inside) in enumerate(found)
        ),
    )


def _towers(nodes: Sequence[GraphNode]) -> list[tuple[int, list[int]]]:
    """(input, the operations that depend on it alone), for two to twelve inputs with at least two of them."""
    after: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for source in node.sources:
            after.setdefault(source, []).append(number)
    starts = [number for number, node in enumerate(nodes) if node.kind == "input"]
    reached = {start: _reached(start, after) for start in starts}
    found = []
    for start in starts:
        others = set().union(*(reached[other] for other in starts if other != start))
        inside = [n for n in sorted(reached[start] - others) if nodes[n].kind == "operation"]
        if len(inside) > 1:
            found.append((start, inside))
    return found if 2 <= len(found) <= _MOST_TOWERS else []


def _reached(start: int, after: Mapping[int, Sequence[int]]) -> set[int]:
    waiting, seen = [start], set[int]()
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            waiting.extend(after.get(number, ()))
    return seen


def _layers_of(nodes: Sequence[GraphNode]) -> list[int]:
    """The length of the longest path to each node; edges that close a cycle are ignored."""
    layers: dict[int, int] = {}
    for start in range(len(nodes)):
        waiting, entered = [start], set[int]()
        while waiting:
            number = waiting[-1]
            open_ = [s for s in nodes[number].sources if s not in layers and s not in entered and s != number]
            entered.add(number)
            if number in layers or not open_:
                waiting.pop()
                known = [layers[s] + 1 for s in nodes[number].sources if s in layers]
                layers.setdefault(number, max(known, default=0))
            else:
                waiting.extend(open_[:1])
    last = max(layers.values())
    # Outputs are in the last row, however early they are computed.
    return [last if node.kind == "output" and node.sources else layers[n] for n, node in enumerate(nodes)]


def _chain(first: _Place, last: _Place, rows: list[list[_Place]]) -> list[_Place]:
    """The places of an edge from `first` to `last`, including new ones in the layers between."""
    chain = [first]
    for layer in range(first.layer + 1, last.layer):
        between = _Place(None, layer)
        rows[layer].append(between)
        chain.append(between)
    chain.append(last)
    for one, other in pairwise(chain):
        one.after.append(other)
        other.before.append(one)
    return chain


def _order(rows: list[list[_Place]]) -> None:
    """Sort each layer so that few edges cross."""
    for row in rows:
        _number(row)
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            # By identity: places are mutable, compare by value, and so have no hash.
            keys = {id(p): _mean(p.before if down else p.after, p.order) for p in row}
            row.sort(key=lambda place, keys=keys: keys[id(place)])  # type: ignore[misc]
            _number(row)


def _number(row: list[_Place]) -> None:
    for number, place in enumerate(row):
        place.order = number - (len(row) - 1) / 2


def _mean(places: Sequence[_Place], otherwise: float) -> float:
    return sum(place.order for place in places) / len(places) if places else otherwise


def _set_x(rows: list[list[_Place]]) -> float:
    """Set the left edges, each as near to the mean of its neighbours as its row allows. Returns the total width."""
    for row in rows:
        _pack(row, [0.0] * len(row))
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            wanted = [_middle(p.before if down else p.after, p) - p.width / 2 for p in row]
            _pack(row, wanted)
    left = min(place.x for row in rows for place in row)
    for row in rows:
        for place in row:
            place.x += _MARGIN - left
    return max(place.x + place.width for row in rows for place in row) - _MARGIN


def _middle(neighbours: Sequence[_Place], place: _Place) -> float:
    if not neighbours:
        return place.x + place.width / 2
    return sum(n.x + n.width / 2 for n in neighbours) / len(neighbours)


def _pack(row: list[_Place], wanted: Sequence[float]) -> None:
    """Place the row in its order without overlap, so that the mean distance to the wanted positions is 0."""
    x = float("-inf")
    for place, wish in zip(row, wanted, strict=True):
        place.x = max(x, wish)
        x = place.x + place.width + _GAP_X
    # The row was packed from the left, which pushes it to the right of the wanted positions.
    shift = sum(wish - place.x for place, wish in zip(row, wanted, strict=True)) / max(1, len(row))
    for place in row:
        place.x += shift


def _top(layer: int) -> int:
    return _MARGIN + layer * (_HEIGHT + _GAP_Y)


def _edge(chain: Sequence[_Place]) -> str:
    """A smooth line from the bottom of the first box to the top of the last."""
    x, y = _r(chain[0].x + _WIDTH / 2), _top(chain[0].layer) + _HEIGHT
    path = f"M{x} {y}"
    for place in chain[1:]:
        next_x, head = _r(place.x + place.width / 2), _top(place.layer)
        # Control points at half of the height make both ends of the curve vertical.
        bend = (y + head) / 2
        path += f"C{x} {bend:g} {next_x} {bend:g} {next_x} {head}"
        x, y = next_x, head
        if place.node is None:
            y += _HEIGHT
            path += f"V{y}"
    return path


def _r(value: float) -> float:
    rounded = round(value, 1)
    return int(rounded) if rounded == int(rounded) else rounded


def _short(text: str, length: int = _CHARS) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
