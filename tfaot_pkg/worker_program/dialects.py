"""A model in the forms of TensorFlow and XLA: HLO, StableHLO, the `tf` dialect of MLIR, a GraphDef.

`translate` writes a frozen graph, with its weights as arguments after the inputs, so that the text stays short.
`convert` writes a signature, with its variables as constants.
"""

from __future__ import annotations

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
    from messages.graph import Feed, Fetch, Shape, Weight


_SOURCE = re.compile(r' (source_file="[^"]*"|(source|stack)_(end_)?(line|column|frame_id)=[0-9]+)')
_PLACE = re.compile(r" loc(?=\()")
# Names of files are quoted, and may contain parentheses.
_IN_PLACE = re.compile(r'"(?:[^"\\]|\\.)*"|[()]')
_OPEN = re.compile(r"tensor<[^<>]*\?[^>]*>")
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
        text = _FORMS[request.form](_function(graph, feeds, request.outputs), _specs(feeds, request.batch_size))
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


def _specs(feeds: Feeds, batch_size: int) -> list[tf.TensorSpec]:
    return [tf.TensorSpec(specialize.sized(feed, batch_size, {}), feed.dtype) for feed in feeds]


def _compiler_ir(function: ConcreteFunction, specs: Sequence[tf.TensorSpec], stage: str) -> str:
    def compute(*values: tf.Tensor) -> Any:
        return function(*values)

    compiled = tf.function(compute, input_signature=specs, jit_compile=True, autograph=False)
    return str(compiled.experimental_get_compiler_ir(*specs)(stage=stage))


def _hlo(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> str:
    # The paths of TensorFlow's Python files on this machine say nothing about the model.
    return _SOURCE.sub("", _compiler_ir(function, specs, "hlo"))


def _stablehlo(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> str:
    """From XLA's bridge, or, in releases before 2.21, whose bridge does not write it, by TensorFlow's own passes."""
    try:
        return _without_places(_compiler_ir(function, specs, "stablehlo"))
    except ValueError as error:
        if "Invalid stage" not in str(error):
            raise
    try:
        text = str(tf.mlir.experimental.run_pass_pipeline(_mlir(function, specs), _TO_STABLEHLO))
    except tf.errors.OpError as error:
        raise _no_stablehlo(next(iter(str(error).strip().splitlines()), "")) from error
    # These passes take the sizes within branches and loops from the graph, which was traced with others.
    if found := _OPEN.search(text):
        raise _no_stablehlo(f"sizes stay open in its branches or loops ({found[0]})")
    return text


def _no_stablehlo(reason: str) -> ModelFault:
    return ModelFault(
        f"TensorFlow {tf.__version__} cannot write this model as StableHLO: {reason}",
        "choose 2.21.0: --tensorflow 2.21.0, or compilation.tensorflow of the spec",
    )


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


def _mlir(function: ConcreteFunction, specs: Sequence[tf.TensorSpec]) -> str:
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
    if request.form == "stablehlo":
        fixed = [_fixed(spec, request.shapes.get(spec.name), request.batch_size) for spec in specs]
        if request.batch_size and all(
            spec.shape.rank is not None and spec.shape[:1].is_fully_defined() for spec in specs
        ):
            raise ModelFault("no input has an open first axis, which a batch size would set", "leave --batch out")
        specs = fixed

    def serve(*values: tf.Tensor) -> list[tf.Tensor]:
        results = signature(**dict(zip(signature.inputs, values, strict=True)))
        # In a graph the names are those of nodes, which may not have all that a signature's may.
        named = request.form in ("graph", "graph_text")
        return [tf.identity(results[name], name=name if named else None) for name in signature.outputs]

    try:
        # If and While stay: lowered, they would be the Switch and Merge of TensorFlow 1.
        frozen = convert_to_constants.convert_variables_to_constants_v2(
            tf.function(serve, input_signature=specs, autograph=False).get_concrete_function(), lower_control_flow=False
        )
        if request.form == "stablehlo":
            content = _as_stablehlo(frozen, specs, signature)
        else:
            content = _as_mlir(frozen, signature) if request.form == "mlir" else _as_graph(frozen, request.form)
    except (ValueError, TypeError, tf.errors.OpError) as error:
        raise ModelFault(f"TensorFlow cannot write the model as {request.form}: {one_line(error)}") from error
    with open(request.out, "wb") as file:
        file.write(content)
    return Nothing()


def _fixed(spec: tf.TensorSpec, shape: Shape | None, batch_size: int) -> tf.TensorSpec:
    """`spec` with the sizes of `shape` and the batch size. Raises ModelFault if a size stays open."""
    try:
        known = spec.shape if shape is None else spec.shape.merge_with(shape)
    except ValueError:
        raise ModelFault(
            f"input {spec.name} has the shape {spec.shape}, which {list(shape or ())} does not fit",
            "correct it in model.shapes of the spec",
        ) from None
    if known.rank is None:
        raise ModelFault(f"input {spec.name} has any number of axes", "give its shape: model.shapes of a spec")
    sizes = [batch_size or None if size is None and axis == 0 else size for axis, size in enumerate(known)]
    if None in sizes:
        axis = sizes.index(None)
        raise ModelFault(
            f"input {spec.name}: axis {axis} has no fixed size, and StableHLO of TensorFlow has fixed sizes alone",
            "name a batch size: --batch 16" if axis == 0 else "fix it by model.shapes of a spec, or write a .mlir file",
        )
    return tf.TensorSpec(sizes, spec.dtype, name=spec.name)


_ENTRY_FUNCTION = re.compile(r"^  func\.func (?:public )?@[^(]*\(.*$", re.MULTILINE)
_TENSOR = r"tensor<(?:[^<>]|<[^<>]*>)*>"  # complex<f32> is within it
_ARGUMENT = re.compile(rf"%arg\d+: ({_TENSOR})")
_UNPRINTABLE = re.compile(rb'[^ -~]|["\\]')


def _as_stablehlo(
    frozen: ConcreteFunction, specs: Sequence[tf.TensorSpec], signature: signatures.LoadedSignature
) -> bytes:
    """Text of StableHLO whose function is `@main`; names of inputs and outputs stand where JAX writes them."""
    text = _stablehlo(frozen, specs)
    (entry,) = _ENTRY_FUNCTION.finditer(text)
    arguments, _, results = entry[0].rpartition(" -> ")
    inputs = ", ".join(
        f"%arg{place}: {kind} loc({_quoted(name)})"
        for place, (kind, name) in enumerate(zip(_ARGUMENT.findall(arguments), signature.inputs, strict=True))
    )
    paths = [_quoted(f"['{name}']") for name in signature.outputs]
    kinds = re.findall(_TENSOR, results)
    outputs = ", ".join(f"{kind} {{jax.result_info = {path}}}" for kind, path in zip(kinds, paths, strict=True))
    head = f"  func.func public @main({inputs}) -> ({outputs}) {{"
    return (text[: entry.start()] + head + text[entry.end() :]).encode()


def _quoted(name: str) -> str:
    """A string of MLIR's text, whose escapes are two hexadecimal digits (its language reference, "string-literal")."""
    escaped = _UNPRINTABLE.sub(lambda byte: b"\\%02X" % byte[0][0], name.encode())
    return f'"{escaped.decode()}"'


def _as_graph(frozen: ConcreteFunction, form: str) -> bytes:
    graph = frozen.graph.as_graph_def()
    text: str = text_format.MessageToString(graph) if form == "graph_text" else ""
    result: bytes = text.encode() or graph.SerializeToString(deterministic=True)
    return result


def _as_mlir(frozen: ConcreteFunction, signature: signatures.LoadedSignature) -> bytes:
    text = tf.mlir.experimental.convert_function(frozen, pass_pipeline=_PIPELINE)
    # TensorFlow's importer reads names of inputs and outputs from this attribute.
    names = {"inputs": ",".join(signature.inputs), "outputs": ",".join(signature.outputs)}
    entry = ", ".join(f"{key} = {_quoted(value)}" for key, value in names.items())
    # The first function is the model; TensorFlow names its outputs after nodes.
    return _ENTRY.sub(lambda _: f"tf.entry_function = {{{entry}}}", text, count=1).encode()
