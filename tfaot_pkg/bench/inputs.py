"""The values that all engines run on, in files that each of them reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.arrays import Array
from tfaot_pkg.bench.results import Difference
from tfaot_pkg.documents import plain
from tfaot_pkg.signature import Signature, Tensor
from tfaot_pkg.spec.types import Validation
from tfaot_pkg.verify.report import compare

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """`file` holds all of them, each from the next multiple of 64 bytes on, `files` one each; with `rows` rows."""

    signature: Signature
    rows: int
    file: Path
    files: Mapping[str, Path]

    def options(self) -> dict[str, object]:
        """As the programs in peers' environments want it (bench_program/__main__.py)."""
        return {
            "inputs": [{**plain(tensor), "file": str(self.files[tensor.name])} for tensor in self.signature.inputs],
            "outputs": [plain(tensor) for tensor in self.signature.outputs],
            "rows": self.rows,
        }


def write_inputs(values: Mapping[str, Array], signature: Signature, rows: int, folder: Path) -> Inputs:
    """The first `rows` rows of `values`, written below `folder`."""
    files = {tensor.name: folder / f"input-{i}.bin" for i, tensor in enumerate(signature.inputs)}
    with (folder / "inputs.bin").open("wb") as every:
        for tensor in signature.inputs:
            array = values[tensor.name]
            content = np.ascontiguousarray(array[:rows] if tensor.has_batch_axis else array).tobytes()
            files[tensor.name].write_bytes(content)
            every.write(content + bytes(-len(content) % _ALIGNMENT))
    return Inputs(signature=signature, rows=rows, file=folder / "inputs.bin", files=files)


def difference(
    answers: Path, batch_size: int, signature: Signature, theirs: Mapping[str, Array], tolerance: Validation
) -> Difference:
    """How far an engine's outputs, in the file `answers`, are from TensorFlow's.

    The largest difference, absolute and relative to the largest value of each output, infinite where one side is no
    number and the other is; and how many values are beyond `tolerance`.
    """
    content, offset, found, failures = answers.read_bytes(), 0, [], 0
    for tensor in signature.outputs:
        size = tensor.nbytes_at(batch_size)
        ours = np.frombuffer(content[offset : offset + size], tensor.dtype.value).reshape(tensor.shape_at(batch_size))
        offset += size
        expected = _first(tensor, theirs[f"{batch_size}/{tensor.name}"], batch_size)
        found.append(_difference(ours, expected))
        failures += compare(
            ours, expected, target="", batch_size=batch_size, output=tensor.name, rtol=tolerance.rtol,
            atol=tolerance.atol,
        ).failures  # fmt: skip
    absolute, relative = (max(each) for each in zip(*found, strict=True))
    return Difference(max_absolute=absolute, max_relative=relative, failures=failures)


def _first(tensor: Tensor, values: Array, batch_size: int) -> Array:
    return values[:batch_size] if tensor.has_batch_axis else values


def _difference(ours: Array, theirs: Array) -> tuple[float, float]:
    one, other = ours.astype(np.float64), theirs.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(one - other))
    difference[np.isnan(difference)] = np.inf
    scale = float(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
    absolute = float(difference.max(initial=0.0))
    return absolute, absolute / scale if scale > 0 else absolute
