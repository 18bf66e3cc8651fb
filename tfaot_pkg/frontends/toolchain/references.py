"""Runs references of operations that a model's author supplies: Python of theirs, alone in a process of its own.

Processes that freeze a model or give its answers never load it. They ask for its results; the host passes arrays, and
nothing else, in both directions.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frontends.toolchain.worker import WorkerPool
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.worker_program.messages.elements import write_arrays
from tfaot_pkg.worker_program.messages.requests import Ask, FaultText, Nothing, RunOperation, Told

SECONDS = 60.0
"""The limit of one call of a reference."""
_HINT = "the reference is a Python function of NumPy arrays: look at its loops, and at the memory that it takes"


class References:
    """The references of `files`, by operation, for the workers of `pool`, which may ask for them from now on."""

    def __init__(self, pool: WorkerPool, files: Mapping[str, Path]) -> None:
        self._pool, self._files = pool, files
        self._given: Path | None = None
        self._answers: Path | None = None
        self._told_in: Path | None = None
        pool.answer_with(self._told)

    def run(
        self,
        operation: str,
        inputs: Sequence[Array],
        attributes: Mapping[str, tuple[float, ...]],
        seconds: float = SECONDS,
    ) -> list[Array]:
        """The results of the reference of `operation`. Raises ModelError for every fault of it."""
        given, made = self._folders()
        # Its own name, which errors show.
        source, arrays, out = (
            given / operation / self._files[operation].name,
            given / "inputs.npz",
            made / "results.npz",
        )
        with storage_errors(f"write {given}"):
            if not source.exists():
                source.parent.mkdir()
                shutil.copyfile(self._files[operation], source)
            write_arrays(arrays, {str(place): each for place, each in enumerate(inputs)})
            out.unlink(missing_ok=True)
        request = RunOperation(
            file=str(source), operation=operation, inputs=str(arrays), attributes=dict(attributes), out=str(out)
        )
        worker = self._pool.apart(given, made)
        try:
            worker.call(request, Nothing, seconds=seconds)
            found = read_arrays(out)
            return [found[str(place)] for place in range(len(found))]
        except (ValueError, LookupError) as error:  # it wrote others than our program does
            raise ModelError(f"the reference of the operation {operation!r} gives no arrays", hint=_HINT) from error
        except ToolchainError as error:
            worker.kill()
            most = worker.within(seconds)
            ending = f"did not end within {most:.0f} s" if error.cause == "timed out" else f"fails: {error.message}"
            raise ModelError(f"the reference of the operation {operation!r} {ending}", hint=_HINT) from error

    def end(self) -> None:
        """End the process in which they ran."""
        if self._given is not None and self._answers is not None:
            self._pool.apart(*self._folders()).kill()

    def _folders(self) -> tuple[Path, Path]:
        if self._given is None or self._answers is None:
            self._given, self._answers = self._pool.folders_apart()
        return self._given, self._answers

    def _results(self) -> Path:
        if self._told_in is None:
            self._told_in = self._pool.given_folder("references")
        return self._told_in

    def _told(self, asked: Ask, inputs: Path, seconds: float) -> Told:
        """The answer to a worker, which wrote `inputs`."""
        if asked.operation not in self._files:
            raise ValueError(f"no such operation: {asked.operation}")
        arrays = read_arrays(inputs)
        given = [arrays[str(place)] for place in range(len(arrays))]
        try:
            found = self.run(asked.operation, given, asked.attributes, min(SECONDS, seconds))
        except ModelError as error:
            return Told(out="", fault=FaultText(message=error.message, hint=error.hint))
        out = self._results() / f"{asked.operation}.npz"
        with storage_errors(f"write {out}"):
            # The worker has read the former ones before it asks again.
            write_arrays(out, {str(place): each for place, each in enumerate(found)})
        return Told(out=str(out), fault=None)
