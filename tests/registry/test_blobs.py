from __future__ import annotations

from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.objects import BucketAddress
from tfaot_pkg.registry.blobs import open_blob
from tfaot_pkg.registry.bucket import BucketStorage
from tfaot_pkg.registry.entry import BlobRef
from tfaot_pkg.registry.files.layout import blob_path
from tfaot_pkg.registry.storage import FolderStorage, Storage


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "folder":
        return FolderStorage(root=tmp_path / "registry")
    return BucketStorage.at(BucketAddress.parse(request.getfixturevalue("bucket"), "--registry"))


def put(storage: Storage, blob: BlobRef, source: Path | bytes) -> str:
    path = blob_path(blob.sha256)
    storage.place(path, blob, source)
    return path


def test_a_blob_reads_back_as_it_was_put(storage: Storage, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(b"weights" * 1000)
    blob = BlobRef.of(tmp_path / "source")
    path = put(storage, blob, tmp_path / "source")
    with open_blob(storage, path, blob) as file:
        assert file.read() == b"weights" * 1000
    assert path == f"blobs/sha256/{blob.sha256[:2]}/{blob.sha256[2:]}"
    assert [(one.path, one.size) for one in storage.items("blobs")] == [(path, 7000)]


def test_a_blob_in_a_folder_is_never_written_twice(tmp_path: Path) -> None:
    blob = BlobRef.of(b"x")
    path = put(FolderStorage(root=tmp_path), blob, b"x")
    before = (tmp_path / path).stat()
    put(FolderStorage(root=tmp_path), blob, b"x")
    assert (tmp_path / path).stat().st_ino == before.st_ino


@pytest.mark.parametrize("content", [b"y" * 100, b"x" * 99, b"x" * 101, b""])
def test_a_changed_blob_is_named_and_neither_given_nor_accepted(storage: Storage, content: bytes) -> None:
    blob = BlobRef.of(b"x" * 100)
    path = put(storage, blob, b"x" * 100)
    storage.remove(path)
    storage.put(path, content)
    with reported(TrustError):
        with open_blob(storage, path, blob):
            pytest.fail("given")
    if isinstance(storage, FolderStorage):
        with reported(TrustError):
            put(storage, blob, b"x" * 100)
    else:
        put(storage, blob, b"x" * 100)
        with open_blob(storage, path, blob) as file:
            assert file.read() == b"x" * 100


def test_a_missing_blob_is_the_registrys_fault(storage: Storage) -> None:
    blob = BlobRef.of(b"gone")
    with reported(RegistryError):
        with open_blob(storage, blob_path(blob.sha256), blob):
            pytest.fail("given")


@pytest.mark.parametrize("content", [b"y", b"xx", b""])
def test_content_that_is_not_what_was_promised_leaves_no_trace(
    storage: Storage, tmp_path: Path, content: bytes
) -> None:
    blob = BlobRef.of(b"x")
    (tmp_path / "source").write_bytes(content)
    with reported(TrustError):
        put(storage, blob, tmp_path / "source")
    assert list(storage.items("blobs")) == []
