"""The rules of type_rules.py for operations that take indices: gathers, scatters, dynamic slices."""

from __future__ import annotations

from tfaot_pkg.compiler.attributes import Gather, Indexed, Scatter, Sizes
from tfaot_pkg.compiler.type_rules import (
    INTEGERS,
    ArrayType,
    Types,
    Use,
    different,
    numbers,
    require,
    require_combining,
    without,
)


def _index_axes(use: Use, array: ArrayType, indices: ArrayType) -> tuple[int, ...]:
    """The sizes of `indices` without the axis of their vectors."""
    given = Indexed.of(use)
    vector, indexed = given.vector, different(given.indexed, array.rank)
    require(indices.dtype in INTEGERS and 0 <= vector <= indices.rank, "indices are no vectors of integers")
    length = 1 if vector == indices.rank else indices.sizes[vector]
    require(length == len(indexed), "vectors of indices have another length")
    of_array, of_indices = different(given.operand_batch, array.rank), different(given.index_batch, indices.rank)
    pair = [array.sizes[axis] for axis in of_array], [indices.sizes[axis] for axis in of_indices]
    require(pair[0] == pair[1] and not set(of_array) & set(indexed), "shared axes do not fit")
    return without(indices.sizes, (vector,))


def gather(use: Use) -> Types:
    array, indices = use.arrays
    given = Gather.of(use)
    sizes, outer = use.sizes.numbers(given.sizes), list(_index_axes(use, array, indices))
    gone = (*different(given.collapsed, array.rank), *given.operand_batch)
    require(len(sizes) == array.rank, "it does not cut each axis")
    require(
        all(0 <= cut <= size for cut, size in zip(sizes, array.sizes, strict=True)), f"windows are not inside {array}"
    )
    require(all(sizes[axis] == 1 for axis in gone), "it drops an axis of more than one element")
    inner = list(without(sizes, gone))
    offset = different(given.offset, len(outer) + len(inner))
    require(len(offset) == len(inner) and list(offset) == sorted(offset), "offset does not name the axes of windows")
    made = [(inner if axis in offset else outer).pop(0) for axis in range(len(outer) + len(inner))]
    return (ArrayType(array.dtype, tuple(made)),)


def scatter(use: Use) -> Types:
    half = len(use.operands) // 2
    arrays, updates = use.arrays[:half], use.arrays[half + 1 :]
    require(len(arrays) == len(updates) > 0, "as many updates as arrays are needed")
    array, update = arrays[0], updates[0]
    require(all(each.sizes == array.sizes for each in arrays), "arrays differ")
    require(updates == tuple(ArrayType(each.dtype, update.sizes) for each in arrays), "updates differ")
    outer = _index_axes(use, array, use.arrays[half])
    given = Scatter.of(use)
    gone = {*different(given.inserted, array.rank), *given.operand_batch}
    window = different(given.window, update.rank)
    require(without(update.sizes, window) == outer, "updates are not as many as indices")
    kept = without(array.sizes, gone)
    require(len(window) == len(kept), "updates have another rank")
    fits = (update.sizes[axis] <= size for axis, size in zip(window, kept, strict=True))
    require(all(fits), f"an update is larger than {array}")
    require_combining(use, numbers(arrays))
    return arrays


def _require_starts(starts: Types, rank: int) -> None:
    require(len(starts) == rank, "it does not begin on each axis")
    require(all(each.dtype in INTEGERS and not each.sizes for each in starts), "it begins at no integers")


def dynamic_slice(use: Use) -> Types:
    x, *starts = use.arrays
    sizes = use.sizes.numbers(Sizes.of(use).sizes)
    _require_starts(tuple(starts), x.rank)
    require(len(sizes) == x.rank, "it does not cut each axis")
    require(all(0 <= cut <= size for cut, size in zip(sizes, x.sizes, strict=True)), f"{sizes} is not inside {x}")
    return (ArrayType(x.dtype, sizes),)


def dynamic_update_slice(use: Use) -> Types:
    x, update, *starts = use.arrays
    _require_starts(tuple(starts), x.rank)
    require(update.dtype == x.dtype and update.rank == x.rank, "operands differ")
    require(all(cut <= size for cut, size in zip(update.sizes, x.sizes, strict=True)), f"{update} is not inside {x}")
    return (x,)
