"""Finds convolutions that the kernel library can compute.

A transposed convolution becomes several plain ones. Pixels of its output that are `stride` apart use the same elements
of the filters, so each phase is a convolution of its own, and the phases are interleaved into one image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.affine import as_size, plain
from tfaot_pkg.compiler.attributes import Conv2d, Convolution, Dimensions, Layer, Pad, Slices, TransposedConv2d
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, Attributes, Operation, Shape, Size
from tfaot_pkg.compiler.use_def import Look


def conv2d(look: Look, operation: Operation) -> Operation | None:
    """A convolution over two axes with constant filters, channels last."""
    if operation.opcode != "convolution" or Convolution.of(operation).batch_groups != 1:
        return None
    filters, attributes = look.constant(operation.operands[1]), Convolution.of(operation)
    if filters is None or filters.ndim != 4 or filters.dtype != np.float32 or operation.shape.rank != 4:
        return None
    # NHWC; each lists batch (or filters) and features before the two axes of the image.
    if (attributes.input, attributes.output) != ((0, 3, 1, 2), (0, 3, 1, 2)):
        return None
    before, sides = look.known[operation.operands[0]].shape, attributes.window
    groups = attributes.feature_groups
    window = window_of(before, operation.shape, sides)
    if window is not None:
        operation = replace(operation, opcode="conv2d", attributes=Conv2d(window=window, groups=groups))
    elif groups == 1 and _is_woven(before, operation.shape, sides):
        operation = replace(
            operation, opcode="transposed_conv2d", attributes=TransposedConv2d(sides=sides, groups=groups)
        )
    else:
        return None
    out, into, down, right = attributes.kernel
    if (out, into, down, right) != (3, 2, 0, 1):
        ordered = look.add_constant(np.ascontiguousarray(filters.transpose(down, right, into, out)), operation)
        operation = replace(operation, operands=(operation.operands[0], ordered))
    return operation


def cut(look: Look, operation: Operation) -> Operation | None:
    """A slice of a convolution becomes a smaller convolution: exporters crop transposed convolutions."""
    made = look.made_by(operation.operands[0], "convolution", once=True) if operation.opcode == "slice" else None
    if made is None:
        return None
    slices, laid, sides = Slices.of(operation).slices, Convolution.of(made).output, list(Convolution.of(made).window)
    for axis in range(operation.shape.rank):
        begin, end, step = slices[axis]
        length = made.shape.sizes[axis]
        if (begin, as_size(end), step) == (0, length, 1):
            continue
        if axis in laid[:2] or step != 1:
            return None
        place = laid.index(axis) - 2
        size, stride, low, high, dilation, base = sides[place]
        lost = as_size(end) + Size(-1) * length
        # With less padding than the dilation adds, the crop would remove an element of the image, not only zeros.
        if not isinstance(begin, int) or not isinstance(low, int) or stride != 1 or low - begin < base - 1:
            return None
        sides[place] = (size, stride, low - begin, plain(as_size(high) + lost), dilation, base)
    attributes = replace(Convolution.of(made), window=tuple(sides))
    return replace(made, id=operation.id, type=operation.type, attributes=attributes)


def padded(look: Look, operation: Operation) -> Operation | None:
    """Zeros around an image, as exporters of PyTorch write them, become padding of the depthwise convolution behind it.

    Only these copy no image between zeros: a network of inverted residuals takes 0.94 of its time (AVX-512), but one of
    other convolutions 1.01.
    """
    if operation.opcode != "convolution" or Convolution.of(operation).feature_groups == 1:
        return None
    made = look.made_by(operation.operands[0], "pad", once=True)
    zero = None if made is None else look.scalar(made.operands[1])
    if made is None or zero != 0 or math.copysign(1, zero) < 0:
        return None
    laid, sides = Convolution.of(operation).input, list(Convolution.of(operation).window)
    for axis, (low, high, inner) in enumerate(Pad.of(made).padding):
        if (low, high, inner) == (0, 0, 0):
            continue
        if axis in laid[:2] or inner or not isinstance(low, int) or not isinstance(high, int) or min(low, high) < 0:
            return None
        place = laid.index(axis) - 2
        size, stride, before, after, dilation, base = sides[place]
        # The zeros between the elements of a dilated image do not continue in its padding.
        if base != 1 or not isinstance(before, int):
            return None
        sides[place] = (size, stride, before + low, plain(as_size(after) + Size(high)), dilation, base)
    attributes = replace(Convolution.of(operation), window=tuple(sides))
    return replace(operation, operands=(made.operands[0], *operation.operands[1:]), attributes=attributes)


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


@dataclass(frozen=True, slots=True)
class Phase:
    """The pixels `number`, `number` + stride ... along an axis use the filters' elements `first`, `first` + stride ...

    `taps` is how many, and `padding` the zeros before the image that they cover.
    """

    first: int
    taps: int
    padding: int


def _is_woven(before: Shape, after: Shape, sides: Sequence[Sequence[Any]]) -> bool:
    found = phases(sides)
    if found is None or any(size.grows for size in (*before.sizes[1:], *after.sizes[1:])):
        return False
    return all(_places(size, len(each)) is not None for size, each in zip(after.sizes[1:3], found, strict=True))


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


def _places(size: Size, phases: int) -> Size | None:
    """The number of pixels per phase, so that together they are at least `size`; None if symbols decide it."""
    # The constant is rounded up to a multiple of the phases; coefficients of symbols must be multiples already.
    return (size + Size(-dict(size.terms).get((), 0) % phases)).divided(phases)


def woven(look: Look, operation: Operation) -> Operation | None:
    """A transposed convolution as plain ones."""
    if operation.opcode != "transposed_conv2d":
        return None
    found, filters = phases(TransposedConv2d.of(operation).sides), look.constant(operation.operands[1])
    if found is None or filters is None:
        raise AssertionError("what `conv2d` made has phases and constant filters")
    rows, columns = len(found[0]), len(found[1])
    batch, height, width, channels = operation.shape.sizes
    down, right = _places(height, rows), _places(width, columns)
    if down is None or right is None:
        raise AssertionError("what `conv2d` made has as many places of each phase")
    small = (batch, down, right)
    parts: dict[tuple[Phase, ...], list[Array]] = {}
    same = all(len({(phase.taps, phase.padding) for phase in each}) == 1 for each in found)
    for above, beside in product(*found):
        part = filters[above.first :: rows, beside.first :: columns]
        # Phases that read the same windows of the image are one convolution with more filters.
        parts.setdefault((found[0][0], found[1][0]) if same else (above, beside), []).append(part)
    images = [_convolved(look, operation, seen, kernels, small) for seen, kernels in parts.items()]
    image = images[0]
    if len(images) > 1:
        of_all = (*small, Size(rows * columns * channels.constant))
        image = _added(look, operation, "concatenate", of_all, *images, attributes=Dimensions(dimensions=(3,)))
    by_phase = (*small, Size(rows), Size(columns), channels)
    image = _added(look, operation, "reshape", by_phase, image)
    in_place = (batch, down, Size(rows), right, Size(columns), channels)
    image = _added(look, operation, "transpose", in_place, image, attributes=Dimensions(dimensions=(0, 1, 3, 2, 4, 5)))
    whole = (batch, down * Size(rows), right * Size(columns), channels)
    last = Operation(id=operation.id, opcode="reshape", type=operation.type, operands=(image.id,), node=operation.node)
    if whole == operation.shape.sizes:
        return last
    # Some phases have one pixel less: it was computed, and is dropped.
    slices = tuple((0, plain(size), 1) for size in operation.shape.sizes)
    image = _added(look, operation, "reshape", whole, image)
    return replace(last, opcode="slice", operands=(image.id,), attributes=Slices(slices=slices))


def _convolved(
    look: Look, whole: Operation, seen: tuple[Phase, ...], kernels: Sequence[Array], sizes: tuple[Size, ...]
) -> Operation:
    """The results of phases that read the same windows, side by side as channels."""
    kernel = np.ascontiguousarray(np.concatenate(kernels, axis=3))
    made = Shape("f32", (*sizes, Size(kernel.shape[3])))
    operands = [whole.operands[0], look.add_constant(kernel, whole)]
    bias = look.constant(whole.operands[2]) if len(whole.operands) > 2 else None
    if bias is not None:
        operands.append(look.add_constant(np.tile(bias, len(kernels)), whole))
    sides = [(phase.taps, 1, phase.padding, 0, 1, 1) for phase in seen]
    window = window_of(look.known[whole.operands[0]].shape, made, sides)
    if window is None:
        raise AssertionError("what `conv2d` made has phases that are windows of the kernel library")
    attributes = Conv2d(window=window, groups=1, activation=Layer.of(whole).activation)
    return look.add(
        replace(whole, id=look.fresh(), opcode="conv2d", type=made, operands=tuple(operands), attributes=attributes)
    )


def _added(
    look: Look,
    like: Operation,
    opcode: str,
    sizes: tuple[Size, ...],
    *operands: Operation,
    attributes: Attributes = NO_ATTRIBUTES,
) -> Operation:
    ids = tuple(each.id for each in operands)
    made = Operation(
        id=look.fresh(), opcode=opcode, type=Shape("f32", sizes), operands=ids, attributes=attributes, node=like.node
    )
    return look.add(made)
