"""Decision trees of conifer give the bits of its C++, in the interpreter and in packages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.hls4ml_lowering.packages import answers_of_package, tool
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
    pytest.mark.skipif(shutil.which("g++") is None, reason="conifer's C++ needs g++"),
]
_TREES = (
    "classes", "cpp", "integers", "oblique", "one_is_minus_one", "plain", "saturating", "saturating_in_order", "wide",
)  # fmt: skip
_MAKER = Path(__file__).with_name("conifer_trees.py")


def _trees(home: Path, name: str, rows: int) -> Path:
    """The folder of an ensemble, with that many rows."""
    folders = Folders(cache=home / "cache", data=home / "data")
    python = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["conifer"]).python
    parts = {"maker": sha256_file(_MAKER), "worker": worker_program_digest(), "rows": rows, "name": name}
    return kept(
        home,
        f"conifer-{name}",
        parts,
        lambda folder: run([python, "-I", _MAKER, WORKER, folder, str(rows), name], timeout=1500),
    ) / name  # fmt: skip


@pytest.mark.sweep("saturating_in_order")
@pytest.mark.parametrize("name", _TREES)
def test_trees_have_the_bits_of_conifer_before_and_after_all_passes(name: str, shared_home_folder: Path) -> None:
    folder = _trees(shared_home_folder, name, 2000)
    found, rows = lowered(folder), read_arrays(folder / "rows.npz")
    program = verified(found.program, "lowering")
    for which in (program, passes.run(program)):
        (ours,) = interpret.run(which, len(rows["in/x"]), [rows["in/x"]], {})
        np.testing.assert_array_equal(np.asarray(ours).view(np.uint32), rows["out/score"].view(np.uint32), name)


@pytest.mark.sweep(night=["plain"])
@pytest.mark.parametrize("name", _TREES)
def test_packages_have_the_bits_of_conifer_on_100_000_rows(name: str, shared_home_folder: Path, tmp_path: Path) -> None:
    folder = _trees(shared_home_folder, name, 100_000)
    home = home_with_frontend("conifer", shared_home_folder, tmp_path / "home")
    (tmp_path / "trees.json").write_bytes((folder / f"{name}.json").read_bytes())
    rows = read_arrays(folder / "rows.npz")
    ours = answers_of_package(home, tmp_path, "conifer: trees.json", oracle="conifer 1.11", rows=rows)
    np.testing.assert_array_equal(ours["score"].view(np.uint32), rows["out/score"].view(np.uint32))


def _changed(document: dict[str, Any], *path: str | int, value: object) -> dict[str, Any]:
    made = json.loads(json.dumps(document))
    part = made
    for each in path[:-1]:
        part = part[each]
    part[path[-1]] = value
    return dict(made)


def test_damaged_files_and_other_types_are_errors(shared_home_folder: Path, tmp_path: Path) -> None:
    folder = _trees(shared_home_folder, "plain", 100_000)
    document = json.loads((folder / "plain.json").read_text())
    home = home_with_frontend("conifer", shared_home_folder, tmp_path / "home")
    tree = ("trees", 0, 0)
    for changed, told in (
        (_changed(document, "config", "backend", value="vhdl"), "conifer's backend 'vhdl'"),
        (_changed(document, "config", "score_precision", value="float"), "numbers of the type 'float'"),
        (_changed(document, "config", "input_precision", value='ap_int<8>;"'), "numbers of the type"),
        (_changed(document, *tree, "children_left", 0, value=10**9), "a child that does not exist"),
        (_changed(document, *tree, "threshold", 0, value="1); system("), "a number that is none"),
        (_changed(document, *tree, "children_left", 0, value=0), "a node is reached in two ways"),
        (_changed(document, "n_features", value=3), "nodes without a weight for each feature"),
    ):
        (tmp_path / "trees.json").write_text(json.dumps(changed))
        (tmp_path / "spec.yaml").write_text(
            "model: {name: net, version: 1.0.0, conifer: trees.json}\ncompilation: {batch_sizes: [1]}\n"
        )
        assert told in tool(home, tmp_path, "check", "spec.yaml", code=12)
