"""Weights in the order in which the kernels read them, for builds that write them into a library's blob.

The same bytes as `pack` and `packConv2d` of tfaot_kernels/kernels.h, which describes the order. One order serves every
target and batch size.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PANEL = 16


def packed_dense(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights of shape (inputs, outputs), packed: shape (panels, inputs, PANEL), zeros where there is no column."""
    rows, columns = weights.shape
    panels = -(-columns // PANEL)
    padded = np.zeros((rows, panels * PANEL), np.float32)
    padded[:, :columns] = weights
    return np.ascontiguousarray(padded.reshape(rows, panels, PANEL).transpose(1, 0, 2))


def packed_conv2d(filters: NDArray[np.float32], *, groups: int = 1) -> NDArray[np.float32]:
    """Filters of shape (height, width, channels / groups, filters), packed: one dimension, group after group.

    A depthwise convolution's filters of shape (height, width, channels, multiplier) are reshaped to
    (height, width, 1, channels * multiplier) first; with multiplier 1 they stay in order.
    """
    height, width, depth, count = filters.shape
    if groups > 1 and depth == 1 and count == groups:
        return np.ascontiguousarray(filters, np.float32).ravel()
    matrix = filters.reshape(height * width * depth, groups, count // groups)
    return np.concatenate([packed_dense(matrix[:, group]).ravel() for group in range(groups)])
