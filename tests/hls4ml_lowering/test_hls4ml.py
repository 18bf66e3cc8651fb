"""Networks of hls4ml give the bits of its emulator, in the interpreter and in packages."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.hls4ml_lowering.packages import answers_of_package
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

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(shutil.which("g++") is None, reason="the emulator needs g++"),
]
_NETWORKS = (
    "attention", "conv1d", "conv2d", "deep_sets", "dense", "gru", "hgq_dense", "integers", "layer_norm", "lstm", "merges",
    "qkeras", "resource", "roundings", "saturating",
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


@pytest.mark.sweep(night=["dense"])
@pytest.mark.parametrize("name", _NETWORKS)
def test_packages_have_the_emulators_bits_on_100_000_rows(name: str, shared_home_folder: Path, tmp_path: Path) -> None:
    folder = _network(shared_home_folder, name, 100_000)
    home = home_with_frontend("hls4ml", shared_home_folder, tmp_path / "home")
    (tmp_path / "net.fml").write_bytes((folder / f"{name}.fml").read_bytes())
    rows = read_arrays(folder / "rows.npz")
    for output, ours in answers_of_package(home, tmp_path, "hls4ml: net.fml", oracle="hls4ml 1.3.0", rows=rows).items():
        np.testing.assert_array_equal(ours.view(np.uint32), rows[f"out/{output}"].view(np.uint32))
