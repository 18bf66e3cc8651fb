"""The rules by which an answer may differ from the framework's: one table, and nothing outside of it is excused.

A rule names what leaves the result open, with its source, the classes of inputs and the operations for which it holds,
and the elements that it excuses. `make reference` writes docs/reference/validation-rules.md from this table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tfaot_pkg.verify.evidence import NOISE, Evidence, Mask, agreement
from tfaot_pkg.verify.inputs import ARRANGED, MAIN
from tfaot_pkg.worker_program.messages.unspecified_results import (
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

Kind = Literal[
    "NaN rule", "large argument", "rounding", "random op", "ties in sort order", "rows that interact",
    "out-of-range index", "subnormal numbers", "undefined result", "does not end", "other bits", "distribution",
    "real",
]  # fmt: skip

CORNERS = frozenset({"boundary", "huge", "integers", "nonfinite", "subnormal"})
"""Classes of numbers at the limits of their types."""
USUAL = "usual"
"""All other classes but the main and the arranged rows: scaled, large, branches, sizes of symbols, answers in files."""
EVERYWHERE = CORNERS | {MAIN, USUAL}

_SHARE = 0.1
"""The most elements of an output, as a share, that steps may change without any other answer like ours."""
_OPEN, _ALONE = 0.75, 2
"""The most rows, as a share of those in which the framework leaves a result open, that have an answer which no run of
the framework gave; and the number of rows that may, however few these are. Rows, because one sum may reach all of a
row, as through a softmax."""
_UNSHOWN = 4
"""How many main elements may differ for each one that the framework's own answers show to be open: half of those that
a rounding decides are on the same side in float64, and most tries of the inputs move fewer roundings than a deep model
has."""
_STEPS = 4 / 256
"""The most that a step of a quantized net moves an answer, relative to the range of all answers: some of 256 steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule with a `freedom` (worker_program/messages/unspecified_results.py) holds for operations that met such
    operands, in the rows in which they did, if these are among its `operations` or it has none; a rule without a
    freedom holds for models with one of its operations, or for all.

    `excuses` gives the elements, which `elements` describes.
    """

    name: str
    kind: Kind
    classes: frozenset[str]
    source: str
    elements: str
    excuses: Callable[[Evidence], Mask]
    freedom: str = ""
    operations: frozenset[str] = frozenset()

    def applied(self, seen: Evidence) -> tuple[Mask, tuple[str, ...]]:
        """The elements that it excuses, and the operations by which it holds."""
        if group_of(seen.class_name) not in self.classes:
            return seen.nothing, ()
        if self.freedom:
            rows, named = seen.open(self.freedom, self.operations or OPERATIONS[self.freedom])
            return (rows & self.excuses(seen) if rows.any() else rows), named
        named = tuple(sorted(self.operations & seen.operations))
        if self.operations and not named:
            return seen.nothing, ()
        return self.excuses(seen), named


def group_of(class_name: str) -> str:
    """The name by which rules know a class of inputs."""
    return class_name if class_name in CORNERS or class_name in (MAIN, ARRANGED) else USUAL


def _like_another(seen: Evidence) -> Mask:
    return seen.as_compiled | seen.as_exact


def _flushed(seen: Evidence) -> Mask:
    flushed, spread = seen.answers.flushed, seen.answers.spread
    # ONNX Runtime flushes nothing unless a session asks for it, PyTorch unless a program does.
    if flushed is None or any(each.startswith(("ai.onnx.", "aten.")) for each in seen.operations):
        return seen.nothing
    change = None if seen.class_name == MAIN or spread is None else spread.change
    found = agreement(flushed, seen.eager, rtol=seen.rtol, atol=seen.atol, spread=change) & seen.answers.eager_ran
    return found & ~agreement(seen.answers.ours, flushed, rtol=0, atol=0)


def _subnormal(seen: Evidence) -> Mask:
    near = np.zeros_like(seen.nothing)
    jit = seen.answers.jit
    if seen.is_float and jit is not None and jit.shape == near.shape:
        # If eager and compiled TensorFlow disagree, both are off by what they flush: ours by no more than that.
        with np.errstate(all="ignore"):
            off = np.abs(seen.answers.ours.astype(np.float64) - seen.eager)
            near = np.isfinite(off) & (off <= NOISE * np.abs(jit.astype(np.float64) - seen.eager))
    return _like_another(seen) | near


def _near_float64(seen: Evidence) -> Mask:
    return (seen.as_exact | seen.as_conditioned) & seen.finite


def _as_defined(seen: Evidence) -> Mask:
    return seen.as_defined


def _in_order(seen: Evidence) -> Mask:
    """What nearly equal numbers in another order explain."""
    alike = _alike(seen)
    return alike | _jumped(seen, TIES, alike) | (_torn(seen) if seen.class_name in CORNERS else seen.nothing)


def _alike(seen: Evidence) -> Mask:
    """`_like_another`; on main inputs, compiled code alone is no witness for more than the framework itself shows."""
    if seen.class_name != MAIN:
        return _like_another(seen)
    return seen.as_exact | _as_shown(seen.as_compiled & ~seen.as_exact, seen)


def _as_shown(found: Mask, seen: Evidence) -> Mask:
    """`found`, of main inputs at most `_UNSHOWN` times as many as elements that the framework's own answers show to be
    open, which change with roundings of the inputs or in float64; or those in two rows.

    Also of other inputs, if nobody could look at the model's operands: then all rows are taken for open.
    """
    if seen.class_name != MAIN and seen.answers.walked is not None:
        return found
    shown = seen.moved | seen.torn_in_float64
    others = found & seen.differs & ~shown
    is_few = np.count_nonzero(others) <= _UNSHOWN * np.count_nonzero(shown) or _rows(others) <= _ALONE
    return found if is_few else found & shown


def _jumped(seen: Evidence, freedom: str, alike: Mask) -> Mask:
    """Elements that a rounding changes in runs of the framework, and those of few other rows in which one could."""
    rows, _ = seen.open(freedom, OPERATIONS[freedom])
    possible = rows & (seen.plausible | seen.among_moved) & (seen.finite if seen.is_float else ~seen.nothing)
    shown = possible & (seen.torn | seen.moved)
    if seen.class_name == MAIN:
        shown = possible & (seen.torn_in_float64 | seen.moved) & seen.among_answers
    others = possible & ~shown & ~alike
    return shown | (others if _rows(others & seen.differs) <= _ALONE else seen.nothing)


def _torn(seen: Evidence) -> Mask:
    """Rows on which the framework disagrees with itself: not all of them, and no numbers that it never gives."""
    torn, rows = seen.torn & seen.plausible, seen.torn_rows
    return torn | _some_of(rows & ~torn & seen.plausible, rows, seen)


def _as_torn(seen: Evidence) -> Mask:
    """Elements of such rows, in as many places: if a row is a set of points, nearly every one has a NaN somewhere."""
    torn = seen.torn & seen.plausible
    return _as_many(seen.torn_rows & ~torn & seen.plausible, torn, seen)


def _some_of(found: Mask, rows: Mask, seen: Evidence, alone: int = _ALONE) -> Mask:
    """`found`, unless it explains differences in nearly all `rows`, and in more than are believed `alone`."""
    return found if _rows(found & seen.differs) <= max(_OPEN * _rows(rows), alone) else seen.nothing


def _few(seen: Evidence, alike: Mask) -> Mask:
    """All finite elements, if only few of them differ from all other answers: in two rows, all may.

    One step reaches all elements of its row if a layer follows, and a class may have one row.
    """
    others = seen.differs & ~alike
    is_few = np.count_nonzero(others) <= _SHARE * others.size or _rows(others) <= _ALONE
    return (seen.finite if seen.is_float else ~seen.nothing) & is_few


def _one_step(seen: Evidence) -> Mask:
    ours, eager, by_node = seen.answers.ours, seen.eager, seen.answers.by_node
    alike = _alike(seen)
    if eager.dtype.kind == "b":
        return alike | _jumped(seen, STEP, alike)
    with np.errstate(all="ignore"):
        off = np.abs(ours.astype(np.float64) - eager.astype(np.float64))
        # A result that is open before the step: the framework's graph with what compiled code gives for it.
        if by_node is not None and by_node.shape == off.shape and seen.class_name != MAIN:
            off = np.fmin(off, np.abs(ours.astype(np.float64) - by_node.astype(np.float64)))
    if not seen.is_float:
        return alike | _as_shown(_few(seen, alike) & (off <= 1), seen)
    numbers = eager[np.isfinite(eager)].astype(np.float64)
    limit = _STEPS * float(np.ptp(numbers)) if numbers.size else 0.0
    return alike | _as_shown(_few(seen, alike) & np.isfinite(off) & (off <= limit), seen)


def _overflowed(seen: Evidence) -> Mask:
    if seen.class_name not in CORNERS:
        return _like_another(seen) & seen.not_finite
    met = seen.open(OVERFLOW, OPERATIONS[OVERFLOW])[0]
    alike = _like_another(seen)
    if not seen.is_float:
        # Integers follow from such sums: the place of the largest one, or a comparison.
        return alike | _some_of(met & ~alike & seen.plausible, met, seen)
    ours = np.isfinite(seen.answers.ours)
    shown = met & (seen.torn | seen.not_finite | seen.not_finite_nearby)
    found = alike | (shown & ~ours)
    # Our sums may overflow where the framework's do not, or reach the end where its do.
    found = found | _as_many(met & ~shown & ~ours & ~alike, shown, seen)
    found = found | _as_many(met & ~shown & ours & ~alike & _saturated(seen, shown), shown, seen)
    jit, exact = seen.answers.jit, seen.answers.exact
    numbers = shown & ours & ~alike & (~seen.nothing if jit is None and exact is None else seen.plausible)
    # Where float64 has a number, only sums of floats leave their range: in another order they need not. The few rows of
    # a class need not have the least and the largest answer that this can lead to.
    if exact is not None:
        found = found | (shown & ours & ~alike & seen.within_answers(1.0) & np.isfinite(exact))
    found = found | _as_many(numbers & ~found, shown & ~ours, seen)
    found = found | _some_of(_cancelled(seen) & met, met, seen, alone=0)
    # If all distances overflow, each search finds other neighbours, and two searches agree on some rows by chance.
    if seen.class_name == "huge" and seen.torn.any() and seen.operations & OPERATIONS[TIES]:
        found = found | seen.plausible
    return found


def _saturated(seen: Evidence, shown: Mask) -> Mask:
    """Numbers that the framework gives where sums of its own overflow, and float64 another one: an end of a function.

    ReLU makes 0 of a sum that is -infinity, a sigmoid 0 or 1.
    """
    ends = seen.eager[shown & seen.torn_in_float64 & np.isfinite(seen.eager)]
    found: Mask = np.isin(seen.answers.ours, ends)
    return found


def _as_many(found: Mask, shown: Mask, seen: Evidence) -> Mask:
    """`found`, unless more of it differ than elements that the framework's own answers have `shown` to be open.

    It may be in two rows whatever these show: one sum reaches all elements of its row.
    """
    differ = found & seen.differs
    is_few = np.count_nonzero(differ) <= np.count_nonzero(shown) or _rows(differ) <= _ALONE
    return found if is_few else seen.nothing


def _cancelled(seen: Evidence) -> Mask:
    """Numbers below a rounding of the largest one: what is left of terms of that size depends on their order."""
    limits = np.finfo(seen.eager.dtype)
    rounding = float(limits.max) * float(limits.eps)
    return (np.abs(seen.answers.ours) < rounding) & (np.abs(seen.eager) < rounding)


def _decomposed(seen: Evidence) -> Mask:
    """Where one of the framework's ways to compute it overflows, what another one gives."""
    return _like_another(seen) & (seen.not_finite | ~np.isfinite(seen.answers.ours)) if seen.is_float else seen.nothing


def _rows(found: Mask) -> int:
    """The number of rows with a found element."""
    return int(np.count_nonzero(found.reshape(len(found), -1).any(axis=1))) if found.ndim else int(found.any())


def _nan(seen: Evidence) -> Mask:
    found = _like_another(seen) | (seen.torn & seen.plausible)
    if seen.is_float:
        largest = np.abs(seen.eager) == np.finfo(seen.eager.dtype).max
        found = found | (np.isinf(seen.answers.ours) & largest & (np.sign(seen.answers.ours) == np.sign(seen.eager)))
    return found


def _moved_relu(seen: Evidence) -> Mask:
    if not seen.is_float or not seen.operations & {"Relu", "Relu6", "ai.onnx.Relu"}:
        return seen.nothing
    return ~np.isfinite(seen.eager) & np.isfinite(seen.answers.ours)


def _nan_of_products(seen: Evidence) -> Mask:
    if not seen.is_float:
        return seen.nothing
    return _like_another(seen) | (np.isnan(seen.answers.ours) & seen.rows_with(~np.isfinite(seen.eager)))


def _both_not_finite(seen: Evidence) -> Mask:
    return ~np.isfinite(seen.eager) & ~np.isfinite(seen.answers.ours) if seen.is_float else seen.nothing


def _as_no_root(seen: Evidence) -> Mask:
    # ONNX Runtime rewrites no powers.
    if not seen.is_float or any(each.startswith("ai.onnx.") for each in seen.operations):
        return seen.nothing
    return seen.as_exact & np.isnan(seen.eager)


def _of_no_integer(seen: Evidence) -> Mask:
    if seen.class_name == "nonfinite":
        return ~seen.nothing
    return np.isnan(seen.eager) if seen.is_float else seen.nothing


def _nan_for_an_angle(seen: Evidence) -> Mask:
    return np.isnan(seen.eager) & np.isfinite(seen.answers.ours) if seen.is_float else seen.nothing


def _rejected(seen: Evidence) -> Mask:
    return ~seen.nothing if seen.answers.eager is None else ~seen.answers.eager_ran


_XLA_OR_FLOAT64 = (
    "those of TensorFlow's own compiled code, of ONNX Runtime with all of its optimizations, or of the graph in float64"
)

_DEFINED = "those of TensorFlow's own compiled code, or of a program's operations in NumPy"
_DEFINED_BY_NODE = (
    "those of the framework's graph, node by node, with such results as compiled code defines them; of other inputs "
    f"than the main ones also {_DEFINED}"
)

_OF_MAIN = (
    f"on main inputs, at most {_UNSHOWN} times as many as those that change so, or in float64, or in two rows: that "
    "TensorFlow's own compiled code agrees is not enough; of other inputs this holds for what no other answer is like, "
    "if the model cannot be run node by node"
)

_REDUCING = frozenset(
    "CumulativeLogsumexp Max Min MaxPool MaxPool3D MaxPoolV2 SegmentMax SegmentMin UnsortedSegmentMax "
    "UnsortedSegmentMin ai.onnx.GlobalMaxPool ai.onnx.MaxPool ai.onnx.ReduceLogSumExp ai.onnx.ReduceMax "
    "ai.onnx.ReduceMin ai.onnx.ScatterElements ai.onnx.ScatterND stablehlo.reduce stablehlo.reduce_window".split()
)
"""Maxima over an axis."""

_SERIES = frozenset(
    "BesselI0 BesselI0e BesselI1 BesselI1e Betainc Digamma Erfinv Igamma IgammaGradA Igammac Lgamma Ndtri Polygamma "
    "Zeta".split()
)

_DECOMPOSING = frozenset(
    "BatchMatrixInverse Cholesky LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve MatrixSolveLs "
    "MatrixTriangularSolve Qr SelfAdjointEigV2 Svd ai.onnx.Det".split()
)

RULES: tuple[Rule, ...] = (
    Rule(
        name="rejected by the framework",
        kind="out-of-range index",
        classes=EVERYWHERE - {MAIN},
        excuses=_rejected,
        source="an index out of range, or a failing assertion, has no answer there; compiled code clamps the index",
        elements="those of batches that it rejects",
    ),
    Rule(
        name="flushed to zero",
        kind="subnormal numbers",
        classes=EVERYWHERE,
        excuses=_flushed,
        source="TensorFlow's and XLA's executors set the CPU to flush subnormal numbers to zero "
        "(ScopedFlushDenormal); a program that calls a library does not. ONNX Runtime does not either",
        elements="those that are the framework's when the library runs with such a CPU",
    ),
    Rule(
        name="conversion out of range",
        kind="undefined result",
        classes=EVERYWHERE,
        freedom=CONVERSION,
        excuses=_as_defined,
        source="converting NaN, or a number out of range, to an integer is undefined in C++, ONNX and StableHLO: "
        "TensorFlow's kernels give what the CPU's instruction gives; XLA and programs give the nearest "
        "integer, and 0 for NaN",
        elements=_DEFINED_BY_NODE,
    ),
    Rule(
        name="conversion by place",
        kind="undefined result",
        classes=frozenset({ARRANGED}),
        freedom=CONVERSION,
        excuses=lambda seen: ~seen.nothing,
        source="TensorFlow's kernels convert whole vectors by other instructions than the numbers behind the last one: "
        "-1.5 as uint8 is 0 or 255, by its place in the batch (2.21.0)",
        elements="all of such rows, of the framework's own answers",
    ),
    Rule(
        name="shift out of range",
        kind="undefined result",
        classes=EVERYWHERE,
        freedom=SHIFT,
        excuses=_as_defined,
        source="tf.bitwise documents shifts by negative numbers, or by as many bits as the type has, as "
        "implementation defined",
        elements=_DEFINED_BY_NODE,
    ),
    Rule(
        name="overflowing division",
        kind="undefined result",
        classes=EVERYWHERE - {MAIN},
        freedom=DIVISION,
        excuses=_as_defined,
        source="integer division by 0, or of the least integer by -1, is undefined in C++ and implementation "
        "defined in StableHLO",
        elements=_DEFINED,
    ),
    Rule(
        name="NaN in a maximum",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        freedom=MAXIMUM,
        excuses=_nan,
        source="whether a maximum with NaN is NaN depends on its place in a vector in Eigen (PropagateFast), "
        "which TensorFlow and ONNX Runtime use; observed: ReduceMax of ONNX Runtime over 5 columns, "
        "TensorFlow's SegmentMax; its MaxPool of nothing but NaN is -3.4e38, its UnsortedSegmentMax and ONNX Runtime's "
        "ScatterElements give the largest of the numbers behind the last NaN (2.17.1, 2.21.0; 1.32)",
        elements=f"{_XLA_OR_FLOAT64}; where these differ from the framework, all that are between its answers; "
        "infinity for the largest number",
    ),
    Rule(
        name="NaN kept by a maximum",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        freedom=MAXIMUM,
        excuses=lambda seen: np.isnan(seen.answers.ours) if seen.is_float else seen.nothing,
        operations=_REDUCING,
        source="the maximum of IEEE 754 (2019) and of StableHLO is NaN if an operand is; TensorFlow's and ONNX "
        "Runtime's reductions may leave NaN out, and CumulativeLogsumexp and scatters do",
        elements="NaN",
    ),
    Rule(
        name="ReLU behind a pooling",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        excuses=_moved_relu,
        operations=frozenset({"MaxPool", "MaxPoolV2", "ai.onnx.MaxPool"}),
        source="TensorFlow's graph optimizer moves ReLU behind a maximum pooling, as programs do: ReLU of a "
        "maximum of nothing but NaN is 0 there",
        elements="finite numbers for answers that are not",
    ),
    Rule(
        name="infinity in a product",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        excuses=_nan_of_products,
        operations=frozenset("FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D".split()),
        source="these are computed as products of matrices, in which 0 times infinity is NaN",
        elements=f"{_XLA_OR_FLOAT64}; NaN, in rows in which the framework's answers are not all finite",
    ),
    Rule(
        name="infinity in an interpolation",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        excuses=_both_not_finite,
        operations=frozenset({"ResizeBicubic", "ResizeBilinear", "ai.onnx.Resize"}),
        source="frameworks add a part of a difference to an element (inf + (x - inf) * 0.5), or read an element at the "
        "edge twice, with weights of both signs: either may be NaN where the sum of products is infinite",
        elements="those that are finite numbers in neither answer",
    ),
    Rule(
        name="infinity in an activation",
        kind="NaN rule",
        classes=frozenset({"nonfinite", "boundary"}),
        excuses=lambda seen: seen.as_exact,
        operations=frozenset({"aten.gelu", "aten.mish"}),
        source="PyTorch's vectorized kernels of these multiply an infinity by zero, or overflow; observed: GELU of "
        "infinity is NaN in float32, and infinite in float64 (2.13)",
        elements="those of the module in float64",
    ),
    Rule(
        name="largest of NaN",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        freedom=MAXIMUM,
        excuses=lambda seen: ~seen.nothing,
        operations=frozenset("MaxPool3DGradGrad MaxPoolGradGrad MaxPoolGradGradV2 SegmentMax SegmentMin".split()),
        source="these give the number at the place of a window's largest one, and no framework documents which one "
        "that is among NaN; in TensorFlow's reduction of a segment, NaN may also hide what stands before it",
        elements="all of such rows",
    ),
    Rule(
        name="order of NaN",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        freedom=ORDER,
        excuses=lambda seen: _like_another(seen) | _torn(seen) | _as_torn(seen),
        source="no framework documents where it puts NaN; its sign, by which XLA sorts, depends on the CPU for "
        "inf - inf; ArgMax and ArgMin leave NaN out, but TensorFlow's graph optimizer moves them in front of monotone "
        "functions, as of Sqrt, whose NaN then are numbers",
        elements=f"{_XLA_OR_FLOAT64}; in three quarters of the rows in which these differ from the framework, all that "
        "are between its answers; in all of these, no more elements than differ there",
    ),
    Rule(
        name="moved in front of NaN",
        kind="NaN rule",
        classes=EVERYWHERE,
        freedom=ORDER,
        excuses=lambda seen: seen.as_exact,
        operations=frozenset({"ArgMax", "ArgMin"}),
        source="TensorFlow's graph optimizer computes ArgMin(Sqrt(x)) as ArgMin(x); op by op, NaN has no place",
        elements="those of the same graph node by node, in float64",
    ),
    Rule(
        name="power that becomes a root",
        kind="NaN rule",
        classes=EVERYWHERE,
        excuses=_as_no_root,
        operations=frozenset({"Pow"}),
        source="TensorFlow's graph optimizer computes Pow(x, 0.5) as Sqrt(x), and Pow(x, -0.5) as Rsqrt(x), which are "
        "NaN for -inf; op by op, these are inf and 0, as in C (2.17.1, 2.21.0)",
        elements="those of the same graph node by node, in float64, for NaN",
    ),
    Rule(
        name="NaN in a network of integers",
        kind="NaN rule",
        classes=CORNERS,
        freedom=QUANTIZED,
        excuses=_of_no_integer,
        source="QONNX's executor holds integers as floats, and passes NaN on, which ONNX Runtime's maxima may lose; "
        "integers have no NaN, and ONNX does not say which one QuantizeLinear makes of it",
        elements="those for which the answer is NaN; of the class nonfinite all of such rows",
    ),
    Rule(
        name="place of NaN",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        freedom=ORDER,
        excuses=lambda seen: ~seen.nothing,
        operations=frozenset({"NthElement"}),
        source="TensorFlow partitions the row (std::nth_element), which has no result for an order without a rule for "
        "NaN; XLA has no such operation",
        elements="all of such rows",
    ),
    Rule(
        name="NaN in a complex number",
        kind="NaN rule",
        classes=frozenset({"nonfinite"}),
        excuses=lambda seen: seen.as_compiled & seen.not_finite,
        operations=frozenset({"ComplexAbs"}),
        source="the size of a number with an infinite part and NaN is infinite in C (hypot), and NaN in XLA",
        elements="those of TensorFlow's own compiled code, if one of these answers is no finite number",
    ),
    Rule(
        name="behind the last box",
        kind="out-of-range index",
        classes=EVERYWHERE,
        excuses=lambda seen: seen.nothing if seen.is_float else seen.as_compiled & (seen.eager == 0),
        operations=frozenset({"NonMaxSuppressionV4", "NonMaxSuppressionV5"}),
        source="TensorFlow documents that the indices are padded to max_output_size, and not with what (its kernel "
        "pads with 0); valid_outputs says how many there are",
        elements="indices of 0 there, those of TensorFlow's own compiled code here",
    ),
    Rule(
        name="sum out of range",
        kind="large argument",
        classes=frozenset({"boundary", "huge", "integers", USUAL}),
        freedom=OVERFLOW,
        excuses=_overflowed,
        source="IEEE 754 addition is not associative, and no framework documents its order: whether a sum "
        "overflows depends on it",
        elements=f"{_XLA_OR_FLOAT64}; ours that are not finite where these differ from the framework or are not "
        "finite, or where it has no finite number for inputs that are off by some roundings, or node by node, "
        "in as many other places, and in as many the numbers that the framework gives where float64 has others "
        "(0 of ReLU); numbers there if float64 has one, between the framework's answers or beyond "
        "these by no more than their distance; numbers between its answers in no more places; in three quarters of the "
        "rows, ours and the framework's below a rounding of the largest number, and integers between the framework's; "
        "in huge, if the model sorts and these differ anywhere, all numbers between the framework's",
    ),
    Rule(
        name="overflow in a decomposition",
        kind="large argument",
        classes=frozenset({"boundary", "huge"}),
        excuses=_decomposed,
        operations=_DECOMPOSING,
        source="squares and products within these overflow where the result does not: in XLA from 1.8e19 on (QR), in "
        "TensorFlow's kernels (Eigen, LU) for some",
        elements=f"{_XLA_OR_FLOAT64}, if one of all these is not finite",
    ),
    Rule(
        name="series that end elsewhere",
        kind="large argument",
        classes=frozenset({"boundary", "huge", "nonfinite"}),
        excuses=_like_another,
        operations=_SERIES,
        source="TensorFlow's kernels (Eigen) and XLA compute these by other series, which end, overflow or give NaN at "
        "other arguments; observed for all of them",
        elements=_XLA_OR_FLOAT64,
    ),
    Rule(
        name="subnormal operands",
        kind="subnormal numbers",
        classes=frozenset({"subnormal"}),
        excuses=_subnormal,
        source="TensorFlow flushes the results of some kernels and not of others: XLA's code differs from them",
        elements=f"{_XLA_OR_FLOAT64}; those that differ by at most 8 times as much as these from the framework",
    ),
    Rule(
        name="angle of zero",
        kind="subnormal numbers",
        classes=frozenset({"subnormal"}),
        excuses=_nan_for_an_angle,
        operations=frozenset({"Atan2"}),
        source="TensorFlow flushes both operands, and divides 0 by 0: the angle of (1e-40, 2e-40) is NaN",
        elements="numbers for NaN",
    ),
    Rule(
        name="clamped index",
        kind="out-of-range index",
        classes=frozenset({"integers"}),
        excuses=_as_defined,
        operations=frozenset(
            "DynamicStitch Gather GatherNd GatherV2 OneHot ResourceGather ResourceGatherNd ScatterNd Slice "
            "StridedSlice TensorScatterAdd TensorScatterUpdate UnsortedSegmentSum UnsortedSegmentMax "
            "UnsortedSegmentMin UnsortedSegmentProd ai.onnx.Gather ai.onnx.GatherElements "
            "ai.onnx.GatherND ai.onnx.ScatterElements ai.onnx.ScatterND".split()
        ),
        source="TensorFlow rejects indices out of range, or leaves them out; XLA and programs clamp them or "
        "leave them out",
        elements=_DEFINED,
    ),
    Rule(
        name="hue of a full turn",
        kind="rounding",
        classes=EVERYWHERE,
        excuses=lambda seen: seen.as_compiled & (seen.eager == 0) if seen.is_float else seen.nothing,
        operations=frozenset({"AdjustHue", "AdjustSaturation", "RGBToHSV"}),
        source="TensorFlow's kernels give black for hues that are rounded from just below 0 to a full turn, such "
        "as that of (1, 0, 1e-11)",
        elements="0 there, those of TensorFlow's own compiled code here",
    ),
    Rule(
        name="roundings of the inputs",
        kind="rounding",
        classes=EVERYWHERE - {MAIN} | {ARRANGED},
        excuses=lambda seen: seen.within_noise,
        source="the framework's answers change if the inputs change by two units in the last place (9 tries), if it "
        "computes the graph node by node, or, of rows that are independent, with the size of the batch",
        elements="those that differ by at most 8 times the change; integers, NaN and infinities that it gives then",
    ),
    Rule(
        name="error of the framework",
        kind="rounding",
        classes=EVERYWHERE,
        excuses=lambda seen: _near_float64(seen) if seen.rtol or seen.class_name != MAIN else seen.nothing,
        source="the same graph in float64 tells how far off the framework's answers in float32 are, also those for the "
        "same rows in batches of another size, in which it may round otherwise; it excuses nothing "
        "of the main class if `validation.rtol` is 0, which asks for the framework's own bits",
        elements="those that differ from float64 by no more than the tolerance, or than the framework's own error "
        "(3 times the error that 90 % of its answers keep, and at most 16 times the largest one at the same place of "
        "the last axis, if eight answers or more tell it); or than the framework's own answer changes there if the "
        "inputs change by two units in the last place, times 8 (times 3 beyond that error at the same place), if 90 % "
        "of all answers are at most three times as far from float64 as the framework's, or as far as these change then",
    ),
    Rule(
        name="nearly equal in an order",
        kind="ties in sort order",
        classes=EVERYWHERE,
        freedom=TIES,
        excuses=_in_order,
        source="numbers that differ by less than the roundings of the sums that computed them (4 times the "
        "distance from float64) have no order; equal ones have the framework's",
        elements=f"{_XLA_OR_FLOAT64}; numbers between the framework's, where these differ from it or its answers "
        "change if the inputs do by two units in the last place, and in two rows more; at the limits of types also, in "
        "three quarters of the rows in which these differ from the framework, all that are between its answers; "
        f"{_OF_MAIN}",
    ),
    Rule(
        name="nearly at a step",
        kind="rounding",
        classes=EVERYWHERE,
        freedom=STEP,
        excuses=_one_step,
        source="a comparison, or a rounding to integers, jumps between numbers that differ by less than the "
        "roundings of what computed them",
        elements=f"{_XLA_OR_FLOAT64}; otherwise at most 10 % of an output, or two rows, by 1 for integers and by "
        "4/256 of the range of answers for floats (outside of the main class also from the framework's graph with what "
        "compiled code gives for open results); truth values where the framework's change if the inputs do by two "
        f"units in the last place, and in two rows more; {_OF_MAIN}",
    ),
)
"""In the order in which they are tried: an element counts once, for the first rule that excuses it."""

UNDEFINED: frozenset[str] = frozenset().union(
    *(each.operations or OPERATIONS[each.freedom] for each in RULES if each.excuses is _as_defined)
)
"""Operations of frameworks for which rules ask what a program's own operations give by definition."""
