"""Random programs: the code gives what the interpreter does, to the bit, for one block of rows and for several."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.compiler.conftest import HEADERS, kernel_object
from tests.compiler.random_programs import SANITIZED, check
from tests.kept import REPOSITORY
from tfaot_pkg.ground.process import run


def test_random_programs_give_what_the_interpreter_does(kernels: Path) -> None:
    check(range(12), kernels)


@pytest.mark.slow
def test_random_programs_with_a_symbol_give_what_the_interpreter_does(kernels: Path) -> None:
    check(range(12), kernels, symbolic=True)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start", [100])
@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "symbolic"])
def test_many_random_programs_give_what_the_interpreter_does(kernels: Path, start: int, symbolic: bool) -> None:
    check(range(start, start + 100), kernels, symbolic=symbolic)


@pytest.mark.sweep(night=["symbolic-1100"])
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("start", [1100, 1225])
@pytest.mark.parametrize("kind", ["fixed", "symbolic"])
def test_sanitizers_find_nothing_in_random_programs(shared_home_folder: Path, start: int, kind: str) -> None:
    """Of addresses and of undefined behaviour; arrays, weights and scratch lie between guard pages."""
    kernels = kernel_object(shared_home_folder, "g++", SANITIZED, headers=HEADERS)
    library = run(["g++", "-print-file-name=libasan.so"]).stdout.strip()
    # Python itself never frees some of its memory.
    environment = {**os.environ, "LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0"}
    command: list[str | Path] = [sys.executable, "-m", "tests.compiler.random_programs", kernels]
    run([*command, str(start), str(start + 125), kind], env=environment, cwd=REPOSITORY, timeout=1100)
