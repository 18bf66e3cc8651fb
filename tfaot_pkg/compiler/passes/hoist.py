"""Layers of a loop that need not be computed in each iteration.

Those that read one step of an array from outside the loop are computed before it, for all steps: so the products of a
recurrent layer with its inputs are one large product (decision 038). If the array was brought into the order of steps,
it is not: the loop reads the results out of order, and GRU towers take 0.98 of their time. Those of a state that begins
as zeros are their bias in the first iteration: GRU towers take 0.96 of their time without the product of zeros
(decision 070).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tfaot_pkg.compiler.attributes import Dimensions, Layer, Sizes
from tfaot_pkg.compiler.program import BATCH, ONE, Number, Operation, Region, Shape, Size, Symbol, used
from tfaot_pkg.compiler.use_def import Look

_MOST = 1 << 14
"""Elements per row, 64 KiB, that may be computed before a loop: more would evict the loop's weights from the cache."""
_LAYERS = frozenset({"conv2d", "dense"})
"""Layers that return their bias for zeros."""


def hoisted(region: Region, outside: Mapping[int, Operation], ids: Iterator[int], symbols: Sequence[Symbol]) -> Region:
    """`region` with layers in front of its loops, and loops that compute no products of a first state of zeros."""
    made: list[Operation] = []
    look = Look(region, outside, ids)
    for operation in region.operations:
        if operation.opcode != "while":
            made.append(operation)
            continue
        body = operation.regions[0]
        before: list[Operation] = []
        inside: list[Operation] = []
        within = Look(body, look.known, ids)
        own = {each.id for each in body.operations}
        for each in body.operations:
            found = _steps(within, each, own, symbols) if each.opcode == "dense" else None
            if found is None:
                inside.append(each)
                continue
            path = _path(within, found)
            layers = _before(within, each, path[0] if path else found, own, ids)
            before += layers
            inside += _step_of(each, layers[-1], path, found, ids)
        made += before
        body = replace(body, operations=used(inside, body.results))
        loop = replace(operation, regions=(body, *operation.regions[1:]))
        loop = _without_zeros(look, loop, ids)
        made += look.new
        look.new.clear()
        made.append(loop)
    return Region(operations=tuple(made), results=region.results)


def _steps(look: Look, layer: Operation, own: set[int], symbols: Sequence[Symbol]) -> Operation | None:
    """The slice of one step that `layer` reads from an array of all steps, which is computed outside the loop."""
    step = look.known[layer.operands[0]]
    while step.opcode == "reshape":
        step = look.known[step.operands[0]]
    if step.opcode != "dynamic-slice" or step.operands[0] in own:
        return None
    steps, inner = look.known[step.operands[0]].shape, look.known[layer.operands[0]].shape.sizes[-1]
    columns = layer.shape.sizes[-1].constant
    # One step is a whole entry of the first axis, whose last axis the layer multiplies: rows stay rows.
    if step.shape.sizes != (ONE, *steps.sizes[1:]) or steps.sizes[-1] != inner or steps.sizes[0].grows:
        return None
    if any(each in own and look.constant(each) is None for each in layer.operands[1:]):
        return None
    rows = Shape("f32", steps.sizes[:-1]).elements
    # A part that does not grow with the batch has no number of elements per row, which the limit counts.
    alone = any(BATCH not in monomial for monomial, _ in rows.terms)
    return step if not alone and rows.per_row.most(0, symbols) * columns <= _MOST else None


def _path(look: Look, step: Operation) -> list[Operation]:
    """The operations that bring an array into the order that `step` cuts; rows of the last axis stay whole."""
    path: list[Operation] = []
    value = step.operands[0]
    while True:
        each = look.known[value]
        if each.opcode not in ("reverse", "transpose"):
            return path[::-1]
        last, dimensions = each.shape.rank - 1, Dimensions.of(each).dimensions
        if not (dimensions[-1:] == (last,) if each.opcode == "transpose" else last not in dimensions):
            return path[::-1]
        path.append(each)
        value = each.operands[0]


def _before(look: Look, layer: Operation, read: Operation, own: set[int], ids: Iterator[int]) -> list[Operation]:
    """The layer of all rows that `read` reads, after copies of the constants of the layer."""
    made: list[Operation] = []
    operands = [read.operands[0]]
    for operand in layer.operands[1:]:
        if operand in own:
            made.append(replace(look.known[operand], id=next(ids)))
        operands.append(made[-1].id if operand in own else operand)
    rows = look.known[read.operands[0]].shape.sizes[:-1]
    shape = Shape("f32", (*rows, layer.shape.sizes[-1]))
    made.append(replace(layer, id=next(ids), type=shape, operands=tuple(operands)))
    return made


def _step_of(
    layer: Operation, whole: Operation, path: Sequence[Operation], step: Operation, ids: Iterator[int]
) -> list[Operation]:
    """The step of the layer's results that `step` was of its inputs."""
    made = [whole]
    for each in path:
        shape = Shape("f32", (*each.shape.sizes[:-1], layer.shape.sizes[-1]))
        made.append(replace(each, id=next(ids), type=shape, operands=(made[-1].id,)))
    sizes: tuple[Size, ...] = (ONE, *made[-1].shape.sizes[1:])
    cut = replace(
        step, id=next(ids), type=Shape("f32", sizes), operands=(made[-1].id, *step.operands[1:]),
        attributes=Sizes(sizes=sizes),
    )  # fmt: skip
    reshaped = Operation(id=layer.id, opcode="reshape", type=layer.shape, operands=(cut.id,), node=layer.node)
    return [*made[1:], cut, reshaped]


def _without_zeros(look: Look, loop: Operation, ids: Iterator[int]) -> Operation:
    """`loop` with one more state, whether an iteration is the first one, which computes no product of zeros."""
    body, condition = loop.regions
    within = Look(body, look.known, ids)
    zeros = {each.id for each in body.parameters if look.scalar(loop.operands[Number.of(each).number]) == 0}
    products = {each.id for each in body.operations if each.opcode in _LAYERS and _is_bias(within, each, zeros)}
    if not products:
        return loop
    truth = Shape("pred", ())
    attributes = Number(number=len(loop.operands))
    first, tested = (
        Operation(id=next(ids), opcode="parameter", type=truth, attributes=attributes, node=loop.node) for _ in range(2)
    )
    nothing = look.add_constant(np.array(0, np.float32), loop)
    operations = [_unless(first, each, nothing, ids) if each.id in products else each for each in body.operations]
    results = (*body.results, look.add_constant(np.array(False), loop))
    body = Region(operations=(first, *operations), results=results)
    condition = replace(condition, operations=(tested, *condition.operations))
    operands = (*loop.operands, look.add_constant(np.array(True), loop))
    return replace(loop, type=(*loop.shapes, truth), operands=operands, regions=(body, condition))


def _is_bias(look: Look, layer: Operation, zeros: set[int]) -> bool:
    """Whether `layer` returns its bias if the states `zeros` are zero: an infinite weight times zero is NaN."""
    read = look.known[layer.operands[0]]
    while read.opcode == "reshape":
        read = look.known[read.operands[0]]
    constants = [look.constant(each) for each in layer.operands[1:]]
    are_finite = all(each is not None and np.isfinite(each).all() for each in constants)
    return read.id in zeros and are_finite and Layer.of(layer).activation == "none"


def _unless(first: Operation, layer: Operation, nothing: int, ids: Iterator[int]) -> Operation:
    """`layer`, or its bias if `first` is true, or `nothing` if it has none."""
    (value, axes) = (layer.operands[2], (layer.shape.rank - 1,)) if len(layer.operands) > 2 else (nothing, ())
    bias = Operation(
        id=next(ids), opcode="broadcast", type=layer.shape, operands=(value,), node=layer.node,
        attributes=Dimensions(dimensions=axes),
    )  # fmt: skip
    product = replace(layer, id=next(ids))
    regions = tuple(Region(operations=(each,), results=(each.id,)) for each in (bias, product))
    return Operation(
        id=layer.id, opcode="conditional", type=layer.shape, operands=(first.id,), regions=regions, node=layer.node
    )
