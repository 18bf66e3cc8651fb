"""Products that the kernel library does not compute: of other types than float32."""

from __future__ import annotations

from tfaot_pkg.compiler.affine import cpp
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES
from tfaot_pkg.compiler.plain import address, counting
from tfaot_pkg.compiler.program import Operation, Shape, Size


def product(
    emitter: Emitter, operation: Operation, rows: str, columns: str, sizes: tuple[Size, Size, Size, Size]
) -> str:
    """`rows` [batch, m, k] by `columns` [batch, k, n]: each element adds up along k, in its order."""
    batch, m, k, n = sizes
    dtype = operation.shape.dtype
    target = emitter.buffer(dtype, operation.shape.elements)
    if {dtype, *(emitter.known[operand].shape.dtype for operand in operation.operands)} == {"f64"}:
        with counting(emitter, [("b", batch), ("i", m)]):
            left, right = address(rows, ("b", m * k), ("i", k)), address(columns, ("b", k * n))
            made = address(target, ("b", m * n), ("i", n))
            emitter.line(f"rowTimesMatrix({left}, {right}, {cpp(k)}, {cpp(n)}, {made});")
    else:
        _by_elements(emitter, rows, columns, target, dtype, sizes)
    for pointer in (rows, columns, target):
        emitter.touch(pointer)
    return target


def _by_elements(
    emitter: Emitter, rows: str, columns: str, target: str, dtype: str, sizes: tuple[Size, Size, Size, Size]
) -> None:
    batch, m, k, n = sizes
    with counting(emitter, [("b", batch), ("i", m), ("j", n)]):
        emitter.line(f"{C_TYPES[dtype]} total = 0;")
        with counting(emitter, [("k", k)]):
            left = address(rows, ("b", m * k), ("i", k), ("k", Size(1)))
            right = address(columns, ("b", k * n), ("k", n), ("j", Size(1)))
            one, other = (f"{C_TYPES[dtype]}(*({pointer}))" for pointer in (left, right))
            is_float = dtype[0] == "f"
            added = f"total + {one} * {other}" if is_float else f"sumOf(total, productOf({one}, {other}))"
            emitter.line(f"total = {added};")
        emitter.line(f"*({address(target, ('b', m * n), ('i', n), ('j', Size(1)))}) = total;")


def turned(emitter: Emitter, operation: Operation) -> str:
    """The operands in the other order, and transposed: columns that grow with the batch are rows then."""
    (left, right), (left_batch, right_batch) = operation.attributes["contracting"], operation.attributes["batch"]
    first, second = (emitter.known[operand].shape for operand in operation.operands)
    count = len(left_batch)
    free_left, free_right = (shape.rank - count - len(left) for shape in (first, second))
    sizes = operation.shape.sizes
    swapped = (*sizes[:count], *sizes[count + free_left :], *sizes[count : count + free_left])
    order = (
        *range(count),
        *(count + free_right + i for i in range(free_left)),
        *(count + i for i in range(free_right)),
    )
    dot, back = next(emitter.fresh), next(emitter.fresh)
    emitter.known[dot] = Operation(
        id=dot, opcode="dot", type=Shape(operation.shape.dtype, swapped), node=operation.node,
        operands=operation.operands[::-1],
        attributes={"contracting": (right, left), "batch": (right_batch, left_batch)},
    )  # fmt: skip
    emitter.known[back] = Operation(
        id=back, opcode="transpose", type=operation.type, operands=(dot,), attributes={"dimensions": order}
    )
    return emitter.stored(back)
