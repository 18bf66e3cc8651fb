"""The kind of a difference from the framework's answers, and whether it is a fault (docs/decisions/030).

Pure: arrays in, differences out. Eager TensorFlow stands for the framework of any model here. rules.py has what is
excused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tfaot_pkg.verify.evidence import NOISE, Answers, Array, Evidence, Mask, agreement, rounding_of
from tfaot_pkg.verify.inputs import ARRANGED, MAIN
from tfaot_pkg.verify.rules import RULES, Kind
from tfaot_pkg.worker_program.messages.unspecified_results import CONVERSION, OPERATIONS, SHIFT, TIES

_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "StatelessTruncatedNormal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Elements of one output at one batch size on one target that differ from the framework's for one reason.

    `target` is the framework's name if rows interact in the framework itself. `max_absolute` is None if no two finite
    numbers differ. `is_fault`: the library must not be published; otherwise `rule` excuses it, by what `operations` of
    the model leave open (rules.py; none if the rule holds for all). Of roundings, `atol` is the tolerance that accepts
    them, and `spread` how far off the framework's own answers are.
    """

    target: str
    batch_size: int
    output: str
    kind: Kind
    elements: int
    max_absolute: float | None
    is_fault: bool
    rule: str = ""
    operations: tuple[str, ...] = ()
    atol: float | None = None
    spread: float | None = None


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


def disagreements(answers: Answers, *, rtol: float, atol: float) -> Mask:
    """Mask of the elements that differ from the framework's."""
    return Evidence(answers=answers, class_name=MAIN, rtol=rtol, atol=atol).differs


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
    """The differences of one output: what rules excuse, then faults."""
    seen = Evidence(answers=answers, class_name=class_name, rtol=rtol, atol=atol, operations=operations)
    left = seen.differs

    def made(kind: Kind, found: Mask, rule: str = "", named: tuple[str, ...] = ()) -> Difference:
        return Difference(
            target=target, batch_size=batch_size, output=output, kind=kind, elements=int(np.count_nonzero(found)),
            max_absolute=_largest(seen, found), is_fault=not rule, rule=rule, operations=named,
            atol=_accepting(seen, found) if kind == "rounding" else None,
            spread=_spread(seen) if kind == "rounding" else None,
        )  # fmt: skip

    # An element counts once, for the first rule.
    for rule in RULES:
        if not left.any():
            return
        mask, named = rule.applied(seen)
        if (found := left & mask).any():
            yield made(rule.kind, found, rule.name, named)
            left = left & ~found
    for kind, mask in _faults(seen, left):
        if (found := left & mask).any():
            yield made(kind, found)
            left = left & ~found


def _faults(seen: Evidence, left: Mask) -> Iterator[tuple[Kind, Mask]]:
    """The kinds of what no rule excuses, and masks of elements."""
    every = ~seen.nothing
    if any(name.startswith(_RANDOM) or "Random" in name for name in seen.operations):
        yield "random op", every
    if seen.class_name == ARRANGED:
        # The known answers are those for the same rows in another batch.
        yield "rows that interact", every
    for freedom in (CONVERSION, SHIFT):
        yield "undefined result", seen.open(freedom, OPERATIONS[freedom])[0] & seen.near(seen.answers.defined)
    ties = not seen.is_float and bool(seen.operations & OPERATIONS[TIES])
    if seen.class_name == MAIN:
        near = _rounded(seen)
        if not seen.is_float and np.count_nonzero(left & near) >= np.count_nonzero(left & ~near):
            near = every  # a few tries do not change every answer that a rounding decides
        yield "ties in sort order" if ties else "rounding", near
    if ties:
        yield "ties in sort order", every
    yield "real", every


def _rounded(seen: Evidence) -> Mask:
    """Mask of the elements that differ no more than the framework's own answers, off by some roundings."""
    spread, eager = seen.answers.spread, seen.answers.eager
    if eager is None or (spread is None and seen.error is None):
        return seen.nothing
    change = np.zeros(eager.shape) if spread is None else np.where(np.isfinite(spread.change), spread.change, 0.0)
    errors = np.zeros(()) if seen.errors is None else seen.errors / NOISE
    change = np.maximum(change, np.maximum(rounding_of(eager), errors))
    near = agreement(seen.answers.ours, eager, rtol=seen.rtol, atol=seen.atol, spread=change)
    return (near & seen.answers.eager_ran) | seen.within_noise


def _largest(seen: Evidence, found: Mask) -> float | None:
    numbers = found & seen.finite
    return float(_distance(seen, numbers).max()) if numbers.any() else None


def _distance(seen: Evidence, chosen: Mask) -> Array:
    distance: Array = np.abs(seen.answers.ours[chosen].astype(np.float64) - seen.eager[chosen].astype(np.float64))
    return distance


def _accepting(seen: Evidence, found: Mask) -> float | None:
    """The absolute tolerance, of one digit, by which the elements would agree; None if none does."""
    numbers = found & seen.finite
    if not numbers.any() or not np.array_equal(numbers, found):
        return None
    least = float((_distance(seen, numbers) - seen.rtol * np.abs(seen.eager[numbers].astype(np.float64))).max())
    if least <= 0:
        return None
    digit = 10.0 ** np.floor(np.log10(least))
    return float(f"{np.ceil(least / digit * (1 + 1e-6)) * digit:.0e}")


def _spread(seen: Evidence) -> float | None:
    """The most that the framework's own answers are off by roundings; None if that is not known."""
    known = [] if seen.error is None else [seen.error]
    if seen.answers.spread is not None and seen.is_float:
        changes = seen.answers.spread.change
        known.append(float(changes[np.isfinite(changes)].max(initial=0.0)))
    return max(known, default=None)


def hint_of(difference: Difference, framework: str) -> str:
    """Advice about a fault; `framework` gave the right answers."""
    if difference.kind == "rounding" and difference.max_absolute is None:
        return _DECIDED_BY_ROUNDING.format(framework=framework)  # no tolerance makes two integers equal
    return HINTS[difference.kind].format(framework=framework)


def tolerance_of(faults: Sequence[Difference], framework: str) -> str:
    """The tolerance that accepts all of `faults`, roundings of floats; "" if there is none."""
    if not faults or any(each.kind != "rounding" or each.atol is None for each in faults):
        return ""
    wanted = max(each.atol or 0.0 for each in faults)
    spread = max((each.spread for each in faults if each.spread is not None), default=None)
    own = "" if not spread else f"; {framework}'s own answers are off by up to {spread:.2g}"
    return f"`validation: {{atol: {wanted:g}}}` accepts them{own}"


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
    "undefined result": "the framework does not define the result of such a conversion, shift or division: limit its "
    "operands in the model (tf.clip_by_value, Clip)",
    "random op": "compiled code draws other random numbers than {framework}: make them an input of the model",
    "ties in sort order": "equal elements have no order: break ties in the model, or give inputs without ties "
    "(validation.inputs); if no elements are equal, the answers are wrong: report it",
    "rows that interact": "answers for a row change with the other rows of its batch, or with their number, although "
    "no rows interact in the model's graph: make each row's answer depend on that row alone, and report it",
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
