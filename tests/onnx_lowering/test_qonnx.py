"""Quantized networks give the bits of QONNX's executor, in the interpreter and in packages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.hls4ml_lowering.packages import answers_of_package, tool
from tests.homes import home_with_frontend
from tests.kept import kept
from tests.onnx_lowering.graphs import WORKER, model_in, valid
from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.passes import pipeline as passes
from tfaot_pkg.frontends.frozen.model import worker_program_digest
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.keys import sha256_file, sha256_tree
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
_MAKER = Path(__file__).with_name("qonnx_networks.py")
_FILES = Path(__file__).with_name("artifacts")
_ROUNDED = ("brevitas", "learned_scales")
"""Biases, normalizations or scales of these are no powers of 2: QONNX's sums of floats are rounded."""
_BYTES = {
    "bipolar": 3,
    "brevitas": 2,
    "conv1d": 2,
    "conv2d": 6,
    "deep_sets": 3,
    "dense": 4,
    "learned_scales": 3,
    "operators": 0,
    "wide": 0,
}
"""How many layers sum bytes."""


def _networks(home: Path, rows: int) -> Path:
    """A folder for each network, with that many rows."""
    folders = Folders(cache=home / "cache", data=home / "data")
    python = FrontendEnvironments(folders=folders, progress=Silent()).ensure(FRONTENDS["qonnx"]).python
    parts = {
        "maker": sha256_file(_MAKER),
        "files": sha256_tree(_FILES, sorted(_FILES.iterdir())),
        "worker": worker_program_digest(),
        "rows": rows,
    }
    return kept(
        home,
        "qonnx",
        parts,
        lambda folder: run([python, "-I", _MAKER, WORKER, _FILES, folder, str(rows)], timeout=1500),
    )


def _is_rounded(ours: Array, theirs: Array) -> bool:
    """Whether answers differ by roundings alone, except in few rows, in which a sum lies nearly between two steps."""
    off = np.abs(ours - theirs) > 1e-5 * np.abs(theirs).max()
    return bool(np.count_nonzero(off.any(axis=1)) <= len(off) // 200)


def test_networks_have_the_executors_bits_before_and_after_all_passes(shared_home_folder: Path) -> None:
    networks, layers = _networks(shared_home_folder, 1000), {}
    for folder in sorted(path.parent for path in networks.glob("*/graph.json")):
        model, rows = model_in(folder), read_arrays(folder / "rows.npz")
        program = valid(model)
        raised = passes.run(program)
        layers[folder.name] = sum(each.opcode.startswith("quantized_") for each in raised.entry.everything())
        for which in (program, raised):
            with np.errstate(all="ignore"):
                found = interpret.run(which, len(rows["in/x"]), [rows["in/x"]], {})
            for output, ours in zip(model.outputs, map(np.asarray, found), strict=True):
                theirs = rows[f"out/{output.name}"]
                if folder.name in _ROUNDED:
                    assert _is_rounded(ours, theirs)
                else:
                    np.testing.assert_array_equal(ours, theirs, folder.name)
        walked, whole = read_arrays(folder / "walked.npz"), rows["in/x"].shape[0] >= 50
        assert whole, "rows for the reference implementation"
        for output in model.outputs if folder.name not in _ROUNDED else ():
            np.testing.assert_array_equal(walked[output.name], rows[f"out/{output.name}"][:50], folder.name)
    assert layers == _BYTES


def test_files_whose_nodes_have_a_domain_that_is_not_imported_are_read(
    shared_home_folder: Path, tmp_path: Path
) -> None:
    # As QONNX's `cleanup` writes them.
    networks = _networks(shared_home_folder, 1000)
    content = (networks / "dense" / "dense.onnx").read_bytes()
    imported = b"\x42\x1b\n\x17qonnx.custom_op.general\x10\x01"
    assert content.count(imported) == 1
    (tmp_path / "clean.onnx").write_bytes(content.replace(imported, b""))
    home = home_with_frontend("qonnx", shared_home_folder, tmp_path / "home")
    tool(home, tmp_path, "init", "clean.onnx", "-o", "spec.yaml")
    assert "qonnx: clean.onnx" in (tmp_path / "spec.yaml").read_text()
    assert "the model can be compiled" in tool(home, tmp_path, "check", "spec.yaml")


def test_a_file_that_a_spec_calls_onnx_is_an_error_that_names_the_right_key(
    shared_home_folder: Path, tmp_path: Path
) -> None:
    networks = _networks(shared_home_folder, 1000)
    (tmp_path / "net.onnx").write_bytes((networks / "dense" / "dense.onnx").read_bytes())
    (tmp_path / "spec.yaml").write_text(
        "model: {name: net, version: 1.0.0, onnx: net.onnx}\ncompilation: {batch_sizes: [1]}\n"
    )
    home = home_with_frontend("onnx", shared_home_folder, tmp_path / "home")
    told = tool(home, tmp_path, "check", "spec.yaml", code=12)
    assert "Quant (node 'nv0') is an operator of QONNX" in told
    assert "model: {qonnx: FILE.onnx}" in told


@pytest.mark.sweep(night=["dense"])
@pytest.mark.parametrize("name", _BYTES)
def test_packages_have_the_executors_bits_on_100_000_rows(name: str, shared_home_folder: Path, tmp_path: Path) -> None:
    networks = _networks(shared_home_folder, 100_000)
    home = home_with_frontend("qonnx", shared_home_folder, tmp_path / "home")
    (tmp_path / f"{name}.onnx").write_bytes((networks / name / f"{name}.onnx").read_bytes())
    rows = read_arrays(networks / name / "rows.npz")
    found = answers_of_package(home, tmp_path, f"qonnx: {name}.onnx", oracle="QONNX 1.0.0", rows=rows, exact=False)
    for output, ours in found.items():
        if name in _ROUNDED:
            assert _is_rounded(ours, rows[f"out/{output}"])
        else:
            np.testing.assert_array_equal(ours, rows[f"out/{output}"])
