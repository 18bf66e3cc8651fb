"""The sorted list in small files."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfaot_pkg.catalogue.site import node_file
from tfaot_pkg.catalogue.tree import LEAF, Node, build, find, insert, remove


@dataclass
class Memory:
    """Nodes as bytes, as a disk would keep them."""

    files: dict[str, bytes] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)

    def get(self, prefix: str) -> Node | None:
        return Node.parse(prefix, self.files[prefix]) if prefix in self.files else None

    def put(self, node: Node, path: Sequence[str]) -> None:
        assert all(node.prefix.startswith(above) and node.prefix != above for above in path)
        self.files[node.prefix] = node.to_bytes()
        self.written.append(node.prefix)


def everything(shelf: Memory, prefix: str = "") -> list[str]:
    """All keys below a node, in order, with counts and sizes checked."""
    node = shelf.get(prefix)
    assert node is not None
    assert len(node.items) <= LEAF
    keys = sorted(node.items)
    for child, count in sorted((node.children or {}).items()):
        below = everything(shelf, child)
        assert len(below) == count
        assert all(key.startswith(child) for key in below)
        keys += below
    return keys


def made_of(keys: Sequence[str]) -> Memory:
    shelf = Memory()
    for node, path in build({key: [key] for key in keys}):
        shelf.put(node, path)
    return shelf


_SHARING = (
    [f"experiment_run_{n}" for n in range(300)] + [f"exp_{n:03}" for n in range(150)] + ["e", "experiment_run_", "x"]
)


def test_all_that_was_put_in_is_there_in_order() -> None:
    shelf = made_of(_SHARING)
    assert everything(shelf) == sorted(_SHARING)
    assert all(find(shelf, key) == [key] for key in _SHARING)
    assert find(shelf, "experiment_run_7x") is None


def test_a_long_beginning_that_all_share_is_one_step() -> None:
    shelf = made_of([f"{'long' * 15}_{n}" for n in range(LEAF + 1)])
    assert sum("long" in prefix for prefix in shelf.files) <= 12


def test_adding_one_by_one_gives_the_same_list_as_building_at_once() -> None:
    keys = list(_SHARING)
    random.Random(1).shuffle(keys)
    shelf = Memory()
    for key in keys:
        insert(shelf, key, [key])
    assert everything(shelf) == sorted(keys)
    for key in keys[::2]:
        remove(shelf, key)
        remove(shelf, key)
    assert everything(shelf) == sorted(keys[1::2])


@given(st.lists(st.text("ab_", min_size=1, max_size=9), unique=True, max_size=400))
def test_any_keys_are_kept(keys: list[str]) -> None:
    half = len(keys) // 2
    shelf = made_of(keys[:half])
    for key in keys[half:]:
        insert(shelf, key, [key])
    assert everything(shelf) == sorted(keys)


def test_adding_to_many_rewrites_few_files() -> None:
    shelf = made_of([f"{n:x}" for n in range(100_000)])
    shelf.written.clear()
    insert(shelf, "abcxyz", [])
    assert len(shelf.written) <= 6


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"items":[1]}', b'{"items":[],"children":{"b":1}}', b'{"items":[["a",1]]}']
)
def test_a_damaged_node_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):
        Node.parse("a", data)


@given(st.text(max_size=30), st.text(max_size=30))
def test_files_of_different_nodes_have_different_plain_names(one: str, other: str) -> None:
    assert (node_file("words", one) == node_file("words", other)) == (one == other)
    assert node_file("words", one).removeprefix("words/").replace("_", "").isascii()
