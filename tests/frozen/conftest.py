"""Workers that read files of models: a toolchain's, with the environments of other frameworks beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
