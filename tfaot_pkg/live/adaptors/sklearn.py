"""Estimators of scikit-learn, as files of skops: data, which the front-end reads (from_trees/scikit.py)."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.errors import ModelError
from tfaot_pkg.live.source import LiveSource


def source_of(net: Any, example: Any, options: Mapping[str, Any]) -> LiveSource | None:
    if not hasattr(net, "get_params"):
        return None
    try:
        import skops.io  # noqa: F401 (only its absence is to be told before anything is written)
    except ImportError:
        raise ModelError(
            "models of scikit-learn are written with the package skops, which is not installed",
            hint="pip install skops",
        ) from None
    import sklearn

    _require_fitted(net)
    dtype = _dtype(example)
    # Not the file of skops, which has times and addresses of objects in it.
    content = [sklearn.__version__.encode(), pickle.dumps(net, protocol=5), dtype.encode()]
    return LiveSource(
        framework="scikit-learn",
        content=content,
        write=partial(_written, net),
        sections={"trees": {"dtype": dtype}} if dtype else {},
    )


def _require_fitted(net: Any) -> None:
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(net)
    except (NotFittedError, TypeError) as error:
        raise ModelError(f"the {type(net).__name__} was not fitted", hint="call its fit first") from error


def _written(net: Any, folder: Path) -> Path:
    import skops.io

    path = folder / "model.skops"
    skops.io.dump(net, path)
    return path


def _dtype(example: Any) -> str:
    """The type of x, of an example that is an array of floats; data frames have columns of several types."""
    dtype = getattr(example, "dtype", None)
    return str(dtype) if isinstance(dtype, np.dtype) and str(dtype) in ("float32", "float64") else ""
