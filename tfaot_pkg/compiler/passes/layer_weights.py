"""Scales and offsets by channel, and weights that have them. Computed in float64 and rounded once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

LAYERS = ("dense", "conv2d", "transposed_conv2d")


def rounded(weights: Any) -> Array | None:
    """`weights` in float32; None if one is out of range: an input of 0 times infinity would be NaN instead of 0."""
    with np.errstate(all="ignore"):
        made: Array = weights.astype(np.float32)
    return made if np.all(np.isfinite(made)) else None


def channels(layer: Operation) -> int:
    return layer.shape.sizes[-1].constant


def bias_of(look: Look, layer: Operation) -> Any:
    bias = look.constant(layer.operands[2]) if len(layer.operands) > 2 else None
    return np.zeros(channels(layer)) if bias is None else bias.astype(np.float64)
