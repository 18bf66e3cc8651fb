"""Scales and offsets by channel: what batch normalization is when a model is used."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Affine:
    """x * scale + offset, along the last axis of x: arrays of float64, None for 1 and 0."""

    scale: object = None
    offset: object = None

    def then(self, scale, offset) -> "Affine":
        """What follows is done to what this gives."""
        moved = _combined(self.offset, scale, lambda a, b: a * b) if self.offset is not None else None
        return Affine(_combined(self.scale, scale, lambda a, b: a * b), _combined(moved, offset, lambda a, b: a + b))

    def applied(self, matrix, bias) -> tuple:
        """The weights (columns last) and bias that give at once what they gave before, and this behind them."""
        if self.scale is not None:
            scale = repeated(self.scale, bias.size)
            matrix, bias = matrix * scale, bias * scale
        return matrix, bias if self.offset is None else bias + repeated(self.offset, bias.size)


def repeated(vector, length: int):
    """`vector`, whose size divides `length`, as often as it takes."""
    import numpy as np

    return np.tile(vector, length // vector.size)


def _combined(first, second, combine):
    if first is None or second is None:
        return second if first is None else first
    size = math.lcm(first.size, second.size)
    return combine(repeated(first, size), repeated(second, size))


def affine_of(view, node):
    """(source, scale, offset) where `node` scales or moves a tensor by constants along its last axes, else None.

    The scale and the offset repeat along the tensor's elements, in their order.
    """
    import numpy as np

    if node.op in ("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"):
        return _batch_normalization(view, node)
    if node.op not in ("Mul", "RealDiv", "AddV2", "Add", "Sub", "BiasAdd"):
        return None
    sides = [view.input(node, index) for index in (0, 1)]
    values = [view.constant(side) for side in sides]
    if (values[0] is None) == (values[1] is None) or (node.op in ("Sub", "RealDiv") and values[1] is None):
        return None
    if node.attr["data_format"].s not in (b"", b"NHWC"):
        return None
    source, value = (sides[0], values[1]) if values[0] is None else (sides[1], values[0])
    vector = _repeating(view, source, np.asarray(value, np.float64))
    if vector is None or not view.same_size(source, (node.name, 0)):
        return None
    if node.op == "Mul":
        return source, vector, None
    if node.op == "RealDiv":
        return (source, 1 / vector, None) if vector.all() else None
    return source, None, -vector if node.op == "Sub" else vector


def _repeating(view, source: tuple, value):
    """`value`, broadcast along the last axes of `source`, as a vector; None where it differs from row to row."""
    import numpy as np

    if value.size == 1:
        return value.reshape(-1)
    shape = list(value.shape)
    while shape[0] == 1:
        del shape[0]
    known = view.row_shape(source)
    if known is None or len(shape) > len(known[1]):
        return None
    return np.broadcast_to(value.reshape(shape), known[1][-len(shape) :]).reshape(-1)


def _batch_normalization(view, node):
    import numpy as np

    parameters = [view.constant(view.input(node, index)) for index in range(1, 5)]
    if node.attr["is_training"].b or any(value is None for value in parameters):
        return None
    if node.attr["data_format"].s not in (b"", b"NHWC"):
        return None
    gamma, beta, mean, variance = (np.asarray(value, np.float64) for value in parameters)
    scale = gamma / np.sqrt(variance + node.attr["epsilon"].f)
    return view.input(node, 0), scale, beta - mean * scale
