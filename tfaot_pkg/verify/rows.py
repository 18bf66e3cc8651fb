"""Whether rows of a batch interact: the same rows again, with other neighbours, in other places, alone and repeated.

What is shown of a model's rows (program/independence.py) is tried here on its library and on TensorFlow. A difference
in the last digits is none: batch sizes and places may round differently.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tfaot_pkg.arrays import Array
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.signature import Signature
from tfaot_pkg.wording import counted

Order = npt.NDArray[np.int64]

_ROWS = 24
"""Rows that are tried, or as many as the largest batch size has."""
_REPEATED = 3
"""Rows that are tried as batches of nothing else."""
_SLACK, _LEAST_RTOL, _LEAST_ATOL = 10.0, 1e-3, 1e-4
"""Times the tolerances of a validation, and at least so much: two answers may each be off, and rows that interact
differ by far more."""
_TIES = 0.05
"""The part of integer elements that may differ: an argmax goes either way if two values round differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """An output of which rows changed with what stands around them."""

    runner: str
    batch_size: int
    output: str
    rows: int
    of_rows: int

    def __str__(self) -> str:
        changed = f"{self.rows} of {counted(self.of_rows, 'row')}"
        return f"output {self.output!r}, batch size {self.batch_size}, {self.runner}: {changed} changed"


def arrangement(rows: int, batch_sizes: Sequence[int]) -> Order:
    """Rows in orders that give them other neighbours and places at every batch size, then some repeated.

    `rows` are there, as many as the largest batch size at least.
    """
    smallest, largest = min(batch_sizes), max(batch_sizes)
    numbers = np.arange(min(rows // smallest * smallest, max(_ROWS, largest)))
    stride = next(each for each in range(len(numbers) // 2 + 1, len(numbers) + 2) if np.gcd(each, len(numbers)) == 1)
    repeated = [np.full(largest, row) for row in numbers[:_REPEATED]]
    return np.concatenate([numbers[::-1], numbers * stride % max(len(numbers), 1), *repeated])


def uncompiled_size(batch_sizes: Sequence[int]) -> int:
    """The smallest size above 1 that was not compiled: TensorFlow is asked for it, too."""
    return next(size for size in range(2, len(batch_sizes) + 3) if size not in batch_sizes)


def arranged(inputs: Mapping[str, Array], signature: Signature, order: Order) -> dict[str, Array]:
    batched = {tensor.name for tensor in signature.inputs if tensor.has_batch_axis}
    return {name: values[order] if name in batched else values for name, values in inputs.items()}


def interactions(
    answers: Mapping[str, Array],
    known: Mapping[str, Array],
    order: Order,
    *,
    runner: str,
    signature: Signature,
    rtol: float,
    atol: float,
) -> tuple[Interaction, ...]:
    """Where `answers` ("SIZE/OUTPUT") to the arranged inputs are not those that are `known` of the same rows.

    Of outputs without a batch axis nothing can be said.
    """
    found = []
    for name, values in answers.items():
        size, _, output = name.partition("/")
        if not next(tensor.has_batch_axis for tensor in signature.outputs if tensor.name == output):
            continue
        most = max((each for key, each in known.items() if key.partition("/")[2] == output), key=len)
        expected = most[order[: len(values)]]
        changed = _changed_rows(values, expected, rtol=rtol, atol=atol)
        if changed:
            found.append(
                Interaction(runner=runner, batch_size=int(size), output=output, rows=changed, of_rows=len(values))
            )
    return tuple(found)


def _changed_rows(ours: Array, expected: Array, *, rtol: float, atol: float) -> int:
    if expected.dtype.kind != "f":
        differ = ours != expected
        return 0 if differ.mean() <= _TIES else _rows_with(differ)
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max(initial=0.0))
    close = np.isclose(
        ours, expected, rtol=max(_SLACK * rtol, _LEAST_RTOL), atol=max(_SLACK * atol, _LEAST_ATOL * scale),
        equal_nan=True,
    )  # fmt: skip
    return _rows_with(~close)


def _rows_with(differ: npt.NDArray[np.bool_]) -> int:
    return int(np.count_nonzero(differ.reshape(len(differ), -1).any(axis=1)))


def require_none(model: str, found: Sequence[Interaction]) -> None:
    """Raise ValidationError if rows interact in a model of which the contrary was shown."""
    if found:
        lines = "\n".join(f"  {each}" for each in found[:5])
        raise ValidationError(
            f"model {model}: answers for a row change with the other rows of its batch, "
            f"although no rows meet in its graph:\n{lines}",
            hint="this is a fault of this tool, please report it; inputs at which the model is very sensitive to "
            "rounding give such a difference, too (validation.inputs)",
        )
