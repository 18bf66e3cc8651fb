"""A lowered program with its ends as users see them, and where rows depend on one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.program.ranges import ranges_of
from tfaot_pkg.compiler.fitting import check_extents
from tfaot_pkg.compiler.listing import listing_of
from tfaot_pkg.compiler.lowered import Lowered
from tfaot_pkg.compiler.program import NUMPY_TYPES, ROWS, Program, Shape, Symbol, Unsupported
from tfaot_pkg.compiler.verifier import InvalidProgram, verify
from tfaot_pkg.frontends.onnx_lowering.authored import Operations
from tfaot_pkg.frontends.onnx_lowering.graph import Model, Node
from tfaot_pkg.frontends.onnx_lowering.lowering import NO_COUNTS, lower
from tfaot_pkg.frontends.onnx_lowering.table import Refused
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.worker_program.from_onnx.graphs import QONNX
from tfaot_pkg.worker_program.messages.formulas import Formula


def lowered(
    model: Model,
    symbols: Sequence[Symbol],
    operations: Operations | None = None,
    counts: Mapping[str, str] = NO_COUNTS,
) -> Lowered:
    """The program of `model` with its ends, and what analyses of HLO find, with arguments as `lower` has them.

    Raises Unsupported, ModelError.
    """
    floats: dict[int, Node] = {}
    found = analyzed(
        lambda layers: lower(
            model, symbols, operations=operations, counts=counts, layers=layers,
            floats=lambda node: floats.update({id(node): node}),
        ),
        lambda program: signature_of(model, program, counts),
    )  # fmt: skip
    return replace(found, warnings=(*found.warnings, *_in_floats(model, list(floats.values()))))


_MOST_NAMED = 8


def _in_floats(model: Model, nodes: Sequence[Node]) -> tuple[str, ...]:
    """A sentence about those of `nodes`, which compute floats, that somebody who quantized `model` should know of."""
    operators = {each.op for each in model.graph.nodes}
    if not (operators & _QUANTIZING or any(each.domain == QONNX for each in model.graph.nodes)):
        return ()
    # Where ranges are found in each call, all between two layers are floats.
    are_dynamic = any(each.startswith("DynamicQuantize") for each in operators)
    between = _between_bytes(model)
    named = [
        f"{each.op} ({each.name})"
        for each in nodes
        if each.domain != QONNX and each.op not in _MOVING | _QUANTIZING and (each.op in _LAYERS or not are_dynamic)
        if id(each) not in between
    ]
    if not named:
        return ()
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    return (f"results in float32, not in integers: {', '.join(named[:_MOST_NAMED])}{more}",)


def _between_bytes(model: Model) -> frozenset[int]:
    """Nodes that read bytes and give bytes as quantized operators do: their floats never are in memory."""
    nodes, kept = model.graph.nodes, {*model.graph.tensors}
    found: set[int] = set()
    for node in nodes:  # from the inputs on
        if node.op == "Constant":
            kept.update(node.outputs)
        if node.op == "DequantizeLinear" or (node.op in _OF_ELEMENTS and {*node.inputs} - {""} <= kept):
            kept.update(node.outputs)
            found.add(id(node))
    lost = {each.key for each in model.outputs}
    for node in reversed(nodes):  # from the outputs on
        if id(node) in found and lost.isdisjoint(node.outputs):
            continue
        found.discard(id(node))
        lost.update(() if node.op == "QuantizeLinear" else node.inputs)
    return frozenset(found)


_OF_ELEMENTS = frozenset("Add AveragePool Clip LeakyRelu Mul ReduceMean Relu Sigmoid".split())
"""Operators for which ONNX Runtime has quantized ones that compute with floats, and those that these may contain."""

_MOVING = frozenset("Flatten Identity Reshape Squeeze Transpose Unsqueeze".split())
"""Operators that compute nothing."""

_QUANTIZING = frozenset(
    "QuantizeLinear DequantizeLinear DynamicQuantizeLinear DynamicQuantizeLSTM MatMulNBits "
    "QLinearConv QLinearMatMul QGemm QLinearAdd QLinearMul ConvInteger MatMulInteger".split()
)
"""Operators of quantized files; some are those of ONNX Runtime."""

_LAYERS = frozenset("Conv ConvTranspose Gemm MatMul Einsum LSTM GRU RNN ConvInteger MatMulInteger MatMulNBits".split())


def analyzed(make: Callable[[bool], Program], ends: Callable[[Program], Signature]) -> Lowered:
    """The program that `make` gives, with what analyses find; `ends` are its inputs and outputs.

    `make` takes whether it may have layers of the kernel library, which the analyses do not know. Raises Unsupported.
    """
    plain = make(False)
    # At the ends of the symbols' ranges, where parts first leave their arrays: its message says what to do.
    check_extents(plain)
    try:
        verify(plain)
    except InvalidProgram as error:
        raise Unsupported(f"not at all sizes: {error}") from None
    signature, listing = ends(plain), listing_of(plain)
    rows = rows_of(listing, signature)
    return Lowered(
        program=make(True),
        inputs=tuple(each.name for each in signature.inputs),
        outputs=tuple(each.name for each in signature.outputs),
        carried={
            each.name: each.dtype.value for each in (*signature.inputs, *signature.outputs) if each.carried is not each
        },
        rows=rows,
        ranges=ranges_of(listing, signature),
    )


_CARRIED = {"bits-of-bf16": "bfloat16", "bits-of-f16": "float16"}
"""Operations whose results carry values of another type."""


def signature_of(model: Model, program: Program, counts: Mapping[str, str] = NO_COUNTS) -> Signature:
    """Inputs and outputs in the order of the program, by the names of libraries. Raises Unsupported."""
    known = program.entry.by_id()
    names = [*(each.name for each in model.outputs), *counts.values()]
    given = zip(names, map(known.__getitem__, program.entry.results), strict=True)
    taken = zip(model.inputs, (each.shape for each in program.entry.parameters), strict=True)
    return Signature(
        inputs=tuple(tensor_of(each.name, shape, each.dtype, program.symbols) for each, shape in taken),
        outputs=tuple(
            tensor_of(name, each.shape, _CARRIED.get(each.opcode, str(NUMPY_TYPES[each.shape.dtype])), program.symbols)
            for name, each in given
        ),
    )


def tensor_of(name: str, shape: Shape, dtype: str, symbols: Sequence[Symbol]) -> Tensor:
    """Raises Refused as `sizes_and_axes`."""
    sizes, axes = sizes_and_axes(name, shape, symbols)
    return Tensor(name=name, dtype=DType(dtype), shape=sizes, axes=axes)


_NO_BATCH = (
    "calls give any number of rows only if they are the first axis of all outputs: give that axis of inputs a range "
    "in model.shapes, such as `x: [rows <= 128, 8]`, or a number"
)
_FALLS = "give one of its symbols a number in model.shapes: the sizes of outputs must not fall where a symbol grows"


def sizes_and_axes(
    name: str, shape: Shape, symbols: Sequence[Symbol]
) -> tuple[tuple[int | None, ...], tuple[str, ...]]:
    """The shape of an input or output at the maxima of symbols, None for the batch, and its axes as Tensor has them.

    Raises Refused for sizes that a library cannot have.
    """
    largest = {each.name: each.maximum for each in symbols}
    sizes: list[int | None] = []
    axes: list[str] = []
    for place, size in enumerate(shape.sizes):
        is_batch = size == ROWS and not place
        if size.grows and not is_batch:
            raise Refused(f"{name!r} has an axis of the size {size}", _NO_BATCH)
        if not Formula(size.terms).never_falls and not is_batch:
            raise Refused(f"{name!r} has an axis of the size {size}", _FALLS)
        sizes.append(None if is_batch else size.at(0, largest))
        axes.append("" if is_batch or size.is_constant else str(size))
    return tuple(sizes), tuple(axes) if any(axes) else ()
