"""How much of the classes of inputs runs: all of it, or less of models whose rows take long."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.aten_lowering.aten_files import ARTIFACTS
from tests.test_pipeline import OwnCache
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.parse import load_spec
from tfaot_pkg.verify import extent
from tfaot_pkg.verify.corpus import MOST
from tfaot_pkg.verify.extent import Extent, Extents
from tfaot_pkg.verify.inputs import ARRANGED, EXAMPLES, MAIN, THRESHOLDS, drawn
from tfaot_pkg.verify.limits import Drawing
from tfaot_pkg.verify.report import ValidationReport

SIZES = (1, 2, 4, 8)


def test_models_whose_rows_take_no_time_run_all_classes_at_all_sizes() -> None:
    extents = Extents(batch_sizes=SIZES, operations=1e6, samples=64)
    for name in (MAIN, ARRANGED, THRESHOLDS):
        assert extents.of(name) == Extent(sizes=SIZES), name
    assert extents.of("nonfinite") == extents.of("n=3") == extents.of(EXAMPLES) == Extent(sizes=SIZES, most=MOST)
    assert (extents.of(MAIN).rows(64), extents.rows, extents.are_cut) == (64, 8, False)


def test_large_models_run_fewer_batches_and_then_fewer_sizes() -> None:
    """1e9, 2e9 and 8e9 operations a row: of the class's 2e10, 20, 10 and 2.5 rows."""
    for operations, few, main in ((1e9, Extent(sizes=SIZES, most=1), 6), (2e9, Extent(sizes=(1, 2, 4), most=1), 3)):
        extents = Extents(batch_sizes=SIZES, operations=operations, samples=64)
        assert extents.of("large") == few and extents.of(MAIN) == Extent(sizes=SIZES, most=main)
    extents = Extents(batch_sizes=SIZES, operations=8e9, samples=64)
    assert extents.of("large") == extents.of("huge n=3") == Extent(sizes=(1,), most=1) and extents.rows == 1
    assert extents.of(MAIN) == Extent(sizes=SIZES, most=1) and extents.of(MAIN).rows(64) == 8
    assert extents.of(ARRANGED) == extents.of(f"{ARRANGED} repeated") == Extent(sizes=(8,))
    assert extents.within((3, 5, 6)) == Extent(sizes=(3,), most=1) and extents.are_cut


def test_the_main_class_has_a_batch_of_each_size_and_others_of_the_least_however_large_a_model_is() -> None:
    extents = Extents(batch_sizes=(2, 4), operations=1e15, samples=64)
    assert extents.of(MAIN) == Extent(sizes=(2, 4), most=1) and extents.of(MAIN).rows(64) == 4
    assert extents.of("large") == Extent(sizes=(2,), most=1) and extents.rows == 2


def test_all_rows_of_authors_run() -> None:
    extents = Extents(batch_sizes=SIZES, operations=1e15)
    assert extents.of(MAIN) == Extent(sizes=SIZES) and extents.of(EXAMPLES) == Extent(sizes=SIZES, most=MOST)
    few = Extents(batch_sizes=SIZES, operations=8e9, samples=4)
    assert few.of(MAIN).rows(4) == 4, "no more rows than the author wants"


@pytest.mark.parametrize(("is_long", "least", "most"), [(False, 1.0, 1.0), (True, 0.05, 0.15)])
def test_subnormal_numbers_of_large_models_stand_among_usual_ones(is_long: bool, least: float, most: float) -> None:
    signature = Signature(inputs=(Tensor(name="x", dtype=DType.FLOAT32, shape=(None, 1000)),), outputs=())
    values = drawn("subnormal", signature, seed=0, rows=4, drawing=Drawing(is_long=is_long))["x"]
    share = np.mean(np.abs(values) < np.finfo(np.float32).smallest_normal)
    assert least <= share <= most and np.abs(values).max() < 10


def _validated(folder: Path, home: Path, model: str) -> ValidationReport:
    spec = folder / "spec.yaml"
    spec.write_text(
        f"model: {{name: model, version: 1.0.0, {model}}}\n"
        "compilation: {batch_sizes: [1, 2, 4], targets: [x86-64-v3]}\nvalidation: {classes: [large, nonfinite]}\n"
    )
    pipeline = Pipeline(
        folders=OwnCache(cache=home / "cache", data=home / "data", own=folder / "cache"), progress=Silent()
    )
    return pipeline.build(pipeline.plan(load_spec(spec))).report


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("source", ["tensorflow", "pytorch"])
def test_a_model_of_which_little_runs_is_verified(
    source: str, models: Mapping[str, Path], shared_home_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers that are stored in a file are those of more batches than run."""
    if source == "tensorflow":
        model = f"saved_model: {models['dense']}"
    else:
        model = f"aten: {ARTIFACTS / 'answered' / 'fourier_layer.aten'}"
    monkeypatch.setattr(extent, "_OF_MAIN", 0.0)
    monkeypatch.setattr(extent, "_OF_CLASS", 0.0)
    report = _validated(tmp_path, shared_home_folder, model)
    found: dict[str, Any] = {each.name: each for each in report.classes}
    assert not report.failed and not any(each.not_run for name, each in found.items() if name != ARRANGED)
    assert (found[MAIN].rows, found["large"].rows) == (4, 1)
    assert {each.batch_size for each in report.comparisons} == {1, 2, 4}
    outputs = sum(1 for each in report.comparisons if each.batch_size == 1)
    assert outputs and found["large"].elements * 7 == found[MAIN].elements, "one row of the seven of all sizes"
