"""What labelled rows say of scores: accuracy, AUC, background rejection and signal efficiency. Pure.

An output has one score for each row, or one for each class along its last axis. Signal are the rows of label 1,
background those of label 0; of two classes, the score is that of class 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.spec.types import Bars

ACCURACY, AUC = "accuracy", "AUC"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFigure:
    """A figure of an output on labelled rows, of the framework's answers in float32 (`theirs`) and of the package's."""

    name: str
    theirs: float
    ours: float

    def __str__(self) -> str:
        return f"{self.name} {self.ours:.6g} (float32 {self.theirs:.6g})"


def rejection_name(efficiency: str) -> str:
    return f"background rejection at signal efficiency {efficiency}"


def efficiency_name(efficiency: str) -> str:
    return f"signal efficiency at background efficiency {efficiency}"


def figures(ours: Array, theirs: Array, labels: Array, bars: Bars) -> tuple[TaskFigure, ...]:
    """Those that the output has and `bars` asks for; accuracy and AUC in any case."""
    pairs = [(name, function(theirs, labels), function(ours, labels)) for name, function in _functions(theirs, bars)]
    return tuple(TaskFigure(name=name, theirs=a, ours=b) for name, a, b in pairs)


def label_fault(answers: Array, labels: Array, bars: Bars) -> str:
    """What is wrong with labels for an output with such answers, or with the bars for it; empty if nothing is."""
    classes = _classes(answers)
    if labels.dtype.kind not in "iub" or labels.shape != (len(answers),):
        return f"must be one integer for each of {len(answers)} rows, and is {labels.dtype}{list(labels.shape)}"
    if classes is None:
        return "has no scores: the output must have one for each row, or one for each class along its last axis"
    most = max(classes, 2)
    if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < most:
        return f"has labels from {labels.min()} to {labels.max()}, and the classes are 0 to {most - 1}"
    if bars.accuracy is not None and classes < 2:
        return "has one score for each row, for which accuracy needs a threshold: set a bar for auc, or for rejection"
    needs_both = bars.auc is not None or bars.rejection or bars.efficiency
    if classes > 2 and (bars.rejection or bars.efficiency):
        return "has more than two classes, of which none is the signal: set bars for accuracy or auc"
    if needs_both and len(np.unique(labels)) < 2:
        return "has one label alone: rows of signal and of background are needed"
    return ""


def missed_tasks(bars: Bars, found: Mapping[str, TaskFigure]) -> Iterator[str]:
    """A phrase for each bar that does not hold."""
    for name, bar, is_relative in _bars(bars):
        each = found.get(name)
        if each is not None and (loss := _loss(each, is_relative=is_relative)) > bar:
            lost = (
                f"{100 * loss:.3g} %, and the bar {100 * bar:g} %"
                if is_relative
                else f"{loss:.3g}, and the bar {bar:g}"
            )
            yield f"{name} is {each.ours:.6g}, and {each.theirs:.6g} in float32: the loss is {lost}"


def _loss(figure: TaskFigure, *, is_relative: bool) -> float:
    loss = figure.theirs - figure.ours
    return loss / figure.theirs if is_relative and figure.theirs else loss


def _bars(bars: Bars) -> Iterator[tuple[str, float, bool]]:
    """Names of figures with the largest loss, and whether that is relative."""
    if bars.accuracy is not None:
        yield ACCURACY, bars.accuracy, False
    if bars.auc is not None:
        yield AUC, bars.auc, False
    for name, bar in bars.rejection.items():
        yield rejection_name(name), bar, True
    for name, bar in bars.efficiency.items():
        yield efficiency_name(name), bar, False


_Function = Callable[[Array, Array], float]


def _functions(answers: Array, bars: Bars) -> Iterator[tuple[str, _Function]]:
    classes = _classes(answers)
    if classes is None:
        return
    if classes > 1:
        yield ACCURACY, _accuracy
    yield AUC, _auc
    if classes > 2:
        return
    for name in bars.rejection:
        yield rejection_name(name), partial(_rejection, efficiency=float(name))
    for name in bars.efficiency:
        yield efficiency_name(name), partial(_efficiency, background_efficiency=float(name))


def _classes(answers: Array) -> int | None:
    """The scores of a row; None if they are more than a vector, or no floats."""
    if answers.dtype.kind != "f" or answers.ndim not in (1, 2):
        return None
    return 1 if answers.ndim == 1 else answers.shape[1] or None


def _accuracy(answers: Array, labels: Array) -> float:
    """The share of rows whose largest score is at their label."""
    return float(np.mean(answers.argmax(-1) == labels)) if len(labels) else 0.0


def _scores(answers: Array) -> Array:
    return answers[:, -1] if answers.ndim == 2 else answers


def _auc(answers: Array, labels: Array) -> float:
    """The area under the ROC curve: the share of pairs in which the signal has the larger score, ties by half.

    Of more classes the mean over those that some rows have, of each against all others.
    """
    if answers.ndim == 2 and answers.shape[1] > 2:
        found = [_area(answers[:, each], labels == each) for each in np.unique(labels)]
        return float(np.mean(found)) if found else 0.5
    return _area(_scores(answers), labels == 1)


def _area(scores: Array, is_signal: Array) -> float:
    signal, background = scores[is_signal], np.sort(scores[~is_signal])
    if not signal.size or not background.size:
        return 0.5
    below = np.searchsorted(background, signal, "left") + np.searchsorted(background, signal, "right")
    return float(below.mean(dtype=np.float64) / 2 / background.size)


def _rejection(answers: Array, labels: Array, efficiency: float) -> float:
    """One over the share of background that is left where at least `efficiency` of the signal is; at most the number
    of rows of background.
    """
    scores = _scores(answers)
    signal, background = np.sort(scores[labels == 1])[::-1], scores[labels == 0]
    threshold = signal[max(0, math.ceil(efficiency * signal.size - 1e-9) - 1)]
    return float(background.size / max(1, np.count_nonzero(background >= threshold)))


def _efficiency(answers: Array, labels: Array, background_efficiency: float) -> float:
    """The share of signal above the threshold that at most that share of the background exceeds."""
    scores = _scores(answers)
    signal, background = scores[labels == 1], np.sort(scores[labels == 0])[::-1]
    place = min(math.floor(background_efficiency * background.size + 1e-9), background.size - 1)
    return float(np.mean(signal > background[place]))
