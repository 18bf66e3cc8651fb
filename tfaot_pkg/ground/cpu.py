"""The CPU of this machine: what it is, which of its cores a measurement gets, and how much of that core others use."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_X86 = ("vendor_id", "cpu family", "model", "stepping")
_ARM = ("CPU implementer", "CPU architecture", "CPU part", "CPU variant", "CPU revision")
_FLAGS = ("flags", "Features")
_ISOLATED = Path("/sys/devices/system/cpu/isolated")
_STAT = Path("/proc/stat")
_IDLE = (3, 4)  # of /proc/stat: idle, and waiting for input or output


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu:
    """A kind of CPU. `name` is its brand, for people: CPUs of one brand differ, and hypervisors shorten it.

    `model` has the numbers of vendor, family, model and stepping; `microcode` is its revision, "" if it is not known;
    `flags` is a digest of its features, which kernels and hypervisors also switch off.
    """

    name: str
    model: str
    microcode: str
    flags: str

    @property
    def id(self) -> str:
        """Equal for CPUs whose times may be compared."""
        return "/".join((self.model, self.microcode or "-", self.flags))

    def __str__(self) -> str:
        microcode = f", microcode {self.microcode}" if self.microcode else ""
        return f"{self.name} ({self.model}{microcode}, flags {self.flags})"


def this_cpu(cpuinfo: Path = Path("/proc/cpuinfo")) -> Cpu:
    """The kind of this machine's first CPU."""
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    said = _first(text.split("\n\n"))
    numbers = [said[each] for each in (*_X86, *_ARM) if each in said]
    flags = sorted(" ".join(said.get(each, "") for each in _FLAGS).split())
    return Cpu(
        # Linux on AArch64 writes no brand.
        name=said.get("model name", "") or platform.machine(),
        model="-".join(numbers) or platform.machine(),
        microcode=said.get("microcode", ""),
        flags=hashlib.sha256(" ".join(flags).encode()).hexdigest()[:12],
    )


def _first(parts: list[str]) -> Mapping[str, str]:
    lines = (line.partition(":") for line in parts[0].splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


@contextmanager
def pinned() -> Iterator[int]:
    """Keep this thread, and the programs that it starts, on one core, which it yields: an isolated one if there is one.

    Else the last one that this process may use, because systems prefer the first ones for their own work.
    """
    before = os.sched_getaffinity(0)
    core = max(isolated(_ISOLATED) & before or before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


def isolated(file: Path) -> set[int]:
    """The cores that the kernel was told to keep free (`isolcpus=`), as `file` lists them: `2-5,8`."""
    found = set[int]()
    for part in filter(None, (file.read_text().strip() if file.exists() else "").split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """How busy `core` has been until `time`, in seconds: with anything, and with programs of this process."""

    core: int
    time: float
    all: float
    ours: float

    @classmethod
    def now(cls, core: int) -> Busy:
        return cls(core=core, time=time.monotonic(), all=_busy(core), ours=_ours())

    def others_since(self, before: Busy) -> float:
        """The share of the core's time since `before` that others used, from 0 to 1."""
        # The kernel counts in ticks of 10 ms, so the difference of a short time is coarse.
        used = (self.all - before.all) - (self.ours - before.ours)
        return min(1.0, max(0.0, used / max(self.time - before.time, 1e-3)))


def _busy(core: int) -> float:
    """Seconds since the start of the machine in which `core` was not idle; 0 if nothing tells."""
    for line in _STAT.read_text().splitlines() if _STAT.exists() else ():
        name, *ticks = line.split()
        if name == f"cpu{core}":
            # The ninth and tenth number, of guests, are in the first two as well.
            used = sum(int(each) for number, each in enumerate(ticks[:8]) if number not in _IDLE)
            return used / os.sysconf("SC_CLK_TCK")
    return 0.0


def _ours() -> float:
    """Seconds of CPU that programs of this thread have used, and this thread itself."""
    ended, own = resource.getrusage(resource.RUSAGE_CHILDREN), resource.getrusage(resource.RUSAGE_THREAD)
    return ended.ru_utime + ended.ru_stime + own.ru_utime + own.ru_stime
