"""Hostile libraries in the programs that open libraries: their constructors run before anything of the program's."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sandbox.conftest import running_below
from tests.wording import reported
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.verify.hashes import Group
from tfaot_pkg.verify.installed import _answers
from tfaot_pkg.verify.latency import TimedUnit, Timer, timer

LOADER = "/lib64/ld-linux-x86-64.so.2"
STARTS = f"""
#include <unistd.h>
__attribute__((constructor)) static void start(void) {{
  char* words[] = {{"loader", "--version", 0}};
  execv("{LOADER}", words);
  _exit(42);
}}
"""
HANGS = "#include <unistd.h>\n__attribute__((constructor)) static void hang(void) { for (;;) pause(); }\n"


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> Timer:
    folder = tmp_path_factory.mktemp("clock")
    return timer(find_compiler("x86_64", log=folder / "log", output=lambda _: None), BuildCache(root=folder))


@pytest.fixture
def library(tmp_path: Path, require_program: Callable[[str], str]) -> Callable[[str], Path]:
    def compiled(source: str) -> Path:
        (tmp_path / "library.c").write_text(source)
        argv: list[str | Path] = [
            require_program("gcc"),
            "-shared",
            "-fPIC",
            tmp_path / "library.c",
            "-o",
            tmp_path / "library.so",
        ]
        subprocess.run(argv, check=True)
        return tmp_path / "library.so"

    return compiled


def test_a_library_that_is_timed_starts_no_program(clock: Timer, library: Callable[[str], Path]) -> None:
    unit = TimedUnit(library=library(STARTS), target="x86-64-v2", batch_size=1)
    with reported(ValidationError):
        clock.rounds([unit])


def test_a_library_that_is_validated_starts_no_program(library: Callable[[str], Path], tmp_path: Path) -> None:
    with reported(CommandFailed):
        run_validation(library(STARTS), tmp_path)


def test_one_limit_of_time_holds_for_libraries_too(
    clock: Timer, library: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFAOT_WORKER_TIMEOUT", "1.5")
    hanging = library(HANGS)
    with reported(ValidationError):
        clock.rounds([TimedUnit(library=hanging, target="x86-64-v2", batch_size=1)])
    with reported(CommandFailed):
        run_validation(hanging, tmp_path)
    assert running_below(hanging) == []


def test_it_holds_for_installed_packages(library: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFAOT_WORKER_TIMEOUT", "1.5")
    group = Group(targets=("x86-64-v2",), run=(), batches={1: {"y": "0" * 64}})
    found = _answers(library(HANGS), "x86-64-v2", group)
    assert isinstance(found, str) and found.startswith("no end after 1.5 s")


def run_validation(library: Path, folder: Path) -> None:
    """As verify/runs.py does, with no inputs: the library's constructors run before any are read."""
    job = folder / "job.json"
    job.write_text(
        json.dumps({"library": str(library), "target": "x86-64-v2", "batch_sizes": [1], "flush": False, "parts": []})
    )
    box = Sandbox(readable=(library, job), limits=Limits.of_user())
    box.own_python("tfaot_pkg.verify.runner", [job]).run()
