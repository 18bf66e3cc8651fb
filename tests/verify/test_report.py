"""When two answers agree, and what a report says of those that do not."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from tfaot_pkg.ground.documents import plain
from tfaot_pkg.verify.evidence import Answers, Spread
from tfaot_pkg.verify.judgement import Difference, differences
from tfaot_pkg.verify.report import (
    Branch,
    ClassReport,
    Comparison,
    ValidationReport,
    compare,
    disagreement,
    findings,
    undefined,
)  # fmt: skip

RTOL, ATOL = 1e-4, 1e-5


def _compare(ours: object, theirs: object, dtype: str) -> Comparison:
    first, second = np.array(ours, dtype), np.array(theirs, dtype)
    return compare(first, second, target="x86-64-v3", batch_size=1, output="y", rtol=RTOL, atol=ATOL)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_agree_within_the_sum_of_both_tolerances(dtype: str) -> None:
    theirs = 2.0
    bound = ATOL + RTOL * theirs
    assert _compare([theirs + 0.99 * bound, theirs - 0.99 * bound], [theirs, theirs], dtype).failures == 0
    result = _compare([theirs + 1.02 * bound, theirs], [theirs, theirs], dtype)
    assert (result.failures, result.elements) == (1, 2)
    assert result.max_absolute == pytest.approx(1.02 * bound, rel=1e-2)
    assert result.max_relative == pytest.approx(1.02 * bound / theirs, rel=1e-2)


def test_the_relative_tolerance_is_of_tensorflows_value() -> None:
    assert _compare([10.0], [10.0 * (1 + 0.9 * RTOL)], "float64").failures == 0
    assert _compare([0.0], [1.0], "float64").failures == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_special_value_agrees_with_itself_and_with_nothing_else(value: float) -> None:
    assert _compare([value], [value], "float32").failures == 0
    for other in {math.nan, math.inf, -math.inf, 1.0, 3e38} - {value}:
        if math.isnan(value) and math.isnan(other):
            continue
        assert _compare([value], [other], "float32").failures == 1, other
        assert _compare([other], [value], "float32").failures == 1, other


def test_special_values_do_not_hide_or_spoil_the_largest_difference() -> None:
    result = _compare([math.nan, math.inf, 1.5, 0.0], [math.nan, 2.0, 1.0, 0.0], "float64")
    assert result.failures == 2 and result.max_absolute == 0.5 and result.max_relative == 0.5


def test_zero_is_compared_by_the_absolute_tolerance_alone() -> None:
    assert _compare([0.9 * ATOL, -0.0], [0.0, 0.0], "float64").failures == 0
    result = _compare([1.1 * ATOL], [0.0], "float64")
    assert result.failures == 1 and result.max_relative == 0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64", "bool"])
def test_integers_and_booleans_must_be_equal(dtype: str) -> None:
    assert _compare([0, 1, 1], [0, 1, 1], dtype).failures == 0
    assert _compare([0, 1, 0], [0, 1, 1], dtype).failures == 1


def test_a_difference_of_one_between_large_integers_is_seen() -> None:
    assert _compare([2**62 + 1], [2**62], "int64").failures == 1
    assert _compare([2**64 - 1], [2**64 - 2], "uint64").failures == 1


def test_differences_of_integers_are_reported_in_their_unit() -> None:
    result = _compare([3, 10], [5, 10], "int32")
    assert result.max_absolute == 2 and result.max_relative == pytest.approx(0.4)
    assert _compare([0], [255], "uint8").max_absolute == 255


def test_scalars_and_empty_arrays_can_be_compared() -> None:
    assert _compare(1.0, 1.0, "float32").elements == 1
    empty = _compare([], [], "float32")
    assert (empty.elements, empty.failures, empty.max_absolute) == (0, 0, 0)


def _class(*failures: int) -> ClassReport:
    found = tuple(
        Difference(
            target="x86-64-v3", batch_size=size, output="y", kind="real", elements=count, max_absolute=1.0, is_fault=True,
        )
        for size, count in enumerate(failures, 1) if count
    )  # fmt: skip
    return ClassReport(name="main", rows=4, elements=4, refused=0, not_run="", differences=found)


def _report(*failures: int) -> ValidationReport:
    """A report of batch sizes 1, 2, ... with so many failures."""
    comparisons = tuple(
        Comparison(
            target="x86-64-v3", batch_size=size, output="y", elements=4, failures=count,
            max_absolute=float(size), max_relative=0.1 * size,
        )
        for size, count in enumerate(failures, 1)
    )  # fmt: skip
    return ValidationReport(
        reference="tensorflow 2.17.1", inputs={"seed": 0, "samples": 64}, rtol=RTOL, atol=ATOL,
        comparisons=comparisons, warnings=("GatherV2: clamped",), confinement="landlock", classes=(_class(*failures),),
        branches_not_taken=(Branch(node="cond", operation="If", side="true"),),
        targets={"x86-64-v3": "native", "x86-64-v4": "not run"},
    )  # fmt: skip


def test_a_report_knows_what_failed_and_its_largest_differences() -> None:
    report = _report(0, 3, 0)
    assert [(name, each.batch_size) for name, each in report.failed] == [("main", 2)]
    assert report.max_absolute == 3 and report.max_relative == pytest.approx(0.3)
    assert plain(report)["passed"] is False and plain(_report(0))["passed"] is True
    assert report.not_run == ("x86-64-v4",)


def test_a_report_without_a_comparison_is_not_passed() -> None:
    document = plain(_report())
    assert document["verdict"] == "not run" and document["passed"] is False


def test_a_report_survives_json() -> None:
    report = _report(0, 1)
    assert ValidationReport.from_dict(json.loads(json.dumps(plain(report)))) == report


def test_classes_that_were_not_tried_for_one_reason_are_named_in_one_line() -> None:
    skipped = [
        replace(_class(), name=name, not_run=why) for name, why in (("huge", "a"), ("scaled", "b"), ("large", "a"))
    ]
    lines = findings(replace(_report(0), classes=tuple(skipped)))
    assert lines[:2] == ["inputs not tried: huge, large (a)", "inputs not tried: scaled (b)"]


def _rounded(*distances: float) -> tuple[Difference, ...]:
    """Differences of main answers that are off by these, if TensorFlow's are off by 2e-5."""
    right, ours = np.zeros(len(distances), "float32"), np.array(distances, "float32")
    spread = Spread(change=np.full(len(right), 2e-5), low=right, high=right, missing=np.zeros(len(right), bool))
    return tuple(
        differences(
            Answers(ours=ours, eager=right, eager_ran=np.ones(len(right), bool), spread=spread), class_name="main",
            target="x86-64-v3", batch_size=1, output="y", rtol=RTOL, atol=ATOL, operations=frozenset(),
        )
    )  # fmt: skip


def test_a_tolerance_is_proposed_that_accepts_the_roundings() -> None:
    for distances, atol in (((1.43e-5, 0), 2e-5), ((1.43e-5, 9.1e-5), 1e-4), ((2.0e-5, 0), 3e-5)):
        found = _rounded(*distances)
        assert [(each.kind, each.atol, each.spread) for each in found] == [("rounding", atol, 2e-5)]
        assert _compare(list(distances), [0, 0], "float32").failures
        near = np.isclose(np.array(distances, "float32"), 0, rtol=0, atol=atol)
        assert near.all()
        error = disagreement("m", replace(_report(0), classes=(replace(_class(), differences=found),)))
        assert (
            f"`validation: {{atol: {atol:g}}}` accepts them; TensorFlow's own answers are off by up to 2e-05"
            in error.hint
        )


def test_no_tolerance_is_proposed_for_wrong_values() -> None:
    found = _rounded(1.43e-5, 0.5)
    assert {each.kind for each in found} == {"rounding", "real"}
    assert "accepts" not in disagreement("m", replace(_report(0), classes=(replace(_class(), differences=found),))).hint


def test_an_excuse_names_its_rule_its_operations_and_its_elements() -> None:
    excused = Difference(
        target="x86-64-v3", batch_size=1, output="y", kind="undefined result", elements=86, max_absolute=None,
        is_fault=False, rule="conversion out of range", operations=("Cast",),
    )  # fmt: skip
    report = replace(_report(0), classes=(replace(_class(), differences=(excused, replace(excused, elements=2))),))
    (line,) = [each for each in findings(report) if each.startswith("accepted")]
    assert line == (
        "accepted differences on main inputs: 88 elements (undefined result: conversion out of range of Cast)"
    )
    (note,) = undefined(report.classes)
    assert "'y': 88 elements" in note or "'y': 86 elements" in note
    assert plain(report)["classes"][0]["differences"][0]["rule"] == "conversion out of range"
