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
    Axes,
    Comparison,
    Constant,
    Convolution,
    Dimensions,
    Dot,
    Element,
    Feature,
    Pad,
    Slices,
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


def without(sizes: Sequence[int], axes: Collection[int]) -> tuple[int, ...]:
    """`sizes` of the other axes."""
    return tuple(size for axis, size in enumerate(sizes) if axis not in axes)


def windows(sizes: Sequence[int], window: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """How many windows there are along each axis."""
    require(len(window) == len(sizes), "a window of another rank")
    made = []
    for n, (size, stride, low, high, dilation, base) in zip(sizes, window, strict=True):
        require(size > 0 and stride > 0 and dilation > 0 and base > 0, "a window whose sizes are not positive")
        whole = (max((n - 1) * base + 1, 0) if n else 0) + low + high
        reach = (size - 1) * dilation + 1
        made.append((whole - reach) // stride + 1 if whole >= reach else 0)
    return tuple(made)


def numbers(arrays: Types) -> Types:
    """The types of single elements."""
    return tuple(ArrayType(each.dtype, ()) for each in arrays)


def require_combining(use: Use, of: Types) -> None:
    """Raises Malformed unless the region combines two of each of `of`."""
    require(use.regions[0] == Callee(takes=(*of, *of), gives=of), "its region has other types")


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
        require(without(each.sizes, axes) == without(first.sizes, axes), "operands differ in other axes")
    total = sum(each.sizes[axis] for each in (first, *others))
    return (ArrayType(first.dtype, (*first.sizes[:axis], total, *first.sizes[axis + 1 :])),)


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
    sizes = (*pair[0][: len(batch[0])], *without(first.sizes, used[0]), *without(second.sizes, used[1]))
    order = given.order or tuple(range(len(sizes)))
    require(sorted(order) == list(range(len(sizes))), "order is no order of its axes")
    return (ArrayType(first.dtype, tuple(sizes[axis] for axis in order)),)


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
    for axis, size in zip(given, (batch // batches, outputs, *windows(space, window)), strict=True):
        sizes[axis] = size
    return (ArrayType(image.dtype, tuple(sizes)),)


def _halves(use: Use) -> tuple[Types, Types]:
    """Arrays of the same sizes, and as many numbers of their types to begin with."""
    half = len(use.operands) // 2
    arrays, starts = use.arrays[:half], use.arrays[half:]
    require(len(arrays) == len(starts) > 0, "as many arrays as numbers to begin with are needed")
    require(all(each.sizes == arrays[0].sizes for each in arrays), "arrays differ")
    require(starts == numbers(arrays), "it begins with other types")
    return arrays, starts


def reduce(use: Use) -> Types:
    arrays, starts = _halves(use)
    axes = different(Dimensions.of(use).dimensions, arrays[0].rank)
    require_combining(use, starts)
    return tuple(ArrayType(each.dtype, without(each.sizes, axes)) for each in arrays)


def reduce_window(use: Use) -> Types:
    arrays, starts = _halves(use)
    require_combining(use, starts)
    window = use.sizes.table(Windows.of(use).window)
    return tuple(ArrayType(each.dtype, windows(each.sizes, window)) for each in arrays)


def sort(use: Use) -> Types:
    arrays = use.arrays
    require(len(arrays) > 0 and all(each.sizes == arrays[0].sizes for each in arrays), "arrays differ")
    require(len(different(Dimensions.of(use).dimensions, arrays[0].rank)) == 1, "it sorts along one axis")
    pairs = tuple(number for number in numbers(arrays) for _ in range(2))
    require(use.regions[0] == Callee(takes=pairs, gives=(ArrayType("pred", ()),)), "its region has other types")
    return arrays


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
