from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from tests.source.parts import Repository, complete_entries
from tests.wording import reported
from tfaot_pkg.errors import NetworkError, SourceError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.spec.source.git import fetch_git

NOWHERE = "0123456789" * 4


class Notes(Silent):
    """Remembers the notes."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def note(self, text: str) -> None:
        self.texts.append(text)


def fetched(url: str, revision: str, folders: Folders, *, timeout: float = 60) -> Path:
    return fetch_git(url, revision, folders=folders, progress=Silent(), timeout=timeout)


def speak(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git speak a version of its protocol: with 0, as old servers do, commits that are no tips are refused."""
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "protocol.version")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", protocol)


@pytest.mark.parametrize("form", ["path", "file address"])
def test_a_commit_is_fetched_once(repository: Repository, folders: Folders, form: str) -> None:
    revision = repository.commit({"m/saved_model.pb": b"1"})
    repository.commit({"m/saved_model.pb": b"2"})
    url = str(repository.path) if form == "path" else repository.path.as_uri()
    tree = fetched(url, revision, folders)
    assert (tree / "m" / "saved_model.pb").read_bytes() == b"1"
    (repository.path / ".git").rename(repository.path / "gone")
    assert fetched(url, revision, folders) == tree
    assert [path.name for path in tree.iterdir()] == ["m"]


def test_a_commit_of_no_branch_is_fetched(repository: Repository, folders: Folders) -> None:
    repository.commit({"a": b"1"})
    lost = repository.commit({"a": b"2"})
    repository.git("reset", "-q", "--hard", "HEAD~1")
    assert (fetched(str(repository.path), lost, folders) / "a").read_bytes() == b"2"


def test_a_server_that_gives_only_branches_is_asked_for_all(
    repository: Repository, folders: Folders, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = repository.commit({"a": b"1"})
    repository.commit({"a": b"2"})
    speak("0", monkeypatch)
    assert (fetched(repository.path.as_uri(), revision, folders) / "a").read_bytes() == b"1"


@pytest.mark.parametrize("protocol", ["0", "2"])
def test_an_unknown_revision_is_named_and_leaves_nothing(
    repository: Repository, folders: Folders, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    repository.commit({"a": b"1"})
    speak(protocol, monkeypatch)
    with reported(SourceError):
        fetched(str(repository.path), NOWHERE, folders)
    assert complete_entries(folders) == []


@pytest.mark.parametrize("revision", ["main", "v1.0", "abc1234", "--upload-pack=x", "", "0" * 41])
def test_a_revision_that_can_move_is_refused(repository: Repository, folders: Folders, revision: str) -> None:
    with reported(SourceError):
        fetched(str(repository.path), revision, folders)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% pwned",
        "--upload-pack=touch pwned",
        "-u./x",
        "http://host/a",
        "git://host/a",
        "ftp://host/a",
        "ssh://-oProxyCommand=x/a",
        "https:///a",
        "fd::17",
        "transport::https://host/a",
        "https://host/a\nb",
    ],
)
def test_unsafe_addresses_are_refused(folders: Folders, url: str) -> None:
    with reported(SourceError):
        fetched(url, NOWHERE, folders)
    assert not folders.downloads.exists()


def test_a_missing_repository_is_an_error(folders: Folders, tmp_path: Path) -> None:
    with reported(SourceError):
        fetched(str(tmp_path / "none"), NOWHERE, folders)


def test_a_folder_that_is_no_repository_is_an_error(folders: Folders, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    with reported(SourceError):
        fetched(str(tmp_path / "plain"), NOWHERE, folders)


def test_an_unreachable_server_is_a_network_error_without_the_password(folders: Folders) -> None:
    with reported(NetworkError, varies=r"fatal: .*") as caught:
        fetched("https://me:secret@127.0.0.1:1/a.git?token=secret", NOWHERE, folders)
    assert "secret" not in repr(plain(caught.value))
    assert caught.value.__cause__ is None
    assert complete_entries(folders) == []


def test_a_command_that_hangs_is_ended(
    repository: Repository, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = repository.commit({"a": b"1"})
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\ncase "$*" in *" --depth=1 "*) sleep 60 ;; esac\nexec {shutil.which("git")} "$@"\n')
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{slow.parent}:{os.environ['PATH']}")
    begin = time.monotonic()
    with reported(SourceError):
        fetched(str(repository.path), revision, folders, timeout=1)
    assert time.monotonic() - begin < 20
    assert complete_entries(folders) == []


def test_a_missing_git_is_an_error(
    repository: Repository, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = repository.commit({"a": b"1"})
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    with reported(SourceError):
        fetched(str(repository.path), revision, folders)


def test_attributes_of_the_commit_neither_change_nor_drop_files(repository: Repository, folders: Folders) -> None:
    files = {
        ".gitattributes": b"* text eol=crlf ident\na.pb export-ignore\nb.pb export-subst\nc.pb filter=evil\n",
        "a.pb": b"1\n2\n",
        "b.pb": b"$Format:%H$ $Id$\n",
        "c.pb": b"\r\n",
    }
    revision = repository.commit({**files})
    tree = fetched(str(repository.path), revision, folders)
    blobs = {name: repository.git("show", f"{revision}:{name}") for name in files}
    assert {name: (tree / name).read_bytes().decode().strip() for name in files} == blobs
    assert (tree / "a.pb").read_bytes() == b"1\n2\n"


def test_no_hook_and_no_filter_of_the_user_runs(
    repository: Repository, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = repository.commit({"a": b"1", ".gitattributes": b"* filter=mark\n"})
    repository.commit({"a": b"2"})
    speak("0", monkeypatch)  # branches are fetched and references written, which calls hooks
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    for name in ("reference-transaction", "post-checkout"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {tmp_path}/pwned\n")
        (hooks / name).chmod(0o755)
    (Path(os.environ["HOME"]) / ".gitconfig").write_text(
        f'[core]\nhooksPath = {hooks}\n[filter "mark"]\nsmudge = touch {tmp_path}/pwned; cat\nrequired = true\n'
    )
    fetched(str(repository.path), revision, folders)
    assert not (tmp_path / "pwned").exists()


def test_it_works_inside_a_git_hook(
    repository: Repository, folders: Folders, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = repository.commit({"a": b"1"})
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_OBJECT_DIRECTORY", str(tmp_path / "elsewhere"))
    assert (fetched(str(repository.path), revision, folders) / "a").read_bytes() == b"1"
    assert not (tmp_path / "elsewhere").exists()


def test_links_in_the_commit_become_copies_or_are_named(repository: Repository, folders: Folders) -> None:
    (repository.path / "copy").symlink_to("a")
    (repository.path / "folder").symlink_to("d")
    revision = repository.commit({"a": b"1", "d/x": b"2"})
    notes = Notes()
    tree = fetch_git(str(repository.path), revision, folders=folders, progress=notes)
    assert (tree / "copy").read_bytes() == b"1" and not (tree / "copy").is_symlink()
    assert any("links not unpacked: 'folder'" in text for text in notes.texts)


def test_a_link_out_of_the_commit_is_refused(repository: Repository, folders: Folders) -> None:
    (repository.path / "evil").symlink_to("../../../etc/passwd")
    revision = repository.commit({"a": b"1"})
    with reported(SourceError):
        fetched(str(repository.path), revision, folders)
    assert complete_entries(folders) == []


def test_submodules_are_named(repository: Repository, folders: Folders) -> None:
    repository.commit({"a": b"1"})
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{NOWHERE},sub")
    repository.git("commit", "-q", "-m", "submodule")
    notes = Notes()
    fetch_git(str(repository.path), repository.git("rev-parse", "HEAD"), folders=folders, progress=notes)
    assert any("submodules are not fetched: 'sub'" in text for text in notes.texts)


def test_an_empty_commit_is_refused(repository: Repository, folders: Folders) -> None:
    repository.git("commit", "-q", "--allow-empty", "-m", "empty")
    with reported(SourceError):
        fetched(str(repository.path), repository.git("rev-parse", "HEAD"), folders)


def test_a_path_with_blanks_and_colons_works(folders: Folders, tmp_path: Path) -> None:
    path = tmp_path / "a b:c"
    path.mkdir()
    repository = Repository(path)
    repository.git("init", "-q")
    revision = repository.commit({"a": b"1"})
    for url in (str(path), path.as_uri()):
        assert (fetched(url, revision, folders) / "a").read_bytes() == b"1"
