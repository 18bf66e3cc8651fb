"""What is known of one output beside the library's answers, and when two answers agree. Pure: arrays in, masks out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tfaot_pkg.ground.signature import DType
from tfaot_pkg.verify.inputs import ARRANGED, MAIN
from tfaot_pkg.worker_program.messages.elements import epsilon

Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]
Free = Mapping[tuple[str, str], Mask]
"""Masks of elements by freedom and operation (worker_program/messages/open_results.py)."""

NOISE = 8.0
"""Factor on the change that roundings of the inputs cause (docs/decisions/030): the model itself rounds more often."""
_ROUNDINGS = 4
"""The roundings of float16 and bfloat16 by which answers may always differ: XLA may keep float32 between operations."""
_TYPICAL, _WORST = 0.9, 3.0
"""The quantile of the framework's errors, and a factor on it: for a normal distribution 5 standard deviations."""
_KNOWN, _OF_PLACE = 8, 16.0
"""How many answers tell the errors at one place of the last axis, and a factor on the largest of them, or on one
rounding of the largest answer: numbers of one output may have other units, and errors, than their neighbours."""


def rtol_of(dtype: DType, rtol: float) -> float:
    """The relative tolerance of outputs of `dtype`, if the spec's is `rtol`; 0 stays 0, "the very bits"."""
    short = dtype in (DType.FLOAT16, DType.BFLOAT16)
    return max(rtol, _ROUNDINGS * epsilon(dtype.value)) if short and rtol else rtol


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How eager answers change if inputs are off by some roundings, if the framework rewrites nothing, and between
    batches of other sizes if rows are independent.

    `change` is the largest change, infinite between integers that differ; `low` and `high` are the least and the
    largest answers, `missing` masks those that were NaN in a run.
    """

    change: Array
    low: Array
    high: Array
    missing: Mask

    def map(self, make: Callable[[Array], Array]) -> Spread:
        """With other arrays, `make` of each."""
        return Spread(change=make(self.change), low=make(self.low), high=make(self.high), missing=make(self.missing))

    def named(self) -> dict[str, Array]:
        """As `spread_of` reads them."""
        return {"spread": self.change, "low": self.low, "high": self.high, "missing": self.missing}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """All answers for one output at one batch size, of one shape, except missing ones.

    `eager_ran` masks elements that eager TensorFlow did not reject, `jit_ran` the same for TensorFlow's XLA. `defined`
    are those of a program's operations by definition, `by_node` those of the framework's own graph with what compiled
    code gives where an operation's result is open (worker_program/defined_results.py). `flushed` is ours with subnormal
    numbers flushed to zero. `exact` is eager TensorFlow's in float64, NaN for what was not computed. `elsewhere` are
    the eager answers nearest to ours for the same rows in batches of other sizes, NaN for rows whose answers in float64
    depend on the size. `walked` masks the elements of rows of which the model's operands were looked at, `free` of
    those in which an operation's result is open.
    """

    ours: Array
    eager: Array | None
    eager_ran: Mask
    spread: Spread | None = None
    flushed: Array | None = None
    jit: Array | None = None
    jit_ran: Mask | None = None
    defined: Array | None = None
    by_node: Array | None = None
    exact: Array | None = None
    elsewhere: Array | None = None
    walked: Mask | None = None
    free: Free = field(default_factory=dict)


def spread_of(answers: Mapping[str, Array], name: str) -> Spread | None:
    """The spread that stands beside the answers `name` (worker_program/reference.py)."""
    if f"{name}/spread" not in answers:
        return None
    change, low, high, missing = (answers[f"{name}/{kind}"] for kind in ("spread", "low", "high", "missing"))
    return Spread(change=change, low=low, high=high, missing=missing.astype(bool))


def widened(spread: Spread, answers: Array, others: Array, ran: Mask) -> Spread:
    """`spread` of `answers`, with the framework's own answers for the same rows in batches of another size.

    `others` may have fewer rows; only those that `ran` masks are answers.
    """
    rows = min(len(answers), len(others))
    one, two, ran = answers[:rows].astype(np.float64), others[:rows].astype(np.float64), ran[:rows]
    with np.errstate(all="ignore"):
        off = np.where(np.isnan(one - two) | ((one != two) & (answers.dtype.kind != "f")), np.inf, np.abs(one - two))
    off = np.where(ran & ~((one == two) | (np.isnan(one) & np.isnan(two))), off, 0.0)
    change, low, high, missing = (each.copy() for each in (spread.change, spread.low, spread.high, spread.missing))
    change[:rows] = np.maximum(change[:rows], off)
    low[:rows] = np.where(ran, np.fmin(low[:rows], two), low[:rows])
    high[:rows] = np.where(ran, np.fmax(high[:rows], two), high[:rows])
    missing[:rows] |= ran & np.isnan(two)
    return Spread(change=change, low=low, high=high, missing=missing)


def agreement(ours: Array, theirs: Array, *, rtol: float, atol: float, spread: Array | None = None) -> Mask:
    """Elementwise |ours - theirs| <= atol + rtol * |theirs| + noise; NaN agrees with NaN; integers must be equal."""
    if theirs.dtype.kind != "f":
        equal: Mask = ours == theirs
        return equal
    # In float32, the difference of two large numbers could overflow.
    ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(all="ignore"):
        same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        bound = atol + rtol * np.abs(theirs)
        if spread is not None:
            bound = bound + NOISE * np.where(np.isfinite(spread), spread, 0.0)
        near = np.isfinite(ours) & np.isfinite(theirs) & (np.abs(ours - theirs) <= bound)
        agree: Mask = same | near
        return agree


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The answers for one output to inputs of a class, with the tolerances; `operations` are those of the model."""

    answers: Answers
    class_name: str
    rtol: float
    atol: float
    operations: frozenset[str] = field(default_factory=frozenset)

    def near(self, theirs: Array | None) -> Mask:
        """Mask of our elements that are `theirs` within the tolerance."""
        if theirs is None or theirs.shape != self.answers.ours.shape:
            return self.nothing
        return agreement(self.answers.ours, theirs, rtol=self.rtol, atol=self.atol)

    @cached_property
    def nothing(self) -> Mask:
        return np.zeros(self.answers.ours.shape, bool)

    @cached_property
    def is_float(self) -> bool:
        return self.answers.ours.dtype.kind == "f"

    @cached_property
    def eager(self) -> Array:
        """The framework's answers; ours if there are none, so that nothing differs from them."""
        return self.answers.ours if self.answers.eager is None else self.answers.eager

    @cached_property
    def differs(self) -> Mask:
        """Mask of the elements that are not the framework's within the tolerance."""
        if self.answers.eager is None:
            return ~self.nothing
        return ~(self.near(self.answers.eager) & self.answers.eager_ran)

    @cached_property
    def as_compiled(self) -> Mask:
        """Mask of the elements that are those of TensorFlow's own compiled code, within the tolerance and roundings."""
        jit, ran = self._jit, self.answers.jit_ran
        if jit is None:
            return self.nothing
        change = None if self.answers.spread is None else self.answers.spread.change
        found = agreement(self.answers.ours, jit, rtol=self.rtol, atol=self.atol, spread=change)
        if self.answers.flushed is not None:
            found = found | agreement(self.answers.flushed, jit, rtol=self.rtol, atol=self.atol, spread=change)
        return found if ran is None else found & ran

    @cached_property
    def as_defined(self) -> Mask:
        """Mask of the elements that are those of the framework's graph with the results that compiled code defines: for
        operations whose result the framework does not define.

        On other inputs than the main ones also those of TensorFlow's own compiled code, or of a program's operations
        by definition: neither says that the program is the author's model.
        """
        change = None if self.answers.spread is None else self.answers.spread.change
        found = self.nothing if self.class_name == MAIN else self.as_compiled
        for array in (self.answers.by_node, None if self.class_name == MAIN else self.answers.defined):
            if array is not None and array.shape == self.answers.ours.shape:
                found = found | agreement(self.answers.ours, array, rtol=self.rtol, atol=self.atol, spread=change)
        return found

    @cached_property
    def as_exact(self) -> Mask:
        """Mask of the elements that are the answers in float64, within the tolerance or the framework's own error."""
        exact = self.answers.exact
        if exact is None:
            return self.nothing
        found = self.near(exact) & self._in_float64
        if self.is_float and self.errors is not None:
            ours, eager, right = (each.astype(np.float64) for each in (self.answers.ours, self.eager, exact))
            with np.errstate(all="ignore"):
                off = np.abs(ours - right)
                nearer = off <= self._off + self.atol + self.rtol * np.abs(right)
                # Of rows that were not computed in float64 only the framework's answers are known.
                typical = np.where(self._in_float64, off, np.abs(ours - eager)) <= self.errors
            found = found | (nearer & np.isfinite(self._off)) | typical
        return found & self.answers.eager_ran

    @cached_property
    def as_conditioned(self) -> Mask:
        """Mask of the elements that are as near to float64 as roundings of the inputs move the framework's own answer.

        Some answers are more sensitive than nearly all others of an output, as the states of a recurrent net. They are
        masked only if our errors as a whole are like the framework's: a wrong number would be in many answers.
        """
        exact = self.answers.exact
        if exact is None or self.errors is None or not self._errs_alike:
            return self.nothing
        limits = np.minimum(NOISE * self._changes, np.maximum(self._errors_at_place, _WORST * self._changes))
        with np.errstate(all="ignore"):
            found: Mask = np.abs(self.answers.ours.astype(np.float64) - exact) <= limits
        return found & self._in_float64 & self.answers.eager_ran

    @cached_property
    def _changes(self) -> Array:
        """How far the framework's own answers move if inputs are off by some roundings; 0 where they jump."""
        spread = self.answers.spread
        if spread is None:
            return np.zeros(self.answers.ours.shape)
        return np.where(np.isfinite(spread.change), spread.change, 0.0)

    @cached_property
    def _errs_alike(self) -> bool:
        """Whether 90 % of our answers are at most three times as far from float64 as 90 % of the framework's, or as far
        as these move if the inputs are off by some roundings: what all answers of a row share, as a largest number that
        divides them, has one rounding.
        """
        exact, known = self.answers.exact, np.isfinite(self._off) & self.finite
        if exact is None or not known.any():
            return False
        right = exact[known].astype(np.float64)
        ours = np.quantile(np.abs(self.answers.ours[known].astype(np.float64) - right), _TYPICAL)
        rounding = np.finfo(self.eager.dtype).eps * np.quantile(np.abs(right), _TYPICAL)
        theirs = _WORST * max(np.quantile(self._off[known], _TYPICAL), rounding)
        return bool(ours <= max(theirs, np.quantile(self._changes[known], _TYPICAL)))

    @cached_property
    def _off(self) -> Array:
        """How far the framework's own answers are from those in float64, in batches of this size or, if it rounds the
        same rows otherwise there, of another one; NaN if that is not known.
        """
        exact, elsewhere = self.answers.exact, self.answers.elsewhere
        if exact is None or self.answers.eager is None or not self.is_float:
            return np.full(self.answers.ours.shape, np.nan)
        right = exact.astype(np.float64)
        with np.errstate(all="ignore"):
            off = np.abs(self.eager.astype(np.float64) - right)
            if elsewhere is not None:
                off = np.where(np.isfinite(off), np.fmax(off, np.abs(elsewhere.astype(np.float64) - right)), off)
        return np.where(self.answers.eager_ran & self._in_float64, off, np.nan)

    @cached_property
    def error(self) -> float | None:
        """How far the framework's own answers are from those in float64, except a few; None if that is not known."""
        off = self._off[np.isfinite(self._off)]
        return float(_WORST * np.quantile(off, _TYPICAL)) if off.size else None

    @cached_property
    def errors(self) -> Array | None:
        """`error`, for each element no more than the errors at its place of the last axis, if enough are known."""
        return None if self.error is None else np.minimum(self.error, self._errors_at_place)

    @cached_property
    def _errors_at_place(self) -> Array:
        """The most that an answer may be off at its place of the last axis; infinite if too few errors are known."""
        exact = self.answers.exact
        if exact is None:
            return np.full(self.answers.ours.shape, np.inf)
        places = exact.shape[-1] if exact.ndim > 1 else 1
        right, off = exact.astype(np.float64).reshape(-1, places), self._off.reshape(-1, places)
        known = np.isfinite(off)
        rounding = np.finfo(self.eager.dtype).eps * np.abs(right)
        most = np.max(np.where(known, np.maximum(off, rounding), 0.0), axis=0, initial=0.0)
        limits = np.where(np.count_nonzero(known, axis=0) >= _KNOWN, _OF_PLACE * most, np.inf)
        found: Array = np.broadcast_to(limits, known.shape).reshape(exact.shape)
        return found

    @cached_property
    def torn(self) -> Mask:
        """Mask of the elements on which the framework disagrees with its own compiled code, or with float64."""
        return self._torn(self._jit, self.answers.jit_ran) | self.torn_in_float64

    @cached_property
    def torn_in_float64(self) -> Mask:
        """Mask of the elements on which the framework disagrees with float64."""
        return self._torn(self.answers.exact, self._in_float64)

    def _torn(self, other: Array | None, known: Mask | None) -> Mask:
        if self.answers.eager is None or other is None:
            return self.nothing
        with np.errstate(all="ignore"):
            differ = ~agreement(other, self.answers.eager, rtol=self.rtol, atol=self.atol)
        return differ if known is None else differ & known

    @cached_property
    def moved(self) -> Mask:
        """Mask of the elements of which the framework gives others if inputs are off by some roundings."""
        spread, eager = self.answers.spread, self.answers.eager
        if spread is None or eager is None:
            return self.nothing
        with np.errstate(all="ignore"):
            found: Mask = ~(spread.change <= self.atol + self.rtol * np.abs(eager.astype(np.float64)))
        return found & ~self.nothing

    @cached_property
    def among_moved(self) -> Mask:
        """Mask of our elements that are between the least and the largest answer to inputs that are so far off."""
        spread = self.answers.spread
        if spread is None:
            return self.nothing
        ours: Array = self.answers.ours.astype(np.float64)
        found: Mask = (spread.low <= ours) & (ours <= spread.high)
        return found

    @cached_property
    def among_answers(self) -> Mask:
        """Mask of our elements that are between the least and the largest of all answers to that element."""
        spread, ours = self.answers.spread, self.answers.ours.astype(np.float64)
        moved = () if spread is None else (spread.low, spread.high)
        given = [each for each in (self.eager, self._jit, self.answers.exact, *moved) if each is not None]
        numbers = np.array([each.astype(np.float64) for each in given])
        found: Mask = (np.fmin.reduce(numbers) <= ours) & (ours <= np.fmax.reduce(numbers))
        return found

    @cached_property
    def torn_rows(self) -> Mask:
        """Mask of the elements of rows that have such an element."""
        return self.rows_with(self.torn)

    @cached_property
    def plausible(self) -> Mask:
        """Mask of our elements that are between the framework's least and largest answers for the output.

        NaN and infinities are if the framework gave such ones.
        """
        return self.within_answers(0.0)

    def within_answers(self, beyond: float) -> Mask:
        """`plausible`, and numbers outside by no more than `beyond` times the distance of these answers."""
        if self.eager.dtype.kind == "b":
            return ~self.nothing
        arrays = [each for each in (self.answers.eager, self._jit, self.answers.exact) if each is not None]
        given = np.concatenate([each.ravel().astype(np.float64) for each in arrays] or [np.zeros(0)])
        ours: Array = self.answers.ours.astype(np.float64)
        numbers = given[~np.isnan(given)]
        low, high = numbers.min(initial=np.inf), numbers.max(initial=-np.inf)
        finite = numbers[np.isfinite(numbers)]
        more = beyond * float(np.ptp(finite)) if finite.size and beyond else 0.0
        found: Mask = ((low - more <= ours) & (ours <= high + more)) | (np.isnan(ours) & bool(np.isnan(given).any()))
        return found

    @cached_property
    def within_noise(self) -> Mask:
        """Mask of the elements that differ no more than eager answers do if inputs are off by some roundings."""
        spread, eager = self.answers.spread, self.answers.eager
        if spread is None or eager is None:
            return self.nothing
        near = agreement(self.answers.ours, eager, rtol=self.rtol, atol=self.atol, spread=spread.change)
        # Some of these answers are other integers, infinite or NaN: ours must be among them, or between them.
        ours: Array = self.answers.ours.astype(np.float64)
        rtol, atol = (self.rtol, self.atol) if self.is_float else (0.0, 0.0)
        with np.errstate(all="ignore"):
            above = spread.low - atol - rtol * np.abs(spread.low) <= ours
            below = ours <= spread.high + atol + rtol * np.abs(spread.high)
        jumps = np.isinf(spread.change) & ((above & below) | (np.isnan(ours) & spread.missing))
        found: Mask = (near | jumps) & self.answers.eager_ran
        return found

    @cached_property
    def finite(self) -> Mask:
        """Mask of the elements that are finite floats on both sides."""
        if self.answers.eager is None or not self.is_float:
            return self.nothing
        return np.isfinite(self.answers.ours) & np.isfinite(self.answers.eager)

    @cached_property
    def not_finite(self) -> Mask:
        """Mask of the elements of which one of the framework's answers is no finite number."""
        found = self.nothing
        for array in (self.answers.eager, self._jit):
            if array is not None and array.dtype.kind == "f":
                found = found | ~np.isfinite(array)
        return found

    @cached_property
    def not_finite_nearby(self) -> Mask:
        """Mask of the elements of which the framework has no finite number if inputs are off by some roundings, or if
        it computes the graph node by node.
        """
        spread = self.answers.spread
        if spread is None:
            return self.nothing
        found: Mask = spread.missing | np.isinf(spread.low) | np.isinf(spread.high)
        return found & ~self.nothing

    def rows_with(self, mask: Mask) -> Mask:
        """`mask`, extended to whole rows."""
        if not mask.ndim:
            return mask
        whole: Mask = mask.any(axis=tuple(range(1, mask.ndim)), keepdims=True) & ~self.nothing
        return whole

    def open(self, freedom: str, among: frozenset[str]) -> tuple[Mask, tuple[str, ...]]:
        """The elements of rows in which the result of an operation `among` those is open, and their operations."""
        free = self.answers.free
        found = {operation: mask for (kind, operation), mask in free.items() if kind == freedom and operation in among}
        mask = np.any([*found.values()], axis=0) if found else self.nothing
        # Unless operands could be looked at, all rows may have such ones; the author's inputs should have none, and the
        # same rows in another order excuse nothing that nobody saw.
        blind = self.differs if self.answers.walked is None else self.differs & ~self.answers.walked
        named = among & self.operations
        if named and self.class_name not in (MAIN, ARRANGED) and blind.any():
            return mask | blind, tuple(sorted(named))
        return mask, tuple(sorted(found))

    @cached_property
    def _in_float64(self) -> Mask:
        """Mask of the elements of which there are answers in float64."""
        if self.answers.exact is None:
            return self.nothing
        return ~self.nothing if self.answers.walked is None else self.answers.walked

    @property
    def _jit(self) -> Array | None:
        """XLA may return arrays of other sizes than TensorFlow, which explain nothing."""
        jit = self.answers.jit
        return jit if jit is not None and jit.shape == self.answers.ours.shape else None


def rounding_of(array: Array) -> Array:
    """One rounding of the largest number at each place of the last axis: sums that cancel are off by as much in another
    order.
    """
    if array.dtype.kind != "f":
        return np.zeros(())
    places = array.shape[-1:] if array.ndim > 1 else ()
    numbers = np.abs(np.where(np.isfinite(array), array, 0).astype(np.float64)).reshape(-1, *places)
    found: Array = np.finfo(array.dtype).eps * np.max(numbers, axis=0, initial=0.0)
    return found
