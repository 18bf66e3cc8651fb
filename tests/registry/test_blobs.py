from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.registry.blobs import BlobStore
from tfaot_pkg.registry.entry import BlobRef


@pytest.fixture
def store(tmp_path: Path) -> BlobStore:
    return BlobStore(root=tmp_path)


def test_a_blob_reads_back_as_it_was_put(store: BlobStore, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"weights" * 1000)
    blob = BlobRef.of(tmp_path / "source")
    assert store.put(blob, tmp_path / "source")
    with store.open(blob) as file:
        assert file.read() == b"weights" * 1000
    assert store.path(blob).relative_to(tmp_path).as_posix() == f"blobs/sha256/{blob.sha256[:2]}/{blob.sha256[2:]}"


def test_a_blob_is_never_written_twice(store: BlobStore) -> None:
    blob = BlobRef.of(b"x")
    assert store.put(blob, b"x")
    before = store.path(blob).stat()
    assert not store.put(blob, b"x")
    assert store.path(blob).stat().st_ino == before.st_ino


@pytest.mark.parametrize("content", [b"y" * 100, b"x" * 99, b"x" * 101, b""])
def test_a_changed_blob_is_named_and_neither_given_nor_accepted(store: BlobStore, content: bytes) -> None:
    blob = BlobRef.of(b"x" * 100)
    store.put(blob, b"x" * 100)
    store.path(blob).chmod(0o644)
    store.path(blob).write_bytes(content)
    with reported(TrustError):
        with store.open(blob):
            pytest.fail("given")
    with reported(TrustError):
        store.put(blob, b"x" * 100)


def test_a_missing_blob_is_the_registrys_fault(store: BlobStore) -> None:
    blob = BlobRef.of(b"gone")
    with reported(RegistryError):
        with store.open(blob):
            pytest.fail("given")


@pytest.mark.parametrize("content", [b"y", b"xx", b""])
def test_content_that_is_not_what_was_promised_leaves_no_trace(
    store: BlobStore, tmp_path: Path, content: bytes
) -> None:
    blob = BlobRef.of(b"x")
    (tmp_path / "source").write_bytes(content)
    with reported(TrustError):
        store.put(blob, tmp_path / "source")
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["source"]
