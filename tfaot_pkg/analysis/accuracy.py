"""How far answers are off the framework's in float32, and the bars that a spec sets for it (decision 093). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.analysis.tasks import TaskFigure, figures, missed_tasks
from tfaot_pkg.errors import SpecError, ValidationError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.spec.form import REFERENCE
from tfaot_pkg.spec.rules import quantile_fault
from tfaot_pkg.spec.types import ALL, Bars, ModelSpec

_QUANTILES = ("0.5", "0.99", "0.999")
"""Those that are always told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The errors of one output on one target, over `elements` of the main inputs that are finite on both sides.

    Errors are absolute; `quantiles` has them by the texts of quantiles. `argmax` is the share of vectors along the last
    axis whose largest elements are at one place, of integers that of equal elements; None if vectors have one element.
    `tasks` are figures on labelled rows.
    """

    target: str
    output: str
    elements: int
    largest: float
    mean: float
    quantiles: Mapping[str, float] = field(default_factory=dict)
    argmax: float | None = None
    tasks: tuple[TaskFigure, ...] = ()

    @property
    def is_printable(self) -> bool:
        """Whether a terminal can show it, whoever wrote it."""
        names = [self.output, *(each.name for each in self.tasks)]
        return all(map(str.isprintable, names)) and all(map(_is_quantile, self.quantiles))

    def __str__(self) -> str:
        parts = [f"largest {self.largest:.3g}", f"mean {self.mean:.3g}"]
        parts += [f"{float(name):.6g} quantile {error:.3g}" for name, error in self.quantiles.items()]
        parts += [] if self.argmax is None else [f"argmax equal for {100 * self.argmax:.5g} %"]
        parts += map(str, self.tasks)
        return ", ".join(parts)


def _is_quantile(text: str) -> bool:
    return not quantile_fault(text)


def bars_of(accuracy: Mapping[str, Bars], output: str) -> Bars:
    """The bars for an output: its own, or those for all."""
    return accuracy.get(output) or accuracy.get(ALL) or Bars()


def require_bars(spec: ModelSpec, signature: Signature) -> None:
    """Raise SpecError if a bar is for no output, or an output of a model of reduced precision has none."""
    accuracy, is_reduced = spec.validation.accuracy, spec.compilation.precision.is_reduced
    names = [tensor.name for tensor in signature.outputs]
    faults = [
        f"validation.accuracy: the model has no output {name!r}" for name in accuracy if name not in (*names, ALL)
    ]
    without = [name for name in names if is_reduced and not bars_of(accuracy, name)]
    faults += [f"validation.accuracy: the output {name!r} has no bars" for name in without]
    if is_reduced and signature.state:
        faults.append("compilation.precision: the model has variables that calls change, whose errors would add up")
    if faults:
        raise SpecError("\n".join(faults), hint=REFERENCE.hint([("validation", "accuracy")]))


def measured(
    ours: Array, theirs: Array, bars: Bars, *, target: str, output: str, labels: Array | None = None
) -> Accuracy:
    """The errors of `ours`. Infinities and NaN are left out: they must be the framework's (classes.py).

    `labels` are those of the rows, if there are any.
    """
    mine, other = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(mine) & np.isfinite(other)
    errors = np.abs(mine[finite] - other[finite])
    named = sorted({*_QUANTILES, *bars.quantile}, key=float) if errors.size else []
    return Accuracy(
        target=target,
        output=output,
        elements=int(errors.size),
        largest=float(errors.max(initial=0.0)),
        mean=float(errors.mean()) if errors.size else 0.0,
        # An error that occurred, so that the bar does not depend on how one interpolates.
        quantiles={name: float(np.quantile(errors, float(name), method="higher")) for name in named},
        argmax=_agreement(mine, other) if theirs.dtype.kind == "f" else float(np.mean(ours == theirs)),
        tasks=() if labels is None else figures(mine, other, labels, bars),
    )


def unlike_finite(ours: Array, theirs: Array) -> NDArray[np.bool_]:
    """Mask of the elements that are NaN or an infinity on one side, and not the same on the other."""
    finite = np.isfinite(ours) & np.isfinite(theirs)
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    return np.asarray(~finite & ~same)


def _agreement(ours: Array, theirs: Array) -> float | None:
    if ours.ndim < 1 or ours.shape[-1] < 2 or not ours.size:
        return None
    # Where the framework's largest elements are equal, any of them is at its place.
    places = np.expand_dims(ours.argmax(-1), -1)
    return float(np.mean(np.take_along_axis(theirs, places, -1)[..., 0] >= theirs.max(-1)))


def missed(bars: Bars, found: Accuracy) -> Iterator[str]:
    """A phrase for each bar that does not hold."""
    if bars.largest is not None and found.largest > bars.largest:
        yield f"the largest error is {found.largest:.3g}, and the bar {bars.largest:g}"
    if bars.mean is not None and found.mean > bars.mean:
        yield f"the mean error is {found.mean:.3g}, and the bar {bars.mean:g}"
    for name, bar in bars.quantile.items():
        error = found.quantiles.get(name, 0.0)
        if error > bar:
            yield f"the {name} quantile of the errors is {error:.3g}, and the bar {bar:g}"
    if found.argmax is None and bars == Bars(argmax=bars.argmax):
        yield "its vectors along the last axis have one element, so that argmax is no bar for it"
    yield from missed_tasks(bars, {each.name: each for each in found.tasks})
    if bars.argmax is not None and found.argmax is not None and found.argmax < bars.argmax:
        yield f"the argmax is the framework's for {100 * found.argmax:.5g} %, and the bar {100 * bars.argmax:g} %"


def used_of(bars: Bars, found: Accuracy) -> float:
    """The largest share of a bar that the errors take: at most 1 if all hold."""
    pairs = [(found.largest, bars.largest), (found.mean, bars.mean)]
    pairs += [(found.quantiles.get(name, 0.0), bar) for name, bar in bars.quantile.items()]
    if found.argmax is not None and bars.argmax is not None:
        pairs.append((1.0 - found.argmax, 1.0 - bars.argmax))
    return max((_share(figure, bar) for figure, bar in pairs if bar is not None), default=0.0)


def _share(figure: float, bar: float) -> float:
    if figure <= bar:
        return figure / bar if bar else 0.0
    return figure / bar if bar else math.inf


def require_held(model: str, accuracy: Mapping[str, Bars], found: tuple[Accuracy, ...], framework: str) -> None:
    """Raise ValidationError with the figures if a bar does not hold."""
    lines = [
        f"  output {each.output!r}, {each.target}: {'; '.join(faults)} ({each})"
        for each in found
        if (faults := list(missed(bars_of(accuracy, each.output), each)))
    ]
    if lines:
        raise ValidationError(
            f"model {model}: the answers are further off those of {framework} than validation.accuracy allows:\n"
            + "\n".join(lines),
            hint="keep float32 (remove compilation.precision), or set bars that the model's users accept",
        )


def worst(found: tuple[Accuracy, ...]) -> tuple[Accuracy, ...]:
    """For each output, the errors on the target with the largest one."""
    by_output: dict[str, Accuracy] = {}
    for each in found:
        if each.output not in by_output or each.largest > by_output[each.output].largest:
            by_output[each.output] = each
    return tuple(by_output.values())
