"""The computation of a frozen graph as plain instructions of HLO, at several batch sizes.

tfcompile lowers the graph, as it does when the model is compiled, loops of TensorFlow 1 included. What is listed is
what tfaot_pkg/program/hlo.py reads.
"""

import os
import tempfile

import specialize
import tfcompile_config

PROBES = (*specialize.PROBES, 132, 2, 3)
"""What is known of a model is shown at the first two sizes. At the third one, and at one of the last two, the
computation must be the same, so that a branch that only small or large batches take is seen. The third one is even,
because the first two are odd: so `batch % 2` is no constant. Never 1: sizes of 1 change what the bridge gives, and 2
does now and then."""
_MOST_TRACES, _ENOUGH_TRACES = 8, 3
"""Attempts at modules of the same instructions: at most, and if no size ever gave two kinds."""
_LARGEST_LITERAL = 1 << 18
"""Elements of the largest literal whose values are listed: constant indices are smaller."""
_NO_TARGET = "none-none-none"
"""A target triple of no code generator: tfcompile writes the computation, and stops before it compiles it."""
_NUMPY = {
    "PRED": "?", "S8": "i1", "S16": "i2", "S32": "i4", "S64": "i8", "U8": "u1", "U16": "u2", "U32": "u4", "U64": "u8",
    "F32": "f4", "F64": "f8",
}  # fmt: skip
_FIELDS = {
    "PRED": "preds", "S32": "s32s", "S64": "s64s", "U32": "u32s", "U64": "u64s", "F32": "f32s", "F64": "f64s",
}  # fmt: skip


def listed(graph_def, inputs: list, outputs: list) -> dict:
    """{"modules": [one per probe], "fault": ""}; a fault and no modules if the graph does not compile at such sizes."""
    fault = ""
    for large in (specialize.WEIGHTS_FROM, None):  # now and then a shape is made of a large constant: it must stay one
        lowered, weights = (graph_def, []) if large is None else specialize.without_weights(graph_def, large)

        def trace(size: int, lowered=lowered, weights=weights) -> dict:
            return _module(lowered, [*inputs, *weights], outputs, size)

        try:
            return {"modules": _alike(trace), "fault": ""}
        except Exception as error:  # TensorFlow raises many kinds; the parent says what it means for the model
            fault = fault or " ".join(str(error).split())[:200] or type(error).__name__
    return {"modules": [], "fault": fault}


def _alike(trace) -> list:
    """One module per size, of the same instructions if there are such.

    The bridge does not give the same ones each time: with TensorFlow 2.17 a slice at an index of a loop comes with or
    without a dynamic size. So it is asked again if sizes differ, unless each size gives the same again and again.
    """
    found: dict = {size: {} for size in PROBES}  # modules by kind
    for attempt in range(1, _MOST_TRACES + 1):
        for size, modules in found.items():
            module = trace(size)
            modules.setdefault(_kind(module), module)
        kind = _common(found)
        if kind is not None or (attempt >= _ENOUGH_TRACES and all(len(modules) == 1 for modules in found.values())):
            break
    return [modules.get(kind) or next(iter(modules.values())) for modules in found.values()]


def _common(found: dict):
    """A kind of module that all sizes have which must have the same; None if there is none."""
    *required, small, other = (set(modules) for modules in found.values())
    return next(iter(set.intersection(*required) & (small | other)), None)


def _kind(module: dict) -> tuple:
    """The opcodes that results are made of."""
    return tuple(tuple(_used_opcodes(each)) for each in module["computations"])


def _used_opcodes(computation: dict):
    used = {computation["root"]}
    for each in reversed(computation["instructions"]):
        if each["id"] in used:
            used.update(each["operands"])
            yield each["opcode"]


def _module(graph_def, feeds: list, outputs: list, batch_size: int) -> dict:
    """The entry's parameters are `feeds`, in their order; its result is a tuple of the outputs."""
    from tensorflow.compiler.xla.service import hlo_pb2

    graph_def = specialize.folded(specialize.at_batch_size(graph_def, feeds, batch_size), feeds, outputs)
    snapshot = hlo_pb2.HloSnapshot()
    snapshot.ParseFromString(_lowered(graph_def, tfcompile_config.config(feeds, outputs, batch_size)))
    module = snapshot.hlo.hlo_module
    return {
        "batch_size": batch_size,
        "entry": module.entry_computation_id,
        "computations": [_computation(each) for each in _reached(module)],
    }


def _lowered(graph_def, config) -> bytes:
    """The HloSnapshot of `graph_def`. Raises what tfcompile raises for a graph that it cannot lower."""
    from tensorflow.python import _pywrap_tfcompile

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
            if not os.path.exists(computation):
                raise
        with open(computation, "rb") as file:
            return file.read()


def _reached(module) -> list:
    """The computations, each after those that it calls: the bridge does not always list them in one order."""
    by_id = {each.id: each for each in module.computations}
    found: dict = {}

    def reach(number: int) -> None:
        for instruction in by_id[number].instructions:
            for called in instruction.called_computation_ids:
                if called not in found:
                    reach(called)
        found[number] = by_id[number]

    reach(module.entry_computation_id)
    return list(found.values())


def _computation(computation) -> dict:
    return {
        "id": computation.id,
        "root": _local(computation.root_id),
        "instructions": [_instruction(each) for each in computation.instructions],
    }


def _instruction(proto) -> dict:
    return {
        "id": _local(proto.id),
        "opcode": proto.opcode,
        "node": proto.metadata.op_name,
        "operation": proto.metadata.op_type,
        "shape": _shape(proto.shape),
        "operands": list(map(_local, proto.operand_ids)),
        "called": list(proto.called_computation_ids),
        "attributes": _attributes(proto),
    }


def _local(number: int) -> int:
    """An instruction's id within its computation: TensorFlow 2.21 puts the computation's id before it, or does not."""
    return number & 0xFFFFFFFF


def _shape(proto):
    """[dtype, [sizes]]; of a tuple {"tuple": [shapes]}."""
    from tensorflow.compiler.xla import xla_data_pb2

    name = xla_data_pb2.PrimitiveType.Name(proto.element_type)
    if name == "TUPLE":
        return {"tuple": [_shape(each) for each in proto.tuple_shapes]}
    return [name.lower(), list(proto.dimensions)]


def _attributes(proto) -> dict:
    """What decides about the meaning of an instruction beside its operands, by opcode."""
    found = _ATTRIBUTES.get(proto.opcode)
    return {} if found is None else found(proto)


def _dimensions(proto) -> dict:
    return {"dimensions": list(proto.dimensions)}


def _dot(proto) -> dict:
    numbers = proto.dot_dimension_numbers
    return {
        "contracting": [list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)],
        "batch": [list(numbers.lhs_batch_dimensions), list(numbers.rhs_batch_dimensions)],
        "precision": list(proto.precision_config.operand_precision),
    }


def _window(proto) -> list:
    return [
        [each.size, each.stride, each.padding_low, each.padding_high, each.window_dilation, each.base_dilation]
        for each in proto.window.dimensions
    ]


def _convolution(proto) -> dict:
    numbers = proto.convolution_dimension_numbers
    return {
        "input": [numbers.input_batch_dimension, numbers.input_feature_dimension, *numbers.input_spatial_dimensions],
        "kernel": [
            numbers.kernel_output_feature_dimension,
            numbers.kernel_input_feature_dimension,
            *numbers.kernel_spatial_dimensions,
        ],
        "output": [
            numbers.output_batch_dimension,
            numbers.output_feature_dimension,
            *numbers.output_spatial_dimensions,
        ],
        "window": _window(proto),
        "feature_groups": proto.feature_group_count or 1,
        "batch_groups": proto.batch_group_count or 1,
    }


def _gather(proto) -> dict:
    numbers = proto.gather_dimension_numbers
    return {
        "offset": list(numbers.offset_dims),
        "collapsed": list(numbers.collapsed_slice_dims),
        "indexed": list(numbers.start_index_map),
        "vector": numbers.index_vector_dim,
        "operand_batch": list(getattr(numbers, "operand_batching_dims", ())),
        "index_batch": list(getattr(numbers, "start_indices_batching_dims", ())),
        "sizes": list(proto.gather_slice_sizes),
    }


def _scatter(proto) -> dict:
    numbers = proto.scatter_dimension_numbers
    return {
        "window": list(numbers.update_window_dims),
        "inserted": list(numbers.inserted_window_dims),
        "indexed": list(numbers.scatter_dims_to_operand_dims),
        "vector": numbers.index_vector_dim,
        "operand_batch": list(getattr(numbers, "input_batching_dims", ())),
        "index_batch": list(getattr(numbers, "scatter_indices_batching_dims", ())),
    }


def _slice(proto) -> dict:
    return {"slices": [[each.start, each.limit, each.stride] for each in proto.slice_dimensions]}


def _pad(proto) -> dict:
    dimensions = proto.padding_config.dimensions
    return {"padding": [[each.edge_padding_low, each.edge_padding_high, each.interior_padding] for each in dimensions]}


def _literal(proto) -> dict:
    """{"digest", "values": a flat list, or None if there are too many or of a type without a field for them}."""
    import hashlib

    import numpy as np
    from tensorflow.compiler.xla import xla_data_pb2

    literal = proto.literal
    name = xla_data_pb2.PrimitiveType.Name(literal.shape.element_type)
    found = {"digest": hashlib.sha256(literal.SerializeToString(deterministic=True)).hexdigest(), "values": None}
    elements = 1
    for size in literal.shape.dimensions:
        elements *= size
    if elements > _LARGEST_LITERAL or name not in _NUMPY:
        return found
    if name in _FIELDS:
        values = np.array(getattr(literal, _FIELDS[name]), _NUMPY[name])
    else:
        values = np.frombuffer(getattr(literal, f"{name.lower()}s"), _NUMPY[name])
    return {**found, "values": values.tolist()}


_ATTRIBUTES = {
    "batch-norm-inference": lambda proto: {"feature": proto.feature_index},
    "batch-norm-training": lambda proto: {"feature": proto.feature_index},
    "batch-norm-grad": lambda proto: {"feature": proto.feature_index},
    "broadcast": _dimensions,
    "compare": lambda proto: {"direction": proto.comparison_direction, "order": proto.comparison_type},
    "concatenate": _dimensions,
    "constant": _literal,
    "convolution": _convolution,
    "custom-call": lambda proto: {"target": proto.custom_call_target},
    "dot": _dot,
    "dynamic-slice": lambda proto: {"sizes": list(proto.dynamic_slice_sizes)},
    "fft": lambda proto: {"length": list(proto.fft_length)},
    "gather": _gather,
    "get-dimension-size": _dimensions,
    "get-tuple-element": lambda proto: {"index": proto.tuple_index},
    "iota": _dimensions,
    "pad": _pad,
    "parameter": lambda proto: {"number": proto.parameter_number},
    "reduce": _dimensions,
    "reduce-window": lambda proto: {"window": _window(proto)},
    "reverse": _dimensions,
    "scatter": _scatter,
    "select-and-scatter": lambda proto: {"window": _window(proto)},
    "set-dimension-size": _dimensions,
    "slice": _slice,
    "sort": _dimensions,
    "transpose": _dimensions,
}
