"""A sorted list in many small files: a radix tree, in which adding to 100,000 items rewrites a handful of small files.

A node has the items that begin with its prefix: a leaf up to `LEAF` items, another node its children by longer
prefixes, with counts. A long common prefix takes one step. The browser walks the same files (site.js).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tfaot_pkg.ground.documents import convert, read_json

LEAF = 100
"""Items per leaf: search reads leaves one by one, and the largest is 19 kB with 100,000 packages (decision 17)."""

Item = tuple[str, list[object]]
"""A key, unique in its tree, and a JSON value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeFile:
    """The file of a node."""

    items: list[tuple[str, list[object]]]
    children: dict[str, int] | None = None


@dataclass(slots=True)
class Node:
    """The items that begin with `prefix`. `children` (prefix to count) is None in a leaf; an inner node has at most one
    item, whose key is the prefix itself.
    """

    prefix: str
    items: dict[str, list[object]] = field(default_factory=dict)
    children: dict[str, int] | None = None

    @property
    def count(self) -> int:
        return len(self.items) + sum((self.children or {}).values())

    def to_bytes(self) -> bytes:
        document: dict[str, object] = {"items": [[key, value] for key, value in sorted(self.items.items())]}
        if self.children is not None:
            document["children"] = dict(sorted(self.children.items()))
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    @classmethod
    def parse(cls, prefix: str, data: bytes) -> Node:
        """The node with this prefix in its file. Raises ValueError."""
        document = convert(_NodeFile, read_json(data))
        children = document.children
        if children is not None and not all(len(key) > len(prefix) and key.startswith(prefix) for key in children):
            raise ValueError("children that do not belong to their node")
        return cls(prefix, dict(document.items), children)


class Shelf(Protocol):
    """Storage of nodes."""

    def get(self, prefix: str) -> Node | None:
        """The node, None if there is none. Raises ValueError if it is damaged."""

    def put(self, node: Node, path: Sequence[str]) -> None:
        """Store `node`; `path` are the prefixes of the nodes above it, the root first."""


def build(
    items: Mapping[str, list[object]], prefix: str = "", path: tuple[str, ...] = ()
) -> Iterator[tuple[Node, tuple[str, ...]]]:
    """All nodes of the tree of `items`, each after its children, with the prefixes above it."""
    if len(items) <= LEAF:
        yield Node(prefix, dict(items)), path
        return
    own, groups = _grouped(items, prefix)
    for child, group in groups.items():
        yield from build(group, child, (*path, prefix))
    yield Node(prefix, own, {child: len(group) for child, group in groups.items()}), path


def _grouped(
    items: Mapping[str, list[object]], prefix: str
) -> tuple[dict[str, list[object]], dict[str, dict[str, list[object]]]]:
    """The items of a node itself, and its children: groups by their next character."""
    own: dict[str, list[object]] = {}
    groups: dict[str, dict[str, list[object]]] = {}
    for key in sorted(items):
        if key == prefix:
            own[key] = items[key]
        else:
            groups.setdefault(key[: len(prefix) + 1], {})[key] = items[key]
    # A group that must be split again is named by the longest prefix that its keys share: that of its first and last.
    return own, {(_shared(min(g), max(g)) if len(g) > LEAF else first): g for first, g in groups.items()}


def _shared(one: str, other: str) -> str:
    """The longest common prefix."""
    length = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def find(shelf: Shelf, key: str) -> list[object] | None:
    """The value of `key`, None if there is none. Raises ValueError if a node is damaged."""
    node = shelf.get("")
    while node is not None:
        if key in node.items:
            return node.items[key]
        child = next((child for child in node.children or () if key.startswith(child)), None)
        node = shelf.get(child) if child is not None else None
    return None


def insert(shelf: Shelf, key: str, value: list[object]) -> None:
    """Add or replace `key`, and rewrite the nodes from its leaf to the root. Raises ValueError if one is damaged."""
    _insert(shelf, shelf.get("") or Node(""), key, value, ())


def _insert(shelf: Shelf, node: Node, key: str, value: list[object], path: tuple[str, ...]) -> int:
    """Insert below `node` and write what changes, children first. Returns the node's count."""
    if node.children is None or key == node.prefix:
        node.items[key] = value
        if node.children is None and len(node.items) > LEAF:
            for made, above in build(node.items, node.prefix, path):
                shelf.put(made, above)
        else:
            shelf.put(node, path)
        return node.count
    below = (*path, node.prefix)
    child = _child_for(node, key)
    if child is None:
        child = key[: len(node.prefix) + 1]
        node.children[child] = _insert(shelf, Node(child), key, value, below)
    elif key.startswith(child):
        found = shelf.get(child)
        if found is None:
            raise ValueError(f"the node {child!r} is missing")
        node.children[child] = _insert(shelf, found, key, value, below)
    else:
        # The key leaves the child's prefix: a new node between has both.
        shared = _shared(child, key)
        between = Node(shared, {}, {child: node.children.pop(child)})
        node.children[shared] = _insert(shelf, between, key, value, below)
    shelf.put(node, path)
    return node.count


def _child_for(node: Node, key: str) -> str | None:
    """The child that shares more with `key` than the node's own prefix does."""
    start = key[: len(node.prefix) + 1]
    return next((child for child in node.children or () if child.startswith(start)), None)


def remove(shelf: Shelf, key: str) -> None:
    """Remove `key` if it exists; nodes that become empty stay. Raises ValueError if one is damaged."""
    nodes: list[Node] = []
    node = shelf.get("")
    while node is not None:
        nodes.append(node)
        if key in node.items:
            break
        child = next((child for child in node.children or () if key.startswith(child)), None)
        node = shelf.get(child) if child is not None else None
    if node is None:
        return
    del node.items[key]
    for number in reversed(range(len(nodes))):
        if number + 1 < len(nodes):
            children = nodes[number].children
            assert children is not None
            children[nodes[number + 1].prefix] -= 1
        shelf.put(nodes[number], tuple(above.prefix for above in nodes[:number]))
