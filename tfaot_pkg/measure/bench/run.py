"""One benchmark from end to end: build, convert, measure, compare."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.analysis.program.hlo import Unlike, read_program
from tfaot_pkg.analysis.program.work import Work
from tfaot_pkg.compiler.importing import import_program
from tfaot_pkg.compiler.passes.simplify import simplify
from tfaot_pkg.compiler.program import Program, Unsupported
from tfaot_pkg.compiler.work import work, work_of_row
from tfaot_pkg.errors import RunError, SourceError
from tfaot_pkg.frontends.frozen.model import FrozenModel, freeze
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.worker import WorkerPool, from_worker
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.measure.bench.contenders import Contender, Field
from tfaot_pkg.measure.bench.measure import Rates, Schedule, Taken, difference, measure, write_inputs
from tfaot_pkg.measure.bench.peers import Converter, Peer, compile_programs
from tfaot_pkg.measure.bench.results import (
    Bench,
    Limits,
    Precision,
    Roof,
    Row,
    cell_of,
    description,
    free_core,
    least_times,
    measured,
    rates_of,
    sizes_read,
)
from tfaot_pkg.measure.bench.serving import native_program
from tfaot_pkg.measure.bench.trees import Trees
from tfaot_pkg.measure.bench_program.messages import Saved
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan
from tfaot_pkg.pipeline.rebuild import CannotRebuild, Means, fetch_published, recorded_of, spec_of
from tfaot_pkg.registry.reader import RegistryReader, resolve
from tfaot_pkg.spec.types import Compute, ModelInfo, ModelSpec
from tfaot_pkg.verify.inputs import validation_inputs
from tfaot_pkg.verify.latency import processor
from tfaot_pkg.verify.limits import drawing_of
from tfaot_pkg.worker_program.messages.elements import write_arrays
from tfaot_pkg.worker_program.messages.requests import Referenced


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    spec: ModelSpec
    library: Path


def published(reader: RegistryReader, requirement: str, means: Means, folder: Path) -> Published:
    """The version that `requirement` selects, unpacked below `folder`.

    Raises RegistryError (unknown package), TrustError (damaged package), SourceError if its model is not at hand,
    NetworkError, StorageError.
    """
    entry = resolve(reader, requirement)
    root = folder / "published"
    tree = fetch_published(reader, entry, root)
    try:
        spec = spec_of(recorded_of(entry, tree, root), means, folder / "spec")
    except CannotRebuild as error:
        raise SourceError(
            f"{entry} cannot be measured beside others: {error.reasons[0]}",
            hint="name the folder with the model's files: --source DIR",
        ) from error
    return Published(spec=spec, library=root / "lib" / f"lib{entry.name}.so")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to measure. Empty `batch_sizes` mean the spec's, empty `targets` the best of the spec's that runs here."""

    peers: tuple[Peer, ...]
    batch_sizes: tuple[int, ...] = ()
    targets: tuple[str, ...] = ()
    rounds: int = 15
    core: int | None = None


_LEAST_BATCHES, _LEAST_ROWS = 4, 8192
"""The least numbers of different batches and of different rows, for models whose branches depend on their inputs: a CPU
learns the branches of a batch that repeats."""


def bench(spec: ModelSpec, request: Request, pipeline: Pipeline, *, library: Path | None = None) -> Bench:
    """Measure the model of `spec` beside `request.peers`; peers that cannot run are rows with a reason.

    `library` was built from it, for its targets and batch sizes; without it, one is built for the requested ones.
    Raises all errors of a build; RunError if this machine cannot run the library.
    """
    targets = _targets(spec, request, fixed=library is not None)
    sizes = _batch_sizes(spec, request, fixed=library is not None)
    # A requested target need not be one of the spec's.
    levels = sorted({*spec.compilation.targets, *targets}, key=lambda name: TARGETS[name].level)
    spec = replace(spec, compilation=replace(spec.compilation, targets=tuple(levels), batch_sizes=sizes))
    plan = pipeline.plan(spec)
    engine = ""
    if library is None:
        built = pipeline.build(plan)
        library, engine = built.library.shared, str(built.engine)
    toolchain = pipeline.environment_of(plan)
    with (
        temporary_folder(prefix="tfaot-bench-") as folder,
        pipeline.workers(toolchain) as pool,
    ):
        saved = SavedModel(spec.model, plan.source, pool, spec.compilation.variables)
        frozen = _frozen(plan, saved, pool, pipeline)
        sha256 = plan.inputs.get("sha256")
        # Branches of trees depend on their inputs, so each run gets other rows.
        rows = max(_LEAST_BATCHES * max(sizes), _LEAST_ROWS) if spec.model.files.format == "trees" else max(sizes)
        drawing = drawing_of(spec.validation, frozen.ranges)
        values = validation_inputs(spec.validation, frozen.signature, rows, sha256=sha256, drawing=drawing)
        theirs = _reference(plan, saved, frozen.signature, pool, values)
        field = Field(
            spec=spec, targets=targets, library=library, engine=engine, toolchain=toolchain,
            converter=Converter(
                original=(original := _onnx(saved)),
                original_python=pool.environment_of(original.frontend).python if original else None,
                saved=_saved(saved, spec.model),
                frozen=frozen, python=toolchain.python, pipeline=pipeline,
            ),
            inputs=write_inputs(values, frozen.signature, rows, folder),
            programs=compile_programs(plan.compiler, targets, request.peers, folder), pipeline=pipeline,
            trees=_trees(plan, saved, frozen.signature, pool, pipeline),
        )  # fmt: skip
        contenders = list(field.contenders(request.peers))
        schedule = Schedule(batch_sizes=sizes, rounds=request.rounds, core=_core(request))
        answers = folder / "answers"
        answers.mkdir()
        shares = shares_of(frozen, spec.compilation.precision.compute)
        taken, rates = _measured(contenders, field, frozen, measured(shares), schedule, answers)
        return _bench(plan, frozen, shares, contenders, taken, rates, schedule, theirs, answers)


def _targets(spec: ModelSpec, request: Request, *, fixed: bool) -> tuple[str, ...]:
    """The targets to measure, lowest level first. Raises RunError if this machine, or a `fixed` library, lacks one."""
    # Specs have targets in the order of their levels, so the last one is the best.
    runnable = [name for name in spec.compilation.targets if runs_here(TARGETS[name])]
    chosen = request.targets or tuple(runnable[-1:])
    refused = [name for name in chosen or spec.compilation.targets if not runs_here(TARGETS[name])]
    if refused:
        raise RunError(
            f"this machine ({processor()}) cannot run code for {', '.join(refused)}",
            hint="measure on a machine that can, or choose another target: --target",
        )
    if missing := [name for name in chosen if fixed and name not in spec.compilation.targets]:
        raise RunError(
            f"the package has no code for {', '.join(missing)}", hint=f"it has: {', '.join(spec.compilation.targets)}"
        )
    return tuple(sorted(chosen, key=lambda name: TARGETS[name].level))


def _batch_sizes(spec: ModelSpec, request: Request, *, fixed: bool) -> tuple[int, ...]:
    """Raises RunError if a `fixed` library lacks one."""
    sizes, compiled = request.batch_sizes or spec.compilation.batch_sizes, spec.compilation.batch_sizes
    if missing := [str(size) for size in sizes if fixed and size not in compiled]:
        raise RunError(
            f"the package was not compiled for the batch sizes {', '.join(missing)}",
            hint=f"it was for: {', '.join(map(str, compiled))}",
        )
    return sizes


def _core(request: Request) -> int:
    return free_core() if request.core is None else request.core


def _onnx(saved: SavedModel) -> Original | None:
    """The model's ONNX file, if it has one that accepts batches."""
    found = saved.original
    is_onnx = found.frontend is not None and found.frontend.framework == "onnx"
    return found if is_onnx and not found.by_row else None


def _trees(plan: Plan, saved: SavedModel, signature: Signature, pool: WorkerPool, pipeline: Pipeline) -> Trees | None:
    """The model for other engines if it consists of decision trees."""
    if plan.spec.model.files.format != "trees":
        return None
    original = saved.original
    return Trees(
        original=original, signature=signature, library=pool.environment_of(original.frontend),
        python=pool.environment.python, compiler=plan.compiler, pipeline=pipeline,
    )  # fmt: skip


def _saved(saved: SavedModel, model: ModelInfo) -> Saved:
    names = {
        "inputs": dict(zip(model.inputs, model.input_keys, strict=False)),
        "outputs": dict(zip(model.outputs, model.output_keys, strict=False)),
    }
    return Saved(folder=str(saved.folder), tags=model.tags, signature=model.serving_key, names=names)


def _frozen(plan: Plan, saved: SavedModel, pool: WorkerPool, pipeline: Pipeline) -> FrozenModel:
    """The model as peers get it: one graph with its weights inside, nothing replaced."""
    # With the engine `auto` the listing of HLO is kept, from which `work_of` counts operations.
    compilation = replace(plan.spec.compilation, engine="auto", weights="embedded", kernels="none")
    plain = replace(plan.spec, compilation=compilation)
    key = plan.keys_for(plain).frozen
    frozen = freeze(plain, saved, key=key, pool=pool, cache=pipeline.cache, progress=pipeline.progress)
    return replace(frozen, work=work_of(frozen))


def _reference(
    plan: Plan, saved: SavedModel, signature: Signature, pool: WorkerPool, values: Mapping[str, Array]
) -> dict[str, Array]:
    """TensorFlow's answers, by "SIZE/OUTPUT"."""
    spec, folder = plan.spec, pool.new_folder("bench")
    # Only the first batch of each size is compared, even if more rows are measured.
    rows = max(spec.compilation.batch_sizes)
    batched = [tensor.name for tensor in signature.inputs if tensor.has_batch_axis]
    write_arrays(folder / "inputs.npz", {n: v[:rows] if n in batched else v for n, v in values.items()})
    with saved.named():
        request = saved.original.reference(
            inputs=folder / "inputs.npz",
            out=folder / "answers.npz",
            batch_sizes=spec.compilation.batch_sizes,
            signature=signature,
        )
        saved.original.worker(pool).call(request, Referenced)
    with from_worker():
        return read_arrays(folder / "answers.npz")


def _measured(
    contenders: Sequence[Contender],
    field: Field,
    frozen: FrozenModel,
    precisions: Sequence[Precision],
    schedule: Schedule,
    folder: Path,
) -> tuple[dict[str, Taken], dict[str, Rates]]:
    engines = {each.row.name: each.program for each in contenders if each.program is not None}
    limits = {target: native_program(program) for target, program in field.programs.limits.items()}
    amounts = sizes_read(frozen.work, frozen.signature, schedule.batch_sizes)
    pipeline = field.pipeline
    with pipeline.progress.step("measure", total=len(engines) + schedule.rounds, unit="steps") as step:
        return measure(
            engines, limits, amounts, precisions, schedule, answers=folder, logs=pipeline.folders.logs, step=step
        )


def _bench(
    plan: Plan,
    frozen: FrozenModel,
    shares: Mapping[Precision, float],
    contenders: Sequence[Contender],
    taken: Mapping[str, Taken],
    rates: Mapping[str, Rates],
    schedule: Schedule,
    theirs: Mapping[str, Array],
    folder: Path,
) -> Bench:
    signature = frozen.signature

    def row(contender: Contender) -> Row:
        name = contender.row.name
        if name not in taken:
            return contender.row
        found = taken[name]
        if found.failure:
            return replace(contender.row, reason=found.failure)
        outputs = signature.outputs if contender.given is None else (contender.given,)
        differences = {
            size: difference(
                folder / f"{name}-{size}.bin",
                size,
                outputs,
                theirs,
                plan.spec.validation,
                has_bars=plan.spec.compilation.precision.is_reduced,
            )
            for size in schedule.batch_sizes
        }
        # Engines with a C API are called through it, so their overhead is a part of what users pay.
        overhead = found.overhead if contender.row.without_overhead else 0.0
        cells = tuple(
            cell_of(size, found.times[size], differences[size], cold=found.cold.get(size, ()), overhead=overhead)
            for size in schedule.batch_sizes
        )
        return replace(
            contender.row, cells=cells, first_inference=found.first_inference, call_overhead=found.overhead,
            memory=found.memory.peak, memory_empty=found.memory.empty,
        )  # fmt: skip

    largest = max(schedule.batch_sizes)
    return Bench(
        model=plan.spec.model.name,
        description=plan.spec.model.description,
        source=plan.source.digest,
        weights=frozen.work.constant_bytes,
        largest_tensors=sum(t.nbytes_at(largest) for t in (*signature.inputs, *signature.outputs)),
        batch_sizes=schedule.batch_sizes,
        rounds=schedule.rounds,
        machine=description(schedule.core, plan.compiler.version),
        roofline=tuple(_roof(target, found, frozen, shares, schedule) for target, found in rates.items()),
        engines=tuple(map(row, contenders)),
    )


def _roof(
    target: str, rates: Rates, frozen: FrozenModel, shares: Mapping[Precision, float], schedule: Schedule
) -> Roof:
    """The roofline of a target from the medians of the rounds."""
    medians = {precision: statistics.median(found) for precision, found in rates.multiply_adds.items()}
    limits = Limits(
        target=target,
        # A multiply-add is two operations, as in `Work`.
        flops=rates_of(shares, {each: 2 * median for each, median in medians.items()}),
        bandwidths={amount: statistics.median(found) for amount, found in rates.reads.items()},
    )
    sizes = schedule.batch_sizes
    least = {size: least_times(frozen.work, shares, frozen.signature, size, limits) for size in sizes}
    return Roof.of(limits, shares, least)


_PRECISIONS: Mapping[str, Precision] = {
    "f64": "float64",
    "bf16": "bfloat16",
    **dict.fromkeys(("s8", "u8", "s32"), "int8"),
}
"""By element types of programs; quantized products are of int32 until a pass raises them."""


def shares_of(frozen: FrozenModel, asked: Compute) -> dict[Precision, float]:
    """The share of each precision of a model's products; float32 for all if it is not known.

    Those of float32 count as `asked`, although some layers may stay in float32.
    """
    try:
        found = work(_program(frozen), 2).by_type
    except (Unsupported, Unlike):
        found = {}
    total, shares = sum(found.values()), dict[Precision, float]()
    for dtype, operations in found.items():
        precision = _PRECISIONS.get(dtype, asked)
        shares[precision] = shares.get(precision, 0.0) + operations / (total or 1.0)
    return shares if total else {asked: 1.0}


def work_of(frozen: FrozenModel) -> Work:
    """The amount of computation: that of the listing, which counts one iteration of loops (analysis/program/work.py).

    For a model with loops, the operations of its products in all iterations; if their number depends on values, one is
    counted. For a model that cannot become a program (compiler/), that of the listing is used in any case.
    """
    try:
        program = _program(frozen)
        if not any(operation.opcode == "while" for operation in program.entry.everything()):
            return frozen.work
        per_row = work_of_row(program).operations
        per_call = max(0.0, work(program, 2).operations - per_row * 2)
    except (Unsupported, Unlike):
        return frozen.work
    return replace(frozen.work, operations_per_call=per_call, operations_per_row=per_row)


def _program(frozen: FrozenModel) -> Program:
    if frozen.is_program:
        return simplify(frozen.program())
    with from_worker():
        listing = frozen.listing()
        if listing.fault:
            raise Unsupported(listing.fault)
        # Simplified, because the bounds of loops are constants then.
        return simplify(import_program(read_program(listing.modules), len(frozen.inputs), frozen.listed_constants()))
