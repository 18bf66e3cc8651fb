"""Errors of activations over all floats of an interval are those of docs/reference/accuracy.md."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.kernels.library import FLAGS, REPOSITORY
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.targets import TARGETS, runs_here

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.timeout(1200)]

_SOURCE = Path(__file__).with_name("all_floats.cpp")
_PAGE = REPOSITORY / "docs" / "reference" / "accuracy.md"
_MONOTONE = ("elu", "erf", "exp", "expm1", "sigmoid", "softplus", "tanh")


def _listed() -> dict[str, tuple[float, float]]:
    """Function -> error and step down, of the page's second table."""
    rows = [line.split("|")[1:4] for line in _PAGE.read_text().split("## All floats")[1].splitlines()]
    return {
        name.strip().strip("`"): (float(error), float(fall) if fall.strip() else 0.0)
        for name, error, fall in (row for row in rows if row and "`" in row[0])
    }


def test_errors_over_all_floats_are_those_of_the_page(tmp_path: Path) -> None:
    target = TARGETS["x86-64-v3"]
    if not runs_here(target):
        pytest.skip("this machine has no fused multiply-add")
    program = tmp_path / "all_floats"
    run(["c++", *FLAGS, *target.flags, "-o", program, _SOURCE], timeout=300)
    lines = [line.split() for line in run([program], timeout=1000).stdout.splitlines()]
    found = {
        name: (math.ceil(float(error) * 10.0) / 10.0, float(fall) if name in _MONOTONE else 0.0)
        for name, error, fall in lines
    }
    assert found == _listed()
