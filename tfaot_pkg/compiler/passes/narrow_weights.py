"""Dense layers whose weights have fewer bits in memory: what the passes bfloat16-weights and int8-weights share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Dense, Layer
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

MANY_WEIGHTS = 1 << 18
"""Weights that are worth fewer bits (decision 096): one row of 256 by 256 takes 1.1 of its time, of 512 by 512 0.7."""
_FEW = 4
"""Outputs of layers that stay as they are: those whose products are added in the tree of a row (decision 039)."""


def narrowed(look: Look, operation: Operation, numbers: Callable[[Array], Sequence[Array]]) -> Operation | None:
    """A dense layer with many weights, of shape (inputs, outputs), of which `numbers` makes operands of the new one."""
    weights = look.constant(operation.operands[1]) if operation.opcode == "dense" else None
    if weights is None or operation.shape.dtype != "f32" or weights.size < MANY_WEIGHTS:
        return None
    matrix = weights if Dense.of(operation).weights_axis == 0 else weights.T
    if matrix.shape[1] <= _FEW or not np.isfinite(matrix).all():
        return None
    made = [look.add_constant(np.ascontiguousarray(each), operation) for each in numbers(matrix)]
    x, _, *bias = operation.operands
    attributes = Layer(activation=Layer.of(operation).activation)
    return replace(operation, opcode="narrow_dense", operands=(x, *made, *bias), attributes=attributes)
