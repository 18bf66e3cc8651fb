"""The sample models of recipes/, built by the real tool, and TensorFlow's answers for their held-out data."""

from __future__ import annotations

import csv
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.commands import run_command
from tests.kept import digest_of_tool, kept
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.rules import package_name
from tfaot_pkg.worker_program.messages.requests import Reference, Referenced

Array = npt.NDArray[Any]

REPOSITORY = Path(__file__).resolve().parent.parent
RTOL, ATOL = 1e-4, 1e-5  # the defaults of specs


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample model with data that it has not seen in training: one row of `inputs`, `labels` and `answers` each.

    `answers` are TensorFlow's, for the original SavedModel.
    """

    name: str
    symbol: str
    inputs: Mapping[str, Array]
    labels: Array
    answers: Mapping[str, Array]

    @property
    def package(self) -> str:
        return package_name(self.name)

    def write_inputs(self, folder: Path) -> Path:
        """One file per input with all rows, as programs in C read them."""
        folder.mkdir(exist_ok=True)
        for name, values in self.inputs.items():
            (folder / f"{name}.bin").write_bytes(np.ascontiguousarray(values).tobytes())
        return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Both sample models, published into `registry` and installed from it into `prefix`. Read only.

    `home` is the TFAOT_HOME; the models' Conan packages are in `home / "data" / "conan"`.
    """

    home: Path
    registry: Path
    prefix: Path

    def library(self, name: str, suffix: str) -> Path:
        return self.prefix / "lib" / f"lib{package_name(name)}.{suffix}"

    def copied(self, folder: Path) -> Published:
        """A copy of home and registry that a test may change. It has the same builds and the same prefix."""
        home, registry = folder / "home of the publisher", folder / "registry of the publisher"
        home.mkdir()
        (home / "cache").symlink_to((self.home / "cache").resolve())
        shutil.copytree(self.home / "data", home / "data", symlinks=True)
        shutil.copytree(self.registry, registry, symlinks=True)
        return Published(home=home, registry=registry, prefix=self.prefix)


NAMES = ("digits", "wine")


def recipe(name: str) -> Path:
    return REPOSITORY / "recipes" / package_name(name) / "all"


def conan_consumer(folder: Path) -> Path:
    """A copy of examples/conan-consumer, beside the example whose program it builds, in `folder`.

    Conan writes presets beside the CMakeLists.txt that it configures.
    """
    for name in ("cmake-consumer", "conan-consumer"):
        ignored = shutil.ignore_patterns("build", "CMakeUserPresets.json")
        shutil.copytree(REPOSITORY / "examples" / name, folder / name, ignore=ignored)
    return folder / "conan-consumer"


def tfaot(home: Path, *arguments: str | Path, env: Mapping[str, str] | None = None) -> str:
    """What `tfaot-pkg ARGUMENTS` prints, with TFAOT_HOME=home and the variables `env`."""
    variables = {**os.environ, "TFAOT_HOME": str(home), **(env or {})}
    done = run_command(arguments, cwd=REPOSITORY, env=variables, timeout=1800)
    if done.returncode:
        raise CommandFailed(done.args, REPOSITORY, f"exit code {done.returncode}", done.stdout + done.stderr)
    return done.stdout


def publish_samples(shared_home: Path) -> Published:
    """The sample models, published and installed once for each state of the tool; builds are those of `shared_home`."""
    folder = kept(shared_home, "published", digest_of_tool(), lambda made: _publish(shared_home, _published(made)))
    return _published(folder)


def _published(folder: Path) -> Published:
    return Published(home=folder / "home", registry=folder / "registry", prefix=folder / "prefix")


def _publish(shared_home: Path, published: Published) -> None:
    published.home.mkdir()
    (shared_home / "cache").mkdir(parents=True, exist_ok=True)
    (published.home / "cache").symlink_to(shared_home / "cache")
    for name in NAMES:
        tfaot(published.home, "publish", recipe(name) / "spec.yaml", "--registry", published.registry)
    tfaot(published.home, "install", *NAMES, "--registry", published.registry, "--prefix", published.prefix)


def read_samples(published: Published) -> dict[str, Sample]:
    """The samples by name, with TensorFlow's answers, which are computed when they are asked for the first time."""

    def compute(folder: Path) -> None:
        folders = Folders(cache=published.home / "cache", data=published.home / "data")
        environment = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
        with WorkerPool(environment, scratch_root=folders.builds, logs=folders.logs) as pool:
            for name in NAMES:
                inputs, outputs = _inputs_and_outputs(name, published.prefix)
                answers: dict[str, Any] = tensorflow_answers(recipe(name) / "saved_model", inputs, outputs, pool)
                np.savez(folder / f"{name}.npz", **answers)

    return {name: _sample(name, published.prefix, kept(published.home, "answers", [], compute)) for name in NAMES}


def _sample(name: str, prefix: Path, answers: Path) -> Sample:
    inputs, _ = _inputs_and_outputs(name, prefix)
    with np.load(answers / f"{name}.npz", allow_pickle=False) as file:
        return Sample(
            name=name,
            symbol=_info(name, prefix)["symbol"],
            inputs=inputs,
            labels=_held_out(name)[1],
            answers=dict(file),
        )


def _inputs_and_outputs(name: str, prefix: Path) -> tuple[dict[str, Array], list[str]]:
    """Held-out rows by input, and the names of outputs."""
    info = _info(name, prefix)
    return _split(_held_out(name)[0], info["inputs"]), [tensor["name"] for tensor in info["outputs"]]


def _info(name: str, prefix: Path) -> dict[str, Any]:
    info = json.loads((prefix / "share" / package_name(name) / "info.json").read_text())
    assert isinstance(info, dict)
    return info


def _held_out(name: str) -> tuple[Array, Array]:
    with (recipe(name) / "data" / "held-out.csv").open(newline="") as file:
        cells = np.array([[float(cell) for cell in row] for row in csv.reader(file)])
    return cells[:, :-1].astype(np.float32), cells[:, -1].astype(np.int64)


def _split(rows: Array, tensors: Sequence[Mapping[str, Any]]) -> dict[str, Array]:
    """The columns of `rows`, one input after the other in the order of their names."""
    sizes = [int(np.prod(tensor["shape"][1:])) for tensor in tensors]
    parts = np.split(rows, np.cumsum(sizes)[:-1], axis=1)
    shapes = [(len(rows), *tensor["shape"][1:]) for tensor in tensors]
    return {t["name"]: part.reshape(shape) for t, part, shape in zip(tensors, parts, shapes, strict=True)}


def tensorflow_answers(
    saved_model: Path, inputs: Mapping[str, Array], outputs: Sequence[str], pool: WorkerPool
) -> dict[str, Array]:
    """What TensorFlow computes from `inputs`, all rows as one batch; every input and output has a batch axis."""
    folder = pool.new_folder("held-out")
    arrays: dict[str, Any] = dict(inputs)
    np.savez(folder / "inputs.npz", **arrays)
    rows = len(next(iter(inputs.values())))
    request = Reference(
        folder=str(pool.give(saved_model)),
        tags=("serve",),
        signature="serving_default",
        inputs=str(folder / "inputs.npz"),
        out=str(folder / "answers.npz"),
        batch_sizes=(rows,),
        batched=tuple(inputs),
        stacked=tuple(outputs),
    )
    pool.get().call(request, Referenced)
    with np.load(folder / "answers.npz", allow_pickle=False) as file:
        return {key.partition("/")[2]: file[key] for key in file}


def assert_agrees(ours: Array, theirs: Array) -> None:
    """Ours are TensorFlow's answers: equal for integers, within a spec's default tolerance for floats."""
    if theirs.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=RTOL, atol=ATOL)
    else:
        np.testing.assert_array_equal(ours, theirs)
