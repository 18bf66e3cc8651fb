"""A package of the newest toolchain is reproducible too: another TensorFlow, another XLA runtime."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.samples import tfaot

NEWEST = "2.21.0"


@pytest.mark.release
@pytest.mark.slow
@pytest.mark.needs_tensorflow
@pytest.mark.timeout(600)
def test_a_package_of_the_newest_toolchain_is_built_again_to_the_same_bytes(
    models: Mapping[str, Path], shared_home_folder: Path, tmp_path: Path
) -> None:
    registry, source = tmp_path / "registry", tmp_path / "source"
    shutil.copytree(models["dense"], source / "saved_model")
    (source / "spec.yaml").write_text(
        "model: {name: dense, version: 1.0.0, saved_model: saved_model}\n"
        f"compilation: {{batch_sizes: [1, 2], targets: [x86-64-v3], tensorflow: {NEWEST}}}\n"
    )
    tfaot(shared_home_folder, "publish", source / "spec.yaml", "--no-conan", "--registry", registry)
    shown = json.loads(tfaot(shared_home_folder, "show", "dense", "--registry", registry, "--json"))
    assert shown["toolchain"] == f"tensorflow {NEWEST}"
    words = ("rebuild-check", "dense@1.0.0", "--registry", registry, "--source", source, "--json")
    found = json.loads(tfaot(shared_home_folder, *words))
    assert (found["verdict"], found["differing"], found["reasons"]) == ("reproducible", [], [])
    assert found["files"] > 10
