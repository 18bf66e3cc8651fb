"""Two models in one process, each linked or opened in any way, in either order: each has its own weights."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.native.conftest import check_answers, compile_c
from tests.samples import Published, Sample, tensorflow_answers, tfaot
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.release, pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]

DENSE = {"1.0.0": "dense", "2.0.0": "dense_retrained"}
"""Versions of the model `dense`, and the SavedModels that they are made from: other weights, nothing else."""

BATCH_SIZES = (1, 4)
WAYS = ("static", "shared", "local", "global")
PLACEMENTS = ("aligned", "misaligned")
Models = Mapping[str, tuple[Path, Sample]]


@pytest.fixture(scope="module")
def installed(
    published: Published,
    samples: Mapping[str, Sample],
    models: Mapping[str, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Path, Sample]]:
    """Prefixes and answers of the models: both versions of `dense`, and the samples."""
    folder = tmp_path_factory.mktemp("versions")
    inputs = {"x": np.random.default_rng(3).normal(size=(max(BATCH_SIZES), 4)).astype("float32")}
    folders = Folders(cache=published.home / "cache", data=published.home / "data")
    environment = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    found = {name: (published.prefix, sample) for name, sample in samples.items()}
    with WorkerPool(environment, scratch_root=folders.builds, logs=folders.logs) as pool:
        for version, name in DENSE.items():
            spec = {
                "model": {"name": "dense", "version": version, "saved_model": "."},
                "source": {"path": str(models[name])},
                "compilation": {"batch_sizes": list(BATCH_SIZES), "targets": ["x86-64-v2", "x86-64-v3"]},
            }
            (folder / f"{version}.yaml").write_text(yaml.safe_dump(spec))
            prefix = folder / version
            tfaot(published.home, "build", folder / f"{version}.yaml", "-o", prefix)
            symbol = json.loads((prefix / "share" / "tfaot-model-dense" / "info.json").read_text())["symbol"]
            answers = tensorflow_answers(models[name], inputs, ["y"], pool)
            sample = Sample(name="dense", symbol=symbol, inputs=inputs, labels=np.empty(0, "int64"), answers=answers)
            found[f"dense {version}"] = (prefix, sample)
    return found


def library(prefix: Path, sample: Sample, suffix: str) -> Path:
    return prefix / "lib" / f"lib{sample.package}.{suffix}"


def program(pair: list[tuple[Path, Sample]], ways: tuple[str, ...], output: Path) -> Path:
    """The program c/pair.c, linked with those of the two models that are not opened by it."""
    flags: list[str | Path] = []
    for (prefix, sample), way, name in zip(pair, ways, ("FIRST", "SECOND"), strict=True):
        if way in ("static", "shared"):
            flags += [f"-DENTRY_{name}={sample.symbol}", library(prefix, sample, "a" if way == "static" else "so")]
            flags.append(f"-Wl,-rpath,{prefix / 'lib'}")
    return compile_c("pair", output, *flags, "-lm")


@pytest.mark.parametrize(
    "names",
    [*itertools.permutations(("dense 1.0.0", "dense 2.0.0")), *itertools.permutations(("digits", "wine"))],
    ids=", ".join,
)
def test_each_model_answers_with_its_own_weights(names: tuple[str, str], installed: Models, tmp_path: Path) -> None:
    pair = [installed[name] for name in names]
    folders = [sample.write_inputs(tmp_path / f"inputs-{i}") for i, (_, sample) in enumerate(pair)]
    programs: dict[tuple[str, ...], Path] = {}
    for ways in itertools.product(WAYS, repeat=2):
        linked = tuple(way if way in ("static", "shared") else "" for way in ways)
        if linked not in programs:
            programs[linked] = program(pair, linked, tmp_path / f"program-{len(programs)}")
        outputs = [tmp_path / f"{'-'.join(ways)}-{i}" for i in range(2)]
        argv: list[str | Path] = [programs[linked]]
        for (prefix, sample), way, inputs, folder in zip(pair, ways, folders, outputs, strict=True):
            folder.mkdir()
            argv += [way if way in ("local", "global") else "linked", library(prefix, sample, "so"), inputs, folder]
        printed = run(argv).stdout.splitlines()
        assert [line.split()[0] for line in printed] == [sample.name for _, sample in pair], ways
        for (_, sample), folder in zip(pair, outputs, strict=True):
            check_answers(folder, sample, PLACEMENTS)


def test_the_two_versions_are_not_to_be_confused(installed: Models) -> None:
    """The test above would prove nothing if their answers were alike."""
    first, second = (installed[f"dense {version}"][1].answers["y"] for version in DENSE)
    assert np.abs(first - second).min() > 1e-2
