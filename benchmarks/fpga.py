"""Networks of FPGAs beside the emulators of their authors: what docs/benchmarks/fpga.* hold.

    .venv/bin/python benchmarks/fpga.py [--networks NAME,...] [--rows 100000] [--rounds 9] [--batch-sizes 1,16,256]
        [--folder docs/benchmarks] [--work build/fpga] [--from fpga.json]

Networks are those of tests/hls4ml_lowering and tests/onnx_lowering. Each is built for the highest target that this
machine runs, and compared bit by bit with its emulator on all rows, at each batch size; then both compute the same rows
by turns, in one process and one thread (fpga.cpp). hls4ml's and conifer's emulators are C++ for one row, which g++ -O3
compiles, called by a loop in C++; QONNX's executor is Python, 1,000 rows in a call. Results of networks that are done
stay in the work folder: a run that was stopped goes on there.

--from draws the table anew from a fpga.json, and measures nothing.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from engines import ROOT, on_machine

from tfaot_pkg._version import __version__
from tfaot_pkg.cli.command import make_progress
from tfaot_pkg.frontends.toolchain.frontends import FRONTENDS, FrontendEnvironments
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.documents import convert, plain
from tfaot_pkg.ground.process import run
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.measure.bench import table
from tfaot_pkg.measure.bench.results import description, free_core
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.spec.parse import load_spec

Kind = Literal["hls4ml", "conifer", "qonnx"]

WORKER = ROOT / "tfaot_pkg" / "worker_program"
MAKERS = {
    "hls4ml": ROOT / "tests" / "hls4ml_lowering" / "hls4ml_networks.py",
    "conifer": ROOT / "tests" / "hls4ml_lowering" / "conifer_trees.py",
    "qonnx": ROOT / "tests" / "onnx_lowering" / "qonnx_networks.py",
}
NETWORKS: Mapping[str, tuple[Kind, str]] = {
    "dense": ("hls4ml", "dense layers 16, 64, 32, 5 and a softmax; `fixed<16,6>`: products lose bits"),
    "qkeras": ("hls4ml", "dense layers of QKeras: few bits, binary, ternary, powers of two"),
    "conv1d": ("hls4ml", "two convolutions over 20 x 4, pooling, a dense layer, softmax; products lose bits"),
    "conv2d": ("hls4ml", "a convolution and a depthwise one over 8 x 8 x 2, pooling, dense; `fixed<8,3>`"),
    "deep_sets": ("hls4ml", "two pointwise convolutions over 6 x 4, a mean, two dense layers; products lose bits"),
    "gru": ("hls4ml", "a GRU of 6 over 5 steps of 3, a dense layer"),
    "lstm": ("hls4ml", "an LSTM and a GRU of 4 over 4 steps of 3"),
    "attention": ("hls4ml", "two heads over 6 x 8 (EinsumDense, Einsum, softmax), and a sum"),
    "layer_norm": ("hls4ml", "two normalizations and a pointwise convolution over 4 x 8"),
    "plain": ("conifer", "30 trees of depth 5, two classes, `ap_fixed<16,6>`"),
    "classes": ("conifer", "80 trees of depth 4, four classes"),
    "qonnx_dense": ("qonnx", "dense layers 16, 64, 64, 64, 5 of 6 and 8 bits"),
    "qonnx_conv2d": ("qonnx", "convolutions over 3 x 12 x 12 with a residual sum and a concatenation"),
    "qonnx_bipolar": ("qonnx", "dense layers 24, 40, 40, 4 of numbers of one bit"),
}
"""The front-end of each network, and what it is."""
GOAL = 20  # times as fast as hls4ml's emulator
_SPEC = """\
model: {{name: {name}, version: 1.0.0, {kind}: {file}}}
compilation: {{batch_sizes: {sizes}, targets: [{target}]}}
validation: {{rtol: 0, atol: 0}}
"""
_HEAD = """\
# Networks of FPGAs compared

Made by `benchmarks/fpga.py`: packages beside the emulators of hls4ml, conifer and QONNX, with equal bits. One thread on
one core; minima of {rounds} rounds, in which emulator and package compute the same rows by turns; microseconds per row.

{machine}

{standing}

Emulators of hls4ml and conifer are C++ for one row, which g++ compiles with `-O3`, called by a loop in C++; "Python" is
`predict` of hls4ml, or QONNX's executor, with 1,000 rows. The last columns say how many times as fast as the emulator
(for QONNX: as its executor) the package is at each batch size, as the median of the rounds; for hls4ml the goal is
{goal}. "Different" are rows with other bits: of draws, steps of quantizers, limits of types and of float32, infinities
and NaN (not for QONNX).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Nanoseconds per row, one number for each round; `emulator` is empty if there is only one in Python.

    `different` are rows with other bits than the emulator's, at any batch size.
    """

    name: str
    kind: str
    what: str
    rows: int
    different: int
    emulator: tuple[float, ...]
    python: float | None
    ours: Mapping[str, tuple[float, ...]]
    machine: Mapping[str, Any]

    @property
    def theirs(self) -> float:
        return min(self.emulator) if self.emulator else self.python or 0.0

    def times(self, size: str) -> float:
        """How many times as fast as the emulator: the median of the rounds' ratios."""
        if not self.emulator:
            return self.theirs / min(self.ours[size])
        return statistics.median(a / b for a, b in zip(self.emulator, self.ours[size], strict=True))


class Benchmark:
    def __init__(self, work: Path, *, rows: int, rounds: int, sizes: Sequence[int]) -> None:
        self._work, self._rows, self._rounds, self._sizes = work, rows, rounds, sizes
        folders = Folders.of_user()
        self._line = Pipeline(folders=folders, progress=make_progress(verbose=False))
        self._environments = FrontendEnvironments(folders=folders, progress=self._line.progress)
        self._target = max(filter(runs_here, TARGETS.values()), key=lambda target: target.level).name

    def result(self, name: str) -> Result:
        kind, what = NETWORKS[name]
        folder = self._work / "networks" / kind
        place = self._made(kind, name.removeprefix("qonnx_"), folder)
        file = next(path.name for path in place.iterdir() if path.suffix in (".fml", ".onnx") or _is_trees(path))
        spec = place / "spec.yaml"
        sizes = [*self._sizes]
        spec.write_text(_SPEC.format(name=f"fpga_{name}", kind=kind, file=file, sizes=sizes, target=self._target))
        plan = self._line.plan(load_spec(spec))
        library = self._line.build(plan).library.shared
        program = self._work / "fpga"
        if not program.exists():
            plan.compiler.program(ROOT / "benchmarks" / "fpga.cpp", program, includes=[resources.headers()])
        rows, emulator = dict(np.load(place / "rows.npz")), json.loads((place / "emulator.json").read_text())
        (x,) = (values for key, values in rows.items() if key.startswith("in/"))
        (y,) = (values for key, values in rows.items() if key.startswith("out/"))
        x.tofile(place / "rows.bin")
        printed = run(
            [
                "taskset", "-c", str(free_core()), program, library, self._target, emulator["library"],
                emulator["symbol"], place / "rows.bin", str(len(x)), place / "answers", str(self._rounds),
                *map(str, sizes),
            ],
            timeout=3600,
        ).stdout  # fmt: skip
        theirs, *ours = zip(*([float(word) for word in line.split()] for line in printed.splitlines()), strict=True)
        found = {size: np.fromfile(place / f"answers.{size}", np.float32).reshape(y.shape) for size in sizes}
        if emulator["library"]:
            # What was timed is what gave the answers.
            timed = np.fromfile(place / "answers.emulator", np.float32).reshape(y.shape)
            if not np.array_equal(_bits(timed), _bits(y)):
                raise ValueError(f"{name}: the emulator gives other answers to a program in C++ than to Python")
        off = np.any([(_bits(each) != _bits(y)).reshape(len(y), -1).any(1) for each in found.values()], axis=0)
        for made in place.glob("answers.*"):
            made.unlink()
        return Result(
            name=name, kind=kind, what=what, rows=len(x), different=int(off.sum()),
            emulator=theirs if emulator["library"] else (), python=emulator["python"],
            ours={str(size): each for size, each in zip(sizes, ours, strict=True)},
            machine={**description(free_core(), plan.compiler.version), "version": __version__},
        )  # fmt: skip

    def _made(self, kind: Kind, name: str, folder: Path) -> Path:
        """The folder of the network, with its rows and its emulator."""
        place = folder / name
        if not (place / "emulator.json").exists():
            folder.mkdir(parents=True, exist_ok=True)
            python = self._environments.ensure(FRONTENDS[kind]).python
            maker = ROOT / "benchmarks" / "fpga_emulators.py"
            run(
                [python, "-I", "-B", maker, WORKER, MAKERS[kind], kind, folder, name, str(self._rows)],
                timeout=3600,
            )
        return place


def _is_trees(path: Path) -> bool:
    return path.suffix == ".json" and path.stem == path.parent.name


def _bits(values: Array) -> Array:
    # The executor of QONNX has zeros of both signs, where integers have one.
    whole: Array = (values + np.float32(0)).astype(np.float32).view(np.uint32)
    return whole


def standing(results: Sequence[Result]) -> str:
    equal = sum(not each.different for each in results)
    rows = min(each.rows for each in results)
    lines = [f"Equal bits in {equal} of {len(results)} networks, on {rows:,} rows each at every batch size."]
    cells = [(each, size) for each in results if each.kind == "hls4ml" for size in each.ours]
    if cells:
        mean = table.geometric_mean([each.times(size) for each, size in cells])
        least, size = min(cells, key=lambda cell: cell[0].times(cell[1]))
        reached = sum(each.times(size) >= GOAL for each, size in cells)
        lines.append(
            f"Beside hls4ml's emulator {mean:.0f} times as fast (geometric mean); {GOAL} times in {reached} of "
            f"{len(cells)} cells (network and batch size). Least: {least.name}, batch {size}: {least.times(size):.1f}."
        )
    return "\n".join(lines)


def markdown(results: Sequence[Result]) -> str:
    sizes = [*results[0].ours]
    head = ("network", "of", "different", "emulator", "Python", *(f"ours, {size}" for size in sizes))
    head += tuple(f"times, {size}" for size in sizes)
    rows = tuple(
        (
            *(each.name, each.kind, str(each.different)),
            table.micro(min(each.emulator)) if each.emulator else "-",
            table.micro(each.python) if each.python else "-",
            *(table.micro(min(each.ours[size])) for size in sizes),
            *(f"{each.times(size):.0f}" if each.times(size) >= 10 else f"{each.times(size):.1f}" for size in sizes),
        )
        for each in results
    )
    machine = results[-1].machine
    text = _HEAD.format(
        rounds=min(len(each) for found in results for each in found.ours.values()),
        machine=on_machine(machine, machine["version"]), standing=standing(results), goal=GOAL,
    )  # fmt: skip
    lines = [text, table.Table(head=head, rows=rows).markdown(), "", "## The networks", ""]
    return "\n".join([*lines, *(f"- {each.name}: {each.what}." for each in results)]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch-sizes", default="1,16,256")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "benchmarks")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "fpga")
    parser.add_argument("--from", dest="source", type=Path)
    given = parser.parse_args()
    if given.source:
        results = [convert(Result, each) for each in json.loads(given.source.read_text())["networks"]]
    else:
        given.work.mkdir(parents=True, exist_ok=True)
        sizes = [*map(int, given.batch_sizes.split(","))]
        benchmark, results = Benchmark(given.work.resolve(), rows=given.rows, rounds=given.rounds, sizes=sizes), []
        for name in given.networks.split(","):
            kept = given.work / f"{name}.json"
            if not kept.exists():
                print(f"== {name}", file=sys.stderr, flush=True)
                kept.write_text(json.dumps(plain(benchmark.result(name))))
            results.append(convert(Result, json.loads(kept.read_text())))
    given.folder.mkdir(parents=True, exist_ok=True)
    document = {"format": 1, "networks": [plain(each) for each in results]}
    (given.folder / "fpga.json").write_text(json.dumps(document, separators=(",", ":")) + "\n")
    (given.folder / "fpga.md").write_text(markdown(results))
    print(standing(results))


if __name__ == "__main__":
    main()
