"""Emulators that run code for other CPUs than this machine's: QEMU in user mode."""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.targets import Target, runs_here

_TIMEOUT = 30.0
_VERSION = re.compile(r"version (\d+(?:\.\d+)+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """A CPU model of QEMU, and the first version of QEMU that emulates all features of a target."""

    cpu: str
    since: tuple[int, ...]


_MACHINES = {
    "x86-64": _Machine(cpu="max", since=(0,)),
    "x86-64-v2": _Machine(cpu="max", since=(0,)),
    "x86-64-v3": _Machine(cpu="max", since=(7, 2)),  # AVX2; no version has AVX-512
    "aarch64": _Machine(cpu="cortex-a53", since=(0,)),  # Armv8.0-A: no more than the target's flags ask for
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """The `program` with the `cpu` that it emulates."""

    program: Path
    version: str
    cpu: str

    def __str__(self) -> str:
        return f"{self.program.name} {self.version}"


def emulator_of(target: Target) -> Emulator | None:
    """The installed emulator that runs code for `target`; None if there is none."""
    machine, found = _MACHINES.get(target.name), shutil.which(f"qemu-{target.architecture}")
    version = _version(Path(found)) if found else ""
    if machine is None or not found or not version or tuple(map(int, version.split("."))) < machine.since:
        return None
    return Emulator(program=Path(found), version=version, cpu=machine.cpu)


def runs_or_is_emulated(target: Target) -> bool:
    """Whether this machine can run code for `target`, on its CPU or under an emulator."""
    return runs_here(target) or emulator_of(target) is not None


@cache
def _version(program: Path) -> str:
    """The version of an emulator; empty if it does not print one."""
    try:
        found = _VERSION.search(run([program, "--version"], timeout=_TIMEOUT).stdout)
    except CommandFailed:
        return ""
    return found[1] if found else ""
