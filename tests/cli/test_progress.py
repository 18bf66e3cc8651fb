from __future__ import annotations

import pytest

from tfaot_pkg.cli.progress import TerminalProgress
from tfaot_pkg.progress import PlainProgress


@pytest.mark.parametrize(
    ("total", "said"), [(None, "build ..."), (1, "build (1 package) ..."), (2000, "build (2,000 packages) ...")]
)
def test_a_line_says_how_much_there_is_to_do(
    total: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with PlainProgress(verbose=False).step("build", total=total, unit="packages"):
        pass
    assert capsys.readouterr().err.splitlines()[0] == said


def test_a_note_that_looks_like_markup_is_shown_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")
    with TerminalProgress(verbose=False).step("build") as step:
        step.skip("a node [/named] so")
    assert "[/named]" in capsys.readouterr().err


def test_what_others_wrote_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    PlainProgress(verbose=False).note("a\x1b]52;c;x\x07b\tc\nd\u202ee\x9bf")
    assert capsys.readouterr().err == "a\\x1b]52;c;x\\x07b\tc\nd\\u202ee\\x9bf\n"
