"""Networks of bytes (QDQ) beside the same of floats, ONNX Runtime and OpenVINO: prints the table of decision 088.

    .venv/bin/python benchmarks/quantized.py [--networks NAME,...] [--peers NAME,...] [--rounds 15]
        [--batch-sizes 1,16,64] [--folder build/quantized] [--work build/quantized]

Ours is a library for the highest target that this machine runs. Times are minima, in microseconds. Engines take turns
within a network; the network of floats is measured after that of bytes. Errors are the largest differences from ONNX
Runtime's answers without its optimizations.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from engines import ROOT, compared, on, options

from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import OURS, Bench, Cell
from tfaot_pkg.pipeline.pipeline import Pipeline

NETWORKS, QUANTIZED = ("mlp_64", "mlp_512", "conv_net", "res_net"), "_int8"  # quantized_models.py
_NAMES = tuple(name for each in NETWORKS for name in (f"{each}{QUANTIZED}", each))


def write_networks(names: Sequence[str], folder: Path, pipeline: Pipeline) -> None:
    """Write the networks `names`, by the front-end of ONNX."""
    environments = FrontendEnvironments(folders=pipeline.folders, progress=pipeline.progress)
    python = environments.ensure(FRONTENDS["onnx"]).python
    run([python, "-I", "-B", ROOT / "benchmarks" / "quantized_models.py", folder, *names], timeout=300)


_PEERS = ("onnxruntime", "openvino_default")  # OpenVINO asked for float32 would not compute in bytes
_HEAD = (
    *("network", "batch", "bytes", "floats", "ORT, bytes", "OpenVINO, bytes", "bytes / floats", "bytes / best peer"),
    *("error", "ORT's", "OpenVINO's"),
)


def _cell(bench: Bench, name: str, size: int) -> Cell | None:
    """The cell of a peer, or of the only library of ours if `name` is "tfaot"."""
    return next((row.cell(size) for row in bench.engines if row.name.startswith(name) and row.cells), None)


def _line(bytes_: Bench, floats: Bench, size: int) -> tuple[str, ...]:
    cells = [_cell(bytes_, OURS, size), _cell(floats, OURS, size), *(_cell(bytes_, peer, size) for peer in _PEERS)]
    ours, ours_of_floats, *theirs = (each.minimum / 1000 if each else math.nan for each in cells)
    best = min((time for time in theirs if not math.isnan(time)), default=math.nan)
    errors = [each.max_absolute if each else None for each in (cells[0], *cells[2:])]
    return (
        *(bytes_.model.removesuffix(QUANTIZED), str(size)),
        *(f"{each:.3g}" for each in (ours, ours_of_floats, *theirs)),
        *(f"{ours / each:.2f}" for each in (ours_of_floats, best)),
        *("-" if error is None else f"{error:.1e}" for error in errors),
    )


def markdown(benches: Sequence[Bench]) -> str:
    by_name = {each.model: each for each in benches}
    pairs = [
        (by_name[f"{name}{QUANTIZED}"], by_name[name])
        for name in NETWORKS
        if {name, f"{name}{QUANTIZED}"} <= by_name.keys()
    ]
    rows = tuple(_line(bytes_, floats, size) for bytes_, floats in pairs for size in bytes_.batch_sizes)
    return "\n".join([on(benches[0]), "", table.Table(head=_HEAD, rows=rows).markdown()]) + "\n"


def main() -> None:
    chosen = options(__doc__, _NAMES, peers=",".join(_PEERS), rounds=15, batch_sizes="1,16,64", name="quantized")
    chosen = dataclasses.replace(chosen, folder=chosen.work)
    print(markdown(compared(chosen, write_networks, markdown)))


if __name__ == "__main__":
    main()
