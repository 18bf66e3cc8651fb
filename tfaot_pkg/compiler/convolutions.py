"""Convolutions that the kernel library computes, found in a program.

A transposed convolution is several plain ones. Places of its output that are `stride` apart see the same elements of
the filters, so each phase is a convolution of its own, and the phases are woven into one image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.compiler.look import Look
from tfaot_pkg.compiler.program import Operation, Shape, Size


def conv2d(look: Look, operation: Operation) -> Operation | None:
    """A convolution over two axes with constant filters, channels last."""
    if operation.opcode != "convolution" or operation.attributes["batch_groups"] != 1:
        return None
    filters, attributes = look.constant(operation.operands[1]), operation.attributes
    if filters is None or filters.ndim != 4 or filters.dtype != np.float32 or operation.shape.rank != 4:
        return None
    # NHWC; each lists batch (or filters) and features before the two axes of the image.
    if (attributes["input"], attributes["output"]) != ((0, 3, 1, 2), (0, 3, 1, 2)):
        return None
    before, sides = look.known[operation.operands[0]].shape, attributes["window"]
    made = {"groups": attributes["feature_groups"], "activation": "none"}
    window = window_of(before, operation.shape, sides)
    if window is not None:
        operation = replace(operation, opcode="conv2d", attributes={**made, "window": window})
    elif attributes["feature_groups"] == 1 and _phases(before, operation.shape, sides) is not None:
        operation = replace(operation, opcode="transposed_conv2d", attributes={**made, "sides": sides})
    else:
        return None
    out, into, down, right = attributes["kernel"]
    if (out, into, down, right) != (3, 2, 0, 1):
        ordered = look.add_constant(np.ascontiguousarray(filters.transpose(down, right, into, out)), operation)
        operation = replace(operation, operands=(operation.operands[0], ordered))
    return operation


Window = tuple[int | Size, ...]
"""The kernel library's Window, in its order; sizes of the images may hold symbols."""


def window_of(before: Shape, after: Shape, sides: Sequence[Sequence[Any]]) -> Window | None:
    """None if an axis grows with the batch, the base is dilated, or padding depends on a symbol."""
    images = (*before.sizes[1:], *after.sizes[1:])
    if any(size.grows for size in images) or any(side[5] != 1 for side in sides):
        return None
    # Padding behind, which follows from the sizes of the images, may hold symbols.
    if not all(isinstance(number, int) for side in sides for number in (*side[:3], *side[4:])):
        return None
    rows, columns = sides
    if rows[2] < 0 or columns[2] < 0 or not before.sizes[3].is_constant:
        return None
    height, width, channels = (size.constant if size.is_constant else size for size in before.sizes[1:])
    made_height, made_width = (size.constant if size.is_constant else size for size in after.sizes[1:3])
    return (
        height, width, channels, made_height, made_width, rows[0], columns[0], rows[1], columns[1], rows[4], columns[4],
        rows[2], columns[2],
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Phase:
    """Of the places `number`, `number` + stride ... of an axis: the filters' elements from `first` on, and padding."""

    first: int
    taps: int
    padding: int


def _phases(before: Shape, after: Shape, sides: Sequence[Sequence[Any]]) -> list[list[_Phase]] | None:
    """The phases of both axes; None if one sees nothing, or begins inside of the image."""
    if not _are_constant(before, after):
        return None
    found = []
    for (size, stride, low, _, dilation, base), made in zip(sides, after.sizes[1:3], strict=True):
        if stride != 1 or dilation != 1 or made.constant % base:
            return None
        firsts = [(low - number) % base for number in range(base)]
        phases = [
            _Phase(first, -(-(size - first) // base), (low - number - first) // base)
            for number, first in enumerate(firsts)
        ]
        if any(phase.taps < 1 or phase.padding < 0 for phase in phases):
            return None
        found.append(phases)
    return found


def _are_constant(*images: Shape) -> bool:
    return all(size.is_constant for image in images for size in image.sizes[1:])


def woven(look: Look, operation: Operation) -> Operation | None:
    """A transposed convolution as plain ones."""
    if operation.opcode != "transposed_conv2d":
        return None
    before, sides = look.known[operation.operands[0]].shape, operation.attributes["sides"]
    phases, filters = _phases(before, operation.shape, sides), look.constant(operation.operands[1])
    if phases is None or filters is None:
        raise AssertionError("what `conv2d` made has phases and constant filters")
    rows, columns = len(phases[0]), len(phases[1])
    batch, height, width, channels = operation.shape.sizes
    small = (batch, Size(height.constant // rows), Size(width.constant // columns))
    parts: dict[tuple[_Phase, ...], list[Array]] = {}
    same = all(len({(phase.taps, phase.padding) for phase in each}) == 1 for each in phases)
    for down, right in product(*phases):
        part = filters[down.first :: rows, right.first :: columns]
        # Phases that see the same part of the image are one convolution, of more filters.
        parts.setdefault((phases[0][0], phases[1][0]) if same else (down, right), []).append(part)
    images = [_convolved(look, operation, seen, kernels, small) for seen, kernels in parts.items()]
    image = images[0]
    if len(images) > 1:
        of_all = (*small, Size(rows * columns * channels.constant))
        image = _added(look, operation, "concatenate", of_all, *images, dimensions=(3,))
    by_phase = (*small, Size(rows), Size(columns), channels)
    image = _added(look, operation, "reshape", by_phase, image)
    in_place = (batch, small[1], Size(rows), small[2], Size(columns), channels)
    image = _added(look, operation, "transpose", in_place, image, dimensions=(0, 1, 3, 2, 4, 5))
    return Operation(id=operation.id, opcode="reshape", type=operation.type, operands=(image.id,), node=operation.node)


def _convolved(
    look: Look, whole: Operation, seen: tuple[_Phase, ...], kernels: Sequence[Array], sizes: tuple[Size, ...]
) -> Operation:
    """What phases that see the same give, side by side."""
    kernel = np.ascontiguousarray(np.concatenate(kernels, axis=3))
    made = Shape("f32", (*sizes, Size(kernel.shape[3])))
    operands = [whole.operands[0], look.add_constant(kernel, whole)]
    bias = look.constant(whole.operands[2]) if len(whole.operands) > 2 else None
    if bias is not None:
        operands.append(look.add_constant(np.tile(bias, len(kernels)), whole))
    sides = [(phase.taps, 1, phase.padding, 0, 1, 1) for phase in seen]
    attributes = {
        "window": window_of(look.known[whole.operands[0]].shape, made, sides), "groups": 1,
        "activation": whole.attributes["activation"],
    }  # fmt: skip
    return look.add(
        replace(whole, id=look.fresh(), opcode="conv2d", type=made, operands=tuple(operands), attributes=attributes)
    )


def _added(
    look: Look, like: Operation, opcode: str, sizes: tuple[Size, ...], *operands: Operation, **attributes: Any
) -> Operation:
    ids = tuple(each.id for each in operands)
    made = Operation(
        id=look.fresh(), opcode=opcode, type=Shape("f32", sizes), operands=ids, attributes=attributes, node=like.node
    )
    return look.add(made)
