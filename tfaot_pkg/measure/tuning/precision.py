"""`tune --precision`: errors and times of a model in each form of compilation.precision (decision 098)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import get_args

from tfaot_pkg.analysis.accuracy import Accuracy, bars_of, missed, worst
from tfaot_pkg.errors import ModelError, RunError
from tfaot_pkg.ground.wording import duration, table
from tfaot_pkg.pipeline.pipeline import Compared, Pipeline
from tfaot_pkg.spec.types import ALL, FULL, Bars, Compute, ModelSpec, Precision, StoredWeights
from tfaot_pkg.verify import latency
from tfaot_pkg.verify.latency import TimedUnit
from tfaot_pkg.verify.runs import runnable_targets

FLOAT32 = "float32"
_NO_BAR = 1e300
"""A bar that every error keeps, so that the errors of a form are measured, whatever they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Time:
    """The median time of a run, in nanoseconds, and how many times as fast as float32 it is: the median of ratios."""

    target: str
    batch_size: int
    nanoseconds: float
    times: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A form of compilation.precision with its price and gain; `missed` are the bars of the spec that it misses."""

    form: str
    layers: int
    accuracy: tuple[Accuracy, ...]
    missed: tuple[str, ...]
    times: tuple[Time, ...]
    library_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """The points of all forms, float32 first; `unavailable` says why a form has none."""

    model: str
    points: tuple[Point, ...]
    unavailable: Mapping[str, str]

    def text(self) -> str:
        heads = ("precision", "layers", "largest error", "mean error", "bars", "library KB")
        rows: list[tuple[object, ...]] = [
            (
                each.form, each.layers, *(f"{value:.3g}" for value in _errors(each)),
                f"misses {len(each.missed)}" if each.missed else "kept", round(each.library_bytes / 1024),
            )
            for each in self.points
        ]  # fmt: skip
        times = table(("precision", "target", "batch size", "run", "times as fast"), [*self._times()])
        lines = [table(heads, rows), "", times]
        lines += [f"{form}: {reason}" for form, reason in self.unavailable.items()]
        lines += [f"{each.form} misses a bar: {fault}" for each in self.points for fault in each.missed]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        return {"model": self.model, "points": list(self.points), "unavailable": dict(self.unavailable)}

    def plot(self, suffix: str) -> bytes:
        """Time over error, for the best target and the largest batch size, in the format of `suffix`."""
        from tfaot_pkg.measure.bench.plot import price_plot  # the library takes a second to import

        last = self.points[0].times[-1]
        found = {
            each.form: (_errors(each)[0], one.nanoseconds / 1000)
            for each in self.points
            for one in each.times
            if (one.target, one.batch_size) == (last.target, last.batch_size)
        }
        return price_plot(found, f"{self.model}, batch size {last.batch_size}, {last.target}", suffix)

    def _times(self) -> Iterator[tuple[object, ...]]:
        for each in self.points:
            for one in each.times:
                yield each.form, one.target, one.batch_size, duration(one.nanoseconds), f"{one.times:.2f}"


def _errors(point: Point) -> tuple[float, float]:
    return max(each.largest for each in point.accuracy), max(each.mean for each in point.accuracy)


def forms_of(spec: ModelSpec, calibration: Path | None) -> dict[str, ModelSpec]:
    """The spec in each form. int8 needs rows of `calibration`, or the spec's; it comes with all layers, and with those
    that keep the spec's bars, if it has any.
    """

    def formed(precision: Precision, bars: Mapping[str, Bars]) -> ModelSpec:
        return replace(
            spec,
            compilation=replace(spec.compilation, precision=precision),
            validation=replace(spec.validation, accuracy=bars),
        )

    free = without_bars(spec)
    forms = {FLOAT32: formed(FULL, free)}
    for compute in get_args(Compute):
        if compute not in (FLOAT32, "int8"):
            forms[compute] = formed(Precision(compute=compute), free)
    for stored in get_args(StoredWeights):
        if stored != FLOAT32:
            forms[f"{stored} weights"] = formed(Precision(weights=stored), free)
    rows = calibration or spec.compilation.precision.calibration
    if rows is not None:
        in_bytes = Precision(compute="int8", calibration=rows.absolute())
        forms["int8"] = formed(in_bytes, free)
        if spec.validation.accuracy:
            forms["int8 within bars"] = formed(in_bytes, spec.validation.accuracy)
    return forms


def curve(spec: ModelSpec, targets: Sequence[str], calibration: Path | None, pipeline: Pipeline) -> Curve:
    """Build the model in all forms, compare each with the framework on the main inputs, and time them by turns.

    Raises RunError if this machine runs none of `targets` (of all, if none is named); all errors of a build.
    """
    runnable = [name for name in runnable_targets(spec) if name in (targets or spec.compilation.targets)]
    if not runnable:
        raise RunError("this machine runs none of the targets", hint="measure on a machine that can")
    made: dict[str, Compared] = {}
    unavailable: dict[str, str] = {}
    compiler = pipeline.plan(spec).compiler
    for form, wanted in forms_of(spec, calibration).items():
        # Classes say nothing of errors, and their answers take time.
        judged = replace(wanted, validation=replace(wanted.validation, accuracy=without_bars(spec), classes=()))
        try:
            made[form] = pipeline.compared(pipeline.plan(wanted), judged)
        except ModelError as error:
            if form == FLOAT32:
                raise
            unavailable[form] = error.message.splitlines()[0]
    libraries = {form: each.library.shared for form, each in made.items()}
    with pipeline.progress.step("measure"):
        times = latency.timer(compiler, pipeline.cache).times(dict.fromkeys(libraries.values(), runnable))
    points = tuple(
        Point(
            form=form,
            layers=each.engine.reduced,
            accuracy=worst(each.report.accuracy),
            missed=tuple(
                f"output {found.output!r}, {found.target}: {fault}"
                for found in each.report.accuracy
                for fault in missed(bars_of(spec.validation.accuracy, found.output), found)
            ),
            times=tuple(_times(times, libraries[form], libraries[FLOAT32])),
            library_bytes=libraries[form].stat().st_size,
        )
        for form, each in made.items()
    )
    return Curve(model=spec.model.name, points=points, unavailable=unavailable)


def _times(times: Mapping[TimedUnit, Sequence[float]], library: Path, full: Path) -> Iterator[Time]:
    for unit, found in times.items():
        if unit.library == library:
            ratios = [a / b for a, b in zip(times[replace(unit, library=full)], found, strict=True)]
            yield Time(
                target=unit.target,
                batch_size=unit.batch_size,
                nanoseconds=round(median(found), 1),
                times=round(median(ratios), 3),
            )


def without_bars(spec: ModelSpec) -> dict[str, Bars]:
    """The bars of `spec` as ones that all answers keep: the same figures are measured."""
    free = {name: _free(bars) for name, bars in spec.validation.accuracy.items()}
    return {ALL: Bars(largest=_NO_BAR), **free}


def _free(bars: Bars) -> Bars:
    return Bars(
        largest=_NO_BAR,
        quantile=dict.fromkeys(bars.quantile, _NO_BAR),
        accuracy=None if bars.accuracy is None else 1.0,
        auc=None if bars.auc is None else 1.0,
        rejection=dict.fromkeys(bars.rejection, 1.0),
        efficiency=dict.fromkeys(bars.efficiency, 1.0),
    )
