"""Files of PyTorch modules become SavedModels that give the answers that PyTorch left in the files."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.kept import kept
from tests.toolchains import VERSIONS
from tfaot_pkg import export
from tfaot_pkg.frontends.frozen.source_model import Original, read_source
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.spec.types import ModelInfo, files_of
from tfaot_pkg.worker_program.messages.requests import Nothing, Referenced
from tfaot_pkg.worker_program.messages.sources import BuildOnnx

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
HELPER = Path(export.__file__)
_FILES = Path(__file__).with_name("artifacts") / "torch"


@pytest.mark.parametrize(
    "pool", [pytest.param(each, marks=pytest.mark.sweep("2.17.1")) for each in VERSIONS], indirect=True
)
def test_twenty_modules_give_pytorchs_answers(pool: WorkerPool) -> None:
    found = {path.stem: difference_from_pytorch(path, pool) for path in sorted(_FILES.glob("*.onnx"))}
    assert len(found) >= 20
    assert {name: difference for name, difference in found.items() if difference > 1e-5} == {}


@pytest.mark.release
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pool", VERSIONS[:1], indirect=True)
def test_modules_that_pytorch_exports_now_give_its_answers(
    pool: WorkerPool, shared_home_folder: Path, tmp_path: Path
) -> None:
    """With PyTorch from the index of this machine, which may be gigabytes, or the Python in TFAOT_TEST_TORCH."""
    python = python_with_pytorch(shared_home_folder)
    run([python, "-I", _FILES.parents[1] / "torch_files.py", HELPER, tmp_path], timeout=600)
    made = sorted(tmp_path.glob("*.onnx"))
    assert [path.name for path in made] == [path.name for path in sorted(_FILES.glob("*.onnx"))]
    found = {path.stem: difference_from_pytorch(path, pool) for path in made}
    assert {name: difference for name, difference in found.items() if difference > 1e-5} == {}
    require_error_for_wrong_inputs(python, tmp_path)


def require_error_for_wrong_inputs(python: Path, folder: Path) -> None:
    """The exporter says in one line that a model does not take its inputs."""
    (folder / "affine.py").write_text("import torch\ndef make():\n    return torch.nn.Linear(4, 3)\n")
    with pytest.raises(CommandFailed) as failed:
        run([python, HELPER, "affine:make", "--input", "input=batch,5"], cwd=folder, timeout=300)
    assert failed.value.output.startswith("error: the model does not take these inputs: mat1 and mat2"), failed.value


def python_with_pytorch(home: Path) -> Path:
    if python := os.environ.get("TFAOT_TEST_TORCH"):
        return Path(python)
    packages = ("torch==2.13.0", "onnx", "onnxscript")

    def make(folder: Path) -> None:
        run([sys.executable, "-m", "venv", folder], timeout=300)
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", *packages], timeout=3000)

    return kept(home, "pytorch", {"packages": " ".join(packages)}, make) / "bin" / "python"


def difference_from_pytorch(path: Path, pool: WorkerPool) -> float:
    """The largest difference of all outputs, relative to their largest number, or to 1."""
    made, parts, folder = (get("torch") for get in (pool.new_folder, pool.given_folder, pool.new_folder))
    source = read_source("torch", pool.give(path), pool, out=made)
    pool.take(made, parts)
    # In one worker for all files: `SavedModel` takes a new one for each.
    pool.get().call(BuildOnnx(graph=str(parts), out=str(folder)), Nothing)
    model = ModelInfo(name="model", version="1", files=files_of("torch", path.name))
    original = Original.of(model, FRONTENDS["torch"], source, parts)
    assert original.answered_by.startswith("PyTorch 2.")
    assert original.answers is not None
    with np.load(original.answers) as file:
        arrays = dict(file)
    inputs = {name: arrays[f"in/{key}"] for name, key in original.feeds.items()}
    theirs = {name: arrays[f"out/{key}"] for name, key in original.fetches.items()}
    rows = len(next(iter(inputs.values())))
    ours = _answers(Original.saved_model(model, folder), pool, inputs, tuple(theirs), rows)
    assert {name: (each.dtype, each.shape) for name, each in ours.items()} == {
        f"{rows}/{name}": (each.dtype, each.shape) for name, each in theirs.items()
    }
    return max(_relative(ours[f"{rows}/{name}"], each) for name, each in theirs.items())


def _answers(
    asked: Original, pool: WorkerPool, inputs: dict[str, Array], outputs: tuple[str, ...], rows: int
) -> dict[str, Array]:
    out, given = pool.new_folder("answers") / "answers.npz", pool.given_folder("inputs") / "inputs.npz"
    np.savez(given, **inputs)  # type: ignore[arg-type]  # NumPy's stub takes keywords for options
    plain = asked.reference(inputs=given, out=out, batch_sizes=(rows,), signature=Signature(inputs=(), outputs=()))
    request = replace(plain, batched=tuple(inputs), stacked=outputs)
    asked.worker(pool).call(request, Referenced)
    with np.load(out) as file:
        return dict(file)


def _relative(ours: Array, theirs: Array) -> float:
    assert np.isfinite(theirs).all()
    return float(np.abs(ours.astype(float) - theirs.astype(float)).max() / max(1.0, np.abs(theirs).max()))
