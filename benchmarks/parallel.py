"""How much faster two threads are than one: `run_parallel` against `run` of tfaot::Model, in one process, in turn.

    .venv/bin/python benchmarks/parallel.py [--rounds 9] [--target x86-64-v3] [--batch-sizes 64,256] [--json] [NAME...]

The networks are those of benchmarks/networks.py. What counts is the median of each round's ratio. Two cores must be
free, and it takes two that do not share their arithmetic units (hyper-threads do).
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tfaot_pkg.frontends.toolchain.definition import DEFAULT_VERSION  # noqa: E402
from tfaot_pkg.frontends.toolchain.environment import ensure  # noqa: E402
from tfaot_pkg.ground.progress import Silent  # noqa: E402
from tfaot_pkg.ground.settings import Folders  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.pipeline.pipeline import Pipeline  # noqa: E402
from tfaot_pkg.spec import load_spec  # noqa: E402
from tfaot_pkg.spec.rules import package_name  # noqa: E402

NETWORKS = ("dnn_5x128_tanh", "dnn_10x256_elu", "cnn_i32c1v3l10u128")
LEAST = 1.8
_PROGRAM = HERE / "parallel_program" / "main.cc"


def measured(name: str, *, work: Path, target: str, rounds: int, sizes: Sequence[int]) -> dict[int, list[list[float]]]:
    """[one thread, two threads] in microseconds, one pair per round, by batch size."""
    folders = Folders.of_user()
    python = ensure(DEFAULT_VERSION, folders=folders, progress=Silent()).python
    subprocess.run([python, HERE / "networks.py", work, name], check=True, stdout=subprocess.DEVNULL)
    spec = work / name / "spec.yaml"
    spec.write_text(spec.read_text().replace("[x86-64-v2, x86-64-v3]", f"[{target}]"))
    line = Pipeline(folders=folders, progress=Silent())
    build = line.build(line.plan(load_spec(spec, {})))
    signature = build.frozen.signature
    sizes_of = {"INPUTS": signature.inputs[0].row_shape, "OUTPUTS": signature.outputs[0].row_shape}
    defines = [f"-D{name}={math.prod(shape)}" for name, shape in sizes_of.items()]
    headers: list[str | Path] = [
        f"-DMODEL={name}",
        f"-DMODEL_HEADER=<{package_name(name)}/model.h>",
        "-I",
        build.tree.root / "include",
    ]
    program = work / f"parallel-{name}"
    command: list[str | Path] = [
        "g++",
        "-std=c++17",
        "-O2",
        "-DNDEBUG",
        "-pthread",
        *defines,
        *headers,
        HERE / "parallel_program" / "main.cc",
    ]
    subprocess.run([*command, build.tree.static_library, "-o", program], check=True)
    text = subprocess.run(
        [program, str(rounds), *map(str, sizes)], check=True, capture_output=True, text=True, timeout=600
    ).stdout
    found = {}
    for row in text.splitlines():
        size, *times = row.split()
        numbers = [float(time) for time in times]
        found[int(size)] = [list(pair) for pair in zip(numbers[::2], numbers[1::2], strict=True)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=NETWORKS, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--target", default="x86-64-v3")
    parser.add_argument("--batch-sizes", default="64,256,1024")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    sizes = [int(size) for size in options.batch_sizes.split(",")]
    found = {}
    with tempfile.TemporaryDirectory() as work:
        for name in options.names or NETWORKS:
            found[name] = measured(name, work=Path(work), target=options.target, rounds=options.rounds, sizes=sizes)
    ratios = {
        name: {size: statistics.median(one / two for one, two in pairs) for size, pairs in rows.items()}
        for name, rows in found.items()
    }
    if options.json:
        print(json.dumps({"target": options.target, "microseconds": found, "ratios": ratios}, indent=1))
    else:
        print(f"{'':24}{'batch':>6}{'one us':>12}{'two us':>12}{'ratio':>8}")
        for name, rows in found.items():
            for size, pairs in rows.items():
                one, two = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
                print(f"{name:24}{size:6}{one:12.1f}{two:12.1f}{ratios[name][size]:8.2f}")
    return 0 if all(ratio >= LEAST for rows in ratios.values() for ratio in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
