"""`registry verify` and `registry gc`."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.registry.signing import make_signed, open_signed
from tests.registry.tiny import tiny_files, tiny_libraries
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry.audit import audit, collect, parse_period
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import shard_path

MakePackage = Callable[..., Any]
NOW = timedelta(0)


def blob_of(registry: FolderRegistry, package: str) -> Path:
    path = registry.blob_file(registry.resolve(package).blobs["prefix"])
    path.chmod(0o644)
    return path


def test_a_registry_that_is_right_has_no_faults(filled: FolderRegistry) -> None:
    found = audit(filled, Silent())
    assert (found.ok, found.packages, found.versions, found.blobs) == (True, 2, 3, 3)
    assert found.signed == filled.is_signed and found.notes == [] and found.size > 100


def test_what_expires_soon_is_a_fault_for_who_asks(tmp_path: Path) -> None:
    registry = make_signed(tmp_path)
    soon = audit(registry, Silent(), within=timedelta(days=8))
    assert [fault.partition(": ")[2].partition(" expires at ")[0] for fault in soon.faults] == ["timestamp"]
    year = audit(registry, Silent(), within=timedelta(days=366)).faults
    names = ["root", "snapshot", "timestamp", "targets", "packages", "search", "bin-0", "bin-1"]
    assert [fault.partition(": ")[2].partition(" expires at ")[0] for fault in year] == names
    assert audit(registry, Silent(), within=timedelta(days=6)).ok and audit(registry, Silent()).ok


def test_every_fault_is_found_at_once(filled: FolderRegistry) -> None:
    tampered, lost = blob_of(filled, "digits"), blob_of(filled, "taus")
    tampered.write_bytes(b"other")
    lost.unlink()
    found = audit(filled, Silent())
    assert not found.ok and len(found.faults) == 2
    assert str(tampered) in found.faults[0] and str(lost) in found.faults[1]
    for path in (filled.root / "index/di/gi").glob("*tfaot-model-digits"):
        path.write_bytes(b"{}\n")
    if filled.is_signed:
        (filled.root / "metadata/1.bin-1.json").unlink(missing_ok=True)
        next((filled.root / "search").glob(f"*.{shard_path('tfaot-model-taus')[7:]}")).write_bytes(b"")
    found = audit(open_signed(filled.root.parent) if filled.is_signed else filled, Silent())
    assert len(found.faults) >= 2 and any("tfaot-model-digits" in fault for fault in found.faults)


def test_an_index_file_in_the_wrong_folder_is_a_fault(registry: FolderRegistry, make_package: MakePackage) -> None:
    package = make_package()
    registry.publish(package.entry, package.blobs)
    (registry.root / "index/zz/zz").mkdir(parents=True)
    (registry.root / "index/zz/zz/tfaot-model-lost").write_bytes(b"")
    assert "tfaot-model-lost is in the wrong folder" in audit(registry, Silent()).faults[0]


def test_a_stale_shard_is_a_note_where_nothing_is_signed_and_publishing_again_mends_it(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    package = make_package()
    registry.publish(package.entry, package.blobs)
    shard = registry.root / shard_path("tfaot-model-digits")
    whole = shard.read_bytes()
    shard.unlink()
    found = audit(registry, Silent())
    assert found.ok and "does not agree with the index files" in found.notes[0]
    assert registry.publish(package.entry, package.blobs).status == "already published"
    assert shard.read_bytes() == whole


def test_gc_removes_orphans_and_what_was_replaced_after_the_grace_period(
    filled: FolderRegistry, make_package: MakePackage
) -> None:
    orphan = filled.root / "blobs/sha256/ab" / ("0" * 62)
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_bytes(b"orphan")
    leftover = filled.root / "index/di/gi/.tfaot-model-digits.part"
    leftover.write_bytes(b"half")
    foreign = filled.root / "blobs/README"
    foreign.write_bytes(b"mine")
    assert collect(filled).removed == ()
    would = collect(filled, grace=NOW, dry_run=True)
    assert {str(orphan.relative_to(filled.root)), str(leftover.relative_to(filled.root))} <= set(would.removed)
    assert orphan.exists()
    done = collect(filled, grace=NOW)
    assert done.removed == would.removed and not orphan.exists() and not leftover.exists() and foreign.exists()
    assert audit(filled, Silent()).ok and collect(filled, grace=NOW).removed == ()
    if filled.is_signed:
        assert any(path.endswith(".snapshot.json") for path in done.removed)
        assert sorted(path.name for path in (filled.root / "metadata").glob("*.root.json")) == ["1.root.json"]
    package = make_package("digits", "3.0")
    filled.publish(package.entry, package.blobs)
    assert audit(filled, Silent()).versions == 4


def test_grace_counts_from_the_replacement(tmp_path: Path, make_package: MakePackage) -> None:
    registry = make_signed(tmp_path)
    package = make_package("digits", "1.0")
    registry.publish(package.entry, package.blobs)
    reader = open_signed(tmp_path, trust="reader")
    assert reader.names()  # begins to read
    old = time.time() - 30 * 86400
    for path in registry.root.rglob("*"):
        os.utime(path, (old, old))
    package = make_package("digits", "2.0")
    registry.publish(package.entry, package.blobs)
    assert collect(registry).removed == ()  # replaced just now, however old it is
    assert [entry.version for entry in reader.entries("digits")] == ["1.0"]
    assert collect(registry, grace=NOW).removed
    assert [entry.version for entry in reader.entries("digits")] == ["1.0", "2.0"]  # asks again


def test_gc_removes_nothing_from_a_registry_that_does_not_verify(filled: FolderRegistry) -> None:
    for path in (filled.root / "index/di/gi").glob("*tfaot-model-digits"):
        path.write_bytes(b"{}\n")
    before = sorted(filled.root.rglob("*"))
    with reported(TrustError):
        collect(filled, grace=NOW)
    assert sorted(filled.root.rglob("*")) == before


def test_periods_have_a_unit() -> None:
    assert parse_period("7d") == timedelta(days=7) and parse_period("90m") == timedelta(hours=1.5)
    for text in ("7", "d", "-1d", "1w", ""):
        with reported(RegistryError):
            parse_period(text)


def test_a_package_that_no_installation_would_take_is_a_fault(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    code = "extern int system(const char *);\nstatic __attribute__((used)) int f(void) { return system(0); }\n"
    _, shared = tiny_libraries("digits", "1.0", code)
    for model, path, content in (("digits", "lib/libtfaot-model-digits.so", shared), ("taus", "bin/cmake", b"x")):
        package = make_package(model, "1.0", {**tiny_files(model, "1.0"), path: content})
        registry.publish(package.entry, package.blobs)
    found = audit(registry, Silent())
    assert any("tfaot-model-digits.so: it needs the symbol system" in fault for fault in found.faults)
    assert any("tfaot-model-taus@1.0" in fault and "bin/cmake" in fault for fault in found.faults)


def test_a_sound_package_with_other_files_than_the_index_promises_is_a_fault(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    package = make_package("digits", "1.0", tree="b" * 64)
    registry.publish(package.entry, package.blobs)
    (fault,) = audit(registry, Silent()).faults
    assert "the files of tfaot-model-digits@1.0 are not the tree that the index promises" in fault
