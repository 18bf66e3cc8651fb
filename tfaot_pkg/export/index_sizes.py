"""Inputs that are indices, and how many elements they may name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .document import Program
from .nodes import arguments_of, operator_name

_MOVING = frozenset(
    "_to_copy alias clone contiguous detach expand flatten getitem lift_fresh_copy permute repeat reshape select slice "
    "split split_with_sizes squeeze t to transpose unbind unsqueeze unsafe_view _unsafe_view view view_copy".split()
)
"""Operators whose results have no other elements than their operand."""


_INDEXED = {
    "embedding": ("weight", "indices"), "embedding_bag": ("weight", "indices"), "gather": ("self", "index"),
    "index_add": ("self", "index"), "index_copy": ("self", "index"), "index_fill": ("self", "index"),
    "index_select": ("self", "index"), "scatter": ("self", "index"), "scatter_add": ("self", "index"),
    "scatter_reduce": ("self", "index"),
}  # fmt: skip
"""The operands of operators by their schemas: what is indexed, and by what; along `dim`, or the first axis."""


def index_sizes(program: Program, document: Mapping[str, Any]) -> dict[str, Any]:
    """For each input that is an index as it is, how many elements it may name: the least size that it indexes."""
    known = {each["value"]: each["name"] for each in document["inputs"]}
    sizes: dict[str, list[Any]] = {}

    def add(index: Any, indexed: Any, axis: Any) -> None:
        shape = getattr(getattr(indexed, "meta", {}).get("val"), "shape", ())
        if getattr(index, "name", None) in known and isinstance(axis, int) and -len(shape) <= axis < len(shape):
            sizes.setdefault(known[index.name], []).append(program.size(shape[axis]))

    for node in program.nodes:
        name = operator_name(node.target).split(".")[1] if "." in operator_name(node.target) else ""
        arguments = arguments_of(node)
        first = next(iter(arguments.values()), None)
        if name in _MOVING and getattr(first, "name", None) in known:
            known[node.name] = known[str(getattr(first, "name", None))]
        elif name in _INDEXED:
            what, by = _INDEXED[name]
            add(arguments.get(by), arguments.get(what), arguments.get("dim", 0) if what == "self" else 0)
        elif name in ("index", "index_put", "_unsafe_index"):
            for axis, index in enumerate(arguments.get("indices") or ()):
                add(index, arguments.get("self"), axis)
    numbers = {name: [each for each in found if isinstance(each, int)] for name, found in sizes.items()}
    return {
        name: min(numbers[name]) if numbers[name] else found[0] for name, found in sizes.items() if None not in found
    }
