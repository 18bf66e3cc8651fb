"""Calls of the kernel library for layers of bfloat16 (bfloat16.h of the kernels)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler import bfloat16
from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Conv2d, Layer, adds, parts_of
from tfaot_pkg.compiler.elements import Place
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import literal
from tfaot_pkg.compiler.instructions import Struct, Written
from tfaot_pkg.compiler.layers import PANEL, Numbers, bias_of_layer, has_one_pixel, inputs_of, named, reach
from tfaot_pkg.compiler.pieces import Piece
from tfaot_pkg.compiler.program import Operation, Shape, Size
from tfaot_pkg.compiler.sharing import team_of

# kBfloat16Rows and the bytes of bandOfBfloat16 of tfaot_kernels/scratch.h. A static_assert in generated code compares
# the results of both.
_ROWS, _BYTES_OF_BAND = 32, 65536


def bfloat16_dense(emitter: Emitter, operation: Operation) -> str:
    inputs, rows = inputs_of(emitter, operation), Shape("f32", operation.shape.sizes[:-1]).elements
    parts, weights = parts_of(operation), literal(emitter.known[operation.operands[1]]).reshape(inputs, -1)
    check = f"bfloat16DenseScratch({inputs}, {parts})"
    return _call(emitter, operation, "bfloat16Dense", "", weights, rows, words_of_rows(inputs, parts), check)


def bfloat16_conv2d(emitter: Emitter, operation: Operation) -> str:
    window, filters = Conv2d.of(operation).window, literal(emitter.known[operation.operands[1]])
    if has_one_pixel(window, emitter.known[operation.operands[1]].shape):
        return bfloat16_dense(emitter, operation)
    known = {name: as_size(number).constant for name, number in named(window).items()}
    text, parts = f"{{{', '.join(map(str, known.values()))}}}", parts_of(operation)
    read = bfloat16.windows_of([*known.values()])
    weights = read.filled(filters, 2).reshape(-1, filters.shape[3])
    emitter.remark(f"static_assert(blockOfBfloat16({text}) == {read.block});")
    emitter.remark(f"static_assert(channelsOfBfloat16({text}) == {read.channels});")
    needed = parts * -(-_band({**known, "channels": read.channels}) // (2 * PANEL)) * PANEL
    needed += words_of_rows(len(weights), parts)
    check, batch = f"bfloat16Conv2dScratch({text}, {parts})", operation.shape.sizes[0]
    return _call(emitter, operation, "bfloat16Conv2d", text, weights, batch, needed, check, read.block)


def words_of_rows(inputs: int, parts: int) -> int:
    """The words of bfloat16DenseScratch."""
    return _ROWS * bfloat16.BLOCK * (-(-inputs // bfloat16.BLOCK) * parts | 1)


def _band(conv: Numbers) -> int:
    """The bytes of bandOfBfloat16."""
    tiles = -(-conv["out_width"] // PANEL)
    columns = reach(conv, "width", tiles * -(-conv["out_width"] // tiles))
    lines, size = reach(conv, "height", 1), columns * conv["channels"] * 2
    most = _BYTES_OF_BAND // size
    fitting = (most - lines) // conv["stride_height"] + 1 if most > lines else 1
    return reach(conv, "height", min(max(fitting, 2 * lines), conv["out_height"])) * size


def _call(
    emitter: Emitter,
    operation: Operation,
    function: str,
    window: str,
    weights: NDArray[np.generic],
    batch: Size,
    needed: int,
    check: str,
    block: int = bfloat16.BLOCK,
) -> str:
    """A call of `function`, with `needed` words of memory, which C++ compares with `check`.

    `weights`: (inputs, outputs).
    """
    emitter.uses_tiles = True
    (inputs, outputs), source = weights.shape, emitter.stored(operation.operands[0])
    parts, beside = parts_of(operation), [emitter.stored(operation.operands[-1])] if adds(operation) else []
    packed = emitter.constants.place(bfloat16.packed(weights, block, parts))
    bias = bias_of_layer(emitter, operation, outputs, behind=adds(operation))
    target, work = emitter.target(operation), emitter.buffer("u32", Size(needed))
    for pointer in (source, *beside):
        emitter.touch(pointer)
    # Computed here and in C++, so that code with too little memory does not compile.
    emitter.remark(f"static_assert({check} <= {needed});")
    activation = f"Activation::{Layer.of(operation).activation}"
    types = [emitter.known[each].shape.dtype for each in (operation.operands[0], operation.id)]
    forms: list[Piece] = [str(each == bfloat16.STORED).lower() for each in types]
    forms += [Place(each, elements=operation.shape.elements) for each in beside]
    if not beside and bfloat16.STORED not in types:
        forms = []
    product = Struct((Size(inputs), Size(outputs), packed, bias, activation, Size(parts), *forms))
    layer = Struct((window, product)) if window else product
    read = Place(source, elements=emitter.known[operation.operands[0]].shape.elements)
    written, room = Place(target, elements=operation.shape.elements), Place(work, elements=Size(needed))
    team = team_of(emitter, operation, needed)
    emitter.call(function, team, "dispatch", layer, batch, read, Written(written), Written(room))
    is_near = types[1] == bfloat16.STORED and Layer.of(operation).activation == "gelu_erf"  # in the layer's last step
    emitter.reached[f"activating({'Activation::none' if is_near else activation})"] = None
    for pointer in (source, *beside, target, work):
        emitter.touch(pointer)
    return target
