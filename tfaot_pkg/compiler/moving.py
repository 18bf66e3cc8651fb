"""C++ of operations that assemble an array from others: gather, concatenate, pad, update."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from tfaot_pkg.compiler.affine import Counter, Index, as_size
from tfaot_pkg.compiler.attributes import Dimensions, Gather, Pad, Sizes, Slices
from tfaot_pkg.compiler.body import Body
from tfaot_pkg.compiler.elements import Component, Position, Scalar, Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.loops import For
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Shape, Size, Unsupported
from tfaot_pkg.compiler.sources import runtime_terms
from tfaot_pkg.compiler.uses import is_counted, same_memory

Padding = tuple[tuple[Size, Size, Size], ...]
"""For each axis: before the array, behind it, between its elements."""


def gather(emitter: Emitter, operation: Operation) -> str:
    """Slices of an array, one for each vector of indices."""
    attributes, (array, indices) = Gather.of(operation), (emitter.known[operand] for operand in operation.operands)
    shape, vector = operation.shape, attributes.vector
    outer = [axis for axis in range(shape.rank) if axis not in attributes.offset]
    axes = (axis for axis in range(indices.shape.rank) if axis != vector)
    counters = dict(zip(axes, outer, strict=True))
    named = {axis: Counter(f"g{counter}", shape.sizes[counter]) for axis, counter in counters.items()}
    components, read = _components(emitter, indices, vector, named)
    # Before the loops: otherwise the source would be computed within them.
    source_is_stored = emitter.stored(array.id)
    target = emitter.target(operation)
    for pointer in (*read, source_is_stored):
        emitter.touch(pointer)
    with emitter.block(), ExitStack() as stack:
        for axis in outer:
            stack.enter_context(emitter.block(For(f"g{axis}", shape.sizes[axis])))
        _write_slices(emitter, operation, target, components, counters)
    for pointer in (*read, source_is_stored, target):
        emitter.touch(pointer)
    return target


def _write_slices(
    emitter: Emitter, operation: Operation, target: str, components: Sequence[tuple[Scalar, str]],
    counters: Mapping[int, int],
) -> None:  # fmt: skip
    """The slice that begins at `components`, within the loops over vectors of indices."""
    attributes, array, shape = Gather.of(operation), emitter.known[operation.operands[0]], operation.shape
    sizes = tuple(as_size(size) for size in attributes.sizes)
    # Operations that are not in the program: a slice at the indices, because the emitter knows how to write slices.
    starts = []
    for axis in range(array.shape.rank):
        starts.append(next(emitter.fresh))
        start: Scalar = Position(ZERO, ())
        dtype = "s32"
        if axis in attributes.indexed:
            start, dtype = components[attributes.indexed.index(axis)]
        elif axis in attributes.operand_batch:
            among = attributes.index_batch[attributes.operand_batch.index(axis)]
            start, dtype = Variable(f"g{counters[among]}"), "u64"
        emitter.scalars[starts[-1]] = start
        emitter.known[starts[-1]] = Operation(id=starts[-1], opcode="parameter", type=Shape(dtype, ()))
    cut, given = next(emitter.fresh), next(emitter.fresh)
    emitter.known[cut] = Operation(
        id=cut, opcode="dynamic-slice", type=Shape(shape.dtype, sizes), operands=(array.id, *starts),
        attributes=Sizes(sizes=sizes),
    )  # fmt: skip
    gone = {*attributes.collapsed, *attributes.operand_batch}
    kept = tuple(size for axis, size in enumerate(sizes) if axis not in gone)
    emitter.known[given] = Operation(id=given, opcode="reshape", type=Shape(shape.dtype, kept), operands=(cut,))
    strides = tuple(shape.strides[axis] for axis in attributes.offset)
    runtime = tuple((Counter(f"g{axis}", shape.sizes[axis]), shape.strides[axis]) for axis in counters.values())
    emitter.loop(kept, [(given, target, Index(ZERO, strides, runtime))])


def _components(
    emitter: Emitter, indices: Operation, vector: int, counters: Mapping[int, Counter]
) -> tuple[list[tuple[Scalar, str]], list[str]]:
    """An expression and its type for each component of an index vector, and the addresses that they read.

    Vectors that are joined from single numbers, as for a gather within rows, are not written to memory, and counters
    are not read from it.
    """
    joined = emitter.selection.in_indices.get(indices.id)
    parts = joined or (indices.id,)
    step = indices.shape.strides[vector] if vector < indices.shape.rank else ONE
    counted = {part: index for part in parts if joined and (index := _counted(emitter, part)) is not None}
    kept = [part for part in parts if part not in counted]
    pointers = {part: emitter.stored(same_memory(part, emitter.known)) for part in kept}
    components = list[tuple[Scalar, str]]()
    for part in parts:
        shape = emitter.known[part].shape
        if part in counted:
            components.append((Position(counted[part].offset, _steps(counted[part], counters)), "u64"))
            continue
        index, count = Index(ZERO, shape.strides), shape.sizes[vector].constant if vector < shape.rank else 1
        for number in range(count):
            component = _component(pointers[part], index, counters, step * Size(number))
            components.append((component, shape.dtype))
    return components, [*pointers.values()]


def _counted(emitter: Emitter, part: int) -> Index | None:
    """What each element of an iota, moved, is; None for other values, and if the iota is in memory."""
    if not is_counted(part, emitter.known):
        return None
    body = Body(emitter.known[part].shape.sizes)
    emitter.value(part, body.identity(), body)
    return None if body.accesses else body.counted[0].index


def _component(base: str, index: Index, counters: Mapping[int, Counter], at: Size) -> Component:
    return Component(base, index.offset, _steps(index, counters), at)


def _steps(index: Index, counters: Mapping[int, Counter]) -> tuple[tuple[Counter, Size], ...]:
    factors = ((counter, index.factors[axis]) for axis, counter in counters.items())
    return tuple((counter, each) for counter, each in factors if each != ZERO)


def dynamic_update_slice(emitter: Emitter, operation: Operation) -> str:
    array, update = operation.operands[:2]
    shape, part = operation.shape, emitter.known[update].shape
    if operation.id in emitter.selection.in_place:
        target = emitter.pointers[array]
    else:
        target = emitter.target(operation)
        emitter.loop(shape.sizes, [(array, target, Index(ZERO, shape.strides))])
    runtime = runtime_terms(emitter.starts(operation), shape)
    emitter.loop(part.sizes, [(update, target, Index(ZERO, shape.strides, runtime))])
    emitter.touch(target)
    return target


def concatenate(emitter: Emitter, operation: Operation) -> str:
    target = emitter.target(operation)
    _write_parts(emitter, operation, target, Index(ZERO, operation.shape.strides))
    emitter.touch(target)
    return target


def _write_parts(emitter: Emitter, operation: Operation, target: str, index: Index) -> None:
    """The parts of a concatenation, whose elements are at `index` of `target`."""
    (axis,) = Dimensions.of(operation).dimensions
    start = ZERO
    for operand in operation.operands:
        part = emitter.known[operand].shape
        here = Index(index.offset + start * index.factors[axis], index.factors)
        inner = emitter.known[same_memory(operand, emitter.known)]
        if inner.id in emitter.selection.parts:
            # Their axes are the same, apart from those of one element.
            longer = (factor for size, factor in zip(part.sizes, here.factors, strict=True) if size != ONE)
            factors = tuple(ZERO if size == ONE else next(longer) for size in inner.shape.sizes)
            _write_parts(emitter, inner, target, Index(here.offset, factors))
        else:
            emitter.loop(part.sizes, [(operand, target, here)])
        start = start + part.sizes[axis]


def pad(emitter: Emitter, operation: Operation) -> str:
    array, value = operation.operands
    shape, part = operation.shape, emitter.known[array].shape
    padding = tuple((as_size(low), as_size(high), as_size(inner)) for low, high, inner in Pad.of(operation).padding)
    if any(_is_negative(each) for sizes in padding for each in sizes):
        return _cropped(emitter, operation, padding)
    target = emitter.target(operation)
    # Filled first, then the array is written over its part: loops without branches.
    for start, sizes in _borders(shape, part, padding) or [(ZERO, shape.sizes)]:
        filling = next(emitter.fresh)
        emitter.known[filling] = Operation(
            id=filling, opcode="broadcast", type=Shape(shape.dtype, sizes), operands=(value,),
            attributes=Dimensions(dimensions=()),
        )  # fmt: skip
        emitter.loop(sizes, [(filling, target, Index(start, shape.strides))])
    offset, factors = ZERO, []
    for (low, _, inner), stride in zip(padding, shape.strides, strict=True):
        offset = offset + low * stride
        factors.append((inner + ONE) * stride)
    index = Index(offset, tuple(factors))
    emitter.loop(part.sizes, [(array, target, index)])
    emitter.touch(target)
    return target


_IN_A_VECTOR = 16  # floats of AVX-512


def _borders(shape: Shape, part: Shape, padding: Padding) -> list[tuple[Size, tuple[Size, ...]]]:
    """Where the parts of `shape` around the array begin, and their sizes; none if filling all of it takes less."""
    numbers = [*shape.sizes[1:], *part.sizes[1:], *(each for sizes in padding for each in sizes)]
    inside = all(inner == ZERO for *_, inner in padding) and padding[:1] == ((ZERO, ZERO, ZERO),)
    if not inside or not all(each.is_constant for each in numbers):
        return []
    found, before, written = [], ZERO, 0
    for axis, (low, high, _) in enumerate(padding):
        stride, lines = shape.strides[axis], math.prod(each.constant for each in part.sizes[1:axis])
        for size, start in ((low, before), (high, before + (low + part.sizes[axis]) * stride)):
            if size != ZERO:
                found.append((start, (*part.sizes[:axis], size, *shape.sizes[axis + 1 :])))
                written += lines * -(-size.constant * stride.constant // _IN_A_VECTOR)
        before = before + low * stride
    # A loop of several lines costs more than a vector of a long one.
    return found if 4 * written < math.prod(each.constant for each in shape.sizes[1:]) // _IN_A_VECTOR else []


def _is_negative(size: Size) -> bool:
    signs = {coefficient < 0 for _, coefficient in size.terms}
    if len(signs) > 1:
        raise Unsupported(f"a padding of {size}, which is negative for some sizes")
    return True in signs


def _cropped(emitter: Emitter, operation: Operation, padding: Padding) -> str:
    """A padding with negative sizes, which remove elements: a slice of a larger array."""

    # Padded first, then sliced: HLO removes elements after it has inserted interior padding.
    def positive(size: Size) -> Size:
        return ZERO if _is_negative(size) else size

    kept = tuple((positive(low), positive(high), positive(inner)) for low, high, inner in padding)
    sizes, slices = [], []
    for size, (low, high, _), (before, behind, _) in zip(operation.shape.sizes, padding, kept, strict=True):
        front, back = before + low * Size(-1), behind + high * Size(-1)
        sizes.append(front + size + back)
        slices.append((front, front + size, 1))
    whole, part = next(emitter.fresh), next(emitter.fresh)
    shape = Shape(operation.shape.dtype, tuple(sizes))
    emitter.known[whole] = replace(operation, id=whole, type=shape, attributes=Pad(padding=kept))
    emitter.known[part] = replace(
        operation, id=part, opcode="slice", operands=(whole,), attributes=Slices(slices=tuple(slices))
    )
    return emitter.stored(part)
