"""Numbers of rows that values decide: arrays have as many rows as there may be, and a count says how many are meant.

A program's arrays have sizes that no value changes. So `NonZero` and the like (selecting.py) give `Padded` values, in
which the rows that are meant come first. Only operators that compute each of these rows from itself alone may read
them: the list is one of what is allowed, so that an operator that is missing here is an error, never a wrong answer
(decision 056). Outputs have zeros in the rows that are left (model.counts).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tfaot_pkg.compiler.program import ONE
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.lowering.builder import Builder
from tfaot_pkg.frontends.lowering.values import Held, Padded, Value
from tfaot_pkg.frontends.onnx_lowering.elementwise import Arithmetic
from tfaot_pkg.frontends.onnx_lowering.table import Call, Refused

_BY_ELEMENT = frozenset(
    """Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil Celu
    Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf
    IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round Selu
    Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor""".split()
)


def padded(call: Call, made: Sequence[Held | None]) -> tuple[Held | None, ...]:
    """What a node made, which is padded if its inputs are. Raises Unsupported if it may mix their rows."""
    given = [each for each in call.inputs if isinstance(each, Value) and each.padded is not None]
    if not given:
        return tuple(made)
    # No sequence has such items: operators of sequences are not in the list of those that are allowed.
    results = [None if each is None else call.value(each) for each in made]
    if call.op == "Shape":
        return _measured(call, results)
    counts = {each.padded.count.id for each in given if each.padded is not None}
    has_sizes = any(each.padded is not None and each.padded.is_size for each in given)
    axis = None
    if len(counts) == 1 and (not has_sizes or call.op in _BY_SIZES):
        axis = _axis(call, results)
    if axis is None or given[0].padded is None:
        raise Refused(
            "it may compute a result of several rows whose number values decide",
            "compute it of all rows and a mask, or make the rows themselves an output (model.counts)",
        )
    found = Padded(axis=axis, count=given[0].padded.count)
    return tuple(None if each is None else replace(each, padded=found) for each in results)


def _axis(call: Call, results: Sequence[Value | None]) -> int | None:
    """The axis of the rows in the results of a node; None if it is not known to compute them one by one."""
    rank = max((each.rank for each in results if each is not None), default=0)
    if call.op in _BY_SIZES:
        return _reshaped(call, results)
    if call.op in _BY_ELEMENT:
        return _of_all(call.arrays, rank)
    rule = _RULES.get(call.op)
    return None if rule is None else rule(call, rank)


def _of_all(inputs: Sequence[Value | None], rank: int) -> int | None:
    """The axis if arrays are combined element by element."""
    axes = {each.padded.axis + rank - each.rank for each in inputs if each is not None and each.padded is not None}
    if len(axes) != 1:
        return None
    (axis,) = axes
    others = (each for each in inputs if each is not None and each.padded is None and axis - rank + each.rank >= 0)
    # An array of as many rows would not fit the rows that are meant.
    return axis if all(each.sizes[axis - rank + each.rank] == ONE for each in others) else None


def _reshaped(call: Call, results: Sequence[Value | None]) -> int | None:
    """The axis if all axes up to it stay as they are."""
    x, (made, *_) = call.input(0), results
    if made is None or x.padded is None or x.padded.is_size:
        return None
    end = x.padded.axis + 1
    if call.op == "Expand":
        axis = x.padded.axis + made.rank - x.rank
        return axis if made.sizes[axis] == x.sizes[x.padded.axis] else None
    return x.padded.axis if made.sizes[:end] == x.sizes[:end] else None


_BY_SIZES = ("Expand", "Reshape")
"""Operators that may read the sizes of such an array."""


def _measured(call: Call, results: Sequence[Value | None]) -> tuple[Value | None, ...]:
    """The sizes of an array: that of the rows is no number that is known."""
    x = call.input(0)
    if x.padded is None or x.padded.is_size:
        raise Refused("it measures sizes that depend on values")
    start, end = call.whole("start", 0), call.whole("end", x.rank)
    has_rows = x.padded.axis in range(x.rank)[start:end]
    rows = replace(x.padded, is_size=True) if has_rows else None
    return tuple(None if each is None else replace(each, padded=rows) for each in results)


def _first(call: Call) -> int | None:
    """The axis of the first input's rows, if it alone has any."""
    first, *others = call.arrays
    if first is None or first.padded is None or any(each is not None and each.padded is not None for each in others):
        return None
    return first.padded.axis


def _transposed(call: Call, rank: int) -> int | None:
    order = call.wholes("perm") or list(range(rank))[::-1]
    axis = _first(call)
    return None if axis is None else order.index(axis)


def _squeezed(call: Call, _: int) -> int | None:
    axis, axes = _first(call), call.axes(1, call.input(0).rank)
    # Without axes it would also remove the rows if there is only one.
    if axis is None or axes is None or axis in axes:
        return None
    return axis - sum(each < axis for each in axes)


def _unsqueezed(call: Call, rank: int) -> int | None:
    axis = _first(call)
    given = call.wholes("axes") if call.maybe(1) is None else call.integers(1, "the axes")
    if axis is None or given is None:
        return None
    new = {call.axis(each, rank) for each in given}
    return [each for each in range(rank) if each not in new][axis]


def _multiplied(call: Call, rank: int) -> int | None:
    """Rows of the left matrix are rows of the product; those of the right one are summed."""
    axis, x, y = _first(call), call.input(0), call.input(1)
    if axis is None or axis == x.rank - 1 or (axis < x.rank - 2 and y.rank > 2):
        return None
    return axis if y.rank == 1 else axis + rank - x.rank


def _general(call: Call, _: int) -> int | None:
    addend = call.maybe(2)
    is_one_row = addend is None or addend.rank < 2 or addend.sizes[0] == ONE
    return _first(call) if is_one_row and not call.whole("transA", 0) and _first(call) == 0 else None


def _gathered(call: Call, _: int) -> int | None:
    x, indices = call.input(0), call.input(1)
    axis = call.axis(call.whole("axis", 0), x.rank)
    if x.padded is None and indices.padded is not None:
        return axis + indices.padded.axis
    if indices.padded is not None or x.padded is None or x.padded.axis == axis:
        return None
    return x.padded.axis if x.padded.axis < axis else x.padded.axis + indices.rank - 1


def _gathered_by_vectors(call: Call, _: int) -> int | None:
    x, indices = call.input(0), call.input(1)
    if x.padded is not None or indices.padded is None or call.whole("batch_dims", 0):
        return None
    return indices.padded.axis if indices.padded.axis < indices.rank - 1 else None


def _sliced(call: Call, rank: int) -> int | None:
    axis = _first(call)
    if call.maybe(1) is None:
        axes = call.wholes("axes") or list(range(len(call.wholes("starts") or [])))
    elif call.maybe(3) is None:
        axes = list(range(len(call.sizes(1, "where it begins"))))
    else:
        axes = call.integers(3, "the axes")
    # Others would count fewer rows, or put the padding first.
    return None if axis in {call.axis(each, rank) for each in axes} else axis


def _joined(call: Call, rank: int) -> int | None:
    axes = {None if each is None or each.padded is None else each.padded.axis for each in call.arrays}
    (axis,) = axes if len(axes) == 1 else (None,)
    return None if axis is None or axis == call.axis(call.whole("axis"), rank) else axis


_RULES: Mapping[str, Callable[[Call, int], int | None]] = {
    "Concat": _joined,
    "Gather": _gathered,
    "GatherND": _gathered_by_vectors,
    "Gemm": _general,
    "MatMul": _multiplied,
    "Slice": _sliced,
    "Squeeze": _squeezed,
    "Transpose": _transposed,
    "Unsqueeze": _unsqueezed,
}
"""What axis the rows have in the results of a node, whose rank is given."""


class Uncounted(ModelError):
    """`outputs` have rows whose number depends on values, and `model.counts` does not name them."""

    def __init__(self, outputs: Sequence[str]) -> None:
        self.outputs = tuple(outputs)
        names = ", ".join(f"{each}: {each}_count" for each in outputs)
        super().__init__(
            f"the number of rows of {' and '.join(map(repr, outputs))} depends on the values of the model's inputs",
            hint=f"name them in model.counts ({names}), to get as many rows as there can be and the number of valid "
            "ones; or return all rows and a mask, or a fixed number of them",
        )


def counted(b: Builder, results: Mapping[str, Value], counts: Mapping[str, str]) -> dict[str, Value]:
    """The outputs `results` with zeros behind the rows that are meant, and the numbers of these: `counts` names them.

    Raises ModelError if `counts` names other outputs, or not all that need it.
    """
    missing = [name for name, value in results.items() if value.padded is not None and name not in counts]
    if missing:
        raise Uncounted(missing)
    found = {name: _zeroed(b, name, value) for name, value in results.items()}
    for name, count in counts.items():
        if name not in results:
            raise ModelError(
                f"model.counts names {name!r}, but the model has no such output",
                hint=f"the outputs are: {', '.join(sorted(results))}",
            )
        rows = results[name].padded
        if rows is None:
            raise ModelError(
                f"model.counts names {name!r}, whose number of rows is fixed", hint="remove it from the spec"
            )
        if count in found:
            raise ModelError(f"model.counts names {count!r}, which is an output already", hint="choose another name")
        found[count] = rows.count
    return found


def _zeroed(b: Builder, name: str, value: Value) -> Value:
    rows = value.padded
    if rows is None:
        return value
    if rows.axis:
        raise ModelError(
            f"model.counts names {name!r}, and values decide the size of its axis {rows.axis}",
            hint="transpose it in the model: its first axis must be the one that values decide",
        )
    places = b.iota("s32", value.sizes, 0)
    is_meant = b.compare("LT", places, rows.count)
    return replace(Arithmetic(b, value).where(is_meant, value, 0), short=value.short)
