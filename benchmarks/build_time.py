"""How long a build takes and how large a library gets, against TensorFlow's own command, in one run on one machine.

    .venv/bin/python benchmarks/build_time.py [--json]

The model is five dense layers of 128 units, for batch sizes 1, 2, 4, 8 and 16 and one target. Timed, in turn, several
times over (what counts is the median of each round's ratio, because machines are noisy):

  theirs    five processes `saved_model_cli aot_compile_cpu`, one after another, as its users run them; the models
            with fixed batch sizes that it needs are there already. It gives objects and headers, and no library.
  objects   one process of ours that does the same: start Python and TensorFlow, freeze, compile; the same five pairs,
            all of the model being XLA's code.
  whole     `tfaot-pkg build`, which leaves the model to the kernel library: freeze, the glue, the runtime, one static
            and one shared library, validation against TensorFlow at every batch size, and the installed package.

TensorFlow's environment is there before (both sides use the same one) and nothing of the model is in the build cache.
Parts of XLA's runtime that a model needs are compiled once per machine: `first`, our first build, includes them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from tfaot_pkg.frontends.frozen.model import FrozenModel, freeze  # noqa: E402
from tfaot_pkg.frontends.frozen.saved_model import SavedModel  # noqa: E402
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION  # noqa: E402
from tfaot_pkg.frontends.toolchain.environment import ensure  # noqa: E402
from tfaot_pkg.ground.progress import Silent  # noqa: E402
from tfaot_pkg.ground.settings import Folders  # noqa: E402
from tfaot_pkg.ground.targets import TARGETS  # noqa: E402
from tfaot_pkg.native.compiled.model import CompiledModel, compile_model  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.pipeline.pipeline import Pipeline, Plan  # noqa: E402
from tfaot_pkg.spec.parse import load_spec  # noqa: E402

SIZES = (1, 2, 4, 8, 16)
LEAST_SPEED_UP = 3.0
MOST_GROWTH = 1.35
_KEPT_BETWEEN_BUILDS = {"part"}

_SPEC = """\
model: {{name: dense, version: 1.0.0, saved_model: {saved_model}}}
compilation: {{batch_sizes: {sizes}, targets: [{target}]}}
"""


def objects_of(line: Pipeline, plan: Plan) -> tuple[FrozenModel, CompiledModel]:
    """The stages until there are tfcompile's headers and objects, from the cache if it has them."""
    with line.workers(line.environment_of(plan)) as pool:
        saved = SavedModel(plan.spec.model, plan.source, pool, plan.spec.compilation.variables)
        frozen = freeze(plan.spec, saved, key=plan.keys.frozen, pool=pool, cache=line.cache, progress=line.progress)
        made = compile_model(
            plan.spec, frozen,
            key=plan.keys.compiled, pool=pool, compiler=plan.compiler, cache=line.cache, progress=line.progress,
        )  # fmt: skip
    return frozen, made


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Seconds (all repetitions, in order) and bytes."""

    toolchain: str
    target: str
    theirs: list[float]
    objects: list[float]
    whole: list[float]
    first: float
    runtime_parts: int
    shared_library: dict[int, int]
    static_library: dict[int, int]

    @property
    def objects_speed_up(self) -> float:
        return _median_ratio(self.theirs, self.objects)

    @property
    def whole_speed_up(self) -> float:
        return _median_ratio(self.theirs, self.whole)

    @property
    def growth(self) -> dict[str, float]:
        """Size with five batch sizes over size with one."""
        pairs = {"shared": self.shared_library, "static": self.static_library}
        return {kind: sizes[len(SIZES)] / sizes[1] for kind, sizes in pairs.items()}

    @property
    def good(self) -> bool:
        fast = min(self.objects_speed_up, self.whole_speed_up) >= LEAST_SPEED_UP
        return fast and max(self.growth.values()) <= MOST_GROWTH

    def as_dict(self) -> dict[str, object]:
        return {
            **asdict(self),
            "objects_speed_up": self.objects_speed_up,
            "whole_speed_up": self.whole_speed_up,
            "growth": self.growth,
            "good": self.good,
        }


def _median_ratio(theirs: list[float], ours: list[float]) -> float:
    """Of the ratios within each round: what else the machine does concerns both sides of a round alike."""
    return statistics.median(their / our for their, our in zip(theirs, ours, strict=True))


class Benchmark:
    """All that is timed, in the folder `work`."""

    def __init__(self, python: Path, target: str, work: Path) -> None:
        self._python = python
        self._target = target
        self._work = work
        self._home = work / "home"
        self._env = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TFAOT_HOME": str(self._home),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "",
        }
        self._run([python, "-I", HERE / "dense_model.py", work / "models", *map(str, SIZES)])
        for sizes in (SIZES, SIZES[:1]):
            text = _SPEC.format(saved_model=work / "models" / "any", sizes=list(sizes), target=target)
            (work / f"spec{len(sizes)}.yaml").write_text(text)
            (work / f"xla{len(sizes)}.yaml").write_text(text.replace("compilation: {", "compilation: {kernels: none, "))

    def theirs(self) -> float:
        """Five processes, one after another."""
        out = self._empty("theirs")
        start = time.perf_counter()
        for size in SIZES:
            self._run([
                self._python, "-m", "tensorflow.python.tools.saved_model_cli", "aot_compile_cpu",
                "--dir", self._work / "models" / f"b{size}", "--tag_set", "serve",
                "--signature_def_key", "serving_default", "--output_prefix", out / f"dense_b{size}",
                "--cpp_class", f"bench::dense_b{size}", "--target_triple", TARGETS[self._target].triple,
                "--target_cpu", TARGETS[self._target].cpu,
            ])  # fmt: skip
        seconds = time.perf_counter() - start
        _require(len(list(out.glob("*.h"))) == len(SIZES), "saved_model_cli did not write its headers")
        return seconds

    def objects(self) -> float:
        """The stages of ours that give the same."""
        self._forget_model()
        start = time.perf_counter()
        self._run([sys.executable, __file__, "--objects", self._work / "xla5.yaml", "--toolchain-python", self._python])
        seconds = time.perf_counter() - start
        made = list(self._home.glob("cache/builds/compiled/*/*/*/*.h"))
        _require(len(made) == len(SIZES), "our headers are not there")
        return seconds

    def whole(self, sizes: int = len(SIZES)) -> float:
        """`tfaot-pkg build` with the first of `SIZES`."""
        self._forget_model()
        prefix = self._empty(f"prefix{sizes}")
        spec = self._work / f"spec{sizes}.yaml"
        start = time.perf_counter()
        self._run([sys.executable, "-m", "tfaot_pkg", "build", spec, "-o", prefix, "--toolchain-python", self._python])
        return time.perf_counter() - start

    def library_sizes(self, suffix: str) -> dict[int, int]:
        """Bytes of the libraries that `whole` made last."""
        name = f"lib/libtfaot-model-dense.{suffix}"
        return {number: (self._work / f"prefix{number}" / name).stat().st_size for number in (1, len(SIZES))}

    def runtime_parts(self) -> int:
        """The parts of XLA's runtime that the model asked for."""
        return len(list(self._home.glob("cache/builds/part/*/*/part.o")))

    def _forget_model(self) -> None:
        builds = self._home / "cache" / "builds"
        for stage in builds.iterdir() if builds.is_dir() else ():
            if stage.name not in _KEPT_BETWEEN_BUILDS:
                shutil.rmtree(stage)

    def _empty(self, name: str) -> Path:
        folder = self._work / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def _run(self, argv: list[str | Path]) -> None:
        done = subprocess.run(argv, env=self._env, cwd=self._work, capture_output=True, text=True, check=False)
        _require(done.returncode == 0, f"{argv}\n{done.stderr[-3000:]}")


def _require(condition: bool, message: str) -> None:
    if not condition:
        sys.exit(message)


def measure(python: Path, target: str, repetitions: int, work: Path) -> Result:
    bench = Benchmark(python, target, work)
    first = bench.whole()
    bench.theirs()  # both sides have their files in the kernel's cache
    rounds = [(bench.theirs(), bench.objects(), bench.whole()) for _ in range(repetitions)]
    bench.whole(1)
    theirs, objects, whole = map(list, zip(*rounds, strict=True))
    return Result(
        toolchain=DEFAULT_VERSION, target=target, theirs=theirs, objects=objects, whole=whole, first=first,
        runtime_parts=bench.runtime_parts(),
        shared_library=bench.library_sizes("so"), static_library=bench.library_sizes("a"),
    )  # fmt: skip


def report(result: Result) -> str:
    def row(name: str, seconds: list[float], what: str) -> str:
        spread = f"{min(seconds):.1f} to {max(seconds):.1f}"
        return f"{name:<8} {statistics.median(seconds):6.1f} s  ({spread:>12})  {what}"

    sizes_text = ", ".join(map(str, SIZES))
    model = f"five dense layers of 128 units, batch sizes {sizes_text}, {result.target}, TensorFlow {result.toolchain}"
    lines = [
        f"{model}; medians of {len(result.theirs)} rounds",
        row("theirs", result.theirs, "five saved_model_cli aot_compile_cpu processes: objects and headers"),
        row("objects", result.objects, f"ours: objects and headers, {result.objects_speed_up:.1f} times faster"),
        row("whole", result.whole, f"ours: validated, installed libraries, {result.whole_speed_up:.1f} times faster"),
        f"first    {result.first:6.1f} s  {'':14}  ours, whole, the first time ({result.runtime_parts} runtime parts)",
    ]
    for kind, sizes in (("shared", result.shared_library), ("static", result.static_library)):
        lines.append(
            f"{kind} library: {sizes[1]:,} bytes with 1 batch size, {sizes[len(SIZES)]:,} with {len(SIZES)}: "
            f"{result.growth[kind]:.2f} times"
        )
    wanted = f"wanted: at least {LEAST_SPEED_UP:g} times faster, at most {MOST_GROWTH:g} times the size"
    return "\n".join([*lines, f"{wanted}: {'yes' if result.good else 'NO'}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--toolchain-python", type=Path, help="a Python that has TensorFlow (default: our toolchain)")
    parser.add_argument("--target", default="x86-64-v3", choices=sorted(TARGETS))
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    # A process of ours against processes of theirs: the benchmark calls itself.
    parser.add_argument("--objects", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    python = options.toolchain_python or ensure(DEFAULT_VERSION, folders=Folders.of_user(), progress=Silent()).python
    if options.objects:
        line = Pipeline(folders=Folders.of_user(), progress=Silent(), toolchain_python=python)
        objects_of(line, line.plan(load_spec(options.objects, {})))
        return 0
    with tempfile.TemporaryDirectory(prefix="tfaot-benchmark-") as work:
        result = measure(python.absolute(), options.target, options.repetitions, Path(work))
    print(json.dumps(result.as_dict(), indent=2) if options.json else report(result))
    return 0 if result.good else 1


if __name__ == "__main__":
    sys.exit(main())
