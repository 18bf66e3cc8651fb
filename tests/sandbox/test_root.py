"""What a confined program sees of the file system."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SandboxError
from tfaot_pkg.ground.sandbox.root import Trail, root_of, trail


def test_a_trail_names_every_link_on_the_way(tmp_path: Path) -> None:
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "one").symlink_to("real")
    (tmp_path / "real" / "two").symlink_to(tmp_path / "one" / "deep")
    found = trail(tmp_path / "one" / "two" / "missing")
    assert found == Trail(
        links=(
            (tmp_path / "one", "real"),
            (tmp_path / "real" / "two", str(tmp_path / "one" / "deep")),
            (tmp_path / "one", "real"),
        ),
        place=tmp_path / "real" / "deep" / "missing",
    )


def test_a_loop_of_links_has_an_end(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(OSError, match="too many links"):
        trail(tmp_path / "a")


def test_places_are_shown_once_and_links_as_links(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "scratch").mkdir()
    found = root_of([tmp_path / "link", tmp_path / "real" / "inner", tmp_path / "missing"], [tmp_path / "scratch"])
    assert found.readable == (tmp_path / "real",)
    assert found.writable == (tmp_path / "scratch",)
    assert found.links == ((tmp_path / "link", "real"),)


def test_what_is_writable_inside_of_what_is_readable_comes_after_it(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    words = root_of([tmp_path / "a"], [tmp_path / "a" / "b"]).arguments()
    assert words.index("--ro-bind") < words.index("--bind")


@pytest.mark.parametrize("above", [0, 1])
def test_the_home_folder_is_never_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, above: int) -> None:
    home = tmp_path / "home"
    (home / "model").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    assert root_of([home / "model"], []).readable == (home / "model",)
    with reported(SandboxError):
        root_of([[home, *home.parents][above]], [])
    (tmp_path / "link").symlink_to(home)
    with reported(SandboxError):
        root_of([tmp_path / "link"], [])


def test_the_home_of_the_user_database_is_never_shown_though_the_environment_names_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "database" / "model").mkdir(parents=True)
    user = pwd.getpwuid(os.getuid())
    entry = pwd.struct_passwd((*user[:5], str(tmp_path / "database"), *user[6:]))
    monkeypatch.setattr(pwd, "getpwuid", lambda _: entry)
    monkeypatch.setenv("HOME", str(tmp_path / "environment"))
    assert root_of([tmp_path / "database" / "model"], []).readable == (tmp_path / "database" / "model",)
    with reported(SandboxError):
        root_of([tmp_path / "database"], [])
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)  # a user that is in no database
    assert root_of([tmp_path / "database"], []).readable == (tmp_path / "database",)
