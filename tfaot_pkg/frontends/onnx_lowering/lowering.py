"""Lowers the graph of an ONNX file to a program, node by node.

Each node's function (table.py) makes operations, whose types the builder infers. Values that are known, and arithmetic
on shapes, cost nothing at run time. An operator or a form of one that has no lowering is Unsupported, by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tfaot_pkg.compiler.program import BATCH, Program, Shape, Symbol, Unsupported
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import DTYPES, Held, Listed, Short, Value, sizes_of_axes
from tfaot_pkg.frontends.onnx_lowering import (
    contributed,
    control,
    convolutions,
    determinants,
    elementwise,
    fixed_point,
    forests,
    images,
    indexing,
    linear,
    moving,
    normalizing,
    places,
    pooling,
    products,
    quantized,
    recurrent,
    reductions,
    sampling,
    selecting,
    sequences,
    signals,
)
from tfaot_pkg.frontends.onnx_lowering.authored import OWN_DOMAINS, Operations
from tfaot_pkg.frontends.onnx_lowering.counted import counted, padded
from tfaot_pkg.frontends.onnx_lowering.graph import Graph, Input, Model, Node, Output, Tensor
from tfaot_pkg.frontends.onnx_lowering.scaled import in_integers
from tfaot_pkg.frontends.onnx_lowering.scaled_values import Joined, Scaled
from tfaot_pkg.frontends.onnx_lowering.table import (
    MICROSOFT,
    ONNX,
    OPERATORS,
    SHORT,
    Call,
    Refused,
    Results,
    constant_of,
)
from tfaot_pkg.worker_program.from_onnx.graphs import QONNX

Floats = Callable[[Node], None]


def _nobody(_: Node) -> None:
    return


NO_COUNTS: Mapping[str, str] = MappingProxyType({})
FILLED_BY = (
    contributed, control, convolutions, determinants, elementwise, fixed_point, forests, images, indexing, linear,
    moving, normalizing, places, pooling, products, quantized, recurrent, reductions, sampling, selecting, sequences,
    signals,
)  # fmt: skip
"""The modules whose functions are in the table of operators."""


def lower(
    model: Model,
    symbols: Sequence[Symbol] = (),
    *,
    operations: Operations | None = None,
    counts: Mapping[str, str] = NO_COUNTS,
    layers: bool = True,
    floats: Floats = _nobody,
) -> Program:
    """The program of `model`, whose outputs are in the order of the file. It is not verified.

    `symbols` are the open axes of the inputs beside the batch, by the names that these give them. `counts` are those of
    `model.counts`, by names of libraries: outputs behind those of the file. Raises Unsupported, which names the node,
    and ModelError. Without `layers`, all operations are HLO's (compiler/listing.py). `floats` hears of each node that
    computes floats which are not held as integers, too (scaled.py).
    """
    operations = operations or Operations()
    builder = Builder(symbols, layers=layers)
    names = {each.name for each in symbols}
    shapes = [_shape(each, names) for each in model.inputs]

    def body(given: Sequence[Value]) -> list[Value]:
        taken = zip(model.inputs, given, strict=True)
        values: dict[str, Held] = {
            each.key: _read(builder, value) if each.dtype == "float16" else value for each, value in taken
        }
        found = _Walk(model, builder, operations, floats).values(model.graph, values, {})
        _require_used(operations)
        tensors = {each.name: _tensor(each, _found(each.key, found)) for each in model.outputs}
        results = counted(builder, tensors, counts).values()
        return [builder.op(f"bits-of-{each.short}", each) if each.short else each for each in results]

    return builder.program(shapes, body)


def _require_used(operations: Operations) -> None:
    if unused := sorted(operations.names - operations.used):
        raise ModelError(
            f"no node of the model calls the operation {unused[0]!r} of compilation.operations",
            hint="remove it from the spec, or export the model with the node that calls it",
        )


def _read(builder: Builder, bits: Value) -> Value:
    """An input of float16, which comes as its bits."""
    return replace(builder.op("f16-of-bits", bits), short="f16")


def _tensor(output: Output, held: Held) -> Value:
    if isinstance(held, Listed):
        raise Unsupported(f"the output {output.name!r} is a sequence, or an optional value that is empty")
    return held


def _found(name: str, values: Mapping[str, Held]) -> Held:
    if name not in values:
        raise Unsupported(f"the output {name!r} is computed nowhere")
    return values[name]


def _shape(given: Input, symbols: set[str]) -> Shape:
    if given.axes is None:
        raise Unsupported(f"the number of axes of the input {given.name!r} is not known: give it in model.shapes")
    if given.dtype not in DTYPES and given.dtype != "float16":
        raise Unsupported(f"the input {given.name!r} has the element type {given.dtype}")
    axes = [BATCH if axis is None and place == 0 else axis for place, axis in enumerate(given.axes)]
    sizes = sizes_of_axes(given.name, axes, symbols)
    return Shape("u16" if given.dtype == "float16" else DTYPES[given.dtype], sizes)


class _Walk:
    def __init__(self, model: Model, builder: Builder, operations: Operations, floats: Floats) -> None:
        self._model, self._builder, self._operations, self._floats = model, builder, operations, floats
        self._known: dict[int, Value] = {}  # by the identity of the array, so that each is written once
        self._faults: dict[str, str] = {}
        self._lowered = 0

    def values(self, graph: Graph, given: Mapping[str, Held], outer: Mapping[str, Held]) -> dict[str, Held]:
        """All values of `graph` by name, from its inputs `given`; `outer` are those of the graphs around it."""
        # An inner graph reads the values of those around it, and hides those whose names it uses itself.
        values: dict[str, Held] = {**outer, **self._constants(graph.tensors), **given}
        for node in graph.nodes:
            self._lowered += 1
            if self._lowered > _MOST_NODES:
                raise Unsupported(f"more than {_MOST_NODES:,} nodes, each turn of a loop that is unrolled counted")
            self._builder.node = node.scope
            made = self._made(node, values)
            # A node may name fewer outputs than its operator has.
            values.update((name, each) for name, each in zip(node.outputs, made, strict=False) if name and each)
        return values

    def _constants(self, tensors: Mapping[str, Tensor]) -> dict[str, Value]:
        """Those that a program can hold; a node that reads another one says why it cannot."""
        found = {}
        for name, tensor in tensors.items():
            if id(tensor) not in self._known:
                try:
                    self._known[id(tensor)] = constant_of(tensor)
                except Unsupported as error:
                    self._faults[name] = str(error)
                    continue
            found[name] = self._known[id(tensor)]
        return found

    def _made(self, node: Node, values: Mapping[str, Held]) -> tuple[Held | None, ...]:
        is_authors = self._operations.are_authors(node.domain, node.op)
        function = self._operations.called if is_authors else OPERATORS.get((node.domain, node.op))
        if function is None:
            raise self._fault(node, *_missing(node.domain))
        if missing := [name for name in node.inputs if name and name not in values]:
            why = self._faults.get(missing[0], "it is computed nowhere before it")
            raise self._fault(node, f"its input {missing[0]!r}: {why}")

        def run(graph: Graph, given: Sequence[Held]) -> tuple[Held, ...]:
            if len(given) != len(graph.inputs):
                raise Unsupported(f"an inner graph has {len(graph.inputs)} inputs, and gets {len(given)}")
            found = self.values(graph, dict(zip(graph.inputs, given, strict=True)), values)
            results = tuple(_found(name, found) for name in graph.outputs)
            if any(isinstance(each, Value) and each.padded is not None for each in results):
                raise Refused("an inner graph gives rows whose number values decide", _OUTSIDE)
            return results

        call = Call(
            node=node,
            version=self._model.opsets.get(node.domain, 1),
            inputs=tuple(values[name] if name else None for name in node.inputs),
            builder=self._builder,
            by_row=self._model.by_row,
            run=run,
        )
        try:
            made: Results | None = None if is_authors else in_integers(call)
            results = _tuple(function(call) if made is None else made)
            if any(isinstance(each, Value) and _is_float(each) for each in results):
                self._floats(node)
            return padded(call, [self._rounded(call, each) for each in results])
        except Unsupported as error:
            hint = error.hint if isinstance(error, Refused) else ""
            raise error if isinstance(error, _OfNode) else self._fault(node, str(error), hint) from None
        # A file is not trusted: numbers of attributes may be of any size, and lists of any length.
        except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
            raise self._fault(node, f"its attributes do not fit its inputs ({_shapes(call) or 'none'})") from error

    def _rounded(self, call: Call, value: Held | None) -> Held | None:
        """A result as one of a short type, if the operator gives that: computed in float32, and rounded."""
        if not isinstance(value, Value) or value.dtype != "f32" or call.op in _AS_GIVEN:
            return value
        short = _short_of(call)
        if short and value.short != short and call.op not in _EXACT:
            value = self._builder.op(f"round-to-{short}", value)
        return value if value.short == short else replace(value, short=short)

    def _fault(self, node: Node, why: str, hint: str = "") -> Unsupported:
        domain = "" if node.domain == ONNX else f"{node.domain}."
        version = self._model.opsets.get(node.domain, 1)
        return _OfNode(f"{domain}{node.op} (node {node.name!r}, opset {version}): {why}", hint)


_MOST_NODES = 500_000
"""The limit of nodes that are lowered, by a file that may have loops within loops: half a minute."""
_SAVE_BASIC = "save the file with ORT_ENABLE_BASIC, or take the one that was not optimized"
_OUTSIDE = "make the rows an output of the graph itself"


def _missing(domain: str) -> tuple[str, str]:
    """Why there is no lowering of an operator, and what to do."""
    if domain == QONNX:
        return "this operator is not supported", "quantize to integers: Quant, BipolarQuant and Trunc are"
    if domain in OWN_DOMAINS:
        return "this operator is not supported", "replace it in the model: tfaot-pkg help onnx-coverage lists what is"
    return "this operator is neither ONNX's nor in compilation.operations of the spec", (
        _SAVE_BASIC if domain.startswith(MICROSOFT) else "supply it there: NAME: {source: NAME.cpp, reference: NAME.py}"
    )


_EXACT = frozenset(
    "Abs Clip Concat Compress DepthToSpace Expand Flatten Gather GatherElements GatherND GlobalMaxPool Identity Max "
    "MaxPool Min Neg Pad ReduceMax ReduceMin Relu Reshape Sign Slice SpaceToDepth Split Squeeze Tile TopK Transpose "
    "Trilu Unsqueeze Where".split()
)
"""Operators whose results are elements of their inputs: they need no rounding."""
_AS_GIVEN = frozenset("ConcatFromSequence Constant ConstantOfShape If Loop OptionalGetElement Scan SequenceAt".split())
"""Operators whose results know whether they are of a short type, as those of inner graphs and items of sequences."""
_TYPED = {"Cast": "to", "EyeLike": "dtype", "MelWeightMatrix": "output_datatype"}
"""Operators with an attribute that has the type of the result."""


def _short_of(call: Call) -> Short:
    """The short type of floats that a node gives; "" if they are not short."""
    attribute = _TYPED.get(call.op)
    if attribute is not None and call.has(attribute):
        return SHORT.get(call.whole(attribute), "")
    if call.op == "CastLike":
        return call.input(1).short
    # Of several floats the first one has the type of the result; scales and the like come behind it.
    return next((each.short for each in call.inputs if isinstance(each, Value) and each.dtype == "f32"), "")


class _OfNode(Refused):
    """What a program cannot represent, with the innermost node."""


def _shapes(call: Call) -> str:
    return ", ".join(str(each.shape) for each in call.inputs if isinstance(each, Value))


def _is_float(made: Value) -> bool:
    """Whether it is computed as floats alone."""
    return made.known is None and made.is_float and not isinstance(made, Scaled | Joined)


def _tuple(made: Results) -> tuple[Held | None, ...]:
    return made if isinstance(made, tuple) else (made,)
