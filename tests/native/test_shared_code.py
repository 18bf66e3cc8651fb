"""One object for all threads in C (templates/native/library.cc), over a model of the test's: no TensorFlow, no compiler."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.native.conftest import HERE, VALGRIND
from tests.sanitizers import CATCH_ERRORS, CATCH_RACES, run_sanitized
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

NATIVE = resources.templates() / "native"
FLAGS = (
    "-std=c++17",
    "-O1",
    "-g1",
    "-Wall",
    "-Wextra",
    "-Werror",
    *(f"-I{folder}" for folder in (NATIVE, NATIVE / "thunks", NATIVE / "absl", resources.headers())),
    f"-I{resources.kernels() / 'include'}",
    f"-I{HERE.parent / 'package' / 'cpp'}",
    "-D__dso_handle=library_handle",  # programs have one of their own
)
SOURCES = (
    HERE / "cpp" / "code.cpp",
    *(NATIVE / f"{name}.cc" for name in ("library", "runtime", "state", "thread_pool")),
)
CASES = ("sizes", "wrong", "threads", "during", "instances")
TEAMS = ("teams", "division", "wrong_teams", "nested_teams", "arithmetic", "thread_pools")
COUNTED = ("-DCOUNT_ALLOCATIONS",)

pytestmark = pytest.mark.slow


def compiled(folder: Path, flags: tuple[str, ...]) -> Path:
    run(["g++", *FLAGS, *flags, *SOURCES, "-pthread", "-o", folder / "code"])
    return folder / "code"


@pytest.mark.parametrize(
    ("flags", "cases"),
    [(COUNTED, (*CASES, "counted")), (CATCH_RACES, ("threads",)), (CATCH_ERRORS, CASES)],
    ids=lambda value: value[0] if isinstance(value, tuple) and value[0].startswith("-") else "",
)
def test_any_number_of_threads_share_one_code(
    flags: tuple[str, ...], cases: tuple[str, ...], require_sanitizers: Callable[[str], Path], tmp_path: Path
) -> None:
    """64 threads, answers to the bit, scratch memory to the byte, no allocation after the first call."""
    require_sanitizers("g++")
    run_cases(compiled(tmp_path, flags), cases)


def run_cases(program: Path, cases: Sequence[str]) -> None:
    for case in cases:
        finished = run_sanitized([program, case])
        assert (finished.stdout, finished.stderr) == ("good\n", ""), case


@pytest.mark.parametrize(
    ("flags", "cases"),
    [(COUNTED, (*TEAMS, "counted_teams")), (CATCH_RACES, TEAMS), (CATCH_ERRORS, TEAMS)],
    ids=["allocations", "races", "errors"],
)
def test_a_team_of_threads_shares_the_work_of_a_call(
    flags: tuple[str, ...], cases: tuple[str, ...], require_sanitizers: Callable[[str], Path], tmp_path: Path
) -> None:
    """Whatever the team does with its tasks, and however many threads it has."""
    require_sanitizers("g++")
    run_cases(compiled(tmp_path, flags), cases)


@pytest.mark.nightly
def test_valgrind_sees_neither_errors_nor_leaks_of_64_threads(
    require_program: Callable[[str], str], tmp_path: Path
) -> None:
    valgrind = [require_program("valgrind"), *VALGRIND]
    program = compiled(tmp_path, COUNTED)
    for case in ("threads", "sizes"):
        finished = run([*valgrind, program, case], timeout=120)
        assert (finished.stdout, finished.stderr) == ("good\n", ""), case
