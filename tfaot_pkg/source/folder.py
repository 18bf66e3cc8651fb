"""A source that lies in a local folder already."""

from __future__ import annotations

import os
from pathlib import Path

from tfaot_pkg.errors import SourceError


def local_folder(path: Path) -> Path:
    """`path` made absolute, when it is a folder that can be read and holds something. Raises SourceError."""
    path = path.expanduser().absolute()
    try:
        with os.scandir(path) as entries:
            empty = next(entries, None) is None
    except FileNotFoundError:
        raise SourceError(f"no folder {path}", hint=_nearest(path)) from None
    except NotADirectoryError:
        raise SourceError(
            f"{path} is not a folder", hint="source names a folder; name the file in model.saved_model"
        ) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise SourceError(f"cannot read the folder {path}: {reason}", hint="check its rights") from error
    if empty:
        raise SourceError(f"the folder {path} is empty", hint="put the SavedModel there, or name another folder")
    return path


def _nearest(path: Path) -> str:
    """Which part of a missing path does exist."""
    there = next((parent for parent in path.parents if os.path.isdir(parent)), Path("/"))
    return f"{there} exists, {path.relative_to(there).parts[0]!r} in it does not; relative paths start at the spec"
