"""Models of tests/models/corners.py, made once, and the zoo's builder for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.conftest import scratch, tfaot  # noqa: F401 (fixtures)
from tests.zoo.conftest import Build, Builder
from tfaot_pkg.folders import Folders
from tfaot_pkg.keys import sha256_file
from tfaot_pkg.process import run
from tfaot_pkg.storage import locked, new_folder

MODELS = Path(__file__).resolve().parents[1] / "models" / "corners.py"


@pytest.fixture(scope="session")
def corners(shared_home_folder: Path, toolchain_python: Path) -> Path:
    """The folder of the SavedModels. Read only."""
    folder = shared_home_folder / "corners" / sha256_file(MODELS)[:16]
    with locked(folder.with_name(folder.name + ".lock"), what="the models"):
        if not folder.is_dir():
            with new_folder(folder) as made:
                run([toolchain_python, "-I", MODELS, made], timeout=600)
    return folder


@pytest.fixture(scope="session")
def build(corners: Path, shared_home_folder: Path) -> Iterator[Build]:
    """`build(Case(name="gelu"), tensorflow="2.17.1")`: see Builder.build."""
    builder = Builder(corners, Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data"))
    yield builder.build
    builder.close()
