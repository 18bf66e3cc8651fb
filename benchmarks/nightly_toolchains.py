"""What a further toolchain costs a night: processor time of `tfaot-pkg nightly run` with one toolchain, and with two.

    .venv/bin/python benchmarks/nightly_toolchains.py [--models 5] [--rounds 3] [--json FILE]

The models are small dense networks of different widths, each for one target; all become programs, so a further
toolchain leads to the library of the first (docs/decisions/104). Builds run one at a time on this machine, without
Dask. Each night begins with an empty cache, except for toolchains and the parts that all models share, which are
compiled once per machine. Time is that of all processes together, as `perf stat` counts it: the kernel does not add
that of killed workers to their parents'.

  one, two   seconds of processor time per model, build and publication: the median of all rounds
  further    what the second toolchain adds; its share of `one` says what N toolchains cost
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
from pathlib import Path

from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION
from tfaot_pkg.frontends.toolchain.environment import ensure
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders

_HERE = Path(__file__).resolve().parent
_TOOLCHAINS = (DEFAULT_VERSION, "2.21.0")
_TARGET = "x86-64-v3"
_SHARED = ("common", "part", "timer")  # of a build cache: made once per machine
_MODELS = """
import sys
import numpy as np, tensorflow as tf
for number in range(int(sys.argv[2])):
    random, units = np.random.default_rng(number), 24 + 4 * number
    kernels = [tf.constant(random.normal(0, 0.3, (units, units)).astype("float32")) for _ in range(3)]
    module = tf.Module()
    @tf.function(input_signature=[tf.TensorSpec((None, units), tf.float32, name="x")])
    def answer(x):
        for kernel in kernels:
            x = tf.nn.relu(tf.matmul(x, kernel))
        return {"y": x}
    module.answer = answer
    tf.saved_model.save(module, f"{sys.argv[1]}/dense{number}/model", signatures={"serving_default": answer})
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    folders = Folders.of_user()
    python = ensure(DEFAULT_VERSION, folders=folders, progress=Silent()).python
    ensure(_TOOLCHAINS[1], folders=folders, progress=Silent())
    with tempfile.TemporaryDirectory(prefix="tfaot-toolchains-") as name:
        root = Path(name)
        _make_models(root, python, given.models)
        warm = _home(root / "warm", folders.cache, None)
        _night(root, warm, _TOOLCHAINS)
        found: dict[str, list[float]] = {"one": [], "two": []}
        for _ in range(given.rounds):
            for word, some in (("one", _TOOLCHAINS[:1]), ("two", _TOOLCHAINS)):
                home = _home(root / "home", folders.cache, warm)
                found[word].append(_night(root, home, some) / given.models)
    one, two = (statistics.median(found[word]) for word in ("one", "two"))
    sys.stdout.write(f"one {one:.2f} s, two {two:.2f} s, further {two - one:.2f} s ({(two - one) / one:.2f} of one)\n")
    if given.json is not None:
        given.json.write_text(json.dumps(found, indent=1) + "\n")


def _make_models(root: Path, python: Path, count: int) -> None:
    models = root / "models"
    subprocess.run([python, "-I", "-c", _MODELS, models, str(count)], check=True, capture_output=True)
    for number in range(count):
        (models / f"dense{number}" / "spec.yaml").write_text(
            f"model: {{name: dense{number}, version: 1.0.0, saved_model: model}}\n"
            f"compilation: {{batch_sizes: [1, 4], targets: [{_TARGET}]}}\n"
        )


def _home(home: Path, cache: Path, warm: Path | None) -> Path:
    shutil.rmtree(home, ignore_errors=True)
    (home / "cache" / "builds").mkdir(parents=True)
    (home / "cache" / "toolchains").symlink_to(cache / "toolchains")
    for name in _SHARED if warm is not None else ():
        assert warm is not None
        shutil.copytree(warm / "cache" / "builds" / name, home / "cache" / "builds" / name)
    return home


def _night(root: Path, home: Path, toolchains: tuple[str, ...]) -> float:
    """Seconds of processor time of a night with these toolchains."""
    for name in ("registry", "nightly-state"):
        shutil.rmtree(root / name, ignore_errors=True)
    definition = root / "registry.yaml"
    definition.write_text(
        f"registry: registry\nmodels: [{{spec: models/*/spec.yaml}}]\ntoolchains: [{', '.join(toolchains)}]\n"
    )
    counted = root / "seconds"
    done = subprocess.run(
        ["perf", "stat", "-x", ",", "-e", "task-clock", "-o", counted, "--",
         sys.executable, "-m", "tfaot_pkg", "nightly", "run", definition, "--no-dask", "--workers", "1"],
        env={**os.environ, "TFAOT_HOME": str(home)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (line for line in counted.read_text().splitlines() if "task-clock" in line)
    return float(line.partition(",")[0]) / 1000


if __name__ == "__main__":
    main()
