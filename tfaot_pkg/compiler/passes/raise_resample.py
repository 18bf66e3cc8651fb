"""Windows times weights, as in resized images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Dimensions, Dot, Gather, Indexed, Resample
from tfaot_pkg.compiler.program import Operation, Shape
from tfaot_pkg.compiler.use_def import Look


def resample(look: Look, operation: Operation) -> Operation | None:
    """TensorFlow's resizing of images: a window for each pixel of the output, gathered, times the pixel's weights."""
    # As a gather and a product for each pixel, bilinear resizing took nearly four times XLA's time (decision 069).
    if operation.opcode != "transpose" or Dimensions.of(operation).dimensions != (2, 0, 1, 3):
        return None
    dot = look.made_by(operation.operands[0], "dot", once=True)
    gather = look.made_by(dot.operands[1], "gather", once=True) if dot else None
    if dot is None or gather is None or dot.shape.dtype != "f32":
        return None
    (of_weights, over), (left, right) = Dot.of(dot).batch, Dot.of(dot).contracting
    weights, image = (look.known[value].shape for value in (dot.operands[0], gather.operands[0]))
    starts = look.constant(gather.operands[1])
    if over != (4, 5) or sorted(right) != [1, 2] or weights.rank != 4 or image.rank != 4 or starts is None:
        return None
    sizes = tuple(as_size(size) for size in Gather.of(gather).sizes)
    if starts.ndim != 3 or not _has_windows(gather, image):
        return None
    height, width, channels = (size.constant for size in image.sizes[1:])
    # HLO's gather clamps starts so that windows lie inside the image.
    most = np.array([height - sizes[1].constant, width - sizes[2].constant])
    begin = np.clip(starts.astype(np.int64), 0, most)
    places = ((begin[..., 0] * width + begin[..., 1]) * channels).astype(np.int32)
    return replace(
        operation, opcode="resample",
        operands=(gather.operands[0], dot.operands[0], look.add_constant(places, operation)),
        attributes=Resample(axes=(*of_weights, left[right.index(1)], left[right.index(2)])),
    )  # fmt: skip


def _has_windows(gather: Operation, image: Shape) -> bool:
    """Whether whole windows of an image are gathered, whose sizes are constant."""
    if (Indexed.of(gather).indexed, Indexed.of(gather).vector, Gather.of(gather).offset) != ((1, 2), 2, (0, 1, 2, 3)):
        return False
    sizes = tuple(as_size(size) for size in Gather.of(gather).sizes)
    is_whole = (sizes[0], sizes[3]) == (image.sizes[0], image.sizes[3])
    return is_whole and all(size.is_constant for size in (*image.sizes[1:], *sizes[1:]))
