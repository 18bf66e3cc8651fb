from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.package.conftest import make_spec, make_tree  # noqa: F401 (a fixture)
from tests.wording import reported
from tfaot_pkg import _version
from tfaot_pkg.cli.build import depfile_text, files_read, no_leftovers
from tfaot_pkg.errors import ModelError
from tfaot_pkg.package.prefix.install import install_built
from tfaot_pkg.package.tree import PackageTree
from tfaot_pkg.spec.types import ArchiveSource, FolderSource, ModelSpec, Tuning


@pytest.fixture
def spec(tmp_path: Path) -> ModelSpec:
    folder = tmp_path / "a $odd #1 place"
    (folder / "saved_model" / "variables").mkdir(parents=True)
    for name in ("spec.yaml", "spec.tune.json", "other", "saved_model/saved_model.pb", "saved_model/variables/v.index"):
        (folder / name).write_bytes(b"x")
    return replace(make_spec(), path=folder / "spec.yaml", source=FolderSource(path=folder))


def test_a_build_reads_its_spec_the_model_and_what_is_beside_them(spec: ModelSpec) -> None:
    inputs = spec.folder / "inputs.npz"
    spec = replace(spec, tuning=Tuning(model="affine"), validation=replace(spec.validation, inputs=inputs))
    model = spec.folder / "saved_model"
    assert set(files_read(spec)) == {
        spec.path,
        Path(_version.__file__),
        spec.folder / "spec.tune.json",
        inputs,
        model,
        model / "saved_model.pb",
        model / "variables",
        model / "variables" / "v.index",
    }


def test_a_pinned_archive_is_no_file_that_changes(spec: ModelSpec) -> None:
    spec = replace(spec, source=ArchiveSource(url="https://example.org/a.tar", sha256="0" * 64))
    assert files_read(spec) == [spec.path, Path(_version.__file__)]


def test_make_understands_a_depfile_with_odd_names(spec: ModelSpec, tmp_path: Path) -> None:
    """GNU make itself says what it would do after a change."""
    make = shutil.which("make")
    assert make is not None
    (tmp_path / "out.d").write_text(depfile_text(Path("out"), spec) + "\ttouch out\n")
    argv = [make, "-f", "out.d", "out"]
    subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True)
    assert "is up to date" in subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    later = (tmp_path / "out").stat().st_mtime + 10
    os.utime(spec.folder / "saved_model" / "saved_model.pb", (later, later))
    assert "touch out" in subprocess.run(argv, cwd=tmp_path, check=True, capture_output=True, text=True).stdout


def test_after_a_failure_the_package_of_an_earlier_build_is_gone(tree: PackageTree, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    install_built(tree, "0" * 64, prefix)
    (prefix / "mine").write_text("not of the package")
    with no_leftovers(prefix, "affine"):
        pass
    assert (prefix / "lib/libtfaot-model-affine.a").exists()
    with reported(ModelError), no_leftovers(prefix, "affine"):
        raise ModelError("the first reason")
    assert [path.name for path in prefix.iterdir() if not path.name.startswith(".")] == ["mine"]
    with reported(ModelError), no_leftovers(prefix, "affine"):
        raise ModelError("the second reason")


@pytest.fixture
def tree(make_tree, tmp_path: Path) -> PackageTree:  # type: ignore[no-untyped-def]  # noqa: F811
    built: PackageTree = make_tree(tmp_path / "built")
    return built
