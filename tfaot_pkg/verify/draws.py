"""Tests that random numbers that follow from a seed have the distributions of TensorFlow's own operations.

Single numbers cannot be compared, so this is the Kolmogorov-Smirnov test of two samples. Seeds are fixed on both sides,
so a build always gets the same verdict.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.errors import ValidationError
from tfaot_pkg.frontends.toolchain.worker import WorkerPool, from_worker
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.judgement import Difference
from tfaot_pkg.verify.report import DRAWS, ClassReport
from tfaot_pkg.verify.runs import run_job
from tfaot_pkg.worker_program.messages.elements import write_arrays
from tfaot_pkg.worker_program.messages.requests import DrawNumbers, Nothing

# Enough to tell distribution functions apart that differ by 0.07 to 0.08: see `critical` below.
_COUNT = 4000
_FALSE_ALARM = 1e-9
"""The probability that a build fails although the distributions are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Draws of `library`, whose interface is `signature`; `model` is the SavedModel whose numbers have a state."""

    spec: ModelSpec
    signature: Signature
    library: NativeLibrary
    model: Path
    pool: WorkerPool

    def report(self, inputs: Mapping[str, Array], target: str) -> ClassReport:
        """The report of the class, on `target`, which runs on this CPU; `inputs` are those of the main class."""
        size, given = self.spec.compilation.batch_sizes[0], self.pool.given_folder(DRAWS)
        batched = {tensor.name: tensor.has_batch_axis for tensor in self.signature.inputs}
        fixed = {
            name: inputs[name][:size] if is_batched else inputs[name]
            for name, is_batched in batched.items()
            if name != self.spec.model.seed
        }
        theirs, ours = self._reference(fixed, given), self._run(fixed, given, target, size)
        count = sum(array.shape[1] for array in theirs.values())
        # The asymptotic bound of the two-sample test, sqrt(-ln(alpha / 2) / 2) * sqrt(2 / n). Each element is a test of
        # its own, so the probability is divided by their number (Bonferroni).
        critical = np.sqrt(-np.log(_FALSE_ALARM / max(count, 1) / 2) / 2) * np.sqrt(2 / _COUNT)
        validation, found = self.spec.validation, []
        for name, array in theirs.items():
            pairs = zip(array.T, ours[name].T, strict=True)
            apart = [distance(first, second, rtol=validation.rtol, atol=validation.atol) for first, second in pairs]
            if beyond := sum(each > critical for each in apart):
                found.append(
                    Difference(
                        target=target, batch_size=size, output=name, kind="distribution", elements=beyond,
                        max_absolute=max(apart), is_fault=True,
                    )
                )  # fmt: skip
        return ClassReport(
            name=DRAWS, rows=_COUNT, elements=count * _COUNT, refused=0, not_run="", differences=tuple(found)
        )

    def _reference(self, inputs: Mapping[str, Array], given: Path) -> dict[str, Array]:
        model = self.spec.model
        keys = dict(zip(model.inputs, model.input_keys, strict=False))
        path, answers = given / "theirs.npz", self.pool.new_folder(DRAWS) / "answers.npz"
        write_arrays(path, {keys.get(name, name): array for name, array in inputs.items()})
        request = DrawNumbers(
            folder=str(self.model), tags=model.tags, signature=model.serving_key, inputs=str(path), out=str(answers),
            count=_COUNT,
        )  # fmt: skip
        self.pool.get().call(request, Nothing)
        names = dict(zip(model.output_keys, model.outputs, strict=False))
        with from_worker():
            return {names.get(name, name): array for name, array in read_arrays(answers).items()}

    def _run(self, inputs: Mapping[str, Array], given: Path, target: str, size: int) -> Mapping[str, Array]:
        path = given / "ours.npz"
        write_arrays(path, inputs)
        job = {"seed": self.spec.model.seed, "count": _COUNT, "batch_size": size}
        try:
            return run_job(self.library, target, DRAWS, job, inputs=path, folder=given)
        except CommandFailed as error:
            raise ValidationError(f"the library does not run with {_COUNT} seeds: {error}") from error


def distance(first: Array, second: Array, *, rtol: float, atol: float) -> float:
    """The largest difference of two empirical distribution functions, if values may be off by the tolerance."""
    one, other = np.sort(first), np.sort(second)
    return max(_above(one, other, rtol, atol), _above(other, one, rtol, atol))


def _above(one: Array, other: Array, rtol: float, atol: float) -> float:
    """How far the distribution function of `one` is above that of `other`, both sorted."""
    # A step function is compared at its own steps: in between, only the other one rises.
    mine = np.searchsorted(one, one, side="right") / len(one)
    reached = one + atol + rtol * np.abs(one)
    return float((mine - np.searchsorted(other, reached, side="right") / len(other)).max(initial=0.0))
