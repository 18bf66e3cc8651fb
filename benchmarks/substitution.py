"""Whether the kernel library ever makes a network slower: networks of many kinds, with it and without it.

    .venv/bin/python benchmarks/substitution.py [NETWORK...] [--target x86-64-v3] [--tensorflow 2.21.0] [--below 0.95]
                                              [--json]

Each network of other_networks.py is built twice, as it is built by default and with `kernels: none`, where all code is
XLA's, and both libraries are timed in turns in one process (substitution.cpp). The first is validated against
TensorFlow. What is printed is how many times faster the default is, by batch size, and XLA's time at the first one.
Networks with a ratio below `--below` end the run with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT))

from tfaot_pkg import resources  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.cache import BuildCache  # noqa: E402
from tfaot_pkg.compiled.model import compile_model  # noqa: E402
from tfaot_pkg.cxx.compiler import Compiler, find_compiler  # noqa: E402
from tfaot_pkg.errors import TfaotError  # noqa: E402
from tfaot_pkg.folders import Folders  # noqa: E402
from tfaot_pkg.frozen.model import freeze  # noqa: E402
from tfaot_pkg.native.build import build_native  # noqa: E402
from tfaot_pkg.native.library import NativeLibrary  # noqa: E402
from tfaot_pkg.pipeline import pinned_toolchain, stage_keys  # noqa: E402
from tfaot_pkg.process import run  # noqa: E402
from tfaot_pkg.progress import Silent  # noqa: E402
from tfaot_pkg.source.tree import (  # noqa: E402
    Snapshot,
    fetch,
    source_tree,
)
from tfaot_pkg.spec.parse import load_spec  # noqa: E402
from tfaot_pkg.toolchain.definition import DEFAULT_VERSION  # noqa: E402
from tfaot_pkg.toolchain.environment import ensure  # noqa: E402
from tfaot_pkg.toolchain.worker import WorkerPool  # noqa: E402
from tfaot_pkg.verify.validate import inputs_document, validate  # noqa: E402

_TIMEOUT = 600.0


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Nanoseconds of one run, by batch size: by default, and of XLA's code alone. `layers` are in calls, of so many."""

    network: str
    layers: int
    of: int
    calls: int
    ours: dict[int, float]
    xla: dict[int, float]

    @property
    def ratios(self) -> dict[int, float]:
        return {size: self.xla[size] / self.ours[size] for size in self.ours}


class Benchmark:
    """Builds and times networks for one target, with one process of TensorFlow."""

    def __init__(self, target: str, folder: Path, folders: Folders, pool: WorkerPool) -> None:
        self._target, self._folder, self._folders, self._pool = target, folder, folders, pool
        self._cache = BuildCache(root=folders.builds)
        self._compiler = self._find_compiler("substitution")
        self._program = folder / "substitution"
        self._compiler.program(HERE / "substitution.cpp", self._program, includes=[resources.headers()])

    def _find_compiler(self, name: str) -> Compiler:
        return find_compiler("x86_64", log=self._folders.logs / f"{name}.log", output=lambda _: None)

    def measure(self, network: str) -> Measured:
        ours, *counts = self._built(network, "auto")
        xla, *_ = self._built(network, "none")
        printed = run([self._program, self._target, ours.shared, xla.shared], timeout=_TIMEOUT).stdout
        rows = [line.split() for line in printed.splitlines()]
        return Measured(
            network=network, layers=counts[0], of=counts[1], calls=counts[2],
            ours={int(row[0]): float(row[1]) for row in rows}, xla={int(row[0]): float(row[2]) for row in rows},
        )  # fmt: skip

    def _built(self, network: str, kernels: Literal["auto", "none"]) -> tuple[NativeLibrary, int, int, int]:
        """The library, how many layers it leaves to the kernel library, of how many, in how many calls."""
        spec = load_spec(self._folder / network / "spec.yaml")
        version = self._pool.environment.toolchain.version
        compilation = replace(spec.compilation, kernels=kernels, targets=(self._target,), tensorflow=version)
        spec = replace(spec, compilation=compilation)
        pool, cache, progress = self._pool, self._cache, Silent()
        source = source_tree(fetch(spec.source, folders=self._folders, progress=progress), Path(spec.model.saved_model))
        inputs = inputs_document(spec)
        keys = stage_keys(spec, source, pinned_toolchain(version), self._compiler, inputs=inputs)
        snapshot = Snapshot(source, pool.new_folder)
        frozen = freeze(spec, snapshot, key=keys.frozen, pool=pool, cache=cache, progress=progress)
        compiled = compile_model(
            spec, frozen, key=keys.compiled, pool=pool, compiler=self._compiler, cache=cache, progress=progress
        )
        library = build_native(
            spec, frozen, compiled,
            key=keys.native, environment=pool.environment, compiler=self._compiler, cache=cache, progress=progress,
        )  # fmt: skip
        if kernels == "auto":
            validate(
                spec, snapshot, frozen, library,
                engine=compiled.engine, key=keys.validation, inputs=inputs, compiler=self._compiler, pool=pool,
                cache=cache, progress=progress,
            )  # fmt: skip
        calls = compiled.units[0].calls
        return library, sum(len(call.layers) for call in calls), len(frozen.layers), len(calls)


@contextmanager
def _benchmark(target: str, version: str, networks: list[str]) -> Iterator[tuple[Benchmark, list[str]]]:
    folders = Folders.of_user()
    environment = ensure(version, folders=folders, progress=Silent())
    with tempfile.TemporaryDirectory(prefix="tfaot-benchmark-") as scratch:
        folder = Path(scratch)
        run([environment.python, HERE / "other_networks.py", folder, *networks], timeout=_TIMEOUT)
        names = networks or sorted(path.name for path in folder.iterdir())
        with WorkerPool(environment, scratch_root=folders.builds, logs=folders.logs) as pool:
            yield Benchmark(target, folder, folders, pool), names


def _line(measured: Measured) -> str:
    ratios = " ".join(f"{ratio:6.2f}" for ratio in measured.ratios.values())
    layers = f"{measured.layers}/{measured.of} in {measured.calls}"
    first = next(iter(measured.xla.values())) / 1e3
    return f"{measured.network:20}{layers:>12}{first:10.2f} us {ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--target", default="x86-64-v3")
    parser.add_argument("--tensorflow", default=DEFAULT_VERSION)
    parser.add_argument("--below", type=float, default=0.95)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: list[Measured] = []
    failed: list[str] = []
    with _benchmark(arguments.target, arguments.tensorflow, arguments.networks) as (benchmark, names):
        for name in names:
            try:
                found.append(benchmark.measure(name))
            except TfaotError as error:
                failed.append(name)
                print(f"{name}: {error.message}", file=sys.stderr)
                continue
            if not arguments.json:
                if len(found) == 1:
                    sizes = " ".join(f"{size:>6}" for size in found[0].ours)
                    print(f"{'network':20}{'layers':>12}{'XLA':>13} {sizes}")
                print(_line(found[-1]), flush=True)
    if not found:
        sys.exit(1)
    ratios = [ratio for each in found for ratio in each.ratios.values()]
    slower = [each.network for each in found if min(each.ratios.values()) < arguments.below]
    if arguments.json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"geometric mean {mean:.2f}, least {min(ratios):.2f}")
        print(f"below {arguments.below}: {', '.join(slower) or 'none'}")
    sys.exit(1 if slower or failed else 0)


if __name__ == "__main__":
    main()
