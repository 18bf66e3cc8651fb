"""C++ of reductions over some axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from tfaot_pkg.compiler.affine import Axes, Index, address_terms, cpp, cut, merged
from tfaot_pkg.compiler.attributes import Dimensions
from tfaot_pkg.compiler.chains import Step, add, step_of
from tfaot_pkg.compiler.elements import Access, Counted, Element, Filled, Operand, Statement, Store, Variable
from tfaot_pkg.compiler.emitter import Emitter, State
from tfaot_pkg.compiler.expressions import (
    C_TYPES,
    COMBINED,
    COMBINED_TRUTHS,
    ELEMENTWISE,
    IN_WIDE_VECTORS,
    VECTOR_TYPES,
    WIDE_TYPES,
    number_text,
)
from tfaot_pkg.compiler.plain import targets as wanted
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Region, Size, reducer
from tfaot_pkg.compiler.rows import IN_ROWS, are_rows, are_short, first_row, head, loads
from tfaot_pkg.compiler.writer import IN_VECTORS, Body, moved_access, store_text, with_multiple

_FEW, _BESIDE = 4, 4
"""Rows of at most so many elements are reduced with a row in each lane, if at least so many results lie side by side
(decision 069)."""


_PARTIAL = 16
"""Partial sums of a row (kPartial of the kernel library): what they do to shorter rows of doubles is written out."""


@dataclass(frozen=True, slots=True)
class _Written:
    """Where results are written: an address, and the index in all axes, the first `axes` of which are kept."""

    pointer: str
    dtype: str
    index: Index
    axes: int


def reduce(emitter: Emitter, operation: Operation) -> str:
    functions = {"f32": COMBINED, "f64": COMBINED, "pred": COMBINED_TRUTHS}.get(operation.shape.dtype, {})
    combine, operand = functions.get(reducer(operation) or ""), emitter.known[operation.operands[0]]
    if combine is None or emitter.known[operation.operands[1]].opcode != "constant":
        return _reduce_plainly(emitter, operation)[0].name
    dimensions, is_wide = Dimensions.of(operation).dimensions, operation.shape.dtype in WIDE_TYPES
    is_by_rows = operand.shape.rank - 1 in dimensions
    if is_wide and not is_by_rows:
        return _reduce_plainly(emitter, operation)[0].name
    if not is_by_rows and (rows := _reduce_short_rows(emitter, operation)) is not None:
        return rows[0].name
    # Truth values have no order of combining. Elements next to each other, as in rows of memory, stay in one vector.
    is_short = all(operand.shape.sizes[axis].is_constant for axis in dimensions) and (
        math.prod(operand.shape.sizes[axis].constant for axis in dimensions) <= _PARTIAL
    )
    if operation.shape.dtype == "pred" and is_short and (lanes := _reduce_lanes(emitter, operation)) is not None:
        return lanes[0].name
    number = number_text(emitter.known[operation.operands[1]])
    start = number if is_wide else f"filled({number})[0]"
    kept = [axis for axis in range(operand.shape.rank) if axis not in dimensions]
    order = [*kept, *dimensions]
    extents = tuple(operand.shape.sizes[axis] for axis in order)
    body = Body(extents)
    places = tuple(body.identity()[order.index(axis)] for axis in range(len(order)))
    value = emitter.value(operand.id, places, body)
    if is_by_rows and not (body.can_be_wide if is_wide else body.by_vectors):
        # Types without vectors (bytes of quantized models) are converted in a loop of their own before this one.
        emitter.stored(operand.id)
        body = Body(extents)
        value = emitter.value(operand.id, places, body)
    if operation.shape.dtype == "pred" and not body.by_vectors:
        return _reduce_plainly(emitter, operation)[0].name
    body.kind = "Wide" if is_wide else ""
    target = emitter.target(operation)
    out = Index(ZERO, (*operation.shape.strides, *(ZERO for _ in dimensions)))
    # The kernel library fixes both orders of additions, for any width of vectors (decision 039).
    written = _Written(target, operation.shape.dtype, out, len(kept))
    plain = partial(_reduce_rows if is_by_rows else _reduce_columns, emitter, combine, start, body, value, written)
    step = _step(combine, start, body, value, written, plain) if is_by_rows else None
    if step is None:
        plain()
    else:
        add(emitter, step)
    emitter.touch(target)
    return target


def _step(combine: str, start: str, body: Body, value: Operand, to: _Written, plain: Callable[[], None]) -> Step | None:
    """The reduction as a step of a chain of loops over rows, if it is one."""
    outer, inner = _both_axes(body, to)
    if len(outer.extents) != 1 or len(inner.extents) != 1:
        return None
    axes = _joined(outer, inner, to.axes)
    target = Access("sums", to.pointer, to.dtype, outer.index(cut(to.index, 0, to.axes)))
    accesses = [moved_access(access, axes) for access in body.accesses]
    return step_of(f"template reduced<{combine}>({start}, ", axes.extents, body, accesses, value, target, plain)


def _both_axes(body: Body, to: _Written) -> tuple[Axes, Axes]:
    """The merged axes of results, and those of what is reduced for each."""
    target, kept = to.index, to.axes
    outer = merged(
        body.extents[:kept],
        [cut(a.index, 0, kept) for a in body.accesses] + [cut(target, 0, kept)],
        [cut(each.index, 0, kept) for each in body.counted],
    )
    inner = merged(
        body.extents[kept:],
        [cut(a.index, kept, None) for a in body.accesses],
        [cut(each.index, kept, None) for each in body.counted],
    )
    return outer, inner


def _joined(outer: Axes, inner: Axes, kept: int) -> Axes:
    return Axes((*outer.extents, *inner.extents), (*outer.chosen, *(kept + axis for axis in inner.chosen)))


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
    arrays = [emitter.known[operand] for operand in operation.operands[:half]]
    starts = [emitter.scalar(start) for start in operation.operands[half:]]
    dimensions = Dimensions.of(operation).dimensions
    order = [*(axis for axis in range(arrays[0].shape.rank) if axis not in dimensions), *dimensions]
    kept = len(order) - len(dimensions)
    body = Body(tuple(arrays[0].shape.sizes[axis] for axis in order), alone=True)
    places = body.identity()
    values = [
        emitter.value(array.id, tuple(places[order.index(a)] for a in range(len(order))), body) for array in arrays
    ]
    targets = wanted(emitter, operation)
    names = [f"r{next(emitter.new)}" for _ in arrays]
    region, types = operation.regions[0], [C_TYPES[shape.dtype] for shape in operation.shapes]
    for parameter, name in zip(region.parameters, [*names, *(f"{name}_element" for name in names)], strict=True):
        emitter.scalars[parameter.id] = Variable(name)
    with emitter.nest((*body.extents[:kept], ONE)):
        for type_, name, start in zip(types, names, starts, strict=True):
            emitter.line(f"{type_} {name} = {start};")
        for axis in range(kept, len(order) - 1):
            emitter.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(body.extents[axis])}; ++i{axis}) {{")
        for access in body.accesses:
            emitter.address(access, is_written=False)
        lines = emitter.inside(body.accesses, body.counted, len(order), body)
        with emitter.each((body.extents[-1],), body):
            for line in lines:
                emitter.line(line)
            for type_, name, value in zip(types, names, values, strict=True):
                emitter.line(f"[[maybe_unused]] const {type_} {name}_element = {value.text()};")
            emitter.region(region)
            for type_, name, result in zip(types, names, region.results, strict=True):
                emitter.line(f"const {type_} {name}_next = {emitter.scalar(result)};")
            for name in names:
                emitter.line(f"{name} = {name}_next;")
        for _ in range(kept, len(order) - 1):
            emitter.line("}")
        for target, name in zip(targets, names, strict=True):
            terms = [f"i{axis} * {cpp(stride)}" for axis, stride in enumerate(operation.shapes[0].strides)]
            emitter.line(f"*({' + '.join([target, *terms])}) = {name};")
    for target in targets:
        emitter.touch(target)
    return [State(target, shape, (target,)) for target, shape in zip(targets, operation.shapes, strict=True)]


def _reduce_short_rows(emitter: Emitter, operation: Operation) -> list[State] | None:
    """The same with several short rows of results in a vector; None if rows are long, or the innermost axis goes."""
    emitter.flush()  # not within the loops of the reduction
    half, shape, dimensions = len(operation.operands) // 2, operation.shapes[0], Dimensions.of(operation).dimensions
    if shape.rank < 2 or not all(_has_vectors(each, VECTOR_TYPES) for each in operation.regions[0].operations):
        return None
    sizes = emitter.known[operation.operands[0]].shape.sizes
    kept = [axis for axis in range(len(sizes)) if axis not in dimensions]
    order = [*kept[:-2], *dimensions, *kept[-2:]]
    if not are_short(ONE, sizes[kept[-1]]) or any(each.dtype not in IN_ROWS for each in operation.shapes):
        return None
    body, outer = Body(tuple(sizes[axis] for axis in order)), len(kept) - 2
    places = tuple(body.identity()[order.index(axis)] for axis in range(len(order)))
    values = [emitter.value(operand, places, body) for operand in operation.operands[:half]]
    is_counted = any(each.index.factors[-2:] != (ZERO, ZERO) for each in body.counted)
    if is_counted or not are_rows(body.extents, body, body.accesses):
        return None
    starts = [emitter.scalar(start) for start in operation.operands[half:]]
    targets = wanted(emitter, operation)
    out = Index(ZERO, (*shape.strides[:-2], *(ZERO for _ in dimensions), *shape.strides[-2:]))
    totals = [f"r{next(emitter.new)}_total" for _ in targets]
    with emitter.nest((*body.extents[:outer], ONE)):
        for total, target, each in zip(totals, targets, operation.shapes, strict=True):
            first_row(emitter, Access(total[:-6], target, each.dtype, out), is_written=True)
        with emitter.braces(head(body.extents), "});"):
            for total, start in zip(totals, starts, strict=True):
                emitter.line(f"auto {total} = at.fill({start});")
            for axis in range(outer, len(order) - 2):
                emitter.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(body.extents[axis])}; ++i{axis}) {{")
            lines = [*loads(emitter, body.extents[-1], body.accesses), *emitter.counts(body.counted, len(order))]
            for line in (*lines, *body.texts()):
                emitter.line(line)
            _combine(emitter, operation.regions[0], totals, values)
            for _ in range(outer, len(order) - 2):
                emitter.line("}")
            for total in totals:
                emitter.line(f"at.store({total[:-6]}, {total});")
    for target in targets:
        emitter.touch(target)
    return [State(target, each, (target,)) for target, each in zip(targets, operation.shapes, strict=True)]


def _reduce_lanes(emitter: Emitter, operation: Operation) -> list[State] | None:
    """The same order with a result in each lane; None if elements have strides at which no vectors are loaded."""
    emitter.flush()  # not within the loops of the reduction
    half, shape, dimensions = len(operation.operands) // 2, operation.shapes[0], Dimensions.of(operation).dimensions
    is_wide = shape.dtype in WIDE_TYPES
    types = WIDE_TYPES if is_wide else VECTOR_TYPES
    if not shape.rank or not all(_has_vectors(each, types) for each in operation.regions[0].operations):
        return None
    sizes = emitter.known[operation.operands[0]].shape.sizes
    kept = [axis for axis in range(len(sizes)) if axis not in dimensions]
    order = [*kept[:-1], *dimensions, kept[-1]]
    body = Body(tuple(sizes[axis] for axis in order))
    places = tuple(body.identity()[order.index(axis)] for axis in range(len(order)))
    values = [emitter.value(operand, places, body) for operand in operation.operands[:half]]
    near = (ZERO, ONE) if is_wide else IN_VECTORS
    is_near = all(access.index.factors[-1] in near for access in body.accesses)
    if not (body.can_be_wide if is_wide else body.by_vectors) or not is_near or not _are_beside(body.extents[-1]):
        return None
    body.kind = "Wide" if is_wide else ""
    starts = [emitter.scalar(start) for start in operation.operands[half:]]
    targets, outer = wanted(emitter, operation), len(kept) - 1
    out = Index(ZERO, (*shape.strides[:-1], *(ZERO for _ in dimensions), shape.strides[-1]))
    results = [
        Access(f"r{next(emitter.new)}", target, each.dtype, out)
        for target, each in zip(targets, operation.shapes, strict=True)
    ]
    with emitter.nest((*body.extents[:outer], ONE)):
        for result in results:
            emitter.address(result, is_written=True)
        each_of = "eachWide" if is_wide else with_multiple("each", body.extents[-1])
        with emitter.braces(f"{each_of}({cpp(body.extents[-1])}, [&]([[maybe_unused]] auto at)", "});"):
            for result, start in zip(results, starts, strict=True):
                emitter.line(f"auto {result.variable}_total = at.fill({start});")
            for axis in range(outer, len(order) - 1):
                emitter.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(body.extents[axis])}; ++i{axis}) {{")
            for access in body.accesses:
                emitter.address(access, is_written=False)
            for line in emitter.inside(body.accesses, body.counted, len(order), body):
                emitter.line(line)
            totals = [f"{result.variable}_total" for result in results]
            _combine(emitter, operation.regions[0], totals, values)
            for _ in range(outer, len(order) - 1):
                emitter.line("}")
            for result, total in zip(results, totals, strict=True):
                emitter.line(store_text(Store(result, Element(total))))
    for target in targets:
        emitter.touch(target)
    return [State(target, each, (target,)) for target, each in zip(targets, operation.shapes, strict=True)]


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
            emitter.line(f"const auto {made.name} = {made.text()};")
    for total, result in zip(totals, region.results, strict=True):
        emitter.line(f"const auto {total}_next = {vector(result).text()};")
    for total in totals:
        emitter.line(f"{total} = {total}_next;")


def _has_vectors(operation: Operation, types: Mapping[str, str]) -> bool:
    if isinstance(operation.type, tuple) or operation.shape.dtype not in types:
        return False
    known = IN_WIDE_VECTORS if types is WIDE_TYPES else ELEMENTWISE
    return operation.opcode in ("constant", "parameter") or operation.opcode in known


def _reduce_rows(emitter: Emitter, combine: str, start: str, body: Body, value: Operand, to: _Written) -> None:
    """Reduce along the innermost axis, by vectors."""
    target, out, kept = to.pointer, to.index, to.axes
    outer, inner = _both_axes(body, to)
    if not body.is_wide and len(inner.extents) == 1 and _is_few(inner.extents[0], outer.extents):
        _reduce_few(emitter, combine, start, body, value, to, outer, inner)
        return
    axes = _joined(outer, inner, kept)
    accesses = [moved_access(access, axes) for access in body.accesses]
    counted = [Counted(each.name, axes.index(each.index)) for each in body.counted]
    place_of_result = axes.index(out)
    result = Access("sums", target, to.dtype, place_of_result)
    if len(inner.extents) == 1 and not counted and _are_short_rows(axes.extents, body, accesses, result):
        with emitter.nest(axes.extents[:-1]):
            first_row(emitter, result, is_written=True)
            lines = loads(emitter, axes.extents[-1], accesses)
            size, rows = cpp(axes.extents[-1]), cpp(axes.extents[-2])
            call = f"reduceRows<{combine}, {size}>({rows}, {start}, sums, [&]([[maybe_unused]] auto at)"
            with emitter.braces(call, "});"):
                for line in (*lines, *body.texts(), f"return {value.text()};"):
                    emitter.line(line)
        return
    with emitter.nest((*outer.extents, ONE)):
        emitter.line(f"auto total = {start};")
        middle = inner.extents[:-1]
        for axis, extent in enumerate(middle, len(outer.extents)):
            emitter.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(extent)}; ++i{axis}) {{")
        for access in accesses:
            emitter.address(access, is_written=False)
        lines = emitter.inside(accesses, counted, len(axes.extents), body)
        call, function = _reduced(combine, inner.extents[-1], is_wide=body.is_wide)
        with emitter.braces(f"total = {function}{{}}(total, {call}", "}));"):
            for line in (*lines, f"return {value.text()};"):
                emitter.line(line)
        for _ in middle:
            emitter.line("}")
        terms = [target, *address_terms(place_of_result, len(outer.extents))]
        emitter.line(f"*({' + '.join(terms)}) = total{' != 0' if to.dtype == 'pred' else ''};")


def _reduced(combine: str, size: Size, *, is_wide: bool) -> tuple[str, str]:
    """The head of a call that reduces a row, up to the parameter of its elements, and its function of two values."""
    if not is_wide:
        return f"reduced<{combine}>({cpp(size)}, [&]([[maybe_unused]] auto at)", combine
    function = f"OfWide<{combine}>"
    if size.is_constant and size.constant <= _PARTIAL:
        return f"reducedWideFew<{combine}, {size.constant}>([&]([[maybe_unused]] auto at)", function
    return f"reducedWide<{combine}>({cpp(size)}, [&]([[maybe_unused]] auto at)", function


def _are_short_rows(extents: Sequence[Size], body: Body, accesses: Sequence[Access], result: Access) -> bool:
    """Whether several rows go into one vector, whose results lie side by side."""
    beside = result.dtype == "f32" and len(extents) > 1 and result.index.factors[-2] == ONE
    return beside and are_rows(extents, body, accesses)


def _is_few(size: Size, outer: tuple[Size, ...]) -> bool:
    """Whether rows are so short, and so many results lie side by side, that each lane gets a row of its own."""
    if not outer or not size.is_constant or size.constant > _FEW:
        return False
    return _are_beside(outer[-1])


def _are_beside(size: Size) -> bool:
    """Whether so many results are worth vectors."""
    beside = size.per_row if size.grows else size
    return beside.is_constant and beside.constant >= _BESIDE


def _reduce_few(
    emitter: Emitter, combine: str, start: str, body: Body, value: Operand, to: _Written, outer: Axes, inner: Axes,
) -> None:  # fmt: skip
    """Reduce short rows in the same tree as long ones, with neighbouring rows in the lanes of a vector."""
    target, out, kept = to.pointer, to.index, to.axes
    depth = len(outer.extents)

    def along(index: Index) -> tuple[Index, str]:
        """The index in the outer axes, and the step to the next element of a row."""
        return outer.index(cut(index, 0, kept)), cpp(index.factors[kept + inner.chosen[0]])

    results = Access("sums", target, to.dtype, outer.index(cut(out, 0, kept)))
    with emitter.nest(outer.extents):
        emitter.address(results, is_written=True)
        lines = []
        for access in body.accesses:
            index, step = along(access.index)
            emitter.address(replace(access, index=index), is_written=False)
            place, last = f"{access.variable} + k * {step}", index.factors[-1]
            stride = "" if last == ONE else f", {cpp(last)}"
            read = f"filled(*({place}))" if last == ZERO else f"at.load({place}{stride})"
            lines.append(f"const auto {access.element} = {read};")
        for each in body.counted:
            index, step = along(each.index)
            first = " + ".join([*address_terms(index, depth - 1), f"k * {step}"])
            numbers = (f"static_cast<std::int32_t>({number})" for number in (first, cpp(index.factors[-1])))
            lines.append(f"const auto {each.name} = at.count({', '.join(numbers)});")
        with emitter.braces(f"eachWhole({cpp(outer.extents[-1])}, [&]([[maybe_unused]] auto at)", "});"):
            with emitter.braces("const auto element = [&]([[maybe_unused]] auto k)", "};"):
                for line in (*lines, *body.texts()):
                    emitter.line(line)
                emitter.line(f"return {value.text()};")
            size = cpp(inner.extents[0])
            emitter.line(
                f"const auto total = {combine}{{}}(filled({start}), reducedOfFew<{combine}, {size}>(element));"
            )
            emitter.line(store_text(Store(results, Element("total"))))


def _reduce_columns(emitter: Emitter, combine: str, start: str, body: Body, value: Operand, to: _Written) -> None:
    """Reduce along outer axes: neighbouring results by vectors, each in the order of the axes."""
    target, out, kept = to.pointer, to.index, to.axes
    rank = len(body.extents)
    reduced = tuple(range(kept, rank))
    order = (*range(kept - 1), *reduced, kept - 1)  # the kept axis that is innermost comes last
    extents = tuple(body.extents[axis] for axis in order)

    def moved(index: Index) -> Index:
        return replace(index, factors=tuple(index.factors[axis] for axis in order))

    accesses = [replace(access, index=moved(access.index)) for access in body.accesses]
    counted = [Counted(each.name, moved(each.index)) for each in body.counted]
    sums = Access("sums", target, to.dtype, moved(out))
    together, type_ = "eachAlone", "float"
    if body.by_vectors:
        together, type_ = with_multiple("eachTogether", extents[-1]), VECTOR_TYPES[to.dtype]
    with emitter.nest((*extents[: kept - 1], ONE)):
        emitter.address(sums, is_written=True)
        with emitter.braces(f"{together}({cpp(extents[-1])}, [&]([[maybe_unused]] auto... places)", "});"):
            emitter.line(f"{type_} totals[] = {{places.fill({start})...}};")
            for axis in range(kept - 1, rank - 1):
                emitter.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(extents[axis])}; ++i{axis}) {{")
            for access in accesses:
                emitter.address(access, is_written=False)
            lines = emitter.inside(accesses, counted, rank, body)
            emitter.line("auto* total = totals;")
            with emitter.braces("const auto step = [&]([[maybe_unused]] auto at)", "};"):
                for line in lines:
                    emitter.line(line)
                emitter.line(f"*total = {combine}{{}}(*total, {value.text()});")
                emitter.line("++total;")
            emitter.line("(step(places), ...);")
            for _ in range(kept - 1, rank - 1):
                emitter.line("}")
            emitter.line("auto* total = totals;")
            emitter.line("(places.store(sums, *total++), ...);")
