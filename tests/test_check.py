"""The name that a first spec proposes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfaot_pkg.check import name_from


@pytest.mark.parametrize(
    "place, name",
    [
        ("My-Tagger.v2", "my_tagger_v2"),
        ("digits/saved_model", "digits"),
        ("digits/SavedModel", "digits"),
        ("digits/1", "digits"),
        ("digits/saved_model/1700000000", "digits"),
        ("digits/saved_model_v2", "saved_model_v2"),
        ("digits/../tagger/1", "tagger"),
    ],
)
def test_a_folder_whose_name_says_nothing_gets_that_of_the_folder_above(
    place: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").mkdir()
    (tmp_path / place).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path)
    assert name_from(Path(place)) == name
    monkeypatch.chdir(tmp_path / place)
    assert name_from(Path()) == name


def test_a_file_keeps_its_name(tmp_path: Path) -> None:
    file = tmp_path / "1.keras"
    file.touch()
    assert name_from(file) == "1"
