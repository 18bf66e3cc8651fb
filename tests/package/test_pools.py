"""Teams of real executors: thread pools of Eigen, TBB, and parallel algorithms of C++."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import HERE
from tests.sanitizers import CATCH_ERRORS, run_sanitized
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

Library = tuple[str, list[str], list[str]]
"""A header below /usr/include, flags, and libraries."""

EIGEN: Library = ("eigen3/unsupported/Eigen/CXX11/ThreadPool", ["-DEIGEN", "-isystem", "/usr/include/eigen3"], [])
TBB: Library = ("tbb/parallel_for.h", ["-DTBB"], ["-ltbb"])


# The sanitizer of races knows neither the fences in Eigen's pool nor what TBB's library does.
@pytest.mark.parametrize("library", [EIGEN, TBB], ids=["eigen", "tbb"])
def test_a_team_of_a_pool_does_all_of_the_work(
    library: Library,
    tmp_path: Path,
    require_header: Callable[[str], None],
    require_sanitizers: Callable[[str], Path],
) -> None:
    header, flags, libraries = library
    require_header(header)
    require_sanitizers("g++")
    program = tmp_path / "pools"
    warnings = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    includes = [f"-I{resources.headers()}", *flags]
    source = HERE / "pools.cpp"
    run(["g++", "-std=c++17", "-g1", "-O1", *CATCH_ERRORS, *warnings, *includes, source, *libraries, "-pthread", "-o", program],
        timeout=600)  # fmt: skip
    finished = run_sanitized([program])
    assert (finished.stdout, finished.stderr) == ("", "")
