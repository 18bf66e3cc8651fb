"""Sets of flags that are tried."""

from __future__ import annotations

from tfaot_pkg.measure.tuning.choosing import CANDIDATES
from tfaot_pkg.spec.rules import flag_fault


def test_candidates_can_be_written_into_a_tuning_file() -> None:
    assert CANDIDATES and not any(flag_fault(flag) for flags in CANDIDATES for flag in flags)
