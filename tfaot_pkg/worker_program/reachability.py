"""The part of a SavedModel that one signature runs: its nodes and functions, checked, and nothing else of the file.

Nothing of the model runs here: the file is only read. The result is the only graph that TensorFlow loads, so
operations of other signatures, of the saver, of training and of the model's initializers never reach it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import authored
import operations
import tables
from inlined import require_finite
from messages.requests import ModelFault
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import dtypes, op_def_registry
from wiring import CALLS, ancestors, by_name, called, node_name, tensor_name

if TYPE_CHECKING:
    from framework_types import FunctionDef, GraphDef, MetaGraphDef, NodeDef, OpDef, SignatureDef, TensorInfo


# A small file can describe constants of one repeated value without end. The limit is checked before TensorFlow imports
# anything (decision 028, docs/security.md), as those of inlined.py are.
_MOST_CONSTANT_BYTES = 4 << 30
# Others name alternative implementations and gradients, or settings of the process that exported the model.
_KEPT_ATTRIBUTES_OF_FUNCTIONS = frozenset("_XlaMustCompile _noinline".split())
_EMPTIED_ATTRIBUTES = frozenset("config config_proto executor_type".split())
"""Attributes of calls: settings of the session, for which we have our own."""
_DROPPED_ATTRIBUTES = frozenset("_class _gradient_op_type _output_shapes api_implements api_preferred_device".split())
"""References to nodes and functions that are left out (colocation, gradients, alternatives), and saved shapes."""
# With one of these, a call stays a call: the body must be compiled, or kept, as one function.
_KEPT_APART = frozenset("_noinline _XlaMustCompile".split())
_NUMBERS = itertools.count()
"""Numbers of graphs, for names of functions, which TensorFlow registers per process."""


@dataclass(frozen=True)
class Reached:
    """The graph of a signature.

    `inputs` and `outputs` are the signature's TensorInfo by name. `variables` are the nodes of variables by name. These
    and fed nodes are not in `graph_def`: both are fed under the names that their consumers use.
    `fetched` are the outputs by name, as tensors of `graph_def` or fed ones.
    """

    graph_def: GraphDef
    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]
    variables: dict[str, NodeDef]
    fetched: dict[str, str]
    faults: list[operations.Fault]
    """[(operation, node, why)] for operations that cannot be compiled; if there are any, nothing is imported."""
    tables: dict[str, tables.Table] = field(default_factory=dict)
    """The contents of lookup tables (tables.Table) by their nodes, which are fed like variables."""


def reached_by(meta_graph: MetaGraphDef, name: str, signature: SignatureDef) -> Reached:
    """The graph that the signature `name` runs; ModelFault if it reaches outside of the model, or is damaged."""
    graph = _Walk(meta_graph.graph_def, name)
    inputs, outputs = _plain(name, "input", signature.inputs), _plain(name, "output", signature.outputs)
    graph.walk_from([info.name for info in outputs.values()], {tensor_name(info.name) for info in inputs.values()})
    _require_complete(name, graph)
    faults = operations.faults_of(name, list(graph.placed_nodes()), graph.functions())
    contents = _contents(meta_graph.graph_def, graph.tables, faults)
    _require_finite(name, graph)
    graph_def = graph.as_graph_def()
    fetched = {key: tensor_name(info.name) for key, info in outputs.items()}
    if not faults:
        fed = {node_name(info.name) for info in inputs.values()} | set(graph.variables) | set(graph.tables)
        graph_def, fetched = _unwrapped(graph_def, fetched, fed)
    return Reached(
        graph_def=graph_def,
        inputs=dict(inputs),
        outputs=dict(outputs),
        variables=graph.variables,
        fetched=fetched,
        faults=faults,
        tables=contents,
    )


def _contents(
    graph_def: GraphDef, nodes: dict[str, NodeDef], faults: list[operations.Fault]
) -> dict[str, tables.Table]:
    """The contents of tables by name; adds a fault for each whose content is not known."""
    found = {}
    for name, node in sorted(nodes.items()):
        try:
            found[name] = tables.content(graph_def, node)
        except tables.Unknown as unknown:
            faults.append((node.op, name, f"{operations.TABLES_ADVICE}: {unknown}"))
    return found


def _unwrapped(graph_def: GraphDef, fetched: dict[str, str], fed: set[str]) -> tuple[GraphDef, dict[str, str]]:
    try:
        return unwrapped(graph_def, fetched, fed)
    except (KeyError, IndexError, ValueError) as error:
        raise ModelFault(f"the graph is damaged: it uses the tensor {error}, which does not exist") from error


def _plain(signature: str, kind: str, infos: Mapping[str, TensorInfo]) -> Mapping[str, TensorInfo]:
    """`infos`, each of which must be one dense tensor; ModelFault for sparse and ragged ones."""
    for name, info in sorted(infos.items()):
        if not info.name:
            raise ModelFault(
                f"{kind} {name!r} of the signature {signature!r} is not one dense tensor",
                "pass the parts of a sparse or ragged tensor as tensors of their own",
            )
    return infos


class _Walk:
    """The nodes and functions of a graph that some of its tensors need."""

    def __init__(self, graph_def: GraphDef, signature: str) -> None:
        self._signature = signature
        self._source = graph_def
        self._nodes = by_name(graph_def)
        self._library = {function.signature.name: function for function in graph_def.library.function}
        self._reached: dict[str, NodeDef] = {}
        self._bodies: dict[str, list[NodeDef]] = {}
        self._fed: set[str] = set()
        self.variables: dict[str, NodeDef] = {}
        self.tables: dict[str, NodeDef] = {}

    def walk_from(self, outputs: list[str], fed: set[str]) -> None:
        self._fed = fed
        waiting = [node_name(text) for text in outputs if tensor_name(text) not in fed]
        while waiting:
            name = waiting.pop()
            if name in self._reached or name in self.variables or name in self.tables:
                continue
            if name not in self._nodes:
                raise ModelFault(
                    f"the graph is damaged: the signature {self._signature!r} needs the node {name!r}, "
                    "which does not exist",
                    "export the model again",
                )
            node = self._nodes[name]
            # Variables get their values from the checkpoint: their initializers are not followed, and never run.
            if node.op in operations.VARIABLES:
                self.variables[name] = node
            elif node.op in operations.TABLES:
                self.tables[name] = node
            else:
                self._reached[name] = node
                waiting += [node_name(text) for text in node.input if not self._is_given(text)]
        self._walk_functions()

    def _is_given(self, text: str) -> bool:
        """Whether an input is fed. A control input from a fed node is dropped too: there is nothing to wait for."""
        return (f"{text[1:]}:0" if text.startswith("^") else tensor_name(text)) in self._fed

    def _walk_functions(self) -> None:
        waiting = [name for node in self._reached.values() for name in self._called(node)]
        while waiting:
            name = waiting.pop()
            if name not in self._bodies:
                self._bodies[name] = _needed_nodes(self._library[name])
                waiting += [called for node in self._bodies[name] for called in self._called(node)]

    def _called(self, node: NodeDef) -> list[str]:
        """Names of the functions that a node calls, including one that the node's operation names."""
        # TensorFlow 1 writes a call as an operation with the name of the function.
        names = [node.op] if node.op in self._library else []
        for key, value in node.attr.items():
            if key not in _DROPPED_ATTRIBUTES:
                names += [found.name for found in (value.func, *value.list.func) if found.name]
        for name in names:
            if name not in self._library:
                raise ModelFault(
                    f"the graph is damaged: node {node.name} calls the function {name!r}, which does not exist",
                    "export the model again",
                )
        return names

    def functions(self) -> list[str]:
        return sorted(self._bodies)

    def placed_nodes(self) -> Iterator[tuple[NodeDef, str]]:
        """All reached nodes with variables, as (node, its function or "")."""
        for node in (*self._reached.values(), *self.variables.values(), *self.tables.values()):
            yield node, ""
        for name, body in sorted(self._bodies.items()):
            for node in body:
                yield node, name

    def calls(self) -> dict[str, tuple[int, list[str]]]:
        """Function -> (number of its nodes, functions that it calls, once per call); "" is the graph itself."""
        bodies = {"": [*self._reached.values()], **self._bodies}
        return {name: (len(body), [c for node in body for c in self._called(node)]) for name, body in bodies.items()}

    def as_graph_def(self) -> GraphDef:
        """Only the reached part, with renamed functions: a process may load several models."""
        graph_def = graph_pb2.GraphDef()
        graph_def.versions.CopyFrom(self._source.versions)
        for node in self._source.node:  # in the order of the file: the result must not depend on the walk
            # By identity: a file may have several nodes of the same name, and only one of them was checked.
            if self._reached.get(node.name) is node:
                copy = graph_def.node.add()
                _copy_node(node, copy, self._keeps_input)
        for name in self.functions():
            self._copy_function(name, graph_def.library.function.add())
        rename_functions(graph_def)
        return graph_def

    def _keeps_input(self, text: str) -> bool:
        return not (
            text.startswith("^") and (self._is_given(text) or node_name(text) in {**self.variables, **self.tables})
        )

    def _copy_function(self, name: str, copy: FunctionDef) -> None:
        function = self._library[name]
        copy.signature.CopyFrom(function.signature)
        for index, attributes in function.arg_attr.items():
            copy.arg_attr[index].CopyFrom(attributes)
        for index, unique in function.resource_arg_unique_id.items():
            copy.resource_arg_unique_id[index] = unique
        for key in _KEPT_ATTRIBUTES_OF_FUNCTIONS & set(function.attr):
            copy.attr[key].CopyFrom(function.attr[key])
        if authored.is_operation(function.attr[authored.IMPLEMENTS]):
            copy.attr[authored.IMPLEMENTS].CopyFrom(function.attr[authored.IMPLEMENTS])
            authored.keep_apart(copy)
        for key, text in function.ret.items():
            copy.ret[key] = text
        for key, text in function.control_ret.items():
            copy.control_ret[key] = text
        for node in self._bodies[name]:
            _copy_node(node, copy.node_def.add(), _keeps_all)


def _needed_nodes(function: FunctionDef) -> list[NodeDef]:
    """The nodes of a function's body that its results and side effects need; others need not be compiled."""
    nodes = {node.name: node for node in function.node_def}
    needed = ancestors(nodes, (*function.ret.values(), *function.control_ret.values()))
    # By identity, as above: of several nodes of a name, only one counts.
    return [node for node in function.node_def if node.name in needed and nodes[node.name] is node]


def _copy_node(node: NodeDef, copy: NodeDef, keeps_input: Callable[[str], bool]) -> None:
    copy.CopyFrom(node)
    copy.device = ""  # a device of the machine that exported the model
    del copy.input[:]
    copy.input.extend(text for text in node.input if keeps_input(text))
    for key in _DROPPED_ATTRIBUTES & set(copy.attr):
        del copy.attr[key]
    for key in _EMPTIED_ATTRIBUTES & set(copy.attr):
        copy.attr[key].s = b""


def _keeps_all(text: str) -> bool:
    return True


def rename_functions(graph_def: GraphDef) -> None:
    """Give all functions names that are new in this process: TensorFlow keeps the first function of a name."""
    number = next(_NUMBERS)
    names = {
        function.signature.name: f"{function.signature.name}_of_{number}" for function in graph_def.library.function
    }
    for function in graph_def.library.function:
        function.signature.name = names[function.signature.name]
    for node in operations.nodes_of(graph_def):
        node.op = names.get(node.op, node.op)
        for each in called(node):
            each.name = names[each.name]


def _require_complete(signature: str, graph: _Walk) -> None:
    """Raise ModelFault if a node gets an attribute, which may be a function, from the caller of its function."""
    for node, function in graph.placed_nodes():
        for key, value in node.attr.items():
            if value.placeholder:
                raise ModelFault(
                    f"the signature {signature!r} runs the function {function!r}, whose node {node.name} takes "
                    f"{key!r} from its caller: so the function does not say what it does",
                    "export the model again with a current TensorFlow (tf.function, not Defun)",
                )


def _require_finite(signature: str, graph: _Walk) -> None:
    """Raise ModelFault if functions are recursive, or if a small file describes a huge graph or huge constants."""
    require_finite(f"the signature {signature!r}", graph.calls())
    constants = sum(_constant_bytes(node) for node, _ in graph.placed_nodes() if node.op == "Const")
    if constants > _MOST_CONSTANT_BYTES:
        raise ModelFault(
            f"the constants of the signature {signature!r} take {constants:,} bytes; "
            f"the limit is {_MOST_CONSTANT_BYTES:,}",
            "a constant of one value must be made where it is used (tf.fill), or be broadcast",
        )


def _constant_bytes(node: NodeDef) -> int:
    tensor, size = node.attr["value"].tensor, 1
    # By the shape: a file stores a constant of one repeated value once, but TensorFlow allocates all elements.
    for dim in tensor.tensor_shape.dim:
        size *= max(dim.size, 0)
    try:
        return size * max(dtypes.as_dtype(tensor.dtype).size or 1, 1)
    except TypeError:  # no such dtype: TensorFlow reports it when the graph is imported
        return size


def unwrapped(graph_def: GraphDef, outputs: dict[str, str], fed: set[str]) -> tuple[GraphDef, dict[str, str]]:
    """(graph, outputs): if `graph_def` is constants and one call, the body of the called function; else unchanged.

    A signature of TensorFlow 2 is one call of a function. Its body replaces the call, so that nodes keep their names
    within the function: people read these names, and tuning files store them.
    `outputs` are tensors by name; `fed` are nodes that `graph_def` reads but does not contain.
    """
    call = _only_call(graph_def, outputs)
    if call is None:
        return graph_def, outputs
    function = next(each for each in graph_def.library.function if each.signature.name == call.attr["f"].func.name)
    constants = [node for node in graph_def.node if node is not call]
    taken = {node.name for node in constants} | fed
    arguments = [argument.name for argument in function.signature.input_arg]
    # The names in the body must be free in the graph.
    if len(arguments) != len(call.input) or taken & {node.name for node in function.node_def}:
        return graph_def, outputs
    return _body(graph_def, call, constants, function, outputs)


def _only_call(graph_def: GraphDef, outputs: dict[str, str]) -> NodeDef | None:
    """The one call that all outputs come from; None if the graph has more."""
    calls = [node for node in graph_def.node if node.op != "Const"]
    if len(calls) != 1 or calls[0].op not in CALLS or any(text.startswith("^") for text in calls[0].input):
        return None
    call = calls[0]
    library = {each.signature.name: each for each in graph_def.library.function}
    function = library[call.attr["f"].func.name]
    whole = all(node_name(tensor) == call.name for tensor in outputs.values())
    return call if whole and not _KEPT_APART & {*call.attr, *function.attr} else None


def _body(
    graph_def: GraphDef, call: NodeDef, constants: list[NodeDef], function: FunctionDef, outputs: dict[str, str]
) -> tuple[GraphDef, dict[str, str]]:
    flat = _flat_names(function, call, {each.signature.name: each for each in graph_def.library.function})
    made = graph_pb2.GraphDef()
    made.versions.CopyFrom(graph_def.versions)
    made.library.CopyFrom(graph_def.library)
    made.node.extend(constants)
    for node in function.node_def:
        copy = made.node.add()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(text if text.startswith("^") else flat[text] for text in node.input)
    results = [flat[function.ret[each.name]] for each in function.signature.output_arg]
    return made, {name: results[int(tensor.rpartition(":")[2])] for name, tensor in outputs.items()}


def _flat_names(function: FunctionDef, call: NodeDef, library: dict[str, FunctionDef]) -> dict[str, str]:
    """Names of tensors within a function (`node:output:0`, or an argument) -> in a graph (`node:0`)."""
    flat = {argument.name: text for argument, text in zip(function.signature.input_arg, call.input, strict=True)}
    for node in function.node_def:
        called = library.get(node.op)
        definition = called.signature if called is not None else op_def_registry.get(node.op)
        position = 0
        for output in definition.output_arg:
            for index in range(_count(output, node)):
                flat[f"{node.name}:{output.name}:{index}"] = f"{node.name}:{position}"
                position += 1
    return flat


def _count(output: OpDef.ArgDef, node: NodeDef) -> int:
    """The number of tensors in an output of an operation."""
    if output.number_attr:
        return node.attr[output.number_attr].i
    return len(node.attr[output.type_list_attr].list.type) if output.type_list_attr else 1
