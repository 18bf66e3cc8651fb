"""Batches of sizes that are not in the spec, for models that are programs: a row must have the same bits at each size.

The library's answers for the same rows at the spec's sizes, which are compared with TensorFlow's elsewhere, are the
reference here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import numpy as np

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.verify.judgement import Difference

_BLOCKS = 3
"""The number of whole blocks of rows before the last, partial one in the largest batch."""


def other_sizes(block: int, batch_sizes: Sequence[int]) -> tuple[int, ...]:
    """One row, a part of a block of `block` rows, and some blocks followed by a part of one.

    If a size is among `batch_sizes`, the next larger one is used.
    """
    part = max(block - 1, 1)
    found: list[int] = []
    for least in (1, part, _BLOCKS * block + part):
        found.append(next(size for size in count(least) if size not in {*batch_sizes, *found}))
    return tuple(found)


def repeated(
    inputs: Mapping[str, Array], signature: Signature, batch_sizes: Sequence[int], others: Sequence[int]
) -> dict[str, Array]:
    """The rows of whole batches of `batch_sizes`, repeated to the number of rows of the largest of `others`."""
    batched = {tensor.name for tensor in signature.inputs if tensor.has_batch_axis}
    rows = min(len(inputs[name]) for name in batched)
    order = np.arange(max(others)) % max(rows // size * size for size in batch_sizes)
    return {name: values[order] if name in batched else values for name, values in inputs.items()}


def unlike(
    answers: Mapping[str, Array], known: Mapping[str, Array], *, target: str, signature: Signature
) -> Iterator[Difference]:
    """The outputs with a row whose bits in `answers`, to the repeated inputs, differ from those in `known`.

    Both are by "SIZE/OUTPUT". NaN is equal to NaN.
    """
    for name, ours in answers.items():
        size, _, output = name.partition("/")
        tensor = next(tensor for tensor in signature.outputs if tensor.name == output)
        # The size with the most answers has them for all rows that were repeated.
        expected = max((values for key, values in known.items() if key.partition("/")[2] == output), key=np.size)
        if tensor.has_batch_axis:
            expected = expected[np.arange(len(ours)) % len(expected)]
        different = _different(ours, expected)
        if different.any():
            yield Difference(
                target=target, batch_size=int(size), output=output, kind="other bits",
                elements=int(np.count_nonzero(different)), max_absolute=_largest(ours, expected), is_fault=True,
            )  # fmt: skip


def _different(first: Array, second: Array) -> Array:
    bits = f"u{first.dtype.itemsize}"
    # As integers, so that 0 and -0 differ. All NaN are equal: if both operands are NaN, the result depends on the CPU.
    different: Array = first.view(bits) != second.view(bits)
    return different & ~(np.isnan(first) & np.isnan(second)) if first.dtype.kind == "f" else different


def _largest(first: Array, second: Array) -> float | None:
    with np.errstate(all="ignore"):
        difference = np.abs(first.astype(np.float64) - second.astype(np.float64))
    finite = difference[np.isfinite(difference)]
    return float(finite.max()) if finite.size else None
