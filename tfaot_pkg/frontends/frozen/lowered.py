"""A model that becomes a program on the host, without TensorFlow: its program, with the ends that the spec asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from tfaot_pkg.analysis.program.ranges import Range
from tfaot_pkg.analysis.program.work import Work
from tfaot_pkg.analysis.rows import Rows
from tfaot_pkg.compiler.attributes import Constant, Trees
from tfaot_pkg.compiler.lowered import Lowered
from tfaot_pkg.compiler.program import (
    NUMPY_TYPES,
    Border,
    Number,
    Operation,
    Program,
    Shape,
    Symbol,
    Unsupported,
    only,
    used,
)
from tfaot_pkg.compiler.text import nodes_of, text_of
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.compiler.work import work, work_of_row
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends import tree_lowering
from tfaot_pkg.frontends.aten_lowering.ends import lowered as aten_lowered
from tfaot_pkg.frontends.aten_lowering.lowering import lower as aten_lower
from tfaot_pkg.frontends.frozen.aten_file import MODULE, read_module
from tfaot_pkg.frontends.hls4ml_lowering.lowering import lowered as hls4ml_lowered
from tfaot_pkg.frontends.onnx_lowering.authored import Operations, Reference
from tfaot_pkg.frontends.onnx_lowering.counted import Uncounted
from tfaot_pkg.frontends.onnx_lowering.ends import lowered as onnx_lowered
from tfaot_pkg.frontends.onnx_lowering.ends import sizes_and_axes
from tfaot_pkg.frontends.onnx_lowering.graph import read, with_sizes
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.frontends.onnx_lowering.table import NAMED_PART, Refused
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.spec.formats import Format
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.worker_program.from_onnx.graphs import GRAPH, TENSORS
from tfaot_pkg.worker_program.messages import graph as messages
from tfaot_pkg.worker_program.messages.forest import packed
from tfaot_pkg.worker_program.messages.graph import Feed, Fetch, FoundSizes, FrozenGraph, Outline, OutlineNode
from tfaot_pkg.worker_program.messages.size_search import search
from tfaot_pkg.worker_program.messages.sources import TREES


def _of_onnx(spec: ModelSpec, parts: Path, reference: Reference) -> Lowered:
    model = spec.model
    symbols = [Symbol(each.name, each.maximum, each.minimum) for each in model.symbols]
    operations = Operations(names=frozenset(model.operations), reference=reference)
    graph = read((parts / GRAPH).read_bytes(), read_arrays(parts / TENSORS))
    return onnx_lowered(graph, symbols, operations, model.counts)


def of_trees(parts: Path) -> Lowered:
    """Trees, steps before them, or steps alone, of which worker_program/from_trees/ wrote `parts`. Raises as `make`."""
    if not (parts / GRAPH).exists():
        return tree_lowering.lowered(parts)
    steps = onnx_lowered(read((parts / GRAPH).read_bytes(), read_arrays(parts / TENSORS)), [])
    return tree_lowering.lowered(parts, steps) if (parts / TREES).exists() else steps


def _of_aten(spec: ModelSpec, parts: Path, _: Reference) -> Lowered:
    symbols = [Symbol(each.name, each.maximum, each.minimum) for each in spec.model.symbols]
    return aten_lowered(read_module(parts / MODULE), symbols)


_LOWERINGS: Mapping[Format, Callable[[ModelSpec, Path, Reference], Lowered]] = {
    "trees": lambda _, parts, __: of_trees(parts),
    "aten": _of_aten,
    # Both are fixed-point numbers: the readers write networks of one form.
    **dict.fromkeys(("conifer", "hls4ml"), lambda _, parts, __: hls4ml_lowered(parts)),
    "onnx": _of_onnx,
    "qonnx": _of_onnx,
    "torch": _of_onnx,
}
"""What makes a program of the parts that a front-end wrote to a folder. Raises ValueError, Unsupported, ModelError."""
Kind = Literal["input", "operation", "output"]
_MOST_NODES = 100
"""Of an outline: a picture of more cannot be read."""
_NOT_DRAWN = frozenset("broadcast constant convert get-tuple-element iota reshape".split())
"""Operations that pass values on, or that no input reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A verified program as `text`, with the arrays and the `nodes` beside it, and what later stages know of it."""

    text: str
    nodes: tuple[str, ...]
    beside: tuple[Array, ...]
    graph: FrozenGraph
    rows: Rows
    ranges: tuple[Range, ...]
    work: Work


def make(spec: ModelSpec, parts: Path, reference: Reference) -> Made:
    """The program of the model of `spec`, of which a front-end wrote `parts`.

    `reference` runs those of operations that the author supplies. Raises ModelError if the program does not have the
    ends that the spec names; ValueError for parts of another form.
    """
    _require_settings(spec)
    try:
        found = _LOWERINGS[spec.model.files.format](spec, parts, reference)
    except Unsupported as error:
        hint = error.hint if isinstance(error, Refused) else ""
        raise ModelError(f"the model cannot become a program: {error}", hint=hint or NAMED_PART) from error
    program = verified(found.program, "lowering")
    inputs, outputs = _border(spec, found)
    chosen = only(program, Border(tuple(map(found.inputs.index, inputs)), tuple(map(found.outputs.index, outputs))))
    program = verified(replace(chosen, entry=replace(chosen.entry, operations=_used(chosen))), "lowering")
    beside: list[Array] = []
    text = text_of(program, beside)
    names = [_renamed(keys, ours) for keys, ours in ((spec.model.input_keys, spec.model.inputs),
                                                     (spec.model.output_keys, spec.model.outputs))]  # fmt: skip
    feeds = [names[0].get(each, each) for each in inputs]
    fetches = [names[1].get(each, each) for each in outputs]
    meetings = (replace(each, output=names[1].get(each.output, each.output)) for each in found.rows.meetings)
    return Made(
        text=text,
        nodes=tuple(nodes_of(program)),
        beside=tuple(beside),
        graph=_graph(program, feeds, fetches, found, (inputs, outputs)),
        rows=Rows(meetings=tuple(meetings)),
        ranges=tuple(replace(each, name=names[0].get(each.name, each.name)) for each in found.ranges),
        work=_work(program),
    )


def sizes_of(spec: ModelSpec, parts: Path, reference: Reference) -> FoundSizes:
    """The sizes of symbols for which the operators of a file have a lowering. Raises ValueError as `make`."""
    lowered_at = _lowering_at(spec, parts, reference)

    def fault(sizes: Mapping[str, int]) -> str:
        try:
            lowered_at(sizes)
        except Uncounted:  # whatever the sizes are
            return ""
        except (Unsupported, ModelError) as error:
            return str(error)
        return ""

    symbols = [messages.Symbol(name=s.name, minimum=s.minimum, maximum=s.maximum) for s in spec.model.symbols]
    weights = read_arrays(parts / TENSORS) if spec.model.files.format != "aten" else {}
    return search(symbols, fault, list(dict.fromkeys(size for each in weights.values() for size in each.shape)))


def _lowering_at(spec: ModelSpec, parts: Path, reference: Reference) -> Callable[[Mapping[str, int]], object]:
    """What lowers the model at sizes of its symbols."""
    if spec.model.files.format == "aten":
        module = read_module(parts / MODULE)
        return lambda sizes: aten_lower(module, [Symbol(name, size, size) for name, size in sizes.items()])
    graph = read((parts / GRAPH).read_bytes(), read_arrays(parts / TENSORS))
    operations = Operations(names=frozenset(spec.model.operations), reference=reference)
    return lambda sizes: lower(with_sizes(graph, sizes), operations=operations, counts=spec.model.counts)


def _require_settings(spec: ModelSpec) -> None:
    """Raise ModelError for settings that only TensorFlow's models have."""
    if spec.compilation.variables:
        raise ModelError("compilation.variables is set, and the model has no variables", hint="remove it from the spec")


def _used(program: Program) -> tuple[Operation, ...]:
    return used(program.entry.operations, program.entry.results)


def _renamed(keys: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    # There are no keys if the spec renames nothing (ModelInfo).
    return dict(zip(keys, names, strict=False))


def _border(spec: ModelSpec, found: Lowered) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The file's names of inputs and outputs in the spec's order. Raises ModelError if it does not have them."""
    model = spec.model
    inputs = _in_order("inputs", found.inputs, model.input_keys or model.inputs)
    outputs = _in_order("outputs", found.outputs, model.output_keys or model.outputs)
    theirs = {ours: key for key, ours in _renamed(model.input_keys, model.inputs).items()}
    parameters = {name: each.shape for name, each in zip(found.inputs, found.program.entry.parameters, strict=True)}
    for name, wanted in model.shapes.items():
        key = theirs.get(name, name)
        shape = sizes_and_axes(key, parameters[key], found.program.symbols)[0] if key in parameters else None
        if shape is not None and tuple(wanted) != shape:
            raise ModelError(
                f"model.shapes.{name} is {list(wanted)}, but the model's input has the shape {list(shape)}",
                hint="leave it out: null is the batch, of which calls choose the size",
            )
    return inputs, outputs


def _in_order(kind: str, found: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    if wanted and sorted(wanted) != sorted(found):
        raise ModelError(
            f"model.{kind} must list each of the model's {kind} once: {', '.join(wanted)}",
            hint=f"the {kind} are: {', '.join(found)}",
        )
    return tuple(wanted) or tuple(sorted(found))


def _graph(
    program: Program, inputs: Sequence[str], outputs: Sequence[str], found: Lowered, border: tuple[Sequence[str], ...]
) -> FrozenGraph:
    """`border` are the file's names of `inputs` and `outputs`."""
    known = program.entry.by_id()
    taken = zip(inputs, (each.shape for each in program.entry.parameters), border[0], strict=True)
    given = zip(outputs, (known[result].shape for result in program.entry.results), border[1], strict=True)
    return FrozenGraph(
        inputs=tuple(
            Feed(name=name, node="", dtype=_dtype(each), shape=sizes, axes=axes, stands_for=found.carried.get(key, ""))
            for name, each, key in taken
            for sizes, axes in [sizes_and_axes(name, each, program.symbols)]
        ),
        outputs=tuple(
            Fetch(
                name=name,
                node="",
                index=0,
                dtype=_dtype(each),
                shape=sizes,
                axes=axes,
                stands_for=found.carried.get(key, ""),
            )
            for name, each, key in given
            for sizes, axes in [sizes_and_axes(name, each, program.symbols)]
        ),
        symbols=tuple(
            messages.Symbol(name=each.name, minimum=each.minimum, maximum=each.maximum) for each in program.symbols
        ),
        weights=(),
        segments=(),
        warnings=found.warnings,
        graph=_outline(program, inputs, outputs),
    )


def _work(program: Program) -> Work:
    per_row = work_of_row(program).operations
    return Work(
        constant_bytes=sum(map(_bytes, program.entry.everything())),
        operations_per_call=max(0.0, work(program, 2).operations - 2 * per_row),
        operations_per_row=per_row,
    )


def _dtype(shape: Shape) -> str:
    return str(NUMPY_TYPES[shape.dtype])


def _bytes(operation: Operation) -> int:
    match operation.attributes:
        case Constant(literal=literal):
            return literal.constant.nbytes
        case Trees(forest=forest):
            return packed(forest).nbytes
    return 0


def _outline(program: Program, inputs: Sequence[str], outputs: Sequence[str]) -> Outline | None:
    """The operations to draw; None if there are too many."""
    nodes: list[OutlineNode] = []
    kind: Kind
    places: dict[int, tuple[int, ...]] = {}  # value -> the nodes that it comes from
    for each in program.entry.operations:
        sources = tuple(sorted({place for operand in each.operands for place in places[operand]}))
        if each.opcode == "parameter":
            name, kind = inputs[Number.of(each).number], "input"
        elif not sources or each.opcode in _NOT_DRAWN:
            places[each.id] = sources
            continue
        else:
            name, kind = f"{each.opcode} {each.id}", "operation"
        places[each.id] = (len(nodes),)
        nodes.append(_node(name, kind, each.opcode if kind == "operation" else kind, each.shapes[0], sources))
    for name, result in zip(outputs, program.entry.results, strict=True):
        nodes.append(_node(name, "output", "output", program.entry.by_id()[result].shape, places[result]))
    return Outline(format=1, nodes=tuple(nodes)) if len(nodes) <= _MOST_NODES else None


def _node(name: str, kind: Kind, op: str, shape: Shape, inputs: tuple[int, ...]) -> OutlineNode:
    return OutlineNode(
        name=name,
        op=op,
        kind=kind,
        dtype=_dtype(shape),
        shape=tuple(size.constant if size.is_constant else None for size in shape.sizes),
        inputs=inputs,
        members=1,
    )
