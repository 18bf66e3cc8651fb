"""Each kind of difference by a real model, through the real chain, and what is said to do about it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.wording import DIFFERENCES, reported
from tests.zoo.cases import Case
from tests.zoo.conftest import Build
from tfaot_pkg.analysis.rows import INDEPENDENT
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.frontends.frozen.model import FrozenModel, freeze
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.rules import INPUT_CLASSES
from tfaot_pkg.verify import classes, oracle
from tfaot_pkg.verify.report import ClassReport, ValidationReport, findings
from tfaot_pkg.verify.runs import LibraryRuns

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(900)]


def _report(build: Build, name: str, *classes: str) -> ValidationReport:
    report = build(Case(name=name, classes=classes), tensorflow=DEFAULT_VERSION).report
    assert report.verdict == "passed" and not report.failed
    return report


def _class(report: ValidationReport, name: str) -> ClassReport:
    return next(each for each in report.classes if each.name == name)


def _fault(build: Build, name: str, kind: str, class_name: str = "main") -> str:
    """The hint of the error that names a fault of `kind` first."""
    classes = tuple(each for each in (class_name,) if each in INPUT_CLASSES)
    # Of the differences beside the first, other machines may have some of another kind.
    with reported(ValidationError, varies=(DIFFERENCES, r"(?<=if that is acceptable).*")) as caught:
        build(Case(name=name, classes=classes), tensorflow=DEFAULT_VERSION)
    assert f"inputs of class {class_name}, " in caught.value.message
    assert caught.value.hint.startswith(f"{kind}: ")
    return caught.value.hint


def test_sums_that_cancel_are_as_far_off_as_tensorflows(build: Build) -> None:
    report = _report(build, "cancelling")
    (rule,) = {one.rule for one in _class(report, "main").differences}
    assert rule == "error of the framework"


@pytest.mark.sweep("compared-rounding*")
@pytest.mark.parametrize(
    ("name", "kind", "operation"),
    [("compared", "rounding", "Greater"), ("ordered", "ties in sort order", "ArgMax")],
)
def test_what_a_rounding_decides_is_no_fault_and_the_operation_is_named(
    name: str, kind: str, operation: str, build: Build
) -> None:
    report = _report(build, name)
    found = {(one.kind, one.is_fault, one.operations) for one in _class(report, "main").differences}
    assert found == {(kind, False, (operation,))}
    assert not _class(report, "arranged").differences


@pytest.mark.nightly
def test_places_that_tensorflows_optimizer_moves_in_front_of_nan_are_no_faults(build: Build) -> None:
    """Roots of negative numbers are NaN in every row of the author's inputs."""
    found = _class(_report(build, "moved"), "main").differences
    assert found and {(one.rule, one.operations) for one in found} <= {
        ("moved in front of NaN", ("ArgMax",)),
        ("moved in front of NaN", ("ArgMin",)),
        ("moved in front of NaN", ("ArgMax", "ArgMin")),
    }


@pytest.mark.nightly
def test_a_loop_that_goes_on_where_tensorflows_ends_is_a_fault(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "_SECONDS_OF_MAIN", 3.0)
    monkeypatch.setattr(oracle, "_PATIENCE_FOR_MAIN", 0.0)
    hint = _fault(build, "fading", "does not end")
    assert "rtol" not in hint and "maximum_iterations" in hint


@pytest.mark.release
def test_a_class_of_inputs_for_which_the_library_does_not_end_is_a_fault(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(classes, "_PATIENCE", 0.1)
    hint = _fault(build, "fading_if_tiny", "does not end", class_name="subnormal")
    assert "rtol" not in hint and "maximum_iterations" in hint


def test_rows_that_interact_although_none_were_seen_to_meet_are_a_fault(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def independent(*args: Any, **options: Any) -> FrozenModel:
        return replace(freeze(*args, **options), rows=INDEPENDENT)

    monkeypatch.setattr("tests.zoo.conftest.freeze", independent)
    hint = _fault(build, "centred_rows", "rows that interact", class_name="arranged")
    assert "rtol" not in hint and "report it" in hint


def test_rows_that_are_seen_to_meet_are_not_tried_in_other_batches_and_the_report_says_so(build: Build) -> None:
    assert "rows depend on one another" in _class(_report(build, "halving_loop", "scaled"), "arranged").not_run


def test_rows_are_tried_in_other_batches_in_the_process_of_all_classes(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes: list[str] = []
    run = LibraryRuns._process

    def counted(self: LibraryRuns, *args: Any, **options: Any) -> str:
        processes.append("flushed" if options["flush"] else "usual")
        return run(self, *args, **options)

    monkeypatch.setattr(LibraryRuns, "_process", counted)
    folders = Folders(cache=tmp_path / "cache", data=tmp_path / "data")
    report = build(Case(name="summed", classes=()), tensorflow=DEFAULT_VERSION, folders=folders).report
    assert processes.count("usual") == 1
    tried = _class(report, "arranged")
    assert tried.elements and not tried.not_run and not tried.differences
    assert any("arranged" in line for line in findings(report))


def test_what_tensorflow_flushes_to_zero_is_no_fault(build: Build) -> None:
    (found,) = {
        (one.kind, one.is_fault) for one in _class(_report(build, "magnified", "subnormal"), "subnormal").differences
    }
    assert found == ("subnormal numbers", False)


@pytest.mark.nightly
def test_rules_of_nan_are_those_of_tensorflows_own_compiled_code(build: Build) -> None:
    found = _class(_report(build, "activations", "nonfinite"), "nonfinite").differences
    assert {(one.kind, one.is_fault) for one in found} <= {("NaN rule", False), ("rounding", False)}
    assert {one.rule for one in found} >= {"NaN in a maximum"}


def test_operations_that_xla_lacks_leave_the_others_their_compiled_answers(build: Build) -> None:
    """Two infinities are NaN in TensorFlow's running logsumexp and infinite in XLA's; NaN has no order."""
    found = _class(_report(build, "kernelless", "nonfinite"), "nonfinite").differences
    assert {(one.output, one.kind, one.is_fault) for one in found} == {
        ("beside", "NaN rule", False), ("behind", "NaN rule", False), ("order", "NaN rule", False)
    }  # fmt: skip


@pytest.mark.nightly
def test_special_functions_are_as_exact_as_tensorflows(build: Build) -> None:
    """igamma(a, a + 1) in float32 is off by 5e-3 at a = 5,000, in TensorFlow and in XLA; in float64 it is exact."""
    found = _class(_report(build, "igamma", "scaled"), "scaled").differences
    assert {one.rule for one in found} <= {"roundings of the inputs", "error of the framework"}


@pytest.mark.nightly
def test_branches_in_loops_and_in_one_another_are_taken_or_listed_by_name(build: Build) -> None:
    report = _report(build, "nested", "branches")
    not_taken = {(each.node, each.side) for each in report.branches_not_taken}
    assert not_taken == {("while", "no step"), ("while/body/cond_1", "true")}
    assert any("while/body/cond_1 (StatelessIf): true" in line for line in findings(report))


@pytest.mark.nightly
def test_a_class_is_tried_although_tensorflow_did_not_end_on_the_one_before(build: Build) -> None:
    """A worker that was stopped is replaced, and TensorFlow's start does not count."""
    report = _report(build, "halving_loop", "nonfinite", "branches")
    assert "did not end" in _class(report, "nonfinite").not_run
    assert _class(report, "branches").elements and not report.branches_not_taken
