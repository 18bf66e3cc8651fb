"""The pages of docs/contributing are followed word by word, on a copy of the repository."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import completed
from tools import lock_requirements

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("add-an-operation.md", "add-a-pass.md", "add-an-onnx-operator.md", "add-a-kernel.md")
"""In this order: the pass makes the operation."""
_STEP = re.compile(
    r"^ *(In|New file) `([^`]+)`:\n\n(?P<indent> *)```(?:diff|python|text)\n(.*?)^(?P=indent)```$"
    r"|^(?P<space> *)```console\n(.*?)^(?P=space)```$",
    re.MULTILINE | re.DOTALL,
)


def _steps(page: str) -> Iterator[tuple[str, str, str]]:
    """Each change, as (In or New file, path, text), and each block of commands, as (Run, "", text)."""
    for found in _STEP.finditer((ROOT / "docs" / "contributing" / page).read_text()):
        kind, path, _, text, _, commands = found.groups()
        yield (kind or "Run", path or "", textwrap.dedent(text or commands))


def _changed(before: str, change: str) -> str:
    """`before` with the lines of `change`: those that begin with a blank stand there, `-` removes one, `+` adds one."""
    lines = change.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] != other) for other in "+-")
    assert before.count(old) == 1, f"stands {before.count(old)} times in the file:\n{old}"
    return before.replace(old, new)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("contributing") / "project"
    folder.mkdir()
    for name in ("tfaot_pkg", "tools", "tests", "docs", "recipes"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if not (folder / path.name).exists() and not path.name.startswith(".") and path.name != "build":
            (folder / path.name).symlink_to(path)
    return folder


def test_the_changes_of_the_pages_fit_the_files() -> None:
    files: dict[str, str] = {}
    for kind, path, text in (step for page in PAGES for step in _steps(page)):
        assert kind != "New file" or not (ROOT / path).exists()
        if kind == "In":
            files[path] = _changed(files.get(path) or (ROOT / path).read_text(), text)


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_who_follows_the_pages_has_what_they_add(copy: Path) -> None:
    commands = []
    for kind, path, text in (step for page in PAGES for step in _steps(page)):
        if kind == "In":
            (copy / path).write_text(_changed((copy / path).read_text(), text))
        elif kind == "New file":
            assert not (copy / path).exists()
            (copy / path).write_text(text)
        else:
            for line in text.splitlines():
                done = _run(shlex.split(line), copy)
                assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
                assert "pytest" not in line or re.search(r"\d+ passed", done.stdout), done.stdout
                commands.append(line)
    assert any("test_operations" in line for line in commands) and any("test_passes" in line for line in commands)
    assert "| `reciprocal` |" in (copy / "docs" / "reference" / "operations.md").read_text()


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable if words[0] == "python" else words[0], *words[1:]]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return completed(argv, cwd=folder, env=environment, timeout=300)


def test_a_change_that_does_not_fit_is_told() -> None:
    assert _changed("a\nb\nc\n", " a\n-b\n+d\n c\n") == "a\nd\nc\n"
    with pytest.raises(AssertionError, match="stands 0 times"):
        _changed("a\n", " b\n+c\n")


def test_every_page_that_shows_changes_is_followed() -> None:
    pages = [path.name for path in (ROOT / "docs" / "contributing").glob("*.md")]
    assert {page for page in pages if any(_steps(page))} == {*PAGES}
    assert all({kind for kind, _, _ in _steps(page)} >= {"In", "Run"} for page in PAGES)


@pytest.mark.parametrize("name", ["TOOLCHAINS", "FRONTENDS", "PEERS"])
def test_lock_files_are_written_where_the_tool_reads_them(name: str) -> None:
    folder: Path = getattr(lock_requirements, name)
    assert [*folder.glob("*.in")] and {path.stem for path in folder.glob("*.in")} <= {
        path.stem for path in folder.glob("*.txt")
    }
