"""Operations that assemble an array from others: gather, concatenate, pad, update."""

from __future__ import annotations

from tfaot_pkg.compiler.affine import Index, as_size, cpp
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.program import ZERO, Operation, Shape, Size, Unsupported


def gather(emitter: Emitter, operation: Operation) -> str:
    """Slices of an array, one for each vector of indices."""
    attributes, (array, indices) = operation.attributes, (emitter.known[operand] for operand in operation.operands)
    if attributes["operand_batch"] or attributes["vector"] != indices.shape.rank - 1 or indices.shape.dtype != "s32":
        raise Unsupported("a gather with batch axes, or whose indices do not lie in the last axis")
    at, shape = emitter.stored(indices.id), operation.shape
    source_is_stored = emitter.stored(array.id)
    target = emitter.buffer(shape.dtype, shape.elements)
    outer = [axis for axis in range(shape.rank) if axis not in attributes["offset"]]
    sizes = tuple(as_size(size) for size in attributes["sizes"])
    for pointer in (at, source_is_stored):
        emitter.touch(pointer)
    for axis in outer:
        emitter.line(f"for (std::size_t g{axis} = 0; g{axis} < {cpp(shape.sizes[axis])}; ++g{axis}) {{")
    terms = [f"g{axis} * {cpp(stride)}" for axis, stride in zip(outer, indices.shape.strides[:-1], strict=True)]
    emitter.line(f"const std::int32_t* const index = {' + '.join([at, *terms])};")
    # Operations that are made up here: a slice at the indices, because the emitter knows how to write slices.
    starts = []
    for axis in range(array.shape.rank):
        starts.append(next(emitter.fresh))
        place = attributes["indexed"].index(axis) if axis in attributes["indexed"] else None
        emitter.scalars[starts[-1]] = "0" if place is None else f"index[{place}]"
        emitter.known[starts[-1]] = Operation(id=starts[-1], opcode="parameter", type=Shape("s32", ()))
    cut, given = next(emitter.fresh), next(emitter.fresh)
    emitter.known[cut] = Operation(
        id=cut, opcode="dynamic-slice", type=Shape(shape.dtype, sizes), operands=(array.id, *starts),
        attributes={"sizes": sizes},
    )  # fmt: skip
    kept = tuple(size for axis, size in enumerate(sizes) if axis not in attributes["collapsed"])
    emitter.known[given] = Operation(id=given, opcode="reshape", type=Shape(shape.dtype, kept), operands=(cut,))
    strides = tuple(shape.strides[axis] for axis in attributes["offset"])
    runtime = tuple((f"g{axis}", shape.strides[axis]) for axis in outer)
    emitter.loop(kept, [(given, target, Index(ZERO, strides, runtime))])
    for _ in outer:
        emitter.line("}")
    for pointer in (at, source_is_stored, target):
        emitter.touch(pointer)
    return target


def dynamic_update_slice(emitter: Emitter, operation: Operation) -> str:
    """dynamic-update-slice: in place if nothing else reads the array."""
    array, update, *starts = operation.operands
    shape, part = operation.shape, emitter.known[update].shape
    in_place = emitter.known[array].opcode == "parameter" and array in emitter.pointers and emitter.uses[array] == 1
    if in_place:
        target = emitter.pointers[array]
    else:
        target = emitter.buffer(shape.dtype, shape.elements)
        emitter.loop(shape.sizes, [(array, target, Index(ZERO, shape.strides))])
    runtime = []
    for axis, start in enumerate(starts):
        name = emitter.start(start, shape.sizes[axis], part.sizes[axis])
        if name != "0":
            runtime.append((name, shape.strides[axis]))
    emitter.loop(part.sizes, [(update, target, Index(ZERO, shape.strides, tuple(runtime)))])
    emitter.touch(target)
    return target


def concatenate(emitter: Emitter, operation: Operation) -> str:
    (axis,), shape = operation.attributes["dimensions"], operation.shape
    target = emitter.buffer(shape.dtype, shape.elements)
    start = ZERO
    for operand in operation.operands:
        part = emitter.known[operand].shape
        index = Index(start * shape.strides[axis], shape.strides)
        emitter.loop(part.sizes, [(operand, target, index)])
        start = start + part.sizes[axis]
    emitter.touch(target)
    return target


def pad(emitter: Emitter, operation: Operation) -> str:
    array, value = operation.operands
    shape, part = operation.shape, emitter.known[array].shape
    padding = operation.attributes["padding"]
    if any(isinstance(each, Size) or each < 0 for sizes in padding for each in sizes):
        raise Unsupported("a negative padding, or one that depends on the batch")
    target = emitter.buffer(shape.dtype, shape.elements)
    # All of it is filled first; then the array is written over its part.
    filling = next(emitter.fresh)
    emitter.known[filling] = Operation(
        id=filling, opcode="broadcast", type=shape, operands=(value,), attributes={"dimensions": ()}
    )
    emitter.loop(shape.sizes, [(filling, target, Index(ZERO, shape.strides))])
    index = Index(ZERO, ())
    offset, factors = ZERO, []
    for (low, _, inner), stride in zip(padding, shape.strides, strict=True):
        offset = offset + Size(low) * stride
        factors.append(Size(inner + 1) * stride)
    index = Index(offset, tuple(factors))
    emitter.loop(part.sizes, [(array, target, index)])
    emitter.touch(target)
    return target
