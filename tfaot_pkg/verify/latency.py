"""The time of one run of a library on this machine, per target and batch size.

A measurement depends on the machine and the moment, so it is stored beside a package in the registry, never in it. A
process in which the library runs prints it, and the library may be hostile: what is signed is held against our clock.
"""

from __future__ import annotations

import json
import os
import platform
import resource
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from tfaot_pkg.errors import ValidationError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.cpu import this_cpu
from tfaot_pkg.ground.documents import read_json, utc_now
from tfaot_pkg.ground.keys import key_of, sha256_file
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.native.cxx.compiler import Compiler

_FORMAT = 1
_TIMER, _PROGRAM = "timer", "latency"
_MEASURED, _DOCUMENT = "latency", "latency.json"
_MOST_ROUNDS = 51  # templates/tools/latency.cc
_LONGEST = 1e13  # nanoseconds
_CHECKED = 2e8  # nanoseconds of runs that are held against our clock, for each target and batch size
_SLACK, _TRIES = 3.0, 3
"""How much longer runs may take than what was printed: cores share caches and units."""
_PATIENCE, _BUSY = 10.0, 10.0
"""Seconds for a start, and how many programs may share a core."""

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
class Gain:
    """How many times as fast as in float32 a reduced package is: the median of the ratios of rounds.

    The two libraries alternate within a round.
    """

    target: str
    batch_size: int
    times: float


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
        try:
            return dict(_times(printed, words))
        except (ValueError, IndexError) as error:
            names = ", ".join(dict.fromkeys(library.name for library in words))
            raise ValidationError(f"{names} cannot be timed: what was printed are not its times") from error

    def require_true(self, library: Path, measured: Sequence[Latency]) -> None:
        """Raise ValidationError if runs of `library` take longer than `measured`, by the kernel's account of CPU time.

        Not by a clock: on a busy machine, runs of 200 us are rarely interrupted, and those of a second always.
        """
        start = min(self._seconds(library, each, 0) for each in measured[:1] for _ in range(_TRIES))
        for each in measured:
            count = max(1, round(_CHECKED / each.nanoseconds))
            most = start + _SLACK * (start + count * each.nanoseconds / 1e9)
            if not _fits((self._seconds(library, each, count, most) for _ in range(_TRIES)), most):
                raise ValidationError(
                    f"{library.name} reports {each.nanoseconds:g} ns for {each.target}, batch size {each.batch_size}, "
                    f"and {count:,} runs take more than {most:.2g} s",
                    hint="code of the model changes the measurement: do not trust it",
                )

    def _seconds(self, library: Path, unit: Latency, count: int, most: float = 0.0) -> float:
        """Seconds of CPU of a process with `count` runs; infinity if it is stopped, after far more than `most`."""
        limits = Limits.of_user().within(Limits(timeout=_PATIENCE + _BUSY * most))
        start = _used()
        try:
            box = Sandbox(readable=(library,), limits=limits)
            said = box.native([self.program, library, f"{unit.target}:{unit.batch_size}:{count}"]).run().stdout
        except CommandFailed as error:
            if error.reason.startswith("no end"):
                return float("inf")
            raise ValidationError(f"{library.name} cannot be timed: {error}") from error
        seconds = _used() - start
        if said:
            raise ValidationError(f"{library.name} cannot be timed: it prints {said[:80]!r}")
        return seconds


def _fits(tries: Iterable[float], most: float) -> bool:
    """Whether one of the tries took no more than `most`; there is no other one after a process that was stopped."""
    for seconds in tries:
        if seconds <= most:
            return True
        if seconds == float("inf"):
            return False
    return False


def _used() -> float:
    """Seconds of CPU that ended children of this process, and theirs, have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _times(printed: str, words: Mapping[Path, Sequence[str]]) -> Iterator[tuple[TimedUnit, list[float]]]:
    """What the program printed about `words`, and nothing else. Raises ValueError, IndexError."""
    libraries, seen = [*words], set[TimedUnit]()
    for index, target, size, *times in map(str.split, printed.splitlines()):
        library = libraries[int(index)]
        unit = TimedUnit(library=library, target=target, batch_size=int(size))
        if not {target, f"{target}:{unit.batch_size}"} & set(words[library]) or unit in seen or unit.batch_size < 1:
            raise ValueError(f"{target[:40]}, batch size {size[:20]}")
        found = [float(each) for each in times]
        if not found or len(found) > _MOST_ROUNDS or not all(0 < each < _LONGEST for each in found):
            raise ValueError(f"the times of {target[:40]}, batch size {size[:20]}")
        seen.add(unit)
        yield unit, found
    for library, units in words.items():
        for word in units:
            if not any(
                each.library == library and word in (each.target, f"{each.target}:{each.batch_size}") for each in seen
            ):
                raise ValueError(f"none of {word}")


def timer(compiler: Compiler, cache: BuildCache) -> Timer:
    """A timer, from the cache if it is there. Raises CompilerError, StorageError."""
    source = resources.templates() / "tools" / "latency.cc"
    inputs = {
        "source": resources.digest(source),
        "headers": resources.digest(resources.headers()),
        "compiler": compiler.identity,
        "flags": list(compiler.all_flags),
    }

    def make(folder: Path) -> None:
        compiler.program(source, folder / _PROGRAM, includes=[resources.headers()])

    key = key_of(_TIMER, code_digest(__name__), inputs)
    return Timer(program=cache.get_or_make(_TIMER, key, make) / _PROGRAM)


def measure(library: Path, clock: Timer, targets: Sequence[str]) -> tuple[Latency, ...]:
    """Time the shared library `library` for each of `targets`, which this machine must be able to run.

    Raises ValidationError if the library does not run.
    """
    times = clock.times({library: targets})
    measured = tuple(latency_of(unit, each) for unit, each in times.items())
    clock.require_true(library, measured)
    return measured


def measured_today(library: Path, compiler: Compiler, targets: Sequence[str], cache: BuildCache) -> dict[str, object]:
    """The document of `measure`, from the cache if this machine has timed the same library today.

    Several toolchains often give one library. Raises CompilerError, ValidationError, StorageError.
    """
    inputs = {
        "library": sha256_file(library),
        "targets": list(targets),
        "machine": platform.node(),
        "cpu": this_cpu().id,
        "date": utc_now()[:10],
    }

    def make(folder: Path) -> None:
        load = os.getloadavg()[0]
        found = measure(library, timer(compiler, cache), targets)
        (folder / _DOCUMENT).write_text(json.dumps(document(found, load=load)))

    key = key_of(_MEASURED, code_digest(__name__), inputs)
    kept: dict[str, object] = read_json((cache.get_or_make(_MEASURED, key, make) / _DOCUMENT).read_bytes())
    return kept


def gains(less: Path, full: Path, clock: Timer, targets: Sequence[str]) -> tuple[Gain, ...]:
    """The gains of the shared library `less` over `full`, the one in float32, for targets that this machine must run.

    Raises ValidationError if one does not run.
    """
    times = clock.times({less: targets, full: targets})
    clock.require_true(less, [latency_of(unit, each) for unit, each in times.items() if unit.library == less])
    return tuple(
        Gain(
            target=unit.target,
            batch_size=unit.batch_size,
            times=round(median(a / b for a, b in zip(times[replace(unit, library=full)], each, strict=True)), 3),
        )
        for unit, each in times.items()
        if unit.library == less
    )


def latency_of(unit: TimedUnit, times: Sequence[float]) -> Latency:
    """The figures of one run from the times of its rounds."""
    middle = median(times)
    # Medians, because a single interrupted round must not decide the spread.
    deviation = MAD_TO_SIGMA * median(abs(each - middle) for each in times)
    return Latency(
        target=unit.target,
        batch_size=unit.batch_size,
        nanoseconds=max(0.1, round(middle, 1)),
        spread=deviation / middle,
    )


def document(measurements: tuple[Latency, ...], *, load: float) -> dict[str, object]:
    """The measurements as JSON values, with the machine; `load` is its load when they began."""
    cpu = this_cpu()
    return {
        "format": _FORMAT,
        "processor": cpu.name,
        "cpu": cpu.id,
        "date": utc_now()[:10],
        "load": round(load, 2),
        "cpus": os.cpu_count() or 1,
        "measurements": [
            {"target": m.target, "batch_size": m.batch_size, "nanoseconds": m.nanoseconds, "spread": round(m.spread, 4)}
            for m in measurements
        ],
    }


def processor() -> str:
    """The brand of this machine's CPU, for people."""
    return this_cpu().name
