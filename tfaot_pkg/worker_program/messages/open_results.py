"""Which rows of a batch meet operands for which the framework leaves an operation's result open.

The operands are those of a run of the graph node by node, in its own types and again in float64: what roundings decide
is seen in the distance of both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from .unspecified_results import (
    CONVERSION,
    DIVISION,
    MAXIMUM,
    OPERATIONS,
    ORDER,
    OVERFLOW,
    QUANTIZED,
    SHIFT,
    STEP,
    TIES,
)

Array = npt.NDArray[Any]
Bools = npt.NDArray[np.bool_]

_NOISE = 4.0
"""A factor on the largest difference between an operand in float32 and in float64, within its row."""
_ROUNDING_WITHIN = ("ai.onnx.DynamicQuantizeLSTM", "ai.onnx.QGemm", "ai.onnx.QLinear")
"""Prefixes of operations that round what is no operand of theirs."""
_OF_DIFFERENCES = frozenset(
    "AdjustHue AdjustSaturation CumulativeLogsumexp DynamicQuantizeLSTM GRU HSVToRGB LSTM LogSoftmax "
    "MaxPool3DGradGrad MaxPoolGradGrad MaxPoolGradGradV2 RGBToHSV RNN ReduceLogSumExp Softmax".split()
)
"""Maxima whose operands are subtracted from one another."""
_AT_INTEGERS = frozenset(
    "Floor Ceil Cast FloorDiv FloorMod Mod _to_copy ceil div floor floor_divide fmod remainder trunc".split()
)
"""What jumps at integers, or where a quotient is one."""
_COMPARISONS = frozenset(
    "Greater GreaterEqual GreaterOrEqual Less LessEqual LessOrEqual Equal NotEqual eq ge gt le lt ne".split()
)
_OF_SQUARES = frozenset(
    "ComplexAbs FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 InstanceNormalization L2Loss LayerNormalization "
    "LpNormalization ReduceL2 ReduceSumSquare cdist group_norm instance_norm layer_norm linalg_vector_norm rms_norm "
    "std var".split()
)
"""Sums of squares, as variances are."""
_KEPT = 1 << 28
"""The most bytes of operands that are kept from the first run for the second one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node with its operands, arrays. `to` is the type of a conversion; `attributes` are numbers by name: `axis`, and
    `without_rule` of a sort that has none for equal elements.

    A node that is `nested`, as in a loop or a branch, may belong to any row of the batch.
    """

    name: str
    operation: str
    operands: tuple[Array, ...]
    to: np.dtype[Any] | None = None
    attributes: Mapping[str, Any] = field(default_factory=dict)
    nested: bool = False


def watched(operation: str) -> bool:
    """Whether nodes of this kind are looked at."""
    return any(operation in names for names in OPERATIONS.values())


class Observer:
    """Looks at the operands of two runs of a batch of `rows` rows: `first` in the graph's own types, then `second`."""

    def __init__(self, rows: int) -> None:
        self._rows, self._bytes, self._at = rows, 0, 0
        self._first: list[Node | None] = []
        self.found: dict[tuple[str, str], Bools] = {}

    def first(self, node: Node) -> None:
        self._bytes += sum(each.nbytes for each in node.operands)
        self._first.append(node if self._bytes <= _KEPT else None)

    def second(self, node: Node) -> None:
        before = self._first[self._at] if self._at < len(self._first) else None
        self._at += 1
        # A loop may take another number of turns in float64.
        if before is None or before.name != node.name or _shapes(before) != _shapes(node):
            return
        with np.errstate(all="ignore"):
            for freedom, mask in met(before, node):
                rows = self._by_row(np.asarray(mask), node.nested)
                self.found[freedom, node.operation] = self.found.get((freedom, node.operation), np.False_) | rows

    def _by_row(self, mask: Bools, nested: bool) -> Bools:
        """A mask of the batch's rows; all rows for an array that has none."""
        if not nested and mask.ndim and len(mask) and len(mask) % self._rows == 0:
            of_rows: Bools = np.any(mask.reshape(self._rows, -1), axis=1)
            return of_rows
        return np.full(self._rows, bool(mask.any()))


def _shapes(node: Node) -> list[tuple[int, ...]]:
    return [each.shape for each in node.operands]


def met(node: Node, exact: Node) -> Iterator[tuple[str, Bools]]:
    """(freedom, mask along the first axis of an operand) of a node; `exact` is the same one in float64."""
    for freedom, condition in _CONDITIONS.items():
        if node.operation in OPERATIONS[freedom]:
            found = condition(node, exact)
            for mask in found if isinstance(found, list) else [found]:
                if mask is not None and np.any(mask):
                    yield freedom, mask


def _conversion(node: Node, _exact: Node) -> Bools | None:
    x, to = node.operands[0], node.to
    if to is None or x.dtype.kind != "f" or to.kind not in "iu":
        return None
    limits, whole = np.iinfo(to), np.trunc(x.astype(np.float64))
    # The largest int64 is no float: what is rounded up to 2**63 is out of range.
    return ~((whole >= float(limits.min)) & (whole < float(limits.max) + 1))


def _shift(node: Node, _exact: Node) -> Bools:
    x, count = node.operands[:2]
    return (count.astype(np.float64) < 0) | (count.astype(np.float64) >= 8 * x.dtype.itemsize)


def _division(node: Node, _exact: Node) -> Bools | None:
    x, divisor = node.operands[:2]
    if x.dtype.kind not in "iu":
        return None
    lowest = x == np.iinfo(x.dtype).min if x.dtype.kind == "i" else np.zeros(x.shape, bool)
    result: Bools | None = (divisor == 0) | (lowest & (divisor.astype(np.float64) == -1))
    return result


def _nan(node: Node, _exact: Node) -> list[Bools]:
    arrays = [each for each in node.operands if each.dtype.kind == "f" and each.ndim]
    return [_rows_of(np.isnan(each)) for each in arrays]


def _no_integer(node: Node, exact: Node) -> list[Bools]:
    """NaN, and what makes NaN of a range."""
    if "Dynamic" not in node.operation:
        return _nan(node, exact)
    return [_rows_of(~np.isfinite(each)) for each in node.operands[:1] if each.ndim]


def _maximum(node: Node, exact: Node) -> list[Bools]:
    if node.operation.rpartition(".")[2] not in _OF_DIFFERENCES:
        return _nan(node, exact)
    # Infinity minus infinity is NaN within these.
    arrays = [each for each in node.operands if each.dtype.kind == "f" and each.ndim]
    return [_rows_of(~np.isfinite(each)) for each in arrays]


def _rows_of(mask: Bools) -> Bools:
    made: Bools = np.any(mask.reshape(len(mask), -1), axis=1) if mask.size else np.zeros(len(mask), bool)
    return made


def _noise(x: Array, exact: Array) -> Array:
    """The largest difference that is due to roundings, within each row, with axes to broadcast."""
    off = np.abs(x.astype(np.float64) - exact.astype(np.float64))
    off = np.where(np.isfinite(off), off, 0.0)
    rows = off.reshape(len(off), -1).max(1, initial=0.0) if off.ndim else off
    least = np.finfo(x.dtype).eps if x.dtype.kind == "f" else 0.0
    size = np.where(np.isfinite(x), np.abs(x.astype(np.float64)), 0.0)
    return _NOISE * (rows.reshape(-1, *[1] * (x.ndim - 1)) if x.ndim else rows) + least * size


def _ties(node: Node, exact: Node) -> Bools | None:
    x, right = node.operands[0], exact.operands[0]
    if x.dtype.kind != "f" or not x.ndim:
        return None
    axis = int(node.attributes.get("axis", -1)) if x.ndim > 1 else 0
    order = np.argsort(x, axis=axis)
    one, two, noise = (
        np.take_along_axis(np.broadcast_to(each, x.shape).astype(np.float64), order, axis)
        for each in (x, right, _noise(x, right))
    )
    step, step_of_two = np.diff(one, axis=axis), np.diff(two, axis=axis)
    near: Bools = np.abs(step) <= _sum_of_two(noise, axis)
    # Numbers that are equal in both runs are ties, for which most frameworks have a rule.
    if not node.attributes.get("without_rule"):
        near = near & ~((step == 0) & (step_of_two == 0))
    # It flushes the smallest ones to zero.
    tiny = _sum_of_two(np.abs(one), axis) < 2 * float(np.finfo(x.dtype).tiny)
    result: Bools | None = near | (tiny & (step != 0))
    return result


def _sum_of_two(values: Array, axis: int) -> Array:
    """Each number plus the next one along `axis`."""
    return np.delete(values, -1, axis) + np.delete(values, 0, axis)


def _step(node: Node, exact: Node) -> Bools | None:
    x, right = node.operands[0], exact.operands[0]
    if node.operation.startswith(_ROUNDING_WITHIN):
        return np.ones(max(len(x) if x.ndim else 1, 1), bool)
    if x.dtype.kind != "f":
        return None
    y = node.operands[1] if len(node.operands) > 1 else None
    distance = _distance(node, x.astype(np.float64), y)
    if distance is None:
        return None
    noise, is_rounded = _noise(x, right), _is_rounded(x, right)
    if y is not None and y.dtype.kind == "f" and y.shape == x.shape:
        noise = noise + _noise(y, exact.operands[1])
    if y is not None:
        is_rounded = is_rounded | bool((y != exact.operands[1]).any())
    # A number at the step in which no rounding took part, as in one that was counted, is on one side of it.
    return (distance <= noise) & ((distance > 0) | is_rounded)


def _is_rounded(x: Array, exact: Array) -> Array:
    """Whether a number of its row may have been rounded, with axes to broadcast: it differs in float64, or has the same
    type there.
    """
    off = np.atleast_1d((x != exact) | (x.dtype == exact.dtype))
    rows: Array = np.any(off.reshape(len(off), -1), axis=1)
    return rows.reshape(-1, *[1] * (x.ndim - 1)) if x.ndim else rows[0]


def _distance(node: Node, x: Array, y: Array | None) -> Array | None:
    """The distance of each number from the nearest one at which the result jumps; None if that is not known."""
    kind = node.operation.rpartition(".")[2]
    if kind in _AT_INTEGERS:
        if kind in ("Cast", "_to_copy") and (node.to is None or node.to.kind not in "iu"):
            return None
        x = x / y if y is not None else x
        return np.abs(x - np.rint(x))
    if kind in ("Round", "Rint", "round"):
        return np.abs(x - np.floor(x) - 0.5)
    if kind in ("Sign", "sign", "BipolarQuant"):
        return np.abs(x)
    if kind in _COMPARISONS:
        return None if y is None else np.abs(x - y.astype(np.float64))
    if kind in ("bucketize", "searchsorted"):
        if y is None or not y.shape[-1]:
            return None
        near: Array = np.abs(x[..., None] - y.astype(np.float64)[..., None, :]).min(-1)
        return near
    step = _quantum(node, kind, y)
    if step is not None and node.attributes.get("at_whole"):
        return np.abs(x / step - np.rint(x / step)) * step
    return None if step is None else np.abs(x / step - np.floor(x / step) - 0.5) * step


def _quantum(node: Node, kind: str, y: Array | None) -> Array | None:
    """The step of a quantization."""
    if kind == "QuantizeLinear":
        axis = int(node.attributes.get("axis", 1))
        return None if y is None else _along(y.astype(np.float64), node.operands[0].ndim, axis)
    if kind in ("IntQuant", "Quant", "Trunc"):
        return None if y is None else y.astype(np.float64)
    if kind.startswith("FakeQuant"):
        numbers = node.attributes
        least, most = (
            (numbers["min"], numbers["max"]) if kind.endswith("Args") else (node.operands[1], node.operands[2])
        )
        result: Array | None = (np.asarray(most, float) - least) / (
            2.0 ** numbers.get("num_bits", 8) - 1 - numbers.get("narrow_range", 0)
        )
        return result
    if kind == "DynamicQuantizeLinear":
        x = node.operands[0].astype(np.float64)
        return (max(x.max(initial=0), 0) - min(x.min(initial=0), 0)) / 255 or None
    return None


def _along(values: Array, rank: int, axis: int) -> Array:
    """`values` of one axis, so that they broadcast along `axis` of `rank` axes."""
    return (
        values
        if values.ndim != 1 or len(values) == 1
        else values.reshape([-1 if i == axis % rank else 1 for i in range(rank)])
    )


def _overflow(node: Node, exact: Node) -> list[Bools]:
    """Rows with a number that the type does not have, or whose terms could reach such a number in another order."""
    pairs = [
        (x, right) for x, right in zip(node.operands, exact.operands, strict=True) if x.dtype.kind == "f" and x.ndim
    ]
    masks = [_rows_of(~np.isfinite(x) & np.isfinite(right)) for x, right in pairs]
    # Several products are added: the first operand has the rows, the others are at most as large as their largest.
    if pairs:
        x, right = pairs[0]
        if _is_far_from_overflow(node, [each for _, each in pairs]):
            return masks
        wide = np.longdouble if x.dtype.itemsize > 4 else np.float64  # with exponents that float64 does not have
        size = np.where(np.isfinite(right), np.abs(right.astype(wide)), np.inf)
        terms = (size**2 if _squares(node) else size).reshape(len(size), -1).sum(1)
        for other, _ in pairs[1:]:
            terms = terms * np.maximum(np.abs(other.astype(wide)).max(initial=0), 1)
        masks.append(terms > np.finfo(x.dtype).max)
    return masks


def _is_far_from_overflow(node: Node, operands: list[Array]) -> bool:
    """Whether as many products of the largest numbers as the first operand has elements are in its type."""
    sizes = [float(max(each.max(initial=0), -each.min(initial=0))) for each in operands]
    most = sizes[0] * (sizes[0] if _squares(node) else 1.0)
    for each in sizes[1:]:
        most *= max(each, 1.0)
    return operands[0].size * most <= float(np.finfo(node.operands[0].dtype).max)


def _squares(node: Node) -> bool:
    """Whether it adds squares of its operand: normalizations of batches do in training only."""
    kind = node.operation.rpartition(".")[2]
    return kind in _OF_SQUARES and (not kind.startswith("FusedBatchNorm") or bool(node.attributes.get("is_training")))


_CONDITIONS: dict[str, Callable[[Node, Node], Bools | list[Bools] | None]] = {
    CONVERSION: _conversion,
    SHIFT: _shift,
    DIVISION: _division,
    MAXIMUM: _maximum,
    ORDER: _nan,
    QUANTIZED: _no_integer,
    TIES: _ties,
    STEP: _step,
    OVERFLOW: _overflow,
}
