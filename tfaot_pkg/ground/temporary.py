"""Temporary files and folders, which are removed also after an error or Ctrl-C.

Ctrl-C may arrive at any instruction, also between the creation of a folder and the block that removes it. So a path is
recorded from before its creation until its removal, and `remove_left` removes what interrupted stages left behind.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tfaot_pkg.ground.interruption import shielded
from tfaot_pkg.ground.walk import remove_tree

_noted: set[Path] = set()


@contextmanager
def temporary_folder(parent: Path | None = None, *, prefix: str, suffix: str = "") -> Iterator[Path]:
    """An empty private folder in `parent` (by default TMPDIR), which is removed after the block.

    The block may rename it. Raises OSError.
    """
    path = _note(parent or Path(tempfile.gettempdir()), prefix, suffix)
    try:
        path.mkdir(mode=0o700)
        yield path
    finally:
        _remove(path)


@contextmanager
def temporary_file(parent: Path, *, prefix: str, suffix: str = "") -> Iterator[Path]:
    """The path of a new file in `parent`, which is removed after the block unless the block renames it."""
    path = _note(parent, prefix, suffix)
    try:
        yield path
    finally:
        _remove(path)


def remove_left() -> None:
    """Remove everything that is left. Call it when nothing in this process uses it any more."""
    for path in list(_noted):
        _remove(path)


def _note(parent: Path, prefix: str, suffix: str) -> Path:
    path = parent / f"{prefix}{secrets.token_hex(8)}{suffix}"
    # The random name is chosen here, not by tempfile, because the path must be recorded before it exists.
    _noted.add(path)
    return path


def _remove(path: Path) -> None:
    with shielded():  # if interrupted, shutil.rmtree closes a file twice
        # A path that the block renamed is neither, and nothing happens.
        if path.is_dir():
            remove_tree(path)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
        _noted.discard(path)
