from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import HERE, WARNINGS
from tfaot_pkg.ground.process import run


@pytest.fixture(scope="session")
def pkg_config(require_program: Callable[[str], str]) -> Callable[..., list[str]]:
    """The words that a shell would make of what pkg-config prints for the packages of a prefix."""
    program = require_program("pkg-config")

    def ask(prefix: Path, *arguments: str) -> list[str]:
        env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib/pkgconfig")}
        return shlex.split(run([program, *arguments], env=env).stdout)

    return ask


@pytest.mark.slow
def test_a_moved_package_in_a_path_with_blanks_compiles_and_runs(
    prefix: Path, tmp_path: Path, pkg_config: Callable[..., list[str]]
) -> None:
    moved = tmp_path / "a path" / "moved prefix"
    shutil.copytree(prefix, moved)
    flags = pkg_config(moved, "--cflags", "--libs", "tfaot-model-affine", "tfaot-model-steep")
    sources = [HERE / "consumer" / name for name in ("main.cpp", "steep.cpp")]
    run(["g++", "-std=c++17", *WARNINGS, *sources, *flags, "-o", tmp_path / "program"])
    env = {**os.environ, "LD_LIBRARY_PATH": str(moved / "lib")}
    assert run([tmp_path / "program"], env=env).stdout == "affine 21, steep 31\n"


def test_what_the_static_library_needs_is_private(prefix: Path, pkg_config: Callable[..., list[str]]) -> None:
    assert "-lm" not in pkg_config(prefix, "--libs", "tfaot-model-affine")
    static = pkg_config(prefix, "--libs", "--static", "tfaot-model-affine")
    assert "-lm" in static
    assert "-lstdc++" not in static  # a program in C needs no C++ runtime


def test_the_version_is_the_models(prefix: Path, pkg_config: Callable[..., list[str]]) -> None:
    assert pkg_config(prefix, "--modversion", "tfaot-model-affine") == ["1.2.0"]
