"""Ratios of times: what counts as a gain, and what is noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from tfaot_pkg.verify.latency import MAD_TO_SIGMA

# Both keep noise out, so that most units get no flags (docs/decisions/025): a gain must be at
# least 3 %, and two standard errors of the median ratio.
_LEAST_GAIN = 0.03
_SIGMAS = 2.0
_MEDIAN_ERROR = math.sqrt(math.pi / 2)  # of a median's standard error over a mean's


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """A time over another one, the median over rounds, and the standard error of that."""

    value: float
    error: float = 0.0

    @classmethod
    def of(cls, times: Sequence[float], base: Sequence[float]) -> Ratio:
        """Of times that were measured in the same rounds: noise that disturbs both cancels in their ratio.

        The error is that of a median of normal deviates, whose deviation follows from their median absolute deviation.
        """
        ratios = [one / other for one, other in zip(times, base, strict=True)]
        middle = median(ratios)
        sigma = MAD_TO_SIGMA * median(abs(ratio - middle) for ratio in ratios)
        return cls(value=middle, error=_MEDIAN_ERROR * sigma / math.sqrt(len(ratios)))

    @property
    def is_gain(self) -> bool:
        """Whether the time is shorter by more than 3 %, beyond noise."""
        return self.value + _SIGMAS * self.error < 1 - _LEAST_GAIN
