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
from tfaot_pkg.runtime.loader import Model, load

Array = npt.NDArray[Any]
HERE = Path(__file__).resolve().parent
EVERYTHING: Mapping[str, Sequence[str]] = {"update": ["*"]}
_TRAINING = [
    f"{kind}_{how}_{mode}"
    for kind in ("dense", "conv")
    for how in ("sgd", "momentum", "adam")
    for mode in ("training", "inference")
]
_NAMES = ("counter", "gru", "lstm", "simple_rnn", *_TRAINING)
# The models that tests of `make test` read. One process makes them; another one, at night, makes all others.
_DAILY = frozenset(("counter", "gru", "dense_adam_training", "dense_sgd_inference"))


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
def saved(shared_home_folder: Path, toolchain_python: Path) -> Callable[[str], Path]:
    """`saved(name)`: that SavedModel of make_models.py. What TensorFlow computes with it is beside it. Read only."""

    def find(name: str) -> Path:
        names = [each for each in _NAMES if (each in _DAILY) == (name in _DAILY)]
        return saved_models(shared_home_folder, HERE / "make_models.py", toolchain_python, names) / name

    return find


@pytest.fixture(scope="session")
def built(saved: Callable[[str], Path], shared_home_folder: Path) -> Built:
    """Builds a model of make_models.py with its variables as state, once."""

    def make(name: str, variables: Mapping[str, Sequence[str]] = EVERYTHING, **model: str) -> Stateful:
        sections: dict[str, Any] = {
            "model": {"name": name, "version": "1.0.0", "saved_model": name, **model},
            "compilation": {"batch_sizes": [1], "targets": ["x86-64-v3"], "variables": dict(variables)},
        }

        model_folder = saved(name)

        def build(folder: Path) -> None:
            (folder / "scratch").mkdir()
            spec = write_spec(folder / "spec.yaml", model_folder, **sections)
            tool = CommandLine(home=shared_home_folder, scratch=folder / "scratch")
            tool.works("build", spec, "-o", folder / "prefix")

        folder = kept(shared_home_folder, "stateful", [digest_of_tool(), str(model_folder), sections], build)
        return Stateful(prefix=folder / "prefix", **answers_of(model_folder.with_suffix(".npz")))

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
