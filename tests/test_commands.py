"""tests/commands.py: a command that is forked is the command that a user starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.commands import completed, run_command
from tfaot_pkg.cli.app import run
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("words", [["--version"], ["show", "nosuch", "--registry", "here"], ["install", "--nosuch"]])
def test_it_prints_and_ends_as_one_that_is_started_anew(words: list[str], tmp_path: Path, tfaot_home: Path) -> None:
    """Also in another folder than ours, and several at once."""
    argv = [sys.executable, "-m", "tfaot_pkg", *words]
    anew = subprocess.run(argv, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    with ThreadPoolExecutor(4) as threads:
        forked = [*threads.map(lambda _: run_command(words, cwd=tmp_path), range(4))]
    for done in forked:
        assert (done.returncode, done.stdout, done.stderr) == (anew.returncode, anew.stdout, anew.stderr)


def test_it_has_the_environment_that_it_is_given(tmp_path: Path) -> None:
    listed = []
    for name in ("one", "two"):
        (tmp_path / name / "data").mkdir(parents=True)
        variables = {**os.environ, "TFAOT_HOME": str(tmp_path / name)}
        run_command(["conan-remote", "add", f"our-{name}", "https://conan.example.org", "--user", "x"], env=variables)
        listed.append(run_command(["conan-remote", "list"], env=variables).stdout)
    assert ["our-one" in text for text in listed] == [True, False]
    assert ["our-two" in text for text in listed] == [False, True]


def test_it_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    FolderRegistry.create(tmp_path / "registry")
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(["serve", tmp_path / "registry", "--port", "0"], timeout=1)


def test_what_a_program_started_ends_with_it_after_its_time(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        completed(["bash", "-c", f"sleep 300 & echo $! > {tmp_path}/started; wait"], timeout=2)
    started = int((tmp_path / "started").read_text())
    deadline = time.monotonic() + 30
    while is_running(started):
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.05)


def test_flags_end_with_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process may run several."""
    words = ["show", "nosuch", "--registry", str(tmp_path / "none")]
    code = run([*words, "--json", "--debug"])
    assert '"error"' in capsys.readouterr().out
    assert run(words) == code
    printed = capsys.readouterr()
    assert not printed.out and printed.err.startswith("error: ") and "Traceback" not in printed.err


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
