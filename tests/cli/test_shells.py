"""Completion in real shells: the scripts load, and complete."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.samples import REPOSITORY

pytestmark = pytest.mark.slow

_BASH = """
source "$1"
COMP_WORDS=(tfaot-pkg verify)
COMP_CWORD=1
_tfaot_pkg_completion tfaot-pkg
printf '%s\\n' "${COMPREPLY[@]}"
"""
_ZSH = """
autoload -Uz compinit && compinit -u -D && source "$1" && print -r -- $_comps[tfaot-pkg]
_TYPER_COMPLETE_ARGS="tfaot-pkg verify" _TFAOT_PKG_COMPLETE=complete_zsh tfaot-pkg
"""
_RUN = {
    "bash": ("--norc", "-c", _BASH, "bash"),
    # What a shell without a terminal can say: which function completes, and that it has no error of syntax.
    "zsh": ("-f", "-c", _ZSH, "zsh"),
    "fish": ("--no-config", "-c", 'source $argv[1]; complete --do-complete "tfaot-pkg verify"'),
}
_ANSWERS = {
    "bash": ["verify-install"],
    "zsh": ["_tfaot_pkg_completion", '_arguments \'*: :(("verify-install":"Compare every installed file'],
    "fish": ["verify-install\tCompare every installed file"],
}


@pytest.mark.parametrize("shell", _RUN)
def test_a_shell_loads_its_script_and_completes(
    shell: str, tmp_path: Path, require_program: Callable[[str], str]
) -> None:
    program, script, asked = require_program(shell), tmp_path / "script", tmp_path / "bin" / "tfaot-pkg"
    script.write_text(run_command(["--show-completion", shell]).stdout)
    asked.parent.mkdir()
    asked.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tfaot_pkg "$@"\n')
    asked.chmod(0o755)
    variables = {
        **os.environ, "PATH": f"{asked.parent}:{os.environ['PATH']}", "PYTHONPATH": str(REPOSITORY),
        "HOME": str(tmp_path),
    }  # fmt: skip
    argv = [program, *_RUN[shell], str(script)]
    done = subprocess.run(argv, env=variables, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for line, expected in zip(done.stdout.splitlines(), _ANSWERS[shell], strict=False):
        assert line.startswith(expected)
    assert len(done.stdout.splitlines()) >= len(_ANSWERS[shell])


def test_a_shell_that_is_not_known_is_refused() -> None:
    done = run_command(["--show-completion", "nosuch"])
    assert (done.returncode, done.stdout) == (1, "")
    assert "nosuch not supported" in done.stderr
