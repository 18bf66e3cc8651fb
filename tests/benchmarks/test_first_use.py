"""benchmarks/first_use.py: the paths of new users, each from an empty home to its end, with what it takes."""

from __future__ import annotations

import sys
from pathlib import Path

import first_use
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1200)]
_EXPECTED = {
    "an ONNX file in C++": "p[0]  0.04391",
    "decision trees in C++": "probabilities[0]  0.95",
    "a SavedModel in C++": "scores",
    "a notebook": "tagger",
    "CMSSW": ".xml",
    "a night of two models": "wine",
    first_use.CONSUMER: "p[0]  0.04391",
    first_use.MANAGER: "XGBoost 3.2.0 on the same rows:\nmargin: [1.947938]\nprobabilities: [0.8752216]",
    first_use.CONTRIBUTOR: "passed",
}
"""A part of the last lines that each path prints."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return first_use.wheel_in(tmp_path_factory.mktemp("wheel"))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.release) if number else name for number, name in enumerate(_EXPECTED)]
)
def test_a_new_user_reaches_the_end(name: str, wheel: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = first_use.use_of(name, wheel, tmp_path / "user")
    with capsys.disabled():
        sys.stdout.write(f"\n{used.row}\n")
    assert _EXPECTED[name] in used.numbers
    # Not times: the machine is shared. Who has no SavedModel pays for no TensorFlow.
    assert name not in ("an ONNX file in C++", "decision trees in C++") or used.home < 5e8


def test_every_path_is_tried() -> None:
    assert set(_EXPECTED) == set(first_use.NAMES)
