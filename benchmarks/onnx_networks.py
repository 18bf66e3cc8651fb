"""The networks of torch_models.py, exported to ONNX by PyTorch, beside ONNX Runtime: what docs/benchmarks/onnx.* hold.

    TFAOT_TEST_TORCH=PYTHON .venv/bin/python benchmarks/onnx_networks.py [--networks NAME,...] [--peers NAME,...]
        [--rounds 7] [--batch-sizes 1,16,64] [--folder docs/benchmarks] [--work build/onnx] [--from onnx.json]

PYTHON has PyTorch, onnx and onnxscript. Nothing is tuned: ours is a library for the highest target that this machine
runs. ONNX Runtime gets PyTorch's own file with fixed sizes, and optimizes it as it does by default. Results of networks
that are done stay in the work folder: a run that was stopped goes on there.

--from draws the table anew from an onnx.json, and measures nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from engines import ROOT, compared, how, on, options, standing
from families import COLUMNS, ratio_of_minima
from trees import cells

from tfaot_pkg.ground.process import run
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import Bench
from tfaot_pkg.pipeline.pipeline import Pipeline

NETWORKS = (
    *("gru_tagger", "gru_both_ways", "lstm_tagger", "lstm_both_ways", "lstm_towers", "deep_jet", "resnet_1d"),
    *("particle_net", "particle_transformer", "interaction_network", "yolo_head", "u_net", "mobile_net"),
)
_HEAD = """\
# ONNX files compared

Made by `benchmarks/onnx_networks.py`; [bench](../how-to/bench.md) describes the method. Networks of physics that
PyTorch exported to ONNX. One thread on one core; medians of {rounds} rounds in which both take turns; smaller is
better. ONNX Runtime has all its optimizations, one session per batch size with fixed sizes, and inputs and outputs that
are bound. Every answer was compared with ONNX Runtime's with basic optimizations alone.

{machine}
"""


def write_networks(names: Sequence[str], folder: Path, _: Pipeline) -> None:
    """Write the networks `names`, by PyTorch."""
    python = os.environ.get("TFAOT_TEST_TORCH") or sys.exit("TFAOT_TEST_TORCH must name a Python with PyTorch")
    run([python, "-I", "-B", ROOT / "benchmarks" / "torch_models.py", folder, *names], timeout=1800)


def summary(benches: Sequence[Bench]) -> list[str]:
    minima = [ratio_of_minima(each, size) for each in benches for size in each.batch_sizes]
    mean, largest = table.geometric_mean(minima), max(minima)
    return [*standing(list(benches)), "", f"Of minima the geometric mean is {mean:.2f}, the largest {largest:.2f}."]


def markdown(benches: Sequence[Bench]) -> str:
    head = ("network", "batch", "ours", "ONNX Runtime", "ratio", "of minima")
    rows = tuple(line for each in benches for line in cells(each, ("onnxruntime",)))
    lines = [_HEAD.format(rounds=benches[0].rounds, machine=on(benches[0])), *summary(benches), "", COLUMNS]
    lines += [table.Table(head=head, rows=rows).markdown(), "", "## The networks", ""]
    for each in benches:
        lines.append(f"- {each.model}: {each.description}; {each.weights / 1024:.0f} KB of weights.")
        lines += [f"  - {note}" for note in table.notes(each)]
    return "\n".join([*lines, "", "## What was run", "", *how(list(benches))]) + "\n"


def main() -> None:
    chosen = options(__doc__, NETWORKS, peers="onnxruntime", rounds=7, batch_sizes="1,16,64", name="onnx")
    print("\n".join(summary(compared(chosen, write_networks, markdown))))


if __name__ == "__main__":
    main()
