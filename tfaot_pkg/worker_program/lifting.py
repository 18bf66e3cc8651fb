"""Variables that stay variables: a SavedModel whose signature takes their values and returns the new ones.

All later stages see a model without state. The original signature stays in the file under another name: its answers,
step by step, are compared with the library's.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Mapping, MutableMapping
from dataclasses import replace
from typing import TYPE_CHECKING

import assignments
import checkpoint
import interface
import operations
import reachability
import saved_model
import stateless
from messages.conversions import Lift, Lifted, StateTensor
from messages.requests import ModelFault
from tensorflow.python.framework import dtypes, tensor_shape
from wiring import free

if TYPE_CHECKING:
    from framework_types import Array, GraphDef, MetaGraphDef, NodeDef, Report, TensorInfo


STATE, NEW_STATE = "state/", "new_state/"
"""Prefixes of the names of inputs and outputs that are state."""
_ALIGNMENT = 64  # bytes, of values in the file of initial values
_WRITERS = ("ResourceApply", "ResourceScatter", "ResourceSparse", "ResourceStrided")
_WILD = "*?["
_SHOWN = 12


def with_variables(signature: str) -> str:
    """The name of the original signature, with variables."""
    return f"{signature} with variables"


def lift(request: Lift, report: Report) -> Lifted:
    """Write the SavedModel with the lifted signature, and the trained values of its state."""
    model = saved_model.read(request.folder)
    graph = saved_model.meta_graph(model, request.tags)
    signature = saved_model.require_signature(graph, request.signature)
    found = reachability.reached_by(graph, request.signature, signature)
    operations.require_none(found.faults)
    variables = variables_of(found.variables, graph.graph_def)
    # First lift all variables, leniently: only this tells which of them the signature changes.
    tried = stateless.lift(found.graph_def, variables, is_lenient=True)
    changed = list(tried.outputs)
    for node, variable in tried.unchanged:
        if node.op.startswith(_WRITERS):  # a variable that only these change is not among the changed ones
            assignments.refuse(node, variable)
    chosen = _chosen(request, variables, changed)
    values = checkpoint.values_of(request.folder, graph, {key: found.variables[key] for key in chosen})
    if none := [key for key in chosen if 0 in values[key].shape]:
        raise ModelFault(
            f"the variable {variables[none[0]].name!r} has an axis of size 0: {list(values[none[0]].shape)}",
            "state has fixed shapes: give the variable its largest one, and count the rows that are used",
        )
    lifted = stateless.lift(
        found.graph_def,
        {key: replace(each, is_lifted=key in chosen) for key, each in _shaped(variables, values).items()},
    )
    state = _add(graph, request.signature, found, lifted, {key: variables[key].name for key in chosen})
    with open(request.out, "wb") as file:
        file.write(model.SerializeToString())
    return Lifted(state=_written(state, values, request.values))


def variables_of(nodes: Mapping[str, NodeDef], graph_def: GraphDef) -> dict[str, assignments.Variable]:
    """The variables of the signature by node, under names that users recognize: those given in Python, if unique."""
    others = {node.name for node in graph_def.node if node.op in operations.VARIABLES} - set(nodes)
    shared = {key: _name_in_python(node, others) for key, node in sorted(nodes.items())}
    names = list(shared.values())
    return {
        key: assignments.Variable(
            key=key,
            name=name if name and names.count(name) == 1 else key,
            dtype=nodes[key].attr["dtype"].type,
            shape=saved_model.sizes_of(tensor_shape.TensorShape(nodes[key].attr["shape"].shape)) or (),
        )
        for key, name in shared.items()
    }


def _name_in_python(node: NodeDef, others: set[str]) -> str:
    """The name of a variable, without the number that an export appended if its name was taken."""
    name = node.attr["shared_name"].s.decode("utf-8", "replace") or node.name
    # TensorFlow numbers variables of the same name when it exports.
    plain = re.sub(r"_[0-9]+$", "", name)
    return plain if plain in others else name


def _shaped(
    variables: Mapping[str, assignments.Variable], values: Mapping[str, Array]
) -> dict[str, assignments.Variable]:
    """`variables` with the shapes of their values: a variable of unknown shape gets that of its trained value."""
    return {
        key: replace(each, shape=tuple(values[key].shape)) if key in values else each for key, each in variables.items()
    }


def _chosen(request: Lift, variables: Mapping[str, assignments.Variable], changed: list[str]) -> list[str]:
    """The variables (nodes) to lift, sorted by name; ModelFault if `update` does not name those that are `changed`."""
    names = {each.name: key for key, each in variables.items()}
    faults = [
        f"{text!r} is not a variable of the signature{interface.nearest(text, names)}"
        for text in (*request.read, *request.update)
        if not _matching(text, names)
    ]
    update = {names[name] for text in request.update for name in _matching(text, names)}
    faults += [
        f"{text!r} is under update, but the signature never changes it: list it under read"
        for text in request.update
        if text in names and names[text] not in changed
    ]
    faults += [
        f"{variables[key].name!r} is changed by the signature: list it under update"
        for key in changed
        if key not in update
    ]
    if faults:
        listing = [f"  {_told(each, each.key in changed)}" for each in list(variables.values())[:_SHOWN]]
        more = [f"  and {len(variables) - _SHOWN} more"] if len(variables) > _SHOWN else []
        raise ModelFault(
            "compilation.variables does not fit the model:\n" + "\n".join(f"  {fault}" for fault in faults[:_SHOWN]),
            "\n".join(["the variables of the signature are:", *listing, *more]),
        )
    read = {names[name] for text in request.read for name in _matching(text, names)}
    # A pattern under `update`, such as "*", may match variables that are never changed: these stay constants.
    return sorted({*(key for key in update if key in changed), *read}, key=lambda key: variables[key].name)


def _matching(text: str, names: Collection[str]) -> list[str]:
    """The names that equal `text`, or match it if it has *, ? or [."""
    if text in names:
        return [text]
    return [name for name in names if fnmatch.fnmatchcase(name, text)] if any(c in text for c in _WILD) else []


def _told(variable: assignments.Variable, is_changed: bool) -> str:
    how = "changed" if is_changed else "read"
    return f"{variable.name}: {dtypes.as_dtype(variable.dtype).name}{list(variable.shape)}, {how}"


def _add(
    graph: MetaGraphDef, name: str, found: reachability.Reached, lifted: stateless.Lifted, names: Mapping[str, str]
) -> list[tuple[str, str, str, str]]:
    """Make the lifted one the signature `name` of `graph`; return [(key, input, output)] of its state."""
    taken = {node.name for node in graph.graph_def.node}
    # Beside the original nodes: the original signature must still run.
    new = {node.name: free(node.name, taken) for node in lifted.graph_def.node}

    def moved(text: str) -> str:
        wait, plain = ("^", text[1:]) if text.startswith("^") else ("", text)
        node, colon, index = plain.partition(":")
        return f"{wait}{new.get(node, node)}{colon}{index}"

    functions = {each.signature.name for each in graph.graph_def.library.function}
    for function in lifted.graph_def.library.function:
        if function.signature.name in functions:
            raise ModelFault(f"the model has two functions {function.signature.name!r}", "export the model again")
        graph.graph_def.library.function.add().CopyFrom(function)
    for node in lifted.graph_def.node:
        made = graph.graph_def.node.add()
        made.CopyFrom(node)
        made.name = new[node.name]
        made.input[:] = [moved(text) for text in node.input]
    former = graph.signature_def[name]
    graph.signature_def[with_variables(name)].CopyFrom(former)
    for key, info in former.outputs.items():
        info.name = moved(lifted.resolve(found.fetched[key]))
    state = []
    for key, shown in names.items():
        place = moved(f"{lifted.inputs[key]}:0")
        given = _tensor_info(former.inputs, f"{STATE}{shown}", place, found.variables[key], lifted, key)
        taken_out = ""
        if key in lifted.outputs:
            taken_out = f"{NEW_STATE}{shown}"
            _copy_info(former.outputs, taken_out, given, moved(lifted.outputs[key]))
        state.append((key, shown, f"{STATE}{shown}", taken_out))
    return state


def _tensor_info(
    infos: MutableMapping[str, TensorInfo], name: str, tensor: str, node: NodeDef, lifted: stateless.Lifted, key: str
) -> TensorInfo:
    if name in infos:
        raise ModelFault(
            f"the signature has an input {name!r} already", f"give it a name that does not begin with {STATE}"
        )
    placeholder = next(each for each in lifted.graph_def.node if each.name == lifted.inputs[key])
    infos[name].name = tensor
    infos[name].dtype = node.attr["dtype"].type
    infos[name].tensor_shape.CopyFrom(placeholder.attr["shape"].shape)
    return infos[name]


def _copy_info(infos: MutableMapping[str, TensorInfo], name: str, source: TensorInfo, tensor: str) -> None:
    if name in infos:
        raise ModelFault(
            f"the signature has an output {name!r} already", f"give it a name that does not begin with {NEW_STATE}"
        )
    infos[name].CopyFrom(source)
    infos[name].name = tensor


def _written(state: list[tuple[str, str, str, str]], values: Mapping[str, Array], path: str) -> tuple[StateTensor, ...]:
    """The state, whose values are written to the file at `path`, each at an aligned offset."""
    made = []
    with open(path, "wb") as file:
        for key, shown, given, taken in state:
            array = values[key]
            interface.require_dtype("variable", shown, array.dtype.name)
            # Libraries read values in place: aligned loads of AVX-512 need 64 bytes.
            file.write(bytes(-file.tell() % _ALIGNMENT))
            made.append(
                StateTensor(
                    name=shown,
                    dtype=array.dtype.name,
                    shape=tuple(array.shape),
                    input=given,
                    output=taken,
                    offset=file.tell(),
                )
            )
            file.write(array.tobytes())
    return tuple(made)
