"""A night by the real commands: the worker sees the store, and no file of the coordinator's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.bad_input.conftest import write_spec
from tests.nightly.farm.conftest import Place
from tests.nightly.nights import REPOSITORY
from tfaot_pkg.registry.folder import FolderRegistry

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(1200)]


@pytest.mark.sweep(night=["s3"])
def test_a_worker_builds_from_the_bundle_alone(
    shared_home: Path, models: Mapping[str, Path], tmp_path: Path, place: Place, require_program: Callable[[str], str]
) -> None:
    own = tmp_path / "coordinator"
    shutil.copytree(models["dense"], own / "exported" / "dense")
    rows = own / "rows" / "some.npz"
    rows.parent.mkdir()
    np.savez(rows, x=np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))
    (own / "specs/dense").mkdir(parents=True)
    (own / "specs/dense/card.md").write_text("A small model\n")
    write_spec(
        own / "specs/dense/spec.yaml", own / "exported/dense", model={"name": "dense", "license": "MIT", "card": "card.md"},
        validation={"inputs": str(rows)},
    )  # fmt: skip
    definition = {
        "registry": "registry", "models": [{"spec": "specs/*/spec.yaml"}], "toolchains": ["2.17.1"], "targets": ["x86-64-v3"],
    }  # fmt: skip
    (own / "registry.yaml").write_text(yaml.safe_dump(definition))

    home = tmp_path / "worker"
    for folder in ("cache", "data", "tmp"):
        (home / folder).mkdir(parents=True)
    # What the worker would make: that takes minutes.
    (home / "cache/toolchains").symlink_to(shared_home / "cache/toolchains")
    base = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), **place.variables}
    tool = [sys.executable, "-m", "tfaot_pkg", "nightly"]
    hidden = [require_program("bwrap"), "--dev-bind", "/", "/", "--cap-add", "ALL", "--tmpfs", str(own)]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            [*hidden, *tool, "worker", "--results", place.url, "--idle", "10 min", "--name", "far"],
            cwd=home, env={**base, "HOME": str(home), "TFAOT_HOME": str(home), "TMPDIR": str(home / "tmp")},
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        done = subprocess.run(
            [*tool, "run", "registry.yaml", "--results", place.url, "--json"],
            cwd=own, env={**base, "HOME": str(own), "TFAOT_HOME": str(shared_home)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        worker.terminate()
        worker.wait()
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{(tmp_path / 'worker.log').read_text()}"
    (outcome,) = json.loads(done.stdout)["outcomes"]
    assert (outcome["kind"], outcome["attempts"]) == ("published", 1)
    assert outcome["figures"]["library_size"] > 0
    registry = FolderRegistry.open(own / "registry")
    assert [one.version for name in registry.names() for one in registry.entries(name)] == [outcome["release"]]
    log_text = next((own / "nightly-state/nights").glob("*/logs/*.log")).read_text()
    assert str(home / "tmp") in log_text or "build of" in log_text
    # The coordinator built nothing.
    assert not (own / "nightly-state/scratch").exists() or not list((own / "nightly-state/scratch").iterdir())
    assert place.store.blobs() == []
