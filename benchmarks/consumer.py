"""What a model's library costs the program that uses it: seconds to compile, nanoseconds to call.

    .venv/bin/python benchmarks/consumer.py [--json]

Two models (benchmarks/consumer_program/make_models.py): five dense layers of 128 units, and the identity, whose call
is all overhead. Everything runs in turn, several times over; what counts is the median of each round's ratio or
difference, because machines are noisy.

Compiled, each to an object with -O2; times are those of the CPU, which on an idle machine are those of the clock:

  ours_header, theirs_header   a source that includes the headers and nothing else: <tfaot/model.h> and the model's,
                               or the one that tfcompile generates for the same model, with TensorFlow's headers
  ours, nested, theirs         the same with a run: ours on contiguous buffers, or on nested vectors

Called at batch size 1 (benchmarks/consumer_program/calls.cc), all in one program on one thread, buffers aligned. All
of the models is XLA's code, so that its function is complete:

  bare        the function that tfcompile made, called by its name over a table of buffers that is filled in once:
              tfcompile's own object, the one that the library is linked from, is linked beside the library
  C           `run` of the C ABI
  class       `run` of the generated class, which checks sizes
  contiguous  `run` of tfaot::Model on spans
  nested      `run` of tfaot::Model on nested vectors, which also makes the vectors of the results

and the last two at larger batch sizes, of which the last is composed of compiled ones.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from build_time import objects_of  # noqa: E402

from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION  # noqa: E402
from tfaot_pkg.ground import resources  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.ground.progress import Silent  # noqa: E402
from tfaot_pkg.ground.settings import Folders  # noqa: E402
from tfaot_pkg.ground.targets import TARGETS  # noqa: E402
from tfaot_pkg.native.compiled.model import weight_offsets  # noqa: E402
from tfaot_pkg.native.xla_runtime import Parts  # noqa: E402
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan  # noqa: E402
from tfaot_pkg.spec.parse import load_spec  # noqa: E402
from tfaot_pkg.spec.rules import package_name  # noqa: E402

SOURCES = HERE / "consumer_program"
SIZES = (1, 4, 16, 64)
MODELS = ("dense", "identity")
MOST_SECONDS = 0.5
MOST_OVERHEAD = 0.05
MOST_NANOSECONDS = 150.0

_SPEC = """\
model: {{name: {name}, version: 1.0.0, saved_model: {saved_model}}}
compilation: {{batch_sizes: {sizes}, targets: [{target}], weights: {weights}, kernels: none}}
"""
_FLAGS = ("-std=c++17", "-O2", "-DNDEBUG")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`compiled`: seconds by source. `calls`: nanoseconds by model, batch size and way. All of them one per round."""

    toolchain: str
    target: str
    compiled: dict[str, list[float]]
    calls: dict[str, dict[int, dict[str, list[float]]]]

    def seconds(self, source: str) -> float:
        return statistics.median(self.compiled[source])

    def over_bare(self, model: str, way: str) -> tuple[float, float]:
        """What a call takes beyond the bare function at batch size 1: nanoseconds, and as a part of the latter."""
        bare, times = self.calls[model][1]["bare"], self.calls[model][1][way]
        pairs = list(zip(times, bare, strict=True))
        return statistics.median(t - b for t, b in pairs), statistics.median(t / b for t, b in pairs) - 1

    @property
    def good(self) -> bool:
        quick = self.seconds("ours_header") < MOST_SECONDS
        small = all(self.over_bare("dense", way)[1] < MOST_OVERHEAD for way in ("C", "class", "contiguous"))
        return quick and small and self.over_bare("identity", "contiguous")[0] < MOST_NANOSECONDS

    def as_dict(self) -> dict[str, object]:
        over = {
            model: {way: self.over_bare(model, way) for way in self.calls[model][1] if way != "bare"}
            for model in MODELS
        }
        return {**asdict(self), "over_bare": over, "good": self.good}


class Benchmark:
    """All that is timed, in the folder `work`."""

    def __init__(self, python: Path | None, target: str, work: Path) -> None:
        self._work = work
        self._target = target
        # A cache of its own, but the user's toolchain.
        folders = Folders(cache=work / "cache", data=work / "data")
        self._line = Pipeline(folders=folders, progress=Silent(), toolchain_python=python or _default_python())
        _run([self._line.toolchain_python, "-I", SOURCES / "make_models.py", work / "models"], work)
        self._programs = {name: self._prepared(name) for name in MODELS}
        self._sources = self._consumers()

    def compile_once(self) -> dict[str, float]:
        """CPU seconds of compiling each source."""
        return {name: self._timed(name, flags) for name, flags in self._sources.items()}

    def calls(self, model: str, rounds: int) -> dict[int, dict[str, list[float]]]:
        """Nanoseconds per call, one per round, by batch size and way."""
        program, weights, offsets = self._programs[model]
        found: dict[int, dict[str, list[float]]] = {}
        for line in _run([program, str(rounds), weights, *map(str, offsets)], self._work).splitlines():
            size, way, *times = line.split()
            found.setdefault(int(size), {})[way] = [float(each) for each in times]
        return found

    def _timed(self, source: str, flags: Sequence[str | Path]) -> float:
        start = _cpu_time_of_children()
        _run(["g++", *_FLAGS, *flags, "-c", SOURCES / f"{source}.cc", "-o", self._work / f"{source}.o"], self._work)
        return _cpu_time_of_children() - start

    def _plan(self, name: str, sizes: Sequence[int], weights: str) -> Plan:
        spec = self._work / f"{name}-{weights}.yaml"
        saved_model = self._work / "models" / name
        spec.write_text(
            _SPEC.format(name=name, saved_model=saved_model, sizes=list(sizes), target=self._target, weights=weights)
        )
        return self._line.plan(load_spec(spec, {}))

    def _prepared(self, name: str) -> tuple[Path, Path, list[int]]:
        """The program that times calls of a model, and the file and offsets of the bare function's weights."""
        plan = self._plan(name, SIZES, "shared")
        tree = self._line.build(plan).tree
        frozen, compiled = objects_of(self._line, plan)
        offsets, weights = weight_offsets(compiled.weights), self._work / f"{name}.weights"
        with weights.open("wb") as blob:
            for weight, offset in zip(compiled.weights, offsets, strict=True):
                blob.write(bytes(offset - blob.tell()))
                blob.write(frozen.weight(weight))
        unit = compiled.units[0]
        parts = Parts(
            environment=self._line.environment(plan.spec), compiler=plan.compiler, cache=self._line.cache
        ).objects_for(unit.target, unit.objects)
        native = resources.templates() / "native"
        program = self._work / f"calls-{name}"
        _run([
            "g++", *_FLAGS, f"-DMODEL={name}", f"-DMODEL_HEADER=<{package_name(name)}/model.h>",
            "-I", tree.root / "include", "-I", native, "-I", native / "classic", "-isystem", unit.folder,
            SOURCES / "calls.cc", *unit.objects, *parts.values(), tree.static_library,
            "-o", program,
        ], self._work)  # fmt: skip
        return program, weights, offsets

    def _consumers(self) -> dict[str, list[str | Path]]:
        """The sources to compile, with their flags. Theirs has its weights inside, as tfcompile's users have them."""
        prefix = self._line.build(self._plan("dense", SIZES, "shared")).tree.root
        plan = self._plan("dense", SIZES[:1], "embedded")
        _, compiled = objects_of(self._line, plan)
        ours: list[str | Path] = ["-I", prefix / "include"]
        tensorflow = self._line.environment(plan.spec).include
        theirs: list[str | Path] = ["-I", compiled.units[0].folder, "-isystem", tensorflow]
        return {"ours_header": ours, "theirs_header": theirs, "ours": ours, "nested": ours, "theirs": theirs}


def _cpu_time_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _default_python() -> Path:
    from tfaot_pkg.frontends.toolchain.environment import ensure

    return ensure(DEFAULT_VERSION, folders=Folders.of_user(), progress=Silent()).python


def _run(argv: Sequence[str | Path | None], folder: Path) -> str:
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": ""}
    words = [str(word) for word in argv]
    done = subprocess.run(words, env=env, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{words}\n{done.stderr[-3000:]}")
    return done.stdout


def measure(python: Path | None, target: str, repetitions: int, rounds: int, work: Path) -> Result:
    bench = Benchmark(python, target, work)
    bench.compile_once()  # the headers are in the kernel's cache
    times = [bench.compile_once() for _ in range(repetitions)]
    return Result(
        toolchain=DEFAULT_VERSION, target=target,
        compiled={source: [each[source] for each in times] for source in times[0]},
        calls={model: bench.calls(model, rounds) for model in MODELS},
    )  # fmt: skip


def report(result: Result) -> str:
    repetitions, rounds = len(result.compiled["ours"]), len(result.calls["dense"][1]["bare"])
    lines = [
        f"TensorFlow {result.toolchain}, {result.target}; medians of {repetitions} compilations, {rounds} rounds",
        "",
        "compile            seconds",
    ]
    lines += [f"  {source:<15} {result.seconds(source):8.2f}" for source in result.compiled]
    for model in MODELS:
        lines += ["", f"{model + ', batch size 1':<20} ns per call   beyond the bare function"]
        for way, values in result.calls[model][1].items():
            beyond, part = (0.0, 0.0) if way == "bare" else result.over_bare(model, way)
            over = "" if way == "bare" else f"{beyond:10.0f} ns {part:9.1%}"
            lines.append(f"  {way:<18} {statistics.median(values):10.0f}   {over}")
        lines += ["", f"{model + ', batch size':<20} contiguous      nested"]
        for size, ways in result.calls[model].items():
            both = [statistics.median(ways[way]) for way in ("contiguous", "nested")]
            ratio = statistics.median(n / c for n, c in zip(ways["nested"], ways["contiguous"], strict=True))
            lines.append(f"  {size:<18} {both[0]:10.0f}  {both[1]:10.0f}   {ratio:.2f} times")
    wanted = (
        f"wanted: our headers compiled in less than {MOST_SECONDS:g} s; contiguous calls less than {MOST_OVERHEAD:.0%} "
        f"beyond the bare function for dense, less than {MOST_NANOSECONDS:g} ns for identity"
    )
    return "\n".join([*lines, "", f"{wanted}: {'yes' if result.good else 'NO'}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--toolchain-python", type=Path, help="a Python that has TensorFlow (default: our toolchain)")
    parser.add_argument("--target", default="x86-64-v3", choices=sorted(TARGETS))
    parser.add_argument("--repetitions", type=int, default=7, help="of compiling")
    parser.add_argument("--rounds", type=int, default=101, help="of calls")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    python = options.toolchain_python and options.toolchain_python.absolute()
    with tempfile.TemporaryDirectory(prefix="tfaot-benchmark-") as work:
        result = measure(python, options.target, options.repetitions, options.rounds, Path(work))
    print(json.dumps(result.as_dict(), indent=2) if options.json else report(result))
    return 0 if result.good else 1


if __name__ == "__main__":
    sys.exit(main())
