"""Temporary files and folders: neither an error nor Ctrl-C leaves any behind.

Ctrl-C may come at any instruction, also between the making of a folder and the block that is to remove it. So a path is
noted before it is made and until it is gone, and what was missed when the stages were stopped, `remove_left` removes.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfaot_pkg.interruption import shielded
from tfaot_pkg.walk import remove_tree

_noted: set[Path] = set()


@contextmanager
def temporary_folder(parent: Path | None = None, *, prefix: str, suffix: str = "") -> Iterator[Path]:
    """An empty folder for this user alone in `parent` (TMPDIR where none is given), which goes with the block.

    The block may rename it away. Raises OSError.
    """
    path = _note(parent or Path(tempfile.gettempdir()), prefix, suffix)
    try:
        path.mkdir(mode=0o700)
        yield path
    finally:
        _remove(path)


@contextmanager
def temporary_file(parent: Path, *, prefix: str, suffix: str = "") -> Iterator[Path]:
    """The path of a file in `parent`, not yet made, which goes with the block unless the block renames it away."""
    path = _note(parent, prefix, suffix)
    try:
        yield path
    finally:
        _remove(path)


def remove_left() -> None:
    """Remove all that is still there, when nothing of this process uses it any more."""
    for path in list(_noted):
        _remove(path)


def _note(parent: Path, prefix: str, suffix: str) -> Path:
    path = parent / f"{prefix}{secrets.token_hex(8)}{suffix}"
    _noted.add(path)
    return path


def _remove(path: Path) -> None:
    with shielded():  # shutil.rmtree closes a file twice where it is interrupted
        if path.is_dir():
            remove_tree(path)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        _noted.discard(path)
