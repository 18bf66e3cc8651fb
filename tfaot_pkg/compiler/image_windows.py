"""Windows of images as the kernel library has them, and phases of dilated ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.program import Shape, Size

Window = tuple[int | Size, ...]
"""The kernel library's Window, in its order; sizes of the images may hold symbols."""


def window_of(before: Shape, after: Shape, sides: Sequence[Sequence[Any]]) -> Window | None:
    """None if an axis grows with the batch, the base is dilated, or padding depends on a symbol."""
    images = (*before.sizes[1:], *after.sizes[1:])
    if any(size.grows for size in images) or any(side[5] != 1 for side in sides):
        return None
    # Padding at the end may contain symbols: the kernel derives it from the sizes of the images.
    if not all(isinstance(number, int) for side in sides for number in (*side[:3], *side[4:])):
        return None
    rows, columns = sides
    # The kernel library has no negative padding.
    if rows[2] < 0 or columns[2] < 0 or not before.sizes[3].is_constant:
        return None
    height, width, channels = map(plain, before.sizes[1:])
    made_height, made_width = map(plain, after.sizes[1:3])
    return (
        height, width, channels, made_height, made_width, rows[0], columns[0], rows[1], columns[1], rows[4], columns[4],
        rows[2], columns[2],
    )  # fmt: skip


# kMostFewFilters, kMostTaps and kMostInterleaved of tfaot_kernels/scratch.h.
FEW_FILTERS = 7
"""The most filters of a convolution whose windows the kernel library may compute side by side."""
MOST_TAPS = 64
_MOST_INTERLEAVED = 8
_HALF_A_PANEL = 8


@dataclass(frozen=True, slots=True)
class Phase:
    """The pixels `number`, `number` + stride ... along an axis use the filters' elements `first`, `first` + stride ...

    `taps` is how many, and `padding` the zeros before the image that they cover.
    """

    first: int
    taps: int
    padding: int


def is_woven(before: Shape, after: Shape, sides: Sequence[Sequence[Any]]) -> bool:
    found = phases(sides)
    if found is None or any(size.grows for size in (*before.sizes[1:], *after.sizes[1:])):
        return False
    return all(places(size, len(each)) is not None for size, each in zip(after.sizes[1:3], found, strict=True))


def phases(sides: Sequence[Sequence[Any]]) -> list[list[Phase]] | None:
    """The phases of each axis; None if one has no elements of the filter, or begins inside the image."""
    found: list[list[Phase]] = []
    for size, stride, low, _, dilation, base in sides:
        if not all(isinstance(number, int) for number in (size, low)) or stride != 1 or dilation != 1:
            return None
        # The image is dilated by zeros, so only every `base`-th element of the filter multiplies an element of it.
        firsts = [(low - number) % base for number in range(base)]
        made = [
            Phase(first, -(-(size - first) // base), (low - number - first) // base)
            for number, first in enumerate(firsts)
        ]
        if any(phase.taps < 1 or phase.padding < 0 for phase in made):
            return None
        found.append(made)
    return found


def places(size: Size, phases: int) -> Size | None:
    """The number of pixels per phase, so that together they are at least `size`; None if symbols decide it."""
    # The constant is rounded up to a multiple of the phases; coefficients of symbols must be multiples already.
    return (size + Size(-dict(size.terms).get((), 0) % phases)).divided(phases)


def is_placed(filters: Sequence[int], groups: int, strides: tuple[int, int]) -> bool:
    """Whether the kernel library's `transposedConv2d` computes a transposed convolution: lanes of vectors are pixels.

    `filters` has the sizes of the filters, HWIO. Phases with as many taps each can be filters of one plain
    convolution: then they must be few together.
    """
    height, width, _, count = filters
    (down, right), are_alike = strides, height % strides[0] == width % strides[1] == 0
    if groups != 1 or count > FEW_FILTERS or count * right > _MOST_INTERLEAVED or height * width > MOST_TAPS:
        return False
    return not are_alike or ((height, width) != strides and count * down * right <= _HALF_A_PANEL)
