"""The pinned inputs for which packages store hashes of answers (decision 039).

They follow from the model's interface alone, by integer arithmetic that is written down here: they are the same on
every machine, with every version of NumPy. Element `i` of input number `n` (both from 0, in the order of the interface
and of the rows) is computed from the 64-bit number z of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014):

    z = (i + 1) * 0x9E3779B97F4A7C15 + (n + 1) * 0xD1342543DE82EF95
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    z = z ^ (z >> 31)

Row r is of kind r mod 5 in cycle r div 5; an input without a batch axis is one row, r = 0. With
u = (z >> 40) / 2**22 - 2, which is in [-2, 2), s = z mod 256, and k = (z >> 8) mod 2**23, the elements are:

    kind         floats                                                  integers                        booleans
    0 plain      u                                                       (z >> 40) mod 4                 (z >> 40) mod 2
    1 wide       16 u                                                    (z >> 40) mod 128               of all kinds
    2 large      2**(24 (1 + cycle mod 5)) u                              the low bits of z >> 1
    3 special    if s < 64, number (z >> 8) mod n of the n in _FLOATS,   number (z >> 8) mod n of the n
                 in odd cycles followed by _NOT_FINITE; else u            in `_integers`
    4 denormal   if s < 128, the denormal number of significand k,       (z >> 40) mod 4
                 negative if s is odd; else u

float16 and bfloat16 are floats of 32 bits, rounded to the nearest ones (ties to even). The parts of complex numbers are
elements of their own, the real one first.

Any change here needs a new `hashes.FORMAT`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import DType, Signature, Tensor
from tfaot_pkg.worker_program.messages.elements import held

MOST = 8
"""The most batches of each size, here and in each other class of inputs except the main one."""

SIZES = (1, 3, 16, 37)
"""Batch sizes: one row, fewer than any vector has lanes, whole vectors, and many with a remainder. At most MOST of
each."""

_MOST_BYTES = 1 << 26
"""The limit of a batch's inputs and outputs, in bytes. All sizes together take less than twice this."""

_MOST_OPERATIONS = 2e10
"""The limit of operations in all batches: seconds on a CPU, minutes under an emulator. A single row is exempt."""

_KINDS = 5
_MASK = 0xFFFF_FFFF_FFFF_FFFF


def sizes_of(signature: Signature, operations_per_row: float = 0.0) -> tuple[int, ...]:
    """The batch sizes of the corpus; fewer than SIZES if the model is large, none if one row is too large."""
    batched = any(tensor.has_batch_axis for tensor in signature.inputs)
    found: list[int] = []
    rows = 0
    for size in SIZES if batched else SIZES[:1]:
        rows += batches_of(size) * size
        if _bytes(signature, size) > _MOST_BYTES or (found and rows * operations_per_row > _MOST_OPERATIONS):
            break
        found.append(size)
    return tuple(found)


def batches_of(size: int) -> int:
    """The number of batches of `size` rows, which are the first ones of the corpus."""
    return min(MOST, SIZES[-1] // size)


def corpus(signature: Signature, sizes: Sequence[int]) -> dict[str, Array]:
    """The inputs by name; with a batch axis, as many rows as the largest of `sizes`."""
    return {tensor.name: _input(tensor, number, max(sizes)) for number, tensor in enumerate(signature.inputs)}


def _bytes(signature: Signature, size: int) -> int:
    return sum(tensor.nbytes_at(size) for tensor in (*signature.inputs, *signature.outputs))


def _input(tensor: Tensor, number: int, rows: int) -> Array:
    count, elements = (rows if tensor.has_batch_axis else 1), math.prod(tensor.carried.row_shape)
    by_row = _words(number, count * elements).reshape(count, elements)
    made = [_row(tensor.dtype, words, row) for row, words in enumerate(by_row)]
    return held(np.stack(made).reshape(tensor.carried.shape_at(rows)), tensor.dtype.value)


def _words(number: int, elements: int) -> Array:
    # In Python's integers, because NumPy warns about scalars that overflow; arrays wrap around without a warning.
    start = np.uint64((number + 1) * 0xD1342543DE82EF95 & _MASK)
    z = np.arange(1, elements + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + start
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = z ^ (z >> np.uint64(31))
    return mixed


def _row(dtype: DType, words: Array, row: int) -> Array:
    kind, cycle = row % _KINDS, row // _KINDS
    if dtype is DType.BOOL:
        return _below(words, 2).astype(bool)
    if dtype.is_inexact:
        of_double = dtype in (DType.FLOAT64, DType.COMPLEX128)
        return _float_row(np.dtype("float64" if of_double else "float32"), words, kind, cycle)
    return _integer_row(np.dtype(dtype.value), words, kind)


def _integer_row(dtype: np.dtype[Any], words: Array, kind: int) -> Array:
    if kind == 3:
        return _chosen(_integers(dtype), words)
    numbers = words >> np.uint64(1) if kind == 2 else _below(words, 128 if kind == 1 else 4)
    made: Array = numbers.astype(dtype)
    return made


def _integers(dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    return np.array([0, 1, limits.max, limits.min, -1 if limits.min < 0 else limits.max - 1], dtype)


def _float_row(dtype: np.dtype[Any], words: Array, kind: int, cycle: int) -> Array:
    # Every step is exact, because 24 bits fit into both types: no rounding mode or fused operation changes the inputs.
    made: Array = _below(words, 1 << 24).astype(dtype) * dtype.type(2.0**-22) - dtype.type(2)
    share = words % np.uint64(256)
    match kind:
        case 1:
            made *= dtype.type(16)
        case 2:
            made *= dtype.type(2.0 ** (24 * (1 + cycle % 5)))
        case 3:
            made = np.where(share < 64, _chosen(_floats(dtype, finite=cycle % 2 == 0), words), made)
        case 4:
            made = np.where(share < 128, _denormal(dtype, words), made)
    return made


def _floats(dtype: np.dtype[Any], *, finite: bool) -> Array:
    limits = np.finfo(dtype)
    most, least = float(limits.max), float(limits.smallest_normal)
    values = [0.0, -0.0, 1.0, -1.0, most, -most, least, -least]
    return np.array(values if finite else [*values, np.nan, np.inf, -np.inf], dtype)


def _denormal(dtype: np.dtype[Any], words: Array) -> Array:
    """Denormal numbers, assembled from bits, because arithmetic may flush such numbers to zero."""
    bits = np.dtype(f"<u{dtype.itemsize}")
    significand = (words >> np.uint64(8)) % np.uint64(1 << 23)
    sign = (words % np.uint64(2)) << np.uint64(8 * bits.itemsize - 1)
    made: Array = (significand | sign).astype(bits).view(dtype)
    return made


def _below(words: Array, limit: int) -> Array:
    """Numbers below `limit`, from the upper 24 bits, which float32 and float64 represent exactly."""
    numbers: Array = (words >> np.uint64(40)) % np.uint64(limit)
    return numbers


def _chosen(values: Array, words: Array) -> Array:
    chosen: Array = values[(words >> np.uint64(8)) % np.uint64(len(values))]
    return chosen
