from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SourceError
from tfaot_pkg.spec.source.tree import local_folder


def test_a_folder_is_given_back_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert local_folder(Path("a")) == tmp_path / "a"


def test_a_missing_folder_says_how_far_the_path_is_right(tmp_path: Path) -> None:
    with reported(SourceError):
        local_folder(tmp_path / "modle" / "v1")


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with reported(SourceError):
        local_folder(tmp_path / "file")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with reported(SourceError):
        local_folder(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0)
    with reported(SourceError):
        local_folder(folder)
