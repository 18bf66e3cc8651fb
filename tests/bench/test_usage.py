"""What `tfaot-pkg bench` says of wrong words, before anything is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine


@pytest.fixture
def tfaot(tmp_path: Path) -> CommandLine:
    (tmp_path / "scratch").mkdir()
    return CommandLine(home=tmp_path / "home", scratch=tmp_path / "scratch")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--peers", "litrt"], 10, "did you mean litert?"),
        (["--batch-sizes", "1,x"], 2, "no list of numbers"),
        (["--batch-sizes", "0"], 2, "no list of numbers"),
        (["--target", "x86-64-v9"], 2, "no such target"),
        (["--core", "4096"], 2, "may not use core 4096"),
        (["--plot", "plot.gif"], 2, ".svg, .png or .pdf"),
        (["--since", "none.json"], 10, "No such file"),
        (["--since", "spec.yaml"], 10, "not what --output writes"),
    ],
    ids=["peer", "size", "zero", "target", "core", "plot", "since", "since-form"],
)
def test_a_wrong_word_is_told_at_once(
    tfaot: CommandLine, tmp_path: Path, words: list[str], code: int, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.yaml").write_text("model: {}\n")
    done = tfaot.run("bench", "spec.yaml", *words)
    assert done.code == code
    assert says in " ".join(done.stderr.replace("│", " ").split())
    assert not (tmp_path / "home" / "cache").exists()
