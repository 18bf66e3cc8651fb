"""How long one run of a library takes on this machine, per target and batch size.

A measurement depends on the machine and the moment: it stands beside a package in the registry, never inside of it.
"""

from __future__ import annotations

import platform
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg import resources
from tfaot_pkg.errors import ValidationError
from tfaot_pkg.native.compiler import Compiler
from tfaot_pkg.process import CommandFailed, run

_FORMAT = 1
_TIMEOUT = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """The median time of one run, in nanoseconds: one thread, inputs of zeros, buffers used in place.

    Targets and batch sizes take turns (templates/native/latency.cc), so that noise of the machine is shared.
    """

    target: str
    batch_size: int
    nanoseconds: float


def measure(library: Path, compiler: Compiler, targets: tuple[str, ...]) -> tuple[Latency, ...]:
    """Time the shared library `library` for each of `targets`, which this machine must be able to run.

    Raises CompilerError, ValidationError where the library does not run.
    """
    with tempfile.TemporaryDirectory(prefix="tfaot-latency-") as scratch:
        program = Path(scratch) / "latency"
        compiler.program(resources.templates() / "native" / "latency.cc", program, includes=[resources.headers()])
        try:
            printed = run([program, library, *targets], timeout=_TIMEOUT).stdout
        except CommandFailed as error:
            raise ValidationError(f"{library.name} cannot be timed: {error}") from error
    rows = [line.split() for line in printed.splitlines()]
    return tuple(Latency(target=t, batch_size=int(size), nanoseconds=float(time)) for t, size, time in rows)


def document(measurements: tuple[Latency, ...]) -> dict[str, object]:
    """The measurements as JSON values, with what they were made on."""
    return {
        "format": _FORMAT,
        "processor": processor(),
        "measurements": [
            {"target": m.target, "batch_size": m.batch_size, "nanoseconds": m.nanoseconds} for m in measurements
        ],
    }


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The name of this machine's CPU."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
