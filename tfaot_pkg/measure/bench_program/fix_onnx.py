"""Give an ONNX file fixed sizes and the names that engines here expect, one file per batch size. The rest stays.

    PYTHON fix_onnx.py < REQUEST.json      in a Python that has ONNX

The request is `messages.Fixing`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # the sandbox starts this file alone

import messages


def main() -> None:
    import onnx

    request = messages.Fixing.of(json.load(sys.stdin))
    for size, file in request.files.items():
        model = onnx.load(request.model) if request.model else identity(onnx)
        fix(onnx, model, request, int(size))
        onnx.save(model, file)


def identity(onnx):
    """A model that returns one float: the time of a run is the cost of a call."""
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = onnx.helper.make_graph([onnx.helper.make_node("Identity", ["x"], ["y"])], "identity", [x], [y])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def fix(onnx, model, request: messages.Fixing, size: int) -> None:
    """Inputs become input_0:0, ..., outputs output_0:0, ..., all of known sizes."""
    graph = model.graph
    initialized = {tensor.name for tensor in graph.initializer}
    given = {value.name: value for value in graph.input if value.name not in initialized}
    inputs = [given[key] for key in request.inputs]
    for value, shape in zip(inputs, request.inputs.values(), strict=True):
        for axis, length in zip(value.type.tensor_type.shape.dim, shape, strict=True):
            axis.dim_value = size if length is None else length
    kept = named_outputs(graph, request)
    names = wanted_names(onnx, graph, request)
    del graph.output[:], graph.value_info[:]
    graph.output.extend(kept)
    rename(graph, names)
    inputs += [value for value in graph.input if value.name in initialized]
    for value in inputs:
        value.name = names.get(value.name, value.name)
    copies = [type(value).FromString(value.SerializeToString()) for value in inputs]
    del graph.input[:]
    graph.input.extend(copies)


def wanted_names(onnx, graph, request: messages.Fixing) -> dict:
    """The new names of inputs, and of outputs that a node computes; other outputs become copies, which are added."""
    names = {key: f"input_{place}:0" for place, key in enumerate(request.inputs)}
    made = {name for node in graph.node for name in node.output}
    for place, key in enumerate(request.outputs):
        wanted = f"output_{place}:0"
        if key in made and key not in names:
            names[key] = wanted
        else:  # an input or a constant that is an output too cannot have two names
            graph.node.append(onnx.helper.make_node("Identity", [key], [wanted]))
    return names


def named_outputs(graph, request: messages.Fixing) -> list:
    """The wanted outputs, in order, with their new names and without sizes."""
    outputs = {value.name: value for value in graph.output}
    kept = [outputs[key] for key in request.outputs]
    for place, value in enumerate(kept):
        value.name = f"output_{place}:0"
        value.type.tensor_type.ClearField("shape")
    return kept


def rename(graph, names: dict) -> None:
    """Names that nodes use, also those in branches and bodies of loops."""
    for node in graph.node:
        for each in (node.input, node.output):
            each[:] = [names.get(name, name) for name in each]
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                rename(inner, names)
                for value in inner.output:
                    value.name = names.get(value.name, value.name)


if __name__ == "__main__":
    main()
