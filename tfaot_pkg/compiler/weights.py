"""The arrays in the weights of programs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

import numpy as np

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.elements import Access, Place
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.memory import ALIGNMENT
from tfaot_pkg.compiler.program import NUMPY_TYPES, ONE, ZERO, Shape, Size
from tfaot_pkg.ground.arrays import Array

_REORDERED = 4096
"""The most elements of a constant that is stored again in the order in which a loop reads it."""


class Constants:
    """The arrays in the weights of one or several programs, each with its offset. Equal arrays are stored once."""

    def __init__(self) -> None:
        self.placed: list[tuple[int, Array]] = []
        self.values: dict[str, Array] = {}  # by address
        self._known: dict[tuple[str, bytes], int] = {}
        self.end = 0

    def offset(self, values: Array) -> int:
        # By digest, because keys of bytes would hold gigabytes of weights twice.
        same = (values.dtype.str, sha256(values.data).digest())
        if same not in self._known:
            self._known[same] = -(-self.end // ALIGNMENT) * ALIGNMENT
            self.placed.append((self._known[same], values))
            self.end = self._known[same] + values.nbytes
        return self._known[same]

    def address(self, values: Array) -> str:
        """The address of a constant. Equal constants, such as those of an unrolled layer's steps, are stored once."""
        values = np.ascontiguousarray(values)
        type_ = next(C_TYPES[name] for name, dtype in NUMPY_TYPES.items() if dtype == values.dtype)
        pointer = f"reinterpret_cast<const {type_}*>(weights + {self.offset(values)})"
        if pointer not in self.values or values.size:  # where nothing lies, the next constant does
            self.values[pointer] = values
        return pointer

    def place(self, values: Array) -> Place:
        """A constant as a whole."""
        return Place(self.address(values), elements=Size(values.size))

    def in_order(self, access: Access, extents: Sequence[Size]) -> Access:
        """Of a constant that a loop over `extents` reads in another order than that of memory: a copy in its order."""
        found = self._ordered(access, extents)
        return access if found is None else replace(access, base=self.address(found[0]), index=found[1])

    def as_in_order(self, access: Access, extents: Sequence[Size]) -> Access:
        """The same without the copy."""
        found = self._ordered(access, extents)
        return access if found is None else replace(access, index=found[1])

    def _ordered(self, access: Access, extents: Sequence[Size]) -> tuple[Array, Index] | None:
        values, index = self.values.get(access.base), access.index
        axes = [axis for axis, factor in enumerate(index.factors) if factor != ZERO and extents[axis] != ONE]
        known = (index.offset, *(size for axis in axes for size in (extents[axis], index.factors[axis])))
        if values is None or index.runtime or not all(size.is_constant for size in known):
            return None
        shape = Shape(access.dtype, tuple(extents[axis] for axis in axes))
        strides = dict(zip(axes, shape.strides, strict=True))
        if all(index.factors[axis] == stride for axis, stride in strides.items()):
            return None
        sizes = [size.constant for size in shape.sizes]
        if math.prod(sizes) > min(values.size, _REORDERED):
            return None
        places = np.full(sizes, index.offset.constant)
        for axis, counted in zip(axes, np.indices(sizes), strict=True):
            places += counted * index.factors[axis].constant
        factors = tuple(strides.get(axis, ZERO) for axis in range(len(extents)))
        return values.reshape(-1)[places], Index(ZERO, factors)
