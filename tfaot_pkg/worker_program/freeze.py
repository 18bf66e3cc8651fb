"""Freeze one signature: variables become constants, large constants become feeds bound to one blob of weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import assignments
import authored
import carriers
import complex_arithmetic
import data_dependent_rows
import dead_nodes
import hlo
import interface
import loop_limits
import operations
import outline
import reachability
import replacements
import rewrites
import saved_model
import segments
import signatures
import specialize
import tensorflow as tf
import weights
from messages.graph import Check, Checked, Chosen, Feed, Fetch, Freeze, Frozen, FrozenGraph, Tensor, Unsupported
from messages.requests import ModelFault, one_line
from tensorflow.python.framework import convert_to_constants, dtypes, tensor_util
from wiring import ancestors, by_name

if TYPE_CHECKING:
    from framework_types import Array, ConcreteFunction, GraphDef, MetaGraphDef, Report, TensorProto
    from messages.graph import FoundSegment, Symbol
    from messages.listing import HloListing
    from tables import Table


# XLA compiles these operations to code that differs from TensorFlow's operation, without a warning.
_SILENT = {
    **dict.fromkeys(("Assert", "AssertNextDataset"), "assertions vanish: a failing one is not reported"),
    "CheckNumerics": "checks for NaN and infinity vanish",
    **dict.fromkeys(("GatherV2", "GatherNd", "ResourceGather"), "indices out of range are clamped, not reported"),
    "Where": "the result is padded to its largest size and the count is lost",
    "NonMaxSuppressionV4": "the result is padded to its largest size",
    **dict.fromkeys(
        ("AssignAddVariableOp", "AssignSubVariableOp", "AssignVariableOp"),
        "variables are frozen: an assignment is forgotten after the call",
    ),
    **dict.fromkeys(
        (
            "RandomUniform", "RandomStandardNormal", "RandomUniformInt", "TruncatedNormal", "Multinomial",
            "StatelessTruncatedNormalV2",
        ),
        "random numbers differ from TensorFlow's",
    ),
    **dict.fromkeys(
        (
            "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel",
            "QuantizeAndDequantizeV2", "QuantizeAndDequantizeV3", "QuantizeAndDequantizeV4",
        ),
        "rounds floats to steps; layers compute in float32 unless compilation.precision asks for int8",
    ),
}  # fmt: skip
_SHOWN = 3
_ASSIGNMENTS = frozenset("Assign AssignAdd AssignSub ScatterUpdate ScatterAdd".split()) | frozenset(assignments.WRITTEN)
_OUTLINED = 1 << 10
"""Variables of at least this many bytes are left out while TensorFlow freezes.

TensorFlow copies each value up to seven times: freezing 210 MB of variables took 3.0 GB, and takes 1.1 GB without
their values (decision 063).
"""
_INTEGER_DIVISION = frozenset("FloorDiv Div TruncateDiv FloorMod Mod".split())


def freeze(request: Freeze, report: Report) -> Frozen:
    """Write the graph and its weights, and describe them. ModelFault for operations that cannot be compiled."""
    meta_graph, found = reached_graph(request.model)
    # Before the import: TensorFlow never loads an operation that is not allowed (decision 028).
    operations.require_none(found.faults)
    graph = _freeze_signature(request.model, signatures.imported(request.model.folder, meta_graph, found), found.tables)
    graph_def = graph.graph_def
    # Of the original graph: its operations are those that users know.
    warnings = _warnings(graph.original, graph.inputs, graph.outputs)
    operations.require_compilable(graph_def)
    inputs, outputs = carriers.carried(graph_def, graph.inputs, graph.outputs)
    complex_arithmetic.split(graph_def, outputs)
    # Without control edges: XLA compiles only what outputs are computed from, so other constants are no weights.
    used = ancestors(by_name(graph_def), [tensor.node for tensor in outputs], control=False)
    symbols = request.model.symbols
    # The program has calls of the author's operations, whose bodies only TensorFlow runs.
    program = authored.called(graph_def, inputs, request.model.operations)
    # XLA compiles a segment for one size of every axis except the batch.
    pieces = segments.cut(program, inputs, outputs) if request.constants and not symbols else None
    with open(os.path.join(request.out, "weights.bin"), "wb") as file:
        blob = weights.Blob(file)
        # Listed before weights are shared, which turns constants of `graph_def` into placeholders. Those
        # of the listing come first in the file, in the order of its parameters.
        constants = blob if request.constants else None
        listing = hlo.listed(program, inputs, outputs, None if pieces else constants, symbols)
        listed = hlo.listed(pieces.graph_def, inputs, pieces.outputs, constants) if pieces else None
        cut = zip(pieces.segments, pieces.parts, strict=True) if pieces else ()
        apart = tuple(_listed_part(segment, part, request) for segment, part in cut)
        shared = weights.share(graph_def, used, blob, request.threshold) if request.weights == "shared" else []
    with open(os.path.join(request.out, "graph.pb"), "wb") as file:
        # Deterministic, because protobuf writes maps in another order in each process.
        file.write(graph_def.SerializeToString(deterministic=True))
    return Frozen(
        model=FrozenGraph(
            inputs=inputs,
            outputs=outputs,
            weights=tuple(shared),
            segments=pieces.segments if pieces else (),
            warnings=warnings,
            graph=outline.outline(graph.graph, graph.inputs, graph.outputs, graph.original.library.function),
            symbols=symbols,
        ),
        hlo=listing,
        cut=listed,
        parts=apart,
    )


def _listed_part(segment: FoundSegment, graph_def: GraphDef, request: Freeze) -> HloListing:
    """Write the graph of a segment, and list its HLO."""
    with open(os.path.join(request.out, f"{segment.name}.pb"), "wb") as file:
        file.write(graph_def.SerializeToString(deterministic=True))
    return hlo.listed(graph_def, segment.inputs, segment.outputs)


def check(request: Check, report: Report) -> Checked:
    """Count the operations, and list those that cannot be compiled. A model with forbidden operations is not loaded."""
    meta_graph, found = reached_graph(request.model)
    if found.faults:
        return Checked(
            inputs=saved_model.tensors_of(found.inputs),
            outputs=saved_model.tensors_of(found.outputs),
            warnings=(),
            operations=_operation_counts(found.graph_def),
            unsupported=_unsupported(found.faults),
            hlo=None,
        )
    graph = _freeze_signature(request.model, signatures.imported(request.model.folder, meta_graph, found), found.tables)
    warnings, counts = _warnings(graph.original, graph.inputs, graph.outputs), _operation_counts(graph.original)
    faults = operations.unsupported_nodes(graph.graph_def)
    inputs, outputs = carriers.carried(graph.graph_def, graph.inputs, graph.outputs)
    complex_arithmetic.split(graph.graph_def, outputs)
    program = authored.called(graph.graph_def, inputs, request.model.operations)
    symbols = request.model.symbols
    listing = None if faults else hlo.listed(program, inputs, outputs, symbols=symbols)
    if listing is not None and listing.fault:
        # It may compile at the sizes of the spec, which then are the only ones.
        for batch_size in request.batch_sizes:
            hlo.require_lowered(program, inputs, outputs, batch_size, symbols)
    return Checked(
        inputs=tuple(map(_tensor, graph.inputs)),
        outputs=tuple(map(_tensor, graph.outputs)),
        warnings=warnings,
        operations=counts,
        unsupported=_unsupported(faults),
        hlo=listing,
    )


def reached_graph(model: Chosen) -> tuple[MetaGraphDef, reachability.Reached]:
    """(the graph of the SavedModel, the part of it that the signature runs)."""
    meta_graph = saved_model.meta_graph(saved_model.read(model.folder), model.tags)
    signature = saved_model.require_signature(meta_graph, model.signature)
    saved_model.require_dtypes(signature)
    return meta_graph, reachability.reached_by(meta_graph, model.signature, signature)


def _unsupported(faults: list[operations.Fault]) -> tuple[Unsupported, ...]:
    return tuple(Unsupported(operation=operation, node=node, why=why) for operation, node, why in faults)


def _tensor(tensor: Feed | Fetch) -> Tensor:
    return Tensor(name=tensor.name, dtype=tensor.dtype, shape=tensor.shape, axes=tensor.axes)


@dataclass(frozen=True)
class _Graph:
    """TensorFlow's `graph`, equal to `original`, and its inputs and outputs in the requested order.

    Neither has the values of large variables. `graph_def` has them, and the replacements for operations that XLA cannot
    compile (rewrites.py).
    """

    graph: tf.Graph
    original: GraphDef
    graph_def: GraphDef
    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]


def frozen_function(name: str, signature: signatures.LoadedSignature) -> ConcreteFunction:
    """TensorFlow's frozen function of the signature `name`; ModelFault if a variable cannot become a constant.

    Large variables are zeros in it: `fill` writes their values into its graph.
    """
    # TensorFlow's own version forgets `Case`, and lowers to operations that XLA has no kernels for.
    convert_to_constants.disable_lower_using_switch_merge = _keep_control_flow
    try:
        with _outlining(convert_to_constants), _forgetting(convert_to_constants):
            frozen = convert_to_constants.convert_variables_to_constants_v2(
                signature.function, lower_control_flow=False
            )
    except (ValueError, KeyError, TypeError) as error:
        raise _cannot_freeze(name, signature.function, error) from error
    if len(signature.inputs) != len(inputs_of(frozen)):
        raise ModelFault(
            f"the signature {name!r} has {len(signature.inputs)} inputs, its frozen graph {len(inputs_of(frozen))}",
            "a variable could not be frozen: mutable state cannot be compiled",
        )
    return frozen


@contextmanager
def _outlining(module: Any) -> Iterator[None]:
    """Make TensorFlow's freezing `module` leave out the values of large variables."""
    values = module._FunctionConverterDataInEager  # noqa: SLF001 (no public hook)
    before = values._eval, module.tensor_util  # noqa: SLF001
    values._eval, module.tensor_util = _outlined, _Protos(module.tensor_util)  # noqa: SLF001
    try:
        yield
    finally:
        values._eval, module.tensor_util = before  # noqa: SLF001


@contextmanager
def _forgetting(module: Any) -> Iterator[None]:
    """Make TensorFlow's freezing `module` drop assignments that no output reads, after it has inlined functions."""
    inlined = module._run_inline_graph_optimization  # noqa: SLF001 (no public hook)

    def seen(function: ConcreteFunction, *arguments: Any) -> Any:
        outputs = [tensor.op.name for tensor in function.outputs]
        return dead_nodes.without_dead_nodes(inlined(function, *arguments), outputs)

    module._run_inline_graph_optimization = seen  # noqa: SLF001
    try:
        yield
    finally:
        module._run_inline_graph_optimization = inlined  # noqa: SLF001


def _outlined(_: object, tensor: tf.Tensor) -> Array:
    """The value of a variable or tensor; for a large variable, zeros that share one element."""
    import numpy as np

    if not _is_large(tensor):
        result: Array = tensor.numpy()
        return result
    return np.broadcast_to(np.zeros((), tensor.dtype.as_numpy_dtype), tensor.shape.as_list())


def _is_large(variable: tf.Variable) -> bool:
    # Tables and other resources have no values to leave out.
    if not hasattr(variable, "handle") or not variable.shape.is_fully_defined():
        return False
    dtype = variable.dtype
    is_number = dtype.is_floating or dtype.is_integer or dtype.is_complex
    return bool(is_number and variable.shape.num_elements() * dtype.size >= _OUTLINED)


class _Protos:
    """TensorFlow's `tensor_util`, except that an array of one repeated number is written as that number."""

    def __init__(self, module: Any) -> None:
        self._module = module

    def make_tensor_proto(self, values: Array, dtype: tf.DType, shape: tf.TensorShape) -> TensorProto:
        # Strides are 0 in the arrays of `_outlined` only: such an array takes the memory of one element.
        repeats = values.size > 1 and not any(values.strides)
        result: TensorProto = self._module.make_tensor_proto(values.flat[0] if repeats else values, dtype, shape)
        return result


def fill(graph_def: GraphDef, signature: signatures.LoadedSignature) -> None:
    """Write the values of large variables into the graph of `signature`'s frozen function."""
    # By identity: comparing tensors is an operation of the graph.
    variables = {id(each.handle): each for each in signature.function.graph.variables if _is_large(each)}
    nodes = by_name(graph_def)
    for captured, inner in signature.function.graph.captures:
        variable, node = variables.get(id(captured)), nodes.get(inner.op.name)
        if variable is not None and node is not None:
            node.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(variable.numpy()))


def inputs_of(frozen: ConcreteFunction) -> list[tf.Tensor]:
    """The inputs of a frozen function, without the handles of lookup tables."""
    return [tensor for tensor in frozen.inputs if tensor.dtype != tf.resource]


def _freeze_signature(model: Chosen, signature: signatures.LoadedSignature, tables: dict[str, Table]) -> _Graph:
    frozen = frozen_function(model.signature, signature)
    graph_def = frozen.graph.as_graph_def()
    fill(graph_def, signature)
    inputs = feeds_of(signature.inputs, inputs_of(frozen), model)
    if model.max_iterations:
        loop_limits.limit(graph_def, model.max_iterations)
    rewrites.rewrite(graph_def, inputs, model.symbols, tables)
    outputs = _fetches(signature.outputs, frozen.outputs, signature.function, inputs, graph_def, model.symbols)
    return _Graph(
        graph=frozen.graph,
        original=frozen.graph.as_graph_def(),
        graph_def=graph_def,
        inputs=interface.in_order("inputs", inputs, model.inputs),
        outputs=interface.in_order("outputs", outputs, model.outputs),
    )


def _keep_control_flow(graph_def: GraphDef) -> GraphDef:
    for node in operations.nodes_of(graph_def):
        if node.op in operations.CONTROL_FLOW:
            node.attr["_lower_using_switch_merge"].b = False
    return graph_def


def _cannot_freeze(signature: str, function: ConcreteFunction, error: Exception) -> ModelFault:
    graph_def = function.graph.as_graph_def()
    changed = sorted({node.op for node in operations.nodes_of(graph_def) if node.op in _ASSIGNMENTS})
    if changed:
        return ModelFault(
            f"the signature {signature!r} changes variables ({', '.join(changed)}), which compiled code takes for "
            "constants",
            "list them in the spec, as in `compilation: {variables: {update: ['*']}}`: callers then keep them as state",
        )
    return ModelFault(f"TensorFlow cannot freeze the signature {signature!r}: {one_line(error)}")


def feeds_of(names: list[str], tensors: list[tf.Tensor], model: Chosen) -> list[Feed]:
    """The inputs, with the shapes that the spec sets."""
    shapes = model.shapes
    unknown = sorted(set(shapes) - set(names))
    if unknown:
        listing = ", ".join(names)
        raise ModelFault(f"model.shapes names {', '.join(unknown)}, but the inputs are: {listing}")
    return [
        Feed(
            name=name,
            node=tensor.op.name,
            dtype=tensor.dtype.name,
            shape=interface.input_shape(name, saved_model.sizes_of(tensor.shape), shapes.get(name)),
            axes=tuple(model.axes.get(name, ())),
        )
        for name, tensor in zip(names, tensors, strict=True)
    ]


def _fetches(
    names: list[str],
    results: list[tf.Tensor],
    run: ConcreteFunction,
    inputs: list[Feed],
    graph_def: GraphDef,
    symbols: Sequence[Symbol],
) -> list[Fetch]:
    """The outputs, with None for the batch axis; ModelFault if a shape grows with the batch in another way."""
    light, _ = specialize.without_weights(graph_def)
    asked = [(tensor.op.name, tensor.value_index) for tensor in results]
    first, second = specialize.PROBES
    # All symbols at their maximum, then each at another size.
    smaller = interface.distinct_sizes(symbols)
    points: list[tuple[int, dict[str, int]]] = [(first, {}), (second, {}), *([(first, smaller)] if symbols else [])]
    inferred = [_inferred(light, inputs, asked, *point) for point in points]
    known = [[shape for shape in shapes if shape is not None and None not in shape] for shapes in inferred]
    is_inferred = all(len(shapes) == len(asked) for shapes in known)

    def at(batch_size: int, sizes: Mapping[str, int]) -> list[list[int | None]]:
        if is_inferred:
            return [shape or [] for shape in _inferred(light, inputs, asked, batch_size, sizes)]
        return _observed(names, run, inputs, partial(_sized_by_values, light, asked), batch_size, sizes)

    if not is_inferred:
        known = [at(*point) for point in points]

    def of(index: int) -> Callable[[Mapping[str, int]], list[int | None]]:
        return lambda sizes: at(first, sizes)[index]

    axes = [interface.output_axes(name, most, less, symbols, smaller, of(index))
            for index, (name, most, less) in enumerate(zip(names, known[0], known[-1], strict=True))]  # fmt: skip
    return [
        Fetch(
            name=name,
            node=tensor.op.name,
            index=tensor.value_index,
            dtype=tensor.dtype.name,
            shape=interface.output_shape(name, specialize.PROBES, (first, second)),
            axes=found,
        )
        for name, tensor, found, first, second in zip(names, results, axes, *known[:2], strict=True)
    ]


def _inferred(
    graph_def: GraphDef, inputs: list[Feed], outputs: list[tuple[str, int]], batch_size: int, sizes: Mapping[str, int]
) -> list[list[int | None] | None]:
    try:
        return specialize.inferred_shapes(specialize.at_batch_size(graph_def, inputs, batch_size, sizes), outputs)
    except ValueError:  # this batch size does not fit the model: the error of running it is clearer
        return [None] * len(outputs)


def _sized_by_values(graph_def: GraphDef, outputs: list[tuple[str, int]], index: int, name: str) -> tuple[str, str]:
    """The operations used by the output `name` whose number of rows depends on values, and what to do."""
    known = by_name(graph_def)
    used = ancestors(known, [outputs[index][0]])
    # What depends on inputs only by their shapes, as a range up to a size, does not depend on values.
    followed = {name: node for name, node in known.items() if node.op not in ("Shape", "ShapeN", "Size", "Rank")}
    inputs = {node.name for node in graph_def.node if node.op == "Placeholder"}
    nodes = [
        node
        for node in graph_def.node
        if node.name in used and node.op in replacements.SELECTING and inputs & ancestors(followed, node.input)
    ]
    found = [f"{node.op} (node {node.name})" for node in nodes]
    # Of what values select only these can be counted.
    others = [node.op for node in nodes if node.op not in data_dependent_rows.SOURCES]
    advice = replacements.SELECTING[others[0]] if others else (
        f"name the output in model.counts ({name}: {name}_count), to get as many rows as there can be and the number "
        "of valid ones"
    )  # fmt: skip
    hint = (
        f"compiled code has fixed shapes: {advice}; or return all rows and a mask, or a fixed number of them "
        "(tf.math.top_k)"
    )
    return f", because of {', '.join(found[:_SHOWN])}" if found else "", hint


def _observed(
    names: list[str],
    run: ConcreteFunction,
    inputs: list[Feed],
    why: Callable[[int, str], tuple[str, str]],
    batch_size: int,
    sizes: Mapping[str, int],
) -> list[list[int | None]]:
    """The shapes of the outputs; ModelFault if they depend on input values, with the reason and hint of `why`."""
    seen, failures = [], []
    shapes = [specialize.sized(tensor, batch_size, sizes) for tensor in inputs]
    # So that a shape that depends on values differs, also one that depends on the number of different values, or on the
    # difference of two inputs.
    for given in (
        *([fill(shape) for shape in shapes] for fill in (tf.zeros, tf.ones, _different)),
        [tf.fill(shape, number) for number, shape in enumerate(shapes)],
        [tf.fill(shape, len(shapes) - number) for number, shape in enumerate(shapes)],
    ):
        try:
            results = run(*[tf.cast(each, tensor.dtype) for each, tensor in zip(given, inputs, strict=True)])
            seen.append([result.shape.as_list() for result in results])
        except (tf.errors.OpError, ValueError) as error:  # the model's own checks may reject these values
            failures.append(one_line(error))
    if not seen:
        raise ModelFault(
            f"the model does not run at batch size {batch_size}, to find the shapes of its outputs: {failures[0]}",
            "set the shapes of outputs in the model (tf.ensure_shape)",
        )
    for index, (name, first, *others) in enumerate(zip(names, *seen, strict=True)):
        if other := next((each for each in others if each != first), None):
            reason, hint = why(index, name)
            raise ModelFault(
                f"the shape of output {name!r} depends on the values of the inputs "
                f"({first} or {other} at batch size {batch_size}){reason}",
                hint,
            )
    return seen[0]


def _different(shape: list[int]) -> tf.Tensor:
    """0, 1, 2, 0, 1 and so on: indices of small tables, too."""
    zeros = tf.zeros(shape, tf.int32)
    return tf.reshape(tf.range(tf.size(zeros)) % 3, tf.shape(zeros))


def _operation_counts(graph_def: GraphDef) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in operations.nodes_of(graph_def):
        counts[node.op] = counts.get(node.op, 0) + 1
    return dict(sorted(counts.items()))


def _warnings(graph_def: GraphDef, inputs: Sequence[Feed], outputs: Sequence[Fetch]) -> tuple[str, ...]:
    """Warnings about differences between compiled code and TensorFlow that compiled code does not report."""
    found = set()
    is_bounded = any(node.name.startswith(data_dependent_rows.MARK) for node in graph_def.node)
    for node in operations.nodes_of(graph_def):
        if node.op in _SILENT and not (is_bounded and node.op == "Where"):
            found.add(f"{node.op}: {_SILENT[node.op]}")
        if node.op in _INTEGER_DIVISION and dtypes.as_dtype(node.attr["T"].type).is_integer:
            found.add(f"{node.op}: integer division by zero gives -1, it is not reported")
    used = ancestors(by_name(graph_def), [tensor.node for tensor in outputs])
    for tensor in inputs:
        if tensor.node not in used:
            found.add(f"input {tensor.name!r} is not used: its values change nothing")
    return tuple(sorted(found))
