"""The Conan home is made on demand, knows no remote, and is held by one process at a time."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import ConanError
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.pipeline.conan.package import ConanHome, conan_environment
from tfaot_pkg.pipeline.doctor import examine
from tfaot_pkg.registry.trust.keys import FOLDER, PASSPHRASE


def test_a_new_home_has_a_profile_and_no_remotes(tmp_path: Path) -> None:
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "log")
    with home.opened() as opened:
        assert opened.conan_json("profile", "show")["host"]
        assert json.loads(opened.conan("remote", "list", "--format=json")) == []


@pytest.mark.slow
def test_a_profile_that_was_detected_without_a_compiler_is_detected_again(tmp_path: Path) -> None:
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "log")
    profile = home.root / "profiles" / "default"
    profile.parent.mkdir(parents=True)
    profile.write_text("[settings]\nos=Linux\n")
    with home.opened():
        assert "compiler=" in profile.read_text()


def test_what_a_user_set_for_conan_does_not_reach_our_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CONAN_HOME", "/somewhere/else")
    monkeypatch.setenv("CONAN_DEFAULT_PROFILE", "theirs")
    environment = conan_environment(tmp_path)
    assert {name: value for name, value in environment.items() if name.startswith("CONAN")} == {
        "CONAN_HOME": str(tmp_path)
    }


@pytest.fixture
def author(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder is that of a model whose author knows which files programs read there; `mark` tells of it."""
    folder, hooks = tmp_path / "author" / "model", tmp_path / "author" / "home" / "extensions" / "hooks"
    mark = tmp_path / "mark"
    text = f"open({str(mark)!r}, 'a').write(__name__)\n"
    for place in (folder / "conans", hooks):
        place.mkdir(parents=True)
    for file in (folder / "json.py", folder / "yaml.py", folder / "conans" / "__init__.py", hooks / "hook_it.py"):
        file.write_text(text)
    (folder.parent / ".conanrc").write_text("conan_home=./home\n")
    monkeypatch.chdir(folder)
    return mark


def test_conan_takes_neither_modules_nor_a_home_from_the_current_folder(author: Path, tmp_path: Path) -> None:
    home = ConanHome(root=tmp_path / "conan", log=tmp_path / "log")
    with home.opened() as opened:
        assert opened.conan("config", "home").strip() == str(home.root)
        opened.conan("profile", "show")
    assert not author.exists()


def test_doctor_runs_no_module_of_the_current_folder(author: Path) -> None:
    (found,) = (each for each in examine(Folders.of_user()) if each.subject == "conan")
    assert found.good
    assert not author.exists()


def test_conan_gets_no_passphrase(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(PASSPHRASE, "secret")
    monkeypatch.setenv(FOLDER, "/keys")
    assert not {PASSPHRASE, FOLDER} & conan_environment(tmp_path).keys()


@pytest.mark.slow
def test_two_users_of_a_home_take_turns(home: ConanHome) -> None:
    inside = 0
    seen = []

    def use() -> None:
        nonlocal inside
        with home.opened():
            inside += 1
            seen.append(inside)
            threading.Event().wait(0.05)
            inside -= 1

    threads = [threading.Thread(target=use) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [1, 1, 1]


@pytest.mark.slow
def test_a_failing_command_is_an_error_that_says_what_conan_said_and_how_to_repeat_it(tmp_path: Path) -> None:
    # A home of its own: an upload's test leaves a remote in the shared one, and Conan would ask it.
    home = ConanHome(root=tmp_path / "home", log=tmp_path / "conan.log")
    with home.opened() as opened, reported(ConanError):
        opened.conan("install", "--requires=nothing/1", "-of", str(home.log.parent))
