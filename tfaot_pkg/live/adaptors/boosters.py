"""Gradient boosting in memory: XGBoost, LightGBM and CatBoost, natively or by their classes for scikit-learn."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaot_pkg.live.source import LiveSource, of_bytes


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
    """CatBoost's own ONNX file."""
    if not hasattr(net, "save_model"):
        return None
    return of_bytes("CatBoost", "model.onnx", _saved(net, "model.onnx", format="onnx"))


def _saved(net: Any, name: str, **how: Any) -> bytes:
    with tempfile.TemporaryDirectory(prefix="tfaot-live-") as folder:
        net.save_model(str(Path(folder) / name), **how)
        return (Path(folder) / name).read_bytes()
