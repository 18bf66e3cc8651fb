"""The time of one run of a library on this machine, per target and batch size.

A measurement depends on the machine and the moment, so it is stored beside a package in the registry, never in it.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tfaot_pkg import resources
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.documents import utc_now
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.process import CommandFailed
from tfaot_pkg.sandbox import Limits, Sandbox
from tfaot_pkg.temporary import temporary_folder

_FORMAT = 1

MAD_TO_SIGMA = 1.4826
"""The ratio of standard deviation and median absolute deviation of a normal distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The median time of one run, in nanoseconds: one thread, inputs of zeros, buffers used in place.

    `spread` is the relative standard deviation of a round's time, from the median absolute deviation. Targets and batch
    sizes alternate (templates/tools/latency.cc), so that they share the noise of the machine.
    """

    target: str
    batch_size: int
    nanoseconds: float
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedUnit:
    """One batch size of one target of a library."""

    library: Path
    target: str
    batch_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """Times libraries side by side."""

    program: Path

    def rounds(self, units: Sequence[TimedUnit]) -> dict[TimedUnit, list[float]]:
        """Nanoseconds of one run of each of `units`, which alternate: a number for each round.

        This machine must be able to run them. Raises ValidationError if a library does not run.
        """
        words: dict[Path, list[str]] = {}
        for unit in units:
            words.setdefault(unit.library, []).append(f"{unit.target}:{unit.batch_size}")
        return self.times(words)

    def times(self, words: Mapping[Path, Sequence[str]]) -> dict[TimedUnit, list[float]]:
        """As `rounds`, for units as the program's arguments, by library: a target alone means all its batch sizes."""
        arguments: list[str | Path] = []
        for library, units in words.items():
            # "--" separates libraries, so the first one is dropped below.
            arguments += ["--", library, *units]
        try:
            # A library contains code of a model, which may be hostile (docs/decisions/027).
            box = Sandbox(readable=tuple(words), limits=Limits.of_user())
            printed = box.native([self.program, *arguments[1:]]).run().stdout
        except CommandFailed as error:
            names = ", ".join(dict.fromkeys(library.name for library in words))
            raise ValidationError(f"{names} cannot be timed: {error}") from error
        libraries, found = [*words], {}
        for index, target, size, *times in map(str.split, printed.splitlines()):
            unit = TimedUnit(library=libraries[int(index)], target=target, batch_size=int(size))
            found[unit] = [float(time) for time in times]
        return found


@contextmanager
def timer(compiler: Compiler) -> Iterator[Timer]:
    """A timer, compiled now and removed at the end of the block. Raises CompilerError."""
    with temporary_folder(prefix="tfaot-latency-") as scratch:
        program = scratch / "latency"
        compiler.program(resources.templates() / "tools" / "latency.cc", program, includes=[resources.headers()])
        yield Timer(program=program)


def measure(library: Path, compiler: Compiler, targets: Sequence[str]) -> tuple[Latency, ...]:
    """Time the shared library `library` for each of `targets`, which this machine must be able to run.

    Raises CompilerError, ValidationError if the library does not run.
    """
    with timer(compiler) as clock:
        times = clock.times({library: targets})
    return tuple(latency_of(unit, each) for unit, each in times.items())


def latency_of(unit: TimedUnit, times: Sequence[float]) -> Latency:
    """The figures of one run from the times of its rounds."""
    middle = median(times)
    # Medians, because a single interrupted round must not decide the spread.
    deviation = MAD_TO_SIGMA * median(abs(time - middle) for time in times)
    return Latency(
        target=unit.target, batch_size=unit.batch_size, nanoseconds=round(middle, 1), spread=deviation / middle
    )


def document(measurements: tuple[Latency, ...], *, load: float) -> dict[str, object]:
    """The measurements as JSON values, with the machine; `load` is its load when they began."""
    return {
        "format": _FORMAT,
        "processor": processor(),
        "date": utc_now()[:10],
        "load": round(load, 2),
        "cpus": os.cpu_count() or 1,
        "measurements": [
            {"target": m.target, "batch_size": m.batch_size, "nanoseconds": m.nanoseconds, "spread": round(m.spread, 4)}
            for m in measurements
        ],
    }


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name of this machine's CPU."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    # Linux on AArch64 writes no such line.
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
