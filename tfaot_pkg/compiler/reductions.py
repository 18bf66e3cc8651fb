"""Reductions over some axes."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.compiler.affine import Axes, Index, address_terms, cpp, cut, merged
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import number_text
from tfaot_pkg.compiler.loops import Access, Body, moved_access
from tfaot_pkg.compiler.program import ONE, ZERO, Operation, Unsupported
from tfaot_pkg.compiler.recognize import reducer

_REDUCERS = {"add": "Adding", "multiply": "Multiplying", "maximum": "TakingLargest", "minimum": "TakingSmallest"}


def reduce(emitter: Emitter, operation: Operation) -> str:
    combine, operand = _REDUCERS.get(reducer(operation) or ""), emitter.known[operation.operands[0]]
    if combine is None or len(operation.operands) != 2 or operation.shape.dtype != "f32":
        raise Unsupported(f"a reduction by {reducer(operation) or 'several operations'}")
    dimensions = operation.attributes["dimensions"]
    start = f"filled({number_text(emitter.known[operation.operands[1]])})[0]"
    kept = [axis for axis in range(operand.shape.rank) if axis not in dimensions]
    order = [*kept, *dimensions]
    extents = tuple(operand.shape.sizes[axis] for axis in order)
    body = Body(extents)
    identity = body.identity()
    value = emitter.value(operand.id, tuple(identity[order.index(axis)] for axis in range(len(order))), body)
    target = emitter.buffer("f32", operation.shape.elements)
    out = Index(ZERO, (*operation.shape.strides, *(ZERO for _ in dimensions)))
    if operand.shape.rank - 1 in dimensions:
        _reduce_rows(emitter, combine, start, body, value, (target, out, len(kept)))
    else:
        _reduce_columns(emitter, combine, start, body, value, (target, out, len(kept)))
    emitter.touch(target)
    return target


def _reduce_rows(
    emitter: Emitter, combine: str, start: str, body: Body, value: str, to: tuple[str, Index, int]
) -> None:
    """Reduce along the innermost axis, by vectors."""
    target, out, kept = to
    outer = merged(
        body.extents[:kept],
        [cut(a.index, 0, kept) for a in body.accesses] + [cut(out, 0, kept)],
        [cut(i, 0, kept) for _, i in body.counted],
    )
    inner = merged(
        body.extents[kept:],
        [cut(a.index, kept, None) for a in body.accesses],
        [cut(i, kept, None) for _, i in body.counted],
    )
    axes = Axes((*outer.extents, *inner.extents), (*outer.chosen, *(kept + axis for axis in inner.chosen)))
    accesses = [moved_access(access, axes) for access in body.accesses]
    counted = [(name, axes.index(index)) for name, index in body.counted]
    place = axes.index(out)
    with emitter.nest((*outer.extents, ONE)):
        emitter.line(f"float total = {start};")
        middle = inner.extents[:-1]
        for axis, extent in enumerate(middle, len(outer.extents)):
            emitter.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(extent)}; ++i{axis}) {{")
        for access in accesses:
            emitter.address(access, is_written=False)
        lines = [*emitter.loads(accesses, body), *emitter.counts(counted, len(axes.extents)), *body.statements()]
        size = cpp(inner.extents[-1])
        emitter.line(f"total = {combine}{{}}(total, reduced<{combine}>({size}, [&](auto at) {{")
        for line in lines:
            emitter.line("  " + line)
        emitter.line(f"  return {value};")
        emitter.line("}));")
        for _ in middle:
            emitter.line("}")
        terms = [target, *address_terms(place, len(outer.extents))]
        emitter.line(f"*({' + '.join(terms)}) = total;")


def _reduce_columns(
    emitter: Emitter, combine: str, start: str, body: Body, value: str, to: tuple[str, Index, int]
) -> None:
    """Reduce along outer axes: neighbouring elements by vectors, each in the order of the axes."""
    target, out, kept = to
    rank = len(body.extents)
    reduced = tuple(range(kept, rank))
    order = (*range(kept - 1), *reduced, kept - 1)  # the kept axis that is innermost comes last
    extents = tuple(body.extents[axis] for axis in order)

    def moved(index: Index) -> Index:
        return replace(index, factors=tuple(index.factors[axis] for axis in order))

    accesses = [replace(access, index=moved(access.index)) for access in body.accesses]
    counted = [(name, moved(index)) for name, index in body.counted]
    sums = Access("sums", target, "f32", moved(out))
    with emitter.nest((*extents[: kept - 1], ONE)):
        emitter.address(sums, is_written=True)
        size = cpp(extents[-1])
        emitter.line(f"each({size}, [&](auto at) {{ at.store(sums, broadcast({start})); }});")
        for axis in range(kept - 1, rank - 1):
            emitter.line(f"for (std::size_t i{axis} = 0; i{axis} < {cpp(extents[axis])}; ++i{axis}) {{")
        for access in accesses:
            emitter.address(access, is_written=False)
        lines = [*emitter.loads(accesses, body), *emitter.counts(counted, rank), *body.statements()]
        with emitter.each((extents[-1],), body):
            for line in lines:
                emitter.line(line)
            emitter.line(f"at.store(sums, {combine}{{}}(at.load(sums), {value}));")
        for _ in range(kept - 1, rank - 1):
            emitter.line("}")
