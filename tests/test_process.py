"""Running programs: what they are given, what they print, and how much of it is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.ground import process
from tfaot_pkg.ground.process import CommandFailed, run

PYTHON = sys.executable


def test_input_and_output_may_be_larger_than_any_pipe() -> None:
    text = b"0123456789abcdef" * (1 << 16)
    program = "import sys; data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data); sys.stderr.buffer.write(data)"
    finished = run([PYTHON, "-c", program], stdin=text)
    assert finished.stdout.encode() == finished.stderr.encode() == text


def test_a_program_may_leave_its_input_alone() -> None:
    assert run([PYTHON, "-c", "print(1)"], stdin=bytes(1 << 20)).stdout == "1\n"


def test_a_program_may_close_its_output_and_go_on(tmp_path: Path) -> None:
    program = f"import os, time\nos.close(1)\nos.close(2)\ntime.sleep(0.2)\nopen({str(tmp_path / 'end')!r}, 'w')"
    run([PYTHON, "-c", program], timeout=60)
    assert (tmp_path / "end").exists()
    with reported(CommandFailed):
        run([PYTHON, "-c", "import os, time\nos.close(1)\nos.close(2)\ntime.sleep(600)"], timeout=0.5)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_prints_without_end_is_killed(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MOST_OUTPUT", 1 << 20)
    program = f"import sys\nwhile True: print('x' * 100_000, file=sys.{stream})"
    with reported(CommandFailed, varies=r"x[x\n]{99,}") as error:
        run([PYTHON, "-c", program], timeout=60, log=tmp_path / "log")
    assert 1 << 20 < len(error.value.output) < 2 << 20
    assert len(str(error.value)) < 30_000
    assert 1 << 20 < (tmp_path / "log").stat().st_size < 2 << 20


_STARTS_TWO = """
import os, subprocess, sys, time
folder = sys.argv[1]
child = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", child, f"{folder}/session"], start_new_session=True)
starts = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', *sys.argv[1:]])"
subprocess.run([sys.executable, "-c", starts, child, f"{folder}/orphan"])
while not all(os.path.exists(path) and os.path.getsize(path) for path in (f"{folder}/session", f"{folder}/orphan")):
    time.sleep(0.01)
"""
"""Starts a program in a session of its own, and one whose parent ends; both have run when this is over."""


def test_a_program_is_killed_with_all_that_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "MOST_OUTPUT", 1 << 20)
    with pytest.raises(CommandFailed, match="it printed more than 1 MiB"):
        run([PYTHON, "-c", f"{_STARTS_TWO}\nwhile True: print('x' * 100_000)", str(tmp_path)])
    for name in ("session", "orphan"):
        assert is_gone(int((tmp_path / name).read_text())), name


def is_gone(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True
