"""Which classes of scikit-learn are read, and errors that name others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from messages.requests import ModelFault

ONNX = "export it to ONNX with skl2onnx, and name the file in model.onnx"


def fault(model: Any, why: str) -> ModelFault:
    return ModelFault(f"{type(model).__name__} {why}", ONNX)


def is_known(model: Any, names: Mapping[str, Any] | frozenset[str]) -> bool:
    """Whether it is one of these classes of scikit-learn."""
    return type(model).__module__.startswith("sklearn.") and type(model).__name__ in names
