"""Pipelines and estimators of scikit-learn are read with its own answers, and others are refused by their names."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.frontends.frozen.lowered import of_trees
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.arrays import read_arrays
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(900)]
_WORKER = Path(__file__).resolve().parents[2] / "tfaot_pkg" / "worker_program"
_INEXACT = {"trees_behind_pca", "trees_boosted", "trees_histogram", "trees_coded", "trees_ada"}
"""Products before the trees, or special functions behind them; all other trees agree to the bit."""

_FLOATS = {"v_soft", "v_soft_two", "o_rest_xgb", "o_rest_xgb_two"}
"""XGBoost's floats behind a function."""


@pytest.fixture(scope="module")
def folder(shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["trees"])
    folder = tmp_path_factory.mktemp("pipelines")
    # Small models: threads only wait for one another.
    one = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    program = Path(__file__).with_name("pipeline_files.py")
    run([frontend.python, "-I", program, _WORKER, folder], timeout=800, env=one)
    return folder


@pytest.fixture(scope="module")
def cases(folder: Path) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads((folder / "cases.json").read_text())
    return found


def test_programs_give_scikit_learns_answers(folder: Path, cases: Mapping[str, Any]) -> None:
    off: dict[str, float] = {}
    for name, case in cases.items():
        asked = read_arrays(folder / f"{name}.parts" / "case.npz")
        made = of_trees(folder / f"{name}.parts")
        (ours,) = interpret.run(verified(made.program, "lowering"), len(asked["x"]), [asked["x"]])
        theirs = asked["right"]
        assert made.outputs == (case["output"],), name
        assert ours.dtype == case["dtype"] and ours.shape == theirs.shape, name
        assert [*ours.shape[1:]] == case["shape"][1:], name
        if name.startswith("trees_") and name not in _INEXACT:
            assert ours.tobytes() == theirs.tobytes(), name
        if name.startswith("xgb_") or name in _FLOATS:
            np.testing.assert_allclose(ours, theirs, rtol=5e-7, atol=1e-7, err_msg=name)
            continue
        scale = np.nanmax(np.abs(theirs), initial=1.0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=2e-12 * scale, err_msg=name)
        off[name] = float(np.nanmax(np.abs(ours - theirs), initial=0.0) / scale)
    assert len(off) > 360 and max(off.values()) < 2e-12


def test_points_that_are_too_far_to_square_are_as_far_as_others(folder: Path, cases: Mapping[str, Any]) -> None:
    """All kernels of them are 0: libsvm adds squares of differences, which are infinite then."""
    made = of_trees(folder / "e_one_class.parts")
    width = read_arrays(folder / "e_one_class.parts" / "case.npz")["x"].shape[1]
    far, farther = (np.full((1, width), size) for size in (1e10, 1.5e308))
    with np.errstate(over="ignore", invalid="ignore"):
        scores = [interpret.run(made.program, 1, [x])[0] for x in (far, farther, -farther)]
    assert np.isfinite(scores[0]).all() and scores[0].tolist() == scores[1].tolist() == scores[2].tolist()


def test_facts_say_what_x_contains_and_how_it_is_tried(cases: Mapping[str, Any]) -> None:
    linear, trees = cases["frame_linear"], cases["trees_frame"]
    assert linear["columns"] == ["pt", "eta", "phi", "mass", "charge", "layer"]
    assert linear["categories"] == [[2, 5, 11, 13]] and linear["compared"] == [5]
    assert trees["categories"] == [[-1, 0, 1], [2, 5, 11, 13]]
    assert linear["output"] == "probabilities" and cases["c_svc"]["output"] == "scores"
    assert "StandardScaler, LogisticRegression of scikit-learn" in cases["c_logistic"]["origin"]
    # Pairs of rows at the thresholds of trees, to the bit; not behind sums, whose order is nobody's.
    assert cases["trees_forest"]["drawn"] > 256 and not cases["trees_forest"]["continuous"]
    assert cases["trees_behind_pca"]["drawn"] == 256 and cases["trees_behind_pca"]["continuous"]
    # Texts are given by their positions; what an imputer puts in their place is one of them.
    assert cases["text_closed"]["categories"] == [["minus", "none", "plus"]]
    assert cases["text_constant"]["categories"] == [["lost", "minus", "none", "plus"]]
    assert cases["text_frequent"]["missing"] > 0
    # Missing numbers only in columns that may have them.
    assert cases["c_logistic"]["missing"] == 0
    assert cases["p_mean"]["missing"] > 0 and cases["trees_histogram"]["missing"] > 0


def test_a_pipeline_that_ends_in_a_booster_has_the_answers_of_its_class(cases: Mapping[str, Any]) -> None:
    assert cases["xgb_two"]["output"] == "probabilities" and cases["xgb_two"]["shape"] == [None, 2]
    assert cases["trees_lgb"]["output"] == "predictions" and cases["trees_lgb"]["shape"] == [None]
    assert (
        "ColumnTransformer of scikit-learn 1.9.1, XGBoost 3.2.0, binary:logistic, 7 trees" in cases["xgb_two"]["origin"]
    )
    assert cases["trees_lgb_alone"]["origin"].startswith("LightGBM v4, regression, 7 trees")
    # The iterations of the class's own call, and its missing numbers.
    assert "5 of 7 iterations, up to the best" in cases["trees_xgb_early"]["origin"]
    assert "-1 counts as missing" in cases["trees_xgb_missing"]["origin"]
    # Pairs of rows at the thresholds, and missing numbers.
    assert cases["trees_xgb"]["drawn"] > 256 and cases["trees_xgb"]["missing"] > 0


def test_estimators_of_estimators_have_the_answers_of_the_whole(cases: Mapping[str, Any]) -> None:
    for name, output, dtype, shape in (
        ("v_soft", "probabilities", "float64", [None, 3]),
        ("v_numbers", "predictions", "float64", [None]),
        ("s_numbers_trees", "predictions", "float32", [None]),
        ("o_rest_svc_two", "scores", "float64", [None]),
        ("k_rbf", "scores", "float64", [None, 3]),
        ("v_hard", "label", "int32", [None]),
        ("o_pairs", "scores", "float64", [None, 3]),
        ("o_pairs_forest_two", "scores", "float64", [None]),
        ("y_function", "predictions", "float64", [None]),
        ("y_outputs", "predictions", "float64", [None, 2]),
        ("d_clusters", "label", "int32", [None]),
        ("d_power", "columns", "float64", [None, 6]),
    ):
        case = cases[name]
        assert (case["output"], case["dtype"], case["shape"]) == (output, dtype, shape), name


def test_boosters_in_hostile_files_are_not_created(folder: Path) -> None:
    refused = json.loads((folder / "refused.json").read_text())
    for name, why, hint in (
        ("xgb_astray", "XGBoost's model in the file is damaged, or of an old version: a child is outside", "skops.io.dump"),
        ("xgb_empty", "XGBoost's model in the file is damaged, or of an old version: the file is cut off", "newer XGBoost"),
        ("xgb_other", "XGBoost's model in the file is damaged, or of an old version: it has no 'Model'", "skops.io.dump"),
        ("xgb_text", "XGBoost's model in the file is damaged, or of an old version: it has no 'handle'", "skops.io.dump"),
        ("xgb_loader", "xgb_loader.refused has types that are not supported: xgboost.core.Booster", "scikit-learn"),
        ("xgb_renamed", "xgb_renamed.refused has types that are not supported: xgboost.core.DMatrix", "ONNX"),
        ("lgb_astray", "LightGBM's model in the file is damaged: left_child has", "skops.io.dump"),
        ("lgb_cut", "LightGBM's model in the file is damaged: it ends before its trees do", "newer LightGBM"),
        ("lgb_best", "LightGBM's model in the file is damaged: it has no 'best_iteration'", "skops.io.dump"),
        ("catboost", "catboost.refused has types that are not supported: catboost.core.CatBoost", 'save_model("model.onnx"'),
    ):  # fmt: skip
        assert why in refused[name][0] and hint in refused[name][1], (name, refused[name])


def test_others_are_refused_by_their_names(folder: Path) -> None:
    refused = json.loads((folder / "refused.json").read_text())
    for name, why, hint in (
        ("positive", "NMF is not supported", "supported estimators: "),
        ("bicluster", "SpectralClustering is not supported", "IsolationForest"),
        ("equal_knots", "SplineTransformer with equal knots is not supported", "fewer values than knots"),
        ("positive_behind", "NMF is not supported in pipelines", "FastICA"),
        ("equal_rows", "KNeighborsRegressor has equal rows with different targets", "mean of their targets"),
        ("own_distance", "KNeighborsRegressor with the metric 'chebyshev' is not supported", "ONNX"),
        ("novelty", "LocalOutlierFactor without novelty=True has no answers for new rows", "ONNX"),
        ("matern", "GaussianProcessRegressor with Matern of nu=0.7 is not supported", "ONNX"),
        ("several", "classifiers of several outputs are not supported", "of each output"),
        ("chosen_none", "a transformer leaves no columns", "remove it"),
        ("searched", "types that are not supported: sklearn.metrics._classification.f1_score", "best_estimator_"),
        ("by_pairs", "SVC with decision_function_shape='ovo' is not supported", "ONNX"),
        ("sure", "SVC with probability=True is not supported", "CalibratedClassifierCV"),
        ("counts", "the SVC is damaged, or was not fitted: its support vectors do not fit", "skops.io.dump"),
        ("hard", "OneVsRestClassifier.predict in another estimator is not supported", "ONNX"),
        ("voter", "DummyClassifier is not supported at the end of a pipeline", "supported estimators: "),
        ("stacked", "DummyClassifier is not supported at the end of a pipeline", "supported estimators: "),
        ("warm", "types that are not supported: sklearn.calibration._TemperatureScaling", "ONNX"),
        ("texts", "a SimpleImputer of texts has no encoder behind it", "OneHotEncoder"),
        ("function", "FunctionTransformer of sinh is not supported", "log1p"),
        ("pairs", "OneVsOneClassifier of regressors is not supported", "ONNX"),
        ("target", "QuantileTransformer as transformer of a target is not supported", "PowerTransformer"),
        ("target_function", "sinh as inverse_func of a target is not supported", "expm1"),
        ("groups", "or was not fitted: the infrequent categories do not fit the categories", "skops.io.dump"),
        ("groups_astray", "or was not fitted: the number of columns does not fit the categories", "skops.io.dump"),
        (
            "distributions",
            "or was not fitted: its distributions have the shape (3, 1) in place of (3, 6)",
            "skops.io.dump",
        ),
        ("nested", "or of another version of scikit-learn: it is nested too deeply", "skops.io.dump"),
        ("many", "PolynomialFeatures with more than 65536 products", "ONNX"),
        ("unfitted", "the Pipeline is damaged, or was not fitted", "skops.io.dump"),
        ("damaged", "the Pipeline is damaged, or was not fitted", "skops.io.dump"),
        ("other_width", "the Pipeline is damaged, or was not fitted", "skops.io.dump"),
        ("multilabel", "RidgeClassifier of several labels is not supported", "ONNX"),
        ("codes", "trees.categories is codes", "values"),
        ("float32", "the categories of the column 0 are no float32 numbers", "dtype: float64"),
    ):
        assert why in refused[name][0] and hint in refused[name][1], (name, refused[name])


def test_no_damaged_array_of_a_model_is_more_than_an_error(folder: Path) -> None:
    assert json.loads((folder / "refused.json").read_text())["broken"] == []


def test_detectors_of_outliers_have_scores_and_mixtures_probabilities(cases: Mapping[str, Any]) -> None:
    for name in ("e_isolation", "e_one_class", "e_one_class_linear", "e_envelope", "n_outliers"):
        assert (cases[name]["output"], cases[name]["shape"]) == ("scores", [None]), name
    assert cases["e_isolation_gaps"]["missing"] > 0
    assert (cases["e_mixture_full"]["output"], cases["e_mixture_full"]["shape"]) == ("probabilities", [None, 3])
    assert cases["alone_outputs_forest"]["shape"] == [None, 2] and cases["e_chain"]["shape"] == [None, 2]
    # Codes are tried as categories are.
    assert cases["e_categories"]["categories"][0][:4] == [0, 1, 2, 3]
