"""The private copy that a build reads: what was planned, or an error."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.wording import reported
from tfaot_pkg.errors import ModelError, SourceError
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.spec.source import tree
from tfaot_pkg.spec.source.tree import Snapshot, SourceTree, copy_hashed, source_tree


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "user" / "saved"
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.data").write_bytes(b"weights" * 1000)
    return folder


def snapshot_of(source: SourceTree, tmp_path: Path) -> Snapshot:
    def new_folder(name: str) -> Path:
        folder = tmp_path / f"scratch-{name}"
        folder.mkdir()
        return folder

    return Snapshot(source, new_folder)


def test_it_holds_the_files_that_were_hashed_and_is_made_once(model: Path, tmp_path: Path) -> None:
    kept = snapshot_of(source_tree(model.parent, Path("saved")), tmp_path)
    copy = kept.model
    assert copy != model and kept.model is copy
    (model / "variables" / "variables.data").write_bytes(b"other")
    assert (copy / "saved_model.pb").read_bytes() == b"graph"
    assert (copy / "variables" / "variables.data").read_bytes() == b"weights" * 1000


def test_a_model_that_is_one_file_stays_one(tmp_path: Path) -> None:
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "model.pb").write_bytes(b"graph")
    copy = snapshot_of(source_tree(tmp_path / "user", Path("model.pb")), tmp_path).model
    assert copy.name == "model.pb" and copy.read_bytes() == b"graph"


def test_links_inside_the_source_are_files_in_the_copy(model: Path, tmp_path: Path) -> None:
    (model / "again.pb").symlink_to("saved_model.pb")
    copy = snapshot_of(source_tree(model.parent, Path("saved")), tmp_path).model
    assert (copy / "again.pb").read_bytes() == b"graph" and not (copy / "again.pb").is_symlink()


def test_files_that_appear_later_are_no_part_of_it(model: Path, tmp_path: Path) -> None:
    kept = snapshot_of(source_tree(model.parent, Path("saved")), tmp_path)
    (model / "late").write_bytes(b"late")
    assert not (kept.model / "late").exists()


def other_content(file: Path) -> None:
    file.write_bytes(b"grapH")


def gone(file: Path) -> None:
    file.unlink()


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


def a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def a_folder_gone(file: Path) -> None:
    shutil.rmtree(file.parent)


@pytest.mark.parametrize("change", [other_content, gone, a_folder, a_pipe, a_folder_gone])
def test_files_that_changed_since_they_were_hashed_are_an_error(
    change: Callable[[Path], None], model: Path, tmp_path: Path
) -> None:
    kept = snapshot_of(source_tree(model.parent, Path("saved")), tmp_path)
    change(model / "saved_model.pb")
    with reported(SourceError):
        _ = kept.model


def test_errors_name_the_files_of_the_user(model: Path, tmp_path: Path) -> None:
    kept = snapshot_of(source_tree(model.parent, Path("saved")), tmp_path)
    with pytest.raises(ModelError) as caught, kept.named() as copy:
        raise ModelError(f"cannot load {copy}/saved_model.pb")
    assert caught.value.message == str(caught.value) == f"cannot load {model}/saved_model.pb"


def test_a_copy_is_a_file_of_its_own_with_the_digest_of_what_it_holds(tmp_path: Path) -> None:
    content = bytes(range(256)) * 10_000  # several chunks, the last one not full
    (tmp_path / "a").write_bytes(content)
    with (tmp_path / "a").open("rb") as file:
        assert copy_hashed(file, tmp_path / "b") == sha256_bytes(content)
    with (tmp_path / "a").open("r+b") as file:
        file.write(b"changed in place")
    assert (tmp_path / "b").read_bytes() == content


def test_the_digest_is_that_of_the_copy_also_if_it_shares_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody may write to the original right after; few file systems share blocks, so one is played here."""

    def cloned(_: BinaryIO, copy: BinaryIO) -> bool:
        copy.write(b"as it was then")
        copy.seek(0)
        return True

    monkeypatch.setattr(tree, "_cloned", cloned)
    (tmp_path / "a").write_bytes(b"as it is now")
    with (tmp_path / "a").open("rb") as file:
        assert copy_hashed(file, tmp_path / "b") == sha256_bytes(b"as it was then")
    assert (tmp_path / "b").read_bytes() == b"as it was then"
