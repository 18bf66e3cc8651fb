"""Files of PyTorch modules become programs that give the answers that PyTorch left in the files."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.kept import kept
from tests.onnx_lowering.graphs import answers_of, arrays_of, model_in, symbols_of, valid
from tests.toolchains import VERSIONS
from tfaot_pkg import export
from tfaot_pkg.frontends.frozen.source_model import Original, read_source
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.spec.types import ModelInfo, files_of

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]
HELPER = Path(export.__file__).parent
_FILES = Path(__file__).with_name("artifacts") / "torch"


@pytest.mark.parametrize("pool", VERSIONS[:1], indirect=True)
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
    for ends in ("1.2.3:4", "0:inf", "0:rows"):
        words = ["--input", "input=batch,4", "--range", f"input={ends}"]
        with pytest.raises(CommandFailed) as failed:
            run([python, HELPER, "affine:make", *words], cwd=folder, timeout=300)
        assert "is neither a number nor a size such as n-1" in failed.value.output.splitlines()[-1], failed.value


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
    made, parts = (get("torch") for get in (pool.new_folder, pool.given_folder))
    source = read_source("torch", pool.give(path), pool, out=made)
    pool.take(made, parts)
    original = Original.of(
        ModelInfo(name="model", version="1", files=files_of("torch", path.name)), FRONTENDS["torch"], source, parts
    )
    assert original.answered_by.startswith("PyTorch 2.")
    assert original.answers is not None
    inputs, theirs = arrays_of(original.answers)
    model = model_in(parts)
    rows = len(inputs[model.inputs[0].key])
    # Not from 1 on: the three best of a set need three.
    open_sizes = [
        size
        for each in model.inputs
        for axis, size in zip(each.axes or (), inputs[each.key].shape, strict=True)
        if isinstance(axis, str)
    ]
    ours = answers_of(valid(model, symbols_of(model, min(open_sizes, default=1), 128)), model, inputs, rows)
    assert {key: (each.dtype, each.shape) for key, each in ours.items()} == {
        key: (theirs[key].dtype, theirs[key].shape) for key in ours
    }
    return max(_relative(each, theirs[key]) for key, each in ours.items())


def _relative(ours: Array, theirs: Array) -> float:
    assert np.isfinite(theirs).all()
    return float(np.abs(ours.astype(float) - theirs.astype(float)).max() / max(1.0, np.abs(theirs).max()))
