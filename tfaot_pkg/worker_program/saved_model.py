"""Read a SavedModel from disk, and report its faults."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import interface
import saved_functions
from messages.conversions import Join, Rename
from messages.graph import Inspect, Inspected, Interface, Tensor
from messages.requests import ModelFault, Nothing
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import dtypes, tensor_shape

if TYPE_CHECKING:
    from framework_types import MetaGraphDef, Report, SavedModel, SignatureDef, TensorInfo
    from messages.graph import Shape


_CHOICE = "set model.serving_key, or choose one with --signature"


def inspect(request: Inspect, report: Report) -> Inspected:
    """The signatures and functions of the SavedModel, without loading it."""
    graph = meta_graph(read(request.folder), request.tags)
    names = signature_names(graph) or saved_functions.names(graph)
    definitions = {name: require_signature(graph, name) for name in names}
    if request.signature in definitions:
        require_dtypes(definitions[request.signature])
    return Inspected(
        signatures={
            name: Interface(inputs=tensors_of(definition.inputs), outputs=tensors_of(definition.outputs))
            for name, definition in definitions.items()
        }
    )


def rename(request: Rename, report: Report) -> Nothing:
    """Write the SavedModel with other names; ModelFault if the signature does not have the names of the request."""
    model = read(request.folder)
    signature = require_signature(meta_graph(model, request.tags), request.signature)
    for kind, infos in (("inputs", signature.inputs), ("outputs", signature.outputs)):
        if not (names := getattr(request, kind)):
            continue
        interface.in_order(kind, tensors_of(infos), tuple(names))
        kept = {names[name]: infos[name].SerializeToString() for name in names}
        # All at once: two names may be swapped.
        infos.clear()
        for name, info in kept.items():
            infos[name].ParseFromString(info)
    with open(request.out, "wb") as file:
        file.write(model.SerializeToString())
    return Nothing()


def join(request: Join, report: Report) -> Nothing:
    """Write the SavedModel with one signature for several; ModelFault if two of them read the same tensor as input."""
    model = read(request.folder)
    graph = meta_graph(model, request.tags)
    parts = [(part, require_signature(graph, part.key)) for part in request.parts]
    made = graph.signature_def[request.signature]
    readers: dict[str, str] = {}
    made.method_name = "tensorflow/serving/predict"
    for part, signature in parts:
        for kind, infos in (("inputs", signature.inputs), ("outputs", signature.outputs)):
            names = getattr(part, kind) or {name: name for name in infos}
            interface.in_order(kind, tensors_of(infos), tuple(names))
            for name, new in names.items():
                getattr(made, kind)[f"{part.name}/{new}"].CopyFrom(infos[name])
        for name, info in sorted(signature.inputs.items()):
            if (other := readers.setdefault(info.name, part.name)) != part.name:
                raise ModelFault(
                    f"the signatures {other!r} and {part.name!r} read the same placeholder {info.name!r} "
                    f"(input {name!r}), and a package cannot call one of them alone",
                    "export each signature from a function of its own, or make a package of each",
                )
    with open(request.out, "wb") as file:
        file.write(model.SerializeToString())
    return Nothing()


def require_dtypes(signature: SignatureDef) -> None:
    """Raise ModelFault if a compiled library cannot have the dtype of an input or output."""
    for kind, infos in (("input", signature.inputs), ("output", signature.outputs)):
        for tensor in tensors_of(infos):
            interface.require_dtype(kind, tensor.name, tensor.dtype)


def tensors_of(infos: Mapping[str, TensorInfo]) -> tuple[Tensor, ...]:
    """The tensors of TensorInfo by name, sorted by name."""
    return tuple(
        Tensor(
            name=name,
            dtype=dtypes.as_dtype(info.dtype).name,
            shape=sizes_of(tensor_shape.TensorShape(info.tensor_shape)),
        )
        for name, info in sorted(infos.items())
    )


def sizes_of(shape: tensor_shape.TensorShape) -> Shape | None:
    """The sizes of a TensorShape, None for unknown ones; None for an unknown rank."""
    return None if shape.rank is None else tuple(shape.as_list())


def read(folder: str) -> SavedModel:
    """The parsed `saved_model.pb` of `folder`; ModelFault if it is missing, truncated or has no graph."""
    from google.protobuf.message import DecodeError

    path = os.path.join(folder, "saved_model.pb")
    if not os.path.isdir(folder):
        raise ModelFault(f"no SavedModel folder at {folder}", "name the folder that contains saved_model.pb")
    # A broken link is not missing: `require_inside` reports it.
    if not os.path.lexists(path):
        found = ", ".join(sorted(os.listdir(folder))[:8]) or "nothing"
        raise ModelFault(f"{folder} is not a SavedModel: saved_model.pb is missing (found {found})")
    require_inside(folder, path)
    model = saved_model_pb2.SavedModel()
    try:
        with open(path, "rb") as file:
            model.ParseFromString(file.read())
    except DecodeError as error:
        raise ModelFault(f"{path} is damaged: it is not a SavedModel protobuf", "copy or export it again") from error
    if not model.meta_graphs:
        raise ModelFault(f"{path} is damaged or empty: it has no graph", "copy or export it again")
    return model


def meta_graph(model: SavedModel, tags: Sequence[str]) -> MetaGraphDef:
    """The graph of `model` with exactly these tags; ModelFault that lists the existing ones."""
    for graph in model.meta_graphs:
        # Exactly these: another graph of the file may have them and more.
        if set(graph.meta_info_def.tags) == set(tags):
            return graph
    existing = "; ".join(", ".join(graph.meta_info_def.tags) or "(none)" for graph in model.meta_graphs)
    raise ModelFault(f"the SavedModel has no graph with tags {', '.join(tags)}; it has: {existing}", "set model.tags")


def signature_names(graph: MetaGraphDef) -> list[str]:
    """Signatures that a caller can use, without TensorFlow's own (`__saved_model_init_op`)."""
    return sorted(name for name, signature in graph.signature_def.items() if signature.outputs and name[:2] != "__")


def require_signature(graph: MetaGraphDef, name: str) -> SignatureDef:
    """The signature `name`, or one made for the function of that name; ModelFault that lists the existing ones."""
    names = signature_names(graph)
    if name not in names:
        functions = saved_functions.names(graph)
        if name not in functions:
            listing = ", ".join(names) or "none"
            called = f"; functions that can be called: {', '.join(functions)}" if functions else ""
            raise ModelFault(f"the SavedModel has no signature {name!r}; it has: {listing}{called}", _CHOICE)
        saved_functions.add_signature(graph, name)
    return graph.signature_def[name]


def require_inside(folder: str, path: str) -> None:
    """Raise ModelFault if `path`, below the model's `folder`, is not a plain file, or is a link out of the folder."""
    real = os.path.realpath(path)
    if os.path.commonpath([real, os.path.realpath(folder)]) != os.path.realpath(folder):
        raise ModelFault(f"{path} is a link that leads out of the model's folder", "put the file itself in its place")
    if not os.path.isfile(real):
        raise ModelFault(f"{path} is not a plain file", "remove it, or copy the model again")
