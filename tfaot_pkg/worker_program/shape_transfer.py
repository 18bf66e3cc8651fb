"""How each operation of TensorFlow computes with sizes: the content of its results from that of its operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import folding
import numpy as np
import shape_arithmetic as arithmetic
import tensorflow as tf
from polynomials import BATCH, Polynomial
from shape_operations import BY_POSITION, LINEAR, OF_MATRICES, OF_SHAPE, REARRANGING
from shape_slices import is_within_rows, length_of_range, rearranged
from shape_values import (
    CONSTANT,
    DATA,
    MOST_ELEMENTS,
    Choice,
    Computed,
    Content,
    Known,
    Spread,
    all_known,
    choice_of,
    complete,
    growing,
    is_folded,
    is_program,
    known,
    of_constant,
    sizes_of,
)

if TYPE_CHECKING:
    from framework_types import Array
    from shape_values import Shape, Value


Rule: TypeAlias = Callable[["Step"], "Content | Sequence[Content]"]
"""The content of each result of an operation, or the one that all of them have."""


@dataclass(frozen=True)
class Step:
    """An operation, its operands, the shapes of its results, and the ranges of sizes."""

    op: tf.Operation
    operands: tuple[Value, ...]
    shapes: tuple[Shape, ...]
    ranges: arithmetic.Ranges

    @property
    def contents(self) -> list[Content]:
        return [each.content for each in self.operands]

    def choice(self, sizes: Iterable[str]) -> Choice:
        return Choice(self.op.name, self.op.type, frozenset(sizes))


def contents_of(step: Step) -> list[Content]:
    """The content of each result."""
    found = _RULES.get(step.op.type, _default)(step)
    contents = [found] * len(step.shapes) if isinstance(found, Content) else found
    return [_within(step, each) for each in contents]


def _within(step: Step, content: Content) -> Content:
    """`content`, with a Choice for each polynomial that no program computes."""
    if not isinstance(content, Known) or all(isinstance(e, Choice) or is_program(e) for e in content.values.flat):
        return content
    return known([e if isinstance(e, Choice) or is_program(e) else step.choice(e.names) for e in content.values.flat])


def _default(step: Step) -> Content | Sequence[Content]:
    """What holds of the results of any operation, by what it does to the positions and numbers of its operands."""
    contents = step.contents
    if (found := next(filter(None, map(choice_of, contents)), None)) is not None:
        return found
    shapes = OF_SHAPE.get(step.op.type, ())
    contents = [CONSTANT if place in shapes else each for place, each in enumerate(contents)]
    if not all(map(is_folded, contents)) or step.op.op_def.is_stateful:
        return DATA
    sizes = frozenset().union(*map(sizes_of, contents))
    if any(isinstance(each, Computed) for each in contents):
        return Computed(sizes)
    if (numbers := _numbers(step)) is not None:
        return numbers
    return _spread(step, contents, sizes)


def _spread(step: Step, contents: list[Content], sizes: frozenset[str]) -> Content:
    """Of arrays whose elements are not followed one by one."""
    kind, spread = step.op.type, [each for each in contents if isinstance(each, Spread)]
    is_placed, is_bent, is_inverse = (
        any(getattr(each, name) for each in spread) for name in ("is_placed", "is_bent", "is_inverse")
    )
    grown = frozenset().union(*(growing(each.shape) for each in step.operands))
    if kind in REARRANGING:
        moved = rearranged(step)
        if isinstance(moved, Choice):
            return moved
        more, moves, cuts = moved
        sizes, is_placed, is_bent = sizes | more, is_placed or moves, is_bent or cuts
    elif kind in ("Sum", "Prod"):
        if (found := _summed(step, contents[0])) is not None:
            return found
    elif kind == "Mul":
        if (found := _product(step, contents)) is not None:
            return found
    elif kind in BY_POSITION:
        is_placed = is_placed or (kind in OF_MATRICES and bool(growing((step.shapes[0] or (None,))[-2:])))
        is_bent = is_bent or is_placed or bool(sizes)
    elif kind not in LINEAR and (grown or sizes) and (is_placed or sizes or not is_within_rows(step)):
        return step.choice(grown | sizes)
    is_mixed = is_inverse and (kind in ("Add", "AddV2", "Sub", "AddN", "Mul", "Sum") or kind not in LINEAR)
    if (is_bent and sizes) or is_mixed:
        return step.choice(sizes or grown)
    # A compiler may compute all of it for the traced sizes, and programs repeat or continue what they see of rows.
    if is_bent and BATCH in (over := growing(step.shapes[0])):
        return step.choice(over)
    return Spread(sizes, is_placed, is_bent, is_inverse)


def _summed(step: Step, content: Content) -> Content | None:
    """Of a sum or a product over axes; None if these have no open size."""
    over = growing(step.operands[0].shape)
    if not over:
        return None if step.op.type == "Sum" or not sizes_of(content) else step.choice(sizes_of(content))
    is_plain = step.op.type == "Sum" and isinstance(content, Spread) and not content.is_bent and not content.sizes
    return Spread(over, is_placed=True) if is_plain else step.choice(over | sizes_of(content))


def _product(step: Step, contents: list[Content]) -> Content | None:
    """Of a product; None if it is linear in sizes and positions."""
    (one, two), (first, second) = map(sizes_of, contents), (each.positions for each in step.operands)
    if one and two:
        return step.choice(one | two)
    if first and second:
        return (
            Spread(is_placed=True, is_bent=True)
            if not one | two and BATCH not in first | second
            else step.choice(one | two | first | second)
        )
    return None


def _numbers(step: Step) -> Sequence[Content] | None:
    """The results of an operation on small constants, from TensorFlow; None if they are not known."""
    arrays = [numbers for each in all_known(step.contents) or () if (numbers := each.numbers) is not None]
    if len(arrays) < len(step.contents) or not arrays or step.op.op_def.is_stateful:
        return None
    found = folding.run(step.op, arrays)
    return None if found is None else [of_constant(each) for each in found]


def _moved(*places: int) -> Rule:
    """The rule of an operation that moves the elements of the operands `places`: all but the last for -1."""

    def rule(step: Step) -> Content | Sequence[Content]:
        count = len(step.operands)
        moved = range(count - 1) if places == (-1,) else places or range(count)
        contents = all_known(step.contents)
        if contents is None:
            return _default(step)
        elements: list[Polynomial | Choice] = [Polynomial()]
        arrays: list[Array] = []
        for place, content in enumerate(contents):
            if place in moved:
                numbers = np.arange(content.values.size).reshape(content.values.shape) + len(elements)
                elements += list(content.values.flat)
                arrays.append(numbers)
            elif (constants := content.numbers) is not None:
                arrays.append(constants)
        if len(arrays) < len(contents) or len(elements) > 2 * MOST_ELEMENTS:
            return _default(step)
        if any(step.op.inputs[place].dtype not in _COUNTING for place in moved):
            return _default(step)
        found = folding.run(step.op, arrays)
        if found is None or any(each.size > MOST_ELEMENTS for each in found):
            return _default(step)
        return [_chosen(elements, each) for each in found]

    return rule


_COUNTING = (tf.int32, tf.int64, tf.float32, tf.float64)
"""Types that hold the numbers of elements."""


def _chosen(elements: list[Polynomial | Choice], numbers: np.ndarray) -> Known:
    return known(np.array([elements[int(each)] for each in numbers.flat], object).reshape(numbers.shape))


def _elementwise(function: arithmetic.Function) -> Rule:
    """The rule of an operation on polynomials: `function(step, *polynomials)` gives one, or None if there is none."""

    def rule(step: Step) -> Content | Sequence[Content]:
        contents = all_known(step.contents)
        if contents is None:
            return _default(step)
        if math.prod(np.broadcast_shapes(*(each.values.shape for each in contents))) > MOST_ELEMENTS:
            return _default(step)
        # TensorFlow's own kernel knows how numbers of its types wrap around and round.
        return _numbers(step) or arithmetic.computed(step, function, contents, _type(step))

    return rule


def _type(step: Step) -> str:
    return str(step.op.inputs[0].dtype.base_dtype.name)


def _times(step: Step) -> Content | Sequence[Content]:
    """A product: TensorFlow computes one with zeros before the model runs."""
    known_numbers = (each.numbers for each in step.contents if isinstance(each, Known))
    if any(numbers is not None and not numbers.any() for numbers in known_numbers) and not any(
        map(choice_of, step.contents)
    ):
        return CONSTANT if DATA in step.contents else _elementwise(arithmetic.multiplied)(step)
    return _elementwise(arithmetic.multiplied)(step)


def _reduced(function: arithmetic.Function, start: int | None) -> Rule:
    """The rule of a reduction of polynomials by `function(step, one, two)`; `start` is what no element gives."""

    def rule(step: Step) -> Content | Sequence[Content]:
        array, axes = step.contents
        numbers = axes.numbers if isinstance(axes, Known) else None
        if not isinstance(array, Known) or numbers is None:
            return _default(step)
        rank = array.values.ndim
        over = tuple(sorted({int(each) % rank for each in numbers.flat})) if rank else ()
        kept = [axis for axis in range(rank) if axis not in over]
        sizes = [array.values.shape[axis] for axis in kept]
        flat = array.values.transpose([*kept, *over]).reshape(*sizes, -1)
        found = np.empty(sizes, object)
        for place in np.ndindex(*sizes):
            found[place] = _folded(step, function, flat[place], start)
        if step.op.get_attr("keep_dims"):
            found = found.reshape([1 if axis in over else size for axis, size in enumerate(array.values.shape)])
        return Known(found)

    return rule


def _folded(
    step: Step, function: arithmetic.Function, elements: Iterable[Polynomial | Choice], start: int | None
) -> Polynomial | Choice:
    total = None if start is None else Polynomial.number(start)
    for each in elements:
        made: Polynomial | Choice
        if total is None or isinstance(each, Choice):
            made = each
        else:
            made = arithmetic.computed(step, function, [known(total), known(each)], _type(step)).element
        if isinstance(made, Choice):
            return made
        total = made
    return Polynomial() if total is None else total


def _divided(step: Step) -> Content | Sequence[Content]:
    """A quotient of floats, or of integers rounded toward zero."""
    if step.op.inputs[0].dtype.is_integer:
        return _elementwise(arithmetic.toward_zero)(step)
    one, two = step.contents
    if (
        isinstance(one, Known)
        and isinstance(two, Known)
        and two.choice is None
        and two.sizes
        and one.numbers is not None
    ):
        return Spread(two.sizes, is_inverse=True)
    return _elementwise(arithmetic.true_quotient)(step)


def _cast(step: Step) -> Content | Sequence[Content]:
    source, target = step.op.inputs[0].dtype, step.op.outputs[0].dtype
    (content,) = step.contents
    # Sizes wrap around in narrow integers, and are rounded in narrow floats.
    is_wide = target.size >= 4 and not target.is_complex
    if not isinstance(content, Known):
        is_plain = is_wide and (target.is_floating or not source.is_floating) and not target.is_bool
        return _kept(step) if is_plain else _default(step)

    def cast(_: object, one: Polynomial) -> Polynomial | None:
        if target.is_bool:
            return arithmetic.truth(step, one)
        if not one.names:
            return one if target.is_floating else Polynomial.number(math.trunc(one.constant))
        return one if is_wide and (target.is_floating or arithmetic.is_exact(step, one, source.name)) else None

    return _elementwise(cast)(step)


def _kept(step: Step) -> list[Content]:
    """The contents of operands, one for each result."""
    return list(step.contents)


def _random(step: Step) -> Content:
    """Random numbers are computed when the model runs; their seed may be folded."""
    contents = step.contents[1:]
    if (found := next(filter(None, map(choice_of, contents)), None)) is not None:
        return found
    sizes = frozenset().union(*map(sizes_of, contents))
    return step.choice(sizes) if sizes else DATA


def _gathered(step: Step) -> Content | Sequence[Content]:
    """Elements of an array at positions; a table that is read at growing positions is any function of these."""
    array, places, *axes = step.contents
    if isinstance(places, Spread) and places.counted is not None and _is_whole(step, places.counted, axes):
        return array
    if not isinstance(places, Spread) or not is_folded(array):
        return _moved(0)(step)
    positions = step.operands[1].positions
    is_table = isinstance(array, (Known, Spread)) and not sizes_of(array) and not growing(step.operands[0].shape)
    if not is_table or places.sizes or choice_of(array) or BATCH in positions:
        return (
            _default(step)
            if not positions | sizes_of(places) | sizes_of(array)
            else step.choice(positions | places.sizes | sizes_of(array))
        )
    return Spread(is_placed=bool(positions), is_bent=bool(positions))


def _is_whole(step: Step, counted: str, axes: Sequence[Content]) -> bool:
    """Whether all elements along an axis are gathered, each in its place."""
    shape, number = step.operands[0].shape, axes[0] if axes else known(0)
    if shape is None or not isinstance(number, Known) or number.numbers is None:
        return False
    if step.op.type == "GatherV2" and step.op.get_attr("batch_dims"):
        return False
    return shape[int(number.element.constant)] == Polynomial.of([((counted,), 1)])


def _diagonal(step: Step) -> Content | Sequence[Content]:
    """One diagonal of matrices: numbers of a position each."""
    matrices, *of_which = step.contents
    number = of_which[0] if of_which else known(0)
    is_one = isinstance(number, Known) and number.numbers is not None and number.values.size == 1
    over = growing(step.operands[0].shape) | growing(step.shapes[0])
    is_plain = isinstance(matrices, Spread) and not matrices.sizes and not matrices.is_inverse
    if not is_one or not is_plain or BATCH in over:
        return _default(step)
    return Spread(is_placed=bool(over), is_bent=bool(over))


def _scattered(step: Step) -> Content | Sequence[Content]:
    """Elements at constant places."""
    places = step.contents[0]
    numbers = places.numbers if isinstance(places, Known) else None
    # Numbers of one place are added up.
    is_single = (
        numbers is not None and len(np.unique(numbers.reshape(-1, numbers.shape[-1]), axis=0)) == numbers[..., 0].size
    )
    return _moved(1)(step) if is_single else _default(step)


def _filled(value: int) -> Rule:
    """Zeros or ones, whatever the operand is."""

    def rule(step: Step) -> Content:
        shape = complete(step.shapes[0])
        if shape is None or growing(shape) or math.prod(int(size.constant) for size in shape) > MOST_ELEMENTS:
            return CONSTANT
        return known(np.full([int(size.constant) for size in shape], value))

    return rule


def _selected(step: Step) -> Content | Sequence[Content]:
    """A selection between polynomials by constants."""
    condition, one, two = step.contents
    # As vectorized_map writes: all numbers below a size are [0] for a size of one.
    found = condition.choice if isinstance(condition, Known) and not condition.values.ndim else None
    counted = one.counted if isinstance(one, Spread) else None
    if (
        counted is not None
        and found is not None
        and found.of_several == Polynomial.number(1)
        and found.sizes == {counted}
    ):
        if isinstance(two, Known) and two.numbers is not None and not two.numbers.any():
            return one
    is_known = isinstance(condition, Known) and condition.numbers is not None
    return _moved(1, 2)(step) if is_known else _default(step)


def _broadcast_shape(step: Step) -> Content | Sequence[Content]:
    """BroadcastArgs: two shapes."""
    one, two = step.contents
    if not isinstance(one, Known) or not isinstance(two, Known):
        return _default(step)
    rank = max(one.values.size, two.values.size)
    pad = [Polynomial.number(1)]
    pairs = zip(*(pad * (rank - each.values.size) + list(each.values.flat) for each in (one, two)), strict=True)
    return known([_wider(step, *pair) for pair in pairs])


def _wider(step: Step, one: Polynomial | Choice, two: Polynomial | Choice) -> Polynomial | Choice:
    if isinstance(one, Choice):
        return one
    if isinstance(two, Choice):
        return two
    single = Polynomial.number(1)
    if two in (one, single):
        return one
    return two if one == single else step.choice(one.names | two.names)


def _summed_axes(step: Step) -> Content | Sequence[Content]:
    """BroadcastGradientArgs: the axes along which each of two shapes was repeated."""
    one, two = step.contents
    if not isinstance(one, Known) or not isinstance(two, Known):
        return _default(step)
    rank, single = max(one.values.size, two.values.size), Polynomial.number(1)
    sides = [[single] * (rank - each.values.size) + list(each.values.flat) for each in (one, two)]
    for pair in zip(*sides, strict=True):
        if isinstance(found := _wider(step, *pair), Choice):
            return found
    return [known([axis for axis, size in enumerate(side) if size == single]) for side in sides]


def _shape(step: Step) -> list[Content]:
    return [_shape_of(step, each) for each in step.operands]


def _shape_of(step: Step, value: Value) -> Content:
    if value.chosen is not None:
        return value.chosen
    if value.is_ragged and (value.shape is None or None in value.shape):
        return DATA
    if value.shape is None:
        return step.choice({BATCH, *step.ranges})
    return known([step.choice({BATCH, *step.ranges}) if size is None else size for size in value.shape])


def _size(step: Step) -> Content:
    (sizes,) = _shape(step)
    if not isinstance(sizes, Known):
        return sizes
    if (found := sizes.choice) is not None:
        return found
    return known(math.prod(sizes.values.flat, start=Polynomial.number(1)))


def _rank(step: Step) -> Content:
    return CONSTANT if step.operands[0].shape is None else known(len(step.operands[0].shape))


def _range(step: Step) -> Content | Sequence[Content]:
    contents = all_known(step.contents)
    if contents is None or any(each.choice for each in contents):
        return _default(step)
    start, limit, delta = (each.element for each in contents)
    if not limit.names and not start.names and not delta.names:
        return _default(step)
    if isinstance(found := length_of_range(step), Choice):
        return found
    is_whole = not start.terms and delta == Polynomial.number(1)
    counted = next((name for name in limit.names if is_whole and limit == Polynomial.of([((name,), 1)])), None)
    return Spread(start.names, is_placed=True, counted=counted)


def _listed(step: Step) -> Content:
    """The handle of a list of arrays: its number of arrays."""
    return step.contents[1]


def _from_array(step: Step) -> Content | Sequence[Content]:
    shape = step.operands[0].shape
    return _default(replace(step, operands=step.operands[:1])) if not shape or shape[0] is None else known(shape[0])


_IDENTITIES = frozenset("Identity Snapshot StopGradient PreventGradient EnsureShape CheckNumerics IdentityN".split())
_RULES: dict[str, Rule] = {
    **dict.fromkeys(_IDENTITIES, _kept),
    **{f"Logical{name.title()}": _elementwise(function) for name, function in arithmetic.LOGICAL.items()},
    **{
        name: _elementwise(arithmetic.COMPARED[kind])
        for name, kind in zip(
            "Equal Greater GreaterEqual Less LessEqual NotEqual".split(), "EQ GT GE LT LE NE".split(), strict=True
        )
    },
    **dict.fromkeys(("Add", "AddV2"), _elementwise(arithmetic.added)),
    "Pack": _moved(),
    **dict.fromkeys(("Div", "RealDiv"), _divided),
    **dict.fromkeys(("Gather", "GatherV2"), _gathered),
    **dict.fromkeys(
        "StatelessRandomUniform StatelessRandomNormal StatelessRandomUniformV2 StatelessRandomNormalV2 "
        "StatelessRandomUniformInt StatelessRandomUniformIntV2 StatelessTruncatedNormal StatelessTruncatedNormalV2 "
        "StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2".split(),
        _random,
    ),
    **dict.fromkeys(("Mod", "TruncateMod"), _elementwise(arithmetic.remainder(arithmetic.toward_zero))),
    **dict.fromkeys(("Select", "SelectV2"), _selected),
    **dict.fromkeys(("Shape", "ShapeN"), _shape),
    **dict.fromkeys(
        "ExpandDims Squeeze Reshape Transpose Tile BroadcastTo Reverse ReverseV2 Roll StridedSlice Slice GatherNd "
        "Unpack SplitV Pad MirrorPad DataFormatVecPermute".split(),
        _moved(0),
    ),
    "Abs": _elementwise(arithmetic.absolute),
    "AddN": _elementwise(arithmetic.added),
    "All": _reduced(arithmetic.LOGICAL["and"], 1),
    "Any": _reduced(arithmetic.LOGICAL["or"], 0),
    "BroadcastArgs": _broadcast_shape,
    "BroadcastGradientArgs": _summed_axes,
    "Cast": _cast,
    "Ceil": _elementwise(arithmetic.ROUNDED["ceil"]),
    "Concat": _moved(*range(1, 64)),
    "ConcatV2": _moved(-1),
    "Fill": _moved(1),
    "Floor": _elementwise(arithmetic.ROUNDED["floor"]),
    "FloorDiv": _elementwise(arithmetic.floored),
    "FloorMod": _elementwise(arithmetic.remainder(arithmetic.floored)),
    **dict.fromkeys(("MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3"), _diagonal),
    "Max": _reduced(arithmetic.larger, None),
    "Maximum": _elementwise(arithmetic.larger),
    "Min": _reduced(arithmetic.smaller, None),
    "Minimum": _elementwise(arithmetic.smaller),
    "Mul": _times,
    "Neg": _elementwise(arithmetic.negated),
    "OnesLike": _filled(1),
    "PadV2": _moved(0, 2),
    "Pow": _elementwise(arithmetic.power),
    "Prod": _reduced(arithmetic.multiplied, 1),
    "Range": _range,
    "Rank": _rank,
    "Rint": _elementwise(arithmetic.ROUNDED["round"]),
    "Round": _elementwise(arithmetic.ROUNDED["round"]),
    "ScatterNd": _scattered,
    "Sign": _elementwise(arithmetic.sign),
    "Size": _size,
    "Split": _moved(1),
    "Square": _elementwise(lambda step, one: one * one),
    "Sub": _elementwise(arithmetic.subtracted),
    "Sum": _reduced(arithmetic.added, 0),
    "TensorListFromTensor": _from_array,
    "TensorListLength": _kept,
    "TensorListReserve": _listed,
    "TensorListSetItem": lambda step: step.contents[0],
    "TensorListStack": lambda step: DATA,
    "TensorListGetItem": lambda step: DATA,
    "TensorScatterUpdate": _moved(0, 2),
    "TruncateDiv": _elementwise(arithmetic.toward_zero),
    "ZerosLike": _filled(0),
}
