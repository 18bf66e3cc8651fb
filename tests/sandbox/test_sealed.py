"""What our own native programs take from themselves (templates/tools/sealed.h), with no sandbox around them."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tfaot_pkg.ground import resources

_REFUSED = ["execve", "execveat"]
_OF_OTHER_ARCHITECTURES = ["x32", "int 0x80"] if platform.machine() == "x86_64" else []


@pytest.fixture(scope="session")
def sealed(tmp_path_factory: pytest.TempPathFactory, require_program: Callable[[str], str]) -> Path:
    program = tmp_path_factory.mktemp("sealed") / "sealed"
    source = Path(__file__).with_name("sealed.cpp")
    tools = resources.templates() / "tools"
    subprocess.run([require_program("g++"), "-std=c++17", "-I", tools, source, "-o", program], check=True)
    return program


def outcomes(sealed: Path, *arguments: str) -> dict[str, str]:
    done = subprocess.run([sealed, *arguments], capture_output=True, text=True, check=False)
    if done.returncode < 0:
        pytest.skip("this kernel runs no 32-bit system calls")
    return dict(line.split(": ") for line in done.stdout.splitlines())


def test_no_program_is_started_by_the_numbers_of_any_architecture(sealed: Path) -> None:
    found = outcomes(sealed)
    assert found.pop("getpid") == "allowed"
    assert found == dict.fromkeys([*_REFUSED, *_OF_OTHER_ARCHITECTURES], "refused")


def test_a_program_that_is_not_sealed_is_refused_nothing(sealed: Path) -> None:
    assert set(outcomes(sealed, "open").values()) == {"allowed"}


def test_in_a_sandbox_such_calls_end_the_program(
    confined: Callable[..., subprocess.CompletedProcess[str]], sealed: Path
) -> None:
    ended = confined("native", sealed, "open")
    assert ("killed by SIGSYS" in ended.stdout) == bool(_OF_OTHER_ARCHITECTURES), ended.stdout
