"""Patches of images, put together of slices.

XLA multiplies images by a kernel of ones and zeros: a NaN would reach everything in the patches that contain it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import tensorflow as tf

if TYPE_CHECKING:
    from framework_types import NodeDef


def patches(node: NodeDef, x: tf.Tensor) -> tf.Tensor | None:
    """The patches of `x` side by side in its last axis, as ExtractImagePatches has them; None if sizes are unknown."""
    lengths, strides, steps = (list(node.attr[name].list.i)[1:3] for name in ("ksizes", "strides", "rates"))
    sizes = x.shape.as_list()[1:3]
    if None in sizes:
        return None
    pads, ends = [], []
    for size, length, stride, step in zip(sizes, lengths, strides, steps, strict=True):
        reach = (length - 1) * step + 1
        is_same = node.attr["padding"].s == b"SAME"
        found = -(-size // stride) if is_same else (size - reach) // stride + 1
        missing = max((found - 1) * stride + reach - size, 0) if is_same else 0
        pads.append([missing // 2, missing - missing // 2])
        ends.append((found - 1) * stride + 1)
    wide = tf.pad(x, [[0, 0], *pads, [0, 0]])
    parts = []
    for place in itertools.product(*map(range, lengths)):
        first = [at * step for at, step in zip(place, steps, strict=True)]
        last = [one + end for one, end in zip(first, ends, strict=True)]
        slices = [slice(None), *map(slice, first, last, strides), slice(None)]
        parts.append(wide[tuple(slices)])
    return tf.concat(parts, -1)
