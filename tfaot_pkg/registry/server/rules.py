"""Which files of a registry's folder are public, their content types, and how long caches may keep them.

Decisions only; app.py does the HTTP. registry/nginx.conf states the same rules for nginx.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@=,~-]*", re.ASCII)
# Files of writers (locks, files that are being written) and keys, which a maintainer may keep beside the registry.
_SECRET_ENDINGS = (".lock", ".owner", ".part", ".tmp", ".pem", ".key", "~")
_SECRET_FOLDERS = ("keys", "private")
_HASHED = re.compile(r"(?:^|[.-])[0-9a-f]{16,64}\.", re.ASCII)
_VERSIONED = re.compile(r"\d+\.[A-Za-z0-9_-]+\.json", re.ASCII)

FOREVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
BINARY = "application/octet-stream"

_TYPES = {
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".svg": "image/svg+xml",
    ".xml": "application/xml",
    ".png": "image/png",
    ".webp": "image/webp",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_COMPRESSED_ALREADY = (BINARY, "image/png", "image/webp", "image/x-icon", "font/woff2")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedFile:
    """A file that anyone may read."""

    path: Path
    status: os.stat_result
    content_type: str
    cache_control: str

    @property
    def compressible(self) -> bool:
        return self.content_type not in _COMPRESSED_ALREADY

    @property
    def is_page(self) -> bool:
        """Whether a browser shows it as a document, in which scripts could run."""
        return self.content_type.startswith(("text/html", "image/svg"))

    @property
    def etag(self) -> str:
        """Changes with every replacement: files are replaced by renaming, which gives a new inode."""
        return f'"{self.status.st_mtime_ns:x}-{self.status.st_ino:x}-{self.status.st_size:x}"'


def find_file(root: Path, url_path: str) -> ServedFile | None:
    """The file below `root` for the decoded path of a URL; None for everything that is not public.

    A path that ends in `/` stands for that folder's index.html. No `..` and no link below `root` is followed; names
    that begin with a dot, lock files, half-written files and keys are not served. Names that need escaping do not occur
    in a registry and are rejected too: a second decoding cannot change their meaning. Raises OSError (disk failure).
    """
    names = names_in(url_path)
    if names is None:
        return None
    path = root
    for number, name in enumerate(names, 1):
        path /= name
        try:
            status = path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        # `lstat` sees a link as a link, which is neither: links could lead out of the registry.
        wanted = stat.S_ISREG if number == len(names) else stat.S_ISDIR
        if not wanted(status.st_mode):
            return None
    relative = "/".join(names)
    return ServedFile(
        path=path, status=status, content_type=content_type(relative), cache_control=cache_control(relative)
    )


def names_in(url_path: str) -> tuple[str, ...] | None:
    """The names in a URL's decoded path; None if one of them is never served."""
    if not url_path.startswith("/"):
        return None
    text = url_path[1:] + ("index.html" if url_path.endswith("/") else "")
    names = tuple(text.split("/"))
    return names if all(_may_be_seen(name) for name in names) else None


def _may_be_seen(name: str) -> bool:
    return (
        _SEGMENT.fullmatch(name) is not None
        and len(name) <= 255
        and not name.endswith(_SECRET_ENDINGS)
        and name not in _SECRET_FOLDERS
    )


def content_type(relative: str) -> str:
    """The type of the file `relative` to the registry. Blobs come from publishers: never a type that browsers run."""
    path = PurePosixPath(relative)
    if path.parts[0] == "blobs":
        return BINARY
    if path.parts[0] == "index":
        return "application/x-ndjson"
    return _TYPES.get(path.suffix, BINARY)


def cache_control(relative: str) -> str:
    """Forever if the name determines the content (a digest, a version of signed metadata); else check each time."""
    path = PurePosixPath(relative)
    if path.parts[0] == "blobs" or _HASHED.search(path.name):
        return FOREVER
    if path.parts[0] == "metadata" and _VERSIONED.fullmatch(path.name):
        return FOREVER
    return ASK_AGAIN
