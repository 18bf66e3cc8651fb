"""Weights of dense layers in fewer bits than float32, as numbers and as the kernel library reads them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler.bfloat16 import rounded_bits
from tfaot_pkg.ground.arrays import Array

_PANEL = 16
_STEPS = 127


def in_steps(weights: Array) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Weights of shape (inputs, outputs) as int8 and a scale for each output: the largest one is 127 steps."""
    largest = np.abs(weights).max(axis=0)
    scales = np.where(largest > 0, largest, np.float32(1)).astype(np.float32) / np.float32(_STEPS)
    # A scale that is a subnormal number, or zero, is rounded so much that there may be more steps.
    steps = np.rint(weights / np.maximum(scales, np.finfo(np.float32).tiny)).clip(-_STEPS, _STEPS)
    return steps.astype(np.int8), np.maximum(scales, np.finfo(np.float32).tiny).astype(np.float32)


def packed_narrow(
    weights: Array, scales: Array | None
) -> tuple[NDArray[np.uint16] | NDArray[np.int8], NDArray[np.float32] | None]:
    """What NarrowDense (kernels.h) reads: panels of int8 with their scales, otherwise of the bits of bfloat16."""
    numbers: Array = weights if scales is not None else rounded_bits(weights)
    inputs, outputs = weights.shape
    panels = -(-outputs // _PANEL)
    padded = np.zeros((inputs, panels * _PANEL), numbers.dtype)
    padded[:, :outputs] = numbers
    made = np.ascontiguousarray(padded.reshape(inputs, panels, _PANEL).transpose(1, 0, 2))
    if scales is None:
        return made, None
    return made, np.pad(np.asarray(scales, np.float32), (0, panels * _PANEL - outputs))
