"""Answers that came with a model, from the framework in which its author made it (tfaot_pkg/export)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature, Symbol, Tensor
from tfaot_pkg.verify.corpus import MOST
from tfaot_pkg.worker_program.messages.elements import held_type, numbers, padded

_NONE: tuple[dict[str, Array], dict[str, Array]] = ({}, {})


def in_batches(
    arrays: Mapping[str, Array], original: Original, frozen: FrozenModel, sizes: Sequence[int]
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs by name, and answers, numbers, by "SIZE/OUTPUT", as in Tried; both empty if they do not fit the model.

    `arrays` are held, by "in/KEY" and "out/KEY". In batches that are larger than the number of rows in the file, rows
    are repeated. If rows depend on one another, only a batch of exactly these rows has known answers.
    """
    signature = frozen.signature.without_state()
    if set(original.feeds) != {each.name for each in signature.inputs}:
        return _NONE
    inputs, answers = _held(arrays, original, signature)
    counts = {len(inputs[each.name]) for each in signature.inputs if each.has_batch_axis and inputs[each.name].ndim}
    fit = all(fits(each, inputs[each.name], signature.symbols) for each in signature.inputs)
    fit = fit and all(fits(each, answers[each.name], None) for each in signature.outputs)
    if not fit or len(counts) > 1 or counts == {0}:
        return _NONE
    rows = min(counts, default=1)
    if counts and not frozen.rows.independent and tuple(sizes) != (rows,):
        return _NONE
    # Enough rows for a whole batch of the largest size: few rows are repeated.
    order = np.arange(max(rows, *sizes)) % rows
    repeated = {each.name: inputs[each.name][order] if each.has_batch_axis else inputs[each.name]
                for each in signature.inputs}  # fmt: skip
    found: dict[str, Array] = {}
    for tensor in signature.outputs:
        values = numbers(answers[tensor.name], tensor.dtype.value)
        for size in sizes:
            some = order[: min(MOST, len(order) // size) * size]
            found[f"{size}/{tensor.name}"] = values[some] if tensor.has_batch_axis else values
    return repeated, found


def _held(
    arrays: Mapping[str, Array], original: Original, signature: Signature
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and answers by their names in the package, with the numbers of rows."""
    inputs = {each.name: arrays[f"in/{original.feeds[each.name]}"] for each in signature.inputs}
    answers = {name: arrays[f"out/{key}"] for name, key in original.fetches.items()}
    for name, counted in original.counted(signature).items():
        answers[counted.count] = np.array(len(answers[name]), np.int32)
        answers[name] = padded(answers[name], max(counted.most(inputs), len(answers[name])))
    return inputs, answers


def fits(tensor: Tensor, array: Array, symbols: Sequence[Symbol] | None = None) -> bool:
    """Whether `array` may be such a tensor, with sizes within the limits of `symbols` if they are given."""
    # Of a computed size it is not known which symbols it had: it is at most the largest one.
    if array.dtype != held_type(tensor.dtype.value) or array.ndim != len(tensor.shape):
        return False
    limits = {each.name: (each.minimum, each.maximum) for each in symbols or ()}
    for axis, size in enumerate(tensor.shape):
        symbol = tensor.axes[axis] if tensor.axes else ""
        least, most = limits.get(symbol, (0 if symbol else size, size)) if size is not None else (1, len(array))
        if not (least or 0) <= array.shape[axis] <= (most or 0):
            return False
    return True


def repeated_to(rows: Array, count: int) -> Array:
    """`rows`, from the first on again until there are `count`, if there are fewer."""
    return rows if len(rows) >= count else rows[np.arange(count) % len(rows)]
