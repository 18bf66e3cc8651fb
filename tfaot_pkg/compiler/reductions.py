"""C++ of reductions over some axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfaot_pkg.compiler.affine import Index
from tfaot_pkg.compiler.attributes import Dimensions
from tfaot_pkg.compiler.body import IN_VECTORS, Body, Lanes
from tfaot_pkg.compiler.each import counts, each_lane, head_of, inside, stored, with_multiple
from tfaot_pkg.compiler.elements import Access, Element, Filled, Operand, Place, Statement, Store, Variable
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import (
    C_TYPES,
    ELEMENTWISE,
    IN_WIDE_VECTORS,
    VECTOR_TYPES,
    WIDE_TYPES,
    number_text,
)
from tfaot_pkg.compiler.instructions import StoreLanes
from tfaot_pkg.compiler.pieces import Code, Row, code_of
from tfaot_pkg.compiler.plain import states
from tfaot_pkg.compiler.plain import targets as wanted
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Region
from tfaot_pkg.compiler.reduction_forms import Combined, combined
from tfaot_pkg.compiler.reduction_loops import Reduction, are_beside
from tfaot_pkg.compiler.rows import IN_ROWS, are_rows, are_short, first_row, head, loads


def reduce(emitter: Emitter, operation: Operation) -> str:
    form = combined(operation, emitter.known)
    if form is None:
        return _reduce_plainly(emitter, operation)[0].name
    if not form.by_rows and (rows := _reduce_short_rows(emitter, operation)) is not None:
        return rows[0].name
    if form.by_lanes and (lanes := _reduce_lanes(emitter, operation)) is not None:
        return lanes[0].name
    return _reduce_combined(emitter, operation, form)


def _reduce_combined(emitter: Emitter, operation: Operation, form: Combined) -> str:
    """A reduction in one of the two orders that the kernel library fixes for any width of vectors (decision 039)."""
    operand, dtype = emitter.known[operation.operands[0]], operation.shape.dtype
    dimensions, is_wide = Dimensions.of(operation).dimensions, dtype in WIDE_TYPES
    number = number_text(emitter.known[operation.operands[1]])
    kept = [axis for axis in range(operand.shape.rank) if axis not in dimensions]
    body, (value,) = _collected(emitter, [operand.id], [*kept, *dimensions])
    if form.by_rows and not (body.can_be_wide if is_wide else body.lanes is Lanes.WORDS):
        # Types without vectors (bytes of quantized models) are converted in a loop of their own before this one.
        emitter.stored(operand.id)
        body, (value,) = _collected(emitter, [operand.id], [*kept, *dimensions])
    if dtype == "pred" and body.lanes is Lanes.ALONE:
        return _reduce_plainly(emitter, operation)[0].name
    target = emitter.target(operation)
    out = Index(ZERO, (*operation.shape.strides, *(ZERO for _ in dimensions)))
    reduction = Reduction(
        combine=form.combine, start=number if is_wide else f"filled({number})[0]",
        inner=body.inner(Lanes.WIDE if is_wide else body.lanes), value=value, target=Access("sums", target, dtype, out),
        kept=len(kept), is_by_rows=form.by_rows,
    )  # fmt: skip
    emitter.nest_of(reduction)
    emitter.touch(target)
    return target


def _collected(emitter: Emitter, values: Sequence[int], order: Sequence[int]) -> tuple[Body, list[Operand]]:
    """Elements of arrays of one shape, in a loop along their axes in another order."""
    sizes = emitter.known[values[0]].shape.sizes
    body = Body(tuple(sizes[axis] for axis in order))
    identity = body.identity()
    places = tuple(identity[order.index(axis)] for axis in range(len(order)))
    return body, [emitter.value(value, places, body) for value in values]


def reduce_together(emitter: Emitter, operation: Operation) -> None:
    """Several arrays at once, as for the index of the largest element."""
    emitter.results[operation.id] = _reduce_plainly(emitter, operation)


def _reduce_plainly(emitter: Emitter, operation: Operation) -> list[State]:
    """A reduction with any region, in the order of the elements."""
    for way in (_reduce_short_rows, _reduce_lanes):
        if (made := way(emitter, operation)) is not None:
            return made
    return _reduce_alone(emitter, operation)


def _reduce_alone(emitter: Emitter, operation: Operation) -> list[State]:
    """A reduction with any region, one element after the other."""
    emitter.flush()  # not within the loops of the reduction
    half = len(operation.operands) // 2
    starts = [emitter.scalar(start) for start in operation.operands[half:]]
    kept_axes, dimensions = _axes(emitter, operation)
    order, kept = [*kept_axes, *dimensions], len(kept_axes)
    body, values = _collected(emitter, operation.operands[:half], order)
    targets = wanted(emitter, operation)
    names = [f"r{next(emitter.new)}" for _ in values]
    region, types = operation.regions[0], [C_TYPES[shape.dtype] for shape in operation.shapes]
    for parameter, name in zip(region.parameters, [*names, *(f"{name}_element" for name in names)], strict=True):
        emitter.scalars[parameter.id] = Variable(name)
    extents, inner = body.extents, body.inner(Lanes.ALONE)
    with emitter.nest((*extents[:kept], ONE)):
        for type_, name, start in zip(types, names, starts, strict=True):
            emitter.declare(name, start, kind=type_)
        with emitter.counted(extents, range(kept, len(order) - 1)):
            for access in inner.accesses:
                emitter.address(access, is_written=False, extents=extents)
            computed = inside(emitter, inner, len(order))
            with emitter.block(head_of((extents[-1],), inner)):
                for each in computed:
                    emitter.put(each)
                for type_, name, value in zip(types, names, values, strict=True):
                    emitter.declare(f"{name}_element", code_of(value), kind=f"const {type_}", may_be_unused=True)
                emitter.region(region)
                for type_, name, result in zip(types, names, region.results, strict=True):
                    emitter.declare(f"{name}_next", emitter.scalar(result), kind=f"const {type_}")
                for name in names:
                    emitter.assign(name, Variable(f"{name}_next"))
        for target, name, shape in zip(targets, names, operation.shapes, strict=True):
            sums = Access("sums", target, shape.dtype, Index(ZERO, operation.shapes[0].strides))
            emitter.store(Row(sums, kept, extents[:kept]), Variable(name))
    return _states(emitter, operation, targets)


def _reduce_short_rows(emitter: Emitter, operation: Operation) -> list[State] | None:
    """The same with several short rows of results in a vector; None if rows are long, or the innermost axis goes."""
    emitter.flush()  # not within the loops of the reduction
    half, shape, (kept, dimensions) = len(operation.operands) // 2, operation.shapes[0], _axes(emitter, operation)
    if shape.rank < 2 or not _have_vectors(operation.regions[0], VECTOR_TYPES):
        return None
    order = [*kept[:-2], *dimensions, *kept[-2:]]
    if not are_short(ONE, shape.sizes[-1]) or any(each.dtype not in IN_ROWS for each in operation.shapes):
        return None
    outer = len(kept) - 2
    body, values = _collected(emitter, operation.operands[:half], order)
    is_counted = any(each.index.factors[-2:] != (ZERO, ZERO) for each in body.counted)
    extents, inner = body.extents, body.inner(body.lanes)
    if is_counted or not are_rows(inner, inner.accesses):
        return None
    starts = [emitter.scalar(start) for start in operation.operands[half:]]
    targets = wanted(emitter, operation)
    out = Index(ZERO, (*shape.strides[:-2], *(ZERO for _ in dimensions), *shape.strides[-2:]))
    totals = [f"r{next(emitter.new)}_total" for _ in targets]
    with emitter.nest((*extents[:outer], ONE)):
        for total, target, made in zip(totals, targets, operation.shapes, strict=True):
            first_row(emitter, Access(total[:-6], target, made.dtype, out), is_written=True, extents=extents)
        with emitter.block(head(extents)):
            for total, start in zip(totals, starts, strict=True):
                emitter.declare(total, "at.fill(", start, ")", kind="auto")
            with emitter.counted(extents, range(outer, len(order) - 2)):
                for each in (*loads(emitter, inner, extents), *counts(inner.counted, len(order)), *inner.computed()):
                    emitter.put(each)
                _combine(emitter, operation.regions[0], totals, values)
            for total in totals:
                steps = (shape.strides[-2], ONE)
                to, value = Place(total[:-6]), (Variable(total),)
                emitter.put(StoreLanes(to=to, value=value, steps=steps, contiguous=True))
    return _states(emitter, operation, targets)


def _reduce_lanes(emitter: Emitter, operation: Operation) -> list[State] | None:
    """The same order with a result in each lane; None if elements have strides at which no vectors are loaded."""
    emitter.flush()  # not within the loops of the reduction
    half, shape, (kept, dimensions) = len(operation.operands) // 2, operation.shapes[0], _axes(emitter, operation)
    is_wide = shape.dtype in WIDE_TYPES
    types = WIDE_TYPES if is_wide else VECTOR_TYPES
    if not shape.rank or not _have_vectors(operation.regions[0], types):
        return None
    order = [*kept[:-1], *dimensions, kept[-1]]
    body, values = _collected(emitter, operation.operands[:half], order)
    if not _loads_vectors(body, is_wide=is_wide) or not are_beside(body.extents[-1]):
        return None
    extents, inner = body.extents, body.inner(Lanes.WIDE if is_wide else body.lanes)
    starts = [emitter.scalar(start) for start in operation.operands[half:]]
    targets, outer = wanted(emitter, operation), len(kept) - 1
    out = Index(ZERO, (*shape.strides[:-1], *(ZERO for _ in dimensions), shape.strides[-1]))
    results = [
        Access(f"r{next(emitter.new)}", target, made.dtype, out)
        for target, made in zip(targets, operation.shapes, strict=True)
    ]
    with emitter.nest((*extents[:outer], ONE)):
        for result in results:
            emitter.address(result, is_written=True, extents=extents)
        each_of = "eachWide" if is_wide else with_multiple("each", extents[-1])
        with emitter.block(each_lane(each_of, extents[-1])):
            for result, start in zip(results, starts, strict=True):
                emitter.declare(f"{result.variable}_total", "at.fill(", start, ")", kind="auto")
            with emitter.counted(extents, range(outer, len(order) - 1)):
                for access in inner.accesses:
                    emitter.address(access, is_written=False, extents=extents)
                for each in inside(emitter, inner, len(order)):
                    emitter.put(each)
                totals = [f"{result.variable}_total" for result in results]
                _combine(emitter, operation.regions[0], totals, values)
            for result, total in zip(results, totals, strict=True):
                emitter.put(stored(Store(result, Element(total))))
    return _states(emitter, operation, targets)


def _loads_vectors(body: Body, *, is_wide: bool) -> bool:
    """Whether vectors are loaded as they lie in memory, for types of which there are vectors."""
    near = (ZERO, ONE) if is_wide else IN_VECTORS
    is_near = all(access.index.factors[-1] in near for access in body.accesses)
    return is_near and (body.can_be_wide if is_wide else body.lanes is Lanes.WORDS)


def _states(emitter: Emitter, operation: Operation, pointers: Sequence[str]) -> list[State]:
    for pointer in pointers:
        emitter.touch(pointer)
    return states(operation, pointers)


def _combine(emitter: Emitter, region: Region, totals: Sequence[str], values: Sequence[Operand]) -> None:
    """Replace `totals` by the results of `region` for them and for `values`, all of them vectors."""
    elements = [*map(Element, totals), *values]
    known = dict(zip((parameter.id for parameter in region.parameters), elements, strict=True))

    def vector(value: int) -> Operand:
        # A value that is not computed here is a constant, of the region or of one around it.
        return known.get(value) or Filled(emitter.scalar(value))

    for each in region.operations:
        if each.opcode in ELEMENTWISE:
            types = tuple(emitter.known[operand].shape.dtype for operand in each.operands)
            made = Statement(f"s{next(emitter.new)}", each, tuple(map(vector, each.operands)), types)
            known[each.id] = Element(made.name)
            emitter.declare(made.name, Code(made.text(), made.operands))
    for total, result in zip(totals, region.results, strict=True):
        emitter.declare(f"{total}_next", code_of(vector(result)))
    for total in totals:
        emitter.assign(total, Variable(f"{total}_next"))


def _axes(emitter: Emitter, operation: Operation) -> tuple[list[int], tuple[int, ...]]:
    """The axes of the result among those of the operands, and those that are reduced."""
    dimensions = Dimensions.of(operation).dimensions
    rank = emitter.known[operation.operands[0]].shape.rank
    return [axis for axis in range(rank) if axis not in dimensions], dimensions


def _have_vectors(region: Region, types: Mapping[str, str]) -> bool:
    return all(_has_vectors(each, types) for each in region.operations)


def _has_vectors(operation: Operation, types: Mapping[str, str]) -> bool:
    if isinstance(operation.type, tuple) or operation.shape.dtype not in types:
        return False
    known = IN_WIDE_VECTORS if types is WIDE_TYPES else ELEMENTWISE
    return operation.opcode in ("constant", "parameter") or operation.opcode in known
