"""Layers that the kernel library computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from tfaot_pkg.compiler.affine import as_size, cpp
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import literal
from tfaot_pkg.compiler.packing import packed_conv2d, packed_dense
from tfaot_pkg.compiler.program import Operation, Shape, Size
from tfaot_pkg.compiler.scratch import conv2d_max_pool_scratch, conv2d_scratch


def dense(emitter: Emitter, operation: Operation) -> str:
    source, weights = emitter.stored(operation.operands[0]), literal(emitter.known[operation.operands[1]])
    if operation.attributes["weights_axis"] == 1:
        weights = weights.T
    packed_at = emitter.constant(packed_dense(weights))
    bias = "nullptr"
    if len(operation.operands) > 2:
        bias = emitter.stored(operation.operands[2])
    rows = Shape("f32", operation.shape.sizes[:-1]).elements
    target = emitter.target(operation)
    emitter.touch(source)
    activation = f"Activation::{operation.attributes['activation']}"
    emitter.line(
        f"dense<{weights.shape[0]}, {weights.shape[1]}>(dispatch, {packed_at}, {bias}, {activation}, "
        f"{cpp(rows)}, {source}, {target});"
    )
    emitter.reaches(f"dense({weights.shape[0]}, {weights.shape[1]}, {activation}", rows)
    emitter.touch(target)
    return target


def conv2d(emitter: Emitter, operation: Operation) -> str:
    return _convolution(emitter, operation, "conv2d", ())


def conv2d_max_pool(emitter: Emitter, operation: Operation) -> str:
    return _convolution(emitter, operation, "conv2dMaxPool", operation.attributes["pool"])


def _convolution(emitter: Emitter, operation: Operation, function: str, pool: tuple[int, ...]) -> str:
    """A call of `function`, with the window of the pooling behind the convolution if there is one."""
    source, filters = emitter.stored(operation.operands[0]), literal(emitter.known[operation.operands[1]])
    groups, window = operation.attributes["groups"], operation.attributes["window"]
    packed_at = emitter.constant(packed_conv2d(filters, groups=groups))
    bias = emitter.stored(operation.operands[2]) if len(operation.operands) > 2 else "nullptr"
    target = emitter.target(operation)
    emitter.touch(source)
    windows = list(_windows(emitter, window))
    needed = max(
        conv2d_max_pool_scratch({**_named(each), "filters": filters.shape[3]}, _named(pool))
        if pool
        else conv2d_scratch({**_named(each), "filters": filters.shape[3]})
        for each in windows
    )
    is_constant = all(isinstance(number, int) for number in window)
    work = emitter.buffer("f32", Size(needed))
    with emitter.braces(""):
        kind = "constexpr" if is_constant else "const"
        emitter.line(f"{kind} Window window = {{{', '.join(cpp(as_size(number)) for number in window)}}};")
        if pool:
            emitter.line(f"constexpr Window pool = {{{', '.join(map(str, pool))}}};")
        pooled = ", pool" if pool else ""
        activation = f"Activation::{operation.attributes['activation']}"
        layer = f"window, {filters.shape[3]}, {groups}"
        # Computed here and in C++: code that would work in too little memory does not compile.
        if is_constant:
            plain = f"{{{layer}, nullptr, nullptr, Activation::none}}"
            emitter.line(f"static_assert({function}Scratch({plain}{pooled}) <= {needed});")
        images = cpp(operation.shape.sizes[0])
        emitter.line(
            f"{function}(dispatch, {{{layer}, {packed_at}, {bias}, {activation}}}{pooled}, "
            f"{images}, {source}, {target}, {work});"
        )
    if not is_constant:
        emitter.reached["products()"] = None  # any number of places of the output
    # What the library does with a window beside that depends on the width of the output alone (convolvingOf).
    for each in dict.fromkeys((min(windows, key=_out_width), max(windows, key=_out_width))):
        whole = f"{{{{{', '.join(map(str, each))}}}, {filters.shape[3]}, {groups}, nullptr, nullptr, {activation}}}"
        if pool:
            emitter.reached[f"conv2dMaxPool({whole}, {{{', '.join(map(str, pool))}}})"] = None
        else:
            emitter.reaches(f"conv2d({whole}", operation.shape.sizes[0])
    for pointer in (source, target, work):
        emitter.touch(pointer)
    return target


def _windows(emitter: Emitter, window: Sequence[int | Size]) -> Iterator[tuple[int, ...]]:
    """A window at all sizes of its symbols: the memory that a convolution needs does not always grow with them."""
    names = {name for number in window for monomial, _ in as_size(number).terms for name in monomial}
    symbols = [each for each in emitter.symbols if each.name in names]
    for sizes in product(*(range(each.minimum, each.maximum + 1) for each in symbols)):
        known = dict(zip((each.name for each in symbols), sizes, strict=True))
        yield tuple(as_size(number).at(0, known) for number in window)


def _out_width(window: tuple[int, ...]) -> int:
    return _named(window)["out_width"]


def _named(window: tuple[int, ...]) -> dict[str, int]:
    """The numbers of a Window (kernels.h) by the names that scratch.py has for them."""
    names = "in_height in_width channels out_height out_width height width stride_height stride_width".split()
    names += "dilation_height dilation_width pad_top pad_left".split()
    return dict(zip(names, window, strict=True)) if window else {}


def max_pool(emitter: Emitter, operation: Operation) -> str:
    source, target = emitter.stored(operation.operands[0]), emitter.target(operation)
    emitter.touch(source)
    window = ", ".join(map(str, operation.attributes["window"]))
    emitter.line(f"maxPool({{{window}}}, {cpp(operation.shape.sizes[0])}, {source}, {target});")
    emitter.touch(target)
    return target


def softmax(emitter: Emitter, operation: Operation) -> str:
    source, size = emitter.stored(operation.operands[0]), operation.shape.sizes[-1]
    target = emitter.target(operation)
    emitter.touch(source)
    rows = Shape("f32", operation.shape.sizes[:-1]).elements
    if size.is_constant:
        many = "" if rows != Size(0, 1) else ", false"  # one for each row of the batch: the end of a classifier
        emitter.line(f"softmax<{size.constant}{many}>({cpp(rows)}, {source}, {target});")
    else:
        emitter.line(f"softmax({cpp(rows)}, {cpp(size)}, {source}, {target});")
    emitter.touch(target)
    return target


def top_k(emitter: Emitter, operation: Operation) -> None:
    source = emitter.known[operation.operands[0]]
    pointer, size, k = emitter.stored(source.id), source.shape.sizes[-1], cpp(as_size(operation.attributes["k"]))
    values, indices = (emitter.buffer(shape.dtype, shape.elements) for shape in operation.shapes)
    rows = Shape("f32", source.shape.sizes[:-1]).elements
    emitter.touch(pointer)
    largest = "true" if operation.attributes["largest"] else "false"
    emitter.line(f"topK<{largest}>({cpp(rows)}, {cpp(size)}, {k}, {pointer}, {values}, {indices});")
    emitter.results[operation.id] = [
        State(name, shape, (name,)) for name, shape in zip((values, indices), operation.shapes, strict=True)
    ]
