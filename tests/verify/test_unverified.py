"""Targets without validation are published only when they are named, or by default."""

from __future__ import annotations

from dataclasses import replace

from tests.package.conftest import make_spec
from tests.wording import reported
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground.targets import DEFAULT_TARGETS
from tfaot_pkg.verify.runs import may_be_unverified, require_verified


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


def test_of_the_default_targets_the_one_that_no_emulator_runs_may_be_unverified() -> None:
    spec = make_spec()
    chosen = replace(spec, compilation=replace(spec.compilation, targets=DEFAULT_TARGETS))
    assert may_be_unverified(chosen, ["aarch64"]) == ("aarch64", "x86-64-v4")


def test_a_spec_that_names_its_targets_wants_them_verified() -> None:
    spec = make_spec()
    chosen = replace(spec, compilation=replace(spec.compilation, targets=("x86-64-v3", "x86-64-v4")))
    assert may_be_unverified(chosen, []) == ()
