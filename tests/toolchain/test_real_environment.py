"""The default toolchain, made from the network (once; it is kept between runs)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tfaot_pkg import worker_program
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure, installed
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.worker_program.messages.requests import Call
from tfaot_pkg.worker_program.messages.wire import encoded

_WORKER = Path(worker_program.__file__).parent


@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(900)
def test_the_default_toolchain_is_made_and_has_what_builds_need(shared_home: Path) -> None:
    folders = Folders.of_user()
    made = ensure(DEFAULT_VERSION, folders=folders, progress=Silent())
    assert made.include.is_dir() and made.notices
    assert made in installed(folders)


@pytest.mark.slow
@pytest.mark.needs_tensorflow
def test_a_worker_imports_tensorflow_without_keras(toolchain_python: Path, tmp_path: Path) -> None:
    with (tmp_path / "answers").open("wb") as answers:
        done = subprocess.run(
            [toolchain_python, "-I", "-B", "-X", "importtime", _WORKER, str(answers.fileno())],
            input=encoded(Call(op="flags", args={})) + "\n", env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
            pass_fds=[answers.fileno()], capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
    assert (tmp_path / "answers").read_text().splitlines() == ['{"ready": true}', '{"ok": {}}']
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "tensorflow" in imported and not {"keras", "tf_keras"} & imported
