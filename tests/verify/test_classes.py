"""Validation looks for trouble: what it tries beside the given inputs, and what it makes of differences."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from tests.wording import DIFFERENCES, reported
from tests.zoo.cases import NEWEST_VERSION, Case
from tests.zoo.conftest import Build, Builder
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.frontends.toolchain import environment
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, toolchain
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.verify.report import ClassReport, ValidationReport

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]

TARGETS = ("x86-64-v2", "x86-64-v3")
VERSIONS = [DEFAULT_VERSION, NEWEST_VERSION]


def _class(report: ValidationReport, name: str) -> ClassReport:
    return next(each for each in report.classes if each.name == name)


@pytest.mark.sweep(night=["activations-2.17.1", "layers-2.21.0"])
@pytest.mark.parametrize("tensorflow", VERSIONS)
@pytest.mark.parametrize("name", ["activations", "layers"])
def test_activations_of_both_kinds_of_code_agree_with_tensorflow_on_all_classes(
    name: str, tensorflow: str, build: Build
) -> None:
    report = build(Case(name=name), tensorflow=tensorflow, targets=TARGETS).report
    assert report.verdict == "passed" and not report.failed
    compared = {each.name for each in report.classes if not each.not_run}
    assert compared >= {"main", "scaled", "large", "huge", "subnormal", "boundary", "nonfinite"}
    assert all(each.elements for each in report.classes)


@pytest.mark.sweep(night=["gelu_tanh-2.17.1"])
@pytest.mark.parametrize(("name", "tensorflow"), [("gelu", NEWEST_VERSION), ("gelu_tanh", DEFAULT_VERSION)])
def test_what_xla_itself_computes_wrongly_for_large_numbers_is_found(
    name: str, tensorflow: str, corners: Path, shared_home_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = toolchain(tensorflow)
    monkeypatch.setattr(environment, "toolchain", lambda _: replace(known, lowerings=()))
    builder = Builder(lambda _: corners, Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data"))
    with closing(builder), reported(ValidationError, varies=DIFFERENCES) as caught:
        builder.build(Case(name=name), tensorflow=tensorflow, targets=("x86-64-v2",))
    assert re.search(r"inputs of class (scaled|large), x86-64-v2, .*: real", caught.value.message)
    assert "rtol" not in caught.value.hint


@pytest.mark.nightly
def test_sides_of_branches_are_taken_and_those_that_cannot_be_are_listed(build: Build) -> None:
    report = build(Case(name="branching"), tensorflow=DEFAULT_VERSION).report
    assert _class(report, "branches").elements
    assert [each.side for each in report.branches_not_taken] == ["true"]


@pytest.mark.nightly
def test_a_loop_that_does_not_end_for_a_class_leaves_that_class_out_and_says_so(build: Build) -> None:
    report = build(Case(name="halving_loop"), tensorflow=DEFAULT_VERSION).report
    assert report.verdict == "passed"
    assert any("did not end" in each.not_run for each in report.classes)


@pytest.mark.sweep("2.17.1")
@pytest.mark.parametrize("tensorflow", VERSIONS)
def test_indices_out_of_range_are_clamped_and_no_fault(tensorflow: str, build: Build) -> None:
    report = build(Case(name="table"), tensorflow=tensorflow).report
    integers = _class(report, "integers")
    assert report.verdict == "passed" and integers.refused
    assert {one.kind for one in integers.differences} == {"out-of-range index"}


def test_random_numbers_are_named_as_such_and_no_tolerance_is_proposed(build: Build) -> None:
    with reported(ValidationError, varies=DIFFERENCES) as caught:
        build(Case(name="random"), tensorflow=DEFAULT_VERSION)
    assert ": random op" in caught.value.message and "rtol" not in caught.value.hint


@pytest.mark.nightly
def test_sums_that_round_otherwise_for_large_numbers_are_no_fault(build: Build) -> None:
    assert build(Case(name="summed"), tensorflow=DEFAULT_VERSION).report.verdict == "passed"
