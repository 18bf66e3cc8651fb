"""NumPy arrays: their type, and reading .npz and .npy files from programs in the sandbox, which are not trusted."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO

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
        raise ValueError("its arrays are compressed")
    # Several members may refer to the same bytes of the file.
    if sum(member.file_size for member in members) > size:
        raise ValueError("its arrays are longer than the file")


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[str, Array]:
    with archive.open(info) as stream:
        # Reading a pickle would run code of whoever wrote the file.
        return info.filename.removesuffix(".npy"), np.lib.format.read_array(stream, allow_pickle=False)


def mapped_arrays(path: Path) -> list[Array]:
    """The arrays of a file of .npy arrays, one after the other, as views of the file: they take no memory.

    Raises ValueError for every fault of the file.
    """
    arrays: list[Array] = []
    end = path.stat().st_size
    with path.open("rb") as file:
        while file.tell() < end:
            arrays.append(_mapped(path, file, end))
    return arrays


def _mapped(path: Path, file: BinaryIO, end: int) -> Array:
    """The array at the position of `file`, which is moved to its end."""
    try:
        version = np.lib.format.read_magic(file)
        # np.save writes version 1.0 unless the header is longer than 64 KiB.
        if version != (1, 0):
            raise ValueError(f"version {version}")
        shape, is_fortran, dtype = np.lib.format.read_array_header_1_0(file)
    except Exception as error:  # NumPy reads headers with Python's parser, which raises many kinds of errors
        raise ValueError(f"not a file of arrays: {error}") from error
    size, start = math.prod(shape) * dtype.itemsize, file.tell()
    # Objects are pickles, which would run code of whoever wrote the file.
    if is_fortran or dtype.hasobject or any(length < 0 for length in shape) or start + size > end:
        raise ValueError("not a file of arrays: an array of an unknown form, or one that is longer than the file")
    file.seek(start + size)
    # mmap(2) rejects a length of 0.
    if not size:
        return np.zeros(shape, dtype)
    return np.memmap(path, dtype, "r", start, shape)
