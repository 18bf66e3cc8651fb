"""Reduced precision in specs: what asks for it, and the bars that it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.conftest import FaultsOf
from tfaot_pkg.ground import reduced
from tfaot_pkg.spec.document import spec_document, written
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.types import FULL, Bars, Precision

_REDUCED = "  precision: {compute: bfloat16}\n"


def test_a_spec_without_precision_is_float32_and_its_written_form_is_as_before(good: str) -> None:
    for text in (good, good + "  precision: {}\n", good + "  precision: {compute: float32}\n"):
        spec = parse_spec(text.encode(), Path("/m/spec.yaml"))
        assert spec.compilation.precision == FULL and not spec.validation.accuracy
        document = spec_document(spec)
        assert "precision" not in document["compilation"] and "accuracy" not in document["validation"]


def test_bars_are_by_output(good: str) -> None:
    bars = "validation: {accuracy: {z: {largest: 0.5, quantile: {0.999: 0.01, .5: 1}}, all: {mean: 1e-3, argmax: 1}}}\n"
    spec = parse_spec((good + _REDUCED + bars).encode(), Path("/m/spec.yaml"))
    assert spec.compilation.precision == Precision(compute="bfloat16")
    assert dict(spec.validation.accuracy) == {
        "all": Bars(mean=1e-3, argmax=1.0),
        "z": Bars(largest=0.5, quantile={".5": 1.0, "0.999": 0.01}),
    }
    document = spec_document(spec)
    assert document["compilation"]["precision"] == {"compute": "bfloat16"}
    assert document["validation"]["accuracy"]["all"] == {"mean": 1e-3, "argmax": 1.0}
    assert spec_document(spec) == document


def test_reduced_precision_without_bars_is_refused_with_what_to_write(good: str, faults_of: FaultsOf) -> None:
    (fault,) = faults_of(good + _REDUCED)
    assert fault.startswith("6: compilation.precision.compute: bfloat16 changes the model's answers")
    assert "`validation: {accuracy: {all: {largest: 0.05, argmax: 0.999}}}`" in fault
    wanted = fault.split("`")[1]
    assert faults_of(good + _REDUCED + wanted + "\n") == []


@pytest.mark.parametrize(("compute", "largest"), [("float32x3", "1.0e-3"), ("float32x6", "1.0e-5")])
def test_products_of_parts_need_bars_as_well_closer_ones(
    good: str, faults_of: FaultsOf, compute: str, largest: str
) -> None:
    text = f"{good}  precision: {{compute: {compute}}}\n"
    (fault,) = faults_of(text)
    assert fault.startswith(f"6: compilation.precision.compute: {compute} changes the model's answers")
    wanted = fault.split("`")[1]
    assert f"largest: {largest}," in wanted and faults_of(f"{text}{wanted}\n") == []


def test_reduced_precision_needs_a_program(good: str, faults_of: FaultsOf) -> None:
    text = good + _REDUCED + "  engine: xla\nvalidation: {accuracy: {all: {largest: 1}}}\n"
    (fault,) = faults_of(text)
    assert "compilation.engine is xla" in fault


@pytest.mark.parametrize(
    ("bars", "said"),
    [
        ("{all: {}}", "validation.accuracy.all: has no bar: give largest, mean, quantile or argmax"),
        ("{all: {larges: 1}}", "validation.accuracy.all.larges: unknown key; did you mean largest?"),
        ("{all: {largest: -1}}", "validation.accuracy.all.largest: must be at least 0, got -1"),
        ("{all: {argmax: 1.5}}", "validation.accuracy.all.argmax: must be at most 1, got 1.5"),
        ("{all: {quantile: {1.5: 1}}}", "its keys must be numbers between 0 and 1, such as 0.999, got '1.5'"),
        ("{all: {quantile: {x: 1}}}", "its keys must be numbers between 0 and 1, such as 0.999, got 'x'"),
    ],
)
def test_wrong_bars_are_named(good: str, faults_of: FaultsOf, bars: str, said: str) -> None:
    (fault,) = faults_of(f"{good}validation: {{accuracy: {bars}}}\n")
    assert said in fault


def test_weights_of_fewer_bits_are_a_reduced_precision_of_their_own(good: str, faults_of: FaultsOf) -> None:
    bars = "validation: {accuracy: {all: {largest: 1}}}\n"
    spec = parse_spec((good + "  precision: {weights: int8}\n" + bars).encode(), Path("/m/spec.yaml"))
    precision = spec.compilation.precision
    assert precision == Precision(weights="int8") and precision.is_reduced and precision.name == "int8 weights"
    assert spec_document(spec)["compilation"]["precision"] == {"compute": "float32", "weights": "int8"}
    (fault,) = faults_of(good + "  precision: {weights: bfloat16}\n")
    assert fault.startswith("6: compilation.precision.weights: bfloat16 changes the model's answers")
    (fault,) = faults_of(good + "  precision: {compute: bfloat16, weights: int8}\n" + bars)
    assert "compilation.precision.weights: is for layers that compute in float32, and compute is bfloat16" in fault


def test_other_words_are_no_precision(good: str, faults_of: FaultsOf) -> None:
    (fault,) = faults_of(good + "  precision: {compute: half}\nvalidation: {accuracy: {all: {largest: 1}}}\n")
    assert "compilation.precision.compute: must be float32, bfloat16, float32x3, float32x6 or int8, got 'half'" in fault


_BARS = "validation: {accuracy: {all: {largest: 1}}}\n"


def test_bytes_need_rows_of_calibration_which_are_a_file_of_the_spec(good: str, faults_of: FaultsOf) -> None:
    (fault,) = faults_of(good + "  precision: {compute: int8}\n" + _BARS)
    assert "int8 needs typical rows" in fault and "give `calibration: FILE.npz`" in fault
    (fault,) = faults_of(good + "  precision: {compute: int8, calibration: rows.npz}\n")
    assert fault.startswith("6: compilation.precision.compute: int8 changes the model's answers")
    text = good + "  precision: {compute: int8, calibration: data/rows.npz}\n" + _BARS
    spec = parse_spec(text.encode(), Path("/m/spec.yaml"))
    assert spec.compilation.precision == Precision(compute="int8", calibration=Path("/m/data/rows.npz"))
    assert dict(spec.data_files) == {"compilation.precision.calibration": Path("/m/data/rows.npz")}
    assert spec_document(spec)["compilation"]["precision"] == {"compute": "int8", "calibration": "data/rows.npz"}


def test_no_path_of_this_machine_is_in_the_written_form(good: str) -> None:
    text = good + "  precision: {compute: int8, calibration: /elsewhere/rows.npz}\n" + _BARS
    spec = parse_spec(text.encode(), Path("/m/spec.yaml"))
    assert spec_document(spec)["compilation"]["precision"] == {"compute": "int8", "calibration": "rows.npz"}


@pytest.mark.parametrize("compute", ["", "compute: float32, ", "compute: bfloat16, "])
def test_calibration_is_for_bytes(good: str, faults_of: FaultsOf, compute: str) -> None:
    (fault,) = faults_of(f"{good}  precision: {{{compute}calibration: rows.npz}}\n{_BARS}")
    assert "compilation.precision.calibration: is for int8" in fault


def test_bars_on_labelled_rows_need_labels_and_these_the_rows(good: str, faults_of: FaultsOf) -> None:
    bars = "{score: {auc: 0.001, rejection: {0.5: 0.02}, efficiency: {0.01: 0.005}}}"
    (fault,) = faults_of(f"{good}validation: {{accuracy: {bars}}}\n")
    assert "validation.accuracy.score.auc: needs the labels of rows: give validation.labels" in fault
    (fault,) = faults_of(f"{good}validation: {{labels: labels.npz, accuracy: {bars}}}\n")
    assert "validation.labels: are those of the rows of validation.inputs" in fault
    text = f"{good}validation: {{inputs: rows.npz, labels: labels.npz, accuracy: {bars}}}\n"
    spec = parse_spec(text.encode(), Path("/m/spec.yaml"))
    assert spec.validation.accuracy["score"] == Bars(auc=0.001, rejection={"0.5": 0.02}, efficiency={"0.01": 0.005})
    assert dict(spec.data_files) == {
        "validation.inputs": Path("/m/rows.npz"), "validation.labels": Path("/m/labels.npz")
    }  # fmt: skip
    assert spec_document(spec)["validation"]["labels"] == "labels.npz"


def test_a_published_precision_has_the_words_of_the_report() -> None:
    parts = (Precision(compute="float32x3"), Precision(compute="float32x6"))
    for precision in (*parts, Precision(compute="bfloat16"), Precision(weights="int8"), Precision(weights="bfloat16")):
        name = reduced.name_of(written(precision))
        assert name == precision.name and reduced.told_by({"precision": name}).startswith(f"{name}: layers multiply")
    assert reduced.told_by({"precision": reduced.name_of({})}) == ""
