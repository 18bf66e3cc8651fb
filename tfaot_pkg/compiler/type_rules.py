"""The rules of the types of results, for the table of operations (operations.py).

A rule sees an operation at one batch size, so all sizes are numbers: it returns the types of the results, or raises
Malformed. Types that operands do not determine, such as the sizes of a broadcast, it checks and returns as stated.
HLO's rules are those of https://openxla.org/xla/operation_semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod

from tfaot_pkg.compiler.attributes import (
    Along,
    Axes,
    Comparison,
    Constant,
    Conv2d,
    Conv2dMaxPool,
    Convolution,
    Dense,
    Dimensions,
    Dot,
    Element,
    Feature,
    Gather,
    Indexed,
    MaxPool,
    Pad,
    Resample,
    Scatter,
    Sizes,
    Slices,
    TopK,
    TransposedConv2d,
    Windows,
)
from tfaot_pkg.compiler.program import NUMPY_TYPES, Attributes, Binding

FLOATS = frozenset({"f32", "f64"})
INTEGERS = frozenset(NUMPY_TYPES) - FLOATS - {"pred"}
BITS = INTEGERS | {"pred"}
_DIRECTIONS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"})


class Malformed(Exception):
    """An operation that its rule rejects: the message says why."""


@dataclass(frozen=True, slots=True)
class ArrayType:
    """The element type and the sizes of an array, at one batch size."""

    dtype: str
    sizes: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def elements(self) -> int:
        return prod(self.sizes)

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.sizes))}]"


Types = tuple[ArrayType, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """The types of a region: of what it takes, and of what it returns."""

    takes: Types
    gives: Types


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """An operation at one batch size: the types of the results of its operands, and those that it states itself.

    `sizes` gives the numbers of attributes there.
    """

    operands: tuple[Types, ...]
    stated: Types
    attributes: Attributes
    regions: tuple[Callee, ...]
    sizes: Binding

    @property
    def arrays(self) -> Types:
        """The operands, each of which is one array."""
        require(all(len(each) == 1 for each in self.operands), "an operand has several results")
        return tuple(each[0] for each in self.operands)

    @property
    def result(self) -> ArrayType:
        """The only result, as stated."""
        require(len(self.stated) == 1, "it states several results")
        return self.stated[0]


def different(axes: Axes, rank: int) -> Axes:
    """`axes`, which must be different ones of an array of `rank`."""
    if len(set(axes)) != len(axes) or not all(0 <= axis < rank for axis in axes):
        raise Malformed(f"{axes} are not different axes of {rank}")
    return axes


def require(holds: bool, why: str) -> None:
    """Raises Malformed unless it holds."""
    if not holds:
        raise Malformed(why)


def elementwise(dtypes: Collection[str] = NUMPY_TYPES, gives: str = "") -> Callable[[Use], Types]:
    """Operands of one type, and a result of it, or of `gives`."""

    def rule(use: Use) -> Types:
        first, *others = use.arrays
        require(all(each == first for each in others), "operands differ")
        require(first.dtype in dtypes, "it does not compute with this type")
        return (ArrayType(gives or first.dtype, first.sizes),)

    return rule


def compare(use: Use) -> Types:
    require(Comparison.of(use).direction in _DIRECTIONS, "no such direction")
    return elementwise(gives="pred")(use)


def select(use: Use) -> Types:
    which, first, second = use.arrays
    require(
        which.dtype == "pred" and which.sizes in ((), first.sizes), "the choice is not a truth value for each element"
    )
    require(first == second, "operands differ")
    return (first,)


def clamp(use: Use) -> Types:
    low, x, high = use.arrays
    require(all(each.dtype == x.dtype and each.sizes in ((), x.sizes) for each in (low, high)), "operands differ")
    return (x,)


def converted(use: Use) -> Types:
    (x,), made = use.arrays, use.result
    return (ArrayType(made.dtype, x.sizes),)


def bitcast(use: Use) -> Types:
    (x,), made = use.arrays, use.result
    require(NUMPY_TYPES[made.dtype].itemsize == NUMPY_TYPES[x.dtype].itemsize, "types of different widths")
    return (ArrayType(made.dtype, x.sizes),)


def constant(use: Use) -> Types:
    literal = Constant.of(use).literal
    dtypes = {dtype: name for name, dtype in NUMPY_TYPES.items()}
    values = [literal.constant, *(values for _, values in literal.growing)]
    require(all(each.shape == values[0].shape for each in values), "the parts of its value have different sizes")
    require(literal.constant.dtype in dtypes, f"not for {literal.constant.dtype}")
    return (ArrayType(dtypes[literal.constant.dtype], tuple(values[0].shape)),)


def as_stated(use: Use) -> Types:
    return use.stated


def iota(use: Use) -> Types:
    require(len(different(Dimensions.of(use).dimensions, use.result.rank)) == 1, "it counts along one axis")
    return (use.result,)


def broadcast(use: Use) -> Types:
    (x,), made = use.arrays, use.result
    axes = different(Dimensions.of(use).dimensions, made.rank)
    require(tuple(made.sizes[axis] for axis in axes) == x.sizes, "its operand does not fit into its axes")
    return (ArrayType(x.dtype, made.sizes),)


def reshape(use: Use) -> Types:
    (x,), made = use.arrays, use.result
    if made.elements != x.elements:
        raise Malformed(f"it has {made.elements} elements, and its operand {x.elements}")
    return (ArrayType(x.dtype, made.sizes),)


def transpose(use: Use) -> Types:
    (x,) = use.arrays
    order = different(Dimensions.of(use).dimensions, x.rank)
    require(len(order) == x.rank, "it does not name each axis")
    return (ArrayType(x.dtype, tuple(x.sizes[axis] for axis in order)),)


def reverse(use: Use) -> Types:
    (x,) = use.arrays
    different(Dimensions.of(use).dimensions, x.rank)
    return (x,)


def slice_(use: Use) -> Types:
    (x,), slices = use.arrays, use.sizes.table(Slices.of(use).slices)
    require(len(slices) == x.rank, "it does not cut each axis")
    for (start, end, step), size in zip(slices, x.sizes, strict=True):
        if not 0 <= start <= end <= size or step <= 0:
            raise Malformed(f"{start} to {end} by {step} is not inside {size}")
    return (ArrayType(x.dtype, tuple(-(-(end - start) // step) for start, end, step in slices)),)


def concatenate(use: Use) -> Types:
    first, *others = use.arrays
    axes = different(Dimensions.of(use).dimensions, first.rank)
    require(len(axes) == 1, "it joins along one axis")
    (axis,) = axes
    for each in others:
        require(each.dtype == first.dtype and each.rank == first.rank, "operands differ")
        require(_without(each.sizes, axes) == _without(first.sizes, axes), "operands differ in other axes")
    total = sum(each.sizes[axis] for each in (first, *others))
    return (ArrayType(first.dtype, (*first.sizes[:axis], total, *first.sizes[axis + 1 :])),)


def _without(sizes: Sequence[int], axes: Collection[int]) -> tuple[int, ...]:
    return tuple(size for axis, size in enumerate(sizes) if axis not in axes)


def pad(use: Use) -> Types:
    (x, value), padding = use.arrays, use.sizes.table(Pad.of(use).padding)
    require(value == ArrayType(x.dtype, ()), "what it pads with is not a number of the type")
    require(len(padding) == x.rank, "it does not pad each axis")
    require(all(inner >= 0 for _, _, inner in padding), "negative padding between elements")
    sizes = tuple(
        n + low + high + max(n - 1, 0) * inner for n, (low, high, inner) in zip(x.sizes, padding, strict=True)
    )
    return (ArrayType(x.dtype, sizes),)


def dot(use: Use) -> Types:
    first, second = use.arrays
    given = Dot.of(use)
    contracting, batch = given.contracting, given.batch
    used = []
    for each, over, shared in zip((first, second), contracting, batch, strict=True):
        axes = (*shared, *over)
        require(len(set(axes)) == len(axes) and all(0 <= axis < each.rank for axis in axes), "axes that are none")
        used.append(axes)
    require(first.dtype == second.dtype, "operands differ")
    pair = [[each.sizes[axis] for axis in axes] for each, axes in zip((first, second), used, strict=True)]
    require(pair[0] == pair[1] and len(batch[0]) == len(batch[1]), f"{first} and {second} do not fit")
    sizes = (*pair[0][: len(batch[0])], *_without(first.sizes, used[0]), *_without(second.sizes, used[1]))
    order = given.order or tuple(range(len(sizes)))
    require(sorted(order) == list(range(len(sizes))), "order is no order of its axes")
    return (ArrayType(first.dtype, tuple(sizes[axis] for axis in order)),)


def _windows(sizes: Sequence[int], window: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """How many windows there are along each axis."""
    require(len(window) == len(sizes), "a window of another rank")
    made = []
    for n, (size, stride, low, high, dilation, base) in zip(sizes, window, strict=True):
        require(size > 0 and stride > 0 and dilation > 0 and base > 0, "a window whose sizes are not positive")
        whole = (max((n - 1) * base + 1, 0) if n else 0) + low + high
        reach = (size - 1) * dilation + 1
        made.append((whole - reach) // stride + 1 if whole >= reach else 0)
    return tuple(made)


def convolution(use: Use) -> Types:
    image, kernel = use.arrays
    attributes, rank = Convolution.of(use), image.rank
    window = use.sizes.table(attributes.window)
    require(image.dtype == kernel.dtype and kernel.rank == rank >= 2, "operands differ")
    laid, filters, given = (different(axes, rank) for axes in (attributes.input, attributes.kernel, attributes.output))
    require(len(laid) == len(filters) == len(given) == rank, "it does not name each axis")
    groups, batches = attributes.feature_groups, attributes.batch_groups
    batch, features, *space = (image.sizes[axis] for axis in laid)
    outputs, inputs, *taps = (kernel.sizes[axis] for axis in filters)
    require(groups > 0 and batches > 0 and features == inputs * groups, "features do not fit")
    require(outputs % groups == 0 and batch % batches == 0 and outputs % batches == 0, "groups do not fit")
    require([side[0] for side in window] == taps, "the window is not the kernel's")
    sizes = [0] * rank
    for axis, size in zip(given, (batch // batches, outputs, *_windows(space, window)), strict=True):
        sizes[axis] = size
    return (ArrayType(image.dtype, tuple(sizes)),)


def _halves(use: Use) -> tuple[Types, Types]:
    """Arrays of the same sizes, and as many numbers of their types to begin with."""
    half = len(use.operands) // 2
    arrays, starts = use.arrays[:half], use.arrays[half:]
    require(len(arrays) == len(starts) > 0, "as many arrays as numbers to begin with are needed")
    require(all(each.sizes == arrays[0].sizes for each in arrays), "arrays differ")
    require(starts == _numbers(arrays), "it begins with other types")
    return arrays, starts


def _numbers(arrays: Types) -> Types:
    return tuple(ArrayType(each.dtype, ()) for each in arrays)


def _require_combining(use: Use, numbers: Types) -> None:
    """Raises Malformed unless the region combines two of each of `numbers`."""
    require(use.regions[0] == Callee(takes=(*numbers, *numbers), gives=numbers), "its region has other types")


def reduce(use: Use) -> Types:
    arrays, starts = _halves(use)
    axes = different(Dimensions.of(use).dimensions, arrays[0].rank)
    _require_combining(use, starts)
    return tuple(ArrayType(each.dtype, _without(each.sizes, axes)) for each in arrays)


def reduce_window(use: Use) -> Types:
    arrays, starts = _halves(use)
    _require_combining(use, starts)
    window = use.sizes.table(Windows.of(use).window)
    return tuple(ArrayType(each.dtype, _windows(each.sizes, window)) for each in arrays)


def sort(use: Use) -> Types:
    arrays = use.arrays
    require(len(arrays) > 0 and all(each.sizes == arrays[0].sizes for each in arrays), "arrays differ")
    require(len(different(Dimensions.of(use).dimensions, arrays[0].rank)) == 1, "it sorts along one axis")
    pairs = tuple(number for number in _numbers(arrays) for _ in range(2))
    require(use.regions[0] == Callee(takes=pairs, gives=(ArrayType("pred", ()),)), "its region has other types")
    return arrays


def top_k(use: Use) -> Types:
    (x,), k = use.arrays, use.sizes.number(TopK.of(use).k)
    require(x.dtype == "f32" and x.rank > 0 and 0 <= k <= x.sizes[-1], f"{k} of {x}")
    sizes = (*x.sizes[:-1], k)
    return ArrayType(x.dtype, sizes), ArrayType("s32", sizes)


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
    return _without(indices.sizes, (vector,))


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
    inner = list(_without(sizes, gone))
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
    require(_without(update.sizes, window) == outer, "updates are not as many as indices")
    kept = _without(array.sizes, gone)
    require(len(window) == len(kept), "updates have another rank")
    fits = (update.sizes[axis] <= size for axis, size in zip(window, kept, strict=True))
    require(all(fits), f"an update is larger than {array}")
    _require_combining(use, _numbers(arrays))
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


def loop(use: Use) -> Types:
    state = use.arrays
    body, condition = use.regions
    require(body == Callee(takes=state, gives=state), "its body has other types than its state")
    require(condition == Callee(takes=state, gives=(ArrayType("pred", ()),)), "its condition has other types")
    return state


def conditional(use: Use) -> Types:
    which, *given = use.arrays
    require(which.dtype in ("pred", "s32") and not which.sizes, "the choice is no number")
    require(which.dtype != "pred" or len(use.regions) == 2, "a truth value chooses one of two")
    takes = tuple(each for region in use.regions for each in region.takes)
    require(takes == tuple(given), "its branches take other types")
    require(all(region.gives == use.regions[0].gives for region in use.regions), "its branches return different types")
    return use.regions[0].gives


def call(use: Use) -> Types:
    (region,) = use.regions
    require(region.takes == use.arrays, "its function takes other types")
    return region.gives


def element(use: Use) -> Types:
    (whole,), index = use.operands, Element.of(use).index
    require(0 <= index < len(whole), "there is no such result")
    return (whole[index],)


def batch_norm(use: Use) -> Types:
    x, *vectors = use.arrays
    feature = Feature.of(use).feature
    require(0 <= feature < x.rank, "no such axis")
    require(all(each == ArrayType(x.dtype, (x.sizes[feature],)) for each in vectors), "vectors have other types")
    return (x,)


def set_dimension_size(use: Use) -> Types:
    x, size = use.arrays
    require(len(different(Dimensions.of(use).dimensions, x.rank)) == 1 and not size.sizes, "one axis, and one size")
    return (x,)


def trees(use: Use) -> Types:
    (x,), made = use.arrays, use.result
    require(x.rank == 2 and made.rank > 0 and made.sizes[0] == x.sizes[0], "rows of features are needed")
    return (made,)


def _require_bias(use: Use, channels: int) -> None:
    biases = use.arrays[2:]
    require(all(each == ArrayType("f32", (channels,)) for each in biases), "the bias has another type")


def dense(use: Use) -> Types:
    """The axes before the last one may be others than the input's: a reshape of rows is part of the layer."""
    x, weights, made = *use.arrays[:2], use.result
    require(x.dtype == weights.dtype == made.dtype == "f32" and weights.rank == 2 and x.rank > 0, "operands differ")
    axis = Dense.of(use).weights_axis
    require(axis in (0, 1), "no such axis of the weights")
    inputs, outputs = weights.sizes[axis], weights.sizes[1 - axis]
    require(x.sizes[-1] == inputs, "the weights are for another number of inputs")
    require(made.rank > 0 and made.sizes[-1] == outputs, "the weights are for another number of outputs")
    require(prod(made.sizes[:-1]) == prod(x.sizes[:-1]), "it has other rows than its input")
    _require_bias(use, outputs)
    return (made,)


def _window_result(image: ArrayType, window: Sequence[int], channels: int) -> ArrayType:
    """The image of the kernel library's Window over `image` (kernels.h)."""
    require(image.dtype == "f32" and image.rank == 4 and len(window) == 13, "it is no window over an image")
    height, width, depth, rows, columns, *sides = window
    require(image.sizes[1:] == (height, width, depth), "the window is that of another image")
    require(all(side > 0 for side in sides[:6]) and all(side >= 0 for side in sides[6:]), "a window of no size")
    return ArrayType("f32", (image.sizes[0], rows, columns, channels))


def conv2d(use: Use) -> Types:
    image, filters = use.arrays[:2]
    window, groups = use.sizes.numbers(Conv2d.of(use).window), Conv2d.of(use).groups
    require(filters.dtype == "f32" and filters.rank == 4 and len(window) == 13, "no filters")
    *taps, inputs, outputs = filters.sizes
    require(list(window[5:7]) == taps and groups > 0, "the window is not the filters'")
    require(image.rank == 4 and image.sizes[3] == inputs * groups and outputs % groups == 0, "channels do not fit")
    _require_bias(use, outputs)
    return (_window_result(image, window, outputs),)


def max_pool(use: Use) -> Types:
    (image,) = use.arrays
    require(image.rank == 4, "it is no image")
    return (_window_result(image, MaxPool.of(use).window, image.sizes[3]),)


def conv2d_max_pool(use: Use) -> Types:
    (image,) = conv2d(use)
    return (_window_result(image, Conv2dMaxPool.of(use).pool, image.sizes[3]),)


def transposed_conv2d(use: Use) -> Types:
    image, filters = use.arrays[:2]
    given = TransposedConv2d.of(use)
    require(filters.dtype == "f32" and filters.rank == image.rank == 4, "no filters")
    *taps, inputs, outputs = filters.sizes
    sides = use.sizes.table(given.sides)
    require(given.groups == 1 and image.sizes[3] == inputs, "channels do not fit")
    require([side[0] for side in sides] == taps, "the window is not the filters'")
    _require_bias(use, outputs)
    return (ArrayType("f32", (image.sizes[0], *_windows(image.sizes[1:3], sides), outputs)),)


def resample(use: Use) -> Types:
    image, weights, places = use.arrays
    require(image.dtype == weights.dtype == "f32" and image.rank == weights.rank == 4, "operands differ")
    axes = different(Resample.of(use).axes, 4)
    require(len(axes) == 4 and places.dtype == "s32", "it does not name each axis of the weights")
    made = tuple(weights.sizes[axis] for axis in axes[:2])
    require(places.sizes == made, "places are those of another image")
    return (ArrayType("f32", (image.sizes[0], *made, image.sizes[3])),)


def interpolate(use: Use) -> Types:
    x, weights, places = use.arrays
    axis = Along.of(use).axis
    require(x.dtype == weights.dtype == "f32" and weights.rank == 2 and 0 <= axis < x.rank, "operands differ")
    require(places == ArrayType("s32", weights.sizes), "each weight needs a place")
    return (ArrayType("f32", (*x.sizes[:axis], weights.sizes[0], *x.sizes[axis + 1 :])),)


def softmax(use: Use) -> Types:
    (x,) = use.arrays
    axis = Along.of(use).axis
    require(x.dtype == "f32" and 0 <= axis < x.rank, "no such axis")
    return (x,)
