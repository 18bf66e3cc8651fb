"""Slices of convolutions."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.compiler.affine import as_size, plain
from tfaot_pkg.compiler.attributes import Convolution, Slices
from tfaot_pkg.compiler.program import Operation, Size
from tfaot_pkg.compiler.use_def import Look


def cut(look: Look, operation: Operation) -> Operation | None:
    """A slice of a convolution becomes a smaller convolution: exporters crop transposed convolutions."""
    made = look.made_by(operation.operands[0], "convolution", once=True) if operation.opcode == "slice" else None
    if made is None:
        return None
    slices, laid, sides = Slices.of(operation).slices, Convolution.of(made).output, list(Convolution.of(made).window)
    for axis in range(operation.shape.rank):
        begin, end, step = slices[axis]
        length = made.shape.sizes[axis]
        if (begin, as_size(end), step) == (0, length, 1):
            continue
        if axis in laid[:2] or step != 1:
            return None
        place = laid.index(axis) - 2
        size, stride, low, high, dilation, base = sides[place]
        lost = as_size(end) + Size(-1) * length
        # With less padding than the dilation adds, the crop would remove an element of the image, not only zeros.
        if not isinstance(begin, int) or not isinstance(low, int) or stride != 1 or low - begin < base - 1:
            return None
        sides[place] = (size, stride, low - begin, plain(as_size(high) + lost), dilation, base)
    attributes = replace(Convolution.of(made), window=tuple(sides))
    return replace(made, id=operation.id, type=operation.type, attributes=attributes)
