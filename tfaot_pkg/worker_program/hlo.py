"""The computation of a frozen graph as HLO instructions, at several batch sizes.

tfcompile lowers the graph, including loops of TensorFlow 1, as it does when the model is compiled.
tfaot_pkg/analysis/program/hlo.py reads the listing.
"""

from __future__ import annotations

import itertools
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import shape_analysis
import specialize
import uncompiled
from messages import listing
from messages.carriers import OWN
from messages.requests import one_line
from tensorflow.compiler.xla import xla_data_pb2
from tensorflow.compiler.xla.service import hlo_pb2
from tensorflow.python import _pywrap_tfcompile
from tensorflow.python.framework import tensor_util
from wiring import by_name

if TYPE_CHECKING:
    from framework_types import Config, GraphDef
    from messages.graph import Feed, Fetch, Symbol
    from weights import Blob


PROBES = (*specialize.PROBES, 132, 2, 3)
"""Batch sizes. What is known about a model is proved at the first two. At the third, and at one of the last two, the
computation must be the same, which detects branches that only small or large batches take. The third is even because
the first two are odd: so `batch % 2` is not constant. Never 1: sizes of 1 change what the bridge writes, and 2 does
sometimes."""
_SYMBOL_SIZES = (11, 13, 17)
"""Sizes of a symbol other than the batch, if they are in its range: three determine polynomials of degree two."""
_MOST_TRACES, _ENOUGH_TRACES = 8, 3
"""Attempts to get modules of the same instructions: at most, and if every size gave one kind only."""
_LARGEST_LITERAL = 1 << 18
"""Elements of the largest literal whose values are listed: constant indices are smaller."""
_NO_TARGET = "none-none-none"
"""A target triple without a code generator: tfcompile writes the computation, and fails before it compiles it."""
_NUMPY = {
    "PRED": "?", "S8": "i1", "S16": "i2", "S32": "i4", "S64": "i8", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8",
    "F16": "f2", "BF16": "u2", "F32": "f4", "F64": "f8",
}  # fmt: skip
_FIELDS = {
    "PRED": "preds", "S32": "s32s", "S64": "s64s", "U32": "u32s", "U64": "u64s", "F32": "f32s", "F64": "f64s",
}  # fmt: skip


HloProto: TypeAlias = Any
"""A message of XLA's hlo.proto, whose fields differ between releases."""


@dataclass(frozen=True)
class _Point:
    """Sizes to trace at: of the batch, and of other symbols."""

    batch: int
    sizes: tuple[tuple[str, int], ...]  # pairs of a name and a size


def _probes(symbols: Iterable[Symbol]) -> list[_Point]:
    """The batch sizes that are probed, with one size of each symbol."""
    base = tuple((symbol.name, _sizes_of(symbol)[0]) for symbol in symbols)
    return [_Point(batch, base) for batch in PROBES]


def _samples(symbols: Sequence[Symbol]) -> list[_Point]:
    """Further points that determine polynomials of degree two in the symbols, times the batch; last, all maxima."""
    if not symbols:
        return []
    known = {symbol.name: _sizes_of(symbol) for symbol in symbols}
    grid = [
        tuple((symbol.name, known[symbol.name][steps.count(symbol.name)]) for symbol in symbols)
        for degree in (0, 1, 2)
        for steps in itertools.combinations_with_replacement(known, degree)
    ]
    points = [_Point(batch, sizes) for sizes in grid for batch in specialize.PROBES]
    # Larger than all sizes before, so that polynomials that fit only the small sizes are detected. The batch size is
    # another one, too, because the other points determine a solution that is linear in the batch.
    last = _Point(specialize.PROBES[1] + 4, tuple((symbol.name, symbol.maximum) for symbol in symbols))
    return [*points[len(specialize.PROBES) :], last]


def _sizes_of(symbol: Symbol) -> tuple[int, ...]:
    """Three sizes within its range; never 1, and the maximum only if the range is small."""
    wanted = [size for size in _SYMBOL_SIZES if symbol.minimum <= size < symbol.maximum]
    others = [size for size in range(symbol.maximum, max(symbol.minimum, 2) - 1, -1) if size not in wanted]
    return tuple([*wanted, *sorted(others[:3])][:3])


def listed(
    graph_def: GraphDef,
    inputs: Sequence[Feed],
    outputs: Sequence[Fetch],
    constants: Blob | None = None,
    symbols: Sequence[Symbol] = (),
) -> listing.HloListing:
    """One module per probe, or the reason why the graph does not compile at these sizes.

    The values of the parameters after the inputs are appended to `constants` (weights.Blob), if that is not None.
    """
    fault = ""
    for large in (specialize.WEIGHTS_FROM, None):  # a shape may be computed from a large constant, which must stay one
        weights: list[specialize.ConstantFeed] = []
        lowered = graph_def
        if large is not None:
            lowered, weights = specialize.without_weights(graph_def, large)

        def trace(
            point: _Point, lowered: GraphDef = lowered, weights: list[specialize.ConstantFeed] = weights
        ) -> listing.Module:
            return _module(lowered, [*inputs, *weights], outputs, point)

        try:
            modules = _alike(trace, _probes(symbols), _samples(symbols))
            if constants is not None:
                _append_constants(graph_def, weights, constants)
            return listing.HloListing(
                modules=tuple(modules[: len(PROBES)]),
                samples=tuple(modules[len(PROBES) :]),
                fault="",
                choices=shape_analysis.size_choices(lowered, [*inputs, *weights], outputs, symbols),
            )
        except Exception as error:  # TensorFlow raises many types; the host explains what it means for the model
            fault = fault or one_line(error)
    return listing.HloListing(modules=(), samples=(), fault=fault)


def require_lowered(
    graph_def: GraphDef, inputs: Sequence[Feed], outputs: Sequence[Fetch], batch_size: int, symbols: Iterable[Symbol]
) -> None:
    """Raise ModelFault if XLA cannot take the graph at this batch size, and at the largest sizes of `symbols`."""
    point = _Point(batch_size, tuple((symbol.name, symbol.maximum) for symbol in symbols))
    try:
        _module(graph_def, list(inputs), outputs, point)
    except Exception as error:  # TensorFlow raises many types
        raise uncompiled.fault(graph_def, batch_size, str(error)) from error


def _append_constants(graph_def: GraphDef, weights: list[specialize.ConstantFeed], constants: Blob) -> None:
    import numpy as np

    nodes = by_name(graph_def)
    for weight in weights:
        values = tensor_util.MakeNdarray(nodes[weight.node].attr["value"].tensor)
        # Programs compute these types in float32, and NumPy knows no bfloat16.
        short = weight.dtype in ("float16", "bfloat16")
        constants.append(weight.node, values.astype(np.float32) if short else values)


Kind: TypeAlias = tuple[tuple[str, ...], ...]
"""The opcodes of each computation."""


def _alike(
    trace: Callable[[_Point], listing.Module], probes: list[_Point], samples: list[_Point]
) -> list[listing.Module]:
    """One module per point, all of the same instructions if possible.

    The bridge is not deterministic: with TensorFlow 2.17 a slice at an index of a loop comes with or without a dynamic
    size. So it is called again if sizes differ, unless each size gives the same result every time.
    """
    # Modules by kind. One of the last two probes, which are small, may differ.
    found: dict[_Point, dict[Kind | None, listing.Module]] = {
        point: {} for point in (*probes[:-2], *samples, *probes[-2:])
    }
    for attempt in range(1, _MOST_TRACES + 1):
        for size, modules in found.items():
            module = trace(size)
            # The first module of each kind: the result must not depend on which attempt gave it.
            modules.setdefault(_kind(module), module)
        kind = _common(found)
        if kind is not None or (attempt >= _ENOUGH_TRACES and all(len(modules) == 1 for modules in found.values())):
            break
    chosen = {point: modules.get(kind) or next(iter(modules.values())) for point, modules in found.items()}
    return [chosen[point] for point in (*probes, *samples)]


def _common(found: Mapping[_Point, Mapping[Kind | None, listing.Module]]) -> Kind | None:
    """A kind of module that all sizes that must agree have; None if there is none."""
    *required, small, other = (set(modules) for modules in found.values())
    return next(iter(set.intersection(*required) & (small | other)), None)


def _kind(module: listing.Module) -> Kind:
    """The opcodes that the results depend on."""
    return tuple(tuple(_used_opcodes(each)) for each in module.computations)


def _used_opcodes(computation: listing.Computation) -> Iterator[str]:
    # Instructions that nothing uses differ from run to run, and have no effect.
    used = {computation.root}
    for each in reversed(computation.instructions):
        if each.id in used:
            used.update(each.operands)
            yield each.opcode


def _module(
    graph_def: GraphDef, feeds: Sequence[specialize.Placed], outputs: Sequence[Fetch], point: _Point
) -> listing.Module:
    """The entry's parameters are `feeds`, in their order; its result is a tuple of the outputs."""
    batch_size, sizes = point.batch, dict(point.sizes)
    # Shapes are folded first: XLA does not fold all of them itself (specialize.folded).
    graph_def = specialize.folded(specialize.at_batch_size(graph_def, feeds, batch_size, sizes), feeds, outputs)
    snapshot = hlo_pb2.HloSnapshot()
    snapshot.ParseFromString(_lowered(graph_def, specialize.tfcompile_config(feeds, outputs, batch_size, sizes)))
    module = snapshot.hlo.hlo_module
    return listing.Module(
        batch_size=batch_size,
        sizes=sizes,
        entry=module.entry_computation_id,
        computations=tuple(map(_computation, _reached(module))),
    )


def _lowered(graph_def: GraphDef, config: Config) -> bytes:
    """The HloSnapshot of `graph_def`. Raises what tfcompile raises for a graph that it cannot lower."""
    with tempfile.TemporaryDirectory() as folder:
        graph, text, computation = (os.path.join(folder, name) for name in ("graph.pb", "config.pbtxt", "hlo.pb"))
        with open(graph, "wb") as file:
            file.write(graph_def.SerializeToString())
        with open(text, "w") as file:
            file.write(str(config))
        try:
            _pywrap_tfcompile.Compile(
                graph=graph,
                config=text,
                cpp_class="Unit",
                target_triple=_NO_TARGET,
                out_session_module=computation,
            )
        except Exception:
            # It always fails for this target, but only after it has written the computation.
            if not os.path.exists(computation):
                raise
        with open(computation, "rb") as file:
            return file.read()


def _reached(module: HloProto) -> list[HloProto]:
    """The computations, each after those that it calls: the order in which the bridge lists them varies."""
    by_id = {each.id: each for each in module.computations}
    found: dict[int, HloProto] = {}

    def reach(number: int) -> None:
        for instruction in by_id[number].instructions:
            for called in instruction.called_computation_ids:
                if called not in found:
                    reach(called)
        found[number] = by_id[number]

    reach(module.entry_computation_id)
    return list(found.values())


def _computation(computation: HloProto) -> listing.Computation:
    return listing.Computation(
        id=computation.id,
        root=_local(computation.root_id),
        instructions=tuple(map(_instruction, computation.instructions)),
    )


def _instruction(proto: HloProto) -> listing.Instruction:
    return listing.Instruction(
        id=_local(proto.id),
        opcode=proto.opcode,
        node=proto.metadata.op_name,
        operation=proto.metadata.op_type,
        shape=_shape(proto.shape),
        operands=tuple(map(_local, proto.operand_ids)),
        called=tuple(proto.called_computation_ids),
        attributes=_attributes(proto),
    )


def _local(number: int) -> int:
    """An instruction's id within its computation: TensorFlow 2.21 stores the computation's id in the upper half."""
    return number & 0xFFFFFFFF


def _shape(proto: HloProto) -> listing.ArrayShape | listing.TupleShape:
    name = xla_data_pb2.PrimitiveType.Name(proto.element_type)
    if name == "TUPLE":
        return listing.TupleShape(parts=tuple(map(_shape, proto.tuple_shapes)))
    return listing.ArrayShape(dtype=name.lower(), sizes=tuple(proto.dimensions))


def _attributes(proto: HloProto) -> listing.Attributes:
    """The attributes that an instruction's meaning depends on, by opcode."""
    found = _ATTRIBUTES.get(proto.opcode)
    return listing.NoAttributes() if found is None else found(proto)


def _dimensions(proto: HloProto) -> listing.Dimensions:
    return listing.Dimensions(dimensions=tuple(proto.dimensions))


def _feature(proto: HloProto) -> listing.Feature:
    return listing.Feature(feature=proto.feature_index, epsilon=proto.epsilon)


def _dot(proto: HloProto) -> listing.Dot:
    numbers = proto.dot_dimension_numbers
    return listing.Dot(
        contracting=(tuple(numbers.lhs_contracting_dimensions), tuple(numbers.rhs_contracting_dimensions)),
        batch=(tuple(numbers.lhs_batch_dimensions), tuple(numbers.rhs_batch_dimensions)),
    )


def _window(proto: HloProto) -> tuple[tuple[int, int, int, int, int, int], ...]:
    return tuple(
        (each.size, each.stride, each.padding_low, each.padding_high, each.window_dilation, each.base_dilation)
        for each in proto.window.dimensions
    )


def _windows(proto: HloProto) -> listing.Windows:
    return listing.Windows(window=_window(proto))


def _convolution(proto: HloProto) -> listing.Convolution:
    numbers = proto.convolution_dimension_numbers
    return listing.Convolution(
        input=(numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions),
        kernel=(
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ),
        output=(numbers.output_batch_dimension, numbers.output_feature_dimension, *numbers.output_spatial_dimensions),
        window=_window(proto),
        # XLA writes 0 for the default, 1.
        feature_groups=proto.feature_group_count or 1,
        batch_groups=proto.batch_group_count or 1,
    )


def _gather(proto: HloProto) -> listing.Gather:
    numbers = proto.gather_dimension_numbers
    return listing.Gather(
        offset=tuple(numbers.offset_dims),
        collapsed=tuple(numbers.collapsed_slice_dims),
        indexed=tuple(numbers.start_index_map),
        vector=numbers.index_vector_dim,
        # TensorFlow 2.17 does not have these fields.
        operand_batch=tuple(getattr(numbers, "operand_batching_dims", ())),
        index_batch=tuple(getattr(numbers, "start_indices_batching_dims", ())),
        sizes=tuple(proto.gather_slice_sizes),
    )


def _scatter(proto: HloProto) -> listing.Scatter:
    numbers = proto.scatter_dimension_numbers
    return listing.Scatter(
        window=tuple(numbers.update_window_dims),
        inserted=tuple(numbers.inserted_window_dims),
        indexed=tuple(numbers.scatter_dims_to_operand_dims),
        vector=numbers.index_vector_dim,
        # As in _gather.
        operand_batch=tuple(getattr(numbers, "input_batching_dims", ())),
        index_batch=tuple(getattr(numbers, "scatter_indices_batching_dims", ())),
    )


def _slice(proto: HloProto) -> listing.Slices:
    return listing.Slices(slices=tuple((each.start, each.limit, each.stride) for each in proto.slice_dimensions))


def _pad(proto: HloProto) -> listing.Padding:
    dimensions = proto.padding_config.dimensions
    return listing.Padding(
        padding=tuple((each.edge_padding_low, each.edge_padding_high, each.interior_padding) for each in dimensions)
    )


def _custom_call(proto: HloProto) -> listing.CustomCall:
    # Only our own configuration is text that is known; others may have any bytes.
    is_ours = proto.custom_call_target.startswith(OWN)
    config = proto.backend_config.decode("utf-8", "replace") if is_ours else ""
    return listing.CustomCall(target=proto.custom_call_target, config=config)


def _literal(proto: HloProto) -> listing.Literals:
    import hashlib

    import numpy as np

    literal = proto.literal
    name = xla_data_pb2.PrimitiveType.Name(literal.shape.element_type)
    # Listings at several sizes are compared by digests: large constants need not be listed for that.
    digest = hashlib.sha256(literal.SerializeToString(deterministic=True)).hexdigest()
    if math.prod(literal.shape.dimensions) > _LARGEST_LITERAL or name not in _NUMPY:
        return listing.Literals(digest=digest, values=None)
    if name in _FIELDS:
        values = np.array(getattr(literal, _FIELDS[name]), _NUMPY[name])
    else:
        # LiteralProto (xla_data.proto) stores types of one or two bytes as bytes, and others as lists of numbers.
        values = np.frombuffer(getattr(literal, f"{name.lower()}s"), _NUMPY[name])
    if name == "BF16":  # NumPy does not know it: it is the upper half of a float32
        values = (values.astype("u4") << 16).view("f4")
    return listing.Literals(digest=digest, values=tuple(values.tolist()))


_ATTRIBUTES: dict[str, Callable[[HloProto], listing.Attributes]] = {
    "batch-norm-inference": _feature,
    "batch-norm-training": _feature,
    "batch-norm-grad": _feature,
    "broadcast": _dimensions,
    "compare": lambda proto: listing.Comparison(direction=proto.comparison_direction, order=proto.comparison_type),
    "concatenate": _dimensions,
    "constant": _literal,
    "convolution": _convolution,
    "custom-call": _custom_call,
    "dot": _dot,
    "dynamic-slice": lambda proto: listing.Sizes(sizes=tuple(proto.dynamic_slice_sizes)),
    "fft": lambda proto: listing.Length(length=tuple(proto.fft_length)),
    "gather": _gather,
    "get-dimension-size": _dimensions,
    "get-tuple-element": lambda proto: listing.Index(index=proto.tuple_index),
    "iota": _dimensions,
    "pad": _pad,
    "parameter": lambda proto: listing.Number(number=proto.parameter_number),
    "reduce": _dimensions,
    "reduce-window": _windows,
    "reverse": _dimensions,
    "scatter": _scatter,
    "select-and-scatter": _windows,
    "set-dimension-size": _dimensions,
    "slice": _slice,
    "sort": _dimensions,
    "transpose": _dimensions,
}
