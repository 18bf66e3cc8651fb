"""A model in the forms of TensorFlow and XLA: HLO, StableHLO, the `tf` dialect of MLIR, a GraphDef.

`translate` writes a frozen graph, with its weights as arguments after the inputs, so that the text stays short.
`convert` writes a signature, with its variables as constants.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import signatures
import specialize
import tensorflow as tf
import uncompiled
from google.protobuf import text_format
from messages.conversions import Convert
from messages.requests import ModelFault, Nothing, Translate, one_line
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import convert_to_constants

if TYPE_CHECKING:
    from framework_types import ConcreteFunction, GraphDef, Report
    from messages.graph import Feed, Fetch, Weight


_SOURCE = re.compile(r' (source_file="[^"]*"|(source|stack)_(end_)?(line|column|frame_id)=[0-9]+)')
_PLACE = re.compile(r" loc(?=\()")
# Names of files are quoted, and may contain parentheses.
_IN_PLACE = re.compile(r'"(?:[^"\\]|\\.)*"|[()]')
_TO_STABLEHLO = "tf-lower-to-mlprogram-and-hlo"


Feeds: TypeAlias = "list[Feed | Weight]"
"""The inputs of a graph, and then its weights."""


def translate(request: Translate, report: Report) -> Nothing:
    """Write the graph for one batch size in another form; ModelFault if the toolchain cannot write that form."""
    graph = graph_pb2.GraphDef()
    feeds: Feeds = [*request.inputs, *request.weights]
    with open(request.graph, "rb") as file:
        graph.ParseFromString(file.read())
    # As hlo.py does before it lowers a graph: what the compiler sees is shown.
    graph = specialize.at_batch_size(graph, feeds, request.batch_size)
    graph = specialize.folded(graph, feeds, request.outputs)
    try:
        text = _FORMS[request.form](_function(graph, feeds, request.outputs), feeds, request.batch_size)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise uncompiled.fault(graph, request.batch_size, str(error)) from error
    with open(request.out, "w", encoding="utf-8") as file:
        file.write(text if text.endswith("\n") else text + "\n")
    return Nothing()


def _function(graph: GraphDef, feeds: Feeds, outputs: Sequence[Fetch]) -> ConcreteFunction:
    """The function of TensorFlow that computes `outputs` of `graph`."""
    whole = tf.compat.v1.wrap_function(lambda: tf.graph_util.import_graph_def(graph, name=""), [])
    # Without the placeholders of the wrapped graph, which XLA cannot compile.
    return whole.prune([f"{feed.node}:0" for feed in feeds], [f"{out.node}:{out.index}" for out in outputs])


def _compiler_ir(function: ConcreteFunction, feeds: Feeds, batch_size: int, stage: str) -> str:
    specs = [tf.TensorSpec(specialize.sized(feed, batch_size, {}), feed.dtype) for feed in feeds]

    def compute(*values: tf.Tensor) -> Any:
        return function(*values)

    compiled = tf.function(compute, input_signature=specs, jit_compile=True, autograph=False)
    return str(compiled.experimental_get_compiler_ir(*specs)(stage=stage))


def _hlo(function: ConcreteFunction, feeds: Feeds, batch_size: int) -> str:
    # The paths of TensorFlow's Python files on this machine say nothing about the model.
    return _SOURCE.sub("", _compiler_ir(function, feeds, batch_size, "hlo"))


def _stablehlo(function: ConcreteFunction, feeds: Feeds, batch_size: int) -> str:
    """From XLA's bridge, or, in releases before 2.21, whose bridge does not write it, by TensorFlow's own passes."""
    try:
        return _without_places(_compiler_ir(function, feeds, batch_size, "stablehlo"))
    except ValueError as error:
        if "Invalid stage" not in str(error):
            raise
    try:
        return str(tf.mlir.experimental.run_pass_pipeline(_mlir(function, feeds, batch_size), _TO_STABLEHLO))
    except tf.errors.OpError as error:
        reason = next(iter(str(error).strip().splitlines()), "")
        raise ModelFault(
            f"TensorFlow {tf.__version__} cannot write this model as StableHLO: {reason}",
            "choose 2.21.0 (compilation.tensorflow), or look at the HLO: --what hlo",
        ) from error


def _without_places(text: str) -> str:
    """`text` without the Python source locations of its instructions."""
    return "".join(_without_places_in(line) for line in text.splitlines(keepends=True) if not line.startswith("#loc"))


def _without_places_in(line: str) -> str:
    """`line` without its `loc(...)`, which may be nested."""
    while found := _PLACE.search(line):
        depth, end = 0, len(line)
        for part in _IN_PLACE.finditer(line, found.end()):
            depth += {"(": 1, ")": -1}.get(part.group(), 0)
            if depth == 0:
                end = part.end()
                break
        line = line[: found.start()] + line[end:]
    return line


def _mlir(function: ConcreteFunction, feeds: Feeds, batch_size: int) -> str:
    return str(tf.mlir.experimental.convert_function(function))


_FORMS = {"hlo": _hlo, "stablehlo": _stablehlo, "mlir-tf": _mlir}


_ENTRY = re.compile(r"tf\.entry_function = \{[^{}]*\}")
_PIPELINE = "tf-standard-pipeline,inline,symbol-dce"
"""Turns graphs with control edges into functions of plain operations, inlines calls, and folds constants."""


def convert(request: Convert, report: Report) -> Nothing:
    """Write the signature in another form, with its names of inputs and outputs; ModelFault if TensorFlow cannot."""
    signature = signatures.load_signature(request.folder, request.tags, request.signature)
    # The function's captured variables follow its inputs.
    specs = [
        tf.TensorSpec(tensor.shape, tensor.dtype, name=name)
        for name, tensor in zip(signature.inputs, signature.function.inputs, strict=False)
    ]

    def serve(*values: tf.Tensor) -> list[tf.Tensor]:
        results = signature(**dict(zip(signature.inputs, values, strict=True)))
        return [tf.identity(results[name], name=name) for name in signature.outputs]

    try:
        # If and While stay: lowered, they would be the Switch and Merge of TensorFlow 1.
        frozen = convert_to_constants.convert_variables_to_constants_v2(
            tf.function(serve, input_signature=specs, autograph=False).get_concrete_function(), lower_control_flow=False
        )
        content = _as_mlir(frozen, signature) if request.form == "mlir" else _as_graph(frozen, request.form)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ModelFault(f"TensorFlow cannot write the model as {request.form}: {one_line(error)}") from error
    with open(request.out, "wb") as file:
        file.write(content)
    return Nothing()


def _as_graph(frozen: ConcreteFunction, form: str) -> bytes:
    graph = frozen.graph.as_graph_def()
    text: str = text_format.MessageToString(graph) if form == "graph_text" else ""
    result: bytes = text.encode() or graph.SerializeToString(deterministic=True)
    return result


def _as_mlir(frozen: ConcreteFunction, signature: signatures.LoadedSignature) -> bytes:
    text = tf.mlir.experimental.convert_function(frozen, pass_pipeline=_PIPELINE)
    # TensorFlow's importer reads names of inputs and outputs from this attribute.
    names = {"inputs": ",".join(signature.inputs), "outputs": ",".join(signature.outputs)}
    entry = ", ".join(f"{key} = {json.dumps(value)}" for key, value in names.items())
    # The first function is the model; TensorFlow names its outputs after nodes.
    return _ENTRY.sub(lambda _: f"tf.entry_function = {{{entry}}}", text, count=1).encode()
