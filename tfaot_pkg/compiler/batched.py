"""Products of two computed arrays, as in attention: float32 by the kernel library, other types by loops.

The second operand is packed for each product of a batch, unless it is constant and was packed before. Rows of the first
operand and of the result may have any stride, and the second operand may have any layout: only the inner axes of the
first one must be contiguous.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler.affine import Index, cpp, merged
from tfaot_pkg.compiler.attributes import Constant, Dimensions, Dot
from tfaot_pkg.compiler.body import Body
from tfaot_pkg.compiler.elements import Place, Stored, Variable
from tfaot_pkg.compiler.emitter import Emitter
from tfaot_pkg.compiler.expressions import C_TYPES, literal
from tfaot_pkg.compiler.instructions import Struct, Written
from tfaot_pkg.compiler.layers import PANEL, packed_dense
from tfaot_pkg.compiler.loops import View
from tfaot_pkg.compiler.panels import IN_BFLOAT16, IN_FLOAT32, Form
from tfaot_pkg.compiler.pieces import Entry
from tfaot_pkg.compiler.plain import address, counting
from tfaot_pkg.compiler.program import NUMPY_TYPES, ONE, ZERO, Operation, Shape, Size
from tfaot_pkg.compiler.sharing import is_divided

_Strides = Sequence[Size]
_Sizes = tuple[list[Size], list[Size], list[Size], list[Size]]
"""Of the axes of the batch, of rows, of what is summed over, and of columns."""
_SMALL = 12
"""A second operand of at most so many elements is not packed: 3 x 3 matrices took 72 ns with packing, and take 10."""
_LEAST_PRODUCTS = 2
"""The least products of a row of a batch that a team computes together."""
_UNCHAINED = 127
"""Longer columns are added up in chains (`isChained` of the kernel library), unless there are more than two panels of
them, or a single one."""


@dataclass(frozen=True, slots=True)
class _Laid:
    """An operand in memory: the strides of its batch axes, its rows and its columns."""

    pointer: str
    strides: tuple[_Strides, _Strides, _Strides]


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes of an operand: those of the batch, those that stay, and those that are summed over."""

    batch: list[int]
    free: list[int]
    summed: list[int]

    @staticmethod
    def of(rank: int, batch: Sequence[int], summed: Sequence[int]) -> _Axes:
        return _Axes([*batch], [axis for axis in range(rank) if axis not in (*summed, *batch)], [*summed])

    @property
    def as_rows(self) -> tuple[list[int], list[int], list[int]]:
        return self.batch, self.free, self.summed

    @property
    def as_columns(self) -> tuple[list[int], list[int], list[int]]:
        return self.batch, self.summed, self.free


def dot(emitter: Emitter, operation: Operation) -> str:
    (left, right), (left_batch, right_batch) = Dot.of(operation).contracting, Dot.of(operation).batch
    first, second = (emitter.known[operand] for operand in operation.operands)
    of_left = _Axes.of(first.shape.rank, left_batch, left)
    of_right = _Axes.of(second.shape.rank, right_batch, right)
    # Packing an operand that grows with the batch would be work for each row: exchanged, it is read in place.
    if _grows(second, of_right.free) and operation.shape.dtype == "f32" and not _grows(first, of_left.free):
        return turned(emitter, operation)
    batch, m, k = ([first.shape.sizes[axis] for axis in group] for group in of_left.as_rows)
    n = [second.shape.sizes[axis] for axis in of_right.free]
    if {operation.shape.dtype, first.shape.dtype, second.shape.dtype} != {"f32"}:
        rows = _ordered(emitter, first, of_left.as_rows).pointer
        columns = _ordered(emitter, second, of_right.as_columns).pointer
        return product(emitter, operation, rows, columns, (_elements(batch), _elements(m), _elements(k), _elements(n)))
    return _of_floats(emitter, operation, (of_left, of_right), (batch, m, k, n))


def _of_floats(emitter: Emitter, operation: Operation, axes: tuple[_Axes, _Axes], sizes: _Sizes) -> str:
    """A product of float32; its address."""
    first, second = (emitter.known[operand] for operand in operation.operands)
    batch, m, k, n = sizes
    # Before its columns: what is laid first gets its memory first.
    rows_of = _laid(emitter, first, axes[0].as_rows)
    is_constant = second.opcode == "constant" and not Constant.of(second).literal.growing
    form: Form = IN_BFLOAT16 if Dot.of(operation).in_bfloat16 else IN_FLOAT32
    is_plain = not (is_constant or Dot.of(operation).in_bfloat16)
    columns_of = _columns(emitter, second, axes[1], (k, n), is_constant=is_constant)
    # The kernel library reads contiguous rows of the first operand, unless the second one has few columns.
    along = None if rows_of is None else _step(k, rows_of.strides[2])
    is_narrow = is_plain and _is_narrow(columns_of, k, n)
    if rows_of is None or along is None or (along != ONE and not is_narrow):
        rows_of = _ordered(emitter, first, axes[0].as_rows)
    target = _target(emitter, operation, len(batch), len(m))
    if is_narrow:
        _write_narrow(emitter, sizes, (rows_of, columns_of, target))
    elif is_plain and _is_row(m, n) and _step(k, columns_of.strides[1]) == ONE:
        # A single row times contiguous columns: with operands exchanged, rows times a single column.
        swapped = [
            _Laid(each.pointer, (each.strides[0], *each.strides[:0:-1])) for each in (columns_of, rows_of, target)
        ]
        _write(emitter, (batch, n, k, m), *swapped, is_packed=False, form=IN_FLOAT32)
    else:
        _write(emitter, sizes, rows_of, columns_of, target, is_packed=is_constant, form=form)
    return target.pointer


def _is_row(m: list[Size], n: list[Size]) -> bool:
    return _elements(m) == ONE != _elements(n)


def _columns(
    emitter: Emitter, operand: Operation, axes: _Axes, sizes: tuple[list[Size], list[Size]], *, is_constant: bool
) -> _Laid:
    """The second operand in an order that can be read, or packed."""
    lay = _packed if is_constant else _laid
    found = lay(emitter, operand, axes.as_columns)
    if found is None or not _is_readable(found, *sizes):
        return _ordered(emitter, operand, axes.as_columns)
    return found


def _target(emitter: Emitter, operation: Operation, batches: int, lines: int) -> _Laid:
    """Where the result is written: its axes are those of `batches`, those of `lines`, and columns."""
    order = Dot.of(operation).order or tuple(range(operation.shape.rank))
    strides = [operation.shape.strides[order.index(axis)] for axis in range(operation.shape.rank)]
    ends = (batches, batches + lines)
    return _Laid(emitter.target(operation), (strides[: ends[0]], strides[ends[0] : ends[1]], strides[ends[1] :]))


def _is_readable(columns: _Laid, k: list[Size], n: list[Size]) -> bool:
    """Whether columns can be read or packed where they lie: single ones are read by vectors."""
    down, right = _step(k, columns.strides[1]), _step(n, columns.strides[2])
    return None not in (down, right) and (down == ONE or _elements(n) != ONE)


def _packed(emitter: Emitter, weights: Operation, groups: tuple[list[int], list[int], list[int]]) -> _Laid:
    """The weights of a batch of products, one packed matrix after the other, with the strides of these matrices.

    Matrices of the small products below, which call no kernel, are not packed.
    """
    values = literal(weights)
    sizes = [[values.shape[axis] for axis in group] for group in groups]
    count, inner, width = map(math.prod, sizes)
    matrices = values.transpose([axis for group in groups for axis in group]).reshape(count, inner, width)
    packed = matrices if _is_small(Size(inner), Size(width)) else np.stack([packed_dense(each) for each in matrices])
    each = Size(packed[0].size)
    by_group = [Shape("f32", tuple(map(Size, group))).strides for group in sizes]
    strides, down, right = (
        [stride * step for stride in group] for group, step in zip(by_group, (each, Size(width), ONE), strict=True)
    )
    return _Laid(emitter.constants.address(packed), (strides, down, right))


def _is_small(inner: Size, width: Size) -> bool:
    # A single column: packed, one lane of each vector of sums would be used.
    return width == ONE or (inner.is_constant and width.is_constant and (inner * width).constant <= _SMALL)


def _is_narrow(columns: _Laid, k: list[Size], n: list[Size]) -> bool:
    """Whether the rows of a matrix are contiguous and so short that it is read in place."""
    inner, width = _elements(k), _elements(n)
    if not width.is_constant or not 1 < width.constant <= PANEL:
        return False
    return _step(n, columns.strides[2]) == ONE and inner.is_constant and inner.constant <= _UNCHAINED


def _write_narrow(
    emitter: Emitter,
    sizes: _Sizes,
    arrays: tuple[_Laid, _Laid, _Laid],
) -> None:
    """Products with a matrix of few columns: packing it would take as long as a product."""
    (batch, m, k, n), (rows, columns, out) = sizes, arrays
    products = _loops(batch, [each.strides[0] for each in arrays])
    lines = _loops(m, [rows.strides[1], out.strides[1]]) or [(ONE, [ZERO, ZERO])]
    loops = [(f"b{axis}", size, strides) for axis, (size, strides) in enumerate(products)]
    loops += [(f"m{axis}", size, [of_row, ZERO, of_out]) for axis, (size, (of_row, of_out)) in enumerate(lines[:-1])]
    count, (row_step, out_step) = lines[-1]
    along, down = _step(k, rows.strides[2]) or ONE, _step(k, columns.strides[1]) or ONE
    reached = (
        _reach((count, row_step), (_elements(k), along)),
        _reach((_elements(k), down), (_elements(n), ONE)),
        _reach((count, out_step), (_elements(n), ONE)),
    )
    pointers = [
        address(each.pointer, *((name, strides[number]) for name, _, strides in loops), elements=reached[number])
        for number, each in enumerate(arrays)
    ]
    for each in arrays:
        emitter.touch(each.pointer)
    with emitter.block(), counting(emitter, [(name, size) for name, size, _ in loops]):
        left, right, made = pointers
        product = Struct((_elements(k), left, row_step, along, right, down, Written(made), out_step))
        emitter.call(f"timesNarrow<{cpp(_elements(n))}>", product, count)
    for each in arrays:
        emitter.touch(each.pointer)


def _write(
    emitter: Emitter,
    sizes: _Sizes,
    rows: _Laid,
    columns: _Laid,
    out: _Laid,
    *,
    is_packed: bool,
    form: Form,
) -> None:
    """Loops of products; `columns` may be packed already."""
    batch, m, k, n = sizes
    arrays = (rows, columns, out)
    products = _loops(batch, [each.strides[0] for each in arrays])
    lines = _loops(m, [rows.strides[1], out.strides[1]]) or [(ONE, [ZERO, ZERO])]
    down, right = _step(k, columns.strides[1]), _step(n, columns.strides[2])
    inner, width = _elements(k), _elements(n)
    extent = (inner, width, down or ONE, right or ONE)
    is_single = right == ONE and all(size == ONE for size, _ in lines)
    if _is_small(inner, width):
        _write_small(emitter, arrays, products, lines, extent)
    elif not is_packed and is_single and _is_unchained(inner, width):
        _write_single(emitter, arrays, products, extent[:3])
    else:
        _write_panels(emitter, arrays, products, lines, extent, form, is_packed=is_packed)


def _write_panels(
    emitter: Emitter,
    arrays: tuple[_Laid, _Laid, _Laid],
    products: list[tuple[Size, list[Size]]],
    lines: list[tuple[Size, list[Size]]],
    extent: tuple[Size, Size, Size, Size],
    form: Form,
    *,
    is_packed: bool,
) -> None:
    """Products by the kernel library, which reads panels of the second operand."""
    (rows, columns, out), (inner, width, down, right) = arrays, extent
    # The second operand is computed, not a weight: it is packed in each call, once for all rows.
    count, (row_step, out_step) = lines[-1]
    size = form.size(inner, width)
    packed = Place(columns.pointer if is_packed else emitter.buffer(form.dtype, size), elements=size)
    for pointer in (rows.pointer, columns.pointer, out.pointer):
        emitter.touch(pointer)
    outer = [(f"b{axis}", size) for axis, (size, _) in enumerate(products)]
    in_parts = _is_divided(emitter, outer, packed.elements)
    between = [(f"m{axis}", size) for axis, (size, _) in enumerate(lines[:-1])]

    def at(pointer: str, number: int, reach: Size, *, of_lines: int | None) -> Place:
        steps = [(name, strides[number]) for (name, _), (_, strides) in zip(outer, products, strict=True)]
        if of_lines is not None:
            steps += [(name, strides[of_lines]) for (name, _), (_, strides) in zip(between, lines, strict=False)]
        return address(pointer, *steps, elements=reach)

    matrix = _reach((inner, down), (width, right))
    emitter.flush()  # as `counting`
    with emitter.in_parts(outer) if in_parts else counting(emitter, outer) if outer else emitter.block():
        if is_packed:
            packed = at(packed.base, 1, packed.elements, of_lines=None)
        else:
            if in_parts:
                packed = _own(emitter, packed, form)
            emitter.call(form.pack, at(columns.pointer, 1, matrix, of_lines=None), *extent, Written(packed))
        with counting(emitter, between):
            read = at(rows.pointer, 0, _reach((count, row_step), (inner, ONE)), of_lines=0)
            written = at(out.pointer, 2, _reach((count, out_step), (width, ONE)), of_lines=1)
            form.multiply(emitter, (inner, width), packed, count, (read, row_step), (Written(written), out_step))
    for pointer in (rows.pointer, columns.pointer, *([] if is_packed else [packed.base]), out.pointer):
        emitter.touch(pointer)


def _is_divided(emitter: Emitter, products: list[tuple[str, Size]], packed: Size) -> bool:
    """Whether a team computes the products together, each with a packed matrix of its own."""
    symbols, count = emitter.program.symbols, _elements([size for _, size in products])
    if emitter.maker is None or not emitter.is_outermost or packed.grows or count.most(1, symbols) < _LEAST_PRODUCTS:
        return False
    if not is_divided(emitter, emitter.maker):
        return False
    needed = NUMPY_TYPES["f32"].itemsize * packed.most(1, symbols)
    emitter.member_scratch = max(emitter.member_scratch or 0, needed)
    return True


def _own(emitter: Emitter, packed: Place, form: Form) -> Place:
    """Memory for a packed matrix, which a thread of a team has for itself."""
    name = f"w{next(emitter.new)}"
    memory = Variable("memory")
    element = C_TYPES[form.dtype]
    own = (memory, " == nullptr ? ", packed, f" : reinterpret_cast<{element}*>(", memory, ")")
    emitter.declare(name, *own, kind=f"{element}* const")
    emitter.add(View(name, (ONE,), (packed.elements,)))
    emitter.aliases[name] = (packed.base,)
    return replace(packed, base=name)


def _is_unchained(inner: Size, width: Size) -> bool:
    return (inner.is_constant and inner.constant <= _UNCHAINED) or (width.is_constant and width.constant > 2 * PANEL)


def _write_single(
    emitter: Emitter,
    arrays: tuple[_Laid, _Laid, _Laid],
    products: list[tuple[Size, list[Size]]],
    extent: tuple[Size, Size, Size],
) -> None:
    """Products with a single row: packing the matrix would take longer than the product."""
    for each in arrays:
        emitter.touch(each.pointer)
    reached = (extent[0], _reach((extent[0], extent[2]), (extent[1], ONE)), extent[1])
    row, matrix, made = (
        address(
            each.pointer, *((f"b{axis}", strides[number]) for axis, (_, strides) in enumerate(products)),
            elements=reached[number],
        )
        for number, each in enumerate(arrays)
    )  # fmt: skip
    inner, width, down = extent
    with emitter.block(), counting(emitter, [(f"b{axis}", size) for axis, (size, _) in enumerate(products)]):
        emitter.call("timesMatrix", inner, width, row, matrix, down, Written(made))
    for each in arrays:
        emitter.touch(each.pointer)


def _write_small(
    emitter: Emitter,
    arrays: tuple[_Laid, _Laid, _Laid],
    products: list[tuple[Size, list[Size]]],
    lines: list[tuple[Size, list[Size]]],
    extent: tuple[Size, Size, Size, Size],
) -> None:
    """Products so small that a call would take longer; their sums add in the order of the rows. Or with one column."""
    (rows, columns, out), (inner, width, down, right) = arrays, extent
    # Each loop with its steps in the rows, the columns and the result.
    loops = [(f"b{axis}", size, strides) for axis, (size, strides) in enumerate(products)]
    loops += [
        (f"m{axis}", size, [of_row, ZERO, of_out])
        for axis, (size, (of_row, of_out)) in enumerate(lines)
        if size != ONE or not products
    ]
    for pointer in (rows.pointer, columns.pointer, out.pointer):
        emitter.touch(pointer)

    def at(number: int, pointer: str, reach: Size) -> Place:
        return address(pointer, *((name, strides[number]) for name, _, strides in loops), elements=reach)

    if width == ONE:
        _, count, steps = loops.pop()
        of_row, of_column, of_out = steps
        with emitter.block(), counting(emitter, [(name, size) for name, size, _ in loops]):
            one, other = (
                at(number, each.pointer, _reach((count, steps[number]), (inner, ONE)))
                for number, each in enumerate((rows, columns))
            )
            made = at(2, out.pointer, _reach((count, steps[2])))
            emitter.call("timesColumn", count, inner, one, of_row, other, of_column, Written(made), of_out)
    else:
        with emitter.block(), counting(emitter, [*((name, size) for name, size, _ in loops), ("j", width)]):
            emitter.declare("row", at(0, rows.pointer, inner), kind="const float* const")
            matrix, made = at(1, columns.pointer, inner), at(2, out.pointer, ONE)
            column = replace(matrix, steps=(*matrix.steps, ("j", right)), stride=down)
            emitter.declare("column", column, kind="const float* const")
            emitter.declare("sum", "0.0f", kind="float")
            with counting(emitter, [("k", inner)]):
                factors = (Entry("row", "k"), ", ", Entry("column", "k", down))
                emitter.assign("sum", "multiplyAdd(", *factors, ", ", Variable("sum"), ")")
            emitter.store(Stored(replace(made, steps=(*made.steps, ("j", ONE)))), Variable("sum"))
    for pointer in (rows.pointer, columns.pointer, out.pointer):
        emitter.touch(pointer)


def _reach(*axes: tuple[Size, Size]) -> Size:
    """How many elements an array has at least if axes of these sizes and strides are read."""
    return sum(((size + Size(-1)) * stride for size, stride in axes), start=ONE)


def _elements(sizes: Sequence[Size]) -> Size:
    return Shape("f32", tuple(sizes)).elements


def _loops(sizes: Sequence[Size], strides: Sequence[_Strides]) -> list[tuple[Size, list[Size]]]:
    """The axes as few loops, each with its size and the step of each array."""
    indices = [Index(ZERO, tuple(each)) for each in strides]
    axes = merged(tuple(sizes), indices)
    steps = [[index.factors[axis] for index in indices] for axis in axes.chosen]
    return [(size, step) for size, step in zip(axes.extents, steps, strict=True) if size != ONE]


def _step(sizes: Sequence[Size], strides: _Strides) -> Size | None:
    """The stride along axes that can be merged into one; None if they cannot."""
    loops = _loops(sizes, [strides])
    return ONE if not loops else loops[0][1][0] if len(loops) == 1 else None


def _laid(emitter: Emitter, operand: Operation, groups: tuple[list[int], list[int], list[int]]) -> _Laid | None:
    """An operand that is in memory, perhaps as a part of another value or in another order; None if it is not."""
    inner = operand
    while inner.opcode in ("transpose", "reshape"):
        inner = emitter.known[inner.operands[0]]
    emitter.stored(inner.id)
    order = [axis for group in groups for axis in group]
    body = Body(tuple(operand.shape.sizes[axis] for axis in order))
    place = body.identity()
    emitter.value(operand.id, tuple(place[order.index(axis)] for axis in range(len(order))), body)
    if len(body.accesses) != 1 or body.statements or body.counted:
        return None
    (access,) = body.accesses
    pointer = emitter.part(access, body)
    return _Laid(pointer, _grouped(access.index.factors, groups))


def _ordered(emitter: Emitter, operand: Operation, groups: tuple[list[int], list[int], list[int]]) -> _Laid:
    """An operand whose axes are brought into the order of `groups`."""
    order = [axis for group in groups for axis in group]
    shape = Shape(operand.shape.dtype, tuple(operand.shape.sizes[axis] for axis in order))
    if operand.opcode == "constant" and not Constant.of(operand).literal.growing:
        return _Laid(emitter.constants.address(literal(operand).transpose(order)), _grouped(shape.strides, groups))
    if order == list(range(len(order))):
        return _Laid(emitter.stored(operand.id), _grouped(shape.strides, groups))
    made = next(emitter.fresh)
    emitter.known[made] = Operation(
        id=made, opcode="transpose", type=shape, operands=(operand.id,), attributes=Dimensions(dimensions=tuple(order))
    )
    return _Laid(emitter.stored(made), _grouped(shape.strides, groups))


def _grouped(
    strides: Sequence[Size], groups: tuple[list[int], list[int], list[int]]
) -> tuple[_Strides, _Strides, _Strides]:
    first, second = len(groups[0]), len(groups[0]) + len(groups[1])
    return strides[:first], strides[first:second], strides[second:]


def _grows(operand: Operation, axes: Sequence[int]) -> bool:
    return any(operand.shape.sizes[axis].grows for axis in axes)


def product(
    emitter: Emitter, operation: Operation, rows: str, columns: str, sizes: tuple[Size, Size, Size, Size]
) -> str:
    """`rows` [batch, m, k] by `columns` [batch, k, n]: each element adds along k, in order."""
    batch, m, k, n = sizes
    dtype = operation.shape.dtype
    target = emitter.target(operation)
    if {dtype, *(emitter.known[operand].shape.dtype for operand in operation.operands)} == {"f64"}:
        with counting(emitter, [("b", batch)]):
            left, right, made = (
                address(pointer, ("b", each), elements=each)
                for pointer, each in ((rows, m * k), (columns, k * n), (target, m * n))
            )
            operands = Struct((left, k, k, right, n, Written(made), n))
            known, width = (f"<{cpp(n)}>", []) if n.is_constant else ("", [n])
            emitter.call(f"multiplyWide{known}", operands, m, *width)
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
        emitter.declare("total", "0", kind=C_TYPES[dtype])
        with counting(emitter, [("k", k)]):
            left = address(rows, ("b", m * k), ("i", k), ("k", Size(1)))
            right = address(columns, ("b", k * n), ("k", n), ("j", Size(1)))
            type_ = C_TYPES[dtype]
            total, one, other = Variable("total"), (f"{type_}(", Stored(left), ")"), (f"{type_}(", Stored(right), ")")
            if dtype[0] == "f":
                emitter.assign("total", total, " + ", *one, " * ", *other)
            else:  # sums of integers wrap around in HLO, and overflow is undefined in C++
                emitter.assign("total", "sumOf(", total, ", productOf(", *one, ", ", *other, "))")
        emitter.store(Stored(address(target, ("b", m * n), ("i", n), ("j", Size(1)))), Variable("total"))


def turned(emitter: Emitter, operation: Operation) -> str:
    """The product with exchanged operands, transposed: columns that grow with the batch become rows."""
    (left, right), (left_batch, right_batch) = Dot.of(operation).contracting, Dot.of(operation).batch
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
        attributes=replace(Dot.of(operation), contracting=(right, left), batch=(right_batch, left_batch), order=()),
    )  # fmt: skip
    emitter.known[back] = Operation(
        id=back, opcode="transpose", type=operation.type, operands=(dot,), attributes=Dimensions(dimensions=order)
    )
    return emitter.stored(back)
