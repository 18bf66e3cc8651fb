"""Runs of the built library, in processes of their own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Protocol

from tfaot_pkg.arrays import Array, read_arrays
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.emulator import Emulator, emulator_of
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.process import CommandFailed
from tfaot_pkg.progress import Step
from tfaot_pkg.sandbox import Limits, Sandbox
from tfaot_pkg.sandbox.command import Command
from tfaot_pkg.signature import Signature
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS, Target, runs_here
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.verify.emulated import EmulatedRuns
from tfaot_pkg.verify.oracle import Tried
from tfaot_pkg.verify.part import Part

ENDLESS = "it did not end in time"

_ALARMS = ("SIGALRM", "exit code 142", "no end after")
"""How a process is told of that its alarm ended, outside and inside of a sandbox, or the limit of the sandbox."""


class _Runs(Protocol):
    """One way to run a library."""

    def command(self, target: Target, parts: Sequence[Part], *, writable: Path, flush: bool) -> Command:
        """The command that makes the answers of `parts`, one after the other, below `writable`."""

    def answers(self, part: Part) -> dict[str, Array]:
        """Those that were made, by "SIZE/OUTPUT". Raises ValueError."""


class LibraryRuns:
    """Runs `library` on classes of inputs, in a sandbox: on this CPU if it can, else under an emulator."""

    def __init__(
        self,
        *,
        spec: ModelSpec,
        signature: Signature,
        library: NativeLibrary,
        compiler: Compiler,
        pool: WorkerPool,
        step: Step,
    ) -> None:
        self._spec, self._signature, self._library = spec, signature, library
        self._compiler, self._step = compiler, step
        # Folders that no worker can write to: the library's answers are the library's.
        self._jobs, self._answers = pool.given_folder("jobs"), pool.given_folder("answers")
        self._emulated: dict[Emulator, EmulatedRuns] = {}

    def run(
        self, target: str, classes: Sequence[Tried], *, flush: bool = False
    ) -> dict[str, Mapping[str, Array] | str]:
        """The answers for each class that TensorFlow has answers for, by "SIZE/OUTPUT"; or why there are none."""
        runs = self._way(TARGETS[target])
        found: dict[str, Mapping[str, Array] | str] = {}
        left = [self._part(target, each, flush) for each in classes if not each.fault]
        while left:
            fault = self._process(runs, TARGETS[target], left, flush=flush)
            for part in list(left):
                if not part.answers.exists():
                    break
                found[part.tried.name] = _read(runs, part)
                left.remove(part)
            if left:
                found[left.pop(0).tried.name] = fault
        if not flush:
            self._step.advance(note=target)
        return found

    def _way(self, target: Target) -> _Runs:
        emulator = None if runs_here(target) else emulator_of(target)
        if emulator is None:
            return self._native
        if emulator not in self._emulated:
            self._emulated[emulator] = EmulatedRuns(
                emulator=emulator, compiler=self._compiler, library=self._library, signature=self._signature,
                batch_sizes=self._spec.compilation.batch_sizes, folder=self._jobs,
            )  # fmt: skip
        return self._emulated[emulator]

    @cached_property
    def _native(self) -> _Runs:
        return _NativeRuns(self._library, self._spec.compilation.batch_sizes, self._jobs)

    def _process(self, runs: _Runs, target: Target, parts: Sequence[Part], *, flush: bool) -> str:
        """Run the library on `parts`, one after the other; why that ended early, "" where it did not."""
        try:
            runs.command(target, parts, writable=self._answers, flush=flush).run()
        except CommandFailed as error:
            return ENDLESS if any(alarm in error.reason for alarm in _ALARMS) else str(error)
        return ""

    def _part(self, target: str, tried: Tried, flush: bool) -> Part:
        return Part(tried=tried, answers=self._answers / f"{target}-{tried.name}{'-flushed' if flush else ''}.answers")


class _NativeRuns:
    """Runs `library` on this CPU, in the Python that runs here (runner.py)."""

    def __init__(self, library: NativeLibrary, batch_sizes: Sequence[int], folder: Path) -> None:
        self._library, self._sizes, self._folder = library, tuple(batch_sizes), folder

    def command(self, target: Target, parts: Sequence[Part], *, writable: Path, flush: bool) -> Command:
        job = self._folder / f"{target.name}.json"
        job.write_text(json.dumps(self._job(target, parts, flush)))
        box = Sandbox(
            readable=(self._library.shared, job, *(part.tried.inputs for part in parts)),
            writable=(writable,),
            limits=Limits.of_user(),
        )
        return box.own_python("tfaot_pkg.verify.runner", [job])

    def answers(self, part: Part) -> dict[str, Array]:
        return read_arrays(part.answers)

    def _job(self, target: Target, parts: Sequence[Part], flush: bool) -> dict[str, object]:
        return {
            "library": str(self._library.shared),
            "target": target.name,
            "batch_sizes": list(self._sizes),
            "flush": flush,
            "parts": [
                {
                    "inputs": str(part.tried.inputs),
                    "answers": str(part.answers),
                    "most": part.tried.most,
                    "seconds": part.tried.seconds,
                }
                for part in parts
            ],
        }


def _read(runs: _Runs, part: Part) -> Mapping[str, Array] | str:
    try:
        return runs.answers(part)
    except ValueError as error:
        return str(error)
