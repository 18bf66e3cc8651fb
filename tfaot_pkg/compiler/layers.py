"""Calls of the kernel library: layers, forests of decision trees, top-k.

Weights are packed here, when a program is built, into the same bytes as by `pack` and `packConv2d` of
tfaot_kernels/kernels.h, which describes their order. One order serves all targets and batch sizes (decision 024).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler.affine import as_size, plain
from tfaot_pkg.compiler.attributes import (
    Along,
    Conv2d,
    Conv2dMaxPool,
    Dense,
    Layer,
    MaxPool,
    TopK,
    TransposedConv2d,
    Trees,
)
from tfaot_pkg.compiler.chains import softmax_of_rows
from tfaot_pkg.compiler.elements import Place, Variable
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import C_TYPES, literal
from tfaot_pkg.compiler.forests import pack
from tfaot_pkg.compiler.image_windows import FEW_FILTERS, MOST_TAPS
from tfaot_pkg.compiler.instructions import Argument, Struct, Written
from tfaot_pkg.compiler.narrow import packed_narrow
from tfaot_pkg.compiler.pieces import Piece
from tfaot_pkg.compiler.program import BATCH, ONE, ROWS, Extent, Operation, Shape, Size
from tfaot_pkg.compiler.rows import are_short
from tfaot_pkg.compiler.sharing import TEAM, by_team, is_divided
from tfaot_pkg.compiler.sparse_layers import lists_of, sparse_dense

# kRowsAtATime and kFloats of tfaot_kernels/scratch.h. A static_assert in generated code compares the results of both.
_ROWS_AT_A_TIME = 64
_FLOATS_AT_A_TIME = 16384
_FLOATS_OF_PLANES = 8192  # kFloats of Planes, likewise

Numbers = Mapping[str, int]


def conv2d_scratch(conv: Numbers) -> int:
    """The floats of conv2dScratch: a copy of some lines of the input between zeros, if windows cover padding."""
    return max(_scratch_of_lines(conv), planes_scratch(conv) if _may_place(conv) else 0)


def _scratch_of_lines(conv: Numbers) -> int:
    lines, columns = reach(conv, "height", 1), reach(conv, "width", conv["out_width"])
    whole = reach(conv, "height", conv["out_height"])
    inside = columns <= conv["in_width"] and whole <= conv["in_height"]
    if inside and not conv["pad_top"] and not conv["pad_left"]:
        return 0
    most = _FLOATS_AT_A_TIME // (columns * conv["channels"])
    fitting = (most - lines) // conv["stride_height"] + 1 if most > lines else 1
    at_a_time = min(max(fitting, -(-_ROWS_AT_A_TIME // conv["out_width"])), conv["out_height"])
    return ((at_a_time - 1) * conv["stride_height"] + lines) * columns * conv["channels"]


def _may_place(conv: Numbers) -> bool:
    """mayPlace: whether there are so few filters that windows may be computed side by side."""
    taps = conv["height"] * conv["width"]
    return conv["groups"] == 1 and taps <= MOST_TAPS and conv["filters"] <= (2 if taps == 1 else FEW_FILTERS)


def planes_scratch(conv: Numbers, *, transposed: bool = False) -> int:
    """The floats of Planes: a line of the image, planes of some lines, and sums of their windows."""
    rows, columns = (_Placing.of(conv, axis, transposed=transposed) for axis in ("height", "width"))
    line, reached = conv["channels"] * rows.stride * columns.stride, columns.reached
    most = _FLOATS_OF_PLANES // (line * rows.reached)
    fitting = most - reached if most > reached + 4 * PANEL else 4 * PANEL
    pointwise = conv["height"] * conv["width"] * rows.stride * columns.stride == 1
    width = (fitting if pointwise else min(fitting, columns.places)) - 1 + reached
    lines = _FLOATS_OF_PLANES // (line * width)
    chosen = lines - rows.reached if lines > 2 * rows.reached else rows.reached
    at_a_time = 1 if pointwise else min(chosen, rows.places)
    across = conv["channels"] * columns.stride
    planes = rows.stride * across * ((at_a_time - 1 + rows.reached) * width + PANEL)
    sums = conv["filters"] * columns.phases * (at_a_time * width + PANEL)
    return (width + 2 * PANEL) * across + planes + sums


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placing:
    """Placing: an axis of a convolution, or of a transposed one, with `phases` pixels for each place of a window."""

    places: int
    stride: int
    phases: int
    reached: int

    @staticmethod
    def of(conv: Numbers, axis: str, *, transposed: bool) -> _Placing:
        made, kernel, stride = conv[f"out_{axis}"], conv[axis], conv[f"stride_{axis}"]
        if not transposed:
            return _Placing(
                places=made, stride=stride, phases=1, reached=(kernel - 1) * conv[f"dilation_{axis}"] // stride + 1
            )
        pad = conv["pad_top" if axis == "height" else "pad_left"]
        ends = [
            pad // stride - (pad - phase) // stride + -(-(kernel - (pad - phase) % stride) // stride)
            for phase in range(stride)
        ]
        return _Placing(places=-(-made // stride), stride=1, phases=stride, reached=max(ends))


def conv2d_max_pool_scratch(conv: Numbers, pool: Numbers) -> int:
    """conv2dMaxPoolScratch: the same, and the lines of the convolution that wait to be pooled."""
    at_a_time = min(1 + _ROWS_AT_A_TIME // (pool["stride_height"] * conv["out_width"]), pool["out_height"])
    return conv2d_scratch(conv) + reach(pool, "height", at_a_time) * conv["out_width"] * conv["filters"]


def reach(layer: Numbers, axis: str, windows: int) -> int:
    """Elements along an axis that `windows` successive windows cover."""
    kernel = (layer[axis] - 1) * layer[f"dilation_{axis}"] + 1
    return (windows - 1) * layer[f"stride_{axis}"] + kernel


PANEL = 16
_IN_TREE = 4
"""The most outputs of `denseInTree`."""
_IN_REGISTERS = tuple(
    f"Activation::{name}"
    for name in (
        "elu", "gelu_erf", "gelu_tanh", "hard_swish", "selu", "sigmoid", "softplus", "swish", "tanh",
    )
)  # fmt: skip
"""Activations that take no number; `none` and `relu` need no call in any case."""


def packed_dense(weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weights of shape (inputs, outputs), packed to (panels, inputs, PANEL), with zeros after the last column."""
    rows, columns = weights.shape
    panels = -(-columns // PANEL)
    padded = np.zeros((rows, panels * PANEL), np.float32)
    padded[:, :columns] = weights
    return np.ascontiguousarray(padded.reshape(rows, panels, PANEL).transpose(1, 0, 2))


def packed_conv2d(filters: NDArray[np.float32], *, groups: int = 1) -> NDArray[np.float32]:
    """Filters of shape (height, width, channels / groups, filters), packed into one dimension, group after group.

    A depthwise convolution's filters of shape (height, width, channels, multiplier) are reshaped to
    (height, width, 1, channels * multiplier) first; with multiplier 1 they stay in order.
    """
    height, width, depth, count = filters.shape
    if groups > 1 and depth == 1 and count == groups:
        return np.ascontiguousarray(filters, np.float32).ravel()
    matrix = filters.reshape(height * width * depth, groups, count // groups)
    return np.concatenate([packed_dense(matrix[:, group]).ravel() for group in range(groups)])


def dense(emitter: Emitter, operation: Operation) -> str:
    source, weights = emitter.stored(operation.operands[0]), literal(emitter.known[operation.operands[1]])
    # Weights [outputs, inputs], as PyTorch stores them.
    return _dense(emitter, operation, source, weights.T if Dense.of(operation).weights_axis == 1 else weights)


def inputs_of(emitter: Emitter, operation: Operation) -> int:
    """How many weights an output has."""
    return math.prod(size.constant for size in emitter.known[operation.operands[1]].shape.sizes[:-1])


def narrow_dense(emitter: Emitter, operation: Operation) -> str:
    weights, others = literal(emitter.known[operation.operands[1]]), list(operation.operands[2:])
    inputs, outputs = weights.shape
    given = literal(emitter.known[others.pop(0)]) if weights.dtype == np.int8 else None
    packed, scales = packed_narrow(weights, given)
    scales_at = "nullptr" if scales is None else emitter.constants.address(scales)
    bias: Piece = Place(emitter.stored(others[0]), elements=Size(outputs)) if others else "nullptr"
    source, target = emitter.stored(operation.operands[0]), emitter.target(operation)
    emitter.touch(source)
    activation = f"Activation::{Layer.of(operation).activation}"
    numbers = f"{inputs}, {outputs}, {emitter.constants.address(packed)}, {scales_at}"
    rows = Shape("f32", operation.shape.sizes[:-1]).elements
    read, written = Place(source, elements=rows * Size(inputs)), Place(target, elements=rows * Size(outputs))
    emitter.call("narrowDense", "dispatch", Struct((numbers, bias, activation)), rows, read, Written(written))
    emitter.reached[f"activating({activation})"] = None
    for pointer in (source, target):
        emitter.touch(pointer)
    return target


def _is_in_tree(inputs: int, outputs: int) -> bool:
    """Whether a dense layer's products are added in the tree of a row's sums (`denseInTree` of the kernel library)."""
    return outputs <= _IN_TREE and inputs >= outputs * PANEL


def _dense(emitter: Emitter, operation: Operation, source: str, weights: NDArray[np.float32]) -> str:
    inputs, outputs = weights.shape
    in_tree = _is_in_tree(inputs, outputs)
    packed = emitter.constants.place(np.ascontiguousarray(weights.T) if in_tree else packed_dense(weights))
    bias = bias_of_layer(emitter, operation, outputs)
    lists = None if in_tree else lists_of(emitter, operation, weights)
    if lists is not None:
        return sparse_dense(emitter, operation, source, packed, bias, lists)
    rows = Shape("f32", operation.shape.sizes[:-1]).elements
    target = emitter.target(operation)
    emitter.touch(source)
    activation = f"Activation::{Layer.of(operation).activation}"
    function, known = "denseInTree" if in_tree else "dense", [str(inputs), str(outputs)]
    # One row, as a batch often is, is activated in registers: one panel of weights, which has no parts.
    in_registers = rows in (ROWS, ONE) and outputs <= PANEL and activation in _IN_REGISTERS
    if in_registers:
        known.append(activation)
    read, written = Place(source, elements=rows * Size(inputs)), Place(target, elements=rows * Size(outputs))
    arguments = ("dispatch", packed, bias, activation, rows, read, Written(written))
    called = f"{function}<{', '.join(known)}>"
    if not in_tree and not in_registers and is_divided(emitter, operation):
        emitter.call(by_team(emitter, called, 0), TEAM, *arguments)
    else:
        emitter.call(called, *arguments)
    if in_tree:
        emitter.reached[f"activating({activation})"] = None
    else:
        reaches(emitter, f"dense({inputs}, {outputs}, {activation}", rows)
    emitter.touch(target)
    return target


def reaches(emitter: Emitter, call: str, rows: Size) -> None:
    """Record that a layer gets a number of rows; `call` is the beginning of a call of Reached."""
    constant, per_row, others = 0, 0, False
    for monomial, factor in rows.terms:
        if monomial == () and factor > 0:
            constant = factor
        elif monomial == (BATCH,):
            per_row = factor
        else:
            others = True
    # Layers compute at most kMostRowsAtATime rows at a time, which bounds numbers that are unknown here.
    known = "0, 1, kMostRowsAtATime" if others else f"{constant}, {per_row}, kRows"
    emitter.reached[f"{call}, {{{known}}})"] = None


def bias_of_layer(emitter: Emitter, operation: Operation, outputs: int, *, behind: int = 0) -> Piece:
    """The bias of a layer with so many operands behind it, or a null pointer."""
    if len(operation.operands) - behind <= 2:
        return "nullptr"
    return Place(emitter.stored(operation.operands[2]), elements=Size(outputs))


def is_pointwise(operation: Operation, filters: Shape) -> bool:
    """Whether each pixel of a convolution depends only on the same pixel of the image: a product of all pixels."""
    return has_one_pixel(Conv2d.of(operation).window, filters)


def has_one_pixel(given: Sequence[int | Size], filters: Shape) -> bool:
    window = named(given)
    moves = (window["stride_height"], window["stride_width"], window["pad_top"], window["pad_left"])
    same = (window["in_height"], window["in_width"]) == (window["out_height"], window["out_width"])
    return filters.sizes[:2] == (ONE, ONE) and moves == (1, 1, 0, 0) and same


def conv2d(emitter: Emitter, operation: Operation) -> str:
    given = emitter.known[operation.operands[1]]
    if is_pointwise(operation, given.shape) and Conv2d.of(operation).groups == 1:
        filters = literal(given)
        if _is_in_tree(*filters.shape[2:]):
            return _dense(emitter, operation, emitter.stored(operation.operands[0]), filters[0, 0])
    own = Conv2d.of(operation)
    return _convolution(emitter, operation, "conv2d", window=own.window, groups=own.groups)


def transposed_conv2d(emitter: Emitter, operation: Operation) -> str:
    image, given = emitter.known[operation.operands[0]].shape, TransposedConv2d.of(operation)
    (height, _, top, _, _, down), (width, _, left, _, _, right) = given.sides
    made = (*image.sizes[1:], *operation.shape.sizes[1:3])
    window = (*map(plain, made), height, width, down, right, 1, 1, top, left)
    return _convolution(emitter, operation, "transposedConv2d", window=window)


def conv2d_max_pool(emitter: Emitter, operation: Operation) -> str:
    given = Conv2dMaxPool.of(operation)
    pool = MaxPool(window=given.pool, keeps_nan=given.keeps_nan)
    return _convolution(emitter, operation, "conv2dMaxPool", window=given.window, groups=given.groups, pool=pool)


def _scratch(function: str, conv: Numbers, pool: Numbers) -> int:
    """The floats that `function` of the kernel library needs."""
    if function == "transposedConv2d":
        return planes_scratch(conv, transposed=True)
    return conv2d_max_pool_scratch(conv, pool) if pool else conv2d_scratch(conv)


def _convolution(
    emitter: Emitter,
    operation: Operation,
    function: str,
    *,
    window: Sequence[int | Size],
    groups: int = 1,
    pool: MaxPool | None = None,
) -> str:
    """A call of `function`, with the pooling after the convolution if there is one."""
    source, filters = emitter.stored(operation.operands[0]), literal(emitter.known[operation.operands[1]])
    packed = emitter.constants.place(packed_conv2d(filters, groups=groups))
    bias = bias_of_layer(emitter, operation, filters.shape[3])
    target = emitter.target(operation)
    emitter.touch(source)
    windows = list(windows_of(emitter, window))
    fixed = {"filters": filters.shape[3], "groups": groups}
    needed = max(_scratch(function, {**named(each), **fixed}, named(pool.window if pool else ())) for each in windows)
    is_constant = all(isinstance(number, int) for number in window)
    work = emitter.buffer("f32", Size(needed))
    with emitter.block():
        kind = "constexpr" if is_constant else "const"
        emitter.declare("window", *Struct(tuple(map(as_size, window))).pieces, kind=f"{kind} Window")
        if pool:
            emitter.declare("pool", *Struct(tuple(map(Size, pool.window))).pieces, kind="constexpr Window")
        pooled = ", pool" if pool else ""
        activation = f"Activation::{Layer.of(operation).activation}"
        # Computed here and in C++, so that code with too little memory does not compile.
        if is_constant:
            plain = f"{{window, {filters.shape[3]}, {groups}, nullptr, nullptr, Activation::none}}"
            emitter.remark(f"static_assert({function}Scratch({plain}{pooled}) <= {needed});")
        read = Place(source, elements=emitter.known[operation.operands[0]].shape.elements)
        written, room = Place(target, elements=operation.shape.elements), Place(work, elements=Size(needed))
        called = Struct((Variable("window"), Size(filters.shape[3]), Size(groups), packed, bias, activation))
        rest = (operation.shape.sizes[0], read, Written(written), Written(room))
        arguments: list[Argument] = ["dispatch", called, *([Variable("pool")] if pool else []), *rest]
        name = f"{function}<true>" if pool and pool.keeps_nan else function
        # A transposed convolution with few filters is too small to be divided.
        if function != "transposedConv2d" and is_divided(emitter, operation):
            emitter.call(by_team(emitter, name, needed), TEAM, *arguments)
        else:
            emitter.call(name, *arguments)
    if not is_constant and function != "transposedConv2d":
        emitter.reached["products()"] = None  # any number of output pixels
    # Beside that, only the width of the output decides which functions the library calls (convolvingOf).
    for each in dict.fromkeys((min(windows, key=_out_width), max(windows, key=_out_width))):
        whole = f"{{{{{', '.join(map(str, each))}}}, {filters.shape[3]}, {groups}, nullptr, nullptr, {activation}}}"
        if pool:
            emitter.reached[f"conv2dMaxPool({whole}, {{{', '.join(map(str, pool.window))}}})"] = None
        elif function == "transposedConv2d":
            emitter.reached[f"transposedConv2d({whole})"] = None
        else:
            reaches(emitter, f"conv2d({whole}", operation.shape.sizes[0])
    for pointer in (source, target, work):
        emitter.touch(pointer)
    return target


def windows_of(emitter: Emitter, window: Sequence[int | Size]) -> Iterator[tuple[int, ...]]:
    """A window at all sizes of its symbols: the memory that a convolution needs may shrink as they grow."""
    names = {name for number in window for monomial, _ in as_size(number).terms for name in monomial}
    symbols = [each for each in emitter.program.symbols if each.name in names]
    for sizes in product(*(range(each.minimum, each.maximum + 1) for each in symbols)):
        known = dict(zip((each.name for each in symbols), sizes, strict=True))
        yield tuple(as_size(number).at(0, known) for number in window)


def _out_width(window: tuple[int, ...]) -> int:
    return named(window)["out_width"]


_N = TypeVar("_N", bound=Extent)


def named(window: Sequence[_N]) -> dict[str, _N]:
    """The numbers of a Window (kernels.h) by the names that the functions above use."""
    names = "in_height in_width channels out_height out_width height width stride_height stride_width".split()
    names += "dilation_height dilation_width pad_top pad_left".split()
    return dict(zip(names, window, strict=True)) if window else {}


def max_pool(emitter: Emitter, operation: Operation) -> str:
    source, target = emitter.stored(operation.operands[0]), emitter.target(operation)
    emitter.touch(source)
    pool = MaxPool.of(operation)
    given = named(pool.window)
    function, step = "maxPool<true>" if pool.keeps_nan else "maxPool", given["stride_width"] * given["channels"]
    inside = not given["pad_left"] and reach(given, "width", given["out_width"]) <= given["in_width"]
    if inside and operation.shape.dtype == "f32" and are_short(Size(step), Size(given["channels"])):
        function = f"maxPoolOfFew<{given['channels']}, {step}{', true' if pool.keeps_nan else ''}>"
    read = Place(source, elements=emitter.known[operation.operands[0]].shape.elements)
    written = Place(target, elements=operation.shape.elements)
    emitter.call(function, Struct(tuple(map(Size, pool.window))), operation.shape.sizes[0], read, Written(written))
    emitter.touch(target)
    return target


def softmax(emitter: Emitter, operation: Operation) -> str:
    axis = Along.of(operation).axis
    source, size = emitter.stored(operation.operands[0]), operation.shape.sizes[axis]
    target = emitter.target(operation)
    emitter.touch(source)
    rows = Shape("f32", operation.shape.sizes[:axis]).elements
    read, written = (Place(pointer, elements=operation.shape.elements) for pointer in (source, target))
    if axis < operation.shape.rank - 1:
        columns = operation.shape.strides[axis]
        emitter.call("softmaxOfColumns", rows, size, columns, read, Written(written))
    elif size.is_constant:
        emitter.nest_of(softmax_of_rows(rows, size.constant, source, target))
    else:
        emitter.call("softmax", rows, size, read, Written(written))
    emitter.touch(target)
    return target


def top_k(emitter: Emitter, operation: Operation) -> None:
    source = emitter.known[operation.operands[0]]
    pointer, size, k = emitter.stored(source.id), source.shape.sizes[-1], as_size(TopK.of(operation).k)
    values, indices = (emitter.buffer(shape.dtype, shape.elements) for shape in operation.shapes)
    rows = Shape("f32", source.shape.sizes[:-1]).elements
    emitter.touch(pointer)
    largest = "true" if TopK.of(operation).largest else "false"
    zeros = {"equal": "Zeros::kEqual", "signed": "Zeros::kSigned"}[TopK.of(operation).zeros]
    read = Place(pointer, elements=source.shape.elements)
    made, places = (Place(each, elements=operation.shapes[0].elements) for each in (values, indices))
    emitter.call(f"topK<{largest}, {zeros}>", rows, size, k, read, Written(made), Written(places))
    emitter.results[operation.id] = [
        State(name, shape, (name,)) for name, shape in zip((values, indices), operation.shapes, strict=True)
    ]


_WIDEST = 32
"""The rows whose ranks the kernel library keeps at a time (kWide of trees.h)."""


def trees(emitter: Emitter, operation: Operation) -> str:
    """The call of the kernel library that sums the trees."""
    forest = Trees.of(operation).forest
    packed = pack(forest)
    source, target = emitter.stored(operation.operands[0]), emitter.target(operation)
    keys = emitter.buffer("s8", Size(_WIDEST * max(1, packed.columns)))
    at = {name: emitter.constants.place(values) for name, values in packed.arrays.items()}
    number, total = emitter.known[operation.operands[0]].shape.dtype, operation.shape.dtype
    sizes = [forest.features, forest.outputs, forest.values.shape[1], len(forest.roots), packed.scales, packed.derived]
    shared = ("scale", "boundaries", "sets", "change", "tables", "target", "values", "base")
    for pointer in (source, keys):
        emitter.touch(pointer)
    with emitter.block():
        types = f"{C_TYPES[number]}, {C_TYPES[total]}"
        whole = Struct((*map(Size, sizes), *(at[each] for each in shared)))
        emitter.declare("forest", *whole.pieces, kind=f"const Forest<{types}>")
        if packed.complete:
            column = "std::uint16_t" if packed.wide else "std::uint8_t"
            emitter.declare("trees", "{", at["nodes"], "}", kind=f"const CompleteTrees<{packed.complete}, {column}>")
        else:
            own = Struct(tuple(at[each] for each in ("branches", "sides", "first", "leaf_of", "depths")))
            emitter.declare("trees", *own.pieces, kind=f"const AnyTrees<{'true' if packed.small else 'false'}>")
        read = Place(source, elements=emitter.known[operation.operands[0]].shape.elements)
        written = Place(target, elements=operation.shape.elements)
        room = Place(keys, elements=emitter.buffers[keys].elements)
        emitter.call(
            "sumTrees",
            Variable("forest"),
            Variable("trees"),
            operation.shape.sizes[0],
            read,
            Written(written),
            Written(room),
        )
    for pointer in (source, target, keys):
        emitter.touch(pointer)
    return target
