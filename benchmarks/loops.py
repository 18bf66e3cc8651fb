"""Programs of ours beside XLA's code for the same small models: compilation.engine `program` and `xla`, one table.

    .venv/bin/python benchmarks/loops.py [--models NAME,...] [--batch-sizes 1,16,256] [--work build/loops]

The models are those of loop_models.py: one operation each, or a short chain. Times are minima of many short runs in
which all libraries take turns, in microseconds, on the highest target that this machine runs; models are sorted by our
time over XLA's at the batch size where that is largest. Nothing is verified: the tests do that.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tfaot_pkg.errors import TfaotError  # noqa: E402
from tfaot_pkg.frontends.frozen.model import freeze  # noqa: E402
from tfaot_pkg.frontends.frozen.saved_model import SavedModel  # noqa: E402
from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION  # noqa: E402
from tfaot_pkg.frontends.toolchain.environment import ensure  # noqa: E402
from tfaot_pkg.ground.process import run  # noqa: E402
from tfaot_pkg.ground.progress import Silent  # noqa: E402
from tfaot_pkg.ground.settings import Folders  # noqa: E402
from tfaot_pkg.ground.targets import TARGETS, runs_here  # noqa: E402
from tfaot_pkg.native.build import build_native  # noqa: E402
from tfaot_pkg.native.compiled.model import compile_model  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.native.cxx.compiler import find_compiler  # noqa: E402
from tfaot_pkg.pipeline.pipeline import Pipeline  # noqa: E402
from tfaot_pkg.spec.types import Compilation, Engine, FolderSource, ModelInfo, ModelSpec, SavedModelFiles  # noqa: E402
from tfaot_pkg.verify.latency import timer  # noqa: E402
from tfaot_pkg.worker_program.messages.requests import ModelFault  # noqa: E402

ENGINES: tuple[Engine, ...] = ("program", "xla")
_AT_ONCE = 6
"""Models whose libraries take turns: the timer measures for half a second each, and a minute in all."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Microseconds of a model by batch size, of both engines."""

    model: str
    ours: dict[int, float]
    xla: dict[int, float]

    @property
    def ratio(self) -> float:
        return max(self.ours[size] / self.xla[size] for size in self.ours)

    def __str__(self) -> str:
        cells = [f"{self.ours[size]:.2f} | {self.xla[size]:.2f}" for size in self.ours]
        return f"| {self.model} | {' | '.join(cells)} | {self.ratio:.2f} |"


def libraries(
    names: Sequence[str], folder: Path, sizes: tuple[int, ...], line: Pipeline
) -> dict[tuple[str, Engine], Path]:
    """The shared library of each model and engine; a model that an engine does not know is left out."""
    found = {}
    target = _target()
    environment = ensure(DEFAULT_VERSION, folders=line.folders, progress=line.progress)
    with line.workers(environment) as pool:
        for name in names:
            for engine in ENGINES:
                spec = ModelSpec(
                    path=folder / f"{name}.yaml",
                    model=ModelInfo(name=name.lower(), version="1.0.0", files=SavedModelFiles(path=name)),
                    source=FolderSource(path=folder),
                    compilation=Compilation(batch_sizes=sizes, targets=(target,), engine=engine),
                )
                plan = line.plan(spec)
                try:
                    saved = SavedModel(spec.model, plan.source, pool, spec.compilation.variables)
                    frozen = freeze(
                        spec, saved, key=plan.keys.frozen, pool=pool, cache=line.cache, progress=line.progress
                    )
                    compiled = compile_model(
                        spec, frozen, key=plan.keys.compiled, pool=pool, compiler=plan.compiler, cache=line.cache,
                        progress=line.progress,
                    )  # fmt: skip
                    found[name, engine] = build_native(
                        spec, frozen, compiled, environment=environment, compiler=plan.compiler,
                        cache=line.cache, progress=line.progress,
                    ).shared  # fmt: skip
                except (TfaotError, ModelFault) as error:
                    print(f"{name}, {engine}: {error}", file=sys.stderr)
                print(f"{name}, {engine}", file=sys.stderr, flush=True)
    return found


def _target() -> str:
    return max((target for target in TARGETS.values() if runs_here(target)), key=lambda target: target.level).name


def measured(found: dict[tuple[str, Engine], Path], line: Pipeline) -> list[Line]:
    names = [name for name, engine in found if engine == "xla" and (name, "program") in found]
    compiler = find_compiler(TARGETS[_target()].architecture, log=line.folders.logs / "loops.log", output=print)
    lines = []
    clock = timer(compiler, line.cache)
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        times = clock.times({found[name, engine]: [_target()] for name in some for engine in ENGINES})
        least = {(unit.library, unit.batch_size): min(each) / 1e3 for unit, each in times.items()}
        for name in some:
            ours, xla = (
                {size: time for (library, size), time in least.items() if library == found[name, engine]}
                for engine in ENGINES
            )
            lines.append(Line(model=name, ours=ours, xla=xla))
    return sorted(lines, key=lambda each: -each.ratio)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="")
    parser.add_argument("--batch-sizes", default="1,16,256")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "loops")
    given = parser.parse_args()
    sizes = tuple(map(int, given.batch_sizes.split(",")))
    line = Pipeline(folders=Folders.of_user(), progress=Silent())
    python = ensure(DEFAULT_VERSION, folders=line.folders, progress=line.progress).python
    folder = given.work / "models"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in given.models.split(",") if name]
    made = run([python, "-I", "-B", ROOT / "benchmarks" / "loop_models.py", folder, *chosen], timeout=1800)
    lines = measured(libraries(made.stdout.split(), folder, sizes, line), line)
    heads = [f"ours, {size} | XLA, {size}" for size in sizes]
    print(f"| model | {' | '.join(heads)} | ratio |")
    print("|".join(["", "---", *("--:|--:" for _ in sizes), "--:", ""]))
    print("\n".join(map(str, lines)))
    print(f"Load: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
