"""Reads the .npz files of a spec that have rows of the model's inputs: those of validation, and of calibration."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.errors import SourceError, SpecError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.process_tree import memory_here
from tfaot_pkg.ground.signature import DType, Tensor
from tfaot_pkg.ground.wording import counted
from tfaot_pkg.spec.form import REFERENCE
from tfaot_pkg.spec.types import CALIBRATION_KEY, INPUTS_KEY, LABELS_KEY
from tfaot_pkg.worker_program.messages.elements import held_type

DOCUMENTED: Mapping[str, str] = {CALIBRATION_KEY: "calibration", LABELS_KEY: "labels"}
"""Where the description of validation's inputs (provenance has it) says the name and the digest of further files."""

_LONGEST, _SHOWN = 200, 8
"""Characters of an error of NumPy, and names of arrays, in messages."""


def digest_in(inputs: Mapping[str, Any], key: str) -> str:
    """The SHA-256 of the file of `key` in such a description; "" if there is none."""
    found = inputs if key == INPUTS_KEY else inputs.get(DOCUMENTED[key])
    digest = found.get("sha256") if isinstance(found, Mapping) else None
    return digest if isinstance(digest, str) else ""


def read_rows(
    path: Path, tensors: Sequence[Tensor], *, key: str, least: int = 1, sha256: object = ""
) -> dict[str, Array]:
    """One held array (elements.py) for each of `tensors`, with the same number of rows, at least `least`.

    `key` names the file in errors; if `sha256` is given, it is that of the file when the build was planned. Raises
    SpecError if the file does not fit the tensors, SourceError if it has changed since.
    """
    arrays = arrays_of(path, key=key, sha256=sha256)
    expected = {tensor.name for tensor in tensors}
    if set(arrays) != expected:
        raise SpecError(
            f"{key}: {path} has {_listed(arrays)}, but the model's inputs are {sorted(expected)}",
            hint="store one array per input, under the input's name: numpy.savez(FILE, NAME=ARRAY, ...)",
        )
    for tensor in tensors:
        _require_fits(path, tensor, arrays[tensor.name], least, key)
    counts = {tensor.name: len(arrays[tensor.name]) for tensor in tensors if tensor.has_batch_axis}
    if len(set(counts.values())) > 1:
        raise SpecError(
            f"{key}: the arrays of {path} have different numbers of rows: {counts}",
            hint="store the same rows of each input",
        )
    return arrays


def arrays_of(path: Path, *, key: str, sha256: object = "") -> dict[str, Array]:
    """The arrays in a .npz file. Raises SpecError, and SourceError if the file is not that of `sha256`, if given."""
    try:
        # Read once, so that the hashed bytes are those that are parsed (docs/decisions/031).
        content = path.read_bytes()
        if sha256 and sha256_bytes(content) != sha256:
            raise SourceError(
                f"the file of {key} changed while the model was built: {path}",
                hint="build again when nothing writes to it any more; nothing was kept",
            )
        if not zipfile.is_zipfile(io.BytesIO(content)):
            raise ValueError("it is no archive of arrays")
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _require_room(sum(each.file_size for each in archive.infolist()))
        # Reading a pickle can run code.
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: _plain(name, array) for name, array in file.items()}
    except SourceError:
        raise
    except Exception as error:  # zipfile, and NumPy, which reads headers with Python's parser, raise many kinds
        why = " ".join(str(error).split())[:_LONGEST] or type(error).__name__
        raise SpecError(f"{key}: cannot read {path} as a .npz file: {why}", hint=hint_of(key)) from error


def _require_room(size: int) -> None:
    """Raise ValueError if arrays of `size` bytes, which may be compressed in the file, leave no memory for answers."""
    if size > memory_here() // 2:
        raise ValueError(f"its arrays take {size} bytes, which is more than half of this machine's memory")


def _listed(arrays: Mapping[str, Array]) -> str:
    shown = f"the arrays {sorted(arrays)[:_SHOWN]}"
    return f"{shown} and {len(arrays) - _SHOWN} more" if len(arrays) > _SHOWN else shown


def hint_of(key: str) -> str:
    """Where the reference describes `key`."""
    section, field, *_ = key.split(".")
    return REFERENCE.hint([(section, field)])


def _plain(name: str, array: object) -> Array:
    """`array`; for types of two bytes that NumPy does not know, such as ml_dtypes' bfloat16, the bits."""
    if not isinstance(array, np.ndarray):  # a member of the archive that is another file
        raise TypeError(f"{name!r} is no array")
    return array.view(np.uint16) if array.dtype == np.dtype("V2") else array


def _require_fits(path: Path, tensor: Tensor, array: Array, least: int, key: str) -> None:
    rows = len(array) if array.ndim and tensor.has_batch_axis else 0
    if array.dtype != held_type(tensor.dtype.value) or array.shape != tensor.shape_at(rows):
        raise SpecError(
            f"{key}: the array {tensor.name!r} of {path} is {array.dtype}{list(array.shape)}, "
            f"but the input is {tensor}",
            hint="give bfloat16 as their bits (uint16), or as an array of ml_dtypes.bfloat16"
            if tensor.dtype is DType.BFLOAT16
            else hint_of(key),
        )
    if tensor.has_batch_axis and rows < least:
        wanted = (
            f"the largest batch size is {least}" if key == INPUTS_KEY else f"at least {counted(least, 'row')} is needed"
        )
        raise SpecError(
            f"{key}: {path} has {counted(rows, 'row')}, but {wanted}",
            hint="give more rows, so that every batch size can be checked" if key == INPUTS_KEY else hint_of(key),
        )
