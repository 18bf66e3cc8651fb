"""Layers of a graph that are shown as one block each, under their common names.

Layers that TensorFlow runs as loops (GRU, LSTM, SimpleRNN, in one direction or both) are recognized by the operations
of an iteration, because names depend on the version of Keras. A layer is its loop and the operations that only feed it
or only read from it: lists of tensors, transpositions, reversals. So no other operation lies between those of a layer,
and a layer as one node never closes a cycle.

Other layers are recognized by their scopes: attention and normalization by the names that Keras gives, and a block used
twice by its weights.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from wiring import LOOPS

if TYPE_CHECKING:
    import tensorflow as tf
    from framework_types import FunctionDef, NameAttrList, NodeDef


_BODIES = {
    **dict.fromkeys(LOOPS, ("body",)),
    **dict.fromkeys(("If", "StatelessIf"), ("then_branch", "else_branch")),
    **dict.fromkeys(("Case", "StatelessCase"), ("branches",)),
}
_LABELS = {"body": "Loop", "then_branch": "Condition", "branches": "Choice"}
_REVERSALS = frozenset("Reverse ReverseV2 ReverseSequence".split())
_AROUND = _REVERSALS | frozenset(
    "TensorListFromTensor TensorListReserve TensorListStack TensorListGetItem Transpose".split()
)
_CELL = re.compile(r"/(lstm|gru|simple_rnn)_cell")
_CELLS = {"lstm": "LSTM", "gru": "GRU", "simple_rnn": "SimpleRNN"}
_JOINS = frozenset("AddV2 ConcatV2 Mul Pack".split())
_MOST_NESTED = 1000
_NUMBERED = re.compile(r"(_\d+)*$")
_KERAS = {
    "attention": "Attention",
    "additive_attention": "AdditiveAttention",
    "batch_normalization": "BatchNormalization",
    "group_normalization": "GroupNormalization",
    "group_query_attention": "GroupedQueryAttention",
    "layer_normalization": "LayerNormalization",
    "multi_head_attention": "MultiHeadAttention",
    "rms_normalization": "RMSNormalization",
    "transformer_decoder": "TransformerDecoder",
    "transformer_encoder": "TransformerEncoder",
}


Operations: TypeAlias = Mapping[str, "tf.Operation"]
"""By name."""

Sources: TypeAlias = Mapping[str, Iterable[str]]
"""By the name of an operation, the names of those that it reads from."""

Users: TypeAlias = Mapping[str, set[str]]
"""By the name of an operation, the names of those that read from it."""


@dataclass(frozen=True)
class Layer:
    """A loop with the operations around it, two such loops, or a scope; `label` is the common name of the layer."""

    label: str
    members: frozenset[str]


def label_of(operation: tf.Operation) -> str:
    """The common name of an operation that has other functions; "" for all others."""
    return _LABELS[_BODIES[operation.type][0]] if operation.type in _BODIES else ""


def body_of(operation: tf.Operation, functions: Mapping[str, FunctionDef]) -> list[NodeDef]:
    """The nodes of the functions that a loop or condition runs, and of the functions that these call."""
    waiting = [one.name for name in reversed(_BODIES.get(operation.type, ())) for one in _listed(operation, name)]
    found: list[NodeDef] = []
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_NESTED:
        name = waiting.pop()
        if name in functions and name not in seen:
            seen.add(name)
            found += functions[name].node_def
            called = (attribute.func.name for node in functions[name].node_def for attribute in node.attr.values())
            waiting += filter(None, called)
    return found


def _listed(operation: tf.Operation, name: str) -> list[NameAttrList]:
    value = operation.get_attr(name)
    return list(value) if isinstance(value, list | tuple) else [value]


def layers(operations: Operations, sources: Sources, functions: Mapping[str, FunctionDef]) -> list[Layer]:
    """The recurrent layers among the operations that have `sources`; no operation is in two of them."""
    after: dict[str, set[str]] = {name: set() for name in sources}
    for name, read in sources.items():
        for source in read:
            after[source].add(name)
    ways: list[tuple[str, frozenset[str]]] = []
    for name in sorted(sources):
        kind = _kind(operations[name], functions)
        if kind:
            taken = frozenset().union(*(members for _, members in ways))
            ways.append((kind, _around(name, operations, sources, after, taken)))
    found = _joined(ways, operations, sources, after)
    return found + _scoped(operations, sources, after, frozenset().union(*(layer.members for layer in found)))


def _scoped(operations: Operations, sources: Sources, after: Users, taken: frozenset[str]) -> list[Layer]:
    """The outermost scopes that are layers, of operations that are not `taken`."""
    inside: dict[str, list[str]] = {}
    for name in sources:
        parts = name.split("/")
        for depth in range(1, len(parts)):
            inside.setdefault("/".join(parts[:depth]), []).append(name)
    shared = _shared_scopes(operations, sources, inside)
    places = _places(sources, after)
    found: list[Layer] = []
    # Outermost scopes first: what they contain is then taken.
    for scope in sorted(inside, key=lambda one: (one.count("/"), one)):
        label = _label_of_scope(scope, scope in shared)
        members = frozenset(inside[scope])
        if label and len(members) > 1 and not members & taken and not _between(members, sources, after, places):
            found.append(Layer(label, members))
            taken |= members
    return found


def _label_of_scope(scope: str, is_shared: bool) -> str:
    last = scope.rpartition("/")[2]
    plain = _NUMBERED.sub("", last)
    label = _KERAS.get(plain, "")
    return f"{label or (scope if last.isdecimal() else plain)}, shared" if is_shared else label


def _shared_scopes(operations: Operations, sources: Sources, inside: Mapping[str, list[str]]) -> set[str]:
    """The scopes of blocks that are used several times: they have the same operations with the same weights."""

    def content(scope: str) -> tuple[list[str], set[str]]:
        kinds = sorted(operations[name].type for name in inside[scope])
        return kinds, {each for name in inside[scope] for each in weights[name]}

    weights = {name: _weights_of(operations[name]) for name in sources}
    users: dict[str, list[list[str]]] = {}
    for name, found in weights.items():
        for weight in found:
            users.setdefault(weight, []).append(name.split("/"))
    shared: set[str] = set()
    for paths in users.values():
        for one, other in itertools.pairwise(paths):
            # The first part that differs names the two blocks.
            depth = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
            # Of two operations in one scope, only the names of the operations differ.
            if depth < min(len(one), len(other)) - 1:
                pair = {"/".join(path[: depth + 1]) for path in (one, other)}
                if len(pair) == 2 and content(min(pair)) == content(max(pair)):
                    shared |= pair
    return shared


def _weights_of(operation: tf.Operation) -> list[str]:
    """The identities of the matrices and kernels among the constants that an operation takes."""
    found = []
    for tensor in operation.inputs:
        end = tensor
        while end.op.type == "Identity" and end.op.inputs:
            end = end.op.inputs[0]
        if end.op.type == "Const" and (end.shape.rank or 0) > 1:
            found.append(_identity(end.op))
    return found


def _identity(constant: tf.Operation) -> str:
    """A digest of the values, because a weight may be stored as one constant for each use.

    If all values are equal, the constant's name: while TensorFlow freezes, large variables are zeros.
    """
    try:
        content = constant.get_attr("value").tensor_content
    except (KeyError, ValueError):
        return str(constant.name)
    is_varied = content.count(content[:1]) < len(content)
    return hashlib.sha256(content).hexdigest() if is_varied else str(constant.name)


def _places(sources: Sources, after: Users) -> dict[str, int]:
    """Positions of the operations in topological order; operations in cycles have none."""
    left = {name: len(set(found)) for name, found in sources.items()}
    ready = [name for name, count in left.items() if not count]
    places: dict[str, int] = {}
    while ready:
        name = ready.pop()
        places[name] = len(places)
        for one in after[name]:
            left[one] -= 1
            if not left[one]:
                ready.append(one)
    return places


def _kind(operation: tf.Operation, functions: Mapping[str, FunctionDef]) -> str:
    """The layer whose cell a loop computes, by its activations or its name; "" if unknown."""
    if operation.type not in LOOPS:
        return ""
    body = body_of(operation, functions)
    counts = collections.Counter(node.op for node in body)
    sigmoids, tangents, products = counts["Sigmoid"], counts["Tanh"], counts["Mul"]
    if not counts["TensorListGetItem"] or not counts["MatMul"] + counts["BatchMatMulV2"]:
        return ""
    # The gates of a cell are computed together or separately, so one to three sigmoids. An LSTM has tanh twice, for the
    # candidate and for the output, a GRU once, and a SimpleRNN has no gates.
    if tangents == 2 and 1 <= sigmoids <= 3 and products >= 3:
        return "LSTM"
    if tangents == 1 and 1 <= sigmoids <= 2 and products >= 2:
        return "GRU"
    if not sigmoids and not products and tangents + counts["Relu"] == 1:
        return "SimpleRNN"
    # Keras names its cells: that identifies several of them, or one with other activations.
    cells = {found for node in body for found in _CELL.findall(node.name)}
    return _CELLS[cells.pop()] if len(cells) == 1 else "RNN" if cells else ""


def _around(loop: str, operations: Operations, sources: Sources, after: Users, taken: frozenset[str]) -> frozenset[str]:
    """`loop` and operations around it that only feed or only read it; in a scope of Keras, all those of the layer."""
    scope = loop.rpartition("/")[0] + "/"
    members, waiting = {loop}, [loop]
    while waiting:
        name = waiting.pop()
        for near, others in ((sources[name], after), (after[name], sources)):
            for one in near:
                fits = operations[one].type in _AROUND or (scope.count("/") > 1 and one.startswith(scope))
                if fits and one not in members | taken and members >= set(others[one]):
                    members.add(one)
                    # A member's neighbour may qualify only now.
                    waiting += [one, *(members & {*sources[one], *after[one]})]
    return frozenset(members)


def _joined(
    ways: list[tuple[str, frozenset[str]]], operations: Operations, sources: Sources, after: Users
) -> list[Layer]:
    """Join two loops of a kind, one of which reverses its steps, if an operation combines only these two."""
    found: list[Layer] = []
    left = list(ways)
    for name in sorted(sources):
        if operations[name].type not in _JOINS:
            continue
        pair = [way for way in left if way[1] & set(sources[name])]
        if len(pair) != 2 or pair[0][0] != pair[1][0]:
            continue
        one, other = (_fed(members, operations, sources, after) for _, members in pair)
        if _reverses(one, operations) == _reverses(other, operations):
            continue
        both = pair[0][1] | pair[1][1]
        if both >= set(sources[name]) and not _between(both, sources, after):
            left = [way for way in left if way not in pair]
            found.append(Layer(f"Bidirectional {pair[0][0]}", both | {name}))
    for way in left:
        found.append(Layer(f"{way[0]}, backward" if _reverses(way[1], operations) else way[0], way[1]))
    return found


def _fed(members: frozenset[str], operations: Operations, sources: Sources, after: Users) -> frozenset[str]:
    """`members` and the operations that only feed them, up to other loops."""
    found, waiting = set(members), list(members)
    while waiting:
        for one in sources[waiting.pop()]:
            if one not in found and operations[one].type not in LOOPS and found >= after[one]:
                found.add(one)
                waiting += [one, *(found & after[one])]
    return frozenset(found)


def _reverses(members: frozenset[str], operations: Operations) -> bool:
    return any(operations[name].type in _REVERSALS for name in members)


def _between(members: frozenset[str], sources: Sources, after: Users, places: Mapping[str, int] | None = None) -> bool:
    """Whether an operation that is not a member is on a path between two members."""
    places = places or {}
    last = max(places.get(name, len(after)) for name in members)
    waiting = [one for name in members for one in after[name] if one not in members]
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in members:
            return True
        # Nothing after the last member leads to one.
        if name not in seen and places.get(name, 0) <= last:
            seen.add(name)
            waiting += after[name]
    return False
