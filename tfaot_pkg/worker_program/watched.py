"""A copy of a graph that tells which sides of its branches are taken, wherever they are.

Before each conditional, loop and selection stands a node that hands what chooses the side to Python, so branches in
functions, in bodies of loops and in other branches are seen when they run.
"""

import re
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from reached import rename_functions

_SELECTIONS = frozenset("Select SelectV2".split())
_CONDITIONALS = frozenset("If StatelessIf".split())
_CASES = frozenset("Case StatelessCase".split())
_LOOPS = frozenset("While StatelessWhile".split())
_INLINED = re.compile(r"^((Stateful)?PartitionedCall(_\d+)?/)+")
"""What TensorFlow puts before the names of nodes of functions whose calls are gone."""
_STATEFUL = {
    "StatelessIf": "If",
    "StatelessCase": "Case",
    "StatelessWhile": "While",
    "PartitionedCall": "StatefulPartitionedCall",
}
"""What TensorFlow may take for one with another like it, or compute beforehand, and what it may not."""


@dataclass(frozen=True)
class Branch:
    """`node` is the path of nodes and of names of functions ("while/body/cond")."""

    node: str
    operation: str
    sides: list


@dataclass
class Watched:
    """`graph_def` with `branches`; `runs` names the nodes that must run for all of them to run.

    Whoever runs it calls `sides_of`. The graph that `keeps` holds must live as long.
    """

    graph_def: object
    branches: list = field(default_factory=list)
    runs: list = field(default_factory=list)
    keeps: object = None
    _seen: set = field(default_factory=set)

    def sides_of(self, run) -> set:
        """Call `run`; the sides that it took, as (index of the branch, index of the side)."""
        self._seen.clear()
        run()
        return set(self._seen)

    def note(self, index: int, value) -> None:
        """What TensorFlow calls: `value` chooses a side of a branch."""
        branch = self.branches[index]
        if branch.operation in _CASES:
            last = len(branch.sides) - 1
            self._seen.add((index, int(value) if 0 <= int(value) <= last else last))
            return
        chosen = np.asarray(value) != 0
        self._seen.update((index, side) for side, taken in enumerate((not chosen.all(), chosen.any())) if taken)


def watched(graph_def, outputs: list) -> Watched:
    """`outputs` are names of nodes. `graph_def` is changed."""
    import tensorflow as tf

    made = Watched(graph_def, keeps=tf.Graph())
    library = {function.signature.name: function for function in graph_def.library.function}
    _Body(made, _Place(), graph_def.node, library, in_function=False).watch()
    for name, place in _places(graph_def, library).items():
        _Body(made, place, library[name].node_def, library, in_function=True).watch()
    if any(node.op == "Switch" for node in graph_def.node):  # nodes of a loop cannot be asked for
        made.runs = list(outputs)
    else:
        watching = _watching(library)
        made.runs = [node.name for node in graph_def.node if node.op == "PyFunc" or _called(node, watching)]
    rename_functions(graph_def)
    return made


def _watching(library: dict) -> set:
    """The functions in which there are branches, or in what they call."""
    found: set = set()
    while True:
        known = set(found)
        for name, function in library.items():
            if any(node.op == "PyFunc" or _called(node, known) for node in function.node_def):
                found.add(name)
        if found == known:
            return found


@dataclass(frozen=True)
class _Place:
    """Of a function's nodes: the path to them, and the name of the caller, with which their names may begin."""

    path: str = ""
    caller: str = ""

    def name_of(self, node: str) -> str:
        parts = self.caller.split("/")
        scopes = ["/".join(parts[start:]) + "/" for start in range(len(parts))]
        scope = next((scope for scope in scopes if node.startswith(scope)), "")
        return self.path + _INLINED.sub("", node.removeprefix(scope))

    def within(self, node, label: str):
        """The place of a function that `node` calls; those of plain calls are where the call is."""
        return _Place(f"{self.name_of(node.name)}/{label}/", node.name) if label else self


def _called(node, library) -> list:
    """(what the node calls it, the function) of each function that a node calls."""
    found = [("", node.op)] if node.op in library else []
    for key, value in sorted(node.attr.items()):
        if value.func.name in library:
            found.append(("" if key == "f" else key, value.func.name))
        found += [(f"{key}[{index}]", f.name) for index, f in enumerate(value.list.func) if f.name in library]
    return found


def _places(graph_def, library: dict) -> dict:
    """Where each function is called first."""
    places: dict = {}
    waiting = [(_Place(), graph_def.node)]
    for place, nodes in waiting:
        for node in nodes:
            for label, name in _called(node, library):
                if name not in places:
                    places[name] = place.within(node, label)
                    waiting.append((places[name], library[name].node_def))
    return places


class _Body:
    """The nodes of the graph or of one function, to which others are added."""

    def __init__(self, made: Watched, place: _Place, nodes, library: dict, *, in_function: bool) -> None:
        self._made, self._place, self._nodes, self._library = made, place, nodes, library
        self._in_function = in_function

    def watch(self) -> None:
        switches: dict = {}
        for node in list(self._nodes):
            op = node.op
            if op in _LOOPS:
                self._before([node], op, ["no step", "a step"], *self._first_condition(node))
            elif op in _CASES:
                sides = [f"branch {index}" for index in range(len(node.attr["branches"].list.func))]
                self._before([node], op, sides, node.input[0], _INT32)
            elif op in _CONDITIONALS:
                self._before([node], op, ["false", "true"], node.input[0], node.attr["Tcond"].type)
            elif op in _SELECTIONS:
                self._before([node], op, ["false", "true"], node.input[0], _BOOL)
            elif op == "Switch":
                switches.setdefault(node.input[1], []).append(node)
            node.op = _STATEFUL.get(op, op)
        loops = {node.name for node in self._nodes if node.op == "LoopCond"}
        for chosen_by, nodes in switches.items():
            if chosen_by.partition(":")[0] in loops:
                self._before(nodes, "LoopCond", ["end", "a step"], chosen_by, _BOOL)
            else:
                self._before(nodes, "Switch", ["false", "true"], chosen_by, _BOOL)

    def _before(self, nodes: list, operation: str, sides: list, chosen_by: str, dtype: int) -> None:
        """Let `nodes` wait until the tensor `chosen_by` was seen."""
        index = len(self._made.branches)
        self._made.branches.append(Branch(self._place.name_of(nodes[0].name), operation, sides))
        name = f"tfaot_watch_{index}"
        copied = _call_of_python(self._made.keeps, partial(self._made.note, index), dtype)
        seen = self._nodes.add(name=name, op=copied.op)
        seen.input.append(chosen_by)
        for key, value in copied.attr.items():
            seen.attr[key].CopyFrom(value)
        for node in nodes:
            node.input.append(f"^{name}")

    def _first_condition(self, node) -> tuple:
        """A call of a loop's condition with the loop's first values; the tensor that it gives, and its dtype."""
        condition = self._library[node.attr["cond"].func.name]
        dtype = condition.signature.output_arg[0].type
        call = self._nodes.add(name=f"{node.name}/tfaot_condition", op="StatefulPartitionedCall")
        call.input.extend(text for text in node.input if not text.startswith("^"))
        call.attr["Tin"].CopyFrom(node.attr["T"])
        call.attr["Tout"].list.type.append(dtype)
        call.attr["f"].func.CopyFrom(node.attr["cond"].func)
        return f"{call.name}:output:0" if self._in_function else f"{call.name}:0", dtype


_BOOL, _INT32 = 10, 3  # types_pb2.DT_BOOL, DT_INT32


def _call_of_python(graph, function, dtype: int):
    """The node of a call of `function` with a tensor, which lives as long as `graph`."""
    import tensorflow as tf

    with graph.as_default():
        return tf.numpy_function(function, [tf.compat.v1.placeholder(tf.as_dtype(dtype))], []).node_def
