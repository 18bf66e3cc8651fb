"""The kind of a difference from TensorFlow's answers, and whether it is a fault (docs/decisions/030).

Pure: arrays in, differences out. TensorFlow has two answers, eager and compiled by its own XLA. Its executor flushes
subnormal numbers to zero; a program that uses a library does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tfaot_pkg.signature import DType
from tfaot_pkg.verify.inputs import ARRANGED, BRANCHES, MAIN
from tfaot_pkg.worker_program.messages.elements import epsilon

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]

Kind = Literal[
    "NaN rule", "large argument", "rounding", "random op", "ties in sort order", "rows that interact",
    "out-of-range index", "subnormal numbers", "does not end", "other bits", "distribution",
    "real",
]  # fmt: skip

CORNERS = frozenset({"boundary", "huge", "integers", "nonfinite", "subnormal"})
"""Classes in which XLA's rules differ from eager TensorFlow's by design: XLA's answer counts as much."""

_NOISE = 8.0
"""Factor on the change that roundings of the inputs cause (docs/decisions/030): the model itself rounds more often."""
_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "StatelessTruncatedNormal")
_BY_PRODUCTS = frozenset("FFT FFT2D FFT3D IFFT IFFT2D IFFT3D IRFFT IRFFT2D IRFFT3D RFFT RFFT2D RFFT3D".split())
"""Operations that are computed as matrix products (worker_program/rewrites.py), in which 0 times infinity is NaN."""
_INTERPOLATIONS = frozenset({"ResizeBicubic", "ResizeBilinear", "ai.onnx.Resize"})
"""What an infinity gives: frameworks add a part of a difference to an element (inf + (x - inf) * 0.5), or read an
element at the edge twice, with weights of both signs. Either may be NaN where the sum of products is infinite."""
_MAXIMA = frozenset({"ai.onnx.MaxPool"})
"""ONNX Runtime's maxima depend on the position of NaN in a window, and may lose an infinity beside it."""
_RECURRENT = frozenset({"ai.onnx.GRU", "ai.onnx.LSTM", "ai.onnx.RNN"})
"""ONNX Runtime limits the arguments of these layers' activations, and so makes numbers of NaN."""
_POOLS = frozenset({"MaxPool"})
"""TensorFlow's maximum of nothing but NaN is -3.4e38, XLA's minus infinity. ReLU of these is 0 if TensorFlow's graph
optimizer has moved it after the pooling, as the kernel library does (fusion.h)."""
_BY_PLACE = frozenset({"MaxPool3DGradGrad", "MaxPoolGradGrad", "MaxPoolGradGradV2", "NthElement"})
"""Where NaN stands in a window or row decides which element TensorFlow takes for the largest or the nth one."""
_HUES = frozenset({"AdjustHue", "AdjustSaturation", "RGBToHSV"})
"""TensorFlow's kernels compare three channels: which of them is NaN decides the result. They give black for hues that
are rounded from just below 0 to a full turn, such as that of (1, 0, 1e-11)."""
_QUOTIENTS = frozenset({"Atan2"})
"""TensorFlow flushes subnormal numbers in these, and divides 0 by 0: the angle of (1e-40, 2e-40) is NaN."""
_SORTS = frozenset({"ArgMax", "ArgMin", "TopK", "TopKV2", "XlaSort", "XlaKeyValueSort", "XlaVariadicSort", "Unique"})


_ROUNDINGS = 4
"""The roundings of float16 and bfloat16 by which answers may always differ: XLA may keep float32 between operations."""


def rtol_of(dtype: DType, rtol: float) -> float:
    """The relative tolerance of outputs of `dtype`, if the spec's is `rtol`; 0 stays 0, "the very bits"."""
    short = dtype in (DType.FLOAT16, DType.BFLOAT16)
    return max(rtol, _ROUNDINGS * epsilon(dtype.value)) if short and rtol else rtol


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Elements of one output at one batch size on one target that differ from eager TensorFlow's for one reason.

    `target` is the framework's name if rows interact in the framework itself.
    `agrees_with` names the answers that agree with ours within the tolerance; "" for none. `max_absolute` is
    None if no two finite numbers differ. `is_fault`: the library must not be published.
    """

    target: str
    batch_size: int
    output: str
    kind: Kind
    elements: int
    max_absolute: float | None
    agrees_with: str
    is_fault: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All answers for one output at one batch size, of one shape, except missing ones.

    `eager_ran` masks elements that eager TensorFlow did not reject, `jit_ran` the same for TensorFlow's XLA. `spread`
    is the change of eager answers if inputs are off by some roundings. `flushed` is ours with subnormal numbers flushed
    to zero.
    """

    ours: Array
    eager: Array | None
    eager_ran: Mask
    spread: Array | None = None
    flushed: Array | None = None
    jit: Array | None = None
    jit_ran: Mask | None = None


def telling(answers: Sequence[Array], *, rows: bool) -> tuple[bool, str]:
    """Whether the framework's `answers` for one output can reveal a fault, and what makes them weak ("": nothing).

    `answers` are those of the main class, one array per batch size. Without a single finite number, they agree with any
    library whose answers are NaN. `rows` says whether their first axis is the batch, and depends on the inputs.
    """
    numbers = [each for each in answers if each.dtype.kind in "fc" and each.size]
    if not numbers:
        return True, ""
    if not any(np.isfinite(each).any() for each in numbers):
        return False, ""
    missing = sum(int(np.count_nonzero(np.isnan(each))) for each in numbers) / sum(each.size for each in numbers)
    if missing:
        return True, f"{100 * missing:.2g} % of its elements are NaN"
    if rows and sum(map(len, numbers)) > 1 and all((each == numbers[0][0]).all() for each in numbers):
        return True, "all rows have the same answer"
    return True, ""


def disagreements(answers: Answers, *, class_name: str, rtol: float, atol: float) -> Mask:
    """Mask of the elements that differ from eager TensorFlow's; outside the main class, by more than noise."""
    if answers.eager is None:
        return np.ones(answers.ours.shape, bool)
    spread = None if class_name == MAIN else answers.spread
    return ~(agreement(answers.ours, answers.eager, rtol=rtol, atol=atol, spread=spread) & answers.eager_ran)


def agreement(ours: Array, theirs: Array, *, rtol: float, atol: float, spread: Array | None = None) -> Mask:
    """Elementwise |ours - theirs| <= atol + rtol * |theirs| + noise; NaN agrees with NaN; integers must be equal."""
    if theirs.dtype.kind != "f":
        # An infinite spread means that perturbed inputs gave another integer (worker_program/reference.py).
        equal: Mask = ours == theirs
        return equal if spread is None else equal | np.isinf(spread)
    # In float32, the difference of two large numbers could overflow.
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        bound = atol + rtol * np.abs(theirs)
        if spread is not None:
            bound = bound + _NOISE * spread
        near = np.isfinite(ours) & np.isfinite(theirs) & (np.abs(ours - theirs) <= bound)
        agree: Mask = same | near
        return agree if spread is None else agree | np.isinf(spread)


def differences(
    answers: Answers,
    *,
    class_name: str,
    target: str,
    batch_size: int,
    output: str,
    rtol: float,
    atol: float,
    operations: frozenset[str],
) -> Iterator[Difference]:
    """The differences of one output, by kind."""
    left = disagreements(answers, class_name=class_name, rtol=rtol, atol=atol)
    for kind, agrees_with, is_fault, mask in _explanations(answers, class_name, rtol, atol, operations, left):
        found = left & mask
        if not found.any():
            continue
        yield Difference(
            target=target, batch_size=batch_size, output=output, kind=kind, elements=int(np.count_nonzero(found)),
            max_absolute=_largest(answers, found), agrees_with=agrees_with, is_fault=is_fault,
        )  # fmt: skip
        # An element counts once, for the first explanation.
        left = left & ~mask


def _explanations(
    answers: Answers, class_name: str, rtol: float, atol: float, operations: frozenset[str], left: Mask
) -> Iterator[tuple[Kind, str, bool, Mask]]:
    """(kind, which answers agree, whether it is a fault, mask of elements), the best explanation first."""
    # In the order of docs/decisions/030: the first explanation that applies names the difference.
    every = np.ones(left.shape, bool)
    ours, eager = answers.ours, answers.eager
    if answers.flushed is not None and eager is not None:
        spread = None if class_name == MAIN else answers.spread
        near = agreement(answers.flushed, eager, rtol=rtol, atol=atol, spread=spread) & answers.eager_ran
        yield "subnormal numbers", "eager, where subnormal numbers are flushed to zero", False, near
    # XLA may return arrays of other sizes than TensorFlow, which explain nothing.
    if answers.jit is not None and answers.jit.shape == ours.shape:
        yield from _as_compiled(answers, answers.jit, class_name, rtol, atol, operations)
    if eager is not None and eager.dtype.kind == "f":
        yield from _without_rule(ours, eager, class_name, operations)
    if any(name.startswith(_RANDOM) or "Random" in name for name in operations):
        yield "random op", "", True, every
    if class_name == ARRANGED:
        # The known answers are those for the same rows in another batch.
        yield "rows that interact", "", True, every
    if class_name != MAIN:
        # A batch that TensorFlow rejects has no right answer, although compiled code gives one.
        yield "out-of-range index", "", False, every if eager is None else ~answers.eager_ran
    if class_name in ("boundary", "huge"):
        # The order of operations decides where sums and products of such numbers overflow.
        yield "large argument", "", False, _overflowed(answers, class_name)
        if eager is not None and eager.dtype.kind != "f":
            # Integers and booleans follow from such sums: the index of the largest element, or a comparison.
            yield _kind_of_rule(class_name, answers, operations), "", False, every
    if class_name == MAIN:
        yield from _roundings(answers, rtol, atol, operations, left)
    if operations & _SORTS and eager is not None and eager.dtype.kind != "f":
        # TensorFlow's order has ties of numbers that it flushes to zero.
        yield "subnormal numbers", "", False, every & (class_name == "subnormal")
        yield "ties in sort order", "", True, every
    yield "real", "", True, every


def _without_rule(
    ours: Array, eager: Array, class_name: str, operations: frozenset[str]
) -> Iterator[tuple[Kind, str, bool, Mask]]:
    """Differences from answers that follow from TensorFlow's implementation, not from the operation."""
    if class_name == "nonfinite":
        yield "NaN rule", "eager, whose infinity is the largest number", False, _largest_for_infinity(ours, eager)
        if operations & _BY_PLACE:
            yield "NaN rule", "", False, np.ones(ours.shape, bool)
        if operations & (_BY_PRODUCTS | _HUES | _MAXIMA | _RECURRENT):
            yield "NaN rule", "", False, ~(np.isfinite(ours) & np.isfinite(eager))
        if operations & _INTERPOLATIONS:
            yield "NaN rule", "", False, ~(np.isfinite(ours) | np.isfinite(eager))
        if operations & _POOLS:
            yield "NaN rule", "", False, ~np.isfinite(eager)
    if class_name == "subnormal" and operations & _QUOTIENTS:
        yield "subnormal numbers", "", False, np.isnan(eager)


def _as_compiled(
    answers: Answers, jit: Array, class_name: str, rtol: float, atol: float, operations: frozenset[str]
) -> Iterator[tuple[Kind, str, bool, Mask]]:
    """Differences that TensorFlow's own compiled code shows as well."""
    every = np.ones(answers.ours.shape, bool)
    kind = _kind_of_rule(class_name, answers, operations)
    near = agreement(answers.ours, jit, rtol=rtol, atol=atol, spread=answers.spread)
    if answers.flushed is not None:
        near = near | agreement(answers.flushed, jit, rtol=rtol, atol=atol, spread=answers.spread)
    near = near & (every if answers.jit_ran is None else answers.jit_ran)
    # For ordinary numbers eager TensorFlow decides: XLA's own code may be wrong (decision 030 has an example, erf).
    trusted = every if class_name in CORNERS else ~_numbers(answers.ours, answers.eager)
    yield kind, "jit_compile=True", False, near & trusted
    if operations & _HUES and answers.eager is not None:
        yield "rounding", "jit_compile=True", False, near & (answers.eager == 0)
    if class_name in ("huge", "subnormal") and answers.eager is not None:
        # If eager and compiled TensorFlow disagree, no answer is right.
        unsure = ~agreement(jit, answers.eager, rtol=rtol, atol=atol)
        # If all distances overflow, each search finds other neighbours, and two searches agree on some rows by chance.
        yield kind, "", False, every & unsure.any() if class_name == "huge" else unsure
    if class_name == "nonfinite" and operations & _SORTS and answers.eager is not None and every.ndim:
        # A NaN is sorted by its sign, and the sign of inf - inf depends on the CPU. If eager and compiled TensorFlow
        # disagree on a part of a row, no order of that row is right.
        unsure = ~agreement(jit, answers.eager, rtol=rtol, atol=atol)
        yield kind, "", False, every & unsure.any(axis=tuple(range(1, every.ndim)), keepdims=True)


def _roundings(
    answers: Answers, rtol: float, atol: float, operations: frozenset[str], left: Mask
) -> Iterator[tuple[Kind, str, bool, Mask]]:
    """Differences that TensorFlow's own answers show as well if its inputs are off by some roundings."""
    ours, eager, spread = answers.ours, answers.eager, answers.spread
    if spread is None or eager is None:
        return
    near = agreement(ours, eager, rtol=rtol, atol=atol, spread=np.maximum(spread, _rounding_of(eager)))
    if eager.dtype.kind != "f" and np.count_nonzero(left & near) >= np.count_nonzero(left & ~near):
        near = np.ones(left.shape, bool)  # a few tries do not change every answer that a rounding decides
    yield _kind_of_rounding(eager, operations), "eager, with inputs off by some roundings", True, near


def _kind_of_rounding(answers: Array, operations: frozenset[str]) -> Kind:
    return "ties in sort order" if operations & _SORTS and answers.dtype.kind != "f" else "rounding"


def _rounding_of(array: Array) -> float:
    """One rounding of the largest number: sums that cancel are off by as much if they are added in another order."""
    if array.dtype.kind != "f":
        return 0.0
    return float(np.finfo(array.dtype).eps * np.abs(array[np.isfinite(array)]).max(initial=0.0))


def _kind_of_rule(class_name: str, answers: Answers, operations: frozenset[str]) -> Kind:
    if class_name == "integers":
        return "out-of-range index"
    if class_name == "nonfinite":
        return "NaN rule"
    if class_name == "subnormal":
        return "subnormal numbers"
    if answers.ours.dtype.kind != "f" and (class_name in (MAIN, BRANCHES) or operations & _SORTS):
        return _kind_of_rounding(answers.ours, operations)
    return "large argument"


def _largest_for_infinity(ours: Array, eager: Array) -> Mask:
    """Mask of the elements where eager TensorFlow has the largest number, and ours infinity of its sign.

    The maximum of nothing but NaN (maximum pooling) is -3.4e38 in eager TensorFlow, minus infinity in XLA.
    """
    mask: Mask = np.isinf(ours) & (np.abs(eager) == np.finfo(eager.dtype).max) & (np.sign(ours) == np.sign(eager))
    return mask


def _overflowed(answers: Answers, class_name: str) -> Mask:
    """Mask of the elements for which TensorFlow's answers are not finite; in `boundary`, also if ours are not."""
    judged = [answers.eager, answers.jit, *([answers.ours] if class_name == "boundary" else [])]
    mask = np.zeros(answers.ours.shape, bool)
    for array in judged:
        if array is not None and array.dtype.kind == "f":
            mask |= ~np.isfinite(array)
    return mask


def _numbers(ours: Array, eager: Array | None) -> Mask:
    """Mask of the elements that are finite floats on both sides."""
    if eager is None or ours.dtype.kind != "f":
        return np.zeros(ours.shape, bool)
    return np.isfinite(ours) & np.isfinite(eager)


def _largest(answers: Answers, found: Mask) -> float | None:
    numbers = found & _numbers(answers.ours, answers.eager)
    if answers.eager is None or not numbers.any():
        return None
    return float(np.abs(answers.ours[numbers].astype(np.float64) - answers.eager[numbers].astype(np.float64)).max())


def hint_of(difference: Difference, framework: str) -> str:
    """Advice about a fault; `framework` gave the right answers."""
    if difference.kind == "rounding" and difference.max_absolute is None:
        return _DECIDED_BY_ROUNDING.format(framework=framework)  # no tolerance makes two integers equal
    return HINTS[difference.kind].format(framework=framework)


_DECIDED_BY_ROUNDING = (
    "a rounding decides such answers, in {framework} too: give inputs that are not at the edge (validation.inputs), "
    "or make the numbers that are compared an output of the model"
)

HINTS: dict[Kind, str] = {
    "NaN rule": "NaN and infinities have other results than in {framework}: keep them out of the inputs, or leave the "
    "class out (validation.classes)",
    "large argument": "keep such inputs out of the model (by clipping), or leave the class out (validation.classes)",
    "rounding": "{framework}'s own answers change as much if inputs are off by a rounding: widen validation.rtol "
    "and validation.atol if that is acceptable",
    "random op": "compiled code draws other random numbers than {framework}: make them an input of the model",
    "ties in sort order": "equal elements have no order: break ties in the model, or give inputs without ties "
    "(validation.inputs); if no elements are equal, the answers are wrong: report it",
    "rows that interact": "answers for a row change with the other rows of its batch, although no rows interact in the "
    "model's graph: make each row's answer depend on that row alone, and report it",
    "out-of-range index": "compiled code clamps indices that {framework} rejects: check them in the program, or give "
    "inputs in range (validation.inputs)",
    "subnormal numbers": "{framework} flushes subnormal numbers to zero: scale the inputs",
    "does not end": "a loop continues that ends in {framework}, such as one that waits for subnormal numbers to be "
    "flushed to zero: limit its iterations in the model (maximum_iterations)",
    "other bits": "a row has other bits in a batch of another size: set compilation.engine: xla, and report it",
    "distribution": "random numbers have another distribution than in {framework}: pass them in as an input, and "
    "report it",
    "real": "these values are wrong: try another toolchain (compilation.tensorflow) or compilation.kernels: none, and "
    "report it; if only NaN and infinities give them and XLA computes the model, "
    "compilation.xla_flags: [--xla_cpu_enable_fast_min_max=false] lets minimum, maximum and clipping keep NaN",
}
"""Advice about a fault of each kind, in a model of `{framework}`."""
