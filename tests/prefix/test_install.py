from __future__ import annotations

import functools
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.prefix.conftest import Deliver
from tests.wording import reported
from tfaot_pkg.errors import PrefixError, RegistryError, StorageError, TrustError
from tfaot_pkg.package.listing import Tree, scan_tree
from tfaot_pkg.package.prefix.install import Delivery, Installed, install_built, install_packages, uninstall
from tfaot_pkg.package.prefix.manifest import verify_install
from tfaot_pkg.package.prefix.plan import Package
from tfaot_pkg.package.tree import PackageTree

Snapshot = Callable[[Path], dict[str, "bytes | str"]]


def install(package: PackageTree, prefix: Path) -> Installed:
    return install_built(package, package.key, prefix)


def delivery(built: PackageTree, *, tree: str = "") -> Delivery:
    """`built` on its way; `tree` is a false promise."""

    def fill(folder: Path) -> Tree:
        shutil.copytree(built.root, folder, symlinks=True, dirs_exist_ok=True)
        return scan_tree(folder)

    promised = tree or scan_tree(built.root).digest
    package = Package(name=built.package_name, version=built.version, key=built.key, tree=promised)
    return Delivery(package=package, fill=fill)


def install_all(prefix: Path, *packages: PackageTree) -> list[str]:
    """What became of each of `packages`, which are installed together."""
    done = install_packages([delivery(one) for one in packages], prefix)
    return [done[one.package_name].status for one in packages]


def content(prefix: Path, snapshot: Snapshot) -> dict[str, bytes | str]:
    """All files but the manifests."""
    return {path: data for path, data in snapshot(prefix).items() if not path.endswith("/manifest.json")}


def test_an_installed_package_is_its_tree_and_a_manifest(deliver: Deliver, prefix: Path, snapshot: Snapshot) -> None:
    package = deliver("digits", "1.0", {"lib/liba.so.1": b"\x7fELF", "lib/liba.so": "liba.so.1", "bin/run": b"#!"})
    (package.root / "bin/run").chmod(0o775)
    (package.root / "lib/liba.so.1").chmod(0o600)
    before = snapshot(package.root)
    done = install(package, prefix)
    assert (done.status, done.version, done.previous) == ("installed", "1.0", None)
    assert content(prefix, snapshot) == before == snapshot(package.root)
    assert [(prefix / name).stat().st_mode & 0o777 for name in ("bin/run", "lib/liba.so.1")] == [0o755, 0o644]
    manifest = json.loads((prefix / "share/tfaot-model-digits/manifest.json").read_bytes())
    assert list(manifest["files"]) == ["bin/run", "lib/liba.so.1"] and manifest["key"] == package.key
    assert verify_install(prefix).ok
    assert not list(prefix.glob(".tfaot-staging*")) and not list(prefix.rglob("pending.json"))


def test_installing_again_touches_nothing(deliver: Deliver, prefix: Path) -> None:
    package = deliver(headers=10000)
    install(package, prefix)
    before = {path: path.lstat().st_mtime_ns for path in prefix.rglob("*")}
    done = install(package, prefix)
    assert (done.status, done.previous) == ("unchanged", "1.0")
    assert {path: path.lstat().st_mtime_ns for path in prefix.rglob("*")} == before


def test_an_upgrade_removes_what_the_new_version_lacks(deliver: Deliver, prefix: Path, snapshot: Snapshot) -> None:
    old = deliver("digits", "1.0", {"include/old/deep/a.h": b"1", "lib/liba.a": b"1", "lib/same": b"s"})
    new = deliver("digits", "2.0", {"lib/liba.a": b"2", "lib/libb.a": b"2", "lib/same": b"s"})
    install(old, prefix)
    same = (prefix / "lib/same").stat()
    done = install(new, prefix)
    assert (done.status, done.version, done.previous) == ("replaced", "2.0", "1.0")
    assert content(prefix, snapshot) == {"lib/liba.a": b"2", "lib/libb.a": b"2", "lib/same": b"s"}
    assert not (prefix / "include").exists()
    now = (prefix / "lib/same").stat()
    assert (now.st_mtime_ns, now.st_ino) == (same.st_mtime_ns, same.st_ino)
    assert install(old, prefix).status == "replaced"
    assert set(content(prefix, snapshot)) == {"include/old/deep/a.h", "lib/liba.a", "lib/same"}


def test_a_file_may_become_a_link_and_a_folder_a_file(deliver: Deliver, prefix: Path) -> None:
    old = deliver("digits", "1.0", {"lib/a": b"1", "lib/b": b"1"})
    new = deliver("digits", "2.0", {"lib/a": "b", "lib/b": b"2"})
    install(old, prefix)
    install(new, prefix)
    assert (prefix / "lib/a").is_symlink() and (prefix / "lib/a").read_bytes() == b"2"
    install(old, prefix)
    assert not (prefix / "lib/a").is_symlink() and (prefix / "lib/b").read_bytes() == b"1"
    assert verify_install(prefix).ok


def test_damage_is_reported_and_repaired(deliver: Deliver, prefix: Path) -> None:
    package = deliver("digits", "1.0", {"lib/a": b"1", "lib/b": b"1", "lib/c": b"1"})
    install(package, prefix)
    (prefix / "lib/a").write_bytes(b"changed")
    (prefix / "lib/b").unlink()
    (report,) = verify_install(prefix).parts
    assert (report.ok, report.changed, report.missing) == (False, ("lib/a",), ("lib/b",))
    assert install(package, prefix).status == "repaired"
    assert verify_install(prefix).ok


def test_two_packages_share_a_prefix_and_one_can_leave(deliver: Deliver, prefix: Path, snapshot: Snapshot) -> None:
    install(deliver("jets", headers=10000), prefix)
    before = snapshot(prefix)
    install(deliver("digits", headers=10000), prefix)
    assert [part.name for part in verify_install(prefix).parts] == ["tfaot", "tfaot-model-digits", "tfaot-model-jets"]
    assert uninstall("digits", prefix).kept == ()
    assert snapshot(prefix) == before and verify_install(prefix).ok
    uninstall("tfaot-model-jets", prefix)
    assert snapshot(prefix) == {} and os.listdir(prefix) == [".tfaot-prefix.lock"]
    with reported(PrefixError):
        uninstall("jets", prefix)
    with reported(PrefixError):
        verify_install(prefix)
    with reported(RegistryError):
        uninstall("../jets", prefix)


# --- files that belong to someone else ------------------------------------------------------------------------------


def test_files_of_others_are_all_named_and_nothing_is_changed(
    deliver: Deliver, prefix: Path, snapshot: Snapshot
) -> None:
    install(deliver("jets", "1.0", {"lib/shared.a": b"jets", "lib/jets.a": b"jets"}), prefix)
    (prefix / "lib/mine").write_bytes(b"mine")
    (prefix / "lib/folder").mkdir()
    (prefix / "etc").write_bytes(b"a file")
    before = snapshot(prefix)
    paths = ("lib/shared.a", "lib/mine", "lib/folder", "etc/x", "lib/free")
    with pytest.raises(PrefixError) as refused:
        install(deliver("digits", "1.0", dict.fromkeys(paths, b"x")), prefix)
    assert [line.strip() for line in refused.value.message.splitlines()[1:]] == [
        "etc/x (was not installed by tfaot-pkg)",
        "lib/folder (was not installed by tfaot-pkg)",
        "lib/mine (was not installed by tfaot-pkg)",
        "lib/shared.a (belongs to tfaot-model-jets)",
    ]
    assert snapshot(prefix) == before


def test_identical_files_may_have_two_owners(deliver: Deliver, prefix: Path) -> None:
    install(deliver("jets", "1.0", {"lib/shared.a": b"same"}), prefix)
    install(deliver("digits", "1.0", {"lib/shared.a": b"same"}), prefix)
    uninstall("jets", prefix)
    assert (prefix / "lib/shared.a").read_bytes() == b"same" and verify_install(prefix).ok
    uninstall("digits", prefix)
    assert not (prefix / "lib").exists()


def test_a_file_that_someone_changed_survives_removal(deliver: Deliver, prefix: Path) -> None:
    install(deliver("digits", "1.0", {"lib/a": b"1", "lib/b": b"1"}), prefix)
    (prefix / "lib/a").write_bytes(b"my work")
    assert uninstall("digits", prefix).kept == ("lib/a",)
    assert (prefix / "lib/a").read_bytes() == b"my work" and not (prefix / "lib/b").exists()


# --- the shared headers ---------------------------------------------------------------------------------------------


def headers_of(prefix: Path) -> str:
    return (prefix / "include/tfaot/version.h").read_text().split()[-1]


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_the_newest_headers_stay_whatever_the_order(deliver: Deliver, prefix: Path, order: tuple[str, str]) -> None:
    packages = {"old": deliver("old", headers=10000), "new": deliver("new", headers=10203)}
    for name in order:
        install(packages[name], prefix)
        assert install(packages[name], prefix).status == "unchanged"
    assert headers_of(prefix) == "10203" and verify_install(prefix).ok
    uninstall("new", prefix)
    assert headers_of(prefix) == "10203" and verify_install(prefix).ok


def test_headers_are_replaced_as_a_whole(deliver: Deliver, prefix: Path) -> None:
    install(deliver("old", "1.0", {"lib/old": b"", "include/tfaot/gone.h": b""}, headers=10000), prefix)
    install(deliver("new", "1.0", {"lib/new": b"", "include/tfaot/more.h": b""}, headers=10100), prefix)
    assert sorted(path.name for path in (prefix / "include/tfaot").iterdir()) == ["more.h", "version.h"]


def test_headers_of_another_major_version_are_refused(deliver: Deliver, prefix: Path, snapshot: Snapshot) -> None:
    install(deliver("old", headers=10900), prefix)
    before = snapshot(prefix)
    with reported(PrefixError):
        install(deliver("new", headers=20000), prefix)
    assert snapshot(prefix) == before


def test_headers_that_differ_but_say_the_same_version_are_refused(deliver: Deliver, prefix: Path) -> None:
    install(deliver("one", headers=10000), prefix)
    with reported(PrefixError):
        install(deliver("two", headers=10000, header_text="// changed\n"), prefix)


def test_a_package_alone_in_its_prefix_brings_its_own_headers(deliver: Deliver, prefix: Path) -> None:
    install(deliver("digits", "1.0", headers=20000), prefix)
    install(deliver("digits", "2.0", headers=10000), prefix)
    assert headers_of(prefix) == "10000" and verify_install(prefix).ok


# --- several packages at once ---------------------------------------------------------------------------------------


def test_packages_installed_together_are_those_installed_one_by_one(
    deliver: Deliver, prefix: Path, tmp_path: Path, snapshot: Snapshot
) -> None:
    old, new = deliver("jets", "1.0", headers=10000), deliver("jets", "2.0", headers=10000)
    packages = [new, deliver("digits", headers=10203), deliver("wine", headers=10100)]
    for root in (prefix, tmp_path / "one by one"):
        install(old, root)
    assert install_all(prefix, *packages) == ["replaced", "installed", "installed"]
    for package in packages:
        install(package, tmp_path / "one by one")
    assert snapshot(prefix) == snapshot(tmp_path / "one by one")
    assert headers_of(prefix) == "10203" and verify_install(prefix).ok
    assert not list(prefix.glob(".tfaot-staging*"))


@pytest.mark.parametrize(
    "fault", ["in the way", "other headers", "each other's headers", "each other's file", "forged"]
)
def test_where_one_package_is_refused_none_is_installed(
    deliver: Deliver, prefix: Path, snapshot: Snapshot, fault: str
) -> None:
    install(deliver("jets", "1.0", {"lib/jets.a": b"1"}, headers=10000), prefix)
    (prefix / "lib/mine").write_bytes(b"mine")
    before = snapshot(prefix)
    good = deliver("jets", "2.0", {"lib/jets.a": b"2", "lib/shared": b"2"}, headers=10200)
    bad = {
        "in the way": deliver("wine", "1.0", {"lib/mine": b""}),
        "other headers": deliver("wine", "1.0", headers=20000),
        "each other's headers": deliver("wine", "1.0", headers=10200, header_text="//"),
        "each other's file": deliver("wine", "1.0", {"lib/shared": b"w"}),
        "forged": deliver("wine", "1.0"),
    }[fault]
    with reported((PrefixError, TrustError)):
        install_packages([delivery(good), delivery(bad, tree="0" * 64 if fault == "forged" else "")], prefix)
    assert snapshot(prefix) == before and not list(prefix.glob(".tfaot-staging*"))


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old")])
def test_a_file_may_move_from_one_package_to_another(deliver: Deliver, prefix: Path, order: tuple[str, str]) -> None:
    install(deliver("old", "1.0", {"lib/moved": b"1", "lib/old": b"1"}), prefix)
    packages = {"old": deliver("old", "2.0", {"lib/old": b"2"}), "new": deliver("new", "1.0", {"lib/moved": b"2"})}
    install_all(prefix, *(packages[name] for name in order))
    assert (prefix / "lib/moved").read_bytes() == b"2" and verify_install(prefix).ok
    uninstall("old", prefix)
    assert verify_install(prefix).ok


# --- what must not be trusted ---------------------------------------------------------------------------------------


def test_files_that_are_not_the_promised_ones_are_refused(deliver: Deliver, prefix: Path, snapshot: Snapshot) -> None:
    with reported(TrustError):
        install_packages([delivery(deliver(), tree="0" * 64)], prefix)
    assert snapshot(prefix) == {} and not list(prefix.glob(".tfaot-staging*"))


@pytest.mark.parametrize("path", ["share/tfaot-model-other/manifest.json", "share/tfaot/pending.json"])
def test_a_package_cannot_bring_a_manifest(deliver: Deliver, prefix: Path, path: str, snapshot: Snapshot) -> None:
    with reported(TrustError):
        install(deliver("digits", "1.0", {path: b"{}"}), prefix)
    assert snapshot(prefix) == {}


def test_a_manifest_that_lists_files_elsewhere_removes_nothing(deliver: Deliver, prefix: Path, tmp_path: Path) -> None:
    package = deliver()
    install(package, prefix)
    (tmp_path / "victim").write_bytes(b"")
    manifest = prefix / "share/tfaot-model-digits/manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "files": {"../victim": "0" * 64}}))
    for use in (
        lambda: uninstall("digits", prefix),
        lambda: verify_install(prefix),
        lambda: install(package, prefix),
    ):
        with reported(PrefixError):
            use()
    assert (tmp_path / "victim").exists()


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"format":1}', b'{"format":9}', b'{"format":1,"name":"x"}'])
def test_a_damaged_manifest_is_named(deliver: Deliver, prefix: Path, data: bytes) -> None:
    install(deliver(), prefix)
    (prefix / "share/tfaot-model-digits/manifest.json").write_bytes(data)
    with reported(PrefixError):
        verify_install(prefix)


# --- interruptions --------------------------------------------------------------------------------------------------


class Killed(BaseException):
    pass


@pytest.mark.slow
@pytest.mark.parametrize("action", ["install", "upgrade", "two", "uninstall"])
def test_interrupted_at_any_change_the_same_call_completes_it(
    *,
    deliver: Deliver,
    tmp_path: Path,
    snapshot: Snapshot,
    monkeypatch: pytest.MonkeyPatch,
    action: str,
) -> None:
    """The real installer stops before each of its renames and removals in turn, and cleans up nothing."""
    old = deliver("digits", "1.0", {"include/a.h": b"1", "lib/gone.a": b"1", "lib/liba.a": b"1"}, headers=10000)
    new = deliver("digits", "2.0", {"include/a.h": b"2", "lib/liba.a": b"2", "lib/so": "liba.a"}, headers=10100)
    other = deliver("wine", "1.0", {"lib/gone.a": b"2"}, headers=10200)

    def act(root: Path) -> None:
        if action == "uninstall":
            uninstall("digits", root)
        elif action == "two":
            install_all(root, new, other)
        else:
            install(new if action == "upgrade" else old, root)

    start = tmp_path / "start"
    if action != "install":
        install(old, start)
    wanted = tmp_path / "wanted"
    if start.exists():
        shutil.copytree(start, wanted, symlinks=True)
    act(wanted)
    killed_at = 0
    while True:
        killed_at += 1
        root = tmp_path / f"run {killed_at}"
        if start.exists():
            shutil.copytree(start, root, symlinks=True)
        if not killed_after(killed_at, functools.partial(act, root), monkeypatch):
            break
        if (root / "share").exists() and action != "uninstall":
            assert snapshot(root) in (snapshot(start), snapshot(wanted)) or not verify_install(root).ok
        if action != "uninstall" or snapshot(root):
            act(root)
        assert snapshot(root) == snapshot(wanted), killed_at
        assert not list(root.glob(".tfaot-staging*"))
    assert killed_at > 5


def killed_after(count: int, act: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Run `act`; its `count`-th change of a folder does not happen, nor does any after it. False where there are fewer."""
    left = count
    with monkeypatch.context() as patch:

        def guard(real: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                left -= 1
                if left <= 0:
                    raise Killed
                return real(*args, **kwargs)

            return call

        for name in ("replace", "unlink", "rmdir", "rename"):
            patch.setattr(os, name, guard(getattr(os, name)))
        patch.setattr(shutil, "rmtree", guard(shutil.rmtree))
        try:
            act()
        except Killed:
            return True
    return False


def test_a_version_other_than_the_interrupted_one_can_follow(
    deliver: Deliver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = deliver("digits", "1.0", {f"lib/{name}": b"1" for name in "abcd"})
    new = deliver("digits", "2.0", {f"lib/{name}": b"2" for name in "cdef"})
    for count in itertools.count(1):
        prefix = tmp_path / f"run {count}"
        assert killed_after(count, functools.partial(install, old, prefix), monkeypatch)
        if len(list(prefix.glob("lib/*"))) == 3:  # of four
            break
    assert [part.interrupted for part in verify_install(prefix).parts] == [True]
    install(new, prefix)
    assert sorted(path.name for path in (prefix / "lib").iterdir()) == list("cdef") and verify_install(prefix).ok


def test_a_prefix_that_is_a_file_is_refused(deliver: Deliver, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with reported(StorageError):
        install(deliver(), tmp_path / "file")
