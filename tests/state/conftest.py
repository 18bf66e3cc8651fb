"""Models with state, as packages, and what TensorFlow computes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.bad_input.conftest import CommandLine, write_spec
from tests.kept import digest_of_tool, kept, saved_models
from tfaot_pkg.loader import Model, load

Array = npt.NDArray[Any]
HERE = Path(__file__).resolve().parent
EVERYTHING: Mapping[str, Sequence[str]] = {"update": ["*"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stateful:
    """A model in a prefix. `inputs` and `outputs` of TensorFlow have all steps on a first axis.

    `state` has the variables after the last one, `gradients` those of the first step.
    """

    prefix: Path
    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]
    state: Mapping[str, Array]
    gradients: Mapping[str, Array]

    @property
    def model(self) -> Model:
        return load(self.prefix)


Built = Callable[..., Stateful]


@pytest.fixture(scope="session")
def stateful_models(shared_home_folder: Path, toolchain_python: Path) -> Path:
    """The folder of SavedModels of make_models.py, and of what TensorFlow computes with them. Read only."""
    return saved_models(shared_home_folder, HERE / "make_models.py", toolchain_python)


@pytest.fixture(scope="session")
def built(stateful_models: Path, shared_home_folder: Path) -> Built:
    """Builds a model of make_models.py with its variables as state, once."""

    def make(name: str, variables: Mapping[str, Sequence[str]] = EVERYTHING, **model: str) -> Stateful:
        sections: dict[str, Any] = {
            "model": {"name": name, "version": "1.0.0", "saved_model": name, **model},
            "compilation": {"batch_sizes": [1], "targets": ["x86-64-v3"], "variables": dict(variables)},
        }

        def build(folder: Path) -> None:
            (folder / "scratch").mkdir()
            spec = write_spec(folder / "spec.yaml", stateful_models / name, **sections)
            tool = CommandLine(home=shared_home_folder, scratch=folder / "scratch")
            tool.works("build", spec, "-o", folder / "prefix")

        folder = kept(shared_home_folder, "stateful", [digest_of_tool(), str(stateful_models), sections], build)
        return Stateful(prefix=folder / "prefix", **answers_of(stateful_models / f"{name}.npz"))

    return make


def answers_of(path: Path) -> dict[str, dict[str, Array]]:
    """What make_models.py wrote, by kind."""
    found: dict[str, dict[str, Array]] = {"inputs": {}, "outputs": {}, "state": {}, "gradients": {}}
    with np.load(path, allow_pickle=False) as file:
        for key in file:
            kind, _, name = key.partition("/")
            found[kind][name] = file[key]
    return found


@pytest.fixture
def tfaot(shared_home_folder: Path, toolchain_python: Path, tmp_path: Path) -> CommandLine:
    """`tfaot-pkg` in the home that all slow tests share."""
    (tmp_path / "scratch").mkdir()
    return CommandLine(home=shared_home_folder, scratch=tmp_path / "scratch")
