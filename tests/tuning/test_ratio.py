"""Ratios of times: what counts as a gain, and what is noise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfaot_pkg.measure.tuning.choosing import Ratio


def test_what_disturbs_a_whole_round_is_gone_from_the_ratio() -> None:
    base = [100.0, 900.0, 100.0, 400.0, 100.0]
    ratio = Ratio.of([0.9 * time for time in base], base)
    assert ratio.value == pytest.approx(0.9) and ratio.error == pytest.approx(0.0, abs=1e-12)
    assert ratio.is_gain


def test_the_error_is_that_of_a_median() -> None:
    """Of 400 medians of normal deviates, two thirds lie within one standard error of the middle."""
    random = np.random.default_rng(5)
    found = [Ratio.of([*(1 + 0.1 * random.standard_normal(51))], [1.0] * 51) for _ in range(400)]
    inside = sum(abs(ratio.value - 1) < ratio.error for ratio in found) / len(found)
    assert 0.58 < inside < 0.78
    assert np.mean([ratio.error for ratio in found]) == pytest.approx(0.1 * math.sqrt(math.pi / 2 / 51), rel=0.1)


@pytest.mark.parametrize(
    ("ratio", "gains"),
    [
        (Ratio(value=0.96), True),
        (Ratio(value=0.98), False),
        (Ratio(value=0.9, error=0.03), True),
        (Ratio(value=0.9, error=0.04), False),
        (Ratio(value=1.2), False),
    ],
    ids=str,
)
def test_a_gain_is_more_than_three_percent_and_two_standard_errors(ratio: Ratio, gains: bool) -> None:
    assert ratio.is_gain is gains


def test_equal_code_rarely_gains() -> None:
    random = np.random.default_rng(7)
    gains = sum(
        Ratio.of([*random.lognormal(0, 0.05, 15)], [*random.lognormal(0, 0.05, 15)]).is_gain for _ in range(500)
    )
    assert gains < 5
