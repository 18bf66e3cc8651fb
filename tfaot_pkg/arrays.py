"""NumPy arrays: their type, and reading .npz files from programs in the sandbox, which are not trusted."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays in a file of `numpy.savez`, by name. They take no more memory than the file has bytes.

    Raises ValueError for every fault of the file.
    """
    try:
        with path.open("rb") as content, zipfile.ZipFile(content) as archive:
            _require_plain(archive.infolist(), path.stat().st_size)
            return dict(_member(archive, info) for info in archive.infolist())
    except Exception as error:  # NumPy reads headers with Python's parser, which raises many kinds of errors
        raise ValueError(f"not a file of arrays: {error}") from error


def _require_plain(members: list[zipfile.ZipInfo], size: int) -> None:
    """Raise ValueError if the members are compressed, or longer than the file together."""
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("its arrays are packed")
    # Several members may point to the same bytes of the file.
    if sum(member.file_size for member in members) > size:
        raise ValueError("its arrays are longer than the file")


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[str, Array]:
    with archive.open(info) as stream:
        # Pickles would run code of whoever wrote the file.
        return info.filename.removesuffix(".npy"), np.lib.format.read_array(stream, allow_pickle=False)
