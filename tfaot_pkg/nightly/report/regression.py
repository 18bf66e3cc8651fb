"""Whether a figure got worse, or is only as restless as it always was. Pure.

A value x is compared with the up to 30 values of earlier builds by their median m and by their spread
s = 1.4826 MAD, where MAD is the median of |x_i - m|; for normal noise s estimates the standard deviation, and up to
half of the earlier values may be outliers. x differs where

    |x - m| > max(5 s, least * |m|, floor)

that is, beyond the noise, and by enough to matter. Source: the modified z-score of B. Iglewicz and D. C. Hoaglin, "How
to Detect and Handle Outliers" (ASQC, 1993), with 5 in place of their 3.5: a night has thousands of figures, and with
the fewest values that are asked for (10), 3.5 is exceeded by 1.7 % of nights of plain normal noise, 5 by 0.5 % (by
0.05 % with 20). A new level becomes the measure when half of the values are of it.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

VerdictKind = Literal["worse", "better", "steady", "too few"]

WINDOW, FEWEST = 30, 10
_THRESHOLD, _NORMAL = 5.0, 1.4826


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The smallest change that counts, relative to the median (`least`) and in the figure's unit (`floor`)."""

    least: float
    floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """`median` and `spread` are of the earlier values, in their unit; `change` is relative to the median (0.1: 10 %
    more). With `too few` values, and where the median is 0, `change` is 0.
    """

    kind: VerdictKind
    median: float = 0.0
    spread: float = 0.0
    change: float = 0.0


def judge(earlier: Sequence[float], value: float, limits: Limits) -> Verdict:
    """Compare `value` with the `earlier` ones, the oldest first, of a figure of which less is better."""
    recent = earlier[-WINDOW:]
    if len(recent) < FEWEST:
        return Verdict(kind="too few")
    median = statistics.median(recent)
    spread = _NORMAL * statistics.median(abs(one - median) for one in recent)
    difference = value - median
    kind: VerdictKind = "steady"
    if abs(difference) > max(_THRESHOLD * spread, limits.least * abs(median), limits.floor):
        kind = "worse" if difference > 0 else "better"
    return Verdict(kind=kind, median=median, spread=spread, change=difference / median if median else 0.0)
