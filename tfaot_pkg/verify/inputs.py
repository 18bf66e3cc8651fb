"""Validation inputs: from the user's file, or drawn from a seeded generator."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tfaot_pkg.errors import SourceError, SpecError
from tfaot_pkg.keys import sha256_bytes
from tfaot_pkg.signature import DType, Signature, Tensor
from tfaot_pkg.spec.types import Validation
from tfaot_pkg.wording import counted

Array = npt.NDArray[Any]

_INTEGERS_BELOW = 2  # small enough for any embedding or index; files give real ones


def validation_inputs(
    validation: Validation, signature: Signature, largest_batch: int, *, sha256: object = None
) -> dict[str, Array]:
    """One array per input, batch axis first where there is one, with at least `largest_batch` rows.

    Where `sha256` is given, it is that of the user's file when the build was planned.

    Drawn: floats from the standard normal distribution, integers from {0, 1}, booleans with equal chances.
    Raises SpecError where the user's file does not fit the signature, SourceError where it has changed since.
    """
    if validation.inputs is not None:
        return _from_file(validation.inputs, signature, largest_batch, sha256)
    generator = np.random.default_rng(validation.seed)
    rows = max(validation.samples, largest_batch)
    return {tensor.name: _draw(generator, tensor, rows) for tensor in signature.inputs}


def _draw(generator: np.random.Generator, tensor: Tensor, rows: int) -> Array:
    shape = tensor.shape_at(rows)
    if tensor.dtype in (DType.FLOAT32, DType.FLOAT64):
        return generator.standard_normal(shape).astype(tensor.dtype.value)
    return generator.integers(0, _INTEGERS_BELOW, shape).astype(tensor.dtype.value)


def _from_file(path: Path, signature: Signature, largest_batch: int, sha256: object) -> dict[str, Array]:
    try:
        content = path.read_bytes()
        if sha256 is not None and sha256_bytes(content) != sha256:
            raise SourceError(
                f"the validation inputs changed while the model was built: {path}",
                hint="build again when nothing writes to them any more; nothing was kept",
            )
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, EOFError, ValueError, TypeError, zipfile.BadZipFile) as error:
        raise SpecError(f"validation.inputs: cannot read {path} as a .npz file: {error}") from error
    expected = {tensor.name for tensor in signature.inputs}
    if set(arrays) != expected:
        raise SpecError(
            f"validation.inputs: {path} holds the arrays {sorted(arrays)}, "
            f"but the model's inputs are {sorted(expected)}"
        )
    for tensor in signature.inputs:
        _require_fits(path, tensor, arrays[tensor.name], largest_batch)
    counts = {tensor.name: len(arrays[tensor.name]) for tensor in signature.inputs if tensor.has_batch_axis}
    if len(set(counts.values())) > 1:
        raise SpecError(f"validation.inputs: the arrays of {path} have different numbers of rows: {counts}")
    return arrays


def _require_fits(path: Path, tensor: Tensor, array: Array, largest_batch: int) -> None:
    rows = len(array) if array.ndim and tensor.has_batch_axis else 0
    if array.dtype != np.dtype(tensor.dtype.value) or array.shape != tensor.shape_at(rows):
        raise SpecError(
            f"validation.inputs: the array {tensor.name!r} of {path} is {array.dtype}{list(array.shape)}, "
            f"but the input is {tensor}"
        )
    if tensor.has_batch_axis and rows < largest_batch:
        raise SpecError(
            f"validation.inputs: {path} has {counted(rows, 'row')}, but the largest batch size is {largest_batch}",
            hint="give more rows, so that every batch size can be checked",
        )
