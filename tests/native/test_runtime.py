"""The runtime of libraries alone (templates/native/runtime.cc): calls that end early, signals, forks, many threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.native.conftest import HERE
from tfaot_pkg import resources
from tfaot_pkg.process import run

CASES = ("left", "nested", "many", "forked", "variables", "constants")
NATIVE = resources.templates() / "native"
FLAGS = (
    "-std=c++17",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-fno-exceptions",
    "-fno-rtti",
    "-pthread",
    *(f"-I{folder}" for folder in (NATIVE, NATIVE / "thunks", NATIVE / "absl")),
    "-D__dso_handle=library_handle",  # programs have one of their own
)


@pytest.fixture(scope="module", params=["g++", "clang++"])
def guarded(
    request: pytest.FixtureRequest,
    require_program: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The program cpp/guarded.cpp, linked with the runtime."""
    output = tmp_path_factory.mktemp("guarded") / "guarded"
    run([require_program(request.param), *FLAGS, HERE / "cpp" / "guarded.cpp", NATIVE / "runtime.cc", "-o", output])
    return output


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_guarded_calls(guarded: Path, case: str) -> None:
    """Each case is explained in cpp/guarded.cpp."""
    run([guarded, case])
