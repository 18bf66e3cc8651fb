"""Networks in ONNX files become SavedModels that give ONNX Runtime's answers."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.kept import kept
from tests.toolchains import VERSIONS
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.runtime.loader import load
from tfaot_pkg.spec.source.tree import source_tree
from tfaot_pkg.spec.types import ModelInfo, files_of
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.requests import Referenced
from tfaot_pkg.worker_program.messages.sources import SourceTensor

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
_MAKER = Path(__file__).with_name("onnx_files.py")
_ROWS = 5
_SIZE = 7  # of further axes without one
_CONSTANTS = {
    "settings_as_inputs": {"axes": Values(shape=(1,), values=(1,)), "scale_in": Values(shape=(), values=(2.5,))},
}
"""Inputs of files that a spec gives values: `model.constants`."""
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


@pytest.mark.sweep(night=["third-2.17.1", "fourth-2.21.0"])
@pytest.mark.parametrize("pool", VERSIONS, indirect=True)
@pytest.mark.parametrize("first", range(4), ids=["first", "second", "third", "fourth"])
def test_networks_give_onnx_runtimes_answers(first: int, pool: WorkerPool, files: Path, tmp_path: Path) -> None:
    paths = [path for path in sorted(files.glob("*.onnx")) if path.name != _GRAPH][first::4]
    found = {path.stem: _difference(path, pool, tmp_path) for path in paths}
    assert len(found) >= 3
    assert {name: difference for name, difference in found.items() if difference > 1e-5} == {}


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
    }
    for name, (message, hint) in wanted.items():
        (tmp_path / name).mkdir()
        for path in (files / "rejected").glob("*.bin"):
            shutil.copy(path, tmp_path / name)
        with pytest.raises(ModelError) as error:
            _difference(Path(shutil.copy(files / "rejected" / f"{name}.onnx", tmp_path / name)), pool, tmp_path)
        assert message in error.value.message, name
        assert hint in error.value.hint, name


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


def _difference(path: Path, pool: WorkerPool, folder: Path) -> float:
    """The largest difference of all outputs, relative to their largest number, or to 1."""
    model = ModelInfo(
        name="model", version="1", files=files_of("onnx", path.name), constants=_CONSTANTS.get(path.stem, {})
    )
    saved = SavedModel(model, source_tree(path.parent, Path(path.name), field="onnx"), pool)
    inputs = pool.given_folder("inputs") / "inputs.npz"
    described = saved.described()
    random = np.random.default_rng(2)
    drawn = {each.name: _drawn(random, each) for each in described.inputs if each.name not in model.constants}
    np.savez(inputs, **drawn)  # type: ignore[arg-type]  # NumPy's stub takes keywords for options
    theirs = _answers(saved.original, saved, pool, inputs)
    ours = _answers(Original.saved_model(model, saved.folder), saved, pool, inputs)
    assert ours.keys() == theirs.keys()
    assert all(ours[name].dtype == theirs[name].dtype and ours[name].shape == theirs[name].shape for name in theirs)
    return max(_relative(ours[name], theirs[name]) for name in theirs)


def _relative(ours: Array, theirs: Array) -> float:
    assert np.isfinite(theirs).all()
    return float(np.abs(ours.astype(float) - theirs.astype(float)).max() / max(1.0, np.abs(theirs).max()))


def _drawn(random: np.random.Generator, tensor: SourceTensor) -> Array:
    shape = [
        size if isinstance(size, int) else _SIZE if place else _ROWS for place, size in enumerate(tensor.shape or ())
    ]
    if tensor.dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if tensor.dtype.startswith("int"):
        return random.integers(0, 3, shape).astype(tensor.dtype)
    return random.normal(size=shape).astype(tensor.dtype)


def _answers(asked: Original, saved: SavedModel, pool: WorkerPool, inputs: Path) -> dict[str, Array]:
    out = pool.new_folder("answers") / "answers.npz"
    described = saved.described()
    request = replace(
        asked.reference(inputs=inputs, out=out, batch_sizes=(_ROWS,), signature=Signature(inputs=(), outputs=())),
        batched=tuple(each.name for each in described.inputs if each.name not in saved.original.constants),
        stacked=tuple(each.name for each in described.outputs),
    )
    asked.worker(pool).call(request, Referenced)
    with np.load(out) as file:
        return dict(file)
