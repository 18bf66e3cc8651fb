"""Peers that run ONNX get the author's file, of which only sizes and names at the border are others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.samples import REPOSITORY
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.measure.bench.peers import PROGRAM
from tfaot_pkg.measure.bench_program.messages import Fixing
from tfaot_pkg.worker_program.messages.wire import encoded

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]
_FILES = REPOSITORY / "tests" / "frozen" / "artifacts" / "torch"
_COMPARE = """
import json, sys
import numpy as np, onnxruntime
theirs, ours = (onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]) for file in sys.argv[1:3])
random = np.random.default_rng(1)
values = [random.normal(size=each.shape).astype(np.float32) if each.type == "tensor(float)" else
          random.integers(0, 2, each.shape).astype(bool) for each in ours.get_inputs()]
keys = json.loads(sys.argv[3])
expected = theirs.run(keys["outputs"], dict(zip(keys["inputs"], values)))
found = ours.run(None, {f"input_{place}:0": value for place, value in enumerate(values)})
print(json.dumps([[each.name for each in ours.get_outputs()], [each.shape for each in ours.get_inputs()],
                  float(max(np.abs(a - b).max() for a, b in zip(expected, found, strict=True)))]))
"""


def _compared(python: Path, folder: Path, name: str, inputs: dict[str, tuple[int | None, ...]], outputs: list[str]):  # type: ignore[no-untyped-def]
    made = folder / f"{name}.onnx"
    fixing = Fixing(model=str(_FILES / made.name), inputs=inputs, outputs=tuple(outputs), files={"4": str(made)})
    run([python, "-I", PROGRAM / "fix_onnx.py"], stdin=encoded(fixing).encode(), timeout=120)
    keys = json.dumps({"inputs": list(inputs), "outputs": outputs})
    return json.loads(run([python, "-I", "-c", _COMPARE, _FILES / made.name, made, keys], timeout=120).stdout)


def test_the_file_is_the_authors_but_for_sizes_and_names(
    shared_home_folder: Path, toolchain_python: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    python = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["onnx"], toolchain_python).python
    # Outputs in another order than in the file, and an axis that is no batch.
    gru = _compared(python, tmp_path, "gru", {"x": (None, 7, 4)}, ["last", "steps"])
    assert gru == [["output_0:0", "output_1:0"], [[4, 7, 4]], pytest.approx(0, abs=1e-6)]
    inputs: dict[str, tuple[int | None, ...]] = {"y": (None, 32), "x": (None, 32, 8)}
    attention = _compared(python, tmp_path, "attention_with_mask", inputs, ["output"])
    assert attention == [["output_0:0"], [[4, 32], [4, 32, 8]], pytest.approx(0, abs=1e-6)]
