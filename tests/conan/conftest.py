"""A model that can be packaged in a second: a fake native library, its install tree, and a recipe for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.package.conftest import build_fake_libraries, make_contents, make_spec, write_tree
from tfaot_pkg.pipeline.conan.package import ConanHome
from tfaot_pkg.pipeline.conan.recipe import stage_recipe
from tfaot_pkg.spec.types import FolderSource, ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Packaged:
    """A model as the stages before Conan leave it."""

    spec: ModelSpec
    prefix: Path
    recipe: Path


@pytest.fixture(scope="session")
def make_model(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Packaged]:
    """Make the model `name`, which multiplies by `slope`, with a staged recipe."""

    def make(name: str = "affine", *, slope: float = 2, version: str = "1.2.0") -> Packaged:
        folder = tmp_path_factory.mktemp("model")
        (folder / "saved_model" / "variables").mkdir(parents=True)
        (folder / "saved_model" / "saved_model.pb").write_bytes(b"not read here")
        (folder / "saved_model" / "variables" / "variables.index").write_bytes(b"nor this")
        spec = dataclasses.replace(
            make_spec(name, version=version), path=folder / "spec.yaml", source=FolderSource(path=folder)
        )
        build_fake_libraries(folder, name, slope=slope, version=version)
        program = folder / f"{name}_test"
        program.write_text("#!/bin/sh\necho tested\n")
        contents = dataclasses.replace(make_contents(spec, libraries=folder), programs=(program,))
        write_tree(contents, folder / "prefix")
        return Packaged(spec=spec, prefix=folder / "prefix", recipe=stage_recipe(spec, folder / "recipe"))

    return make


@pytest.fixture(scope="session")
def affine(make_model: Callable[..., Packaged]) -> Packaged:
    """The model `affine` 1.2.0. Read only."""
    return make_model("affine")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> ConanHome:
    """A Conan home that this folder's tests share."""
    folder = tmp_path_factory.mktemp("conan")
    return ConanHome(root=folder / "home", log=folder / "conan.log")
