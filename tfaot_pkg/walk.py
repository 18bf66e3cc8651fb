"""Reading and removing folders that somebody else filled: no recursion, so that no depth of folders ends the tool."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

MOST_LEVELS = 64
"""Of folders within folders; models and what is made of them need a handful."""


def entries_below(root: Path) -> Iterator[os.DirEntry[str]]:
    """All files, folders and links below the folder `root`, each folder before what it holds; links are not followed.

    What vanishes meanwhile is left out. Raises OSError, also (ENAMETOOLONG) where folders are nested deeper than
    MOST_LEVELS.
    """
    waiting = [(os.fspath(root), 0)]
    while waiting:
        folder, level = waiting.pop()
        if level > MOST_LEVELS:
            raise OSError(errno.ENAMETOOLONG, f"folders are nested deeper than {MOST_LEVELS} levels", os.fspath(root))
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except FileNotFoundError:
            continue
        for entry in entries:
            yield entry
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, level + 1))


def require_flat(root: Path) -> None:
    """Raise OSError (ENAMETOOLONG) where folders are nested too deep for those who walk through them by recursion."""
    for _ in entries_below(root):
        pass


def remove_tree(root: Path) -> None:
    """Remove the folder `root`, which nobody else writes to any more; what cannot be removed stays.

    As `shutil.rmtree`, which gives up at some 1,000 levels and at folders without rights.
    """
    with suppress(RecursionError):
        shutil.rmtree(root, ignore_errors=True)
    if root.is_dir() and not root.is_symlink():
        with suppress(OSError):
            _flatten(root)
        shutil.rmtree(root, ignore_errors=True)


def _flatten(root: Path) -> None:
    """Move each folder below `root` right into it, so that every path is short, and let its owner change it."""
    waiting = [os.fspath(root)]
    while waiting:
        folder = waiting.pop()
        os.chmod(folder, 0o700)
        with os.scandir(folder) as found:
            inner = [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
        for path in inner:
            place = path if Path(folder) == root else os.path.join(root, secrets.token_hex(8))
            if place != path:
                os.chmod(path, 0o700)  # a folder that is moved is changed
                os.rename(path, place)
            waiting.append(place)
