"""`tune --precision`: the forms that are tried, and what is measured of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.commands import run_command
from tfaot_pkg.analysis.accuracy import Accuracy
from tfaot_pkg.ground.wording import duration
from tfaot_pkg.measure.tuning.precision import Curve, Point, Time, forms_of, without_bars
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.types import Bars, ModelSpec

_BARS = "{y: {mean: 0.1, quantile: {0.9: 1}, auc: 0.1}}"


def _spec(more: str = "") -> ModelSpec:
    text = f"model: {{name: m, version: 1.0.0}}\ncompilation: {{batch_sizes: [1]}}\n{more}"
    return parse_spec(text.encode(), Path("/m/spec.yaml"))


def test_bytes_are_tried_with_rows_of_calibration_and_within_bars_if_there_are_any() -> None:
    computes = ["float32", "bfloat16", "float32x3", "float32x6"]
    always = [*computes, "bfloat16 weights", "int8 weights"]
    assert [*forms_of(_spec(), None)] == always
    assert [*forms_of(_spec(), Path("rows.npz"))] == [*always, "int8"]
    spec = _spec(f"validation: {{inputs: x.npz, labels: l.npz, accuracy: {_BARS}}}\n")
    forms = forms_of(spec, Path("/m/rows.npz"))
    assert [*forms] == [*always, "int8", "int8 within bars"]
    assert forms["int8 within bars"].validation.accuracy == spec.validation.accuracy
    assert forms["int8"].validation.accuracy == forms["float32"].validation.accuracy == without_bars(spec)
    assert {form: each.compilation.precision.compute for form, each in forms.items()} == {
        **{each: each for each in computes}, "bfloat16 weights": "float32", "int8 weights": "float32", "int8": "int8",
        "int8 within bars": "int8",
    }  # fmt: skip
    weights = [forms[form].compilation.precision.weights for form in always]
    assert weights == ["float32"] * 4 + ["bfloat16", "int8"]


def test_figures_of_bars_are_measured_and_none_fails() -> None:
    found = without_bars(_spec(f"validation: {{inputs: x.npz, labels: l.npz, accuracy: {_BARS}}}\n"))
    assert found["y"].quantile.keys() == {"0.9"} and found["y"].auc == 1.0 and found["y"].accuracy is None
    assert found["all"] == Bars(largest=1e300)


def test_the_text_has_errors_times_and_what_was_missed() -> None:
    accuracy = Accuracy(target="x86-64-v3", output="y", elements=9, largest=0.25, mean=0.125)
    times = (Time(target="x86-64-v3", batch_size=4, nanoseconds=2000.0, times=3.5),)
    point = Point(
        form="int8", layers=2, accuracy=(accuracy,), missed=("output 'y': far",), times=times, library_bytes=2048
    )
    text = Curve(model="m", points=(point,), unavailable={"bfloat16": "no layer"}).text()
    assert [line.split() for line in text.splitlines()[:2]][1] == ["int8", "2", "0.25", "0.125", "misses", "1", "2"]
    assert f"int8       x86-64-v3           4  {duration(2000.0)}" in text and "3.50" in text
    assert "bfloat16: no layer" in text and "int8 misses a bar: output 'y': far" in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--precision", "--xla-flags"], "excludes --xla-flags"),
        (["--calibration", "rows.npz"], "is for --precision"),
        (["--precision", "-o", "plot.txt"], "is no .svg or .png"),
    ],
)
def test_other_options_do_not_fit(words: list[str], said: str, tmp_path: Path) -> None:
    spec = tmp_path / "spec.yaml"
    spec.write_text("model: {name: m, version: 1.0.0}\ncompilation: {batch_sizes: [1]}\n")
    done = run_command(["tune", spec, *words], cwd=tmp_path)
    assert done.returncode == 2 and said in " ".join(done.stderr.replace("│", " ").split())
