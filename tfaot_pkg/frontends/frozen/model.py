"""`FrozenModel`: one signature of a SavedModel as a graph without variables, or a program; its weights beside it."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.program.ranges import Range, ranges_of
from tfaot_pkg.analysis.program.work import Work, work_of_listing
from tfaot_pkg.analysis.rows import Rows
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.text import parse, with_nodes
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen import lowered
from tfaot_pkg.frontends.frozen.claims import SegmentFacts, facts_of, require_consistent
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.frontends import frontend_identity
from tfaot_pkg.frontends.toolchain.references import References
from tfaot_pkg.frontends.toolchain.worker import WorkerPool, from_worker
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.arrays import Array, mapped_arrays
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.keys import Key, key_of
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.sandbox import required
from tfaot_pkg.ground.signature import DType, Part, Signature, StateTensor, Symbol, Tensor
from tfaot_pkg.spec.document import call_document, written
from tfaot_pkg.spec.source.tree import SourceTree
from tfaot_pkg.spec.types import Compilation, GraphFile, KerasFile, ModelSpec
from tfaot_pkg.worker_program.messages import graph as messages
from tfaot_pkg.worker_program.messages.carriers import PARTS
from tfaot_pkg.worker_program.messages.conversions import StateTensor as FoundState
from tfaot_pkg.worker_program.messages.elements import held_type
from tfaot_pkg.worker_program.messages.graph import (
    Checked,
    Chosen,
    Feed,
    Fetch,
    FoundSegment,
    FoundSizes,
    Freeze,
    Frozen,
    FrozenGraph,
    Interface,
    Weight,
)
from tfaot_pkg.worker_program.messages.listing import HloListing
from tfaot_pkg.worker_program.messages.sources import TreesFacts
from tfaot_pkg.worker_program.messages.wire import decoded, encoded, plain

STAGE = "frozen"
_LISTING, _STATE = "hlo.json", "state.bin"
_WEIGHTS, _PROGRAM, _NODES = "weights.bin", "program.txt", "nodes.json"
_WORKER_PROGRAM = Path(__file__).resolve().parents[2] / "worker_program"

SHARED_FROM = 1024
"""The least size, in bytes, of constants that batch sizes and targets share (decision 003)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of a program that XLA compiles (worker_program/segments.py): its border, its own graph, and its facts."""

    found: FoundSegment
    graph: Path
    facts: SegmentFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class FrozenModel:
    """`graph.pb` and `weights.bin`, arrays one after the other, in `folder`.

    `inputs`, `outputs` and `weights` name nodes of the graph, in the order of arguments and results; `signature`
    describes them to users. `warnings` say what compiled code does differently. `confinement` is the level of the
    sandbox (ground/sandbox/policy.py) in which the model was loaded. `work` is its amount of computation, for
    estimates of costs. `outline` is the graph to draw, as JSON values (worker_program/outline.py), or None. `rows`
    says where rows of a batch interact. `origin` names the software that wrote the model's file ("" for
    TensorFlow). `ranges` are the numbers that inputs take which are indices, lengths, divisors or
    the like. The files of operations that the author supplies are in `folder` as well. `trees` says how decision
    trees are called; None for others. If it `is_program`, no TensorFlow took part: there is no graph, and no
    listing.
    """

    folder: Path
    key: Key
    signature: Signature
    inputs: tuple[Feed, ...]
    outputs: tuple[Fetch, ...]
    weights: tuple[Weight, ...]
    segments: tuple[Segment, ...]
    warnings: tuple[str, ...]
    work: Work
    outline: Mapping[str, object] | None
    confinement: str
    rows: Rows
    origin: str = ""
    ranges: tuple[Range, ...] = ()
    trees: TreesFacts | None = None
    is_program: bool = False

    def program(self) -> Program:
        """The program, if it `is_program`."""
        program = parse((self.folder / _PROGRAM).read_text(), self.listed_constants())
        return with_nodes(program, json.loads((self.folder / _NODES).read_text()))

    @property
    def graph(self) -> Path:
        return self.folder / "graph.pb"

    def listing(self) -> HloListing:
        """The computation as HLO at several batch sizes, with calls of `segments`; a model for XLA alone has none."""
        return decoded(HloListing, json.loads((self.folder / _LISTING).read_text()), _LISTING)

    def listed_constants(self) -> list[Array]:
        """The values of the listing's parameters after the inputs, then weights that only XLA's code reads.

        Of a program, the arrays beside its text. Raises ValueError for a file of another form.
        """
        # Mapped, not read: these are the weights of the model.
        return mapped_arrays(self.folder / _WEIGHTS)

    @property
    def state_values(self) -> bytes:
        """The trained values of `signature.state`, each at its offset."""
        return (self.folder / _STATE).read_bytes() if self.signature.state else b""

    def trained_state(self) -> dict[str, Array]:
        """The trained values of `signature.state`, by input."""
        values, inputs = self.state_values, {tensor.name: tensor for tensor in self.signature.inputs}
        return {
            each.input: np.frombuffer(
                values, held_type(inputs[each.input].dtype.value), math.prod(inputs[each.input].row_shape), each.offset
            ).reshape(inputs[each.input].row_shape)
            for each in self.signature.state
        }

    def operation_source(self, name: str) -> Path:
        """The C++ file of an operation that the author supplies."""
        return self.folder / f"{name}.cpp"

    def operation_reference(self, name: str) -> Path:
        """The Python file of its reference."""
        return self.folder / f"{name}.py"

    @property
    def weights_file(self) -> Path | None:
        """The file that has `weights`; None if there are none."""
        return self.folder / _WEIGHTS if self.weights else None

    def weight(self, weight: Weight) -> bytes:
        """The values of one of `weights`, row-major."""
        with (self.folder / _WEIGHTS).open("rb") as blob:
            blob.seek(weight.offset)
            return blob.read(weight_size(weight))


def weight_size(weight: Weight) -> int:
    """Bytes of one of a model's weights."""
    return math.prod(weight.shape) * DType(weight.dtype).itemsize


def worker_program_digest() -> str:
    """The digest of the program that runs in toolchains: a part of every key that depends on its results."""
    return resources.digest(_WORKER_PROGRAM)


def frozen_key(spec: ModelSpec, source: SourceTree, toolchain_identity: str) -> Key:
    files = spec.model.files
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            # Only what the frozen graph depends on: another batch size or target does not freeze the model again.
            "source": source.digest,
            "format": files.format,
            "roles": {"graph": files.path, **spec.model.files_beside} if isinstance(files, GraphFile) else {},
            **({"operations": written(spec.model.operations)} if spec.model.operations else {}),
            **({"trees": call_document(spec.model.call)} if spec.model.call else {}),
            "constants": written(spec.model.constants),
            "feeds": list(spec.model.feeds),
            "seed": spec.model.seed,
            "answers": files.answers if isinstance(files, KerasFile) else "",
            "counts": dict(spec.model.counts),
            "signature": spec.model.serving_key,
            "signatures": [asdict(each) for each in spec.model.signatures],
            "tags": list(spec.model.tags),
            "shapes": {name: spec.model.shape_document(name) for name in spec.model.shapes},
            "order": {"inputs": list(spec.model.inputs), "outputs": list(spec.model.outputs)},
            "renamed": {"inputs": list(spec.model.input_keys), "outputs": list(spec.model.output_keys)},
            "variables": {"read": spec.compilation.variables.read, "update": spec.compilation.variables.update},
            "max_iterations": spec.compilation.max_iterations,
            "weights": spec.compilation.weights,
            "listed": _is_listed(spec.compilation),
            "shared_from": SHARED_FROM,
            "toolchain": toolchain_identity,
            # A newer front-end may read the same file in another way.
            "frontend": frontend_identity(files.format),
            # Not by code_digest, which covers the modules that this process imports.
            "worker": worker_program_digest(),
        },
    )


def _is_listed(compilation: Compilation) -> bool:
    """Whether the model may be compiled to a program instead of by XLA (native/compiled/program.py)."""
    return compilation.engine != "xla"


def freeze(
    spec: ModelSpec, saved: SavedModel, *, key: Key, pool: WorkerPool, cache: BuildCache, progress: Progress
) -> FrozenModel:
    """The frozen model of `spec`, from the cache if possible.

    Raises ModelError, SourceError (files that changed), ToolchainError, StorageError.
    """
    with progress.step("freeze") as step:
        if cache.has(STAGE, key):
            step.skip("cached")
        folder = cache.get_or_make(STAGE, key, lambda folder: _make(spec, saved, key, pool, folder))
    return _read(folder, key)


def chosen(spec: ModelSpec, model: Path, state: Sequence[FoundState] = ()) -> Chosen:
    """The signature that `spec` names, in the SavedModel at `model`, with its `state`."""
    # State comes last: the spec's order of inputs and outputs, if there is one, does not name it.
    inputs, outputs = [each.input for each in state], [each.output for each in state if each.output]
    return Chosen(
        folder=str(model),
        tags=spec.model.tags,
        signature=spec.model.serving_key,
        shapes=spec.model.shapes,
        inputs=(*spec.model.inputs, *inputs) if spec.model.inputs else (),
        outputs=(*spec.model.outputs, *outputs) if spec.model.outputs else (),
        axes=spec.model.axes,
        max_iterations=spec.compilation.max_iterations,
        symbols=tuple(messages.Symbol(name=s.name, minimum=s.minimum, maximum=s.maximum) for s in spec.model.symbols),
        operations=tuple(sorted(spec.model.operations)),
    )


def lowered_sizes(spec: ModelSpec, saved: SavedModel, pool: WorkerPool) -> FoundSizes:
    """The sizes of symbols at which the model of `spec` becomes a program, without TensorFlow. Raises as `freeze`."""
    with saved.named() as parts:
        operations = saved.operations()
        references = References(pool, {name: reference for name, (_, reference) in operations.items()})
        with from_worker():
            return lowered.sizes_of(spec, parts, references.run)


def _make_program(spec: ModelSpec, saved: SavedModel, key: Key, pool: WorkerPool, folder: Path) -> None:
    with saved.named() as parts:
        original = saved.original
        operations = saved.operations()
        references = References(pool, {name: reference for name, (_, reference) in operations.items()})
        with from_worker():
            made = lowered.make(spec, parts, references.run)
            stored = _Stored(
                model=made.graph,
                confinement=required().level.value,
                rows=made.rows,
                segments=(),
                origin=original.origin,
                notes=original.notes,
                trees=original.trees,
                state=(),
                parts=(),
                ranges=made.ranges,
                work=made.work,
                is_program=True,
            )
    _copy(operations, folder)
    (folder / _PROGRAM).write_text(made.text)
    (folder / _NODES).write_text(json.dumps(made.nodes))
    with (folder / _WEIGHTS).open("wb") as file:
        for array in made.beside:
            np.save(file, array, allow_pickle=False)
    (folder / "frozen.json").write_text(encoded(stored))
    _read(folder, key)


def _make(spec: ModelSpec, saved: SavedModel, key: Key, pool: WorkerPool, folder: Path) -> None:
    if not pool.environment.toolchain.has_tensorflow:
        _make_program(spec, saved, key, pool, folder)
        return
    made = pool.new_folder(STAGE)
    with saved.named() as model:
        state, values = saved.state
        request = Freeze(
            model=chosen(spec, model, state),
            weights=spec.compilation.weights,
            threshold=SHARED_FROM,
            out=str(made),
            constants=_is_listed(spec.compilation),
        )
        frozen = pool.get().call(request, Frozen)
        original = saved.original
        operations = saved.operations()
    # Before the files are checked, because the worker still runs, and could change its own copy afterwards.
    pool.take(made, folder)
    with from_worker():
        whole = signature_of(frozen.model)
        require_consistent(frozen, whole, spec.model, state, folder)
        _require_weights(frozen.model, folder)
        # On the host: whether rows may share a batch must not be decided by a process that read the model.
        rows = rows_of(frozen.hlo, whole)
        pairs = zip(frozen.model.segments, frozen.parts, strict=True)
        segments = tuple(facts_of(each, part, signature_of(each)) for each, part in pairs)
        kept = tuple(StateTensor(name=s.name, input=s.input, output=s.output, offset=s.offset) for s in state)
        if values is not None:
            _require_state(frozen.model, state, values)
            shutil.copyfile(values, folder / _STATE)
        stored = _Stored(
            model=frozen.model,
            confinement=required().level.value,
            rows=rows,
            segments=segments,
            origin=original.origin,
            notes=original.notes,
            trees=original.trees,
            state=kept,
            parts=parts_of(spec, whole),
            ranges=ranges_of(frozen.hlo, whole),
            work=work_of_listing(frozen.hlo, len(frozen.model.inputs), _bytes_of(folder)),
        )
        _copy(operations, folder)
        (folder / "frozen.json").write_text(encoded(stored))
        if _is_listed(spec.compilation):
            # Without the segments, if there are any: XLA compiles them separately, and the program calls them.
            (folder / _LISTING).write_text(encoded(frozen.cut or frozen.hlo))
        # Read back at once: an unreadable result must fail here, and not in the next run from the cache.
        _read(folder, key)


def _copy(operations: Mapping[str, tuple[Path, Path]], folder: Path) -> None:
    """Copy source and reference of each operation that the author supplies."""
    for name, (source, reference) in operations.items():
        shutil.copyfile(source, folder / f"{name}.cpp")
        shutil.copyfile(reference, folder / f"{name}.py")


def _bytes_of(folder: Path) -> int:
    """The bytes of a frozen graph with its constants."""
    return sum((folder / name).stat().st_size for name in ("graph.pb", _WEIGHTS))


def _require_weights(model: FrozenGraph, folder: Path) -> None:
    """Raise ValueError if the file of weights is shorter than the weights in it."""
    end = max((weight.offset + weight_size(weight) for weight in model.weights), default=0)
    # Offsets come from the worker: a file that is too short would give wrong weights, or none, without an error.
    if end and (folder / _WEIGHTS).stat().st_size < end:
        raise ValueError("the file of weights is too short")


def _require_state(model: FrozenGraph, state: Sequence[FoundState], values: Path) -> None:
    """Raise ModelError if a variable changes its shape.

    ValueError if `state` does not fit the model's inputs and outputs, or the file of its `values`.
    """
    signature = signature_of(model)
    inputs, outputs = ({tensor.name: tensor for tensor in border} for border in (signature.inputs, signature.outputs))
    for each in state:
        # An instance of the library has one buffer of fixed size for each state.
        if each.output and outputs[each.output].shape != inputs[each.input].shape:
            raise ModelError(
                f"the variable {each.name!r} changes its shape, from {inputs[each.input]} to {outputs[each.output]}",
                hint="state has fixed shapes: give the variable its largest one, and count the rows that are used",
            )
        for tensor in (inputs[each.input], *([outputs[each.output]] if each.output else [])):
            if (tensor.dtype.value, tensor.shape) != (each.dtype, each.shape):
                raise ValueError(f"the variable {each.name!r} is {each.dtype}{each.shape}, {tensor.name!r} is not")
    # Offsets come from the worker, and the library reads from them: beyond the file would be beyond its data.
    sizes = (each.offset + math.prod(each.shape) * DType(each.dtype).itemsize for each in state)
    if max(sizes, default=0) > values.stat().st_size:
        raise ValueError("the file of variables is too short")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """frozen.json of the build cache; `segments` has the facts of each segment."""

    model: FrozenGraph
    confinement: str
    rows: Rows
    segments: tuple[SegmentFacts, ...]
    origin: str
    notes: tuple[str, ...]
    trees: TreesFacts | None
    state: tuple[StateTensor, ...]
    parts: tuple[Part, ...]
    ranges: tuple[Range, ...]
    work: Work
    is_program: bool = False


def parts_of(spec: ModelSpec, whole: Signature) -> tuple[Part, ...]:
    """The signatures that were joined into `whole`."""

    # Joining put each signature's name and a slash before the names of its tensors (worker_program, `Join`).
    def names(prefix: str, chosen: Sequence[str], tensors: Sequence[Tensor]) -> tuple[str, ...]:
        found = [tensor.name for tensor in tensors if tensor.name.startswith(prefix)]
        return tuple(sorted(found, key=lambda name: chosen.index(name.removeprefix(prefix)) if chosen else name))

    return tuple(
        Part(
            name=each.name,
            inputs=names(f"{each.name}/", each.inputs, whole.inputs),
            outputs=names(f"{each.name}/", each.outputs, whole.outputs),
        )
        for each in spec.model.signatures
    )


def _read(folder: Path, key: Key) -> FrozenModel:
    stored = decoded(_Stored, json.loads((folder / "frozen.json").read_text()), "frozen.json")
    model = stored.model
    return FrozenModel(
        folder=folder,
        key=key,
        signature=replace(
            signature_of(model),
            symbols=tuple(Symbol(name=s.name, minimum=s.minimum, maximum=s.maximum) for s in model.symbols),
            state=stored.state,
            parts=stored.parts,
        ),
        inputs=model.inputs,
        outputs=model.outputs,
        weights=model.weights,
        segments=tuple(
            Segment(found=each, graph=folder / f"{each.name}.pb", facts=facts)
            for each, facts in zip(model.segments, stored.segments, strict=True)
        ),
        warnings=(*stored.notes, *model.warnings, *stored.rows.warnings()),
        work=stored.work,
        outline=None if model.graph is None else plain(model.graph),
        confinement=stored.confinement,
        rows=stored.rows,
        origin=stored.origin,
        ranges=stored.ranges,
        trees=stored.trees,
        is_program=stored.is_program,
    )


def _tensor(item: messages.Tensor | Feed | Fetch) -> Tensor:
    made = Tensor(name=item.name, dtype=DType(item.dtype), shape=item.shape or (), axes=item.axes)
    if isinstance(item, messages.Tensor) or not item.stands_for:
        return made
    # A complex number is carried as two floats along an additional last axis, which users do not see.
    parts = item.stands_for in PARTS
    found = replace(
        made,
        dtype=DType(item.stands_for),
        shape=made.shape[:-1] if parts else made.shape,
        axes=made.axes[:-1] if parts else made.axes,
    )
    if found.carried != made:
        raise ValueError(f"{item.name} does not carry {item.stands_for}")
    return found


def signature_of(border: FrozenGraph | FoundSegment | Checked | Interface) -> Signature:
    """The worker's inputs and outputs as a Signature. Raises ValueError for dtypes that libraries do not support."""

    def tensors(items: Iterable[messages.Tensor | Feed | Fetch]) -> tuple[Tensor, ...]:
        return tuple(_tensor(item) for item in items)

    return Signature(inputs=tensors(border.inputs), outputs=tensors(border.outputs))
