"""Networks of bytes (QDQ) beside the same of floats and beside ONNX Runtime: prints the table of decision 088.

    .venv/bin/python benchmarks/quantized.py [--networks NAME,...] [--peers NAME,...] [--rounds 15]
        [--batch-sizes 1,16,64] [--folder build/quantized] [--work build/quantized]

Ours is a library for the highest target that this machine runs. Times are minima, in microseconds. Engines take turns
within a network; the network of floats is measured after that of bytes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from engines import ROOT, compared, on, options

from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import Bench
from tfaot_pkg.pipeline.pipeline import Pipeline

NETWORKS, QUANTIZED = ("mlp_64", "mlp_512", "conv_net", "res_net"), "_int8"  # quantized_models.py
_NAMES = tuple(name for each in NETWORKS for name in (f"{each}{QUANTIZED}", each))


def write_networks(names: Sequence[str], folder: Path, pipeline: Pipeline) -> None:
    """Write the networks `names`, by the front-end of ONNX."""
    environments = FrontendEnvironments(folders=pipeline.folders, progress=pipeline.progress)
    python = environments.ensure(FRONTENDS["onnx"]).python
    run([python, "-I", "-B", ROOT / "benchmarks" / "quantized_models.py", folder, *names], timeout=300)


def _shortest(bench: Bench, size: int, *, ours: bool) -> float:
    """The shortest time of our targets, or of the other engines, in microseconds."""
    found = [cell.minimum / 1000 for row in bench.engines if row.is_ours == ours and (cell := row.cell(size))]
    return min(found, default=float("nan"))


def markdown(benches: Sequence[Bench]) -> str:
    by_name = {each.model: each for each in benches}
    rows = []
    for name in NETWORKS:
        if not {name, f"{name}{QUANTIZED}"} <= by_name.keys():
            continue
        bytes_, floats = by_name[f"{name}{QUANTIZED}"], by_name[name]
        for size in bytes_.batch_sizes:
            times = [_shortest(bytes_, size, ours=True), _shortest(floats, size, ours=True)]
            times += [_shortest(bytes_, size, ours=False), _shortest(floats, size, ours=False)]
            ratios = f"{times[0] / times[1]:.2f}", f"{times[0] / times[2]:.2f}"
            rows.append((name, str(size), *(f"{each:.3g}" for each in times), *ratios))
    head = ("network", "batch", "bytes", "floats", "ORT, bytes", "ORT, floats", "bytes / floats", "bytes / ORT")
    return "\n".join([on(benches[0]), "", table.Table(head=head, rows=tuple(rows)).markdown()]) + "\n"


def main() -> None:
    chosen = options(__doc__, _NAMES, peers="onnxruntime", rounds=15, batch_sizes="1,16,64", name="quantized")
    chosen = dataclasses.replace(chosen, folder=chosen.work)
    print(markdown(compared(chosen, write_networks, markdown)))


if __name__ == "__main__":
    main()
