"""Programs ask Linux for tiles of the CPU (tfaot/permissions.h) if a library has use for them, and do without if refused."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.package.conftest import WARNINGS
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.process import run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86-64 has tiles"),
]
SOURCE = Path(__file__).with_name("permissions.cpp")
Program = Callable[..., tuple[int, int, int]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Runs permissions.cpp: how often the library was called, what it may use, and whether Linux permits tiles."""
    folder = tmp_path_factory.mktemp("permissions")

    def call(mode: str, used: str, *, flags: tuple[str, ...] = ()) -> tuple[int, int, int]:
        made = folder / f"program{''.join(flags)}"
        if not made.exists():
            run(["g++", "-std=c++17", *WARNINGS, *flags, f"-I{resources.headers()}", SOURCE, "-o", made])
        done = subprocess.run([made, mode, used], capture_output=True, text=True, check=False)
        if done.returncode == 77:
            pytest.skip("this machine lets no process refuse itself anything")
        assert done.returncode == 0, done.stderr
        calls, told, permitted = map(int, done.stdout.split())
        return calls, told, permitted

    return call


@pytest.mark.parametrize("used", ["code", "instance"])
def test_a_library_is_told_of_tiles_if_linux_permits_them(program: Program, used: str) -> None:
    calls, told, permitted = program("plain", used)
    assert told == permitted
    assert calls == (4 if permitted else 2)


@pytest.mark.parametrize("mode", ["refused", "small"])
@pytest.mark.parametrize("used", ["code", "instance"])
def test_a_refusal_is_no_error(program: Program, mode: str, used: str) -> None:
    assert program(mode, used) == (2, 0, 0)


def test_nothing_is_asked_without_a_library_that_has_use_for_it(program: Program) -> None:
    assert program("plain", "former") == program("plain", "none") == (0, 0, 0)


def test_a_macro_keeps_programs_from_asking(program: Program) -> None:
    assert program("plain", "code", flags=("-DTFAOT_NO_AMX",)) == (2, 0, 0)
