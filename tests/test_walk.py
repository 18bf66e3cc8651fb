"""Folders that somebody else filled."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.deep import deepen
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.ground.walk import MOST_LEVELS, entries_below, remove_tree, require_flat

pytestmark = pytest.mark.slow


def test_entries_come_with_their_folder_first_and_links_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "root" / "a" / "b").mkdir(parents=True)
    (tmp_path / "root" / "a" / "b" / "file").touch()
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    found = [os.path.relpath(entry.path, tmp_path / "root") for entry in entries_below(tmp_path / "root")]
    assert sorted(found) == ["a", "a/b", "a/b/file", "link"]
    assert found.index("a") < found.index("a/b") < found.index("a/b/file")
    assert list(entries_below(tmp_path / "missing")) == []


def test_folders_may_be_nested_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    deepen(tmp_path, MOST_LEVELS)
    require_flat(tmp_path)
    deepen(tmp_path / "other", MOST_LEVELS)
    with pytest.raises(OSError, match=f"nested deeper than {MOST_LEVELS} levels"):
        require_flat(tmp_path)


@pytest.mark.parametrize("levels", [1, 900, 3000])
def test_a_tree_is_removed_however_deep_it_is(tmp_path: Path, levels: int) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").touch()
    deepen(root, levels)
    remove_tree(root)
    assert not root.exists()


def test_folders_without_rights_are_removed_but_not_what_links_lead_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "inner").mkdir(parents=True)
    root = tmp_path / "root"
    (root / "locked" / "inner").mkdir(parents=True)
    (root / "locked" / "inner" / "file").touch()
    (root / "locked" / "link").symlink_to(kept)
    deepen(root, 1500)
    (root / "locked" / "inner").chmod(0)
    (root / "locked").chmod(0)
    remove_tree(root)
    assert not root.exists()
    assert (kept / "inner").is_dir()


def test_a_temporary_folder_goes_however_deep_it_is(tmp_path: Path) -> None:
    with temporary_folder(tmp_path, prefix="x.") as folder:
        deepen(folder, 1500)
    assert list(tmp_path.iterdir()) == []
