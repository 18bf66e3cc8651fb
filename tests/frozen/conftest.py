"""The command line, and workers that read files of models, with the environments of other frameworks beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bad_input.conftest import CommandLine
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FrontendEnvironments
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders


@pytest.fixture(scope="module")
def pool(
    request: pytest.FixtureRequest, shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerPool]:
    """Workers of the version of TensorFlow that a test is parametrized with (`indirect`)."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    frontends = FrontendEnvironments(folders=folders, progress=Silent())
    environment = ensure(request.param, folders=folders, progress=Silent())
    folder = tmp_path_factory.mktemp("pool")
    with WorkerPool(environment, scratch_root=folder / "scratch", logs=folder / "logs", frontends=frontends) as made:
        yield made


@pytest.fixture
def tfaot(shared_home_folder: Path, tmp_path: Path) -> CommandLine:
    (tmp_path / "scratch").mkdir()
    return CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch")
