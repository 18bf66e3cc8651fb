"""NumPy arrays: their type, and reading those (.npz) that somebody else wrote, a worker or a library in the sandbox."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file that `numpy.savez` wrote, by name. They take no more memory than the file is long.

    Raises ValueError, whatever is wrong with it.
    """
    try:
        with path.open("rb") as content, zipfile.ZipFile(content) as archive:
            _require_plain(archive.infolist(), path.stat().st_size)
            return dict(_member(archive, info) for info in archive.infolist())
    except Exception as error:  # NumPy reads headers with Python's own parser, which raises of many kinds
        raise ValueError(f"not a file of arrays: {error}") from error


def _require_plain(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise ValueError if the file says that it holds more than it is long: packed, or the same bytes again."""
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("its arrays are packed")
    if sum(member.file_size for member in members) > size:
        raise ValueError("its arrays are longer than the file")


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[str, Array]:
    with archive.open(info) as stream:
        return info.filename.removesuffix(".npy"), np.lib.format.read_array(stream, allow_pickle=False)
