"""The commit of a spec: of real repositories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.provenance.materials import make_spec
from tfaot_pkg.ground.process import run
from tfaot_pkg.spec.source.checkout import Checkout, checkout_of
from tfaot_pkg.spec.types import FolderSource, ModelSpec

_WHO = ("-c", "user.name=A", "-c", "user.email=a@example.org")


def git(folder: Path, *arguments: str) -> str:
    return run(["git", *_WHO, "-C", folder, *arguments]).stdout


@pytest.fixture(params=["sha1", "sha256"])
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> ModelSpec:
    """A committed spec with a model of two files, in a folder of a repository."""
    folder = tmp_path / "repository" / "models" / "ünusual name"
    (folder / "saved_model" / "variables").mkdir(parents=True)
    (folder / "saved_model" / "saved_model.pb").write_bytes(b"\0graph\r\n")
    (folder / "saved_model" / "variables" / "data").write_bytes(b"")
    (folder / "spec.yaml").write_text("model: ...\n")
    root = tmp_path / "repository"
    run(["git", "init", "-q", f"--object-format={request.param}", root])
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "models: add one")
    return replace(make_spec(), path=folder / "spec.yaml", source=FolderSource(path=folder))


def told(spec: ModelSpec) -> Checkout:
    found = checkout_of(spec)
    assert found is not None
    return found


def test_a_committed_spec_is_told_by_commit_and_path(spec: ModelSpec) -> None:
    root = spec.folder.parent.parent
    assert told(spec) == Checkout(
        commit=git(root, "rev-parse", "HEAD").strip(), path="models/ünusual name/spec.yaml", modified=False
    )


@pytest.mark.parametrize("changed", ["spec.yaml", "saved_model/saved_model.pb", "saved_model/new", "spec.tune.json"])
def test_a_changed_or_new_file_is_said(spec: ModelSpec, changed: str) -> None:
    (spec.folder / changed).write_text("changed")
    assert told(spec).modified


def test_a_lost_file_is_said(spec: ModelSpec) -> None:
    (spec.folder / "saved_model" / "variables" / "data").unlink()
    assert told(spec).modified


def test_a_file_that_the_model_is_not_made_from_may_change(spec: ModelSpec) -> None:
    (spec.folder / "notes.txt").write_text("changed")
    (spec.folder.parent / "another.yaml").write_text("changed")
    assert not told(spec).modified


def test_a_spec_that_was_never_committed_is_modified(spec: ModelSpec) -> None:
    other = spec.folder / "other.yaml"
    other.write_text("model: ...\n")
    assert told(replace(spec, path=other)).modified


def test_without_a_repository_or_a_commit_there_is_none(tmp_path: Path) -> None:
    spec = replace(make_spec(), path=tmp_path / "spec.yaml")
    assert checkout_of(spec) is None
    run(["git", "init", "-q", tmp_path])
    assert checkout_of(spec) is None


def test_programs_that_the_repository_names_do_not_run(spec: ModelSpec, tmp_path: Path) -> None:
    """A folder that was unpacked from an archive may be a repository with a configuration by whoever made it."""
    root, mark = spec.folder.parent.parent, tmp_path / "ran"
    command = f"touch '{mark}'; cat"
    for name in ("filter.x.clean", "filter.x.smudge", "core.fsmonitor", "diff.external", "core.sshCommand"):
        git(root, "config", name, command)
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    (spec.folder / "spec.yaml").write_text("model: ....\n")
    assert told(spec).modified
    assert not mark.exists()
    run(["git", "-C", root, "status"])
    assert mark.exists(), "git itself runs them, so the test would see it"
