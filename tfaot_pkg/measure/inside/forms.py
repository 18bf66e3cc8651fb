"""A model before it is machine code: its program, its C++, and other forms that the toolchain writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from tfaot_pkg.analysis.program.hlo import Unlike
from tfaot_pkg.compiler.emit import Emitted
from tfaot_pkg.compiler.passes.pipeline import PASSES, run, until
from tfaot_pkg.compiler.program import Operation, Program, Symbol, Unsupported
from tfaot_pkg.compiler.text import outline_of, text_of, type_text
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.onnx_lowering.ends import lowered
from tfaot_pkg.frontends.onnx_lowering.graph import Model
from tfaot_pkg.frontends.onnx_lowering.graph import read as read_graph
from tfaot_pkg.frontends.onnx_lowering.lowering import lower
from tfaot_pkg.frontends.toolchain.worker import from_worker
from tfaot_pkg.ground.arrays import read_arrays
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.measure.inside.stages import Stages
from tfaot_pkg.measure.inside.view import View
from tfaot_pkg.native.compiled.calibrated import table_of
from tfaot_pkg.native.compiled.program import Engine, engine_of, finished_program, program_of
from tfaot_pkg.package.drawing import GraphNode
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan
from tfaot_pkg.spec.row_files import digest_in
from tfaot_pkg.spec.types import CALIBRATION_KEY
from tfaot_pkg.worker_program.from_onnx.graphs import GRAPH, TENSORS
from tfaot_pkg.worker_program.messages.requests import Nothing, Translate

_LARGEST = 256 << 20
"""The limit of a text that a worker writes, in bytes. Without weights, those of real models have some megabytes."""


def emitted_code(stages: Stages) -> Emitted:
    """The C++ of the program. Raises ModelError if XLA computes the model."""
    return _engine_of(stages)[1]


def _engine_of(stages: Stages) -> tuple[Engine, Emitted]:
    plan = stages.plan
    calibration = digest_in(plan.inputs, CALIBRATION_KEY)
    engine, emitted = engine_of(plan.spec, stages.frozen, stages.pool.environment.toolchain, calibration=calibration)
    if emitted is None:
        raise ModelError(
            f"the model does not become a program: {engine.reason}",
            hint="XLA compiles it: look at --what hlo or --what asm, or set compilation.engine to program",
        )
    return engine, emitted


def precision_view(stages: Stages) -> View:
    """In what layers multiply, and what bytes cost and gain in each. Raises ModelError if XLA computes the model."""
    engine, _ = _engine_of(stages)
    text = f"compute: {engine.compute}, {counted(engine.reduced, 'layer')}" if engine.reduced else "compute: float32"
    text += f"\n{table_of(engine.layers)}" if engine.layers else ""
    return View(text=text, document=engine.precision)


def cpp_view(stages: Stages) -> View:
    source = emitted_code(stages).source
    return View(text=source, document={"source": source})


def program_view(stages: Stages, *, after: str | None = None, has_constants: bool = False) -> View:
    """After the pass `after`, or all. Raises ModelError if XLA computes the model."""
    spec = stages.plan.spec
    if after is None and spec.compilation.precision.calibration is None:
        # For its error: `program_of` alone would show a program that does not compute the model (engine: xla).
        emitted_code(stages)
    try:
        if after is None:
            calibration = digest_in(stages.plan.inputs, CALIBRATION_KEY)
            program, _ = finished_program(spec, stages.frozen, calibration=calibration)
        else:
            program = program_of(stages.frozen, until(after))
    except (Unsupported, Unlike, RecursionError) as error:
        raise ModelError(f"the model does not become a program: {error}", hint="choose an earlier pass") from None
    return _view_of(program, has_constants=has_constants)


def lowered_view(plan: Plan, pipeline: Pipeline, *, after: str | None = None, has_constants: bool = False) -> View:
    """The program that the operators of an ONNX file become by themselves, after the pass `after`, or all.

    Only the front-end's environment reads the file. Raises ModelError if the model is no ONNX file, or if an operator
    has no lowering.
    """
    model = plan.spec.model
    if model.files.format not in ("onnx", "qonnx", "torch"):
        raise ModelError("only operators of ONNX files are lowered one by one", hint="look at --what program")
    with pipeline.workers(pipeline.environment_of(plan)) as pool:
        folder = SavedModel(model, plan.source, pool).parts()
        with from_worker():
            graph = read_graph((folder / GRAPH).read_bytes(), read_arrays(folder / TENSORS))
    symbols = [Symbol(each.name, each.maximum, each.minimum) for each in model.symbols]
    try:
        program = run(verified(lower(graph, symbols), "lowering"), PASSES if after is None else until(after))
        facts = _facts(graph, symbols)
    except (Unsupported, RecursionError) as error:
        raise ModelError(
            f"the file does not become a program: {error}",
            hint="give open axes a range in the model.shapes of a spec, or look at --what program",
        ) from None
    return _view_of(program, has_constants=has_constants, facts=facts)


def _facts(graph: Model, symbols: Sequence[Symbol]) -> dict[str, object]:
    """Whether rows of a batch depend on one another, and the numbers that inputs take which are indices or the like."""
    try:
        found = lowered(graph, symbols)
    except Unsupported as error:
        return {"fault": str(error)}
    ranges = {each.name: str(each) for each in found.ranges}
    return {**found.rows.as_dict(), **({"ranges": ranges} if ranges else {})}


def _view_of(program: Program, *, has_constants: bool, facts: Mapping[str, object] | None = None) -> View:
    text = text_of(program) if has_constants else outline_of(program)
    return View(text=text, document={**(facts or {}), "operations": text.splitlines()}, nodes=tuple(_nodes(program)))


def _nodes(program: Program) -> Iterator[GraphNode]:
    """The operations to draw, without constants. A region is drawn as the operation that contains it."""
    entry = program.entry
    drawn = [each for each in entry.operations if each.opcode != "constant"]
    places = {each.id: place for place, each in enumerate(drawn)}
    for each in drawn:
        sources = tuple(places[operand] for operand in dict.fromkeys(each.operands) if operand in places)
        kind = "input" if each.opcode == "parameter" else "operation"
        yield GraphNode(label=each.opcode, detail=type_text(each.type), kind=kind, title=_title(each), sources=sources)
    for place, result in enumerate(entry.results):
        sources = (places[result],) if result in places else ()
        yield GraphNode(label=f"output {place}", detail="", kind="output", title=f"%{result}", sources=sources)


def _title(operation: Operation) -> str:
    return f"%{operation.id} {operation.opcode} {type_text(operation.type)}: {operation.node}"


def translated_view(stages: Stages, form: Literal["hlo", "stablehlo", "mlir-tf"], batch_size: int) -> View:
    """The model for one batch size, symbols at their maxima. Raises ModelError if the toolchain has no such form."""
    frozen, pool = stages.frozen, stages.pool
    worker = pool.get()  # first: for an error about models that have no graph
    folder = pool.new_folder("form")
    request = Translate(
        graph=str(pool.give(frozen.graph)),
        inputs=frozen.inputs,
        outputs=frozen.outputs,
        weights=frozen.weights,
        form=form,
        batch_size=batch_size,
        out=str(folder / "form.txt"),
    )
    with stages.pipeline.progress.step(form):
        worker.call(request, Nothing)
        taken = pool.given_folder("form")
        pool.take(folder, taken)
    with from_worker():
        if (taken / "form.txt").stat().st_size > _LARGEST:
            raise ToolchainError(f"the {form} of the model has more than {_LARGEST >> 20} MiB")
        text = (taken / "form.txt").read_text()
    return View(text=text, document={"batch_size": batch_size, "text": text})
