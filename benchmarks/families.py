"""The networks of family_networks.py beside other inference engines: what docs/benchmarks/families.* hold.

    .venv/bin/python benchmarks/families.py [--networks NAME,...] [--peers NAME,...] [--rounds 7]
        [--batch-sizes 1,4,16,64] [--folder docs/benchmarks] [--work build/families] [--from families.json]

Nothing is tuned. Ours is a library for the highest target that this machine runs, with compilation.engine as it is by
default. Results of networks that are done stay in the work folder: a run that was stopped goes on there.

--from draws the table anew from a families.json, and measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from engines import ROOT, compared, how, on, options, standing, toolchain_python

from tfaot_pkg.ground.process import run
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import OURS, Bench
from tfaot_pkg.pipeline.pipeline import Pipeline

NETWORKS = (
    *("autoencoder", "wide", "lstm", "gru_towers", "deep_jet", "transformer", "edge_conv", "deep_sets"),
    *("residual", "mobile", "u_net"),
)
_HEAD = """\
# Families of networks compared

Made by `benchmarks/families.py`; [bench](../how-to/bench.md) describes the method. Small networks of many families,
for none of which this tool was tuned. One thread on one core; medians of {rounds} rounds in which all engines take
turns; smaller is better. The cost of a call through LiteRT's Python binding is taken out of its times.

{machine}

Recurrent networks are written with Keras 2, whose LSTM and GRU the converters of other engines know: ONNX Runtime and
OpenVINO run their own LSTM and GRU, LiteRT its own LSTM. "XLA" is this tool's library with XLA's code alone, another
engine here. The roofline counts every iteration of a loop, also products of a first state of zeros, which this tool
leaves out. Every answer was compared with TensorFlow's.
"""


COLUMNS = """\
Microseconds per run, medians; then ours over the best other engine, of medians and of minima. Other programs ran on the
machine (see its load): the median of a run of milliseconds has their time in it, the minimum has not.
"""


def write_networks(names: Sequence[str], folder: Path, pipeline: Pipeline) -> None:
    """Write the networks `names`, with Keras 2 from the package index."""
    keras2, python = folder.parent / "keras2", toolchain_python(pipeline)
    if not keras2.exists():
        pins = ROOT / "benchmarks" / "keras2.txt"
        install = ["-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
        run([python, *install, "--target", keras2, "-r", pins], timeout=600)
    run([python, "-I", "-B", ROOT / "benchmarks" / "family_networks.py", keras2, folder, *names], timeout=600)


def cells(each: Bench) -> list[tuple[str, ...]]:
    """The lines of a network: one for each batch size."""
    (target,) = {row.target for row in each.engines if row.is_ours}
    names = [f"tfaot-{target}", f"xla-{target}", "litert", "onnxruntime", "openvino", "openvino_default"]
    lines = []
    for size in each.batch_sizes:
        roof, found = each.roof(target), []
        for name in names:
            cell = row.cell(size) if (row := each.row(name)) else None
            found.append("-" if cell is None else table.micro(cell.median) + ("!" if cell.failures else ""))
        least = table.micro(roof.nanoseconds[size]) if roof else "-"
        ratios = table.ratio_to_peers(each, size), ratio_of_minima(each, size)
        lines.append((each.model, str(size), least, *found, *(f"{ratio:.2f}" for ratio in ratios)))
    return lines


def ratio_of_minima(each: Bench, size: int) -> float:
    """Our shortest time over the shortest of the other engines with right answers; NaN if there is none."""
    right = [(row, cell) for row in each.engines if (cell := row.cell(size)) and not cell.failures]
    ours = [cell.minimum for row, cell in right if row.is_ours]
    others = [cell.minimum for row, cell in right if not row.name.startswith((OURS, "program"))]
    return min(ours) / min(others) if ours and others else math.nan


def markdown(benches: list[Bench]) -> str:
    head = ("network", "batch", "roofline", "ours", "XLA", "LiteRT", "ONNX Runtime", "OpenVINO float32", "as installed")
    rows = tuple(line for each in benches for line in cells(each))
    lines = [_HEAD.format(rounds=benches[0].rounds, machine=on(benches[0])), *standing(benches)]
    minima = table.geometric_mean([ratio_of_minima(each, size) for each in benches for size in each.batch_sizes])
    lines += ["", f"Of minima the geometric mean is {minima:.2f}.", "", COLUMNS]
    lines += [table.Table(head=(*head, "ratio", "of minima"), rows=rows).markdown(), "", "## The networks", ""]
    for each in benches:
        lines.append(f"- {each.model}: {each.description}; {each.weights / 1024:.0f} KB of weights.")
        lines += [f"  - {note}" for note in table.notes(each)]
    return "\n".join([*lines, "", "## What was run", "", *how(benches)]) + "\n"


def main() -> None:
    chosen = options(
        __doc__,
        NETWORKS,
        peers="xla,litert,onnxruntime,openvino,openvino_default",
        rounds=7,
        batch_sizes="1,4,16,64",
        name="families",
    )
    print("\n".join(standing(compared(chosen, write_networks, markdown))))


if __name__ == "__main__":
    main()
