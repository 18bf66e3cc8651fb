"""Environments with frameworks, and programs that run in them as a user's notebook does, beside this checkout."""

from __future__ import annotations

import json
import os
import site
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import completed
from tests.kept import REPOSITORY, kept
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.formats import Format

PROGRAMS = Path(__file__).parent / "programs"
Run = Callable[..., dict[str, Any]]

_BEGIN = """
import json, runpy, site, sys
checkout, packages, program, *arguments = sys.argv[1:]
sys.path.insert(0, checkout)
site.addsitedir(packages)  # at the end: what the environment has comes first
sys.argv = [program, *arguments]
found = runpy.run_path(program, run_name="__main__")
print("\\n" + json.dumps(found["RESULT"]))
"""


@pytest.fixture
def run_program(shared_home: Path) -> Run:
    """`run_program(python, "trees")`: what programs/trees.py leaves in RESULT, run by the Python of an environment."""

    def run_in(python: Path, name: str, *arguments: str) -> dict[str, Any]:
        packages = next(each for each in site.getsitepackages() if each.startswith(sys.prefix))
        variables = {**os.environ, "PYTHONWARNINGS": "ignore", "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [str(python), "-c", _BEGIN, str(REPOSITORY), packages, str(PROGRAMS / f"{name}.py"), *arguments]
        done = completed(argv, timeout=900, env=variables, cwd=shared_home)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    return run_in


def frontend_python(home: Path, kind: Format) -> Path:
    """The Python of a front-end's environment, made on demand in the shared home."""
    folders = Folders(cache=home / "cache", data=home / "data")
    return FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS[kind]).python


def environment(home: Path, *packages: str) -> Path:
    """A Python with `packages`, made once."""

    def make(folder: Path) -> None:
        run([sys.executable, "-m", "venv", folder], timeout=300)
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], timeout=3000)

    return kept(home, "exporters", {"packages": [*packages]}, make) / "bin" / "python"
