"""Mirrors: byte for byte what their origin has, at every moment one of its states, and readable with the same root."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.registry.conftest import package_of
from tests.registry.signing import make_signed
from tests.remote.conftest import Cli, SignedFolder, ago, signed_folder
from tests.remote.faulty import FaultyServer, always, faulty_server
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.commit import open_keys
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.promotion import set_channels
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.trust.keys import secrets_from

Snapshot = Callable[[Path], dict[str, bytes | str]]


def publish(signed: SignedFolder, model: str, version: str, **fields: object) -> None:
    """A package of a few hundred bytes, which nobody opens."""
    folder = signed.root.parent / f"{model}-{version}-{len(fields)}"
    folder.mkdir()
    package = package_of(folder, model, version, {f"share/{model}": version.encode()}, **fields)
    opened = FolderRegistry.open(signed.root, keys=open_keys([signed.keys], secrets_from()))
    opened.publish(package.entry, package.blobs)


def files_of(root: Path) -> dict[str, bytes]:
    found = {path.relative_to(root).as_posix(): path for path in root.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if not name.startswith(".")}


def require_current(mirror: Path, origin: Path) -> None:
    """The mirror has files of its origin alone, byte for byte, and all of them except replaced ones."""
    ours, theirs = files_of(mirror), files_of(origin)
    del ours["mirror.json"]
    assert ours.items() <= theirs.items()
    assert "metadata/timestamp.json" in ours or "metadata/timestamp.json" not in theirs
    if "metadata/timestamp.json" in theirs:  # the others have names of their own for each version
        theirs = {path: data for path, data in theirs.items() if path.startswith("blobs/") or "/" not in path}
    assert theirs.items() <= ours.items()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "mirror"


@pytest.fixture
def copied(cli: Cli, known: FaultyServer, folder: Path) -> Path:
    done = cli("registry", "mirror", "r", folder)
    assert done.code == 0, done.err
    known.seen.clear()
    return folder


def test_a_mirror_has_the_files_of_its_origin_and_is_read_with_the_same_root(
    cli: Cli, copied: Path, signed: SignedFolder, snapshot: Snapshot, tmp_path: Path
) -> None:
    require_current(copied, signed.root)
    shutil.rmtree(signed.root)
    root = tmp_path / "root.json"
    root.write_bytes((copied / "metadata/1.root.json").read_bytes())
    with faulty_server(copied) as server:
        for name, place in (("near", copied), ("far", server.url)):
            done = cli("registry", "add", name, place, "--root", root)
            assert done.code == 0, done.err
            assert cli("show", "digits", "--registry", name).code == 0
    done = cli("install", "digits", "--registry", "near", "--prefix", tmp_path / "prefix")
    assert done.code == 0, done.err
    found = json.loads(cli("registry", "verify", "near", "--json").out)
    assert (found["ok"], found["signed"], found["notes"]) == (True, True, [])


def test_a_second_run_fetches_only_what_has_changed(
    cli: Cli, copied: Path, known: FaultyServer, signed: SignedFolder, snapshot: Snapshot
) -> None:
    done = json.loads(cli("registry", "mirror", known.url, copied, "--json").out)
    assert (done["fetched"], done["size"], done["part"]) == (0, 0, "")
    assert not [path for path in known.paths() if "blobs" in path or "index" in path or ".bin-" in path]
    publish(signed, "taus", "1.0")
    known.seen.clear()
    done = json.loads(cli("registry", "mirror", "r", copied, "--json").out)
    # A blob, an index file, a shard, a bin, search, snapshot and timestamp.
    assert (done["packages"], done["fetched"]) == (2, 7)
    assert len([path for path in known.paths() if "blobs" in path]) == 1
    require_current(copied, signed.root)


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        (r"/blobs/.*", "tampered"),
        pytest.param(r"/index/.*", "gone", marks=pytest.mark.nightly),
        pytest.param(r"/metadata/.*snapshot.json", "broken_off", marks=pytest.mark.nightly),
    ],
)
def test_after_a_fault_of_the_server_the_mirror_is_what_it_was_and_the_next_run_completes_it(
    cli: Cli, copied: Path, known: FaultyServer, signed: SignedFolder, snapshot: Snapshot, what: str, wrong: str
) -> None:
    before = snapshot(copied)
    publish(signed, "taus", "1.0")
    known.faults[what] = always(404) if wrong == "gone" else getattr(known, wrong)
    done = cli("registry", "mirror", "r", copied)
    assert done.code in (16, 17, 18), done.err
    after = snapshot(copied)
    assert {path: after[path] for path in before} == before
    assert cli("registry", "verify", copied).code == 0
    known.faults.clear()
    assert cli("registry", "mirror", "r", copied).code == 0
    require_current(copied, signed.root)


@pytest.mark.nightly
def test_a_server_that_is_away_gives_no_mirror_of_what_is_cached(cli: Cli, known: FaultyServer, folder: Path) -> None:
    assert cli("show", "digits", "--registry", "r").code == 0
    known.faults[".*"] = lambda request: request.connection.close()
    assert cli("registry", "mirror", "r", folder).code == 17
    assert not (folder / "config.json").exists()


def test_a_mirror_never_goes_back(cli: Cli, copied: Path, known: FaultyServer, signed: SignedFolder, tmp_path: Path,
                                  monkeypatch: pytest.MonkeyPatch, snapshot: Snapshot) -> None:  # fmt: skip
    shutil.copytree(signed.root, tmp_path / "old")
    publish(signed, "taus", "1.0")
    assert cli("registry", "mirror", "r", copied).code == 0
    before = snapshot(copied)
    # Another user, who has seen nothing of the registry yet.
    monkeypatch.setenv("TFAOT_HOME", str(tmp_path / "other"))
    known.root = tmp_path / "old"
    assert cli("registry", "add", "r", known.url, "--fingerprint", signed.made.fingerprint).code == 0
    done = cli("registry", "mirror", "r", copied)
    assert done.code == 18
    assert "rolled back" in done.error
    assert snapshot(copied) == before


@pytest.mark.nightly
def test_what_has_expired_is_not_mirrored(cli: Cli, tmp_path: Path, folder: Path) -> None:
    old = signed_folder(tmp_path / "old", ago(days=8))
    done = cli("registry", "mirror", old.root, folder)
    assert done.code == 18
    assert "out of date" in done.error
    assert not folder.exists() or not (folder / "config.json").exists()


def test_a_partial_mirror_verifies_and_says_what_it_lacks(
    cli: Cli, known: FaultyServer, signed: SignedFolder, folder: Path, tmp_path: Path
) -> None:
    publish(signed, "base", "1.0")
    publish(signed, "taus", "1.0", dependencies=("tfaot-model-base>=1",))
    done = json.loads(cli("registry", "mirror", "r", folder, "--package", "taus", "--json").out)
    assert (done["packages"], done["part"]) == (2, "tfaot-model-base, tfaot-model-taus")
    with faulty_server(folder) as server:
        assert cli("registry", "add", "part", server.url, "--fingerprint", signed.made.fingerprint).code == 0
        assert cli("registry", "add", "near", folder, "--fingerprint", signed.made.fingerprint).code == 0
        for name in ("part", "near"):
            assert "1.0" in cli("show", "taus", "--registry", name).out
            assert "digits" in cli("search", "digits", "--registry", name).out
            done = cli("install", "digits", "--registry", name, "--prefix", tmp_path / "prefix")
            assert done.code == 16
            assert "partial mirror of" in done.error and "tfaot-model-base, tfaot-model-taus" in done.error
            assert cli("show", "nothing", "--registry", name).code == 16
    found = json.loads(cli("registry", "verify", folder, "--json").out)
    assert (found["packages"], found["blobs"]) == (2, 2)
    # These stub packages hold no library, and nothing else is wrong.
    assert all("base" in fault or "taus" in fault for fault in found["faults"])
    assert cli("registry", "mirror", "r", folder, "--package", "nobody").code == 16
    assert json.loads(cli("registry", "mirror", "r", folder, "--json").out)["packages"] == 3
    assert cli("install", "digits", "--registry", "near", "--prefix", tmp_path / "prefix").code == 0


@pytest.mark.nightly
def test_builds_of_other_channels_and_architectures_are_left_out(
    cli: Cli, signed: SignedFolder, folder: Path, tmp_path: Path
) -> None:
    # The channel begins with what was there.
    set_channels(FolderRegistry.open(signed.root, keys=open_keys([signed.keys], secrets_from())), Channels.of())
    publish(signed, "digits", "2.0")
    publish(signed, "digits", "3.0", targets=("aarch64",))
    for number, (options, blobs) in enumerate([((), 3), (("--channel", "stable"), 1), (("--arch", "aarch64"), 1)]):
        at = folder.with_name(f"mirror-{number}")
        done = cli("registry", "mirror", signed.root, at, *options)
        assert done.code == 0, done.err
        assert len([path for path in (at / "blobs").rglob("*") if path.is_file()]) == blobs
        assert not [one for one in json.loads(cli("registry", "verify", at, "--json").out)["faults"] if "lacks" in one]
    done = cli("install", "digits@2.0", "--registry", folder.with_name("mirror-1"), "--prefix", tmp_path / "prefix")
    assert done.code == 16
    assert "the channel stable" in done.error
    assert cli("registry", "mirror", signed.root, folder, "--channel", "nothing").code == 16


@pytest.mark.parametrize("far", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_mirror_of_an_unsigned_registry_says_so(
    cli: Cli, make_unsigned: Callable[[], Path], folder: Path, snapshot: Snapshot, far: bool
) -> None:
    root = make_unsigned()
    with faulty_server(root) as server:
        if far:
            assert cli("registry", "add", "u", server.url, "--unsigned").code == 0
        done = cli("registry", "mirror", "u" if far else root, folder)
        assert done.code == 0, done.err
        assert "unsigned" in done.out
        require_current(folder, root)
        done = cli("registry", "mirror", "u" if far else root, folder, "--package", "other")
        assert done.code == 16
        assert cli("registry", "verify", folder).code == 0
        assert cli("show", "other", "--registry", folder).code == 16


def test_nothing_but_a_mirror_of_that_registry_is_written_into(
    cli: Cli, signed: SignedFolder, make_unsigned: Callable[[], Path], folder: Path, copied: Path
) -> None:
    unsigned = make_unsigned()
    assert cli("registry", "mirror", signed.root, unsigned).code == 16
    assert cli("registry", "mirror", signed.root, signed.root).code == 16
    assert cli("registry", "mirror", unsigned, copied).code == 16
    other = folder.with_name("letters")
    other.mkdir()
    (other / "letter.txt").write_text("dear")
    assert cli("registry", "mirror", signed.root, other).code == 16
    assert [path.name for path in other.iterdir()] == ["letter.txt"]
    # Nobody publishes into a mirror: the next run would take it back, or could not.
    done = cli("yank", "digits@1.0", "--reason", "x", "--registry", copied, "--keys", signed.keys)
    assert done.code == 16
    assert "is a mirror of" in done.error


@pytest.mark.nightly
def test_names_that_leave_the_folder_are_refused(
    cli: Cli, make_unsigned: Callable[[], Path], folder: Path, tmp_path: Path
) -> None:
    root = make_unsigned()
    config = read_json((root / "config.json").read_bytes())
    for template in ("../{sha256}", "https://example.org/{sha256}", "blobs/.hidden/{sha256}", "{rest}{prefix}"):
        (root / "config.json").write_text(json.dumps({**config, "download": template}))
        with faulty_server(root) as server:
            assert cli("registry", "add", "u", server.url, "--unsigned").code == 0
            assert cli("registry", "mirror", "u", folder).code == 16
            assert cli("registry", "remove", "u").code == 0
    assert not (folder / "config.json").exists() and not (folder / "mirror.json").exists()


@pytest.mark.parametrize(
    "path", ["search/../../evil", pytest.param("index/../../tfaot-model-evil", marks=pytest.mark.nightly)]
)
def test_signed_names_that_leave_the_folder_are_refused(cli: Cli, folder: Path, tmp_path: Path, path: str) -> None:
    registry = make_signed(tmp_path)
    with registry.writing() as commit:
        commit.apply({path: b""})
    before = set(tmp_path.rglob("*evil"))
    done = cli("registry", "mirror", registry.root, folder)
    assert done.code == 18
    assert path.rpartition("/")[0] in done.error
    assert set(tmp_path.rglob("*evil")) == before


@pytest.mark.nightly
def test_a_full_disk_leaves_the_state_before(
    cli: Cli, copied: Path, known: FaultyServer, signed: SignedFolder, snapshot: Snapshot
) -> None:
    before = snapshot(copied)
    signed.publish("taus", "1.0")  # of 600 kB
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        done = cli("registry", "mirror", "r", copied)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.code == 20, done.err
    assert snapshot(copied) == before
    assert cli("registry", "mirror", "r", copied).code == 0
    assert cli("registry", "verify", copied).code == 0


@pytest.mark.nightly
def test_a_download_goes_on_where_it_was_interrupted(cli: Cli, known: FaultyServer, folder: Path) -> None:
    known.faults["/blobs/.*"] = known.broken_off
    assert cli("registry", "mirror", "r", folder).code == 17
    known.faults.clear()
    known.seen.clear()
    assert cli("registry", "mirror", "r", folder).code == 0
    (asked,) = [seen for seen in known.seen if "blobs" in seen.path]
    assert asked.headers["Range"].startswith("bytes=") and asked.headers["Range"] != "bytes=0-"


@pytest.mark.nightly
def test_a_damaged_file_of_the_mirror_is_replaced(cli: Cli, copied: Path, snapshot: Snapshot) -> None:
    before = snapshot(copied)
    for path in [*(copied / "metadata").iterdir(), *(copied / "search").iterdir()]:
        path.chmod(0o644)
        path.write_bytes(b"x" * path.stat().st_size if "metadata" in path.parts else b"")
    done = cli("registry", "mirror", "r", copied)
    assert done.code == 0, done.err
    assert snapshot(copied) == before


@pytest.mark.nightly
def test_roots_and_old_files_go_with_the_origin(
    cli: Cli, copied: Path, signed: SignedFolder, snapshot: Snapshot
) -> None:
    done = cli("registry", "keys", "renew", signed.root, "--keys", signed.keys)
    assert done.code == 0, done.err
    publish(signed, "taus", "1.0")
    done = json.loads(cli("registry", "mirror", "r", copied, "--prune", "--grace", "0s", "--json").out)
    assert len(done["collected"]["removed"]) >= 3
    assert cli("registry", "gc", signed.root, "--grace", "0s").code == 0
    assert {**snapshot(signed.root), "mirror.json": b""} == {**snapshot(copied), "mirror.json": b""}
    assert cli("registry", "add", "again", copied, "--fingerprint", signed.made.fingerprint).code == 0


@pytest.mark.nightly
def test_two_runs_into_one_folder_wait_for_each_other(signed: SignedFolder, tfaot_home: Path, folder: Path) -> None:
    from tfaot_pkg.ground.progress import Silent
    from tfaot_pkg.ground.settings import Folders
    from tfaot_pkg.registry.mirror import Mirroring, Part, mirror

    done: list[Mirroring] = []

    def run() -> None:
        done.append(mirror(str(signed.root), folder, Part(), Folders.of_user(), progress=Silent()))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert sorted(one.fetched == 0 for one in done) == [False, True]


@pytest.mark.nightly
@pytest.mark.slow
def test_a_mirror_that_is_killed_at_any_moment_is_a_state_of_its_origin(
    cli: Cli, known: FaultyServer, signed: SignedFolder, folder: Path, snapshot: Snapshot, tfaot_home: Path
) -> None:
    command = [sys.executable, "-m", "tfaot_pkg", "registry", "mirror", "r", str(folder)]
    environment = {**os.environ, "TFAOT_HOME": str(tfaot_home)}
    started = time.monotonic()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    whole = time.monotonic() - started
    for number in range(8):
        signed.publish("digits", f"{number + 2}.0")
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * (0.4 + 0.075 * number))
        process.kill()
        process.wait()
        index = FolderRegistry.open(folder, anchor=Anchor(folder=tfaot_home / f"reader-{number}"))
        newest = index.resolve("digits")
        assert index.has_blobs(newest)
    assert cli("registry", "mirror", "r", folder).code == 0
    require_current(folder, signed.root)
    assert cli("registry", "verify", folder).code == 0
