"""Products of matrices and tensors. Those with constant weights are `dense` layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfaot_pkg.compiler.attributes import Dense, Dot
from tfaot_pkg.compiler.program import ONE, Shape, Size
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Value, known
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic, arithmetic
from tfaot_pkg.frontends.onnx_lowering.reductions import total
from tfaot_pkg.frontends.onnx_lowering.table import Call, Results, operator


def dense(b: Builder, x: Value, weights: Value, weights_axis: int, bias: Value | None = None) -> Value:
    """[..., k] by constant weights, whose axis `weights_axis` is summed over, and a constant bias."""
    columns = weights.sizes[1 - weights_axis]
    layer = [x, weights, *([] if bias is None else [bias])]
    stated = Shape("f32", (*x.sizes[:-1], columns))
    return b.op("dense", *layer, attributes=Dense(weights_axis=weights_axis), stated=stated)


def is_layer(b: Builder, x: Value, weights: Value) -> bool:
    """Whether the kernel library has a layer for the product."""
    return (
        b.layers
        and x.dtype == "f32"
        and x.known is None
        and weights.numbers is not None
        and weights.rank == 2
        and x.rank > 0
    )


def dot(
    b: Builder, x: Value, y: Value, over: tuple[Sequence[int], Sequence[int]],
    shared: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Value:  # fmt: skip
    contracting, batch = (tuple(over[0]), tuple(over[1])), (tuple(shared[0]), tuple(shared[1]))
    return b.op("dot", x, y, attributes=Dot(contracting=contracting, batch=batch))


@operator("Gemm")
def _gemm(call: Call) -> Results:
    return gemm(call)


def gemm(call: Call) -> Value:
    """Alpha * x @ y + beta * z, with x and y transposed if the attributes say so."""
    b, x, y, z = call.builder, call.input(0), call.input(1), call.maybe(2)
    a, alpha, beta = arithmetic(call, x), call.real("alpha", 1), call.real("beta", 1)
    x = b.transpose(x, [1, 0]) if call.whole("transA", 0) else x
    is_turned = 1 if call.whole("transB", 0) else 0
    if z is not None and beta == 0:
        z = None
    if z is not None and beta != 1:
        z = a.mul(z, beta)
    if is_layer(b, x, y):
        weights = y if alpha == 1 else a.mul(y, alpha)
        bias = None if z is None else _vector(z, weights.sizes[1 - is_turned])
        made = dense(b, x, weights, is_turned, bias)
        return made if z is None or bias is not None else a.add(made, z)
    made = dot(b, x, y, ([1], [is_turned]))
    made = made if alpha == 1 else a.mul(made, alpha)
    return made if z is None else a.add(made, z)


def _vector(value: Value, size: Size) -> Value | None:
    """A constant with an element for each column; None if it is none."""
    numbers = value.numbers
    if numbers is None or value.sizes not in ((size,), (ONE, size)):
        return None
    return known(numbers.reshape(-1), value.dtype)


@operator("MatMul")
def _matmul(call: Call) -> Value:
    return matmul(call.builder, call.input(0), call.input(1))


def matmul(b: Builder, x: Value, y: Value) -> Value:
    """As numpy.matmul."""
    if is_layer(b, x, y):
        return dense(b, x, y, 0)
    if y.rank == 1 or x.rank == 1 or y.rank == 2:
        # One product over all leading axes.
        return dot(b, x, y, ([x.rank - 1], [max(y.rank - 2, 0)]))
    sizes = b.together(_outer(x), _outer(y)) if x.rank > 2 else y.sizes[:-2]
    x, y = (b.spread(each, (*sizes, *each.sizes[-2:])) for each in (x, y))
    shared = range(len(sizes))
    return dot(b, x, y, ([x.rank - 1], [y.rank - 2]), (shared, shared))


def _outer(x: Value) -> Value:
    """An array of the leading sizes of `x`: only its shape is used."""
    return Value(shape=Shape(x.dtype, x.sizes[:-2]))


@operator("MatMulInteger")
def _matmul_integer(call: Call) -> Value:
    b = call.builder
    pair = [centered(b, call.input(place), call.maybe(place + 2), axis) for place, axis in ((0, -2), (1, -1))]
    return matmul(b, *pair)


def centered(b: Builder, x: Value, zero: Value | None, axis: int) -> Value:
    """`x` minus its zero point, as int32: one for all elements, or one for each row (axis -2) or column (axis -1)."""
    wide = b.convert(x, "s32")
    if zero is None:
        return wide
    zero = b.convert(zero, "s32")
    if axis == -2 and zero.rank == 1 and zero.sizes[0] != ONE:
        zero = b.reshape(zero, [*zero.sizes, ONE])
    return Arithmetic(b, wide).sub(wide, zero)


# -- Einsum --------------------------------------------------------------------------------------------------------


@operator("Einsum")
def _einsum(call: Call) -> Value:
    b, operands = call.builder, call.all()
    terms, wanted = _equation(call, call.text("equation", "").replace(" ", ""), operands)
    value, labels = _alone(b, operands[0], terms[0])
    for place, (operand, term) in enumerate(zip(operands[1:], terms[1:], strict=True), 1):
        kept = set(wanted).union(*terms[place + 1 :])
        value, labels = _pair(b, value, labels, *_alone(b, operand, term), kept)
    lost = [axis for axis, label in enumerate(labels) if label not in wanted]
    value = total(b, value, lost, keep=False) if lost else value
    labels = [label for label in labels if label in wanted]
    if sorted(labels) != sorted(wanted):
        raise call.fault(f"the equation {call.text('equation', '')!r}")
    return b.transpose(value, [labels.index(label) for label in wanted])


def _equation(call: Call, text: str, operands: Sequence[Value]) -> tuple[list[list[str]], list[str]]:
    """The labels of the axes of each operand, and of the result; those of an ellipsis are "0", "1" ... from its end."""
    left, arrow, right = text.partition("->")
    parts = left.split(",")
    if len(parts) != len(operands):
        raise call.fault(f"the equation {text!r} has {len(parts)} operands")
    terms = []
    for part, operand in zip(parts, operands, strict=True):
        many = operand.rank - len(part.replace("...", ""))
        terms.append(_labels(part, many))
        if len(terms[-1]) != operand.rank:
            raise call.fault(f"the equation {text!r} does not fit an array of {operand.rank} axes")
    dots = max((sum(label.isdecimal() for label in term) for term in terms), default=0)
    if arrow:
        return terms, _labels(right, dots)
    every = [label for term in terms for label in term if not label.isdecimal()]
    once = sorted(label for label in set(every) if every.count(label) == 1)
    return terms, [*_labels("...", dots), *once]


def _labels(text: str, many: int) -> list[str]:
    before, dots, behind = text.partition("...")
    return [*before, *(str(number) for number in range(many)[::-1] if dots), *behind]


def _alone(b: Builder, value: Value, labels: list[str]) -> tuple[Value, list[str]]:
    """The diagonal of axes that have the same label."""
    for label in set(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            last = labels.index(label, first + 1)
            here, there = (b.iota("s64", value.sizes, axis) for axis in (first, last))
            on_it = b.map("select", b.compare("EQ", here, there), value, b.constant(0, value.dtype))
            value = total(b, on_it, [last], keep=False)
            labels = [*labels[:last], *labels[last + 1 :]]
    return value, labels


def _pair(b: Builder, x: Value, left: list[str], y: Value, right: list[str], kept: set[str]) -> tuple[Value, list[str]]:
    """The product of two arrays, summed over the labels that nothing else has."""
    x, left = _summed(b, x, left, kept | set(right))
    y, right = _summed(b, y, right, kept | set(left))
    shared = [label for label in left if label in right and label in kept]
    over = [label for label in left if label in right and label not in kept]
    common = {label: b.together(*(_size(v, n.index(label)) for v, n in ((x, left), (y, right)))) for label in shared}
    x, y = (_widened(b, value, n, common) for value, n in ((x, left), (y, right)))
    free = [[label for label in n if label not in (*shared, *over)] for n in (left, right)]
    if not shared and len(over) == 1 and left[-1] == over[0] and is_layer(b, x, y):
        return dense(b, x, y, right.index(over[0])), [*free[0], *free[1]]
    places = [([left.index(each) for each in n], [right.index(each) for each in n]) for n in (over, shared)]
    made = dot(b, x, y, places[0], places[1])
    return made, [*shared, *free[0], *free[1]]


def _widened(b: Builder, x: Value, labels: list[str], sizes: Mapping[str, tuple[Size, ...]]) -> Value:
    pairs = zip(labels, x.sizes, strict=True)
    return b.spread(x, [sizes[label][0] if label in sizes else size for label, size in pairs])


def _size(value: Value, axis: int) -> Value:
    return Value(shape=Shape(value.dtype, (value.sizes[axis],)))


def _summed(b: Builder, x: Value, labels: list[str], kept: set[str]) -> tuple[Value, list[str]]:
    lost = [axis for axis, label in enumerate(labels) if label not in kept]
    return total(b, x, lost, keep=False), [label for label in labels if label in kept]
