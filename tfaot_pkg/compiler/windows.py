"""C++ of convolutions and reductions of windows over any number of axes, in any layout: nested loops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from tfaot_pkg.compiler.affine import as_size, cpp
from tfaot_pkg.compiler.attributes import Along, Convolution, Resample, Windows
from tfaot_pkg.compiler.elements import Place, Scalar, Stored, Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES, COMBINED
from tfaot_pkg.compiler.loops import Let, View, Within
from tfaot_pkg.compiler.plain import address, called, counting, states, targets
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Shape, Size, Unsupported, reducer
from tfaot_pkg.compiler.rows import are_short

_WHOLE = (1, 1, 0, 0, 1, 1)


def convolution(emitter: Emitter, operation: Operation) -> str:
    """Each output element adds up its window, feature by feature; the innermost loop is over a group's filters."""
    attributes, dtype = Convolution.of(operation), operation.shape.dtype
    array, kernel = (emitter.known[operand] for operand in operation.operands)
    if attributes.batch_groups != 1:
        raise Unsupported(f"a convolution with groups of the batch (node {operation.node!r})")
    if {array.shape.dtype, kernel.shape.dtype} != {dtype}:
        raise Unsupported(f"a convolution of several types (node {operation.node!r})")
    source, filters, (target,) = emitter.stored(array.id), emitter.stored(kernel.id), targets(emitter, operation)
    into, over, out = (
        [shape.strides[axis] for axis in axes]
        for shape, axes in (
            (array.shape, attributes.input),
            (kernel.shape, attributes.kernel),
            (operation.shape, attributes.output),
        )
    )
    groups = attributes.feature_groups
    made = _divided(operation.shape.sizes[attributes.output[1]], groups)
    features, batch = kernel.shape.sizes[attributes.kernel[1]], operation.shape.sizes[attributes.output[0]]
    spatial = [operation.shape.sizes[axis] for axis in attributes.output[2:]]
    lengths = [array.shape.sizes[axis] for axis in attributes.input[2:]]
    places = [(f"o{axis}", size) for axis, size in enumerate(spatial)]
    places_at = ((f"o{axis}", stride) for axis, stride in enumerate(out[2:]))
    to = address(target, ("b", out[0]), *places_at, elements=made * Size(groups), stride=out[1])
    each = "each" if dtype == "f32" else "eachAlone"
    fill = "filled(x)" if dtype == "f32" else "x"
    # Groups of one feature and one filter would leave nothing to the inner loop: features fill the vectors instead.
    if made == features == ONE and dtype == "f32" and into[1] == over[0] == out[1] == ONE:
        with counting(emitter, [("b", batch), *places]):
            _depthwise(emitter, operation, (source, filters, to), (into, over), lengths)
        for pointer in (source, filters, target):
            emitter.touch(pointer)
        return target
    # Filters are contiguous in most models, so the innermost loop reads and writes neighbours.
    with counting(emitter, [("b", batch), *places]):
        with counting(emitter, [("f", operation.shape.sizes[attributes.output[1]])]):
            emitter.line("*(", to, f" + f * {cpp(out[1])}) = 0;")
        with (
            _window(emitter, attributes.window, lengths),
            counting(emitter, [("g", Size(groups)), ("c", features)]),
        ):
            at = [(f"p{axis}", stride) for axis, stride in enumerate(into[2:])]
            read = address(source, ("b", into[0]), *at, ("c", into[1]), ("g", features * into[1]))
            emitter.line(f"const {C_TYPES[dtype]} x = *(", read, ");")
            steps = [(f"k{axis}", stride) for axis, stride in enumerate(over[2:])]
            weights = address(filters, *steps, ("c", over[1]), ("g", made * over[0]), elements=made, stride=over[0])
            emitter.line("const auto* const weights_at = ", weights, ";")
            emitter.line("auto* const sums = ", to, f" + g * {cpp(made * out[1])};")
            with emitter.braces(f"{each}({cpp(made)}, [&](auto at)", tail="});"):
                loaded, old = f"at.load(weights_at, {cpp(over[0])})", f"at.load(sums, {cpp(out[1])})"
                if over[0] == ONE and out[1] == ONE:
                    loaded, old = "at.load(weights_at)", "at.load(sums)"
                stride = "" if out[1] == ONE else f", {cpp(out[1])}"
                emitter.line(f"at.store(sums, {_added(dtype, fill, loaded, old)}{stride});")
    for pointer in (source, filters, target):
        emitter.touch(pointer)
    return target


def resample(emitter: Emitter, operation: Operation) -> str:
    """Each output pixel adds up its window, row by row; each lane has a channel."""
    image, weights, places = (emitter.stored(operand) for operand in operation.operands)
    target = emitter.target(operation)
    array, factors = (emitter.known[operand].shape for operand in operation.operands[:2])
    of_row, of_column, in_rows, in_columns = (factors.strides[axis] for axis in Resample.of(operation).axes)
    batch, rows, columns, channels = operation.shape.sizes
    sizes = [
        ("k0", factors.sizes[Resample.of(operation).axes[2]]),
        ("k1", factors.sizes[Resample.of(operation).axes[3]]),
    ]
    with counting(emitter, [("b", batch), ("o0", rows), ("o1", columns)]):
        starts, pixels = (
            address(places, elements=rows * columns),
            address(image, ("b", array.strides[0]), elements=array.strides[0]),
        )
        emitter.line("const float* const in = ", pixels, " + (", starts, f")[o0 * {cpp(columns)} + o1];")
        steps = (("o0", of_row), ("o1", of_column))
        window = (sizes[0][1], sizes[1][1])
        emitter.add(View("in", (*array.strides[1:3], ONE), (*window, channels)))
        reach = (window[0] + Size(-1)) * in_rows + (window[1] + Size(-1)) * in_columns + ONE
        emitter.line("const float* const weights_at = ", address(weights, *steps, elements=reach), ";")
        emitter.add(View("weights_at", (in_rows, in_columns), window))
        out = zip(("b", "o0", "o1"), operation.shape.strides, strict=False)
        emitter.line("float* const row = ", address(target, *out, elements=channels), ";")
        with emitter.braces(f"eachTogether({cpp(channels)}, [&]([[maybe_unused]] auto... at)", tail="});"):
            emitter.line("Vector totals[] = {at.fill(0.0f)...};")
            with counting(emitter, sizes):
                element = address("in", ("k0", array.strides[1]), ("k1", array.strides[2]), elements=channels)
                emitter.line("const float* const element = ", element, ";")
                weight = address("weights_at", ("k0", in_rows), ("k1", in_columns))
                emitter.line("const Vector weight = filled(*(", weight, "));")
                emitter.line("Vector* total = totals;")
                emitter.line("((*total = multiplyAdd(at.load(element), weight, *total), ++total), ...);")
            emitter.line("const Vector* sum = totals;")
            emitter.line("(at.store(row, *sum++), ...);")
    for pointer in (image, weights, places, target):
        emitter.touch(pointer)
    return target


_UNROLLED = 4
"""Elements of a window of `interpolate` that are written out: a loop over two takes longer than the sum."""


def interpolate(emitter: Emitter, operation: Operation) -> str:
    """Each element along the axis adds up those at its places; each lane has an element of the axes behind."""
    source, weights, places = (emitter.stored(operand) for operand in operation.operands)
    target, axis = emitter.target(operation), Along.of(operation).axis
    array, (elements, count) = (
        emitter.known[operation.operands[0]].shape,
        emitter.known[operation.operands[1]].shape.sizes,
    )
    inner = array.strides[axis]
    before = Shape("f32", array.sizes[:axis]).elements
    with counting(emitter, [("b", before), ("o", elements)]):
        whole = array.sizes[axis] * inner
        emitter.line("const float* const in = ", address(source, ("b", whole), elements=whole), ";")
        emitter.line("const float* const weights_at = ", address(weights, ("o", count), elements=count), ";")
        emitter.line("const std::int32_t* const places_at = ", address(places, ("o", count), elements=count), ";")
        out = (("b", elements * inner), ("o", inner))
        emitter.line("float* const row = ", address(target, *out, elements=inner), ";")
        with emitter.braces(f"eachTogether({cpp(inner)}, [&]([[maybe_unused]] auto... at)", tail="});"):
            emitter.line("Vector totals[] = {at.fill(0.0f)...};")
            if count.constant <= _UNROLLED:
                for number in range(count.constant):
                    with emitter.braces(""):
                        _weighed(emitter, str(number), inner)
            else:
                with counting(emitter, [("k", count)]):
                    _weighed(emitter, "k", inner)
            emitter.line("const Vector* sum = totals;")
            emitter.line("(at.store(row, *sum++), ...);")
    for pointer in (source, weights, places, target):
        emitter.touch(pointer)
    return target


def _weighed(emitter: Emitter, number: str, inner: Size) -> None:
    emitter.line(f"const float* const element = in + std::size_t(places_at[{number}]) * {cpp(inner)};")
    emitter.line(f"const Vector weight = filled(weights_at[{number}]);")
    emitter.line("Vector* total = totals;")
    emitter.line("((*total = multiplyAdd(at.load(element), weight, *total), ++total), ...);")


def _depthwise(
    emitter: Emitter, operation: Operation, pointers: tuple[str, str, Place], strides: tuple[list[Size], list[Size]],
    lengths: Sequence[Size],
) -> None:  # fmt: skip
    """One filter per feature, and contiguous features: each lane has one."""
    (source, filters, to), (into, over) = pointers, strides
    attributes = Convolution.of(operation)
    emitter.line("float* const row = ", to, ";")
    size = operation.shape.sizes[attributes.output[1]]
    with emitter.braces(f"eachTogether({cpp(size)}, [&]([[maybe_unused]] auto... places)", tail="});"):
        emitter.line("Vector totals[] = {places.fill(0.0f)...};")
        with _window(emitter, attributes.window, lengths):
            at = [(f"p{axis}", stride) for axis, stride in enumerate(into[2:])]
            emitter.line("const float* const in = ", address(source, ("b", into[0]), *at, elements=size), ";")
            steps = [(f"k{axis}", stride) for axis, stride in enumerate(over[2:])]
            emitter.line("const float* const weights_at = ", address(filters, *steps, elements=size), ";")
            emitter.line("Vector* total = totals;")
            emitter.line("((*total = multiplyAdd(places.load(in), places.load(weights_at), *total), ++total), ...);")
        emitter.line("const Vector* sum = totals;")
        emitter.line("(places.store(row, *sum++), ...);")


def _added(dtype: str, one: str, other: str, total: str) -> str:
    """The C++ of `total` plus the product of two numbers: float32 is rounded once, integers wrap around."""
    if dtype == "f32":
        return f"multiplyAdd({one}, {other}, {total})"
    return f"{total} + {one} * {other}" if dtype[0] == "f" else f"sumOf({total}, productOf({one}, {other}))"


def _divided(size: Size, by: int) -> Size:
    divided = size.divided(by)
    if divided is None:
        raise Unsupported("groups of different sizes")
    return divided


@contextmanager
def _window(emitter: Emitter, window: Sequence[Sequence[Any]], lengths: Sequence[Size]) -> Iterator[None]:
    """Loops over the elements of the window at o0, o1 ...; p0, p1 ... are their indices, which are within the array."""
    sides = list(enumerate(zip(window, lengths, strict=True)))
    moving = [(axis, side, length) for axis, (side, length) in sides if tuple(side) != _WHOLE]
    for axis, (side, _) in sides:
        if tuple(side) == _WHOLE:
            emitter.line(f"[[maybe_unused]] const std::size_t k{axis} = 0, p{axis} = o{axis};")
            emitter.add(Within(f"k{axis}", ONE))
            emitter.add(Let(f"p{axis}", ((f"o{axis}", ONE),)))
    emitter.flush()
    with ExitStack() as stack:
        for axis, side, length in moving:
            size, stride, low, high, dilation, base = map(as_size, side)
            stack.enter_context(counting(emitter, [(f"k{axis}", size)]))
            place = f"o{axis} * {cpp(stride)} + k{axis} * {cpp(dilation)}"
            before = cpp(low) if all(coefficient > 0 for _, coefficient in low.terms) else f"std::size_t({cpp(low)})"
            # Unsigned, so an index before the array is a large number: one comparison checks both ends.
            place = place if low == ZERO else f"{place} - {before}"
            if low == high == ZERO and base == ONE:
                emitter.line(f"const std::size_t p{axis} = {place};")
                emitter.add(Let(f"p{axis}", ((f"o{axis}", stride), (f"k{axis}", dilation))))
                continue
            emitter.line(f"const std::size_t q{axis} = {place};")
            inside = f"q{axis} >= {cpp(length * base)}"
            emitter.line(f"if ({inside}{f' || q{axis} % {cpp(base)} != 0' if base != ONE else ''}) continue;")
            emitter.line(f"const std::size_t p{axis} = q{axis}{f' / {cpp(base)}' if base != ONE else ''};")
            emitter.add(Within(f"p{axis}", length))
        yield


def reduce_window(emitter: Emitter, operation: Operation) -> str:
    if _by_vectors(operation):
        return _reduce_rows(emitter, operation)
    return _reduce_alone(emitter, operation)[0]


def reduce_windows(emitter: Emitter, operation: Operation) -> None:
    """A reduction of several arrays at once."""
    emitter.results[operation.id] = states(operation, _reduce_alone(emitter, operation))


def _by_vectors(operation: Operation) -> bool:
    """Whether windows are single elements along the last axis, and a function of the kernel library combines them."""
    if len(operation.operands) != 2 or operation.shape.dtype != "f32" or reducer(operation) not in COMBINED:
        return False
    return bool(Windows.of(operation).window) and tuple(Windows.of(operation).window[-1]) == _WHOLE


def _reduce_rows(emitter: Emitter, operation: Operation) -> str:
    combine, shape = COMBINED[reducer(operation) or ""], operation.shape
    array = emitter.known[operation.operands[0]].shape
    source, start = emitter.stored(operation.operands[0]), emitter.scalar(operation.operands[1])
    (target,), outer = targets(emitter, operation), list(range(shape.rank - 1))
    size, window = shape.sizes[-1], Windows.of(operation).window
    if (running := _running(window, array.sizes, shape.sizes)) is not None:
        _reduce_running(emitter, operation, running, source, start, target)
        return target
    counted = [(f"o{axis}", shape.sizes[axis]) for axis in outer]
    if outer and _is_row(window[outer[-1]]) and size.is_constant:
        # Windows along the second last axis move by one element and see no padding: both axes are one row.
        size, counted[-1] = size * counted[-1][1], (counted[-1][0], ONE)
    elif outer and _is_short(window[outer[-1]], array.strides[outer[-1]], size):
        _reduce_short(emitter, operation, source, start, target)
        return target
    with emitter.braces(""), counting(emitter, counted):
        to = address(target, *((f"o{axis}", shape.strides[axis]) for axis in outer), elements=size)
        emitter.line("float* const row = ", to, ";")
        with emitter.braces(f"eachTogether({cpp(size)}, [&]([[maybe_unused]] auto... places)", tail="});"):
            emitter.line("Vector totals[] = {places.fill(", start, ")...};")
            with _window(emitter, window[:-1], array.sizes[:-1]):
                steps = ((f"p{axis}", array.strides[axis]) for axis in outer)
                emitter.line("const float* const in = ", address(source, *steps, elements=size), ";")
                emitter.line("Vector* total = totals;")
                emitter.line(f"((*total = {combine}{{}}(*total, places.load(in)), ++total), ...);")
            emitter.line("const Vector* sum = totals;")
            emitter.line("(places.store(row, *sum++), ...);")
    for pointer in (source, target):
        emitter.touch(pointer)
    return target


def _reduce_running(
    emitter: Emitter, operation: Operation, running: _Running, source: str, start: Scalar, target: str
) -> None:
    """Windows of which each contains the one before it: the results so far stay in registers."""
    combine, shape = COMBINED[reducer(operation) or ""], operation.shape
    array, outer = emitter.known[operation.operands[0]].shape, range(shape.rank - 1)
    with (
        emitter.braces(""),
        counting(emitter, [(f"o{axis}", shape.sizes[axis]) for axis in outer if axis != running.axis]),
    ):
        size = shape.sizes[-1]
        with emitter.braces(f"eachTogether({cpp(size)}, [&]([[maybe_unused]] auto... places)", tail="});"):
            emitter.line("Vector totals[] = {places.fill(", start, ")...};")
            with running.windows(emitter, shape.sizes):
                with running.growing(emitter):
                    steps = [(f"{'p' if axis == running.axis else 'o'}{axis}", array.strides[axis]) for axis in outer]
                    emitter.line("const float* const in = ", address(source, *steps, elements=size), ";")
                    emitter.line("Vector* total = totals;")
                    emitter.line(f"((*total = {combine}{{}}(*total, places.load(in)), ++total), ...);")
                to = address(target, *((f"o{axis}", shape.strides[axis]) for axis in outer), elements=size)
                emitter.line("float* const row = ", to, ";")
                emitter.line("const Vector* sum = totals;")
                emitter.line("(places.store(row, *sum++), ...);")
    for pointer in (source, target):
        emitter.touch(pointer)


def _reduce_short(emitter: Emitter, operation: Operation, source: str, start: Scalar, target: str) -> None:
    """Rows of few elements: vectors hold those of several windows that follow one another."""
    combine, shape, window = COMBINED[reducer(operation) or ""], operation.shape, Windows.of(operation).window
    array, axis = emitter.known[operation.operands[0]].shape, shape.rank - 2
    step = as_size(window[axis][1]) * array.strides[axis]
    with emitter.braces(""), counting(emitter, [(f"o{each}", shape.sizes[each]) for each in range(axis)]):
        steps = [(f"o{each}", shape.strides[each]) for each in range(axis)]
        emitter.line("float* const row = ", address(target, *steps, elements=shape.strides[axis - 1]), ";")
        emitter.line(f"constexpr std::size_t o{axis} = 0;")
        emitter.add(Within(f"o{axis}", ONE))
        head = f"eachOfRows<{cpp(shape.sizes[-1])}>({cpp(shape.sizes[axis])}, [&]([[maybe_unused]] auto at)"
        with emitter.braces(head, tail="});"):
            emitter.line("Vector total = at.fill(", start, ");")
            with _window(emitter, window[:-1], array.sizes[:-1]):
                steps = [(f"p{each}", array.strides[each]) for each in range(axis + 1)]
                emitter.line("const float* const in = ", address(source, *steps), ";")
                emitter.line(f"total = {combine}{{}}(total, at.load(in, Apart<{cpp(step)}, 1>{{}}));")
            emitter.line("at.store(row, total);")
    for pointer in (source, target):
        emitter.touch(pointer)


def _is_short(side: Sequence[Any], stride: Size, size: Size) -> bool:
    """Whether windows along an axis hold short rows, not far apart, all inside of the array."""
    _, step, low, high, _, base = map(as_size, side)
    return base == ONE and low == high == ZERO and are_short(step * stride, size)


def _is_row(side: Sequence[Any]) -> bool:
    """Whether windows along an axis are one element apart, all inside the array."""
    _, stride, low, high, _, base = map(as_size, side)
    return stride == base == ONE and low == high == ZERO


def _reduce_alone(emitter: Emitter, operation: Operation) -> list[str]:
    """A reduction with any region, window by window; one running result if each window contains the one before it."""
    half = len(operation.operands) // 2
    arrays = [emitter.known[operand].shape for operand in operation.operands[:half]]
    sources = [emitter.stored(operand) for operand in operation.operands[:half]]
    starts = [emitter.scalar(operand) for operand in operation.operands[half:]]
    made, window, shape = targets(emitter, operation), Windows.of(operation).window, operation.shapes[0]
    names, types = [f"r{next(emitter.new)}" for _ in arrays], [C_TYPES[each.dtype] for each in arrays]
    running = _running(window, arrays[0].sizes, shape.sizes)
    places = [(f"o{axis}", size) for axis, size in enumerate(shape.sizes)]

    def combine() -> None:
        inside = [
            Stored(address(source, *((f"p{axis}", stride) for axis, stride in enumerate(array.strides))))
            for source, array in zip(sources, arrays, strict=True)
        ]
        is_backwards, totals = running is not None and running.backwards, map(Variable, names)
        arguments: list[Scalar] = [*inside, *totals] if is_backwards else [*totals, *inside]
        next_ = called(emitter, operation.regions[0], arguments)
        for type_, name, value in zip(types, names, next_, strict=True):
            emitter.line(f"const {type_} {name}_next = ", value, ";")
        for name in names:
            emitter.line(f"{name} = {name}_next;")

    def write() -> None:
        for pointer, name in zip(made, names, strict=True):
            to = address(pointer, *((f"o{axis}", stride) for axis, stride in enumerate(shape.strides)))
            emitter.line("*(", to, f") = {name};")

    outer = [place for axis, place in enumerate(places) if running is None or axis != running.axis]
    with counting(emitter, outer):
        for type_, name, start in zip(types, names, starts, strict=True):
            emitter.line(f"{type_} {name} = ", start, ";")
        if running is None:
            with _window(emitter, window, arrays[0].sizes):
                combine()
            write()
        else:
            with running.windows(emitter, shape.sizes):
                for axis in range(shape.rank):
                    if axis != running.axis:
                        emitter.line(f"[[maybe_unused]] const std::size_t p{axis} = o{axis};")
                        emitter.add(Let(f"p{axis}", ((f"o{axis}", ONE),)))
                with running.growing(emitter):
                    combine()
                write()
    for pointer in (*sources, *made):
        emitter.touch(pointer)
    return made


@dataclass(frozen=True, slots=True)
class _Running:
    """An axis along which each window contains the one before it, as in a running sum: one step makes it of that one.

    TensorFlow lowers cumsum to windows as long as the axis, which would take quadratic time.
    """

    axis: int
    size: Size
    """That of the axis."""
    empty: Size
    """Windows without elements, which come first."""
    backwards: bool
    """Whether windows end with the last element, so that the last one comes first."""

    @contextmanager
    def windows(self, emitter: Emitter, sizes: Sequence[Size]) -> Iterator[None]:
        """A loop over the windows: o of the axis is its place, t how many came before."""
        size = sizes[self.axis]
        with counting(emitter, [("t", size)]):
            place = f"{cpp(size)} - 1 - t" if self.backwards else "t"
            emitter.line(f"const std::size_t o{self.axis} = {place};")
            emitter.add(Within(f"o{self.axis}", size))
            yield

    @contextmanager
    def growing(self, emitter: Emitter) -> Iterator[None]:
        """Its new element is at p of the axis."""
        place = f"o{self.axis}" if self.backwards or self.empty == ZERO else f"o{self.axis} - {cpp(self.empty)}"
        with emitter.braces("" if self.empty == ZERO else f"if (t >= {cpp(self.empty)})"):
            emitter.line(f"const std::size_t p{self.axis} = {place};")
            emitter.add(Within(f"p{self.axis}", self.size))
            yield


def _running(window: Sequence[Sequence[Any]], sizes: Sequence[Size], made: Sequence[Size]) -> _Running | None:
    moving = [axis for axis, side in enumerate(window) if tuple(side) != _WHOLE]
    if len(moving) != 1:
        return None
    (axis,) = moving
    size, stride, low, high, dilation, base = map(as_size, window[axis])
    empty = made[axis] + Size(-1) * size
    if not (stride == dilation == base == ONE and sizes[axis] == size and empty.is_constant and empty.constant >= 0):
        return None
    padding = size + empty + Size(-1)
    if (low, high) == (padding, ZERO):
        return _Running(axis, size, empty, backwards=False)
    return _Running(axis, size, empty, backwards=True) if (low, high) == (ZERO, padding) else None
