"""Figures on labelled rows: against their definitions, counted pair by pair and threshold by threshold."""

from __future__ import annotations

import numpy as np
import pytest

from tfaot_pkg.analysis.accuracy import measured, missed
from tfaot_pkg.analysis.tasks import TaskFigure, figures, label_fault
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.spec.types import Bars

_BARS = Bars(rejection={"0.5": 0.1, "0.9": 0.1}, efficiency={"0.1": 0.1})


def _random(seed: int, count: int = 300) -> tuple[Array, Array]:
    """Scores with ties, and labels."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, count)
    return np.round(random.normal(size=count) + labels, 1), labels


def _found(scores: Array, labels: Array, bars: Bars = _BARS) -> dict[str, float]:
    return {each.name: each.ours for each in figures(scores, scores, labels, bars)}


@pytest.mark.parametrize("seed", range(5))
def test_figures_are_those_of_counting(seed: int) -> None:
    scores, labels = _random(seed)
    signal, background = scores[labels == 1], scores[labels == 0]
    found = _found(scores, labels)
    pairs = (signal[:, None] > background).mean() + (signal[:, None] == background).mean() / 2
    assert found["AUC"] == pytest.approx(pairs, abs=1e-12)
    for efficiency in (0.5, 0.9):
        threshold = max(each for each in signal if np.mean(signal >= each) >= efficiency)
        wanted = 1 / np.mean(background >= threshold)
        assert found[f"background rejection at signal efficiency {efficiency}"] == pytest.approx(wanted)
    threshold = min(each for each in background if np.mean(background > each) <= 0.1)
    assert found["signal efficiency at background efficiency 0.1"] == pytest.approx(np.mean(signal > threshold))


def test_a_perfect_score_rejects_as_much_background_as_there_is() -> None:
    scores, labels = np.array([0.1, 0.2, 0.8, 0.9]), np.array([0, 0, 1, 1])
    found = _found(scores, labels)
    assert found["AUC"] == 1.0 and found["background rejection at signal efficiency 0.9"] == 2.0
    assert found["signal efficiency at background efficiency 0.1"] == 1.0


def test_two_classes_are_judged_by_the_second_and_more_by_all() -> None:
    scores, labels = _random(7)
    two = np.stack([-scores, scores], 1)
    assert _found(two, labels)["AUC"] == _found(scores, labels)["AUC"]
    assert _found(two, labels)["accuracy"] == np.mean((scores > 0) == labels)
    random = np.random.default_rng(1)
    labels = random.integers(0, 3, 200)
    three = random.normal(size=(200, 3)) + np.eye(3)[labels]
    found = _found(three, labels)
    assert set(found) == {"accuracy", "AUC"} and found["accuracy"] == np.mean(three.argmax(1) == labels)
    each = [_found(three[:, place], (labels == place).astype(int))["AUC"] for place in range(3)]
    assert found["AUC"] == pytest.approx(np.mean(each))


def test_bars_are_for_losses_against_float32() -> None:
    scores, labels = _random(3)
    worse = scores + np.random.default_rng(4).normal(size=scores.size)
    bars = Bars(auc=0.001, rejection={"0.5": 0.05}, efficiency={"0.1": 0.01})
    found = measured(worse, scores, bars, target="x86-64-v3", output="y", labels=labels)
    first, second, third = missed(bars, found)
    assert (
        first.startswith("AUC is 0.") and "in float32: the loss is 0." in first and first.endswith("and the bar 0.001")
    )
    assert second.startswith("background rejection at signal efficiency 0.5 is ") and second.endswith(
        "%, and the bar 5 %"
    )
    assert third.startswith("signal efficiency at background efficiency 0.1 is 0.")
    better = measured(scores, worse, bars, target="x86-64-v3", output="y", labels=labels)
    assert not list(missed(bars, better))
    assert "AUC 0." in str(found) and "(float32 0." in str(found)
    assert measured(worse, scores, bars, target="x86-64-v3", output="y").tasks == ()


@pytest.mark.parametrize(
    ("answers", "labels", "bars", "said"),
    [
        ((4, 2), [0, 1, 0], Bars(), "one integer for each of 4 rows"),
        ((4, 2), [0.0, 1.0, 0.0, 1.0], Bars(), "one integer for each of 4 rows, and is float64[4]"),
        ((4, 2, 2), [0, 1, 0, 1], Bars(), "has no scores"),
        ((4, 2), [0, 1, 2, 1], Bars(), "has labels from 0 to 2, and the classes are 0 to 1"),
        ((4,), [0, 1, -1, 1], Bars(), "has labels from -1 to 1"),
        ((4,), [0, 1, 0, 1], Bars(accuracy=0.1), "for which accuracy needs a threshold"),
        ((4, 3), [0, 1, 2, 1], Bars(rejection={"0.5": 0.1}), "of which none is the signal"),
        ((4,), [1, 1, 1, 1], Bars(auc=0.1), "has one label alone"),
        ((4, 3), [0, 1, 2, 1], Bars(accuracy=0.1, auc=0.1), ""),
        ((4, 1), [0, 1, 0, 1], _BARS, ""),
    ],
)
def test_labels_that_do_not_fit_are_named(answers: tuple[int, ...], labels: list[int], bars: Bars, said: str) -> None:
    found = label_fault(np.zeros(answers, np.float32), np.array(labels), bars)
    assert said in found and bool(found) == bool(said)


def test_integers_are_no_scores() -> None:
    assert "has no scores" in label_fault(np.zeros(3, np.int32), np.zeros(3, int), Bars())
    assert str(TaskFigure(name="AUC", theirs=0.5, ours=0.25)) == "AUC 0.25 (float32 0.5)"
