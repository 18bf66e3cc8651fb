"""Sums that XLA has no kernels for: running ones of short integers, and those of segments that the graph states."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import tensorflow as tf

if TYPE_CHECKING:
    from framework_types import NodeDef


_WIDER = {
    **dict.fromkeys((tf.int8, tf.int16, tf.uint8, tf.uint16), tf.int32),
    **dict.fromkeys((tf.uint32, tf.uint64), tf.int64),
}
"""Sums and products of integers wrap around: their lowest bits are those of a wider type."""
_MOST_SEGMENTS = 1 << 20
"""The result has as many rows as the largest id says: a file must not decide on any amount of memory."""


Rule: TypeAlias = Callable[..., "tf.Tensor | None"]
"""The result of a node of its inputs; None for XLA's own kernel."""


def cumulative(run: Callable[..., tf.Tensor]) -> Rule:
    """A rule for `run`, tf.cumsum or tf.math.cumprod."""

    def rule(node: NodeDef, x: tf.Tensor, axis: tf.Tensor) -> tf.Tensor | None:
        options = {name: node.attr[name].b for name in ("exclusive", "reverse")}
        if x.dtype in _WIDER:
            return tf.cast(run(tf.cast(x, _WIDER[x.dtype]), axis, **options), x.dtype)
        if x.dtype.is_complex and run is tf.cumsum:
            return tf.complex(*(run(part(x), axis, **options) for part in (tf.math.real, tf.math.imag)))
        return None

    return rule


def of_segments(kind: str, empty: int) -> Rule:
    """A rule for Segment`kind`, whose segments without elements are `empty`, if the ids are constant."""
    run = getattr(tf.math, f"unsorted_segment_{kind.lower()}")

    def rule(node: NodeDef, data: tf.Tensor, ids: tf.Tensor) -> tf.Tensor | None:
        known = tf.get_static_value(ids)
        # TensorFlow rejects negative ids.
        if known is None or known.min(initial=0) < 0 or known.max(initial=-1) >= _MOST_SEGMENTS:
            return None
        count = int(known.max(initial=-1)) + 1
        if kind == "Mean" and data.dtype.is_integer:
            # TensorFlow's function gives floats for these, and its kernel a quotient that is cut.
            sizes = np.maximum(np.bincount(known, minlength=count), 1).reshape(-1, *[1] * (data.shape.rank - 1))
            return tf.truncatediv(tf.math.unsorted_segment_sum(data, ids, count), tf.constant(sizes, data.dtype))
        found = run(data, ids, count)
        missing = np.isin(np.arange(count), known, invert=True)
        if not missing.any():
            return found
        mask = tf.reshape(tf.constant(missing), [-1, *[1] * (data.shape.rank - 1)])
        return tf.where(mask, tf.constant(empty, data.dtype), found)

    return rule
