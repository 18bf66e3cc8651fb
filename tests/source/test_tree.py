from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deep import deepen
from tests.source.parts import Packed
from tests.wording import reported
from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.walk import remove_tree
from tfaot_pkg.spec.source.tree import fetch, source_tree
from tfaot_pkg.spec.types import ArchiveSource, FolderSource


def saved_model(root: Path, name: str = "model") -> Path:
    folder = root / name
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_bytes(b"graph")
    (folder / "variables" / "variables.index").write_bytes(b"index")
    return folder


def digest(root: Path, used: str = "model") -> str:
    return source_tree(root, Path(used)).digest


def test_the_digest_does_not_depend_on_where_the_model_lies_nor_on_its_neighbours(tmp_path: Path) -> None:
    saved_model(tmp_path / "a")
    saved_model(tmp_path / "b", "deeper/other")
    (tmp_path / "b" / "README").write_text("not used")
    assert digest(tmp_path / "a") == digest(tmp_path / "b", "deeper/other")


def test_a_graph_takes_its_config_and_the_files_of_its_checkpoint_along(tmp_path: Path) -> None:
    names = (
        "g/graph.pb",
        "c/model.ckpt-7.index",
        "c/model.ckpt-7.data-00000-of-00001",
        "c/model.ckpt-70.index",
        "f.pb",
    )
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    beside = {"config": "f.pb", "checkpoint": "c/model.ckpt-7"}
    tree = source_tree(tmp_path, Path("g/graph.pb"), field="graph", beside=beside)
    assert set(tree.files) == set(names) - {"c/model.ckpt-70.index"}
    assert tree.folder == tmp_path
    with pytest.raises(SourceError):
        source_tree(tmp_path, Path("g/graph.pb"), field="graph", beside={"checkpoint": "c/model.ckpt-8"})


@pytest.mark.parametrize("change", ["content", "name", "new file"])
def test_the_digest_changes_with_the_model(tmp_path: Path, change: str) -> None:
    model = saved_model(tmp_path)
    before = digest(tmp_path)
    match change:
        case "content":
            (model / "variables" / "variables.index").write_bytes(b"other")
        case "name":
            (model / "saved_model.pb").rename(model / "saved_model.pbtxt")
        case _:
            (model / "assets").write_bytes(b"")
    assert digest(tmp_path) != before


def test_one_file_can_be_the_model(tmp_path: Path) -> None:
    (tmp_path / "a.keras").write_bytes(b"a")
    before = digest(tmp_path, "a.keras")
    (tmp_path / "b.keras").write_bytes(b"b")
    assert digest(tmp_path, "a.keras") == before
    (tmp_path / "a.keras").write_bytes(b"c")
    assert digest(tmp_path, "a.keras") != before


def test_an_absolute_path_below_the_root_is_taken(tmp_path: Path) -> None:
    model = saved_model(tmp_path)
    assert source_tree(tmp_path, model).digest == digest(tmp_path)


def test_links_inside_the_source_count_as_what_they_point_at(tmp_path: Path) -> None:
    saved_model(tmp_path / "a")
    model = saved_model(tmp_path / "b")
    (tmp_path / "b" / "blobs").mkdir()
    (model / "variables").rename(tmp_path / "b" / "blobs" / "variables")
    (model / "variables").symlink_to("../blobs/variables")
    (model / "saved_model.pb").rename(tmp_path / "b" / "blobs" / "graph")
    (model / "saved_model.pb").symlink_to("../blobs/graph")
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


def test_links_out_of_the_source_are_refused(tmp_path: Path) -> None:
    model = saved_model(tmp_path / "source")
    (tmp_path / "secret").write_text("x")
    (model / "assets").symlink_to(tmp_path / "secret")
    with reported(SourceError):
        digest(tmp_path / "source")


def test_a_link_to_the_folder_that_holds_it_is_refused(tmp_path: Path) -> None:
    model = saved_model(tmp_path)
    (model / "again").symlink_to(".")
    with reported(SourceError):
        digest(tmp_path)


def test_folders_without_end_are_refused(tmp_path: Path) -> None:
    deepen(saved_model(tmp_path), 1500)
    with reported(SourceError):
        digest(tmp_path)
    remove_tree(tmp_path / "model")  # pytest could not


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    (saved_model(tmp_path) / "assets").symlink_to("nowhere")
    with reported(SourceError):
        digest(tmp_path)


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(saved_model(tmp_path) / "pipe")
    with reported(SourceError):
        digest(tmp_path)


def test_a_pointer_of_git_lfs_is_told_from_the_file(tmp_path: Path) -> None:
    model = saved_model(tmp_path)
    (model / "saved_model.pb").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    with reported(SourceError):
        digest(tmp_path)


def test_an_empty_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model" / "variables").mkdir(parents=True)
    with reported(SourceError):
        digest(tmp_path)


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    with reported(SourceError):
        digest(tmp_path)


def test_a_file_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    model = saved_model(tmp_path)
    Path(os.fsdecode(os.fsencode(model) + b"/\xff")).write_bytes(b"")
    with reported(SourceError):
        digest(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    (saved_model(tmp_path) / "saved_model.pb").chmod(0)
    with reported(SourceError):
        digest(tmp_path)


def test_importing_it_brings_neither_requests_nor_tensorflow() -> None:
    code = "import sys, tfaot_pkg.spec.source.tree; print(sorted({'requests', 'pydantic', 'tensorflow'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_folder_is_fetched_in_place(tmp_path: Path, folders: Folders) -> None:
    saved_model(tmp_path)
    assert fetch(FolderSource(path=tmp_path), folders=folders, progress=Silent()) == tmp_path
    assert not folders.downloads.exists()


def test_subdir_is_the_root_of_what_is_fetched(folders: Folders, model_archive: Packed) -> None:
    source = ArchiveSource(url=model_archive.url, sha256=model_archive.sha256, subdir="model")
    root = fetch(source, folders=folders, progress=Silent())
    assert (root / "saved_model.pb").read_bytes() == b"graph"


@pytest.mark.parametrize("subdir", ["..", "../..", "/etc", "model/../.."])
def test_subdir_cannot_lead_out(folders: Folders, model_archive: Packed, subdir: str) -> None:
    source = ArchiveSource(url=model_archive.url, sha256=model_archive.sha256, subdir=subdir)
    with reported(SourceError):
        fetch(source, folders=folders, progress=Silent())


def test_a_subdir_that_is_a_file_is_refused(folders: Folders, model_archive: Packed) -> None:
    source = ArchiveSource(url=model_archive.url, sha256=model_archive.sha256, subdir="model/saved_model.pb")
    with reported(SourceError):
        fetch(source, folders=folders, progress=Silent())
