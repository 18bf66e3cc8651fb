"""A convolution and the pooling of its result."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.compiler.attributes import Conv2d, Conv2dMaxPool, MaxPool
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def pooled(look: Look, operation: Operation) -> Operation | None:
    """A convolution and the pooling of its result as one: the image between them is never complete in memory."""
    conv = look.made_by(operation.operands[0], "conv2d", once=True) if operation.opcode == "max_pool" else None
    if conv is None:
        return None
    layer, pool = Conv2d.of(conv), MaxPool.of(operation)
    attributes = Conv2dMaxPool(
        window=layer.window, groups=layer.groups, activation=layer.activation, pool=pool.window,
        keeps_nan=pool.keeps_nan,
    )  # fmt: skip
    return replace(conv, id=operation.id, opcode="conv2d_max_pool", type=operation.type, attributes=attributes)
