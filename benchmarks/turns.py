"""How often turns of two libraries (tfaot_pkg/verify/turns.py) tell a slow-down that is none, and find one that is.

    python -m benchmarks.turns [--trials 200]

Prints a JSON object for each case as it ends. The libraries are stand-ins (tests/verify/chain.cpp) whose times are
proportional to the work that they are compiled with: first the same one twice, then one that is slower by a known
factor.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.cpu import this_cpu
from tfaot_pkg.native.cxx.compiler import find_compiler
from tfaot_pkg.verify.latency import Timer, timer
from tfaot_pkg.verify.turns import Speed, in_turns

SOURCE = Path(__file__).resolve().parents[1] / "tests" / "verify" / "chain.cpp"
UNIT = ("x86-64-v2", 1)


def chain(folder: Path, work: int) -> Path:
    """The stand-in with this much work, compiled unless it is there."""
    library = folder / f"chain-{work}.so"
    if not library.exists():
        flags = ["-O2", "-shared", "-fPIC", "-fvisibility=hidden", f"-DWORK={work}", f"-I{resources.headers()}"]
        subprocess.run(["g++", *flags, SOURCE, "-o", library], check=True)
    return library


def work_for(folder: Path, clock: Timer) -> Callable[[float], int]:
    """Gives the work of the stand-in that takes about so many ns here: a call has a cost of its own."""
    small, large = chain(folder, 10), chain(folder, 400)
    speed = in_turns(small, large, clock, [UNIT], patience=0.0).speeds[0]
    each = (speed.ratio - 1) * speed.before / 390
    return lambda nanoseconds: max(1, round(10 + (nanoseconds - speed.before) / each))


def trials(folder: Path, clock: Timer, works: tuple[int, int], count: int) -> dict[str, object]:
    """Turns of two stand-ins, again and again."""
    pair = [chain(folder, work) for work in works]
    start, found, loads = time.monotonic(), list[Speed](), list[float]()
    for _ in range(count):
        made = in_turns(pair[0], pair[1], clock, [UNIT], patience=0.0)
        found.append(made.speeds[0])
        loads.append(made.load)
    ratios = sorted(each.ratio for each in found)
    return {
        "nanoseconds": sorted(each.before for each in found)[count // 2],
        "ratios": [ratios[0], ratios[count // 2], ratios[-1]],
        "verdicts": dict(Counter(each.kind for each in found)),
        "load": [min(loads), max(loads)],
        "seconds": round((time.monotonic() - start) / count, 2),
    }


def say(found: dict[str, object]) -> None:
    print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=200)
    count = parser.parse_args().trials
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        compiler = find_compiler("x86_64", log=folder / "log", output=lambda _: None)
        clock = timer(compiler, BuildCache(root=folder))
        say({"cpu": str(this_cpu()), "cpus": os.cpu_count(), "trials": count})
        work_of = work_for(folder, clock)
        for nanoseconds, slower in ((20.0, 1.2), (400.0, 1.1)):
            work = work_of(nanoseconds)
            for factor in (1.0, slower):
                works = (work, work_of(nanoseconds * factor))
                say({"case": f"{nanoseconds:g} ns, {factor:g} times", **trials(folder, clock, works, count)})


if __name__ == "__main__":
    main()
