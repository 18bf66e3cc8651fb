"""The address of a store: `s3://BUCKET/PREFIX`, or the path of a folder."""

from __future__ import annotations

from pathlib import Path

from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.objects import SCHEME
from tfaot_pkg.nightly.farm.folder import FolderStore
from tfaot_pkg.nightly.farm.s3 import S3Store
from tfaot_pkg.nightly.farm.store import Store


def store_at(url: str) -> Store:
    """The store at an address, `s3://BUCKET/PREFIX` or a folder, which is made. Raises StorageError, TfaotError."""
    if url.startswith(SCHEME):
        return S3Store.of(url)
    if "://" in url:
        raise TfaotError(f"--results: must be s3://BUCKET/PREFIX or a folder, got {url!r}")
    return FolderStore.of(Path(url))
