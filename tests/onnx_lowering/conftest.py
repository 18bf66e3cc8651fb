"""Networks in ONNX files, as the front-end reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kept import kept
from tests.onnx_lowering.graphs import WORKER, frontend
from tfaot_pkg.frontends.frozen.model import worker_program_digest
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.process import run

_MAKER = Path(__file__).with_name("onnx_networks.py")
_FILES = Path(__file__).resolve().parents[1] / "frozen" / "onnx_files.py"


@pytest.fixture(scope="session")
def networks(shared_home_folder: Path) -> Path:
    """A folder for each network (onnx_networks.py)."""
    python = frontend(shared_home_folder)
    parts = {"maker": sha256_file(_MAKER), "files": sha256_file(_FILES), "worker": worker_program_digest()}

    def make(folder: Path) -> None:
        files = folder / "files"
        files.mkdir()
        run([python, "-I", _FILES, files], timeout=300)
        run([python, "-I", _MAKER, WORKER, files, folder], timeout=300)

    return kept(shared_home_folder, "onnx_lowering", parts, make)
