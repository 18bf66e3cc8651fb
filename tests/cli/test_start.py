"""What a command imports before it works: small commands must not wait for the libraries of large ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Optional, get_origin

import pytest

from tests.commands import run_command
from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tfaot_pkg.cli.command import _hints
from tfaot_pkg.registry.folder import FolderRegistry

REPOSITORY = Path(__file__).resolve().parents[2]
HEAVY = {
    "conan", "cyclonedx", "distributed", "jinja2", "matplotlib", "numpy", "requests", "rich",
    "securesystemslib", "starlette", "tensorflow", "tuf", "uvicorn", "yaml",
}  # fmt: skip
_RUN = """
import sys
from tfaot_pkg.cli.app import app
app(sys.argv[1:], standalone_mode=False)
print(*sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["", "build", "nightly run", "toolchains add"])
def test_help_imports_no_library_but_typer(command: str) -> None:
    argv = [sys.executable, "-c", _RUN, *command.split(), "--help"]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.startswith("Usage: ")
    assert (HEAVY | {"pydantic", "msgspec"}).isdisjoint(done.stderr.split()), done.stderr


def test_names_that_other_package_managers_have_are_understood() -> None:
    for alias, command in {"info": "show", "add": "install", "pull": "install", "remove": "uninstall"}.items():
        asked, meant = (run_command([name, "--help"]).stdout for name in (alias, command))
        assert asked.partition("\n")[2] == meant.partition("\n")[2] != ""


@pytest.mark.parametrize(
    "command",
    [
        "search digits --registry registry",
        "show digits --registry registry",
        "resolve digits --registry registry",
        "install digits --prefix prefix --registry registry",
    ],
    ids=lambda command: command.partition(" ")[0],
)
def test_a_command_over_a_folder_imports_nothing_that_it_does_not_need(command: str, tmp_path: Path) -> None:
    package = package_of(tmp_path, "digits", "1", tiny_files("digits", "1"))
    FolderRegistry.create(tmp_path / "registry").publish(package.entry, package.blobs)
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TFAOT_HOME": str(tmp_path / "home")}
    argv = [sys.executable, "-c", _RUN, *command.split()]
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=True)
    assert "digits" in done.stdout
    assert HEAVY.isdisjoint(done.stderr.split()), done.stderr


def test_python_3_10_sees_options_whose_default_is_none() -> None:
    """Its `get_type_hints` wraps them in Optional: `install` took no package, and `-o` was unknown."""

    def command(package: Optional[Annotated[str, "an argument"]] = None) -> None:  # noqa: UP045 (as Python 3.10 has it)
        """Nothing."""

    assert get_origin(_hints(command)["package"]) is Annotated
