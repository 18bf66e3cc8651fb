"""`toolchain try`: models built with a new release of TensorFlow and with the default one, and compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg.errors import TfaotError, ToolchainError
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.ground.targets import DEFAULT_TARGETS, TARGETS, runs_here
from tfaot_pkg.measure.inside.candidate import Candidate
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.pipeline.pipeline import Build, Pipeline
from tfaot_pkg.spec.types import Compilation, Engine, FolderSource, ModelInfo, ModelSpec, SavedModelFiles
from tfaot_pkg.verify.latency import TimedUnit, processor, timer
from tfaot_pkg.worker_program.messages.requests import Corpus, WriteCorpus

BATCH_SIZES = (1, 16)
ENGINES: tuple[Engine, ...] = ("auto", "xla")
_SLOWER, _SHORTEST = 1.15, 1.0
"""A model is slower if its time grew by more than this factor and a call takes at least this many µs: other work on the
machine and the alignment of code cause smaller differences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The build of a model with one toolchain; `fault` is the error if it failed.

    `difference` is the largest relative difference from TensorFlow's own answers. `microseconds` are the times of a
    call by batch size; `shared_bytes` is the size of the shared library.
    """

    fault: str = ""
    engine: str = ""
    seconds: float = 0.0
    difference: float = 0.0
    shared_bytes: int = 0
    microseconds: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A model with the default toolchain (`before`) and the new one (`now`).

    `same_bits`: both libraries give the same hashes of answers to pinned inputs; None if one has none.
    """

    model: str
    engine: Engine
    before: Outcome
    now: Outcome
    same_bits: bool | None

    @property
    def verdict(self) -> str:
        if self.now.fault:
            return "fails with both" if self.before.fault else "worse: fails"
        if self.before.fault:
            return "better: builds"
        return "slower" if (self.ratio or 0) > _SLOWER else "good"

    @property
    def ratio(self) -> float | None:
        """The largest ratio of the new time to the default's over batch sizes; None if all times are tiny."""
        before, now = self.before.microseconds, self.now.microseconds
        return max((now[size] / before[size] for size in before if now.get(size, 0) >= _SHORTEST), default=None)

    def as_dict(self) -> dict[str, object]:
        return {
            "model": self.model,
            "engine": self.engine,
            "verdict": self.verdict,
            "same_bits": self.same_bits,
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "before": self.before,
            "now": self.now,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    version: str
    default: str
    note: str
    processor: str
    compared: tuple[Compared, ...]

    @property
    def worse(self) -> tuple[Compared, ...]:
        return tuple(each for each in self.compared if each.verdict.startswith("worse"))

    def as_dict(self) -> dict[str, object]:
        return {
            "version": self.version,
            "default": self.default,
            "note": self.note,
            "processor": self.processor,
            "worse": [f"{each.model} ({each.engine})" for each in self.worse],
            "compared": list(self.compared),
        }


def try_toolchain(found: Candidate, pipeline: Pipeline, folder: Path, *, only: Sequence[str] = ()) -> Trial:
    """Build the models, or those in `only`, with both toolchains; the models are written to `folder`.

    Raises ToolchainError if this machine can run none of the default targets.
    """
    # One target is enough: the highest that can be timed here.
    target = next((name for name in reversed(DEFAULT_TARGETS) if runs_here(TARGETS[name])), None)
    if target is None:
        raise ToolchainError("this machine can run code for none of the default targets")
    names = [name for name in _corpus(pipeline, folder) if not only or name in only]
    new = replace(pipeline, candidate=found.environment)
    compared = []
    with pipeline.progress.step("try", total=len(names) * len(ENGINES), unit="models") as step:
        for name in names:
            for engine in ENGINES:
                compared.append(_compare(folder, name, engine, target, pipeline, new))
                step.advance(note=f"{name}, {engine}: {compared[-1].verdict}")
    return Trial(
        version=found.toolchain.version, default=DEFAULT_VERSION, note=found.note, processor=processor(),
        compared=tuple(compared),
    )  # fmt: skip


def _corpus(pipeline: Pipeline, folder: Path) -> Sequence[str]:
    """The names of the models. The default toolchain writes them, so that both toolchains build the same files."""
    environment = pipeline.environment(_spec(folder, "model", "auto", DEFAULT_TARGETS[0], DEFAULT_VERSION))
    with pipeline.workers(environment) as pool, pipeline.progress.step("models", total=9, unit="models") as step:
        made = pool.new_folder("corpus")
        names = pool.get().call(WriteCorpus(out=str(made)), Corpus, step=step).names
        pool.take(made, folder)
    return names


def _spec(folder: Path, name: str, engine: Engine, target: str, version: str) -> ModelSpec:
    return ModelSpec(
        path=folder / f"{name}.yaml",
        model=ModelInfo(name=name, version="1.0.0", files=SavedModelFiles(path=name)),
        source=FolderSource(path=folder),
        compilation=Compilation(batch_sizes=BATCH_SIZES, targets=(target,), engine=engine, tensorflow=version),
    )


def _compare(folder: Path, name: str, engine: Engine, target: str, before: Pipeline, now: Pipeline) -> Compared:
    made: list[Build | str] = []
    seconds = []
    for pipeline in (before, now):
        version = DEFAULT_VERSION if pipeline.candidate is None else pipeline.candidate.toolchain.version
        start = time.monotonic()
        try:
            made.append(pipeline.build(pipeline.plan(_spec(folder, name, engine, target, version))))
        except TfaotError as error:
            # One line, because it becomes a row of the report.
            made.append(" ".join(error.message.split())[:300])
        seconds.append(time.monotonic() - start)
    # Timed together, so that other work on the machine affects both.
    times = _times([each for each in made if isinstance(each, Build)], target, before)
    outcomes = [_outcome(each, taken, times) for each, taken in zip(made, seconds, strict=True)]
    return Compared(model=name, engine=engine, before=outcomes[0], now=outcomes[1], same_bits=_same_bits(made, target))


def _times(builds: Sequence[Build], target: str, pipeline: Pipeline) -> Mapping[TimedUnit, list[float]]:
    """The times of all libraries, which alternate in each round."""
    if not builds:
        return {}
    log = pipeline.folders.logs / "try.log"
    compiler = find_compiler(TARGETS[target].architecture, log=log, output=pipeline.progress.output)
    return timer(compiler, pipeline.cache).times({build.library.shared: [target] for build in builds})


def _outcome(made: Build | str, seconds: float, times: Mapping[TimedUnit, list[float]]) -> Outcome:
    if isinstance(made, str):
        return Outcome(fault=made, microseconds={})
    library = made.library.shared
    return Outcome(
        engine="program" if made.engine.is_program else "xla",
        seconds=round(seconds, 1),
        difference=float(f"{made.report.max_relative:.2g}"),
        shared_bytes=library.stat().st_size,
        microseconds={
            unit.batch_size: round(statistics.median(found) / 1e3, 3)
            for unit, found in times.items()
            if unit.library == library
        },
    )


def _same_bits(made: Sequence[Build | str], target: str) -> bool | None:
    # Bits of different TensorFlow releases are comparable: a program's code comes from this project's compiler.
    groups = [
        each.report.hashes.of(target) if isinstance(each, Build) and each.report.hashes is not None else None
        for each in made
    ]
    first, second = groups
    return None if first is None or second is None else first.batches == second.batches


def report_text(trial: Trial) -> str:
    """The report as a page of Markdown."""
    verdicts = [each.verdict for each in trial.compared]
    counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
    sizes = ", ".join(map(str, BATCH_SIZES))
    lines = [
        f"# TensorFlow {trial.version}, compared with {trial.default}\n",
        *([f"Note: {trial.note}.\n"] if trial.note else []),
        f"{counts}. On {trial.processor}. Times: µs of a call at batch sizes {sizes}, medians, one thread; libraries",
        "alternate. Each library was verified against its own TensorFlow: the difference is the largest, relative.",
        "`same bits`: both give the same answers to pinned inputs, bit by bit.\n",
        f"| model | engine | {trial.default}: µs | {trial.version}: µs | KB | difference | same bits | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in trial.compared:
        both = (each.before, each.now)
        times = [" / ".join(f"{one.microseconds[size]:.1f}" for size in one.microseconds) or "-" for one in both]
        bits = {True: "yes", False: "no", None: ""}[each.same_bits]
        kilobytes = " / ".join(str(round(one.shared_bytes / 1000)) if one.shared_bytes else "-" for one in both)
        differences = " / ".join(f"{one.difference:g}" if not one.fault else "-" for one in both)
        engine = " / ".join(dict.fromkeys(one.engine or each.engine for one in both))
        cells = (each.model, engine, *times, kilobytes, differences, bits, each.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    faults = [
        f"- {each.model}, engine {each.engine}, {version}: {one.fault}"
        for each in trial.compared
        for version, one in ((trial.default, each.before), (trial.version, each.now))
        if one.fault
    ]
    return "\n".join([*lines, *(["\n## Faults\n", *faults] if faults else []), ""])
