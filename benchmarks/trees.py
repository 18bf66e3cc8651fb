"""The boosted trees of tree_models.py beside other engines: what docs/benchmarks/trees.* hold.

    .venv/bin/python benchmarks/trees.py [--networks TREESxDEPTH,...] [--peers NAME,...] [--rounds 15]
        [--batch-sizes 1,16,256] [--folder docs/benchmarks] [--work build/trees] [--from trees.json]

All engines run in one process each, in turns, as `tfaot-pkg bench` has it. Results of models that are done stay in the
work folder: a run that was stopped goes on there.

--from draws the table anew from a trees.json, and measures nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engines import ROOT, compared, how, on, options, standing, toolchain_python
from families import ratio_of_minima

from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import Bench
from tfaot_pkg.pipeline.pipeline import Pipeline

MODELS = ("100x4", "200x6", "1000x8")
_HEAD = """\
# Decision trees compared

Made by `benchmarks/trees.py`; [bench](../how-to/bench.md) describes the method. XGBoost classifiers of two classes on
28 numbers. One thread on one core; medians of {rounds} rounds in which all engines take turns; smaller is better.

{machine}

All engines are called by a loop in C, and each run gets other rows of 8,192: with the same row again and again, the CPU
knows the branches of tl2cgen's code. Every answer was compared with XGBoost's.
"""
_COLUMNS = """\
Microseconds per run, medians; then ours over the best other engine, of medians and of minima.
"""


def write_models(names: Sequence[str], folder: Path, pipeline: Pipeline) -> None:
    """Write the models `names`, by XGBoost of the front-end."""
    environments = FrontendEnvironments(folders=pipeline.folders, progress=Silent())
    python = environments.ensure(FRONTENDS["trees"], toolchain_python(pipeline)).python
    run([python, "-I", "-B", ROOT / "benchmarks" / "tree_models.py", folder, *names], timeout=3600)


def cells(each: Bench, peers: Sequence[str]) -> list[tuple[str, ...]]:
    """The lines of a model: one for each batch size."""
    (target,) = {row.target for row in each.engines if row.is_ours}
    names = (f"tfaot-{target}", *peers)
    lines = []
    for size in each.batch_sizes:
        found = []
        for name in names:
            cell = row.cell(size) if (row := each.row(name)) else None
            found.append("-" if cell is None else table.micro(cell.median) + ("!" if cell.failures else ""))
        ratios = table.ratio_to_peers(each, size), ratio_of_minima(each, size)
        lines.append((each.model, str(size), *found, *(f"{ratio:.2f}" for ratio in ratios)))
    return lines


def markdown(benches: list[Bench]) -> str:
    head = ("model", "batch", "ours", "XGBoost", "tl2cgen", "ONNX Runtime", "ratio", "of minima")
    rows = tuple(line for each in benches for line in cells(each, ("library", "tl2cgen", "onnxruntime")))
    lines = [_HEAD.format(rounds=benches[0].rounds, machine=on(benches[0])), *standing(benches), "", _COLUMNS]
    lines += [table.Table(head=head, rows=rows).markdown(), "", "## The models", ""]
    for each in benches:
        lines.append(f"- {each.model}: {each.description}.")
        lines += [f"  - {note}" for note in table.notes(each)]
        lines += ["", table.resources(each).markdown(), ""]
    return "\n".join([*lines, "## What was run", "", *how(benches)]) + "\n"


def main() -> None:
    chosen = options(
        __doc__, MODELS, peers="library,tl2cgen,onnxruntime", rounds=15, batch_sizes="1,16,256", name="trees"
    )
    print("\n".join(standing(compared(chosen, write_models, markdown, kind="models"))))


if __name__ == "__main__":
    main()
