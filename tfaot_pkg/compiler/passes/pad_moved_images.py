"""Zeros around images that are written anyway."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Conv2d, Edge, Pad
from tfaot_pkg.compiler.program import Operation, Shape, Size
from tfaot_pkg.compiler.use_def import Look


def padded_apart(look: Look, operation: Operation) -> Operation | None:
    """Padding of a convolution whose image is transposed or joined of others becomes zeros that are written with it.

    Otherwise the kernel library would copy the image once more, between zeros. With it a small detector takes 0.94 of
    its time, and a U-Net 0.95 (benchmarks/onnx_networks.py: one row, AVX-512 and AVX2). Images of layers stay: to write
    the whole of one between zeros takes longer than the kernel library takes for some lines at a time (1.07).
    """
    if operation.opcode != "conv2d":
        return None
    given, image = Conv2d.of(operation), look.made_by(operation.operands[0], "transpose", "concatenate", once=True)
    window = [each for each in given.window if isinstance(each, int)]
    if image is None or given.groups != 1 or len(window) < len(given.window) or not any(window[-2:]):
        return None
    inside, channels, outside, size, stride, dilation, before = (
        window[:2], window[2], window[3:5], window[5:7], window[7:9], window[9:11], window[11:]
    )  # fmt: skip
    sides = zip(inside, outside, size, stride, dilation, before, strict=True)
    after = [
        max(0, (out - 1) * step + (taps - 1) * apart + 1 - low - into) for into, out, taps, step, apart, low in sides
    ]
    edges: list[Edge] = [(low, high, 0) for low, high in zip(before, after, strict=True)]
    made = [low + into + high for low, into, high in zip(before, inside, after, strict=True)]
    sizes = (image.shape.sizes[0], *map(Size, made), image.shape.sizes[3])
    zero = look.add_constant(np.zeros((), np.float32), operation)
    padded = replace(
        image, id=look.fresh(), opcode="pad", type=Shape("f32", sizes), operands=(image.id, zero),
        attributes=Pad(padding=((0, 0, 0), *edges, (0, 0, 0))),
    )  # fmt: skip
    attributes = replace(given, window=(*made, channels, *window[3:11], 0, 0))
    return replace(operation, operands=(look.add(padded).id, *operation.operands[1:]), attributes=attributes)
