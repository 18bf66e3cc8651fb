"""Choosing and asking Pythons; stand-ins on the PATH play the ones that this machine lacks."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import ToolchainError
from tfaot_pkg.frontends.toolchain import pinned
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION, Toolchain, toolchain
from tfaot_pkg.frontends.toolchain.pinned import choose, inspect


def _for_python(specifier: str) -> Toolchain:
    return dataclasses.replace(toolchain(DEFAULT_VERSION), python=specifier)


def _stand_in(path: Path, *, python: str, venv: bool = True, ensurepip: bool = True) -> Path:
    answer = json.dumps({"python": python, "venv": venv, "ensurepip": ensurepip, "tensorflow": "", "site_packages": ""})
    return _script(path, f"echo '{answer}'")


def _script(path: Path, body: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "bin"


def test_the_running_python_is_chosen_where_it_suits(on_path: Path) -> None:
    _stand_in(on_path / "python3.12", python="3.12.1")
    assert choose(_for_python(">=3.10")).path == Path(sys.executable)


def test_a_suitable_python_on_the_path_is_chosen_where_the_running_one_does_not_suit(on_path: Path) -> None:
    _stand_in(on_path / "python3.8", python="3.8.9")
    chosen = choose(_for_python("==3.8.*"))
    assert (chosen.path, chosen.minor) == (on_path / "python3.8", "3.8")


def test_a_python_on_the_path_that_does_not_run_is_passed_over(on_path: Path) -> None:
    _script(on_path / "python3.9", "echo 'python3.9: command not found' >&2; exit 127")
    _stand_in(on_path / "python3", python="3.9.2")
    assert choose(_for_python("==3.9.*")).path == on_path / "python3"


def test_a_range_that_no_python_suits_is_an_error_that_names_it(on_path: Path) -> None:
    with reported(ToolchainError):
        choose(_for_python("==3.9.*"))


def test_a_python_without_ensurepip_is_chosen_if_the_running_one_has_pip(
    on_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _stand_in(on_path / "python3.9", python="3.9.2", ensurepip=False)
    assert choose(_for_python("==3.9.*")).path == on_path / "python3.9"
    monkeypatch.setattr(pinned, "version", lambda _: "22.2")
    with reported(ToolchainError, varies=re.escape(sys.executable)):
        choose(_for_python("==3.9.*"))


def test_a_python_without_venv_is_an_error_that_says_what_to_install(on_path: Path) -> None:
    _stand_in(on_path / "python3.9", python="3.9.2", venv=False)
    with reported(ToolchainError):
        choose(_for_python("==3.9.*"))


def test_a_program_that_is_no_python_is_refused(tmp_path: Path) -> None:
    with reported(ToolchainError):
        inspect(_script(tmp_path / "bin" / "true", "exit 0"))


def test_this_python_answers_what_it_is() -> None:
    answer = inspect(Path(sys.executable))
    assert answer.python == ".".join(map(str, sys.version_info[:3]))
    assert answer.makes_environments
