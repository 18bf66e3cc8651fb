from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.http.site import without_secrets
from tfaot_pkg.spec.source.address import inside, path_of_file_url, split


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:secret@host/a.tar", "https://host/a.tar"),
        ("https://token@host/a.tar?X-Signature=abc&b=1", "https://host/a.tar?..."),
        (
            "fatal: unable to access 'https://me:p%40ss@host/r.git/': no",
            "fatal: unable to access 'https://host/r.git/': no",
        ),
        ("/models with url: /a?token=abc (Caused by x)", "/models with url: /a?... (Caused by x)"),
        ("//me:secret@host/a.tar", "//host/a.tar"),
        ("https://host/a.tar#access_token=secret", "https://host/a.tar?..."),
        ("git@host:models/a.git", "git@host:models/a.git"),
        ("is it there? yes", "is it there? yes"),
    ],
)
def test_secrets_are_taken_out_of_what_is_shown(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "url", ["", "https://host:port/a", "https://host/a b", "https://host/a\nb", "-x", "https://[::1/a"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(SourceError):
        split(url)


def test_a_file_address_gives_its_path() -> None:
    assert path_of_file_url("file:///a%20b/c%23.tar") == Path("/a b/c#.tar")


@pytest.mark.parametrize("url", ["file://host/a", "file:a", "file:///a?b", "file:///a#b", "file:///a%00b"])
def test_file_addresses_that_are_not_plain_paths_are_refused(url: str) -> None:
    with pytest.raises(SourceError):
        path_of_file_url(url)


@pytest.mark.parametrize("relative", ["..", "a/../..", "/etc", "a/../b", "out", "a/\0"])
def test_a_path_that_leads_out_of_the_source_is_refused(tmp_path: Path, relative: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    with reported(SourceError):
        inside(root, relative, what="source.subdir")


def test_a_missing_path_says_what_there_is_instead(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with reported(SourceError):
        inside(tmp_path, "modle", what="source.subdir")
