"""A signed registry over HTTP as it should be: adding it, installing from it, caching, working without network."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.remote.conftest import Cli, SignedFolder
from tests.remote.faulty import FaultyServer, faulty_server, reply
from tests.wording import reported, worded

BLOB = "/blobs/.*"


def test_a_package_is_installed_from_a_signed_registry_by_its_name(
    cli: Cli, known: FaultyServer, tmp_path: Path
) -> None:
    done = cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "prefix")
    assert done.code == 0, done.err
    assert "tfaot-model-digits 1.0: installed" in done.out
    assert (tmp_path / "prefix/include/tfaot-model-digits/model.h").is_file()
    assert cli("verify-install", tmp_path / "prefix").code == 0


def test_the_download_shows_its_progress(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    done = cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "prefix")
    assert f"download from 127.0.0.1:{known.port}" in done.err


@pytest.mark.parametrize("command", ["search", "show"])
def test_a_known_address_does_as_well_as_its_name(cli: Cli, known: FaultyServer, command: str) -> None:
    done = cli(command, "digits", "--registry", known.url)
    assert done.code == 0, done.err
    assert "tfaot-model-digits@1.0" in done.out


def test_an_unknown_address_is_not_trusted(cli: Cli, server: FaultyServer) -> None:
    done = cli("show", "digits", "--registry", server.url)
    assert done.code == 16
    worded(done.words)
    assert server.seen == []


def test_a_registry_can_be_added_by_its_root_file(cli: Cli, server: FaultyServer, signed: SignedFolder) -> None:
    done = cli("registry", "add", "r", server.url, "--root", signed.root / "metadata/1.root.json")
    assert done.code == 0, done.err
    assert signed.made.fingerprint in done.out
    assert cli("show", "digits", "--registry", "r").code == 0


def test_adding_the_same_registry_again_changes_nothing_and_another_one_needs_another_name(
    cli: Cli, known: FaultyServer, signed: SignedFolder
) -> None:
    again = cli("registry", "add", "r", known.url, "--fingerprint", signed.made.fingerprint)
    assert (again.code, "known already" in again.out) == (0, True)
    other = cli("registry", "add", "r", known.url + "other", "--fingerprint", signed.made.fingerprint)
    assert other.code == 16


def test_registries_are_listed_and_removed(
    cli: Cli, known: FaultyServer, signed: SignedFolder, tfaot_home: Path
) -> None:
    listed = json.loads(cli("registry", "list", "--json").out)["registries"]
    assert [(one["name"], one["url"], one["signed"]) for one in listed] == [("r", known.url, True)]
    assert listed[0]["fingerprint"] == signed.made.fingerprint
    assert cli("registry", "remove", "r").code == 0
    assert json.loads(cli("registry", "list", "--json").out)["registries"] == []
    assert list((tfaot_home / "cache" / "registries").iterdir()) == []
    gone = cli("registry", "remove", "r")
    assert gone.code == 16


def test_a_fingerprint_of_another_root_is_refused(cli: Cli, server: FaultyServer, signed: SignedFolder) -> None:
    done = cli("registry", "add", "r", server.url, "--fingerprint", "0" * 64)
    assert done.code == 18
    assert signed.made.fingerprint in done.error
    assert cli("registry", "list").out == "none\n"


@pytest.mark.parametrize("options", [(), ("--unsigned", "--fingerprint", "0" * 64)])
def test_one_must_say_whom_to_trust(cli: Cli, server: FaultyServer, options: tuple[str, ...]) -> None:
    done = cli("registry", "add", "r", server.url, *options)
    assert done.code == 16
    worded(done.words)
    assert server.seen == []


def test_a_signed_registry_is_not_taken_unsigned(cli: Cli, server: FaultyServer) -> None:
    done = cli("registry", "add", "r", server.url, "--unsigned")
    assert done.code == 18


@pytest.mark.parametrize(
    "url",
    [
        "http://models.example.org/",
        "ftp://models.example.org/",
        "https://",
        "https://me:secret@models.example.org/",
        "https://models.example.org/?token=secret",
        "https://models.example.org:port/",
    ],
)
def test_addresses_that_are_not_taken(cli: Cli, url: str) -> None:
    done = cli("registry", "add", "r", url, "--unsigned")
    assert done.code == 16
    worded(done.words)
    assert "secret" not in done.err


@pytest.mark.parametrize("name", ["A", "../x", "", "a b", "-x"])
def test_names_that_are_not_taken(cli: Cli, server: FaultyServer, name: str) -> None:
    assert cli("registry", "add", "--unsigned", "--", name, server.url).code == 16


def test_what_is_in_the_cache_is_not_fetched_again(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    assert cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "one").code == 0
    first = known.paths()
    assert any(path.startswith("/blobs/") for path in first)
    known.seen.clear()
    assert cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "two").code == 0
    assert known.paths() == ["/config.json", "/metadata/2.root.json", "/metadata/timestamp.json"]
    asked = {seen.path: seen.headers.get("If-None-Match") for seen in known.seen}
    assert asked["/config.json"] and asked["/metadata/timestamp.json"]


def test_a_new_version_is_seen_at_once(cli: Cli, known: FaultyServer, signed: SignedFolder) -> None:
    assert "digits@1.0" in cli("show", "digits", "--registry", "r").out
    signed.publish("digits", "1.1")
    assert "digits@1.1" in cli("show", "digits", "--registry", "r").out


def test_a_damaged_cache_is_filled_again(cli: Cli, known: FaultyServer, tmp_path: Path, tfaot_home: Path) -> None:
    assert cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "one").code == 0
    damaged = [path for path in (tfaot_home / "cache" / "registries").rglob("*") if path.is_file()]
    for path in damaged:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
        path.write_bytes(b"damaged" + path.read_bytes()[7:])
    done = cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "two")
    assert done.code == 0, done.err
    assert any(path.startswith("/blobs/") for path in known.paths()[4:])


def test_offline_asks_no_server(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    assert cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "one").code == 0
    assert cli("search", "digits", "--registry", "r").code == 0
    known.seen.clear()
    for command in (("install", "digits", "--prefix", str(tmp_path / "two")), ("show", "digits"), ("search", "digits")):
        done = cli(*command, "--registry", "r", "--offline")
        assert done.code == 0, done.err
    assert known.seen == []


def test_offline_says_what_the_cache_lacks(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    assert cli("show", "digits", "--registry", "r").code == 0
    done = cli("install", "digits", "--registry", "r", "--offline", "--prefix", tmp_path / "prefix")
    assert done.code == 17
    worded(done.words)
    assert not (tmp_path / "prefix").exists() or not list((tmp_path / "prefix").rglob("*.h"))


def test_without_network_the_cache_does_with_a_note(cli: Cli, signed: SignedFolder, tmp_path: Path) -> None:
    with faulty_server(signed.root) as running:
        added = cli("registry", "add", "r", running.url, "--fingerprint", signed.made.fingerprint)
        assert added.code == 0, added.err
        assert cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "one").code == 0
    done = cli("install", "digits", "--registry", "r", "--prefix", tmp_path / "two")
    assert done.code == 0, done.err
    assert done.err.count("note: ") == 1
    worded(done.err)


def test_without_network_and_cache_there_is_an_error(cli: Cli, signed: SignedFolder, tfaot_home: Path) -> None:
    import shutil

    with faulty_server(signed.root) as running:
        assert cli("registry", "add", "r", running.url, "--fingerprint", signed.made.fingerprint).code == 0
    shutil.rmtree(tfaot_home / "cache")
    done = cli("show", "digits", "--registry", "r")
    assert done.code == 17
    worded(done.words)


def test_a_name_and_password_come_from_netrc(
    cli: Cli, known: FaultyServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guarded(request: object) -> None:
        if request.headers.get("Authorization") == "Basic bWU6c2VjcmV0":  # type: ignore[attr-defined]
            known.serve(request)  # type: ignore[arg-type]
        else:
            reply(request, 401, b"who are you?")  # type: ignore[arg-type]

    known.faults[".*"] = guarded
    refused = cli("show", "digits", "--registry", "r")
    assert refused.code == 17
    worded(refused.hint)
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    assert cli("show", "digits", "--registry", "r").code == 0


def test_the_proxy_of_the_environment_is_asked(
    cli: Cli, known: FaultyServer, signed: SignedFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(request: object) -> None:
        request.path = "/" + request.path.partition("://")[2].partition("/")[2]  # type: ignore[attr-defined]
        proxy.serve(request)  # type: ignore[arg-type]

    with faulty_server(signed.root) as proxy:
        proxy.faults[".*"] = forward
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("http_proxy", proxy.url)
        assert cli("show", "digits", "--registry", "r").code == 0
        assert f"{known.url}config.json" in proxy.paths()
    assert known.seen == []


def test_publishing_to_a_server_is_refused(cli: Cli, known: FaultyServer, tmp_path: Path) -> None:
    from tfaot_pkg.errors import RegistryError
    from tfaot_pkg.ground.settings import Folders
    from tfaot_pkg.registry.named import place_meant

    with reported(RegistryError):
        place_meant("r", Folders.of_user())
    assert place_meant("./r", Folders.of_user()) == Path("./r")


def test_an_unsigned_registry_is_taken_where_one_says_so(
    cli: Cli, tmp_path: Path, make_unsigned: Callable[[], Path]
) -> None:
    with faulty_server(make_unsigned()) as running:
        refused = cli("registry", "add", "u", running.url, "--fingerprint", "0" * 64)
        assert refused.code == 18
        worded(refused.hint)
        added = cli("registry", "add", "u", running.url, "--unsigned")
        assert added.code == 0, added.err
        assert "unsigned" in added.out
        done = cli("install", "digits", "--registry", "u", "--prefix", tmp_path / "prefix")
        assert done.code == 0, done.err
        assert "digits@1.0" in cli("search", "digits", "--registry", "u").out
    offline = cli("show", "digits", "--registry", "u", "--offline")
    assert offline.code == 0, offline.err


def test_wrong_answers_do_not_replace_the_cache_of_an_unsigned_registry(
    cli: Cli, make_unsigned: Callable[[], Path]
) -> None:
    with faulty_server(make_unsigned()) as running:
        assert cli("registry", "add", "u", running.url, "--unsigned").code == 0
        assert cli("show", "digits", "--registry", "u").code == 0
        running.faults["/index/.*"] = lambda request: reply(request, 200, b"{}\n", ETag='"new"')
        wrong = cli("show", "digits", "--registry", "u")
        assert wrong.code == 16
        worded(wrong.error)
    assert cli("show", "digits", "--registry", "u", "--offline").code == 0
