"""Whole networks that PyTorch exports now: all give its answers, and packages are built of some, by their kernels."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.commands import run_command
from tests.frozen.test_torch_files import HELPER, difference_from_pytorch, python_with_pytorch
from tests.kept import kept
from tests.toolchains import VERSIONS
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.nightly, pytest.mark.timeout(3600)]
_MAKER = Path(__file__).with_name("torch_networks.py")


@pytest.fixture(scope="module")
def exported(shared_home_folder: Path) -> Path:
    python = python_with_pytorch(shared_home_folder)
    digests = [sha256_file(each) for each in (_MAKER, _MAKER.with_name("torch_files.py"), *sorted(HELPER.glob("*.py")))]
    return kept(
        shared_home_folder,
        "torch_networks",
        {"python": str(python), "digests": digests},
        lambda folder: run([python, "-I", _MAKER, HELPER, folder], timeout=3000),
    )


@pytest.mark.parametrize("pool", VERSIONS[:1], indirect=True)
def test_every_network_gives_pytorchs_answers(pool: WorkerPool, exported: Path) -> None:
    found = {path.stem: difference_from_pytorch(path, pool) for path in sorted(exported.glob("*.onnx"))}
    assert len(found) >= 28
    assert {name: difference for name, difference in found.items() if difference > 1e-5} == {}


@pytest.mark.sweep(night=["calorimeter_of_conv3d", "gru_tagger"])
# Products that the kernel library does not compute are plain loops, many times slower.
@pytest.mark.parametrize(
    "name",
    [
        "calorimeter_of_conv3d",
        "graph_of_given_edges",
        "gru_tagger",
        "lstm_towers_of_eight",
        "particle_net",
        "particle_transformer",
        "temporal_convolutions",
        "u_net",
    ],
)
def test_a_package_of_a_network_is_verified_against_pytorch_and_uses_kernels(
    exported: Path, shared_home_folder: Path, tmp_path: Path, name: str
) -> None:
    """With the spec that `init` writes, for fewer targets and batch sizes."""
    shutil.copy(exported / f"{name}.onnx", tmp_path)
    variables = {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    assert run_command(["init", f"{name}.onnx"], cwd=tmp_path, env=variables).returncode == 0
    fewer = ["--target", "x86-64-v3", "--batch-size", "1", "--batch-size", "4"]
    built = run_command(["build", "spec.yaml", "-o", "prefix", *fewer, "--json"], cwd=tmp_path, env=variables)
    assert built.returncode == 0, built.stderr
    document = json.loads(built.stdout)
    (own,) = [each for each in document["validation"]["classes"] if each["name"] == "PyTorch"]
    assert (own["not_run"], own["differences"]) == ("", [])
    assert document["engine"]["name"] == "program"
    assert document["engine"]["kernels"] == document["engine"]["products"] > 2
