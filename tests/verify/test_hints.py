"""What is said to do about each kind of difference."""

from __future__ import annotations

import typing

import pytest

from tfaot_pkg.verify.judgement import HINTS, Difference, hint_of
from tfaot_pkg.verify.rules import Kind

KINDS: tuple[Kind, ...] = typing.get_args(Kind)


def _difference(kind: Kind, max_absolute: float | None = 1.0) -> Difference:
    return Difference(
        target="x86-64-v3", batch_size=1, output="y", kind=kind, elements=1, max_absolute=max_absolute, is_fault=True,
    )  # fmt: skip


def test_every_kind_has_a_hint() -> None:
    assert set(HINTS) == set(KINDS)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rounding"])
def test_only_roundings_are_a_matter_of_tolerance(kind: Kind) -> None:
    assert "tol" not in hint_of(_difference(kind), "TensorFlow")


def test_no_tolerance_makes_integers_equal() -> None:
    assert "validation.rtol" in hint_of(_difference("rounding"), "TensorFlow")
    assert "tol" not in hint_of(_difference("rounding", None), "TensorFlow")
