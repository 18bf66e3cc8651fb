"""Runs a built library on NumPy arrays."""

from __future__ import annotations

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.runtime.loader import RunError, load
from tfaot_pkg.runtime.model import Model

__all__ = ["Array", "Model", "RunError", "load"]
