from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.pipeline.rebuild import differences


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("there", "here"):
        (tmp_path / name / "lib").mkdir(parents=True)
        (tmp_path / name / "lib" / "code.so").write_bytes(bytes(range(256)))
        (tmp_path / name / "info.json").write_text('{\n "a": 1,\n "b": 2\n}\n')
    return tmp_path / "there", tmp_path / "here"


def test_equal_trees_have_no_differences(trees: tuple[Path, Path]) -> None:
    assert differences(*trees) == ()


def test_bytes_are_told_with_their_place(trees: tuple[Path, Path]) -> None:
    there, here = trees
    (here / "lib" / "code.so").write_bytes(bytes(range(200)) + b"\xff" * 60)
    (found,) = differences(there, here)
    assert (found.path, found.kind) == ("lib/code.so", "content")
    assert found.detail == (
        "from byte 200 on is ff ff ff ff ff ff ff ff, was published as c8 c9 ca cb cc cd ce cf"
        " (256 bytes published, 260 rebuilt)"
    )


def test_texts_are_told_with_their_line(trees: tuple[Path, Path]) -> None:
    there, here = trees
    (here / "info.json").write_text('{\n "a": 1,\n "b": 3\n}\n')
    (found,) = differences(there, here)
    assert str(found) == """info.json: line 3 is '"b": 3', was published as '"b": 2'"""


def test_a_file_that_was_cut_differs_where_it_ends(trees: tuple[Path, Path]) -> None:
    there, here = trees
    (here / "lib" / "code.so").write_bytes(bytes(range(256))[:255])
    (found,) = differences(there, here)
    assert "from byte 255 on is nothing, was published as ff" in found.detail


def test_files_that_are_on_one_side_only_and_other_modes_are_told(trees: tuple[Path, Path]) -> None:
    there, here = trees
    (there / "old.txt").touch()
    (here / "new.txt").touch()
    (here / "lib" / "code.so").chmod(0o755)
    assert [(each.path, each.kind) for each in differences(there, here)] == [
        ("lib/code.so", "kind"),
        ("new.txt", "added"),
        ("old.txt", "missing"),
    ]
