"""Keys: the SHA-256 of everything that a value's content depends on.

The build cache is addressed by keys, the check for up-to-date packages compares them, and provenance records them. A
key is made from plain data only (no clock, no path of this machine).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NewType

Key = NewType("Key", str)
"""64 lower-case hexadecimal digits."""

Digest = Callable[[Path], str]
"""Returns the SHA-256 of a file's content: `sha256_file`, or a function that caches its results."""

_CHUNK = 1 << 20
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def key_of(stage: str, version: int | str, parts: Mapping[str, object]) -> Key:
    """The key of `stage`'s result for `parts`; `version` is the digest of its code (code.py), or a format's number.

    `parts` contains JSON values only; the order of its names does not matter.
    Raises TypeError for other values, so that no object's `repr` gets into a key.
    """
    document = {"stage": stage, "version": version, "parts": parts}
    return Key(sha256_bytes(canonical_json(document)))


def canonical_json(value: object) -> bytes:
    """The canonical bytes of a JSON value: sorted names, no blanks, UTF-8, no NaN."""
    return _CANONICAL.encode(value).encode()


def sha256_bytes(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def sha256_tree(root: Path, files: Iterable[Path]) -> str:
    """Digest of names (relative to `root`, with `/`) and contents of `files`, whatever their order."""
    return sha256_listing({path.relative_to(root).as_posix(): sha256_file(path) for path in files})


def sha256_listing(digests: Mapping[str, str]) -> str:
    """Digest of files' names and contents, from the SHA-256 of each content by name."""
    # As JSON, not as joined text, in which a name could look like the end of one and the start of another.
    return sha256_bytes(canonical_json(sorted(digests.items())))


def files_below(root: Path) -> list[Path]:
    """The regular files below `root`, sorted by relative name; links are not followed."""
    return sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
