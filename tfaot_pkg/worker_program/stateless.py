"""A graph whose variables become inputs, and updated variables outputs: the same computation without state.

Each use of a lifted variable is replaced by its value at that point: operations are visited in an order that their
data and control edges allow, and each assignment sets a new value. Functions take the values of variables instead of
the variables, and return the new values as further results; loops carry them.
"""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import assignments
from messages.requests import ModelFault
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry, tensor_shape
from wiring import CALLS, LOOPS, data_inputs, free, node_name, tensor_name

if TYPE_CHECKING:
    from framework_types import (
        AttrValue,
        FunctionDef,
        FunctionDefLibrary,
        GraphDef,
        NodeDef,
        Nodes,
        RepeatedComposite,
        TensorShapeProto,
    )


_BRANCHES = {"If": ("then_branch", "else_branch"), "StatelessIf": ("then_branch", "else_branch")}
_CASES = frozenset("Case StatelessCase".split())


Bound: TypeAlias = tuple["assignments.Variable | None", ...]
"""A variable or None for each argument of a function."""


class Lifted:
    """The result of `lift`: `graph_def` with `inputs` (variable -> placeholder) and `outputs` (variable -> tensor).

    `outputs` has the variables that the graph changes; `resolve` gives the replacement of a tensor of the former graph.
    `unchanged` are the nodes that a lenient lift left as they were, with a variable of each.
    """

    def __init__(
        self,
        graph_def: GraphDef,
        inputs: dict[str, str],
        body: _Body,
        unchanged: list[tuple[NodeDef, assignments.Variable]],
    ) -> None:
        self.unchanged = unchanged
        self.graph_def = graph_def
        self.inputs = inputs
        self.outputs = {key: body.values[key] for key in body.updated}
        self.resolve = body.resolve


def lift(graph_def: GraphDef, variables: Mapping[str, assignments.Variable], *, is_lenient: bool = False) -> Lifted:
    """`graph_def` (as in reached.Reached) with the lifted `variables` (by node) as inputs.

    Raises ModelFault for uses of variables that are neither reading nor assigning. If it `is_lenient`, these are left
    unchanged, and the result only tells which variables are changed.
    """
    made = graph_pb2.GraphDef(versions=graph_def.versions)
    made.library.CopyFrom(graph_def.library)
    library = {function.signature.name: function for function in graph_def.library.function}
    functions = _Functions(library, made.library, is_lenient)
    taken = {node.name for node in graph_def.node} | set(variables)
    nodes = assignments.Nodes([], taken, in_function=False)
    places = {key: nodes.free(f"state/{key}") for key, each in variables.items() if each.is_lifted}
    body = _Body(functions, nodes, {f"{key}:0": each for key, each in variables.items()})
    body.values.update({key: f"{name}:0" for key, name in places.items()})
    body.run(graph_def.node)
    for key, name in places.items():
        made.node.append(_placeholder(name, variables[key]))
    made.node.extend(nodes.target)
    return Lifted(made, places, body, functions.unchanged)


def _placeholder(name: str, variable: assignments.Variable) -> NodeDef:
    node = node_def_pb2.NodeDef(name=name, op="Placeholder")
    node.attr["dtype"].type = variable.dtype
    node.attr["shape"].shape.CopyFrom(tensor_shape.TensorShape(variable.shape).as_proto())
    return node


class _Functions:
    """Functions that take values instead of variables."""

    def __init__(self, library: Mapping[str, FunctionDef], target: FunctionDefLibrary, is_lenient: bool) -> None:
        self.library, self._target, self.is_lenient = library, target, is_lenient
        self.unchanged: list[tuple[NodeDef, assignments.Variable]] = []
        self._bodies: dict[tuple[str, Bound], _Body] = {}
        self._made: dict[tuple[str, Bound, tuple[str, ...], bool], str] = {}

    def updated(self, name: str, bound: Bound) -> list[str]:
        """The variables that the function `name` changes; `bound` has a variable or None for each argument."""
        return self._body(name, bound).updated

    def made(self, name: str, bound: Bound, given: tuple[str, ...], carries: bool = False) -> str:
        """A function that returns the next values of `given` (keys) as further results.

        If it `carries`, results that were variables become their next values.
        """
        key = (name, bound, given, carries)
        if key not in self._made:
            self._made[key] = self._write(name, bound, given, carries)
        return self._made[key]

    def _body(self, name: str, bound: Bound) -> _Body:
        if (name, bound) not in self._bodies:
            function = self.library[name]
            arguments = [each.name for each in function.signature.input_arg]
            taken = {node.name for node in function.node_def} | set(arguments)
            body = _Body(
                self,
                assignments.Nodes([], taken, in_function=True),
                {text: each for text, each in zip(arguments, bound, strict=True) if each is not None},
            )
            # A variable that is passed as two arguments has the same value in both.
            body.values.update(
                {each.key: text for text, each in zip(arguments, bound, strict=True) if each and each.is_lifted}
            )
            body.run(function.node_def)
            self._bodies[name, bound] = body
        return self._bodies[name, bound]

    def _write(self, name: str, bound: Bound, given: tuple[str, ...], carries: bool) -> str:
        source, body = self.library[name], self._body(name, bound)
        made = self._target.function.add()
        made.CopyFrom(source)
        made.signature.name = self._free(name)
        del made.node_def[:]
        made.node_def.extend(body.nodes.target)
        for index, (argument, variable) in enumerate(zip(made.signature.input_arg, bound, strict=True)):
            if variable is not None and variable.is_lifted:
                argument.type = variable.dtype
                # It describes the variable of a handle, and would contradict the type of a value.
                argument.ClearField("handle_data")
                made.arg_attr.pop(index, None)
                made.resource_arg_unique_id.pop(index, None)
        for output in made.signature.output_arg:
            text = source.ret[output.name]
            variable = body.handles.get(text)
            if variable is None or not variable.is_lifted:
                made.ret[output.name] = body.resolve(text)
            elif carries or self.is_lenient:
                output.type = variable.dtype
                output.ClearField("handle_data")
                made.ret[output.name] = body.values[variable.key]
            else:
                raise ModelFault(
                    f"the function {name!r} returns the variable {variable.name!r} as its result",
                    "let functions return values of variables instead of variables",
                )
        taken = {each.name for each in (*made.signature.input_arg, *made.signature.output_arg)}
        dtypes = {each.key: each.dtype for each in bound if each is not None}
        for number, key in enumerate(given):
            added = made.signature.output_arg.add(name=free(f"updated_{number}", taken), type=dtypes[key])
            made.ret[added.name] = body.values[key]
        return str(made.signature.name)

    def _free(self, wanted: str) -> str:
        return free(f"{wanted}_stateless", {each.signature.name for each in self._target.function})


class _Body:
    """The nodes of a graph or function, rewritten one after the other.

    `handles` are the tensors that are variables; `values` the current value of each lifted variable by its key;
    `updated` the keys of assigned variables, in order.
    """

    def __init__(
        self, functions: _Functions, nodes: assignments.Nodes, handles: dict[str, assignments.Variable]
    ) -> None:
        self._functions = functions
        self.nodes = nodes
        self.handles = handles
        self.values: dict[str, str] = {}
        self.updated: list[str] = []
        self._renamed: dict[str, str] = {}

    def run(self, nodes: Nodes) -> None:
        # The order matters: a read between two assignments sees the value of the first.
        for node in _in_order(nodes):
            self._rewrite(node)

    def resolve(self, text: str) -> str:
        """The replacement of a tensor (or a control input) of the former graph."""
        if text.startswith("^"):
            return text
        # The value of a variable may be another variable's former value, but never a tensor that is replaced again.
        return self._renamed.get(self._canonical(text), text)

    def _canonical(self, text: str) -> str:
        return text if self.nodes.in_function else tensor_name(text)

    def _rewrite(self, node: NodeDef) -> None:
        inputs = data_inputs(node)
        variables = [self.handles.get(self._canonical(text)) for text in inputs]
        if not any(variables):
            self._copy(node)
            return
        self.nodes.hint = node.name
        if node.op in ("Identity", "IdentityN") and len(inputs) == 1 and variables[0] is not None:
            self._pass_on(node, variables[0])
        elif node.op in CALLS:
            self._call(node, variables)
        elif node.op in _BRANCHES or node.op in _CASES:
            self._branch(node, variables)
        elif node.op in LOOPS:
            self._loop(node, variables)
        else:
            self._use(node, inputs, variables)

    def _copy(self, node: NodeDef) -> NodeDef:
        made = self.nodes.copy(node)
        made.input[:] = [self.resolve(text) for text in node.input]
        return made

    def _pass_on(self, node: NodeDef, variable: assignments.Variable) -> None:
        self.handles[self.nodes.result(node.name, "output")] = variable
        if variable.is_lifted:
            self.nodes.waiting(node)
        else:
            self._copy(node)

    def _use(self, node: NodeDef, inputs: list[str], variables: Sequence[assignments.Variable | None]) -> None:
        tensors = [
            self.values[each.key] if each is not None and each.is_lifted else self.resolve(text)
            for text, each in zip(inputs, variables, strict=True)
        ]
        lifted = {place: each for place, each in enumerate(variables) if each is not None and each.is_lifted}
        written = assignments.WRITTEN.get(node.op, ())
        if not lifted:
            self._copy(node)
        elif written and lifted.keys() >= {*written}:
            for place, text in assignments.written(self.nodes, node, tensors, lifted[written[0]]).items():
                self._update(lifted[place].key, text)
            if node.op in assignments.GIVES_FORMER:
                self._replace(node, tensors[0])
            self.nodes.waiting(node)
        elif variables[0] is not None and node.op in assignments.READ:
            self._replace(node, assignments.read(self.nodes, node, tensors, variables[0]))
            self.nodes.waiting(node)
        else:
            self._keep_unchanged(node, next(iter(lifted.values())))

    def _replace(self, node: NodeDef, text: str) -> None:
        """Use the tensor `text` in place of the result of `node`."""
        self._renamed[self.nodes.result(node.name, _result_name(node.op))] = text

    def _keep_unchanged(self, node: NodeDef, variable: assignments.Variable) -> None:
        """Keep an operation on a variable that no tensors replace. Raises ModelFault unless this is allowed."""
        if not self._functions.is_lenient:
            assignments.refuse(node, variable)
        self._functions.unchanged.append((node, variable))
        self._copy(node)

    def _update(self, key: str, text: str) -> None:
        self.values[key] = text
        if key not in self.updated:
            self.updated.append(key)

    def _with_values(
        self, made: NodeDef, variables: Sequence[assignments.Variable | None], kinds: AttrValue, offset: int
    ) -> None:
        """Make the call `made` take values instead of variables; `kinds` are the types of its arguments."""
        for index, variable in enumerate(variables):
            if variable is not None and variable.is_lifted:
                made.input[index] = self.values[variable.key]
                if index >= offset:
                    kinds.list.type[index - offset] = variable.dtype

    def _call(self, node: NodeDef, variables: Sequence[assignments.Variable | None]) -> None:
        bound, name = tuple(variables), node.attr["f"].func.name
        given = tuple(self._functions.updated(name, bound))
        made = self._copy(node)
        made.attr["f"].func.name = self._functions.made(name, bound, given)
        self._with_values(made, variables, made.attr["Tin"], 0)
        self._take_results(made, given, variables)

    def _branch(self, node: NodeDef, variables: Sequence[assignments.Variable | None]) -> None:
        bound = tuple(variables[1:])
        keys = _BRANCHES.get(node.op, ())
        made = self._copy(node)
        called = [made.attr[key].func for key in keys] or list(made.attr["branches"].list.func)
        # All branches return the same results: one that does not change a variable returns the value that it was given.
        given = tuple(dict.fromkeys(key for each in called for key in self._functions.updated(each.name, bound)))
        for each in called:
            each.name = self._functions.made(each.name, bound, given)
        self._with_values(made, variables, made.attr["Tin"], 1)
        shapes = {each.key: each.shape for each in bound if each is not None}
        if _known_shapes(made):
            for key in given:
                made.attr["output_shapes"].list.shape.add().CopyFrom(_shape(shapes[key]))
        self._take_results(made, given, variables)

    def _take_results(
        self, made: NodeDef, given: tuple[str, ...], variables: Sequence[assignments.Variable | None]
    ) -> None:
        """Make the last results of the call `made` the next values of `given`."""
        dtypes = {each.key: each.dtype for each in variables if each is not None}
        for key in given:
            place = len(made.attr["Tout"].list.type)
            made.attr["Tout"].list.type.append(dtypes[key])
            self._update(key, self.nodes.result(made.name, "output", place, place))

    def _loop(self, node: NodeDef, variables: Sequence[assignments.Variable | None]) -> None:
        bound = tuple(variables)
        body, condition = node.attr["body"].func.name, node.attr["cond"].func.name
        # A condition runs once more than the body, so its assignments cannot be results of an iteration.
        if changed := self._functions.updated(condition, bound):
            names = {each.key: each.name for each in variables if each is not None}
            raise ModelFault(
                f"the condition of the loop {node.name!r} changes the variable {names[changed[0]]!r}",
                "change variables in the body of the loop alone",
            )
        updated = self._functions.updated(body, bound)
        made = self._copy(node)
        # A body returns as many values as it takes, so a new value has the place of the old one.
        made.attr["body"].func.name = self._functions.made(body, bound, (), carries=True)
        made.attr["cond"].func.name = self._functions.made(condition, bound, ())
        self._with_values(made, variables, made.attr["T"], 0)
        for place, variable in enumerate(variables):
            if variable is None:
                continue
            text = self.nodes.result(made.name, "output", place, place)
            self.handles[text] = variable
            if not variable.is_lifted:
                continue
            if place < len(_known_shapes(made)):
                made.attr["output_shapes"].list.shape[place].CopyFrom(_shape(variable.shape))
            if variable.key in updated:
                self._update(variable.key, text)


def _known_shapes(node: NodeDef) -> RepeatedComposite[TensorShapeProto] | tuple[()]:
    # Reading an attribute that is not there would add an empty one, which TensorFlow rejects.
    return node.attr["output_shapes"].list.shape if "output_shapes" in node.attr else ()


def _shape(sizes: Sequence[int | None]) -> TensorShapeProto:
    made: TensorShapeProto = tensor_shape.TensorShape(sizes).as_proto()
    return made


def _result_name(op: str) -> str:
    return str(op_def_registry.get(op).output_arg[0].name)


def _in_order(nodes: Nodes) -> list[NodeDef]:
    """`nodes` in topological order of data and control edges; loops of TensorFlow 1 begin at Merge."""
    by_name = {node.name: node for node in nodes}
    before = {
        node.name: [
            name
            for name in map(node_name, node.input)
            if name in by_name and by_name[name].op not in ("NextIteration", "RefNextIteration")
        ]
        for node in nodes
    }
    try:
        return [by_name[name] for name in graphlib.TopologicalSorter(before).static_order()]
    except graphlib.CycleError as error:
        raise ModelFault(f"the graph is damaged: the node {error.args[1][0]!r} needs itself") from error
