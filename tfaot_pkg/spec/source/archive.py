"""A source that is an archive at an address: downloaded once, kept by its SHA-256, unpacked once."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.http.site import without_secrets
from tfaot_pkg.ground.keys import Key, sha256_file
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import make_folder
from tfaot_pkg.spec.source.address import split
from tfaot_pkg.spec.source.unpack import unpack

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ARCHIVES = "archives"
_TREES = "archive-trees"
_FILE = "archive"
_PARTIAL = "partial"
"""Interrupted downloads, outside of entries: the next call resumes them."""


def fetch_archive(url: str, sha256: str, *, folders: Folders, progress: Progress) -> Path:
    """The unpacked tree of the archive at `url`, whose SHA-256 must be `sha256`.

    A second call with this checksum needs neither network nor archive, whatever its address.
    Raises SourceError (refused, wrong checksum, unsafe), NetworkError, StorageError.
    """
    sha256 = sha256.lower()
    if not _SHA256.fullmatch(sha256):
        raise SourceError(f"{without_secrets(url)}: sha256 must be 64 hexadecimal digits", hint="run: sha256sum FILE")
    cache = BuildCache(root=folders.downloads)

    def make(tree: Path) -> None:
        archive = _archive(url, sha256, cache, progress)
        left_out = unpack(archive, tree, label=without_secrets(url))
        if left_out:
            progress.note(f"{without_secrets(url)}: links not unpacked: {', '.join(map(ascii, left_out[:5]))}")

    return cache.get_or_make(_TREES, Key(sha256), make)


def _archive(url: str, sha256: str, cache: BuildCache, progress: Progress) -> Path:
    """The archive as a file; if the copy on disk is damaged, it is downloaded again."""
    kept = cache.folder(_ARCHIVES, Key(sha256))
    # This runs only if the unpacked tree is missing, so the extra digest costs nothing on a cache hit.
    if kept.is_dir() and not _is_whole(kept / _FILE, sha256):
        shutil.rmtree(kept)

    def make(folder: Path) -> None:
        from tfaot_pkg.spec.source.download import download  # requests takes 0.1 s to import: only where it is needed

        # A local file is always copied from its start, so nothing of an earlier try needs to be kept.
        if split(url).scheme == "file":
            download(url, sha256, folder / _FILE, progress=progress)
            return
        # Outside the entry's temporary folder, which is removed on an error: only so can the next call resume.
        partial = cache.root / _PARTIAL / sha256  # ours alone: the lock of the entry is held
        make_folder(partial.parent)
        download(url, sha256, partial, progress=progress)
        os.replace(partial, folder / _FILE)

    return cache.get_or_make(_ARCHIVES, Key(sha256), make) / _FILE


def _is_whole(path: Path, sha256: str) -> bool:
    try:
        return sha256_file(path) == sha256
    except FileNotFoundError:
        return False
