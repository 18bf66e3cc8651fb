"""Dense layers of pruned weights that skip zeros, beside the same ones that multiply them: the table of decision 095.

    .venv/bin/python benchmarks/pruned.py [--target x86-64-v3] [--sizes 512x512,1024x1024] [--zeros 0.8,0.9,2:4]
        [--batch-sizes 16] [--rounds 31]

For each target that this machine runs. Both forms take turns; times are the thread's own: minima in microseconds, their
ratio, and the median of the ratios of the rounds. The bits of both are compared. `2:4`: two zeros of each four inputs.
"""

from __future__ import annotations

import argparse
import ctypes
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
RECIPE = HERE.parent / "recipes" / "tfaot-kernels" / "all"
sys.path.insert(0, str(HERE.parent))

from tfaot_pkg.compiler.layers import packed_dense  # noqa: E402 (after the path to the checkout)
from tfaot_pkg.compiler.pruned import ROWS, kept, listed  # noqa: E402
from tfaot_pkg.ground.process import run  # noqa: E402
from tfaot_pkg.ground.targets import TARGETS, Target, runs_here  # noqa: E402

_MULTIPLY_ADDS = 4e7
"""Of the calls of one measurement."""
_FLAGS = ("-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", "-fno-exceptions", "-fvisibility=hidden")

Array = NDArray[np.generic]
Time = Callable[[bool], float]


class _Layer(ctypes.Structure):
    """SparseDense of kernels.h."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("inputs", "outputs")),
        *((name, ctypes.c_void_p) for name in ("all_weights", "bias")),
        ("kind", ctypes.c_int),
        *((name, ctypes.c_float) for name in ("slope", "low", "high")),
        ("fewest", ctypes.c_size_t),
        *((name, ctypes.c_void_p) for name in ("weights", "places", "columns", "counts")),
    ]


@dataclass(frozen=True, kw_only=True)
class Case:
    inputs: int
    outputs: int
    zeros: str

    def weights(self) -> NDArray[np.float32]:
        random = np.random.default_rng(1)
        made = random.normal(size=(self.inputs, self.outputs))
        if self.zeros == "2:4":
            fours = random.random((-(-self.inputs // 4), 4, self.outputs))
            held = (np.argsort(np.argsort(fours, axis=1), axis=1) < 2).reshape(-1, self.outputs)[: self.inputs]
        else:
            held = random.random(made.shape) >= float(self.zeros)
        return np.where(held, made, 0).astype(np.float32)


def _library(folder: Path, target: Target, compiler: str) -> ctypes.CDLL:
    made = folder / f"{target.name}.so"
    sources = (RECIPE / "src" / "kernels.cpp", HERE / "pruned.cpp")
    run([compiler, *_FLAGS, *target.flags, f"-I{RECIPE / 'include'}", *sources, "-o", made], timeout=300)
    library = ctypes.CDLL(str(made))
    library.time_of.restype = ctypes.c_double
    return library


def _measured(library: ctypes.CDLL, case: Case, batch: int, rounds: int) -> tuple[float, float, float]:
    """Minima of the form with all weights and of that with lists, and the median of the ratios."""
    weights, random = case.weights(), np.random.default_rng(2)
    bias = random.normal(size=case.outputs).astype(np.float32)
    made = listed(weights, kept(weights, bias), 1)
    packed, values = packed_dense(weights), random.normal(size=(batch, case.inputs)).astype(np.float32)
    scratch = np.empty(ROWS * (case.inputs + 1 + case.outputs) + 16, np.float32)
    lists: list[Array] = [made.weights, made.places, made.columns, made.counts]
    layer = _Layer(
        case.inputs, case.outputs, packed.ctypes.data, bias.ctypes.data, 1, 0, 0, 0, 1, *map(_address, lists)
    )
    calls = max(1, int(_MULTIPLY_ADDS / (batch * weights.size)))
    outs = [np.empty((batch, case.outputs), np.float32) for _ in range(2)]

    def time(skips: bool) -> float:
        arguments = (*map(_address, (values, outs[skips])), _aligned(scratch))
        return float(library.time_of(
            ctypes.byref(layer), skips, ctypes.c_size_t(batch), *map(ctypes.c_void_p, arguments), ctypes.c_size_t(calls)
        ))  # fmt: skip

    times = [(time(False), time(True)) for _ in range(rounds)]
    if outs[0].tobytes() != outs[1].tobytes():
        raise SystemExit(f"{case}: other bits")
    whole, skipping = (min(each) for each in zip(*times, strict=True))
    return whole, skipping, statistics.median(b / a for a, b in times)


def _address(array: Array) -> int:
    return int(array.ctypes.data)


def _aligned(array: Array) -> int:
    """As the memory of a program is."""
    return -(-_address(array) // 64) * 64


def _targets(name: str | None) -> Sequence[Target]:
    found = [TARGETS[name]] if name else [TARGETS[each] for each in ("x86-64-v3", "x86-64-v4", "aarch64")]
    return [each for each in found if runs_here(each)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--sizes", default="128x128,256x256,512x512,1024x1024,2048x512")
    parser.add_argument("--zeros", default="2:4,0.7,0.8,0.9,0.95")
    parser.add_argument("--batch-sizes", default="16")
    parser.add_argument("--rounds", type=int, default=31)
    given = parser.parse_args()
    print("| target | layer | zeros | rows | all weights | lists | ratio | median |\n|---|---|---|--:|--:|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        for target in _targets(given.target):
            library = _library(Path(folder), target, given.compiler)
            for size in given.sizes.split(","):
                inputs, outputs = map(int, size.split("x"))
                for zeros in given.zeros.split(","):
                    for batch in map(int, given.batch_sizes.split(",")):
                        case = Case(inputs=inputs, outputs=outputs, zeros=zeros)
                        whole, skipping, median = _measured(library, case, batch, given.rounds)
                        words = (target.name, size, zeros, batch, f"{1e6 * whole:.3g}", f"{1e6 * skipping:.3g}")
                        print(
                            "|",
                            *(f"{each} |" for each in (*words, f"{skipping / whole:.2f}", f"{median:.2f}")),
                            flush=True,
                        )


if __name__ == "__main__":
    main()
