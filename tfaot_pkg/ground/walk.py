"""Read and remove folders that are not trusted, without recursion, so that deep nesting does no harm."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOST_LEVELS = 64
"""The maximum depth of nested folders. Models and files made from them need a few levels."""


def entries_below(root: Path) -> Iterator[os.DirEntry[str]]:
    """All files, folders and links below the folder `root`, each folder before its contents; links are not followed.

    Entries that are removed meanwhile are left out. Raises OSError, with ENAMETOOLONG if folders are nested deeper than
    MOST_LEVELS.
    """
    waiting = [(os.fspath(root), 0)]
    while waiting:
        folder, level = waiting.pop()
        if level > MOST_LEVELS:
            raise OSError(errno.ENAMETOOLONG, f"folders are nested deeper than {MOST_LEVELS} levels", os.fspath(root))
        try:
            # Read completely before yielding: callers may remove entries, and no descriptor stays open per level.
            with os.scandir(folder) as found:
                entries = list(found)
        except FileNotFoundError:
            continue
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, level + 1))


def require_flat(root: Path) -> None:
    """Raise OSError (ENAMETOOLONG) if folders are nested too deeply for functions that walk them recursively."""
    for _ in entries_below(root):
        pass


def remove_tree(root: Path) -> None:
    """Remove the folder `root`, to which no process writes any more, as far as possible.

    Unlike `shutil.rmtree`, it also removes more than about 1,000 levels, and folders without permissions.
    """
    with suppress(RecursionError):
        shutil.rmtree(root, ignore_errors=True)
    # Usually rmtree has removed everything, and the slower way is not needed.
    if root.is_dir() and not root.is_symlink():
        with suppress(OSError):
            _flatten(root)
        shutil.rmtree(root, ignore_errors=True)


def _flatten(root: Path) -> None:
    """Move each folder below `root` directly into it, so that all paths are short, and give its owner all rights."""
    waiting = [os.fspath(root)]
    while waiting:
        folder = waiting.pop()
        # A program may have taken the permissions away from its own folders.
        os.chmod(folder, 0o700)
        with os.scandir(folder) as found:
            inner = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
        for path in inner:
            place = path if Path(folder) == root else os.path.join(root, secrets.token_hex(8))
            if place != path:
                os.chmod(path, 0o700)  # moving a folder changes its entry '..', which needs permission
                os.rename(path, place)
            waiting.append(place)
