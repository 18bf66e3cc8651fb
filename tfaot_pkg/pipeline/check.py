"""Examine a model before a build: the result of `check`, and the first spec that `init` writes."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfaot_pkg.analysis.accuracy import require_bars
from tfaot_pkg.analysis.program.independence import rows_of
from tfaot_pkg.analysis.rows import Rows
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.errors import ModelError, SpecError, TfaotError
from tfaot_pkg.frontends.frozen.model import chosen, freeze, frozen_key, lowered_sizes, parts_of, signature_of
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.frozen.source_model import proposed_shapes, proposed_signature, with_names_of_axes
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, NEWEST_VERSION
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS
from tfaot_pkg.frontends.toolchain.worker import from_worker
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.native.compiled.flags import require_flags
from tfaot_pkg.native.compiled.program import engine_of, require_engine
from tfaot_pkg.package.tree import check_class_name, names_note
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.pipeline.spec_completion import Accepted, Attempt, Inputs, Settled, Sizes, settled
from tfaot_pkg.spec.form import SCHEMA_ID, json_schema, modeline
from tfaot_pkg.spec.formats import FILE_FORMATS, FileFormat
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.spec.recognition import recognized
from tfaot_pkg.spec.rules import licence_note, name_fault, version_fault
from tfaot_pkg.spec.scaffold import DEFAULT_BATCH_SIZES, scaffold, stated_call
from tfaot_pkg.spec.tuning import outdated_note
from tfaot_pkg.spec.types import (
    Compilation,
    FolderSource,
    GraphFile,
    ModelInfo,
    ModelSpec,
    SavedModelFiles,
    files_of,
)
from tfaot_pkg.worker_program.messages.conversions import ProposedGraph, ProposeGraph
from tfaot_pkg.worker_program.messages.graph import (
    Check,
    Checked,
    FindSizes,
    FoundSizes,
    Inspect,
    Inspected,
    Interface,
)
from tfaot_pkg.worker_program.messages.requests import ListOperations, OperationTable

_NAMELESS = re.compile(r"saved_?model|[0-9]+")
"""Names of folders that hold any model: TensorFlow Serving numbers the versions of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationCheck:
    """One type of operation in a model; `problems` says why XLA cannot compile it, one line per node."""

    name: str
    count: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckResult:
    """The result of `check`.

    `rows` is None if the model cannot be compiled, `table` (operation -> dtypes by kernel) if it was not requested.
    """

    toolchain: str
    signature: Signature
    rows: Rows | None
    operations: tuple[OperationCheck, ...]
    warnings: tuple[str, ...]
    table: Mapping[str, tuple[str, ...]] | None

    @property
    def compilable(self) -> bool:
        return not any(operation.problems for operation in self.operations)

    @property
    def interface(self) -> tuple[str, ...]:
        if not self.signature.parts:
            return tuple(_interface(self.signature))
        return tuple(
            line
            for part in self.signature.parts
            for line in (f"signature {part.name}", *(f"  {each}" for each in _interface(self.signature.of(part))))
        )

    def as_dict(self) -> dict[str, object]:
        return {
            "toolchain": self.toolchain,
            "compilable": self.compilable,
            "signature": self.signature,
            **({} if self.rows is None else self.rows.as_dict()),
            "operations": [
                {"name": op.name, "count": op.count, "compilable": not op.problems, "problems": list(op.problems)}
                for op in self.operations
            ],
            "warnings": list(self.warnings),
            **(
                {"table": {name: list(dtypes) for name, dtypes in self.table.items()}} if self.table is not None else {}
            ),
        }


def _interface(signature: Signature) -> Iterator[str]:
    yield from (f"input {tensor}" for tensor in signature.inputs)
    yield from (f"output {tensor}" for tensor in signature.outputs)


def spec_of(path: Path, defines: Mapping[str, str], *, signature: str, tensorflow: str | None) -> ModelSpec:
    """The spec at `path`; for a SavedModel's folder or a model's file, one with defaults. Raises SpecError."""
    is_model = recognized(path) is not None or path.is_dir()
    spec = _unnamed_spec(path, signature) if is_model else load_spec(path, defines)
    if tensorflow is None:
        return spec
    return replace(spec, compilation=replace(spec.compilation, tensorflow=tensorflow))


def _model_info(
    path: Path, found: FileFormat | None, signature: str, *, name: str = "model", version: str = "0.1"
) -> ModelInfo:
    """The model's part of a spec for `path`, which is relative to it; `found` is None for a SavedModel."""
    files = files_of(found.field, path.as_posix()) if found else None
    return ModelInfo(
        name=name, version=version, files=files or SavedModelFiles(path=path.as_posix(), serving_key=signature)
    )


def _unnamed_spec(path: Path, signature: str) -> ModelSpec:
    absolute = path.absolute()
    return ModelSpec(
        path=absolute.parent / "spec.yaml",
        model=_model_info(Path(absolute.name), recognized(path), signature),
        source=FolderSource(path=absolute.parent),
        compilation=Compilation(batch_sizes=(1,)),
    )


def check_model(spec: ModelSpec, pipeline: Pipeline, *, table: bool) -> CheckResult:
    """Ask the toolchain about every operation of the model, and check other reasons why a build would reject it.

    Raises ModelError if the operations cannot be listed, or if the model has symbols and cannot become a program;
    SpecError for flags that the toolchain does not accept, and for a name that no class can have.
    """
    check_class_name(spec)
    if spec.is_lowered:
        return _check_program(spec, pipeline, table=table)
    source = pipeline.source(spec)
    environment = pipeline.environment_for(spec, source)
    with pipeline.workers(environment) as pool:
        # `check` compiles nothing, so XLA itself would not read the flags.
        require_flags(spec, pool=pool, cache=pipeline.cache, progress=pipeline.progress)
        with pipeline.progress.step("check"):
            saved = SavedModel(spec.model, source, pool, spec.compilation.variables)
            with saved.named() as model:
                asked = Check(model=chosen(spec, model, saved.state[0]), batch_sizes=spec.compilation.batch_sizes)
                answer = pool.get().call(asked, Checked)
                notes = saved.original.notes
            listing = pool.get().call(ListOperations(), OperationTable).operations if table else None
        if spec.model.symbols and not answer.unsupported:
            # XLA compiles for fixed sizes, so a model with symbols must become a program.
            facts = pipeline.toolchain_facts(spec)
            key = frozen_key(spec, source, facts.identity)
            frozen = freeze(spec, saved, key=key, pool=pool, cache=pipeline.cache, progress=pipeline.progress)
            require_engine(spec, frozen, engine_of(spec, frozen, facts.toolchain)[0])
    with from_worker():
        signature = signature_of(answer)
        signature = replace(signature, parts=parts_of(spec, signature))
        require_bars(spec, signature)
        rows = None if answer.hlo is None else rows_of(answer.hlo, signature)
        return CheckResult(
            toolchain=environment.toolchain.name,
            signature=signature,
            rows=rows,
            operations=_operations(answer),
            warnings=(*notes, *answer.warnings, *_notes(spec, signature), *(() if rows is None else rows.warnings())),
            table=None if listing is None else {name: _kernels(listing[name]) for name in sorted(listing)},
        )


def _check_program(spec: ModelSpec, pipeline: Pipeline, *, table: bool) -> CheckResult:
    """`check_model` for a model that becomes a program without TensorFlow: its operations are those of the program."""
    source, facts = pipeline.source(spec), pipeline.toolchain_facts(spec)
    with pipeline.workers(pipeline.environment_for(spec, source)) as pool:
        require_flags(spec, pool=pool, cache=pipeline.cache, progress=pipeline.progress)
        saved = SavedModel(spec.model, source, pool, spec.compilation.variables)
        key = frozen_key(spec, source, facts.identity)
        frozen = freeze(spec, saved, key=key, pool=pool, cache=pipeline.cache, progress=pipeline.progress)
        with pipeline.progress.step("check"):
            require_bars(spec, frozen.signature)
            require_engine(spec, frozen, engine_of(spec, frozen, facts.toolchain)[0])
    counts = Counter(each.opcode for each in frozen.program().entry.everything())
    return CheckResult(
        toolchain=facts.toolchain.name,
        signature=frozen.signature,
        rows=frozen.rows,
        operations=tuple(
            OperationCheck(name=name, count=counts[name], problems=())
            for name in sorted(counts)
            if name not in ("constant", "parameter")
        ),
        warnings=(*frozen.warnings, *_notes(spec, frozen.signature)),
        table=dict.fromkeys(sorted(OPERATIONS), ()) if table else None,
    )


def _notes(spec: ModelSpec, signature: Signature) -> Iterator[str]:
    """Notes about the spec that are not faults."""
    yield from filter(None, (licence_note(spec.model.license), outdated_note(spec), names_note(signature)))
    floats = [tensor.name for tensor in signature.outputs if tensor.dtype.is_inexact]
    # Only floats are compared with tolerances.
    if floats and spec.validation.atol == 0:
        if spec.validation.rtol == 0:
            yield (
                "validation.rtol and validation.atol are 0: the build fails unless every answer has the very bits of "
                f"the framework's ({', '.join(floats)}); compiled code adds in another order, so few models pass"
            )
        else:
            yield (
                "validation.atol is 0: where the framework's answer is 0, or tiny beside the terms of its sum, the "
                f"build fails unless the library's is as exact ({', '.join(floats)})"
            )


def _operations(answer: Checked) -> tuple[OperationCheck, ...]:
    problems: dict[str, list[str]] = {}
    for fault in answer.unsupported:
        problems.setdefault(fault.operation, []).append(f"{fault.node}: {fault.why}")
    # Tables are not among the operations that are counted, because their content becomes constants.
    counts = {**{name: len(texts) for name, texts in problems.items()}, **answer.operations}
    return tuple(
        OperationCheck(name=name, count=counts[name], problems=tuple(problems.get(name, ()))) for name in sorted(counts)
    )


def _kernels(kernels: Sequence[Mapping[str, Sequence[str]]]) -> tuple[str, ...]:
    """One text per kernel: `T=float32,float64`."""
    texts = {" ".join(f"{k}={','.join(v)}" for k, v in sorted(kernel.items())) for kernel in kernels}
    return tuple(sorted(text for text in texts if text))


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstSpec:
    """The text of a first spec, and the model's signature.

    `fault` says why `check` refuses it; None if it does not. `notes` are what the model's file leaves open, for which
    the spec has a value that may not be the author's.
    """

    text: str
    signature: Signature
    fault: TfaotError | None
    notes: tuple[str, ...]


def scaffold_spec(
    model: Path,
    output: Path,
    *,
    name: str | None,
    version: str,
    signature: str,
    tensorflow: str | None,
    beside: Mapping[str, Path],
    pipeline: Pipeline,
    has_schema: bool = False,
) -> tuple[ModelSpec, FirstSpec]:
    """Write a first spec of the SavedModel or the file `model` to `output`; it, as it is read, and how it was found.

    `beside` has the files that a graph is used with, by their fields of GraphFile. `has_schema` also writes the JSON
    Schema of specs beside it, for editors, which the spec then names.
    Raises SpecError, ModelError, StorageError.
    """
    chosen = name or name_from(model)
    # Before a worker is started, because these checks need no TensorFlow.
    for fault in (name_fault(chosen), version_fault(version)):
        if fault:
            raise SpecError(fault, hint="choose a name with --name and a version with --version")
    if output.exists():
        raise SpecError(f"{output} exists already", hint="remove it, or name another file with --output")
    _require_model(model)
    spec = spec_of(model, {}, signature=signature, tensorflow=tensorflow or DEFAULT_VERSION)
    # Relative, so that spec and model can be moved or committed together.
    info = _model_info(
        Path(os.path.relpath(model, output.parent)), recognized(model), signature, name=chosen, version=version
    )
    if beside:
        spec = _with_files(spec, model, beside)
        named: dict[str, Any] = {field: _relative(path, output.parent) for field, path in beside.items()}
        info = replace(info, files=replace(info.files, **named))
    check_class_name(replace(spec, model=info))
    try:
        found = _first_text(info, spec, pipeline)
    except ModelError as error:
        # Only if the user chose no TensorFlow: then a newer one may read the model.
        if not error.newer or tensorflow or pipeline.toolchain_python:
            raise
        why = error.message.partition(":")[0]
        pipeline.progress.note(f"{why}: the spec chooses TensorFlow {NEWEST_VERSION} instead of {DEFAULT_VERSION}")
        spec = replace(spec, compilation=replace(spec.compilation, tensorflow=NEWEST_VERSION))
        found = _first_text(info, spec, pipeline)
    schema = has_schema and _is_ours_to_write(output.with_name(SCHEMA_FILE))
    text = f"{modeline(SCHEMA_FILE)}\n\n{found.text}" if schema else found.text
    with storage_errors(f"write {output}"):
        if schema:
            write_file(output.absolute().with_name(SCHEMA_FILE), f"{json.dumps(json_schema(), indent=2)}\n".encode())
        write_file(output.absolute(), text.encode())
    # Read back, because a spec that `init` writes must be valid.
    return load_spec(output), found


SCHEMA_FILE = "spec.schema.json"


def _is_ours_to_write(schema: Path) -> bool:
    """Whether there is nothing at `schema`, or what an earlier version wrote there."""
    if not schema.exists():
        return True
    with storage_errors(f"read {schema}"):
        return schema.is_file() and f'"{SCHEMA_ID}"'.encode() in schema.read_bytes()[:1000]


def _require_model(path: Path) -> None:
    """Raises SpecError if `path` does not exist, ModelError for a file of an unknown kind."""
    if not path.exists():
        raise SpecError(f"{path}: no such file or folder", hint="name the folder of a SavedModel, or a model's file")
    if path.is_file() and recognized(path) is None:
        kinds = ", ".join(each.title for each in FILE_FORMATS.values())
        raise ModelError(
            f"{path} is not a model that tfaot-pkg knows: a SavedModel's folder, {kinds}",
            hint="export the model to one of these, e.g. ONNX; if it is a spec: tfaot-pkg check, build or publish",
        )


def _with_files(spec: ModelSpec, model: Path, beside: Mapping[str, Path]) -> ModelSpec:
    """`spec`, of the graph `model` alone, with the files `beside` it. Raises SpecError for other kinds of models."""
    if spec.model.files.format != "graph":
        options = " and ".join(f"--{field}" for field in beside)
        raise SpecError(
            f"{options}: {model} is not a GraphDef",
            hint="only graphs (.pb, .pbtxt, .meta) have a Config and checkpoints",
        )
    root = Path(os.path.commonpath([each.absolute().parent for each in (model, *beside.values())]))
    files: dict[str, Any] = {field: _relative(path, root) for field, path in {"path": model, **beside}.items()}
    return replace(spec, model=replace(spec.model, files=GraphFile(**files)), source=FolderSource(path=root))


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A first spec that was not tried yet: `signature` and `rows` are what the file tells.

    `rows` are its names of batches, by input; `more` are options of `scaffold`.
    """

    model: ModelInfo
    signature: Signature
    more: Mapping[str, Any]
    rows: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the user must fill in shapes before it can be tried."""
        return bool(self.more.get("unknown_ranks"))


def _first_text(model: ModelInfo, spec: ModelSpec, pipeline: Pipeline) -> FirstSpec:
    """A first spec, which the toolchain of `spec` reads, settled as far as possible."""
    draft = _draft(model, spec, pipeline)
    if draft.is_open:
        open_ranks = ModelError("the number of axes of some inputs is unknown", hint="fill in model.shapes")
        return _written(draft, spec, Settled(spec=spec, signature=None, remarks={}, fault=open_ranks))
    tried = replace(spec, model=replace(spec.model, **_proposed(draft.model)))
    inputs = Inputs(signature=draft.signature, rows=draft.rows)
    return _written(draft, spec, settled(tried, inputs, _attempt(pipeline), _sizes(pipeline)))


def _written(draft: _Draft, spec: ModelSpec, found: Settled) -> FirstSpec:
    model = replace(draft.model, **_proposed(found.spec.model)) if not draft.is_open else draft.model
    signature = found.signature or draft.signature
    if found.spec.compilation.variables:
        signature = _of_a_step(signature, draft.signature)
    text = scaffold(
        model=model,
        signature=signature,
        tensorflow=spec.compilation.tensorflow,
        batch_sizes=DEFAULT_BATCH_SIZES if any(each.has_batch_axis for each in signature.inputs) else (1,),
        update=found.spec.compilation.variables.update,
        remarks=found.remarks,
        fault=found.fault,
        **draft.more,
    )
    return FirstSpec(text=text, signature=signature, fault=found.fault, notes=tuple(draft.more.get("notes", ())))


def _of_a_step(whole: Signature, known: Signature) -> Signature:
    """`whole` without the state, which is no part of the signature `known`, and which no call supplies."""
    names = {tensor.name for tensor in known.tensors}
    inputs, outputs = (tuple(each for each in of if each.name in names) for of in (whole.inputs, whole.outputs))
    return replace(whole, inputs=inputs, outputs=outputs)


_FIELDS = ("shapes", "axes", "symbols", "constants", "inputs", "outputs", "call")


def _proposed(model: ModelInfo) -> dict[str, Any]:
    """What a first spec says of the model beside its name and files."""
    return {name: getattr(model, name) for name in _FIELDS}


def _attempt(pipeline: Pipeline) -> Attempt:
    def attempt(spec: ModelSpec) -> Accepted:
        result = check_model(spec, pipeline, table=False)
        faults = [f"{each.name}: {problem}" for each in result.operations for problem in each.problems]
        if faults:
            raise ModelError(f"the toolchain cannot compile all operations: {faults[0]}")
        return Accepted(signature=result.signature, rows_meet=result.rows is not None and not result.rows.independent)

    return attempt


def _sizes(pipeline: Pipeline) -> Sizes:
    def sizes(spec: ModelSpec) -> FoundSizes | None:
        source = pipeline.source(spec)
        with pipeline.workers(pipeline.environment_for(spec, source)) as pool:
            saved = SavedModel(spec.model, source, pool)
            try:
                if spec.is_lowered:
                    return lowered_sizes(spec, saved, pool)
                with saved.named() as model:
                    return pool.get().call(FindSizes(model=chosen(spec, model)), FoundSizes)
            except ModelError:  # `check` says more about it
                return None

    return sizes


def _draft(model: ModelInfo, spec: ModelSpec, pipeline: Pipeline) -> _Draft:
    if spec.model.files.format in FRONTENDS:
        return _frontend_draft(model, spec, pipeline)
    if spec.model.files.format == "graph":
        return _graph_draft(model, spec, pipeline)
    return _signature_draft(model, spec, pipeline)


def _frontend_draft(model: ModelInfo, spec: ModelSpec, pipeline: Pipeline) -> _Draft:
    """For a file of another framework, with symbols for its axes without a size."""
    source = pipeline.source(spec)
    with pipeline.workers(pipeline.environment_for(spec, source)) as pool:
        described = SavedModel(spec.model, source, pool).described()
    with from_worker():
        shapes = proposed_shapes(described)
        model = replace(model, shapes=shapes.shapes, axes=shapes.axes, symbols=shapes.symbols)
        if described.trees is not None:
            model = replace(model, call=stated_call(described.trees))
        signature = proposed_signature(described, shapes)
        more = {"origin": described.origin, "trees": described.trees, "notes": described.notes}
        rows = {each.name: each.rows for each in described.inputs if each.rows}
        return _Draft(model=model, signature=signature, more=more, rows=rows)


def _signature_draft(model: ModelInfo, spec: ModelSpec, pipeline: Pipeline) -> _Draft:
    """For a signature. Raises ModelError if the model does not have it."""
    found, key = _signatures(spec, pipeline), model.serving_key
    if key not in found:
        raise ModelError(
            f"the SavedModel has no signature {key!r}; it has: {', '.join(found) or 'none'}",
            hint="choose one with --signature",
        )
    with from_worker():
        model, signature, unknown = _with_open_axes(model, found[key])
        others = [each for each in found if each != key]
        return _Draft(model=model, signature=signature, more={"other_keys": others, "unknown_ranks": unknown})


def _graph_draft(model: ModelInfo, spec: ModelSpec, pipeline: Pipeline) -> _Draft:
    """For a graph, with proposed inputs and outputs for review."""
    graph = model.files
    assert isinstance(graph, GraphFile)
    source = pipeline.source(spec)
    environment = pipeline.environment_for(spec, source)
    with pipeline.workers(environment) as pool:
        saved = SavedModel(spec.model, source, pool)
        with saved.reading():
            proposed = pool.get().call(ProposeGraph(files=saved.graph_files()), ProposedGraph)
    with from_worker():
        model = replace(model, constants=proposed.constants)
        if not graph.config:  # a Config file names inputs and outputs itself
            model = replace(
                model,
                inputs=tuple(tensor.name for tensor in proposed.inputs),
                outputs=tuple(tensor.name for tensor in proposed.outputs),
            )
        model, signature, unknown = _with_open_axes(model, Interface(inputs=proposed.inputs, outputs=proposed.outputs))
        more = {
            "defaulted": proposed.defaulted,
            "variables": () if graph.checkpoint else proposed.variables,
            "unknown_ranks": unknown,
        }
        return _Draft(model=model, signature=signature, more=more)


def _with_open_axes(model: ModelInfo, found: Interface) -> tuple[ModelInfo, Signature, list[str]]:
    """`model` with symbols for axes without a size, its signature with them, and the inputs of unknown rank.

    Raises ValueError for dtypes that libraries do not have.
    """
    described = with_names_of_axes(found)
    shapes, unknown = proposed_shapes(described), [tensor.name for tensor in found.inputs if tensor.shape is None]
    if unknown or not shapes.shapes:
        return model, signature_of(found), unknown
    model = replace(model, shapes=shapes.shapes, axes=shapes.axes, symbols=shapes.symbols)
    return model, proposed_signature(described, shapes), unknown


def _signatures(spec: ModelSpec, pipeline: Pipeline) -> Mapping[str, Interface]:
    source = pipeline.source(spec)
    environment = pipeline.environment_for(spec, source)
    with pipeline.workers(environment) as pool:
        with SavedModel(spec.model, source, pool).named() as model:
            return (
                pool.get()
                .call(Inspect(folder=str(model), tags=spec.model.tags, signature=spec.model.serving_key), Inspected)
                .signatures
            )


def name_from(path: Path) -> str:
    """A model's name from that of a folder or file: `My-Tagger.v2` becomes `my_tagger_v2`.

    For folders such as `tagger/saved_model` or `tagger/1`, it is that of the folder above.
    """
    place = Path(os.path.abspath(path))
    name = place.name if place.is_dir() else place.stem
    if place.is_dir() and _NAMELESS.fullmatch(name.lower()) and place.parent.name:
        return name_from(place.parent)
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") or "model"
