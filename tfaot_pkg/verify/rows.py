"""Whether rows of a batch interact: the same rows again, with other neighbours, at other positions, and repeated.

Proofs about a model's rows (program/independence.py) are tested here on its library and on TensorFlow. Differences in
the last digits do not count: batch sizes and positions may round differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.verify.evidence import Answers, Free, rtol_of, spread_of
from tfaot_pkg.verify.inputs import ARRANGED
from tfaot_pkg.verify.judgement import Difference, differences

Order = npt.NDArray[np.int64]

_ROWS = 24
"""The number of rows that are tried; the largest batch size if that is more."""
_REPEATED = 3
"""The number of rows that are repeated to fill a whole batch each."""
_SLACK, _LEAST_RTOL, _LEAST_ATOL = 10.0, 1e-3, 1e-4
"""A factor on the tolerances of a validation, and the least tolerances: both answers may be off, and rows that interact
differ by far more."""
_TIES = 0.05
"""The share of integer elements that may differ: roundings decide an argmax of nearly equal values."""


_LARGER = (6, 9, 24, 33, 130, 513, 1000)
"""Batch sizes that are neither compiled nor traced (worker_program/hlo.py): models may choose what they compute by the
size. Some of them are multiples of usual numbers, and above usual limits."""
_MOST_BYTES, _MOST_OPERATIONS = 1 << 26, 2e9
"""The limits of inputs and outputs of one batch, and of the operations of all: a tenth of a second."""


def larger_sizes(signature: Signature, batch_sizes: Sequence[int], operations_per_row: float) -> tuple[int, ...]:
    """Sizes at which the framework runs too: fewer if the model is large."""
    found: list[int] = []
    for size in (each for each in _LARGER if each not in batch_sizes):
        needed = sum(each.nbytes_at(size) for each in (*signature.inputs, *signature.outputs))
        if needed > _MOST_BYTES or (sum(found) + size) * operations_per_row > _MOST_OPERATIONS:
            break
        found.append(size)
    return tuple(found)


def arrangement(rows: int, batch_sizes: Sequence[int]) -> Order:
    """Rows in orders that give them other neighbours and positions at every batch size, then some repeated.

    `rows` is the number of existing rows, at least the largest batch size.
    """
    smallest, largest = min(batch_sizes), max(batch_sizes)
    # Rows after the last whole batch of the smallest size may have no answers to compare with.
    numbers = np.arange(min(rows // smallest * smallest, max(_ROWS, largest)))
    # A stride that is coprime with the number of rows visits each row once.
    stride = next(each for each in range(len(numbers) // 2 + 1, len(numbers) + 2) if np.gcd(each, len(numbers)) == 1)
    repeated = [np.full(largest, row) for row in numbers[:_REPEATED]]
    return np.concatenate([numbers[::-1], numbers * stride % max(len(numbers), 1), *repeated])


def uncompiled_size(batch_sizes: Sequence[int]) -> int:
    """The smallest size above 1 that was not compiled, for TensorFlow's own run."""
    # There is one candidate more than compiled sizes, so at least one is not compiled.
    return next(size for size in range(2, len(batch_sizes) + 3) if size not in batch_sizes)


def arranged(inputs: Mapping[str, Array], signature: Signature, order: Order) -> dict[str, Array]:
    batched = {tensor.name for tensor in signature.inputs if tensor.has_batch_axis}
    return {name: values[order] if name in batched else values for name, values in inputs.items()}


def interactions(
    answers: Mapping[str, Array],
    known: Mapping[str, Array],
    order: Order,
    *,
    target: str,
    signature: Signature,
    rtol: float,
    atol: float,
    operations: frozenset[str] = frozenset(),
) -> Iterator[Difference]:
    """The differences of `answers` ("SIZE/OUTPUT") to the arranged inputs from those `known` for the same rows.

    Outputs without a batch axis are left out.
    """
    for name, values in answers.items():
        size, _, output = name.partition("/")
        tensor = next(tensor for tensor in signature.outputs if tensor.name == output)
        if not tensor.has_batch_axis:
            continue
        # Only whole batches were run, so sizes that do not divide the number of rows have answers for fewer of them.
        longest = max((key for key in known if key.partition("/")[2] == output), key=lambda key: len(known[key]))
        rows = order[: len(values)]
        expected = known[longest][rows]
        beside = {key: array[rows] for key, array in known.items() if key.startswith(f"{longest}/")}
        # Integers have no tolerance, so a few may differ that follow from roundings.
        if expected.dtype.kind != "f" and np.count_nonzero(values != expected) <= _TIES * values.size:
            continue
        yield from differences(
            Answers(
                ours=values,
                eager=expected,
                eager_ran=np.ones(values.shape, bool),
                spread=spread_of(beside, longest),
                free=_free(known, longest.partition("/")[0], rows, values),
            ),
            class_name=ARRANGED,
            target=target,
            batch_size=int(size),
            output=output,
            rtol=max(_SLACK * rtol_of(tensor.dtype, rtol), _LEAST_RTOL),
            atol=max(_SLACK * atol, _LEAST_ATOL * _scale(expected)),
            operations=operations,
        )


def _free(known: Mapping[str, Array], size: str, rows: Order, values: Array) -> Free:
    """Masks of the elements of arranged rows in which an operation's result is open, as far as `known` tells it."""
    start, shape = f"{size}/free/", (-1, *[1] * (values.ndim - 1))
    masks = {name.removeprefix(start): mask[rows] for name, mask in known.items() if name.startswith(start)}
    return {
        (name.partition("/")[0], name.partition("/")[2]): np.broadcast_to(mask.reshape(shape), values.shape)
        for name, mask in masks.items()
    }


def _scale(values: Array) -> float:
    if values.dtype.kind != "f":
        return 0.0
    return float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
