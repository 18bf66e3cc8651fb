"""Inputs for both sides of a model's branches: found by trying inputs, not by analysis.

Branches are conditionals, loops and selections of the frozen graph and its functions. A node before each of them
passes the condition to Python, so branches in functions, loop bodies and other branches are seen when they run.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import specialize
import tensorflow as tf
import weights
from messages import elements
from messages.carriers import MADE
from messages.elements import write_arrays
from messages.requests import SearchBranches, Side, Sides
from reachability import rename_functions
from tensorflow.core.framework import graph_pb2
from wiring import LOOPS, data_inputs, node_name

if TYPE_CHECKING:
    from framework_types import Array, ConcreteFunction, FunctionDef, GraphDef, NodeDef, Nodes, Report
    from messages.graph import Feed


_SELECTIONS = frozenset("Select SelectV2".split())
_CONDITIONALS = frozenset("If StatelessIf".split())
_CASES = frozenset("Case StatelessCase".split())
_INLINED = re.compile(r"^((Stateful)?PartitionedCall(_\d+)?/)+")
"""The prefix that TensorFlow gives to the names of nodes from inlined functions."""
_STATEFUL = {
    "StatelessIf": "If",
    "StatelessCase": "Case",
    "StatelessWhile": "While",
    "PartitionedCall": "StatefulPartitionedCall",
}
"""Operations that TensorFlow may deduplicate or fold, and their stateful forms, which it may not."""
# Where authors put thresholds: the range of normalized numbers first, then of physical ones.
_SCALES = (1.0, 0.01, 0.1, 3.0, 10.0, 100.0, 1e3, 1e4, 1e-4)
_SHIFTS = (0.0, 1.0, -1.0, 5.0, -5.0)
# A threshold between two inputs is found to 1/12 (8 %) of their distance.
_PARTS = 12
_SHARE = 0.5
"""Share of the time for the search: the last input may take long, and the inputs found must still be written."""


def branches(request: SearchBranches, report: Report) -> Sides:
    """Try random inputs of `request.rows` rows; write those that first took a side of a branch."""
    sought = _Search(request)
    if request.seconds:
        sought.search(_candidates(request))
    if sought.kept:
        found = {name: np.concatenate([each[name] for each in sought.kept]) for name in sought.batched}
        found.update({name: values for name, values in sought.kept[0].items() if name not in sought.batched})
        types = {each.name: _dtype(each) for each in request.inputs}
        write_arrays(request.out, {name: elements.held(values, types[name]) for name, values in found.items()})
    return Sides(taken=sought.sides(True), not_taken=sought.sides(False), found=bool(sought.kept))


Taken: TypeAlias = tuple[int, int]
"""(index of a branch, index of its side)."""


class _Search:
    """Which sides of which branches were taken; `kept` are the inputs that first took one, as numbers."""

    def __init__(self, request: SearchBranches) -> None:
        self._inputs = request.inputs
        self.batched = [each.name for each in self._inputs if each.shape[:1] == (None,)]
        self._made, self._function = _runner(request)
        self._end = time.monotonic() + _SHARE * request.seconds
        self._taken: set[Taken] = set()
        self.kept: list[dict[str, Array]] = []

    @property
    def _done(self) -> bool:
        sides = sum(len(branch.sides) for branch in self._made.branches)
        return len(self._taken) == sides or time.monotonic() > self._end

    def search(self, candidates: Iterable[dict[str, Array]]) -> None:
        for candidate in candidates:
            if self._done:
                return
            self._look(candidate)
        self._look_between()

    def _look(self, inputs: dict[str, Array]) -> None:
        """Run all branches; keep `inputs` if they take a new side."""
        feeds = [tf.constant(_carried(each, inputs[each.name])) for each in self._inputs]
        try:
            taken = self._made.sides_of(lambda: self._function(*feeds))
        except tf.errors.OpError:  # rejected by the model's own checks
            return
        if taken - self._taken:
            self.kept.append(inputs)
        self._taken |= taken

    def _look_between(self) -> None:
        """Try inputs between two that took different sides: the threshold may lie between the scales."""
        # Of four inputs: 12 pairs with 11 steps each are few enough to run.
        for first, second in [(a, b) for a in self.kept[:4] for b in self.kept[:4] if a is not b]:
            for step in range(1, _PARTS):
                if self._done:
                    return
                part = step / _PARTS
                self._look({name: _between(first[name], second[name], part) for name in first})

    def sides(self, taken: bool) -> tuple[Side, ...]:
        return tuple(
            Side(node=branch.node, operation=branch.operation, side=label)
            for index, branch in enumerate(self._made.branches)
            for side, label in enumerate(branch.sides)
            if ((index, side) in self._taken) == taken
        )


def _dtype(tensor: Feed) -> str:
    return tensor.stands_for or tensor.dtype


def _carried(tensor: Feed, numbers: Array) -> Array:
    return elements.carried(elements.held(numbers, _dtype(tensor)), _dtype(tensor))


def _between(first: Array, second: Array, part: float) -> Array:
    mixed = first.astype(np.float64) * (1 - part) + second.astype(np.float64) * part
    return mixed.astype(first.dtype)


def _candidates(request: SearchBranches) -> Iterator[dict[str, Array]]:
    # From small to large: most models take normalized inputs, and show their branches at once.
    generator = np.random.default_rng(request.seed)
    for scale in _SCALES:
        for shift in _SHIFTS:
            yield {each.name: _drawn(generator, each, request.rows, scale, shift) for each in request.inputs}
    # Rows that are all equal, which reach branches on sums and on largest elements.
    for constant in (0.0, *(sign * scale for scale in _SCALES for sign in (1, -1))):
        yield {each.name: _drawn(None, each, request.rows, 0.0, constant) for each in request.inputs}


def _drawn(generator: np.random.Generator | None, tensor: Feed, rows: int, scale: float, shift: float) -> Array:
    dtype = elements.numbers_type(_dtype(tensor))
    shape = [rows if size is None else size for size in tensor.shape]
    values = np.full(shape, shift) if generator is None else scale * (generator.standard_normal(shape) + shift)
    if dtype == np.bool_:
        return values > 0
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        # Floats cannot represent the limits of 64-bit integers: the conversion would overflow.
        result: Array = np.clip(np.rint(values), max(limits.min, -(2**31)), min(limits.max, 2**31)).astype(dtype)
        return result
    return values.astype(dtype)


def _runner(request: SearchBranches) -> tuple[Watched, ConcreteFunction]:
    """(the watched graph, a function of inputs that runs all its branches; None if there are none, or no time)."""
    graph = graph_pb2.GraphDef()
    with open(request.graph, "rb") as file:
        graph.ParseFromString(file.read())
    graph = specialize.at_batch_size(graph, request.inputs, request.rows)
    made = watched(graph, [each.node for each in request.outputs])

    def imported(*inputs: tf.Tensor) -> tf.Tensor:
        feeds = {each.node: value for each, value in zip(request.inputs, inputs, strict=True)}
        held = {each.node: tf.constant(weights.values_of(request.blob, each)) for each in request.weights}
        # TensorFlow rejects inputs that nothing in the graph uses.
        used = {node_name(text) for node in graph.node for text in node.input}
        given = {name: value for name, value in {**feeds, **held}.items() if name in used}
        wanted = [name for name in made.runs if name not in feeds]
        run = tf.graph_util.import_graph_def(graph, given, return_elements=wanted, name="")
        with tf.control_dependencies(run):
            return tf.constant(0)

    if not made.branches or not request.seconds:
        return made, None
    specs = [
        tf.TensorSpec([request.rows if size is None else size for size in each.shape], each.dtype)
        for each in request.inputs
    ]
    return made, tf.compat.v1.wrap_function(imported, specs)


@dataclass(frozen=True)
class Branch:
    """`node` is its path: names of nodes and functions ("while/body/cond")."""

    node: str
    operation: str
    sides: list[str]


@dataclass
class Watched:
    """`graph_def` with `branches`; `runs` names the nodes that must run for all of them to run.

    The caller runs it in `sides_of`, and keeps the graph in `keeps` alive meanwhile.
    """

    graph_def: GraphDef
    branches: list[Branch] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    keeps: tf.Graph = None
    _seen: set[Taken] = field(default_factory=set)

    def sides_of(self, run: Callable[[], object]) -> set[Taken]:
        """Call `run`; return the sides that it took, as (index of the branch, index of the side)."""
        self._seen.clear()
        run()
        return set(self._seen)

    def note(self, index: int, value: Any) -> None:
        """Called by TensorFlow: `value` chooses a side of a branch."""
        branch = self.branches[index]
        if branch.operation in _CASES:
            # TensorFlow takes the last branch for an index out of range.
            last = len(branch.sides) - 1
            self._seen.add((index, int(value) if 0 <= int(value) <= last else last))
            return
        # A condition of several elements, such as that of a selection, may take both sides at once.
        chosen = np.asarray(value) != 0
        self._seen.update((index, side) for side, taken in enumerate((not chosen.all(), chosen.any())) if taken)


def watched(graph_def: GraphDef, outputs: list[str]) -> Watched:
    """Watch the branches of `graph_def`, which is changed; `outputs` are names of nodes."""
    made = Watched(graph_def, keeps=tf.Graph())
    library = {function.signature.name: function for function in graph_def.library.function}
    _Body(made, _Place(), graph_def.node, library, in_function=False).watch()
    for name, place in _places(graph_def, library).items():
        _Body(made, place, library[name].node_def, library, in_function=True).watch()
    if any(node.op == "Switch" for node in graph_def.node):  # TensorFlow returns no nodes inside of a loop
        made.runs = list(outputs)
    else:
        watching = _watching(library)
        made.runs = [node.name for node in graph_def.node if node.op == "PyFunc" or _called(node, watching)]
    # TensorFlow keeps the first function registered under a name, and these have new nodes.
    rename_functions(graph_def)
    return made


def _watching(library: Mapping[str, FunctionDef]) -> set[str]:
    """The functions that have branches, directly or in functions that they call."""
    found: set[str] = set()
    while True:
        known = set(found)
        for name, function in library.items():
            if any(node.op == "PyFunc" or _called(node, known) for node in function.node_def):
                found.add(name)
        if found == known:
            return found


@dataclass(frozen=True)
class _Place:
    """The path to a function's nodes, and the caller's name, with which their names may begin."""

    path: str = ""
    caller: str = ""

    def name_of(self, node: str) -> str:
        # TensorFlow repeats some tail of the caller's path at the beginning of these names.
        parts = self.caller.split("/")
        scopes = ["/".join(parts[start:]) + "/" for start in range(len(parts))]
        scope = next((scope for scope in scopes if node.startswith(scope)), "")
        return self.path + _INLINED.sub("", node.removeprefix(scope))

    def within(self, node: NodeDef, label: str) -> _Place:
        """The place of a function that `node` calls; for a call without a `label`, the place of the call itself."""
        return _Place(f"{self.name_of(node.name)}/{label}/", node.name) if label else self


def _called(node: NodeDef, library: Collection[str]) -> list[tuple[str, str]]:
    """(attribute, function) of each function that a node calls."""
    found = [("", node.op)] if node.op in library else []
    for key, value in sorted(node.attr.items()):
        if value.func.name in library:
            found.append(("" if key == "f" else key, value.func.name))
        found += [(f"{key}[{index}]", f.name) for index, f in enumerate(value.list.func) if f.name in library]
    return found


def _places(graph_def: GraphDef, library: Mapping[str, FunctionDef]) -> dict[str, _Place]:
    """The place of the first call of each function."""
    places: dict[str, _Place] = {}
    waiting = [(_Place(), graph_def.node)]
    # The list grows during the loop: callers come before the functions that they call.
    for place, nodes in waiting:
        for node in nodes:
            for label, name in _called(node, library):
                if name not in places:
                    places[name] = place.within(node, label)
                    waiting.append((places[name], library[name].node_def))
    return places


class _Body:
    """The nodes of the graph or of one function, to which others are added."""

    def __init__(
        self, made: Watched, place: _Place, nodes: Nodes, library: Mapping[str, FunctionDef], *, in_function: bool
    ) -> None:
        self._made, self._place, self._nodes, self._library = made, place, nodes, library
        self._in_function = in_function

    def watch(self) -> None:
        switches: dict[str, list[NodeDef]] = {}
        for node in list(self._nodes):
            op = node.op
            if op in LOOPS:
                # The first condition alone: later ones tell how many iterations there are, not whether there are any.
                self._before([node], op, ["no step", "a step"], *self._first_condition(node))
            elif op in _CASES:
                sides = [f"branch {index}" for index in range(len(node.attr["branches"].list.func))]
                self._before([node], op, sides, node.input[0], _INT32)
            elif op in _CONDITIONALS:
                self._before([node], op, ["false", "true"], node.input[0], node.attr["Tcond"].type)
            elif op in _SELECTIONS and MADE not in node.name:
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

    def _before(self, nodes: list[NodeDef], operation: str, sides: list[str], chosen_by: str, dtype: int) -> None:
        """Make `nodes` wait until the tensor `chosen_by` was passed to Python."""
        index = len(self._made.branches)
        self._made.branches.append(Branch(self._place.name_of(nodes[0].name), operation, sides))
        name = f"tfaot_watch_{index}"
        copied = _call_of_python(self._made.keeps, partial(self._made.note, index), dtype)
        seen = self._nodes.add(name=name, op=copied.op)
        seen.input.append(chosen_by)
        for key, value in copied.attr.items():
            seen.attr[key].CopyFrom(value)
        for node in nodes:
            # A control edge, because the value itself does not change.
            node.input.append(f"^{name}")

    def _first_condition(self, node: NodeDef) -> tuple[str, int]:
        """Call a loop's condition with the loop's initial values; return the resulting tensor and its dtype."""
        condition = self._library[node.attr["cond"].func.name]
        dtype = condition.signature.output_arg[0].type
        call = self._nodes.add(name=f"{node.name}/tfaot_condition", op="StatefulPartitionedCall")
        call.input.extend(data_inputs(node))
        call.attr["Tin"].CopyFrom(node.attr["T"])
        call.attr["Tout"].list.type.append(dtype)
        call.attr["f"].func.CopyFrom(node.attr["cond"].func)
        return f"{call.name}:output:0" if self._in_function else f"{call.name}:0", dtype


_BOOL, _INT32 = 10, 3  # types_pb2.DT_BOOL, DT_INT32


def _call_of_python(graph: tf.Graph, function: Callable[[Any], None], dtype: int) -> NodeDef:
    """A node that calls the Python `function` with a tensor; the function lives as long as `graph`."""
    with graph.as_default():
        result: NodeDef = tf.numpy_function(function, [tf.compat.v1.placeholder(tf.as_dtype(dtype))], []).node_def
        return result
