"""Running programs: what they are given, what they print, and how much of it is kept."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tfaot_pkg import process
from tfaot_pkg.process import CommandFailed, run

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
    with pytest.raises(CommandFailed, match=r"no end after 0\.5 s"):
        run([PYTHON, "-c", "import os, time\nos.close(1)\nos.close(2)\ntime.sleep(600)"], timeout=0.5)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_program_that_prints_without_end_is_killed(
    stream: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "MOST_OUTPUT", 1 << 20)
    program = f"import sys\nwhile True: print('x' * 100_000, file=sys.{stream})"
    with pytest.raises(CommandFailed, match="it printed more than 1 MiB") as error:
        run([PYTHON, "-c", program], timeout=60, log=tmp_path / "log")
    assert 1 << 20 < len(error.value.output) < 2 << 20
    assert len(str(error.value)) < 30_000
    assert 1 << 20 < (tmp_path / "log").stat().st_size < 2 << 20
