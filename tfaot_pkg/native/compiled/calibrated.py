"""Programs whose layers compute with bytes: the rows of calibration, the bars, and what is said of the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tfaot_pkg.analysis.accuracy import bars_of, measured, used_of
from tfaot_pkg.compiler.calibration import Judged, LayerPrice, Rows, calibrate
from tfaot_pkg.compiler.passes.quantize_layers import quantize_layers
from tfaot_pkg.compiler.program import Program
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.wording import counted, table
from tfaot_pkg.spec.row_files import hint_of, read_rows
from tfaot_pkg.spec.types import CALIBRATION_KEY, Bars, ModelSpec
from tfaot_pkg.worker_program.messages.elements import carried, held_type, numbers

_SHOWN = 3


def quantized(
    spec: ModelSpec, signature: Signature, program: Program, path: Path, *, sha256: str = ""
) -> tuple[Program, tuple[LayerPrice, ...]]:
    """`program` with layers of bytes that keep the spec's bars on the rows in `path`, and the prices of all layers.

    Raises SpecError if the file does not fit the model, SourceError if it is not that of `sha256`, Unsupported.
    """
    rows = _rows_of(path, signature, sha256)
    found = calibrate(program, rows, lambda ours, theirs: judged(spec.validation.accuracy, signature, ours, theirs))
    return verified(quantize_layers(found.scales)(program), "quantize-layers"), found.layers


def _rows_of(path: Path, signature: Signature, sha256: str) -> Rows:
    arrays = read_rows(path, signature.inputs, key=CALIBRATION_KEY, sha256=sha256)
    for tensor in signature.inputs:
        if tensor.dtype.is_inexact and not np.all(np.isfinite(numbers(arrays[tensor.name], tensor.dtype.value))):
            raise SpecError(
                f"{CALIBRATION_KEY}: the array {tensor.name!r} of {path} has NaN or infinities, which no scale covers",
                hint=hint_of(CALIBRATION_KEY),
            )
    counts = [len(arrays[tensor.name]) for tensor in signature.inputs if tensor.has_batch_axis]
    return Rows(
        arrays=[carried(arrays[tensor.name], tensor.dtype.value) for tensor in signature.inputs],
        batched=[tensor.has_batch_axis for tensor in signature.inputs],
        count=counts[0] if counts else 1,
        sizes={symbol.name: symbol.maximum for symbol in signature.symbols},
    )


def judged(
    accuracy: Mapping[str, Bars], signature: Signature, ours: Sequence[Array], theirs: Sequence[Array]
) -> Judged:
    """The errors of `ours`, by the bars for each output: of the output that takes most of one."""
    found = []
    for tensor, mine, other in zip(signature.outputs, ours, theirs, strict=True):
        dtype = tensor.dtype.value
        bars = bars_of(accuracy, tensor.name)
        first, second = (numbers(each.view(held_type(dtype)), dtype) for each in (mine, other))
        errors = measured(first, second, bars, target="", output=tensor.name)
        found.append(Judged(of_bars=used_of(bars, errors), largest=errors.largest, mean=errors.mean))
    return max(found, key=lambda each: (each.of_bars, each.mean))


def told_layers(compute: str, reduced: int, layers: Sequence[LayerPrice]) -> str:
    """A phrase: how many layers are reduced, and which of int8 are not, and why."""
    told = f"{counted(reduced, 'layer')} in {compute}"
    if not layers:
        return told
    kept = sorted((each for each in layers if each.compute != "int8"), key=lambda each: -each.of_bars)
    share = sum(each.share for each in layers if each.compute == "int8")
    told = f"{reduced} of {counted(len(layers), 'layer')} in {compute}, {share:.0%} of the multiply-adds"
    if kept:
        names = ", ".join(f"{_name(each)} ({each.of_bars:.2g} of a bar alone)" for each in kept[:_SHOWN])
        more = f" and {len(kept) - _SHOWN} more" if len(kept) > _SHOWN else ""
        told += f", and in float32, to keep the bars: {names}{more}"
    return told


def table_of(layers: Sequence[LayerPrice]) -> str:
    """What bytes cost in each layer alone, and gain."""
    head = ("layer", "operation", "inputs", "outputs", "multiply-adds", "scale", "largest error", "mean", "of a bar")
    rows: list[tuple[object, ...]] = [
        (
            _name(each), each.operation, each.inputs, each.outputs, f"{each.share:.1%}", each.how,
            f"{each.largest:.3g}", f"{each.mean:.3g}", f"{each.of_bars:.2f}", each.compute,
        )
        for each in layers
    ]  # fmt: skip
    return table((*head, "computes in"), rows)


def _name(layer: LayerPrice) -> str:
    return layer.name or layer.operation
