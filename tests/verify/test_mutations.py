"""A library with wrong answers is refused in every class of inputs, whatever its model's operations leave open."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.zoo.cases import Case
from tests.zoo.conftest import Build
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.verify.classes import ByTarget, Given, Judge
from tfaot_pkg.verify.evidence import agreement
from tfaot_pkg.verify.oracle import Oracle, Tried
from tfaot_pkg.verify.report import ClassReport
from tfaot_pkg.verify.runs import LibraryRuns

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]

CLASSES = {
    "main",
    "scaled",
    "large",
    "huge",
    "subnormal",
    "boundary",
    "nonfinite",
    "branches",
    "integers",
    "integers negative",
}
_FEW = 8
_LEAST = 1e-3
"""Answers that are less far off are not called wrong here."""


def _last_row(values: Array) -> Array:
    return np.concatenate([values[:-1], np.full_like(values[-1:], 77)]) if values.ndim else np.full_like(values, 77)


WRONG: dict[str, Callable[[Array], Array]] = {
    "nan": lambda values: np.full_like(values, np.nan if values.dtype.kind == "f" else 99),
    "infinity": lambda values: np.full_like(values, np.inf if values.dtype.kind == "f" else 1),
    "zeros": np.zeros_like,
    "one more": lambda values: ~values if values.dtype.kind == "b" else values + np.ones_like(values),
    "doubled": lambda values: values if values.dtype.kind == "b" else values * 2,
    "negated": lambda values: ~values if values.dtype.kind == "b" else -values,
    "last row": _last_row,
    "rolled": lambda values: np.roll(values, 1, axis=-1) if values.ndim else values,
}
IN_OPEN_PLACES = "numbers for infinities"
_OVERFLOWING = ("huge", "boundary")


def _wrong_of(class_name: str) -> dict[str, Callable[[Array], Array]]:
    """In classes of numbers whose sums overflow, also numbers where the library has none."""
    if class_name not in _OVERFLOWING:
        return WRONG
    return {**WRONG, IN_OPEN_PLACES: lambda values: np.where(np.isfinite(values), values, 77).astype(values.dtype)}


def _changed(answers: Given, change: Callable[[Array], Array]) -> Mapping[str, Array]:
    assert not isinstance(answers, str)
    with np.errstate(all="ignore"):
        return {name: change(values) for name, values in answers.items()}


def _is_wrong(right: Given, wrong: Mapping[str, Array], name: str) -> bool:
    """Whether most numbers of an output differ by far: a few may be open."""
    assert not isinstance(right, str)
    if name == IN_OPEN_PLACES:
        return any(np.count_nonzero(~np.isfinite(values)) > _FEW for values in right.values())
    return any(
        np.mean(agreement(wrong[name], values, rtol=_LEAST, atol=_LEAST)) < 0.5 for name, values in right.items()
    )


@pytest.mark.sweep(night=["activations", "ordered"])
@pytest.mark.parametrize("name", ["activations", "ordered", "summed", "layers", "table", "quantized"])
def test_wrong_answers_are_faults_in_every_class(
    name: str, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    caught: dict[tuple[str, str], bool] = {}
    report = Judge.report

    def mutated(self: Judge, tried: Tried, ours: ByTarget) -> ClassReport:
        right = report(self, tried, ours)
        ran = [answers for name, answers in tried.eager.items() if name.endswith("/ran")]
        # Negative indices have no right answer if the framework rejects all of them.
        if tried.fault or (ran and not any(answers.any() for answers in ran)):
            return right
        explored = self.oracle.explored(tried)
        for wrong, change in _wrong_of(tried.name).items():
            given: dict[str, dict[str, Any]] = {
                target: {**classes, tried.name: _changed(classes[tried.name], change)}
                for target, classes in ours.items()
            }
            with monkeypatch.context() as inner:
                inner.setattr(Oracle, "explored", lambda *_, explored=explored: explored)
                inner.setattr(LibraryRuns, "run", lambda _, target, *__, given=given, **___: given[target])
                found = report(self, tried, given)
            for target, classes in ours.items():
                if _is_wrong(classes[tried.name], given[target][tried.name], wrong):
                    caught[tried.name, wrong] = any(one.is_fault for one in found.differences)
        return right

    monkeypatch.setattr(Judge, "report", mutated)
    folders = Folders(cache=tmp_path / "cache", data=tmp_path / "data")
    build(Case(name=name), tensorflow=DEFAULT_VERSION, folders=folders)
    assert {each for each, _ in caught} <= CLASSES and len(caught) > 10
    assert [each for each, found in caught.items() if not found] == []
