from __future__ import annotations

import ast
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tfaot_pkg.cli.progress import TerminalProgress, shown
from tfaot_pkg.ground.progress import PlainProgress
from tfaot_pkg.ground.wording import printable, say, say_json

PACKAGE = Path(__file__).resolve().parents[2] / "tfaot_pkg"
EVIL = "a\x1b]52;c;x\x07b\x1b[2J\x9bc\u202ed\u200fe\x7f[red]f"
HARMLESS = r"a\x1b]52;c;x\x07b\x1b[2J\x9bc\u202ed\u200fe\x7f[red]f"


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


def test_what_is_printed_is_harmless_and_our_own_head_is_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVIL, head="\033[1merror\033[0m: ")
    assert capsys.readouterr() == ("", f"\033[1merror\033[0m: {HARMLESS}\n")
    say("ä\tb\nc ✓ 日本")
    assert capsys.readouterr().err == "ä\tb\nc ✓ 日本\n"


def test_json_is_harmless_and_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    for lines in (True, False):
        say_json({EVIL: EVIL}, lines=lines)
        text = capsys.readouterr().out
        assert json.loads(text) == {EVIL: EVIL}
        assert printable(text) == text and text.isascii()


def test_what_is_drawn_is_harmless_and_no_markup() -> None:
    file = io.StringIO()
    Console(file=file, width=200, force_terminal=True, color_system=None).print(shown(EVIL), shown(EVIL, cut=True))
    assert file.getvalue() == f"{HARMLESS} {HARMLESS}\n"


def test_bars_show_harmless_names_and_notes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("FORCE_COLOR", "1")
    progress = TerminalProgress(verbose=True)
    with progress.step(f"1 {EVIL}") as step:
        step.advance(note=f"2 {EVIL}")
        step.skip(f"3 {EVIL}")
    progress.note(f"4 {EVIL}")
    progress.output(f"5 {EVIL}")
    text = re.sub(r"\x1b\[[0-9;]*m|\x1b\[\?25[lh]|\x1b\[2K|\x1b\[1A|\r", "", capsys.readouterr().err)  # Rich's own
    assert all(f"{number} {HARMLESS}" in text for number in (1, 3, 4, 5)), text
    assert printable(text) == text


# What runs in a sandbox, or in an interpreter of its own, has no terminal: whoever started it reads its output.
_OWN_OUTPUT = {"worker_program", "bench_program", "export", "as_program.py"}
"""Programs that run elsewhere, in environments of toolchains, peers, authors and users of wheels."""
_PRINTING = {
    "print",
    "stdout.write",
    "stderr.write",
    "typer.echo",
    "typer.secho",
    "print_exc",
    "print_exception",
}
_DRAWING = {"Text", "Text.from_markup", "Text.assemble"}


def test_everything_is_printed_and_drawn_by_the_functions_that_make_it_harmless() -> None:
    found = {
        f"{file.relative_to(PACKAGE)}: {call}"
        for file in PACKAGE.rglob("*.py")
        if not {*file.relative_to(PACKAGE).parts} & _OWN_OUTPUT
        for call in _calls(file)
        if call in _DRAWING or any(call == name or call.endswith(f".{name}") for name in _PRINTING)
    }
    assert found == {
        "ground/wording.py: sys.stdout.write", "cli/progress.py: Text",
        "cli/progress.py: self._console.print", "cli/nightly/plan.py: console.print",
    }  # fmt: skip


def _calls(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)
