"""Networks of hls4ml give the bits of its emulator, in the interpreter and in packages."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.commands import run_command
from tests.homes import home_with_frontend
from tests.kept import kept
from tests.onnx_lowering.graphs import WORKER
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes import pipeline as passes
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.frontends.frozen.model import worker_program_digest
from tfaot_pkg.frontends.hls4ml_lowering.lowering import lowered
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.arrays import read_arrays
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.runtime.loader import load

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++"),
]
_NETWORKS = (
    "attention", "conv1d", "conv2d", "deep_sets", "dense", "gru", "integers", "layer_norm", "lstm", "merges", "qkeras",
    "resource", "roundings", "saturating",
)  # fmt: skip
_MAKER = Path(__file__).with_name("hls4ml_networks.py")


def _network(home: Path, name: str, rows: int) -> Path:
    """The folder of a network, with that many rows."""
    folders = Folders(cache=home / "cache", data=home / "data")
    python = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["hls4ml"]).python
    parts = {"maker": sha256_file(_MAKER), "worker": worker_program_digest(), "rows": rows, "name": name}
    return kept(
        home,
        f"hls4ml-{name}",
        parts,
        lambda folder: run([python, "-I", _MAKER, WORKER, folder, str(rows), name], timeout=1500),
    ) / name  # fmt: skip


@pytest.mark.sweep("qkeras", night=["gru", "merges", "saturating"])
@pytest.mark.parametrize("name", _NETWORKS)
def test_networks_have_the_emulators_bits_before_and_after_all_passes(name: str, shared_home_folder: Path) -> None:
    folder = _network(shared_home_folder, name, 1000)
    found, rows = lowered(folder), read_arrays(folder / "rows.npz")
    program = verified(found.program, "lowering")
    for which in (program, passes.run(program)):
        results = interpret.run(which, len(rows["in/x"]), [rows["in/x"]], {})
        for output, ours in zip(found.outputs, map(np.asarray, results), strict=True):
            theirs = rows[f"out/{output}"]
            np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32), name)


def _tool(home: Path, folder: Path, *words: str | Path, code: int = 0) -> str:
    done = run_command(
        words, cwd=folder, env={**os.environ, "TFAOT_HOME": str(home), "https_proxy": "http://127.0.0.1:9"}
    )
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


@pytest.mark.sweep(night=["dense"])
@pytest.mark.parametrize("name", _NETWORKS)
def test_packages_have_the_emulators_bits_on_100_000_rows(name: str, shared_home_folder: Path, tmp_path: Path) -> None:
    folder = _network(shared_home_folder, name, 100_000)
    home = home_with_frontend("hls4ml", shared_home_folder, tmp_path / "home")
    (tmp_path / "net.fml").write_bytes((folder / f"{name}.fml").read_bytes())
    _tool(home, tmp_path, "init", "net.fml", "-o", "spec.yaml")
    spec = (tmp_path / "spec.yaml").read_text()
    assert "hls4ml: net.fml" in spec
    (tmp_path / "spec.yaml").write_text(spec.replace("rtol: 1.0e-04", "rtol: 0").replace("atol: 1.0e-05", "atol: 0"))
    fewer = ["--target", "x86-64-v3", "--batch-size", "1", "--batch-size", "4"]
    assert "verified against hls4ml 1.3.0" in _tool(home, tmp_path, "build", "spec.yaml", "-o", "prefix", *fewer)
    rows, model = read_arrays(folder / "rows.npz"), load(tmp_path / "prefix")
    parts = [model(x=rows["in/x"][start : start + 1000]) for start in range(0, len(rows["in/x"]), 1000)]
    for key, theirs in rows.items():
        if key.startswith("out/"):
            ours = np.concatenate([each[key.removeprefix("out/")] for each in parts])
            np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))
