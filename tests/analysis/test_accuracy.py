"""Errors on the main inputs, and the bars that a spec sets for them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tfaot_pkg.analysis.accuracy import (
    Accuracy,
    bars_of,
    measured,
    missed,
    require_bars,
    require_held,
    unlike_finite,
    worst,
)
from tfaot_pkg.errors import SpecError, ValidationError
from tfaot_pkg.ground import reduced
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.types import FULL, Bars, ModelSpec, Precision
from tfaot_pkg.verify.report import accuracy_in


def _measured(ours: object, theirs: object, bars: Bars | None = None, dtype: str = "float32") -> Accuracy:
    return measured(np.array(ours, dtype), np.array(theirs, dtype), bars or Bars(), target="x86-64-v3", output="y")


def _spec(accuracy: Mapping[str, Bars], compute: str) -> ModelSpec:
    text = "model: {name: m, version: 1.0.0}\ncompilation: {batch_sizes: [1]}\n"
    spec = parse_spec(text.encode(), Path("/m/spec.yaml"))
    precision = Precision(compute="bfloat16") if compute == "bfloat16" else FULL
    return replace(
        spec,
        compilation=replace(spec.compilation, precision=precision),
        validation=replace(spec.validation, accuracy=accuracy),
    )


def _output(name: str) -> Tensor:
    return Tensor(name=name, dtype=DType.FLOAT32, shape=(None, 3))


def test_errors_are_absolute_and_quantiles_are_errors_that_occurred() -> None:
    theirs = np.zeros(1000)
    ours = np.where(np.arange(1000) % 2, 1, -1) * np.arange(1000) / 1024
    found = _measured(ours, theirs, Bars(quantile={"0.9": 1.0}))
    assert (found.elements, found.largest, found.mean) == (1000, 999 / 1024, 999 / 2048)
    assert dict(found.quantiles) == {"0.5": 500 / 1024, "0.9": 900 / 1024, "0.99": 990 / 1024, "0.999": 999 / 1024}


def test_argmax_is_the_share_of_vectors_whose_largest_element_is_at_one_place() -> None:
    theirs = [[1, 2, 3], [3, 2, 1], [1, 5, 5], [7, 7, 7]]
    ours = [[1, 2, 3.1], [2, 2.1, 1], [1, 4, 4.1], [6, 7, 6]]
    assert _measured(ours, theirs).argmax == 0.75
    assert _measured([[1], [2]], [[1], [2]]).argmax is None
    assert _measured([1, 2, 3, 3], [1, 2, 3, 4], dtype="int64").argmax == 0.75


def test_what_is_not_finite_is_no_error_but_must_be_the_frameworks() -> None:
    ours, theirs = [math.nan, math.inf, 1, -math.inf, math.nan], [math.nan, math.inf, 1.5, math.inf, 1]
    assert _measured(ours, theirs).elements == 1 and _measured(ours, theirs).largest == 0.5
    found = unlike_finite(np.array(ours), np.array(theirs))
    np.testing.assert_array_equal(found, [False, False, False, True, True])


def test_a_bar_that_does_not_hold_is_named_with_its_figure() -> None:
    bars = Bars(largest=0.5, mean=0.2, quantile={"0.5": 0.25, "0.9": 1.0}, argmax=0.9)
    found = _measured([[0, 1], [0.5, 1]], [[1, 1], [0, 1]], bars)
    assert list(missed(bars, found)) == [
        "the largest error is 1, and the bar 0.5",
        "the mean error is 0.375, and the bar 0.2",
        "the 0.5 quantile of the errors is 0.5, and the bar 0.25",
    ]
    assert list(missed(Bars(argmax=0.9), _measured([[0, 1], [1, 0]], [[0, 1], [0, 1]]))) == [
        "the argmax is the framework's for 50 %, and the bar 90 %"
    ]
    assert list(missed(Bars(argmax=0.9), _measured([[1], [2]], [[1], [2]]))) == [
        "its vectors along the last axis have one element, so that argmax is no bar for it"
    ]
    assert not list(missed(Bars(largest=1, argmax=0.9), _measured([[1], [2]], [[1], [2]])))


def test_a_model_whose_answers_are_too_far_off_is_refused_with_the_figures() -> None:
    found = (_measured([1.0, 2.0], [1.0, 2.25]),)
    require_held("m", {"all": Bars(largest=0.25)}, found, "TensorFlow")
    wanted = (
        r"(?s)model m: the answers are further off those of TensorFlow than .* output 'y', x86-64-v3: the largest error "
        r"is 0.25, and the bar 0.2 \(largest 0.25, mean 0.125, "
    )
    with pytest.raises(ValidationError, match=wanted):
        require_held("m", {"all": Bars(largest=0.2)}, found, "TensorFlow")
    require_held("m", {"all": Bars(largest=0.2), "y": Bars(mean=0.5)}, found, "TensorFlow")


def test_each_output_of_reduced_precision_needs_bars() -> None:
    signature = Signature(inputs=(_output("x"),), outputs=(_output("y"), _output("z")))
    require_bars(_spec({"all": Bars(largest=1)}, "bfloat16"), signature)
    require_bars(_spec({"y": Bars(largest=1)}, "float32"), signature)
    with pytest.raises(SpecError, match="the output 'z' has no bars"):
        require_bars(_spec({"y": Bars(largest=1)}, "bfloat16"), signature)
    with pytest.raises(SpecError, match="the model has no output 'w'"):
        require_bars(_spec({"w": Bars(largest=1)}, "float32"), signature)
    assert bars_of({"all": Bars(mean=1), "y": Bars(largest=1)}, "y") == Bars(largest=1)


def test_errors_are_read_back_as_they_were_written() -> None:
    found = (_measured([[0, 1.0]], [[0.5, 1]]),)
    document = json.loads(json.dumps({"accuracy": plain(list(found))}))
    assert accuracy_in(document) == found and accuracy_in({}) == ()
    with pytest.raises(ValueError, match="accuracy"):
        accuracy_in({"accuracy": [{"output": "y"}]})


def test_the_worst_target_stands_for_an_output() -> None:
    some, more = (_measured([0.0], [error]) for error in (0.5, 0.75))
    assert worst((some, more, some)) == (more,)


def test_only_printable_names_and_quantiles_are_shown() -> None:
    found = _measured([0.0], [1.0])
    assert found.is_printable
    for wrong in ({"output": "y\x1b[2J"}, {"quantiles": {"\x1b": 1.0}}):
        document = {**plain(found), **wrong}
        (read,) = accuracy_in({"accuracy": [document]})
        assert not read.is_printable


def test_gains_are_told_by_target_and_nothing_else_that_a_publisher_wrote() -> None:
    good = [
        {"target": "x86-64-v3", "batch_size": 1, "times": 0.5},
        {"target": "x86-64-v4", "batch_size": 16, "times": 3.14159},
        {"target": "x86-64-v4", "batch_size": 64, "times": 7},
    ]
    bad = [
        {"target": "<script>", "batch_size": 1, "times": 2.0}, {"target": "x86-64-v3", "batch_size": True, "times": 2.0},
        {"target": "x86-64-v3", "batch_size": 2, "times": math.nan}, {"target": "x86-64-v3", "batch_size": 2},
        {"target": ["x86-64-v3"], "batch_size": 2, "times": 2.0}, {"target": "x86-64-v3", "batch_size": 2, "times": -1.0}, 7,
    ]  # fmt: skip
    assert reduced.gains_told_by({"gains": [*bad, *good]}) == (
        "0.50 times as fast as in float32 at batch size 1 (x86-64-v3)",
        "3.14, 7.00 times as fast as in float32 at batch sizes 16, 64 (x86-64-v4)",
    )
    documents: tuple[dict[str, object], ...] = ({}, {"gains": "7"}, {"gains": {}}, {"gains": []})
    for nothing in documents:
        assert reduced.gains_told_by(nothing) == ()
