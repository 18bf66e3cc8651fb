"""Addresses in a spec: which kinds are accepted, and how messages show them.

An address may contain a password or a token, which is never printed, logged or recorded.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from urllib.parse import SplitResult, unquote, urlsplit

from tfaot_pkg.errors import SourceError
from tfaot_pkg.ground.http.site import without_secrets

_CONTROL = re.compile(r"[\x00-\x20\x7f]")


def split(url: str) -> SplitResult:
    """The parts of `url`. Raises SourceError if it is not a URL (blanks, control characters, bad port)."""
    # urlsplit drops tabs and newlines silently, and a leading '-' would be an option to git.
    if not url or _CONTROL.search(url) or url.startswith("-"):
        raise SourceError(f"not an address: {without_secrets(url)!r}", hint="write the whole URL, with blanks as %20")
    try:
        parts = urlsplit(url)
        # urlsplit parses the port only when it is asked for.
        _ = parts.port
    except ValueError as error:
        raise SourceError(f"not an address: {without_secrets(url)!r} ({error})") from None
    return parts


def path_of_file_url(url: str) -> Path:
    """The path that a `file://` address names on this machine. Raises SourceError."""
    parts = split(url)
    if parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise SourceError(
            f"{without_secrets(url)}: a file address has neither host nor query",
            hint="write file:///absolute/path, with special characters escaped (%23 for #, %3F for ?)",
        )
    path = Path(unquote(parts.path))
    if not path.is_absolute() or "\0" in str(path):
        raise SourceError(f"{url}: the path is not absolute", hint="write file:///absolute/path")
    return path


def inside(root: Path, relative: str | Path, *, what: str) -> Path:
    """`root / relative`, which must exist and be `root` or lie below it, with links resolved.

    `what` names the setting in messages. Raises SourceError if the path leads out of `root` or does not exist.
    """
    path = root / relative
    # '..' is rejected even if it stays inside: resolved through a link, it means another folder than it seems to.
    if ".." in PurePosixPath(relative).parts or not _within(path, root):
        raise SourceError(
            f"{what}: {str(relative)!r} leads out of the source folder {root}", hint="name a path below the source"
        )
    if not path.exists():
        raise SourceError(f"{what}: {str(relative)!r} is not in {root}", hint=_what_is_there(root))
    return path


def _within(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL in the name
        return False


def _what_is_there(root: Path) -> str:
    try:
        # Nobody means Python's bytecode, which comes and goes with the last program that was run here.
        names = sorted(
            path.name + ("/" if path.is_dir() else "") for path in root.iterdir() if path.name != "__pycache__"
        )
    except OSError:
        return ""
    # ascii: an archive chose these names, and a terminal would obey control characters in them.
    shown = ", ".join(ascii(name)[1:-1] for name in names[:10]) + (", ..." if len(names) > 10 else "")
    return f"it contains: {shown}" if names else "it is empty"
