"""The former name of `tfaot_pkg.loader`, for programs that import it."""

from __future__ import annotations

from tfaot_pkg.arrays import Array
from tfaot_pkg.loader import Model, RunError, load

__all__ = ["Array", "Model", "RunError", "load"]
