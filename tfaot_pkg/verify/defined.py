"""What a program's operations give by definition: its answers in NumPy (compiler/interpret.py).

They tell what compiled code should give where the framework's own result is undefined, such as an integer of NaN. They
say nothing about whether the program is the author's model: only rules about such operations ask for them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.program import NUMPY_TYPES, Binding, Program, Unsupported
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.worker_program.messages.elements import held_type

_MOST_BYTES = 1 << 30
"""The limit of all arrays of a run together, which is not in the sandbox: sizes are those of the model's file."""


def answers(
    program: Program,
    signature: Signature,
    inputs: Mapping[str, Array],
    sizes: Sequence[int],
    *,
    most: int | None,
    seconds: float,
) -> dict[str, Array]:
    """The answers by "SIZE/OUTPUT" for batches of `sizes`, `most` of each.

    None if they take more than `seconds`, or much memory, and of operations that have no definition in NumPy.
    """
    end = time.monotonic() + seconds
    found: dict[str, Array] = {}
    batched = [each.name for each in signature.inputs if each.has_batch_axis]
    try:
        for size in sizes:
            rows = min((len(inputs[name]) for name in batched), default=size)
            batches: list[list[Array]] = []
            for start in range(0, rows - size + 1, size)[:most]:
                given = {
                    name: array[start : start + size] if name in batched else array for name, array in inputs.items()
                }
                batches.append(_run(program, signature, given, size, end))
            for place, each in enumerate(signature.outputs):
                parts = [batch[place] for batch in batches]
                if parts:
                    found[f"{size}/{each.name}"] = np.concatenate(parts) if each.has_batch_axis else parts[0]
    except (Unsupported, interpret.OutOfTimeError):
        return {}
    return found


def _run(program: Program, signature: Signature, given: Mapping[str, Array], rows: int, end: float) -> list[Array]:
    sizes = {
        symbol: size
        for each in signature.inputs
        for symbol, size in zip(each.axes, given[each.name].shape, strict=False)
        if symbol
    }
    if bytes_of(program, Binding(rows, sizes)) > _MOST_BYTES:
        raise Unsupported("its arrays are too large")
    arrays = [_carried(each, given[each.name]) for each in signature.inputs]
    made = interpret.run(program, rows, arrays, sizes, end=end)
    return [values.view(held_type(each.dtype.value)) for each, values in zip(signature.outputs, made, strict=True)]


def bytes_of(program: Program, at: Binding) -> int:
    """The bytes of all arrays that the operations make, each counted once."""
    return sum(
        math.prod(at.numbers(shape.sizes)) * np.dtype(NUMPY_TYPES[shape.dtype]).itemsize
        for each in program.entry.everything()
        for shape in (each.type if isinstance(each.type, tuple) else (each.type,))
    )


def _carried(tensor: Tensor, values: Array) -> Array:
    """The array as compiled code takes it."""
    return np.asarray(values, order="C").view(tensor.carried.dtype.value)  # `ascontiguousarray` gives scalars an axis
