"""How a night scales with its workers, and what the coordinator costs per task.

    python benchmarks/nightly_scaling.py [--builds 2000] [--workers 1 2 4 8] [--median 0.42] [--json FILE]

Builds are stubs that sleep for log-normal times (tests/nightly/stub_build.py), each in a process of its own as real
ones are, on a real Dask cluster; everything around them is the product's: supervision, results on disk, outcomes, gate.
Real builds take tens of seconds: with the default of half a second, costs per build weigh as much as they ever could.

  efficiency    time with the fewest workers x their number / (time x workers): 1 where twice the workers halve it
  busy          the share of workers x time that the builds slept
  coordinator   processor time of the coordinator's process per task; Dask's scheduler runs in it too, and publishing is
                left out
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfaot_pkg.ground.keys import Key, sha256_bytes
from tfaot_pkg.nightly.dask_executor import DaskExecutor
from tfaot_pkg.nightly.outcome import Attempt
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.run import Coordinator
from tfaot_pkg.nightly.state import Gate, State
from tfaot_pkg.nightly.types import Comparison, Decision, Outcome, Policy, Reason, Task

_STUB = Path(__file__).resolve().parents[1] / "tests" / "nightly" / "stub_build.py"
_SPREAD = 0.6  # of the logarithms: one build in twenty takes 2.7 times the median


class Clock:
    """A watch that knows when building began and ended."""

    def __init__(self) -> None:
        self.began = self.ended = self.processor = 0.0
        self.slept = 0.0

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None: ...

    def stored(self, count: int) -> None: ...

    def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
        self.began, self.processor = time.monotonic(), time.process_time()

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self.ended = time.monotonic()
        self.slept += attempt.seconds

    def excluded(self, worker: str, why: str) -> None: ...

    def gate(self, gate: Gate) -> None:
        self.processor = time.process_time() - self.processor

    def compared(self, comparison: Comparison) -> None: ...

    def outcome(self, outcome: Outcome) -> None: ...


class NoRegistry:
    """Publishing is measured elsewhere (benchmarks of the registry)."""

    def require(self) -> None: ...

    def renew(self) -> None: ...

    def catch_up(self, results: Results, tasks: Sequence[Task]) -> Mapping[str, str]:
        return {}

    def publish(self, decision: Decision, results: Results) -> bool:
        return False

    def send(self, decision: Decision, results: Results) -> str:
        return ""


def plan(builds: int) -> list[Decision]:
    def decision(number: int) -> Decision:
        task = Task(
            model=f"model{number:04}",
            version="1.0.0",
            toolchain="2.17.1",
            targets=("x86-64-v3",),
            spec=Path("spec.yaml"),
        )
        key = Key(sha256_bytes(f"build {number}".encode()))
        reasons = (Reason(what="never built", detail=""),)
        return Decision(task=task, action="build", reasons=reasons, release=task.release(1), key=key)

    return [decision(number) for number in range(builds)]


def measure(builds: int, workers: int, median: float, folder: Path) -> dict[str, float]:
    clock = Clock()
    coordinator = Coordinator(
        state=State(root=folder),
        policy=Policy(),
        publisher=NoRegistry(),
        executor=lambda _: DaskExecutor(slots=workers, scratch=folder / "dask"),
        watch=clock,
        cache=folder / "cache",
        program=(sys.executable, "-I", "-S", str(_STUB), str(median), str(_SPREAD)),
    )
    night = coordinator.run(lambda: plan(builds))
    assert night.counts == {"published": builds}, night.counts
    wall = clock.ended - clock.began
    return {
        "workers": workers,
        "builds": builds,
        "slept_s": clock.slept,
        "wall_s": wall,
        "busy": clock.slept / (workers * wall),
        "coordinator_ms_per_task": 1000 * clock.processor / builds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--builds", type=int, default=2000)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--median", type=float, default=0.42, help="seconds")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    mean = arguments.median * math.exp(_SPREAD**2 / 2)
    print(f"{arguments.builds} builds of {mean:.2f} s on average")
    rows = []
    for workers in arguments.workers:
        folder = Path(tempfile.mkdtemp(prefix="nightly-scaling-"))
        try:
            rows.append(measure(arguments.builds, workers, arguments.median, folder))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        print(f"{workers} workers: {rows[-1]['wall_s']:.1f} s", file=sys.stderr, flush=True)
    rows.sort(key=lambda row: row["workers"])
    print(f"{'workers':>8} {'wall [s]':>9} {'efficiency':>11} {'busy':>6} {'coordinator [ms/task]':>22}")
    for row in rows:
        row["efficiency"] = rows[0]["wall_s"] * rows[0]["workers"] / (row["wall_s"] * row["workers"])
        print(
            f"{row['workers']:>8.0f} {row['wall_s']:>9.1f} {row['efficiency']:>11.3f} {row['busy']:>6.3f} "
            f"{row['coordinator_ms_per_task']:>22.2f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"median_s": arguments.median, "spread": _SPREAD, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
