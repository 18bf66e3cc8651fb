"""Transposed convolutions as plain ones, one for each phase."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from tfaot_pkg.compiler.affine import plain
from tfaot_pkg.compiler.attributes import Conv2d, Dimensions, Layer, Slices, TransposedConv2d
from tfaot_pkg.compiler.image_windows import Phase, phases, places, window_of
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, Attributes, Operation, Shape, Size
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array


def woven(look: Look, operation: Operation) -> Operation | None:
    """A transposed convolution as plain ones."""
    if operation.opcode != "transposed_conv2d":
        return None
    found, filters = phases(TransposedConv2d.of(operation).sides), look.constant(operation.operands[1])
    if found is None or filters is None:
        raise AssertionError("what `conv2d` made has phases and constant filters")
    rows, columns = len(found[0]), len(found[1])
    batch, height, width, channels = operation.shape.sizes
    down, right = places(height, rows), places(width, columns)
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
