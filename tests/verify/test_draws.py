"""Distributions of two samples: what is told apart, and what is not."""

from __future__ import annotations

import numpy as np

from tfaot_pkg.verify.draws import distance
from tfaot_pkg.worker_program.messages.elements import features


def test_samples_of_one_distribution_are_near_and_others_are_not() -> None:
    random = np.random.default_rng(1)
    first, second = random.standard_normal((2, 4000))
    assert distance(first, second, rtol=1e-4, atol=1e-5) < 0.05
    assert distance(first, 1.5 * second, rtol=1e-4, atol=1e-5) > 0.08
    assert distance(first, 0.3 + second, rtol=1e-4, atol=1e-5) > 0.08
    # Half of the elements dropped, and the others off by a rounding.
    kept = random.integers(0, 2, (2, 4000)) * 1.3
    assert distance(kept[0], kept[1] * (1 + 1e-6), rtol=1e-4, atol=1e-5) < 0.05
    assert distance(kept[0], kept[1] * 1.01, rtol=1e-4, atol=1e-5) > 0.4
    assert distance(first, np.where(second < 0, np.nan, second), rtol=1e-4, atol=1e-5) > 0.4


def test_features_tell_elements_that_hang_together() -> None:
    assert features(np.full((4, 5), 3.0)).tolist() == [3.0] * 8 + [0.0] * 7 + [3.0]
    assert features(np.zeros((0, 3))).size == 0 and features(np.array(True)).tolist() == [1.0, 1.0]
