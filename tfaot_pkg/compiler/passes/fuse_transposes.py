"""Products whose results are transposed."""

from __future__ import annotations

from dataclasses import replace

from tfaot_pkg.compiler.attributes import Dimensions, Dot
from tfaot_pkg.compiler.program import Operation
from tfaot_pkg.compiler.use_def import Look


def result_order(look: Look, operation: Operation) -> Operation | None:
    """A product that is transposed: written in that order if its columns stay innermost, or with operands exchanged."""
    # (A B) transposed is B' A': if the rows become innermost, they are the columns of the exchanged product.
    dot = look.made_by(operation.operands[0], "dot", once=True) if operation.opcode == "transpose" else None
    if dot is None or (given := Dot.of(dot)).order:
        return None
    shapes = [look.known[operand].shape for operand in dot.operands]
    contracting, batch = given.contracting, given.batch
    shared = len(batch[0])
    rows, columns = (shape.rank - shared - len(axes) for shape, axes in zip(shapes, contracting, strict=True))
    if any(shape.dtype != "f32" for shape in shapes) or any(size.grows for size in dot.shape.sizes[shared:]):
        return None
    order: tuple[int, ...] = Dimensions.of(operation).dimensions
    of_rows = range(shared, shared + rows)
    of_columns = range(shared + rows, shared + rows + columns)
    if columns and order[-columns:] == tuple(of_columns):
        return replace(dot, id=operation.id, type=operation.type, attributes=replace(given, order=order))
    if not rows or order[-rows:] != tuple(of_rows):
        return None
    place = {axis: number for number, axis in enumerate((*range(shared), *of_columns, *of_rows))}
    exchanged = replace(
        given, contracting=contracting[::-1], batch=batch[::-1], order=tuple(place[axis] for axis in order)
    )
    return replace(dot, id=operation.id, type=operation.type, operands=dot.operands[::-1], attributes=exchanged)
