"""`timeline`: one model as TensorFlow runs it, as XLA compiles it while it runs, and as a package.

It writes a trace of each, and the latencies of all three from `bench`: medians over rounds in which they alternate on
one core.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tfaot_pkg.errors import RunError, TfaotError
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.worker import from_worker
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.measure.bench.peers import peers_named
from tfaot_pkg.measure.bench.results import Bench, Row
from tfaot_pkg.measure.bench.run import Request, bench
from tfaot_pkg.measure.inside.stages import Stages, frozen_stages
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.inputs import validation_inputs
from tfaot_pkg.verify.limits import drawing_of
from tfaot_pkg.worker_program.messages.elements import write_arrays
from tfaot_pkg.worker_program.messages.requests import Nothing, Trace

CALLS = 20
"""Calls in a trace."""
_ENGINES = {"tensorflow": "TensorFlow", "tensorflow_jit": "TensorFlow with XLA", "package": "package"}
_WARM = 3
"""Calls before those in the trace: the first ones load pages and fill caches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """One way to run the model: its trace (with `events` spans), or the reason why there is none, and its latencies.

    `medians` are microseconds by batch size.
    """

    name: str
    title: str
    file: str
    events: int
    medians: Mapping[int, float]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The files are in `folder`: a trace for each way, and `page`, which draws them."""

    model: str
    batch_size: int
    calls: int
    rounds: int
    machine: Mapping[str, object]
    folder: str
    page: str
    ways: tuple[Ran, ...]


def timeline(spec: ModelSpec, folder: Path, pipeline: Pipeline, *, batch_size: int | None, rounds: int) -> Timeline:
    """Write the traces to `folder`. Raises all errors of a build; RunError if this machine cannot run the library."""
    if spec.model.files.format == "trees":
        raise RunError(
            "a timeline compares with TensorFlow, which has no decision trees",
            hint="`tfaot-pkg bench` measures the package; package.profile writes a trace of it",
        )
    size = batch_size or spec.compilation.batch_sizes[0]
    # The size of the traces need not be one of the spec's.
    sizes = tuple(sorted({*spec.compilation.batch_sizes, size}))
    spec = replace(spec, compilation=replace(spec.compilation, batch_sizes=sizes))
    measured = bench(spec, Request(peers=peers_named(["tensorflow", "tensorflow_jit"]), rounds=rounds), pipeline)
    traces = _traces(spec, size, pipeline)
    ways = tuple(_ran(name, traces[name], measured) for name in _ENGINES)
    with storage_errors(f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, found in traces.items():
            if not isinstance(found, str):
                write_file(folder / f"{name}.json", json.dumps(found).encode() + b"\n")
        medians = {way.name: way.medians[size] for way in ways if size in way.medians}
        write_file(folder / "index.html", page(f"{spec.model.name}, batch size {size}", traces, medians).encode())
    return Timeline(
        model=spec.model.name, batch_size=size, calls=CALLS, rounds=rounds, machine=measured.machine,
        folder=str(folder), page=str(folder / "index.html"), ways=ways,
    )  # fmt: skip


Document = Mapping[str, object]


def _ran(name: str, found: Document | str, measured: Bench) -> Ran:
    row = _row(name, measured.engines)
    events = 0 if isinstance(found, str) else len(_spans(found))
    return Ran(
        name=name,
        title=_ENGINES[name],
        file="" if isinstance(found, str) else f"{name}.json",
        events=events,
        medians={cell.batch_size: round(statistics.median(cell.rounds) / 1e3, 3) for cell in row.cells},
        reason=found if isinstance(found, str) else row.reason,
    )


def _row(name: str, rows: Sequence[Row]) -> Row:
    return next(row for row in rows if row.name == name or (name == "package" and row.is_ours))


def _spans(document: Document) -> list[Mapping[str, object]]:
    events = document["traceEvents"]
    assert isinstance(events, list)
    return [event for event in events if event["ph"] == "X"]


def _traces(spec: ModelSpec, size: int, pipeline: Pipeline) -> dict[str, Document | str]:
    """A trace for each way, or the reason why there is none."""
    # Not the library of the latencies: code that can write a trace takes time even if none is written.
    spec = replace(spec, package=replace(spec.package, profile=True, source=False))
    plan = pipeline.plan(spec)
    with frozen_stages(plan, pipeline) as stages:
        signature = stages.frozen.signature
        sha256 = plan.inputs.get("sha256")
        drawing = drawing_of(spec.validation, stages.frozen.ranges)
        drawn = validation_inputs(spec.validation, signature, size, sha256=sha256, drawing=drawing)
        batched = {tensor.name for tensor in signature.inputs if tensor.has_batch_axis}
        values = {name: array[:size] if name in batched else array for name, array in drawn.items()}
        made: dict[str, Document | str] = {}
        with pipeline.progress.step("trace", total=len(_ENGINES), unit="traces") as step:
            for name, title in _ENGINES.items():
                try:
                    made[name] = (
                        _of_package(stages, values, size, batched)
                        if name == "package"
                        else _of_tensorflow(stages, values, jit=name == "tensorflow_jit")
                    )
                except TfaotError as error:
                    if name == "package":
                        raise
                    made[name] = error.message.splitlines()[0]  # as in a row of `bench`
                step.advance(note=title)
        return made


def _of_tensorflow(stages: Stages, values: Mapping[str, Array], *, jit: bool) -> Document:
    pool, model = stages.pool, stages.plan.spec.model
    # Inputs go where the worker can only read, the trace where it can write.
    given, made = pool.given_folder("trace"), pool.new_folder("trace")
    (made / "profile").mkdir()
    write_arrays(given / "inputs.npz", values)
    saved = SavedModel(model, stages.plan.source, pool, stages.plan.spec.compilation.variables)
    with saved.named() as folder:
        request = Trace(
            folder=str(folder),
            tags=model.tags,
            signature=model.serving_key,
            inputs=str(given / "inputs.npz"),
            scratch=str(made / "profile"),
            out=str(made / "trace.json"),
            calls=CALLS,
            jit=jit,
        )
        pool.get().call(request, Nothing)
    with from_worker():
        return _checked((made / "trace.json").read_bytes())


def _of_package(stages: Stages, values: Mapping[str, Array], size: int, batched: set[str]) -> Document:
    """Raises RunError."""
    library, pool = stages.library(), stages.pool
    target = next((name for name in reversed(stages.plan.spec.compilation.targets) if runs_here(TARGETS[name])), None)
    if target is None:
        raise RunError("this machine cannot run code for any of the spec's targets", hint="choose another target")
    given, made = pool.given_folder("trace"), pool.given_folder("traced")
    rows = size * (CALLS + _WARM)
    # The same batch again and again: calls of a trace are to be comparable.
    many = {name: np.resize(a, (rows, *a.shape[1:])) if name in batched else a for name, a in values.items()}
    write_arrays(given / "inputs.npz", many)
    part = {
        "inputs": str(given / "inputs.npz"), "answers": str(made / "answers.npz"), "batch_sizes": [size],
        "most": None, "seconds": None,
    }  # fmt: skip
    job = {"library": str(library.shared), "target": target, "flush": False, "parts": [part]}
    (given / "job.json").write_text(json.dumps(job))
    box = Sandbox(readable=(library.shared, given), writable=(made,), limits=Limits.of_user())
    trace = made / "trace.json"
    try:
        box.own_python("tfaot_pkg.verify.runner", [given / "job.json"], env={"TFAOT_PROFILE": str(trace)}).run()
        return _without_warm_up(_checked(trace.read_bytes()))
    except (CommandFailed, OSError, ValueError) as error:
        raise RunError(f"the package cannot be traced: {error}", log=stages.plan.compiler.log) from error


def _without_warm_up(document: Document) -> Document:
    """The trace without the spans of the first calls."""
    # Every call runs the same steps, so all calls have the same number of spans.
    spans = _spans(document)
    first = len(spans) * _WARM // (CALLS + _WARM)
    return {**document, "traceEvents": spans[first:]}


def _checked(content: bytes) -> Document:
    """A trace from a process that ran the model, which is not trusted. Raises ValueError for another form."""
    # Chrome's trace event format: "X" is a span with a start and a duration, "M" names a process or thread.
    document: dict[str, object] = read_json(content)
    events = document.get("traceEvents")
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise ValueError("not a trace")
    for event in events:
        lengths = [event.get(name) for name in ("ts", "dur")] if event.get("ph") == "X" else []
        if event.get("ph") not in ("X", "M") or not all(isinstance(each, int | float) for each in lengths):
            raise ValueError("not a trace")
    return document


def page(title: str, traces: Mapping[str, Document | str], medians: Mapping[str, float]) -> str:
    """A page that draws one call of each trace; `title` is our own, `medians` are microseconds without a trace."""
    drawn = [
        {
            "title": _ENGINES[name],
            "median": medians.get(name),
            **({"reason": found} if isinstance(found, str) else {"calls": CALLS, **found}),
        }
        for name, found in traces.items()
    ]
    # Names come from the model: `</script>` in one would end the script that contains the data.
    data = json.dumps(drawn).replace("<", "\\u003c")
    return render("inside/timeline.html.j2", {"title": title, "data": data})
