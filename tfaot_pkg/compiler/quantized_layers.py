"""Calls of the kernel library for layers of bytes, and the packing of their weights (quantized.h of the kernels)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler.affine import as_size
from tfaot_pkg.compiler.attributes import Quantized, QuantizedConv2d
from tfaot_pkg.compiler.elements import Place
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import literal
from tfaot_pkg.compiler.instructions import Struct, Written
from tfaot_pkg.compiler.layers import PANEL, Numbers, has_one_pixel, inputs_of, named, reach, windows_of
from tfaot_pkg.compiler.pieces import text_of
from tfaot_pkg.compiler.program import NUMPY_TYPES, Operation, Shape, Size
from tfaot_pkg.compiler.residuals import affine_form
from tfaot_pkg.compiler.sharing import team_of
from tfaot_pkg.compiler.short_sums import fast_steps_of
from tfaot_pkg.ground.arrays import Array

# Of tfaot_kernels/scratch.h: kTileFours, kRowsOfTwoTiles, the bytes of copied rows and their pairs of tiles, the bytes
# of bands, kStepOrders and kCopied. A static_assert in generated code compares the results of both.
_TILE_FOURS, _ROWS_OF_TWO_TILES, _BYTES_OF_ROWS, _MOST_PAIRS = 16, 32, 16384, 4
_BYTES_OF_BAND, _ORDERS, _COPIED = 32768, 3, 16


def packed_quantized(
    weights: NDArray[np.int8], bias: NDArray[np.int32], scales: NDArray[np.float32] | None, inputs: np.dtype[Any]
) -> list[Array]:
    """Weights (inputs, outputs), packed in the order (panels, fours of inputs, PANEL, 4), bias, and any scales.

    They have zeros after the last column, and behind the last panel if tiles (QuantizedDense in kernels.h) reach beyond
    it. The kernel library computes with `inputs` of int8 plus 128.
    """
    rows, columns = weights.shape
    panels, fours = -(-columns // PANEL), -(-rows // 4)
    padded = np.zeros((4 * fours, panels * PANEL), np.int8)
    padded[:rows, :columns] = weights
    packed = padded.reshape(fours, 4, panels, PANEL).transpose(2, 0, 3, 1).ravel()
    if fours > _TILE_FOURS:
        packed = np.pad(packed, (0, -fours % _TILE_FOURS * PANEL * 4))
    sums = bias.astype(np.int64) - (128 * weights.sum(0, np.int64) if inputs == np.int8 else 0)
    made = [packed, np.pad(sums.astype(np.int32), (0, panels * PANEL - columns))]
    return made if scales is None else [*made, np.pad(scales, (0, panels * PANEL - columns))]


def packed_groups(
    filters: NDArray[np.int8], groups: int, bias: NDArray[np.int32], scales: NDArray[np.float32] | None,
    inputs: np.dtype[Any],
) -> list[Array]:  # fmt: skip
    """Filters of [height, width, channels of a group, outputs], packed for each group, one after the other."""
    columns, sizes = np.split(filters.reshape(-1, filters.shape[-1]), groups, 1), np.split(bias, groups)
    factors = [None] * groups if scales is None else np.split(scales, groups)
    packed = [packed_quantized(*each, inputs) for each in zip(columns, sizes, factors, strict=True)]
    return [np.concatenate(parts) for parts in zip(*packed, strict=True)]


def packed_depthwise(
    filters: NDArray[np.int8], bias: NDArray[np.int32], scales: NDArray[np.float32] | None, inputs: np.dtype[Any]
) -> list[Array]:
    """Filters of [height, width, 1, channels], packed in the order (lines, fours of taps, channels, 4)."""
    height, width, _, channels = filters.shape
    behind = -channels % PANEL
    padded = np.pad(filters[:, :, 0], ((0, 0), (0, -width % 4), (0, behind)))
    packed = padded.reshape(height, -1, 4, channels + behind).transpose(0, 1, 3, 2).ravel()
    sums = bias.astype(np.int64) - (128 * filters.sum((0, 1, 2), np.int64) if inputs == np.int8 else 0)
    made: list[Array] = [packed, np.pad(sums.astype(np.int32), (0, behind))]
    return made if scales is None else [*made, np.pad(scales, (0, behind))]


def quantized_dense(emitter: Emitter, operation: Operation) -> str:
    inputs, rows = inputs_of(emitter, operation), Shape("s32", operation.shape.sizes[:-1]).elements
    needed = _quantized_scratch(inputs)
    emitter.remark(f"static_assert(quantizedDenseScratch({inputs}) <= {needed});")
    return _quantized_call(emitter, operation, "quantizedDense", _quantized(emitter, operation), rows, needed)


def look_up(emitter: Emitter, operation: Operation) -> str:
    source, target = emitter.stored(operation.operands[0]), emitter.target(operation)
    emitter.touch(source)
    table = emitter.constants.place(literal(emitter.known[operation.operands[1]]).view(np.uint8))
    elements = operation.shape.elements
    read, written = Place(source, elements=elements), Place(target, elements=elements)
    emitter.call("lookUp", table, elements, read, Written(written))
    emitter.touch(target)
    return target


def _quantized_scratch(inputs: int) -> int:
    """quantizedDenseScratch: words."""
    words = (-(-inputs // (4 * _TILE_FOURS)) | 1) * _TILE_FOURS
    pairs = min(max(_BYTES_OF_ROWS // (_ROWS_OF_TWO_TILES * 4 * words), 1), _MOST_PAIRS)
    return pairs * _ROWS_OF_TWO_TILES * words


def quantized_conv2d(emitter: Emitter, operation: Operation) -> str:
    given, inputs = QuantizedConv2d.of(operation), inputs_of(emitter, operation)
    filters = emitter.known[operation.operands[1]].shape
    if given.groups == 1 and has_one_pixel(given.window, filters):
        return quantized_dense(emitter, operation)
    window = Struct(tuple(map(as_size, given.window)))
    layer = Struct((window, _quantized(emitter, operation), Size(given.padding % 256)))
    if given.groups > 1:
        return _in_groups(emitter, operation, window, layer)
    bands = [_of_bands(named(each), inputs) for each in windows_of(emitter, given.window)]
    copied = _quantized_scratch(inputs + _COPIED) + -(-(inputs + _COPIED) // 4)
    needed = max(copied + max(_words_of_lines(named(each)) for each in windows_of(emitter, given.window)), *bands)
    if all(isinstance(number, int) for number in given.window):
        emitter.remark(f"static_assert(quantizedConv2dScratch({text_of(window.pieces)}, {inputs}) <= {needed});")
    return _quantized_call(emitter, operation, "quantizedConv2d", layer, operation.shape.sizes[0], needed)


def _in_groups(emitter: Emitter, operation: Operation, window: Struct, layer: Struct) -> str:
    given, inputs, batch = QuantizedConv2d.of(operation), inputs_of(emitter, operation), operation.shape.sizes[0]
    if not _is_depthwise(emitter, operation):
        bands = [_band_of_bytes(named(each)) for each in windows_of(emitter, given.window)]
        needed = max(_quantized_scratch(inputs) + -(-inputs // 4), *(-(-each // 4) for each in bands))
        if all(isinstance(number, int) for number in given.window):
            check = f"quantizedGroupsScratch({text_of(window.pieces)}, {inputs})"
            emitter.remark(f"static_assert({check} <= {needed});")
        of_groups = Struct((layer, Size(given.groups)))
        return _quantized_call(emitter, operation, "quantizedGroups", of_groups, batch, needed)
    needed = max(_depthwise_scratch(named(each)) for each in windows_of(emitter, given.window))
    if all(isinstance(number, int) for number in given.window):
        emitter.remark(f"static_assert(quantizedDepthwiseScratch({text_of(window.pieces)}) <= {needed});")
    return _quantized_call(emitter, operation, "quantizedDepthwise", layer, batch, needed)


def _is_depthwise(emitter: Emitter, operation: Operation) -> bool:
    *_, depth, outputs = emitter.known[operation.operands[1]].shape.sizes
    return depth.constant == 1 and outputs.constant == QuantizedConv2d.of(operation).groups


def _depthwise_scratch(conv: Numbers) -> int:
    """quantizedDepthwiseScratch: words."""
    fours = -(-conv["width"] // 4)
    columns = (conv["out_width"] - 1) * conv["stride_width"] + (fours - 1) * 4 * conv["dilation_width"] + 1
    return conv["height"] * fours + reach(conv, "height", 1) * columns * PANEL


def _of_bands(conv: Numbers, inputs: int) -> int:
    """Words of the lines that are copied at a time, for tiles or for steps, whether or not they are."""
    ordered = -(-_band_of_steps(conv) // (4 * _TILE_FOURS)) * _TILE_FOURS + -(-inputs // 4)
    return max(-(-_band_of_bytes(conv) // 4), _ORDERS * ordered)


def _words_of_lines(conv: Numbers) -> int:
    """wordsOfLines: words of the lines that windows are copied from."""
    return -(-(_band_of_bytes(conv) + _COPIED) // (4 * _TILE_FOURS)) * _TILE_FOURS


def _band_of_bytes(conv: Numbers) -> int:
    """bandOfBytes: the bytes of the lines that are copied at a time for tiles."""
    tiles = -(-conv["out_width"] // _TILE_FOURS)
    return _band(conv, tiles * -(-conv["out_width"] // tiles), _BYTES_OF_BAND)


def _band_of_steps(conv: Numbers) -> int:
    """BandOfSteps: the bytes of the lines that are copied at a time for steps, in one order."""
    return _band(conv, conv["out_width"], _BYTES_OF_BAND // _ORDERS)


def _band(conv: Numbers, windows: int, most: int) -> int:
    """About `most` bytes of lines that have so many windows."""
    lines, size = reach(conv, "height", 1), reach(conv, "width", windows) * conv["channels"]
    fitting = (most // size - lines) // conv["stride_height"] + 1 if most // size > lines else 1
    return reach(conv, "height", min(fitting, conv["out_height"])) * size


def _quantized_call(
    emitter: Emitter, operation: Operation, function: str, layer: Struct, batch: Size, needed: int
) -> str:
    """A call of `function`, with `needed` words of memory."""
    emitter.uses_tiles = True
    source = emitter.stored(operation.operands[0])
    target, work = emitter.target(operation), emitter.buffer("u32", Size(needed))
    emitter.touch(source)
    read = Place(source, elements=emitter.known[operation.operands[0]].shape.elements)
    written, room = Place(target, elements=operation.shape.elements), Place(work, elements=Size(needed))
    # Groups and channels of their own are left to the calling thread.
    team = [team_of(emitter, operation, needed)] if function in ("quantizedConv2d", "quantizedDense") else []
    emitter.call(function, *team, layer, batch, read, Written(written), Written(room))
    added = [emitter.stored(each) for each in operation.operands[4:5]]
    for pointer in (source, *added, target, work):
        emitter.touch(pointer)
    return target


def _residual(emitter: Emitter, operation: Operation, values: int, factors: int) -> Struct:
    """A Residual (kernels.h)."""
    given, numbers, shape = Quantized.of(operation), literal(emitter.known[factors]), emitter.known[values].shape
    zero_of_added, *ends = map(Size, given.residual)
    affine = affine_form(given, shape.dtype, numbers) or (0.0, 0.0, 0.0)
    place = Place(emitter.stored(values), elements=shape.elements)
    mask = Size(255 if shape.dtype == "u8" else -1)
    return Struct((place, mask, zero_of_added, *(f"{float(each).hex()}f" for each in (*numbers, *affine)), *ends))


def _quantized(emitter: Emitter, operation: Operation) -> Struct:
    """A QuantizedDense (kernels.h)."""
    inputs = inputs_of(emitter, operation)
    given, kept = Quantized.of(operation), [literal(emitter.known[each]) for each in operation.operands[1:4]]
    dtype = NUMPY_TYPES[emitter.known[operation.operands[0]].shape.dtype]
    weights, bias, *scales = kept
    factors, groups = scales[0] if scales else None, given.groups if isinstance(given, QuantizedConv2d) else 1
    steps: tuple[Place, ...] = ()
    if groups == 1:
        arrays = packed_quantized(weights.reshape(inputs, -1), bias, factors, dtype)
        found = fast_steps_of(weights.reshape(inputs, -1))
        lists: tuple[Array, ...] = () if found is None else (found.begins, found.weights, found.words)
        steps = tuple(emitter.constants.place(each) for each in lists)
    elif _is_depthwise(emitter, operation):
        arrays = packed_depthwise(weights, bias, factors, dtype)
    else:
        arrays = packed_groups(weights, groups, bias, factors, dtype)
    packed = (*map(emitter.constants.place, arrays), *(() if scales else ("nullptr",)))
    flip = 0x80 if dtype == np.int8 else 0
    outputs = operation.shape.sizes[-1].constant
    numbers = (Size(int(each)) for each in (given.zero, given.low, given.high, flip))
    added = [_residual(emitter, operation, *operation.operands[4:])] if given.residual else []
    return Struct((Size(inputs), Size(outputs), *packed, *numbers, Struct(steps), *added))
