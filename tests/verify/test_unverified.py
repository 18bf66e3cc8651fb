"""Targets without validation are published only when they are named."""

from __future__ import annotations

from tests.wording import reported
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.verify.runs import require_verified


def test_a_target_without_validation_is_refused_and_the_hint_names_the_option() -> None:
    with reported(ValidationError):
        require_verified(["aarch64"], [])


def test_another_target_that_is_named_is_no_help() -> None:
    with reported(ValidationError) as caught:
        require_verified(["aarch64", "x86-64-v4"], ["x86-64-v4"])
    assert "x86-64-v4" not in caught.value.hint


def test_a_target_that_is_named_may_be_published_without_validation() -> None:
    require_verified(["aarch64"], ["aarch64"])
    require_verified([], [])
