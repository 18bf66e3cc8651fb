"""How close the kernel library comes to the machine's limits, layer by layer, measured in the same run.

    .venv/bin/python benchmarks/kernels.py [--target x86-64-v3] [--compiler c++] [--rounds 7] [--quick] [--json]

Every round measures, one after the other, the peak of multiply-adds, the read bandwidth at the size of the weights, and
each case; a case's shares are those of its own round's limits, and what is shown is the median of the rounds. So a
machine that is shared, or changes its clock, shifts limits and cases alike. Times are the thread's own.

  peak    share of the peak that the layer's multiply-adds reach; the work of activations is not counted
  limit   share of what is possible: weights read once, or multiply-adds at the peak, whichever takes longer
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECIPE = ROOT / "recipes" / "tfaot-kernels" / "all"
sys.path.insert(0, str(ROOT))

from tfaot_pkg.ground.targets import TARGETS, runs_here  # noqa: E402 (after the path to the checkout)

ACTIVATIONS = (
    "none",
    "relu",
    "elu",
    "selu",
    "tanh",
    "sigmoid",
    "softplus",
    "gelu_erf",
    "gelu_tanh",
    "swish",
    "hard_swish",
    "leaky_relu",
    "clip",
)
BATCHES = (1, 2, 4, 8, 16, 64, 256)
# Layers of equal width one after the other, as many as make a usual net: (width, layers, activation).
DENSE = ((128, 5, "none"), (128, 5, "tanh"), (256, 10, "none"), (256, 10, "elu"), (33, 5, "none"), (129, 5, "none"))
# (size, channels, filters, kernel, groups, same): the layers of the convolutional nets, then one of each other kind.
CONVOLUTIONS = (
    (32, 1, 32, 3, 1, False),
    (64, 3, 32, 3, 1, False),
    (31, 32, 32, 3, 1, False),
    (15, 32, 32, 3, 1, False),
    (14, 32, 32, 3, 1, False),
    (6, 32, 32, 3, 1, False),
    (32, 32, 32, 3, 1, True),
    (32, 32, 64, 1, 1, False),
    (32, 64, 64, 3, 4, True),
    (32, 64, 64, 3, 64, True),
    # Small images, depthwise and 1 x 1, and numbers of filters that fill one vector, three, or a part of one.
    (16, 16, 16, 3, 16, True),
    (14, 40, 40, 5, 40, True),
    (9, 13, 13, 3, 13, True),
    (16, 16, 24, 1, 1, False),
    (20, 24, 24, 3, 1, True),
    (32, 8, 8, 3, 1, True),
    (32, 16, 1, 1, 1, False),
)
READ_SIZES = (8_192, 98_304, 655_360)  # floats: 32 KB, 384 KB, 2.5 MB; about the sizes of what DENSE reads


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Of one round: multiply-adds and floats read per second, the latter by READ_SIZES."""

    multiply_adds: float
    reads: tuple[float, ...]

    def least_time(self, multiply_adds: int, weights: int) -> float:
        """Seconds that the work takes at least."""
        reads = next((r for n, r in zip(READ_SIZES, self.reads, strict=True) if weights <= n), self.reads[-1])
        return max(multiply_adds / self.multiply_adds, weights / reads)


class Timer:
    """kernels.cpp, compiled for a target."""

    def __init__(self, target: str, compiler: str, folder: Path) -> None:
        library = folder / "kernels.so"
        sources = [RECIPE / "src" / "kernels.cpp", ROOT / "benchmarks" / "kernels.cpp"]
        flags = ["-std=c++17", "-O2", "-ffp-contract=off", "-fPIC", "-shared", f"-I{RECIPE}", f"-I{RECIPE / 'include'}"]
        subprocess.run([compiler, *flags, *TARGETS[target].flags, "-o", library, *sources], check=True)
        self._library = ctypes.CDLL(str(library))

    def _time(self, name: str, *arguments: int) -> float:
        function = getattr(self._library, name)
        function.restype = ctypes.c_double
        return float(function(*(ctypes.c_size_t(argument) for argument in arguments)))

    def limits(self) -> Limits:
        lanes = ctypes.c_size_t()
        self._library.peak.restype = ctypes.c_double
        seconds = min(self._library.peak(ctypes.byref(lanes)) for _ in range(3))
        return Limits(
            multiply_adds=lanes.value / seconds, reads=tuple(n / self._time("readTime", n) for n in READ_SIZES)
        )

    def dense(self, width: int, layers: int, batch: int, activation: str) -> float:
        return self._time("denseTime", width, layers, batch, ACTIVATIONS.index(activation))

    def conv2d(self, case: tuple[int, int, int, int, int, bool], batch: int, activation: str, *, pooled: bool) -> float:
        return self._time("conv2dTime", *map(int, case), int(pooled), batch, ACTIVATIONS.index(activation))

    def softmax(self, rows: int, size: int) -> float:
        return self._time("softmaxTime", rows, size)

    def max_pool(self, size: int, channels: int, batch: int) -> float:
        return self._time("maxPoolTime", size, channels, batch)

    def activation(self, name: str, count: int) -> float:
        return self._time("activationTime", ACTIVATIONS.index(name), count)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Medians over the rounds."""

    case: str
    batch: int
    microseconds: float
    gflops: float
    peak: float
    limit: float


def summed_up(case: str, batch: int, work: int, weights: int, rounds: list[tuple[Limits, float]]) -> Measured:
    """`work` multiply-adds over `weights` floats, and each round's limits and seconds."""
    seconds = statistics.median(time for _, time in rounds)
    return Measured(
        case=case,
        batch=batch,
        microseconds=1e6 * seconds,
        gflops=2e-9 * work / seconds,
        peak=statistics.median(work / limits.multiply_adds / time for limits, time in rounds),
        limit=statistics.median(limits.least_time(work, weights) / time for limits, time in rounds),
    )


def measure(timer: Timer, rounds: int, batches: tuple[int, ...]) -> tuple[list[Limits], list[Measured]]:
    """All cases in each round, so that what disturbs the machine disturbs all of them."""
    seen: list[Limits] = []
    times: dict[tuple[str, int, int, int], list[tuple[Limits, float]]] = {}
    for _ in range(rounds):
        for width, layers, activation in DENSE:
            limits = timer.limits()
            seen.append(limits)
            for batch in batches:
                key = (f"dense {layers} x {width} {activation}", batch, layers * width**2 * batch, layers * width**2)
                times.setdefault(key, []).append((limits, timer.dense(width, layers, batch, activation)))
        for case in CONVOLUTIONS:
            size, channels, filters, kernel, groups, same = case
            limits = timer.limits()
            seen.append(limits)
            weights = kernel**2 * channels // groups * filters
            out = size if same else size - kernel + 1
            name = f"conv {size}x{size}x{channels} {filters} of {kernel}x{kernel}"
            name += (f", {groups} groups" if groups > 1 else "") + (", same" if same else "")
            for activation, pooled in (("none", False), ("clip", False), ("elu", False), ("elu", True)):
                key = (f"{name} {activation}{', pool' * pooled}", 4, 4 * out**2 * weights, weights)
                times.setdefault(key, []).append((limits, timer.conv2d(case, 4, activation, pooled=pooled)))
    return seen, [summed_up(*key, found) for key, found in times.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", choices=[name for name in TARGETS if runs_here(TARGETS[name])], default="x86-64-v3")
    parser.add_argument("--compiler", default="c++")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="one round of few batch sizes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        timer = Timer(options.target, options.compiler, Path(folder))
    rounds, batches = (1, (1, 4)) if options.quick else (options.rounds, BATCHES)
    seen, results = measure(timer, rounds, batches)
    peak = 2e-9 * statistics.median(limits.multiply_adds for limits in seen)
    reads = [4e-9 * statistics.median(limits.reads[i] for limits in seen) for i in range(len(READ_SIZES))]
    pool = 1e6 * statistics.median(timer.max_pool(62, 32, 1) for _ in range(rounds))
    rows = {f"{n} x {size}": 1e6 * timer.softmax(n, size) for size in (2, 8, 10, 100, 1000) for n in (1, 256)}
    count = 4096
    activations = {
        name: 1e9 / count * statistics.median(timer.activation(name, count) for _ in range(rounds))
        for name in ACTIVATIONS
    }
    if options.json:
        limits = {"peak_gflops": peak, "read_gbytes": dict(zip(READ_SIZES, reads, strict=True))}
        extra = {
            "max_pool_62x62x32_microseconds": pool,
            "softmax_microseconds": rows,
            "activation_nanoseconds": activations,
        }
        print(json.dumps({"limits": limits, "cases": [asdict(result) for result in results], **extra}, indent=1))
        return
    sizes = ", ".join(f"{read:.0f} GB/s of {4 * n // 1024} KB" for n, read in zip(READ_SIZES, reads, strict=True))
    print(f"{options.target}, {options.compiler}: peak {peak:.0f} GFLOP/s, reads {sizes}")
    print(f"{'':44} {'batch':>5} {'us':>9} {'GFLOP/s':>8} {'peak':>5} {'limit':>6}")
    for r in results:
        print(f"{r.case:44} {r.batch:5} {r.microseconds:9.1f} {r.gflops:8.1f} {r.peak:5.2f} {r.limit:6.2f}")
    print(f"max pool 2x2 of 62x62x32: {pool:.1f} us")
    print("softmax, us: " + ", ".join(f"{size} {value:.3f}" for size, value in rows.items()))
    print("ns per value: " + ", ".join(f"{name} {value:.2f}" for name, value in activations.items()))


if __name__ == "__main__":
    main()
