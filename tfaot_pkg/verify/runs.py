"""Runs of the built library, in processes of their own or under an emulator.

Code for another architecture, or with instructions that this CPU lacks, is run by a small program compiled for it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from tfaot_pkg.errors import ValidationError
from tfaot_pkg.frontends.toolchain.worker import WorkerPool, from_worker
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.progress import Step
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.ground.sandbox.command import Command
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import DEFAULT_TARGETS, TARGETS, UNVERIFIED_DEFAULTS, Target, runs_here
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.native.emulator import Emulator, emulator_of
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.oracle import Tried
from tfaot_pkg.verify.report import NATIVE, NOT_RUN
from tfaot_pkg.worker_program.messages.elements import held_type, numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The inputs `tried`; the file `answers` exists as soon as the library's answers are complete."""

    tried: Tried
    answers: Path


_SLOWER = 10
"""A factor on the time limit of a class of inputs, because emulation is slower."""


class EmulatedRuns:
    """Runs `library`, whose interface is `signature`, under an emulator; no model can write to `folder`."""

    def __init__(
        self,
        *,
        emulator: Emulator,
        compiler: Compiler,
        library: NativeLibrary,
        signature: Signature,
        folder: Path,
    ) -> None:
        self._emulator, self._compiler, self._library = emulator, compiler, library
        self._signature, self._folder = signature, folder
        self._program = folder / f"batches-{compiler.architecture}"

    def command(self, target: Target, parts: Sequence[Part], *, writable: Path, flush: bool) -> Command:
        """Raises CompilerError."""
        program = self._compiled()
        inputs = [self._prepared(part.tried) for part in parts]
        arguments: list[str | Path] = []
        for part, prepared in zip(parts, inputs, strict=True):
            # alarm(2) takes whole seconds; 0 sets no alarm.
            seconds = math.ceil((part.tried.seconds or 0) * _SLOWER)
            arguments += [prepared, part.answers, str(seconds)]
        root = self._compiler.sysroot
        box = Sandbox(
            readable=(self._library.shared, program, *([root] if root else []), *inputs),
            writable=(writable,),
            limits=Limits.of_user(),
        )
        emulator: list[str | Path] = [self._emulator.program, "-cpu", self._emulator.cpu]
        if root:
            emulator += ["-L", root]
        mode = "flush" if flush else "keep"
        return box.native([*emulator, program, self._library.shared, target.name, mode, *arguments])

    def answers(self, part: Part) -> dict[str, Array]:
        """The answers that the program wrote. Raises ValueError if they do not fit the inputs."""
        counts = self._counts(part.tried)
        expected = sum(count * self._bytes(size) for size, count in counts.items())
        # The library's code could write to this file, so nothing is parsed unless the size is right.
        if part.answers.stat().st_size != expected:
            raise ValueError(f"the library gave {part.answers.stat().st_size} bytes, {expected} were expected")
        data, at = part.answers.read_bytes(), 0
        found: dict[str, list[Array]] = {}
        for size, count in counts.items():
            for _ in range(count):
                for tensor in self._signature.outputs:
                    shape, dtype = tensor.shape_at(size), held_type(tensor.dtype.value)
                    elements = math.prod(shape)
                    array = np.frombuffer(data, dtype, elements, at).reshape(shape)
                    at += elements * dtype.itemsize
                    found.setdefault(f"{size}/{tensor.name}", []).append(numbers(array, tensor.dtype.value))
        stacked = {tensor.name for tensor in self._signature.outputs if tensor.has_batch_axis}
        return {
            name: np.concatenate(arrays) if name.partition("/")[2] in stacked else arrays[0]
            for name, arrays in found.items()
        }

    def _compiled(self) -> Path:
        if not self._program.exists():
            source = resources.templates() / "verify" / "batches.cc"
            self._compiler.program(source, self._program, includes=[resources.headers()])
        return self._program

    def _counts(self, tried: Tried) -> dict[int, int]:
        """The number of batches of each size."""
        batched = any(tensor.has_batch_axis for tensor in self._signature.inputs)
        counts = {size: tried.rows // size if batched else 1 for size in tried.sizes}
        return counts if tried.most is None else {size: min(count, tried.most) for size, count in counts.items()}

    def _bytes(self, size: int) -> int:
        """Bytes of the outputs of one batch."""
        return sum(each.nbytes_at(size) for each in self._signature.outputs)

    def _prepared(self, tried: Tried) -> Path:
        """The file of inputs in the program's format."""
        # As templates/verify/batches.cc describes them: batch by batch, so that the program reads them in order.
        path = self._folder / f"{tried.inputs.stem}.batches"
        if path.exists():
            return path
        with np.load(tried.inputs, allow_pickle=False) as file:
            inputs: Mapping[str, Array] = dict(file)
        with path.open("wb") as stream:
            for size, count in self._counts(tried).items():
                stream.write(np.array([size, count], np.int64).tobytes())
                for batch in range(count):
                    rows = slice(batch * size, (batch + 1) * size)
                    for tensor in self._signature.inputs:
                        array = inputs[tensor.name][rows] if tensor.has_batch_axis else inputs[tensor.name]
                        stream.write(np.ascontiguousarray(array, held_type(tensor.dtype.value)).tobytes())
        return path


ENDLESS = "it did not end in time"
_NO_ANSWERS = "its process ended without an error and without answers"
"""The library itself may have called exit()."""

_ALARMS = ("SIGALRM", "exit code 142", "no end after")
"""Texts of errors if the alarm ended the process, outside or within a sandbox (142 is 128 + SIGALRM), or if the
sandbox's own limit did."""


class _Runs(Protocol):
    """One way to run a library."""

    def command(self, target: Target, parts: Sequence[Part], *, writable: Path, flush: bool) -> Command:
        """The command that computes the answers for `parts`, one after the other, below `writable`."""

    def answers(self, part: Part) -> dict[str, Array]:
        """The answers that were written, by "SIZE/OUTPUT". Raises ValueError."""


class LibraryRuns:
    """Runs `library` on classes of inputs, in a sandbox: on this CPU if possible, otherwise under an emulator."""

    def __init__(
        self,
        *,
        signature: Signature,
        library: NativeLibrary,
        compiler: Compiler,
        pool: WorkerPool,
        step: Step,
    ) -> None:
        self._signature, self._library = signature, library
        self._compiler, self._step = compiler, step
        # Folders that no worker can write to, so that the answers in them are the library's.
        self._jobs, self._answers = pool.given_folder("jobs"), pool.given_folder("answers")
        self._emulated: dict[Emulator, EmulatedRuns] = {}

    def run(
        self, target: str, classes: Sequence[Tried], *, flush: bool = False
    ) -> dict[str, Mapping[str, Array] | str]:
        """The answers for each class that TensorFlow has answered, by "SIZE/OUTPUT"; or the reason for none."""
        runs = self._way(TARGETS[target])
        found: dict[str, Mapping[str, Array] | str] = {}
        left = [self._part(target, each, flush) for each in classes if not each.fault]
        # A process that ends early ended in the first class without answers; those after it run in a new process.
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
                folder=self._jobs,
            )  # fmt: skip
        return self._emulated[emulator]

    @cached_property
    def _native(self) -> _Runs:
        return _NativeRuns(self._library, self._jobs)

    def _process(self, runs: _Runs, target: Target, parts: Sequence[Part], *, flush: bool) -> str:
        """Run the library on `parts`, one after the other; returns the reason for the first one without answers."""
        try:
            runs.command(target, parts, writable=self._answers, flush=flush).run()
        except CommandFailed as error:
            return ENDLESS if any(alarm in error.reason for alarm in _ALARMS) else str(error)
        return _NO_ANSWERS

    def _part(self, target: str, tried: Tried, flush: bool) -> Part:
        return Part(tried=tried, answers=self._answers / f"{target}-{tried.name}{'-flushed' if flush else ''}.answers")


class _NativeRuns:
    """Runs `library` on this CPU, in the Python that runs here (runner.py)."""

    def __init__(self, library: NativeLibrary, folder: Path) -> None:
        self._library, self._folder = library, folder

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
            "flush": flush,
            "parts": [
                {
                    "inputs": str(part.tried.inputs),
                    "answers": str(part.answers),
                    "batch_sizes": part.tried.sizes,
                    "most": part.tried.most,
                    "seconds": part.tried.seconds,
                }
                for part in parts
            ],
        }


def run_job(
    library: NativeLibrary, target: str, kind: str, job: Mapping[str, object], *, inputs: Path, folder: Path
) -> Mapping[str, Array]:
    """The answers of a job of runner.py of this `kind`; its files are in `folder`, which no worker can write to.

    Raises CommandFailed, and the errors of a worker.
    """
    document, answers = folder / f"{kind}-{target}.json", folder / f"{kind}-{target}.answers"
    files = {"inputs": str(inputs), "answers": str(answers)}
    document.write_text(json.dumps({"library": str(library.shared), "target": target, kind: {**files, **job}}))
    box = Sandbox(readable=(library.shared, document, inputs), writable=(folder,), limits=Limits.of_user())
    box.own_python("tfaot_pkg.verify.runner", [document]).run()
    # The library's code could write to this file.
    with from_worker():
        return read_arrays(answers)


def _read(runs: _Runs, part: Part) -> Mapping[str, Array] | str:
    try:
        return runs.answers(part)
    except ValueError as error:
        return str(error)


def runnable_targets(spec: ModelSpec) -> tuple[str, ...]:
    """The targets that this CPU can run."""
    return tuple(name for name in spec.compilation.targets if runs_here(TARGETS[name]))


def ways_to_run(spec: ModelSpec) -> dict[str, str]:
    """The way in which the code of each target is run here: NATIVE, the emulator with its version, or NOT_RUN."""
    return {name: _way_to_run(TARGETS[name]) for name in spec.compilation.targets}


def _way_to_run(target: Target) -> str:
    if runs_here(target):
        return NATIVE
    emulator = emulator_of(target)
    return NOT_RUN if emulator is None else str(emulator)


def not_run_targets(spec: ModelSpec) -> tuple[str, ...]:
    """The targets that neither this CPU nor an emulator can run."""
    return tuple(name for name, how in ways_to_run(spec).items() if how == NOT_RUN)


def may_be_unverified(spec: ModelSpec, named: Sequence[str]) -> tuple[str, ...]:
    """The targets that may be published without validation: `named`, and some of the default ones.

    Targets that a spec names must run; the default ones are for machines that the author may not have.
    """
    by_default = UNVERIFIED_DEFAULTS if spec.compilation.targets == DEFAULT_TARGETS else ()
    return (*named, *by_default)


def require_verified(not_run: Sequence[str], unverified: Sequence[str]) -> None:
    """Raise ValidationError if one of `not_run`, targets without validation, is not among `unverified`."""
    missing = [name for name in not_run if name not in unverified]
    if missing:
        raise ValidationError(
            f"no validation for {', '.join(missing)}: this machine cannot run such code, and no emulator can",
            hint="install qemu-user (it runs aarch64 and x86-64 up to v3), publish on a machine with such a CPU, "
            "or publish without validation: "
            + " ".join(f"--unverified-target {name}" for name in missing)
            + " (in registry.yaml: policy.unverified_targets)",
        )
