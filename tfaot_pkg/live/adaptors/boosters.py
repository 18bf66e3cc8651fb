"""Gradient boosting in memory: XGBoost, LightGBM and CatBoost, natively or by their classes for scikit-learn."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfaot_pkg.errors import ModelError
from tfaot_pkg.live.source import LiveSource, OwnAnswers, of_bytes

_ROWS = 256


def source_of(net: Any, example: Any, options: Mapping[str, Any]) -> LiveSource | None:
    makers = {"xgboost": _xgboost, "lightgbm": _lightgbm, "catboost": _catboost}
    return makers[type(net).__module__.partition(".")[0]](net)


def _xgboost(net: Any) -> LiveSource | None:
    if not hasattr(net, "save_model"):
        return None
    content = _saved(net, "model.json")
    missing = getattr(net, "missing", None)
    # What counts as missing is an argument of XGBoost's classes, which their files do not have.
    trees = {"trees": {"missing": float(missing)}} if isinstance(missing, int | float) else {}
    return of_bytes("XGBoost", "model.json", content, sections=trees)


def _lightgbm(net: Any) -> LiveSource | None:
    booster = getattr(net, "booster_", net)
    if not hasattr(booster, "model_to_string"):
        return None
    return of_bytes("LightGBM", "model.txt", booster.model_to_string().encode())


def _catboost(net: Any) -> LiveSource | None:
    """CatBoost's own ONNX file, and its own answers: validation compares the file with ONNX Runtime."""
    if not hasattr(net, "save_model"):
        return None
    import catboost

    try:
        content = _saved(net, "model.onnx", format="onnx")
    except catboost.CatBoostError as error:
        raise ModelError(
            f"CatBoost cannot write this model as ONNX: {error}",
            hint="fit it first, on columns of numbers, with labels that are integers or texts",
        ) from error
    return of_bytes("CatBoost", "model.onnx", content, own=_own_answers(net, f"CatBoost {catboost.__version__}"))


def _own_answers(net: Any, framework: str) -> OwnAnswers:
    x = _at_borders(net)
    is_classifier = hasattr(net, "predict_proba") or len(net.classes_) > 0
    found = net.predict(x, prediction_type="Probability") if is_classifier else net.predict(x)
    # The file has single precision, and CatBoost computes in double.
    return OwnAnswers(
        framework=framework,
        x=x,
        answers={"probabilities" if is_classifier else "predictions": np.asarray(found, np.float64)},
        tolerance=1e-5,
    )


def _at_borders(net: Any) -> npt.NDArray[np.float32]:
    """Rows of the numbers that the trees compare with, and of their neighbours."""
    draw = np.random.default_rng(0)
    borders: Mapping[int, Sequence[float]] = net.get_borders()
    x = draw.standard_normal((_ROWS, len(net.feature_names_))).astype(np.float32)
    for column, limits in borders.items():
        given = np.asarray(limits, np.float32)
        pool = np.concatenate([given, *(np.nextafter(given, np.float32(end)) for end in (-np.inf, np.inf))])
        if len(pool):
            x[:, column] = draw.choice(pool, _ROWS)
    return x


def _saved(net: Any, name: str, **how: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tfaot-live-") as folder:
        net.save_model(str(Path(folder) / name), **how)
        return (Path(folder) / name).read_bytes()
