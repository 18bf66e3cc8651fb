"""Products of bytes with constant weights of int8, and what makes bytes of their sums.

The zero point of the input is known, so that its products with the weights become part of the bias. Sums are those of
int32, modulo 2^32, in the program as in the kernel library.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.attributes import Convolution, Dimensions, Dot, Quantized, QuantizedConv2d
from tfaot_pkg.compiler.image_windows import window_of
from tfaot_pkg.compiler.layer_types import BYTES
from tfaot_pkg.compiler.program import NO_ATTRIBUTES, NUMPY_TYPES, Operation, Shape, Size
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.ground.arrays import Array

LAYERS = ("quantized_conv2d", "quantized_dense")


def quantized(look: Look, operation: Operation) -> Operation | None:
    if isinstance(operation.type, tuple):
        return None
    match operation.opcode:
        case "dot":
            return _dense(look, operation)
        case "convolution":
            return _conv2d(look, operation)
        case "add":
            return _with_bias(look, operation)
        case "convert":
            return _requantized(look, operation)
    return None


def _dense(look: Look, operation: Operation) -> Operation | None:
    given, (first, second) = Dot.of(operation), operation.operands
    numbers = look.constant(second)
    if operation.shape.dtype != "s32" or numbers is None:
        return None
    left, right = given.contracting
    is_plain = numbers.ndim == 2 and len(right) == 1 and given.batch == ((), ()) and not given.order
    if not is_plain or left != (look.known[first].shape.rank - 1,):
        return None
    weights = _narrow(numbers if right == (0,) else numbers.T)
    x = None if weights is None else _centered(look, first)
    if weights is not None and x is not None:
        return _layer(look, operation, *x, weights)
    return None if weights is None else _of_rows(look, operation, first, weights)


def _layer(look: Look, operation: Operation, x: int, zero: int, weights: Array) -> Operation:
    operands = _operands(look, operation, x, zero, weights)
    return replace(operation, opcode="quantized_dense", operands=operands, attributes=Quantized())


def _of_rows(look: Look, operation: Operation, value: int, weights: Array) -> Operation | None:
    """Bytes minus a number of their row, which is computed: the sums of the bytes, minus its products with weights."""
    found = look.made_by(value, "subtract")
    bytes_ = None if found is None else look.made_by(found.operands[0], "convert")
    zero = None if found is None else look.made_by(found.operands[1], "broadcast")
    if bytes_ is None or zero is None or look.known[bytes_.operands[0]].shape.dtype not in BYTES:
        return None
    axes, last = Dimensions.of(zero).dimensions, operation.shape.rank - 1
    if last in axes:
        return None
    layer = look.add(replace(_layer(look, operation, bytes_.operands[0], 0, weights), id=look.fresh()))
    totals = look.add_constant(_wrapped(weights.sum(0, dtype=np.int64)), operation)
    pair = _spread(look, operation, zero.operands[0], axes), _spread(look, operation, totals, (last,))
    found = replace(operation, opcode="multiply", operands=pair, attributes=NO_ATTRIBUTES)
    product = look.add(replace(found, id=look.fresh()))
    return replace(found, opcode="subtract", operands=(layer.id, product.id))


def _spread(look: Look, like: Operation, value: int, axes: tuple[int, ...]) -> int:
    """`value` with the shape of `like`."""
    attributes = Dimensions(dimensions=axes)
    return look.add(replace(like, id=look.fresh(), opcode="broadcast", operands=(value,), attributes=attributes)).id


def _conv2d(look: Look, operation: Operation) -> Operation | None:
    given, (first, second) = Convolution.of(operation), operation.operands
    filters, image = _narrow(look.constant(second)), look.known[first].shape
    is_plain = given.batch_groups == 1 and operation.shape.rank == 4
    if operation.shape.dtype != "s32" or filters is None or filters.ndim != 4 or not is_plain:
        return None
    if (given.input, given.output) != ((0, 3, 1, 2), (0, 3, 1, 2)):
        return None
    window = window_of(image, operation.shape, given.window)
    if window is None:
        return None
    x = _centered(look, first)
    if x is None:
        return _conv2d_of_rows(look, operation, filters)
    bytes_, zero = x
    ends = np.iinfo(NUMPY_TYPES[look.known[bytes_].shape.dtype])
    if not ends.min <= zero <= ends.max:
        return None
    out, into, down, right = given.kernel
    operands = _operands(look, operation, bytes_, zero, filters.transpose(down, right, into, out))
    attributes = QuantizedConv2d(window=window, padding=zero, groups=given.feature_groups)
    return replace(operation, opcode="quantized_conv2d", operands=operands, attributes=attributes)


def _conv2d_of_rows(look: Look, operation: Operation, filters: Array) -> Operation | None:
    """Bytes minus a number of their row, which is computed: it pads the image, and times the sums of the filters it is
    subtracted from all sums of bytes.
    """
    given = Convolution.of(operation)
    found = _of_a_row(look, operation.operands[0])
    if found is None:
        return None
    bytes_, zero, axes = found
    for axis, (_, _, low, high, *_) in enumerate(given.window, 1):
        if not isinstance(low, int) or not isinstance(high, int) or min(low, high) < 0:
            return None
        bytes_ = _padded(look, bytes_, zero, axes, axis, (low, high))
    image = look.known[bytes_].shape
    window = window_of(image, operation.shape, [(*side[:2], 0, 0, *side[4:]) for side in given.window])
    if window is None:
        return None
    out, into, down, right = given.kernel
    weights = filters.transpose(down, right, into, out)
    attributes = QuantizedConv2d(window=window, padding=0, groups=given.feature_groups)
    operands = _operands(look, operation, bytes_, 0, weights)
    layer = replace(operation, id=look.fresh(), opcode="quantized_conv2d", operands=operands, attributes=attributes)
    totals = look.add_constant(_wrapped(weights.sum((0, 1, 2), dtype=np.int64)), operation)
    pair = _spread(look, operation, zero, axes), _spread(look, operation, totals, (operation.shape.rank - 1,))
    found_product = replace(operation, opcode="multiply", operands=pair, attributes=NO_ATTRIBUTES)
    product = look.add(replace(found_product, id=look.fresh()))
    return replace(found_product, opcode="subtract", operands=(look.add(layer).id, product.id))


def _of_a_row(look: Look, value: int) -> tuple[int, int, tuple[int, ...]] | None:
    """The bytes that `value` has as int32, minus a number of each row, or of all; this number and its axes."""
    moves: list[Operation] = []
    while (move := look.made_by(value, "reshape", "transpose", once=True)) is not None:
        is_kept = look.known[move.operands[0]].shape.sizes[:1] == move.shape.sizes[:1]
        if not is_kept or (move.opcode == "transpose" and Dimensions.of(move).dimensions[0] != 0):
            return None
        moves.append(move)
        (value,) = move.operands
    found = look.made_by(value, "subtract")
    bytes_ = None if found is None else look.made_by(found.operands[0], "convert")
    zero = None if found is None else look.made_by(found.operands[1], "broadcast")
    if bytes_ is None or zero is None or look.known[bytes_.operands[0]].shape.dtype not in BYTES:
        return None
    axes = Dimensions.of(zero).dimensions
    return (_again(look, moves, bytes_.operands[0]), zero.operands[0], axes) if axes in ((), (0,)) else None


def _padded(
    look: Look, bytes_: int, zero: int, axes: tuple[int, ...], axis: int, many: tuple[int, int]
) -> int:  # fmt: skip
    """An image with so many elements of the numbers `zero` before and behind those along an axis."""
    image = look.known[bytes_]
    parts: list[int] = []
    for place, count in enumerate(many):
        if place == 1:
            parts.append(bytes_)
        if count:
            sizes = (*image.shape.sizes[:axis], Size(count), *image.shape.sizes[axis + 1 :])
            like = replace(image, type=Shape("s32", sizes), attributes=NO_ATTRIBUTES, regions=())
            strip = look.known[_spread(look, like, zero, axes)]
            narrow = replace(strip, id=look.fresh(), opcode="convert", operands=(strip.id,), attributes=NO_ATTRIBUTES)
            parts.append(look.add(replace(narrow, type=Shape(image.shape.dtype, sizes))).id)
    if len(parts) == 1:
        return bytes_
    size = image.shape.sizes[axis] + Size(sum(many))
    shape = Shape(image.shape.dtype, (*image.shape.sizes[:axis], size, *image.shape.sizes[axis + 1 :]))
    joined = replace(image, id=look.fresh(), opcode="concatenate", type=shape, operands=tuple(parts), regions=())
    return look.add(replace(joined, attributes=Dimensions(dimensions=(axis,)))).id


def _operands(look: Look, operation: Operation, x: int, zero: int, weights: Array) -> tuple[int, ...]:
    """`x` minus `zero` times weights: `x`, the weights and a bias."""
    bias = _wrapped(-zero * weights.sum(tuple(range(weights.ndim - 1)), dtype=np.int64))
    return x, look.add_constant(np.ascontiguousarray(weights), operation), look.add_constant(bias, operation)


def _wrapped(numbers: Array) -> Array:
    """Modulo 2^32."""
    return numbers.astype(np.int64).astype(np.int32)


def _narrow(numbers: Array | None) -> Array | None:
    """Integers as int8, if they are in its range."""
    if numbers is None or numbers.dtype.kind != "i" or not numbers.size:
        return None
    return numbers.astype(np.int8) if numbers.min() >= -128 and numbers.max() <= 127 else None


def _centered(look: Look, value: int) -> tuple[int, int] | None:
    """The bytes that `value` has as int32, minus a number, and this number. Bytes are moved instead of integers."""
    moves: list[Operation] = []
    while (move := look.made_by(value, "reshape", "transpose", once=True)) is not None:
        moves.append(move)
        (value,) = move.operands
    found, zero = look.made_by(value, "subtract", "convert"), 0.0
    if found is not None and found.opcode == "subtract":
        subtracted = look.scalar(found.operands[1])
        if subtracted is None:
            return None
        found, zero = look.made_by(found.operands[0], "convert"), subtracted
    if found is None or look.known[found.operands[0]].shape.dtype not in BYTES:
        return None
    return _again(look, moves, found.operands[0]), int(zero)


def _again(look: Look, moves: list[Operation], bytes_: int) -> int:
    """Bytes, moved as integers were; the last move comes first."""
    dtype = look.known[bytes_].shape.dtype
    for move in reversed(moves):
        made = replace(move, id=look.fresh(), type=Shape(dtype, move.shape.sizes), operands=(bytes_,))
        bytes_ = look.add(made).id
    return bytes_


def _sums(look: Look, value: int) -> Operation | None:
    """The layer whose sums `value` is, for one use; these may have another shape with the same channels last."""
    while (moved := look.made_by(value, "reshape", once=True)) is not None:
        if not _has_channels(moved.shape, look.known[moved.operands[0]].shape):
            return None
        (value,) = moved.operands
    found = look.made_by(value, *LAYERS, once=True)
    return found if found is not None and len(found.operands) == 3 else None


def _has_channels(shape: Shape, other: Shape) -> bool:
    return shape.rank > 0 and other.rank > 0 and shape.sizes[-1] == other.sizes[-1]


def _by_channel(look: Look, value: int, channels: int) -> Array | None:
    """A constant as one number per channel."""
    if look.scalar(value) is not None:
        found = look.known[value]
        while found.opcode in ("broadcast", "reshape"):
            found = look.known[found.operands[0]]
        numbers = look.constant(found.id)
        return None if numbers is None else np.full(channels, numbers.reshape(()), numbers.dtype)
    vector = look.along_last(value)
    numbers = look.constant(value if vector is None else vector)
    return numbers if numbers is not None and numbers.shape == (channels,) else None


def _with_bias(look: Look, operation: Operation) -> Operation | None:
    for value, other in (operation.operands, operation.operands[::-1]):
        layer = _sums(look, value)
        more = None if layer is None else _by_channel(look, other, layer.shape.sizes[-1].constant)
        bias = None if layer is None else look.constant(layer.operands[2])
        if layer is None or more is None or bias is None or operation.type != layer.type:
            continue
        made = look.add_constant(_wrapped(bias.astype(np.int64) + more), layer)
        return replace(layer, id=operation.id, operands=(*layer.operands[:2], made), node=operation.node)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounded:
    """Bytes that are the numbers of `value`, rounded half to even, plus `zero`, between `low` and `high`.

    Integers were counted from `start`, which NaN becomes.
    """

    value: int
    zero: int
    low: int
    high: int
    start: int = 0


def rounded(look: Look, operation: Operation) -> Rounded | None:
    """What the conversion `operation` to bytes is made of: it may come by way of int32."""
    if operation.opcode != "convert" or operation.shape.dtype not in BYTES:
        return None
    ends = np.iinfo(np.uint8 if operation.shape.dtype == "u8" else np.int8)
    value, start = _added(look, operation.operands[0])
    whole = look.made_by(value, "convert", once=True)
    bounds = (-math.inf, math.inf)
    if whole is not None and whole.shape.dtype == "s32":
        value, bounds = bounded(look, whole.operands[0])
    value, zero = _added(look, value)
    low, high, zero = (each + start for each in (*bounds, zero))
    found = look.made_by(value, "round-nearest-even", once=True)
    if found is None or not all(_is_in(ends, each) for each in (zero, low, high)) or low > high:
        return None
    return Rounded(value=found.operands[0], zero=int(zero), low=int(low), high=int(high), start=int(start))


def _requantized(look: Look, operation: Operation) -> Operation | None:
    """Sums as floats, times factors, rounded."""
    made = rounded(look, operation)
    found = None if made is None else look.made_by(made.value, "multiply", once=True)
    if made is None or found is None:
        return None
    for sums, factor in (found.operands, found.operands[::-1]):
        whole = look.made_by(sums, "convert", once=True)
        if whole is None:
            continue
        positive = _bounded_below(look, whole.operands[0])
        layer = _sums(look, whole.operands[0] if positive is None else positive)
        scales = None if layer is None else _by_channel(look, factor, layer.shape.sizes[-1].constant)
        if layer is None or scales is None or not np.all(np.isfinite(scales)) or scales.dtype != np.float32:
            continue
        if positive is not None and not np.all(scales > 0):
            continue
        least = max(made.low, made.zero) if positive is not None else made.low
        given = replace(Quantized.of(layer), zero=made.zero, low=least, high=max(made.high, least))
        operands = (*layer.operands, look.add_constant(scales, operation))
        return shaped(look, operation, layer, operands, given)
    return None


def shaped(
    look: Look, operation: Operation, layer: Operation, operands: tuple[int, ...], given: Quantized
) -> Operation:  # fmt: skip
    """A layer like `layer` instead of `operation`, with the shape that this has."""
    made = replace(operation, opcode=layer.opcode, operands=operands, attributes=given)
    if layer.shape.sizes == operation.shape.sizes:
        return made
    inner = look.add(replace(made, id=look.fresh(), type=Shape(operation.shape.dtype, layer.shape.sizes)))
    return replace(operation, opcode="reshape", operands=(inner.id,), attributes=NO_ATTRIBUTES)


def bounded(look: Look, value: int) -> tuple[int, tuple[float, float]]:
    """What is bounded to be `value`, and the bounds."""
    low, high = -math.inf, math.inf
    while (found := look.made_by(value, "maximum", "minimum", once=True)) is not None:
        inner, end = with_scalar(look, found)
        if end is None:
            break
        is_low = found.opcode == "maximum"
        # The outermost bound was met last, and wins.
        low, high = (max(low, min(end, high)), high) if is_low else (low, min(high, max(end, low)))
        value = inner
    return value, (low, high)


def with_scalar(look: Look, operation: Operation) -> tuple[int, float | None]:
    """Its other operand, and the number that one of them is."""
    first, second = operation.operands
    number = look.scalar(second)
    return (first, number) if number is not None else (second, look.scalar(first))


def _added(look: Look, value: int) -> tuple[int, float]:
    """What a number is added to, and the number; 0 if there is none."""
    found = look.made_by(value, "add", once=True)
    inner, number = (value, None) if found is None else with_scalar(look, found)
    return (value, 0.0) if number is None else (inner, number)


def _is_in(ends: np.iinfo[np.uint8] | np.iinfo[np.int8], number: float) -> bool:
    return ends.min <= number <= ends.max and number == math.floor(number)


def _bounded_below(look: Look, value: int) -> int | None:
    """Integers of which those below 0 become 0."""
    found = look.made_by(value, "maximum", once=True)
    inner, number = (0, None) if found is None else with_scalar(look, found)
    return inner if number == 0 else None
