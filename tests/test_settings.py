"""Numbers in environment variables."""

from __future__ import annotations

import pytest

from tests.wording import reported
from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.settings import number_from


def number(text: str, monkeypatch: pytest.MonkeyPatch) -> float:
    monkeypatch.setenv("TFAOT_NUMBER", text)
    return number_from("TFAOT_NUMBER", 7, 0.5, 20, error=NetworkError, unit="seconds")


@pytest.mark.parametrize(("text", "expected"), [("0.5", 0.5), ("2e1", 20), ("", 7)])
def test_a_number_within_its_limits_is_taken_and_an_empty_one_is_not_set(
    text: str, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert number(text, monkeypatch) == expected


@pytest.mark.parametrize("text", ["0.49", "20.1", "nan", "inf", "-1", "1,5", "soon"])
def test_a_number_outside_its_limits_is_reported_with_its_variable(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with reported(NetworkError):
        number(text, monkeypatch)
