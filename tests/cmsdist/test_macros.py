"""RPM macros: what they expand to, and that nothing is ever run."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wording import reported
from tfaot_pkg.cmsdist.macros import MacroFault, Macros, holds

VALUES = {"n": "tfaot-model-x", "version": "1.0.0", "full": "%{n}-%version", "empty": "", "a": "%b", "b": "%a"}


def expand(text: str) -> tuple[str, list[str]]:
    unknown: list[str] = []
    return Macros(VALUES, {"fixed": "given"}, unknown.append).expand(text), unknown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("%{n}-%{version}", "tfaot-model-x-1.0.0"),
        ("%n.xml", "tfaot-model-x.xml"),
        ("%full", "tfaot-model-x-1.0.0"),
        ("%{full}/%{fixed}", "tfaot-model-x-1.0.0/given"),
        ("100%% %", "100% %"),
        ("[%{?none}%{?empty}]", "[]"),
        ("%{?n:is %{n}}%{!?n:is not}", "is tfaot-model-x"),
        ("%{?none:is}%{!?none:is {not} %{n}}", "is {not} tfaot-model-x"),
    ],
)
def test_macros_expand_as_in_rpm(text: str, value: str) -> None:
    assert expand(text) == (value, [])


def test_an_unknown_macro_is_told_and_stays() -> None:
    assert expand("%{cmsplatf}/%i") == ("%{cmsplatf}/%{i}", ["cmsplatf", "i"])


@pytest.mark.parametrize(
    "text",
    [
        "%(touch /tmp/x)",
        "%{lua:print(1)}",
        "%{expand:%n}",
        "%[1+1]",
        "%{n",
        "%a",
    ],
)
def test_what_would_be_run_or_does_not_end_is_refused(text: str) -> None:
    with reported(MacroFault):
        expand(text)


def test_macros_that_grow_without_bounds_are_refused() -> None:
    values = {f"m{i}": f"%m{i + 1}%m{i + 1}" for i in range(60)} | {"m60": "x"}
    with pytest.raises(MacroFault):
        Macros(values, {}, print).expand("%m0")


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ('"x"', True),
        ('""', False),
        ("0", False),
        ("01", True),
        ('"a" == "a"', True),
        ('"a" != "a" || 2 >= 1', True),
        ('!("a" == "b") && !0', True),
        ('"b" > "a" && 1 < 1', False),
        ("(1 || 0) && (0 || 0)", False),
    ],
)
def test_conditions_mean_what_they_mean_in_rpm(condition: str, value: bool) -> None:
    assert holds(condition) is value


@pytest.mark.parametrize(
    "condition", ["", "word", '"a" ==', '1 == "1"', "(1", "1 1", "1 == 1 == 1", "%{x}", "(" * 5000]
)
def test_a_condition_that_is_none_is_refused(condition: str) -> None:
    with pytest.raises(MacroFault):
        holds(condition)


@given(st.text(alphabet='%{}?!:()"&|= anx01\\', max_size=60))
def test_any_text_expands_or_is_refused(text: str) -> None:
    for function in (lambda: expand(text), lambda: holds(text)):
        with contextlib.suppress(MacroFault):
            function()
