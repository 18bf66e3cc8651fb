"""Models of tests/models/corners.py, made once, and the zoo's builder for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.conftest import scratch, tfaot  # noqa: F401 (fixtures)
from tests.kept import saved_models
from tests.zoo.conftest import Build, Builder
from tfaot_pkg.ground.settings import Folders

MODELS = Path(__file__).resolve().parents[1] / "models" / "corners.py"


@pytest.fixture(scope="session")
def corners(shared_home_folder: Path, toolchain_python: Path) -> Path:
    """The folder of the SavedModels. Read only."""
    return saved_models(shared_home_folder, MODELS, toolchain_python)


@pytest.fixture(scope="session")
def build(corners: Path, shared_home_folder: Path) -> Iterator[Build]:
    """`build(Case(name="gelu"), tensorflow="2.17.1")`: see Builder.build."""
    builder = Builder(lambda _: corners, Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data"))
    yield builder.build
    builder.close()
