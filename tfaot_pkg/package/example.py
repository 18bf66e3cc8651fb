"""A batch of a model's validation with its framework's answers, for first programs and the package's page. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import DType, Signature, Tensor

MOST_NUMBERS = 2048
"""Of inputs and outputs together: more do not make a program that people read."""

PLAIN = frozenset(DType) - {DType.FLOAT16, DType.BFLOAT16, DType.COMPLEX64, DType.COMPLEX128}
"""Types whose numbers a program can write down."""

Numbers = Sequence[bool | int | float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`rows` rows of inputs and the framework's answers by name, row-major. All numbers are finite.

    `sizes` are those of the model's symbols.
    """

    rows: int
    inputs: Mapping[str, Numbers]
    outputs: Mapping[str, Numbers]
    sizes: Mapping[str, int] = field(default_factory=dict)


def example_sizes(signature: Signature) -> Mapping[str, int] | None:
    """Sizes of symbols for an example; None if lengths of inputs do not say all: a call has to give them then."""
    sizes = small_sizes(signature)
    return sizes if signature.determined_symbols() >= sizes.keys() else None


def small_sizes(signature: Signature) -> dict[str, int]:
    """Small sizes of symbols, but not the smallest, at which an axis may not matter, and different ones."""
    return {each.name: min(each.minimum + 1 + place, each.maximum) for place, each in enumerate(signature.symbols)}


def example_of(
    signature: Signature, batch_sizes: Sequence[int], *, independent: bool, inputs: Mapping[str, Array],
    answers: Mapping[str, Array], sizes: Mapping[str, int] | None = None,
) -> Example | None:  # fmt: skip
    """The first batch of the validation as an example: one row if rows are independent, else of the smallest size.

    `answers` are by "SIZE/OUTPUT". `inputs` and `answers` of a model with symbols are those at `sizes`. None if the
    model has state, or symbols without `sizes`, types that a C++ program cannot write down as numbers, more than
    `MOST_NUMBERS` of them, or one that is not finite.
    """
    size = min(batch_sizes)
    rows = 1 if independent else size
    if (
        signature.state
        or (signature.symbols and not sizes)
        or any(tensor.dtype not in PLAIN for tensor in signature.tensors)
    ):
        return None
    given = {each.name: _first(each, inputs[each.name], rows) for each in signature.inputs}
    found = {each.name: _first(each, answers[f"{size}/{each.name}"], rows) for each in signature.outputs}
    values = [*given.values(), *found.values()]
    if sum(each.size for each in values) > MOST_NUMBERS or not all(np.isfinite(each).all() for each in values):
        return None
    return Example(
        rows=rows,
        inputs={name: _numbers(each) for name, each in given.items()},
        outputs={name: _numbers(each) for name, each in found.items()},
        sizes=sizes or {},
    )


def _first(tensor: Tensor, values: Array, rows: int) -> Array:
    return np.asarray(values[:rows] if tensor.has_batch_axis else values).reshape(-1)


def _numbers(values: Array) -> Numbers:
    # The shortest decimal number that is rounded to the same float32.
    listed = [float(str(each)) for each in values] if values.dtype == np.float32 else values.tolist()
    return tuple(listed)
