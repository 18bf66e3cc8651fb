"""package.tools: the programs of a published model, from the build to a prefix."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.samples import tfaot
from tfaot_pkg.cache import BuildCache
from tfaot_pkg.folders import Folders
from tfaot_pkg.keys import sha256_file
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.native.tools import build_tools
from tfaot_pkg.pipeline import Pipeline
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.progress import Silent
from tfaot_pkg.spec import load_spec

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow, pytest.mark.timeout(600)]

SPEC = """
model: {name: two, version: 1.0.0, license: MIT}
compilation: {batch_sizes: [1, 3]}
validation: {samples: 3}
package: {tools: true}
"""


@pytest.fixture(scope="module")
def spec(models: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("two")
    shutil.copytree(models["two_inputs"], folder / "saved_model")
    (folder / "spec.yaml").write_text(SPEC)
    return folder / "spec.yaml"


@pytest.fixture(scope="module")
def registry(spec: Path, shared_home_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published") / "registry"
    tfaot(shared_home_folder, "publish", spec, "--registry", folder, "--no-conan")
    return folder


@pytest.fixture
def prefix(registry: Path, shared_home_folder: Path, tmp_path: Path) -> Path:
    tfaot(shared_home_folder, "install", "two", "--registry", registry, "--prefix", tmp_path / "installed")
    return (tmp_path / "installed").rename(tmp_path / "moved")


def test_installed_programs_run_wherever_the_prefix_is(prefix: Path, tmp_path: Path) -> None:
    assert {path.name: os.access(path, os.X_OK) for path in (prefix / "bin").iterdir()} == {
        "two_benchmark": True,
        "two_test": True,
    }
    nothing = {"PATH": "/nowhere"}
    said = run([prefix / "bin" / "two_test"], env=nothing, cwd=tmp_path).stdout
    assert re.search(r"two 1\.0\.0 \(tensorflow \S+\): all \d+ comparisons with TensorFlow agree", said)
    run([prefix / "bin" / "two_benchmark", "--seconds", "0"], env=nothing, cwd=tmp_path)
    for program in (prefix / "bin").iterdir():
        needed = set(re.findall(r"NEEDED.*\[(.+)\]", run(["readelf", "-dW", program]).stdout))
        assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
        assert b"GLIBCXX" not in program.read_bytes()


def test_programs_are_verified_and_uninstalled_like_any_file(prefix: Path, shared_home_folder: Path) -> None:
    tfaot(shared_home_folder, "verify-install", prefix)
    with (prefix / "bin" / "two_test").open("ab") as file:
        file.write(b"x")
    with pytest.raises(CommandFailed, match="bin/two_test"):
        tfaot(shared_home_folder, "verify-install", prefix)
    (prefix / "bin" / "two_test").unlink()
    tfaot(shared_home_folder, "uninstall", "two", "--prefix", prefix)
    assert not (prefix / "bin").exists()


def test_programs_are_told_in_the_package_s_documents(prefix: Path) -> None:
    share = prefix / "share" / "tfaot-model-two"
    for document in ("info.json", "sbom.cdx.json", "provenance.json"):
        assert "bin/two_benchmark" in (share / document).read_text(), document
    assert sha256_file(prefix / "bin" / "two_test") in (share / "provenance.json").read_text()


def test_the_programs_are_the_same_bytes_when_built_again_elsewhere(
    prefix: Path, spec: Path, shared_home_folder: Path, tmp_path: Path
) -> None:
    folders = Folders(cache=shared_home_folder / "cache", data=shared_home_folder / "data")
    pipeline = Pipeline(folders=folders, progress=Silent())
    plan = pipeline.plan(load_spec(spec))
    found = next(prefix.glob("lib/libtfaot-model-two.so.*"))
    key = plan.keys.native
    library = NativeLibrary(
        folder=pipeline.cache.folder("native", key), key=key, name="tfaot-model-two", uid=found.suffix[1:]
    )
    cache = BuildCache(root=tmp_path / "another cache")
    made = build_tools(plan.spec, library, key=plan.keys.tools, compiler=plan.compiler, cache=cache, progress=Silent())
    assert {path.name: sha256_file(path) for path in made} == {
        path.name: sha256_file(path) for path in (prefix / "bin").iterdir()
    }
