"""Tests steps of a model with state: the library must carry it over as TensorFlow does, and give the same answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tfaot_pkg.frontends.toolchain.worker import WorkerPool, from_worker
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.spec.types import ModelSpec, Validation
from tfaot_pkg.verify.evidence import agreement, rtol_of
from tfaot_pkg.verify.inputs import drawn
from tfaot_pkg.verify.judgement import Difference
from tfaot_pkg.verify.limits import USUAL, Drawing
from tfaot_pkg.verify.report import ClassReport
from tfaot_pkg.verify.runs import run_job
from tfaot_pkg.worker_program.messages.elements import numbers, write_arrays
from tfaot_pkg.worker_program.messages.requests import Nothing, RunSteps

STEPS = "steps"
"""The class of inputs of this module."""

_COUNT = 16
"""The number of steps: enough for an optimizer's moments to matter, and few enough for roundings not to."""
_TRIES = 3  # runs on perturbed inputs, which show how sensitive the answers are to roundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Steps of `library`, whose interface is `signature`; `model` is the folder of the SavedModel.

    `drawing` says how inputs are drawn.
    """

    spec: ModelSpec
    signature: Signature
    library: NativeLibrary
    model: Path
    pool: WorkerPool
    drawing: Drawing = USUAL

    def report(self, targets: Sequence[str]) -> ClassReport:
        """The report of the class, on `targets` that run on this CPU. Raises the errors of a worker."""
        size = self.spec.compilation.batch_sizes[0]
        inputs = step_inputs(self.signature, self.spec.validation, size, self.drawing)
        given = self.pool.given_folder(STEPS)
        path = given / "inputs.npz"
        write_arrays(path, inputs)
        theirs = self._reference(path)
        found: list[Difference] = []
        elements = 0
        for target in targets:
            ours = self._run(target, path, given)
            if isinstance(ours, str):
                found.append(_fault(target, size, "the steps do not run", ours))
                continue
            elements += sum(array.size for array in ours.values())
            found += self._differences(target, size, ours, theirs)
        reason = "" if targets else "no target runs on this CPU"
        return ClassReport(
            name=STEPS, rows=_COUNT, elements=elements, refused=0, not_run=reason, differences=tuple(found)
        )

    def _reference(self, inputs: Path) -> Mapping[str, Array]:
        answers = self.pool.new_folder(STEPS) / "answers.npz"
        request = RunSteps(
            folder=str(self.model),
            tags=self.spec.model.tags,
            signature=self.spec.model.serving_key,
            inputs=str(inputs),
            out=str(answers),
            variables=tuple(each.name for each in self.signature.state),
            tries=_TRIES,
        )
        self.pool.get().call(request, Nothing)
        with from_worker():
            return read_arrays(answers)

    def _run(self, target: str, inputs: Path, folder: Path) -> Mapping[str, Array] | str:
        """The library's answers, or the reason why there are none."""
        try:
            return run_job(self.library, target, STEPS, {}, inputs=inputs, folder=folder)
        except CommandFailed as error:
            return str(error)

    def _differences(
        self, target: str, size: int, ours: Mapping[str, Array], theirs: Mapping[str, Array]
    ) -> list[Difference]:
        validation, found = self.spec.validation, []
        for name in (name for name in theirs if not name.startswith("spread/")):
            if name not in ours or numbers(ours[name], self._dtype(name)).shape != theirs[name].shape:
                found.append(_fault(target, size, name, "another shape"))
                continue
            given, rtol = numbers(ours[name], self._dtype(name)), rtol_of(self._tensor(name).dtype, validation.rtol)
            spread = theirs[f"spread/{name}"]
            # An integer that other roundings change in TensorFlow, too, has no right value.
            near = agreement(given, theirs[name], rtol=rtol, atol=validation.atol, spread=spread) | np.isinf(spread)
            if near.all():
                continue
            distance = np.abs(given.astype(np.float64) - theirs[name].astype(np.float64))[~near]
            finite = distance[np.isfinite(distance)]
            found.append(
                Difference(
                    target=target, batch_size=size, output=name, kind="real", elements=int(np.count_nonzero(~near)),
                    max_absolute=float(finite.max()) if finite.size else None, is_fault=True,
                )
            )  # fmt: skip
        return found

    def _dtype(self, name: str) -> str:
        return self._tensor(name).dtype.value

    def _tensor(self, name: str) -> Tensor:
        """The tensor of "outputs/NAME" or "state/NAME"."""
        kind, _, own = name.partition("/")
        tensors = {tensor.name: tensor for tensor in (*self.signature.inputs, *self.signature.outputs)}
        names = {each.name: each.input for each in self.signature.state}
        return tensors[names[own] if kind == "state" else own]


def _fault(target: str, size: int, output: str, reason: str) -> Difference:
    return Difference(
        target=target, batch_size=size, output=f"{output} ({reason})", kind="real", elements=1,
        max_absolute=None, is_fault=True,
    )  # fmt: skip


def step_inputs(
    signature: Signature, validation: Validation, batch_size: int, drawing: Drawing = USUAL
) -> dict[str, Array]:
    """Inputs of all steps along a first axis, drawn from the seed like the main class, once for each step."""
    own = signature.without_state()
    seeds = np.random.SeedSequence(validation.seed).generate_state(_COUNT)
    steps = [drawn(STEPS, own, seed=int(seed), rows=batch_size, drawing=drawing) for seed in seeds]
    if not own.inputs:  # an array all the same, because its length is the number of steps
        return {"": np.zeros(_COUNT)}
    return {tensor.name: np.stack([step[tensor.name] for step in steps]) for tensor in own.inputs}
