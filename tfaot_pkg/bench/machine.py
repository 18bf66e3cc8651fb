"""What a measurement was made on, in words that tell nothing of whose machine it is."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tfaot_pkg.targets import TARGETS, runs_here
from tfaot_pkg.verify.latency import processor


def description(core: int, compiler: str) -> dict[str, object]:
    """CPU, its caches and highest target, cores, kernel, compiler, and the core that was measured on."""
    return {
        "cpu": processor(),
        "cores": os.cpu_count() or 0,
        "target": max((t for t in TARGETS.values() if runs_here(t)), key=lambda t: t.level).name,
        "caches": _caches(core),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release().partition("-")[0],
        "hypervisor": "hypervisor" in _cpu_flags(),
        "compiler": compiler,
        "core": core,
        "load": round(os.getloadavg()[0], 2),
    }


def free_core() -> int:
    """The core to measure on: the last that this process may use, because what a system does by itself begins at 0."""
    return max(os.sched_getaffinity(0))


def _caches(core: int) -> dict[str, str]:
    found = {}
    for folder in sorted(Path(f"/sys/devices/system/cpu/cpu{core}/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            found[f"L{level}"] = size
    return found


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())
