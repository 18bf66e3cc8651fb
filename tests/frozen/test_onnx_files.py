"""ONNX files that cannot be read, and first specs of others."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.kept import kept
from tests.onnx_lowering.graphs import model_in, valid
from tests.toolchains import VERSIONS
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.onnx_lowering.table import Refused
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.spec.source.tree import source_tree
from tfaot_pkg.spec.types import ModelInfo, files_of

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
_MAKER = Path(__file__).with_name("onnx_files.py")
_GRAPH = "graph_of_any_size.onnx"


@pytest.fixture(scope="session")
def files(shared_home_folder: Path) -> Path:
    """A folder of ONNX files."""
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    toolchain = ensure(VERSIONS[0], folders=folders, progress=Silent())
    frontend = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain.python)
    parts = {"maker": sha256_file(_MAKER), "frontend": frontend.identity}
    return kept(
        shared_home_folder,
        "onnx_files",
        parts,
        lambda folder: run([frontend.python, "-I", _MAKER, folder], timeout=300),
    )


@pytest.mark.nightly
@pytest.mark.parametrize("pool", VERSIONS[:1], indirect=True)
def test_files_that_cannot_be_read_are_the_models_fault(pool: WorkerPool, files: Path, tmp_path: Path) -> None:
    """Each message says what it is, and each hint what to do."""
    wanted = {
        "newer": ("ONNX opset 99; the newest supported one is", "an older one"),
        "typeless": ("cannot run the file", "export again"),
        "outside": ("'some'", "export the model again"),
        "sampled": ("com.microsoft.Sampling", "ORT_ENABLE_BASIC"),
        "bfloat16": ("cannot run the file", "cast bfloat16"),
        "named": ("same node name", "different names"),
        "summed": ("Type Error", "Cast"),
        "frames": ("neither a window nor a length of frames", ""),
        # Known before ONNX's check follows the calls, of which the first has 2 to the 40.
        "bomb": ("the model has more than 2,000,000 nodes after its functions are inlined", "smaller model"),
        "chain": ("the model calls functions nested deeper than 200", "fewer functions"),
        "loop": ("the function 'own.f0', which the model runs, calls itself", "ONNX's Loop"),
    }
    for name, (message, hint) in wanted.items():
        (tmp_path / name).mkdir()
        for path in (files / "rejected").glob("*.bin"):
            shutil.copy(path, tmp_path / name)
        with pytest.raises((ModelError, Refused)) as error:
            _read(Path(shutil.copy(files / "rejected" / f"{name}.onnx", tmp_path / name)), pool)
        assert message in str(error.value), name
        assert hint in getattr(error.value, "hint", ""), name


@pytest.mark.nightly
def test_init_writes_a_spec_only_for_what_can_be_run(files: Path, shared_home_folder: Path, tmp_path: Path) -> None:
    variables = {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    shutil.copy(files / "rejected" / "bfloat16.onnx", tmp_path)
    refused = run_command(["init", "bfloat16.onnx"], cwd=tmp_path, env=variables)
    assert refused.returncode == ModelError.exit_code and "cannot run the file" in refused.stderr
    assert not (tmp_path / "spec.yaml").exists()
    shutil.copytree(files / "rejected", tmp_path / "tagger.v2", ignore=shutil.ignore_patterns("*.onnx"))
    shutil.copy(files / "dense.onnx", tmp_path / "tagger.v2")
    assert run_command(["init", "tagger.v2"], cwd=tmp_path, env=variables).returncode == 0
    spec = (tmp_path / "spec.yaml").read_text()
    assert "onnx: tagger.v2" in spec and "name: tagger_v2" in spec


@pytest.mark.nightly
def test_nodes_and_edges_are_no_batch(files: Path, shared_home_folder: Path, tmp_path: Path) -> None:
    shutil.copy(files / _GRAPH, tmp_path)
    variables = {**os.environ, "TFAOT_HOME": str(shared_home_folder)}
    assert run_command(["init", _GRAPH], cwd=tmp_path, env=variables).returncode == 0
    spec = (tmp_path / "spec.yaml").read_text()
    assert 'x: ["nodes <= 128", 4]' in spec and 'edges: [2, "count <= 128"]' in spec
    fewer = ["--target", "x86-64-v3", "--batch-size", "1"]
    built = run_command(["build", "spec.yaml", "-o", "prefix", *fewer, "--json"], cwd=tmp_path, env=variables)
    assert built.returncode == 0, built.stderr
    assert json.loads(built.stdout)["engine"]["name"] == "program"
    model = load(tmp_path / "prefix")
    for nodes, edges in ((5, 9), (128, 1)):
        x = np.ones((nodes, 4), np.float32)
        assert model(x=x, edges=np.zeros((2, edges), np.int64))["y"].shape == (nodes, 1)


def _read(path: Path, pool: WorkerPool) -> None:
    """Read a file as for a first spec, then as for a build, and lower it. Raises ModelError, Unsupported."""
    model = ModelInfo(name="model", version="1", files=files_of("onnx", path.name))
    saved = SavedModel(model, source_tree(path.parent, Path(path.name), field="onnx"), pool)
    saved.described()
    valid(model_in(saved.parts()))
