"""Validation: run the library for every batch size and target that this machine can run, compare with TensorFlow."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tfaot_pkg.cache import BuildCache
from tfaot_pkg.errors import SpecError, ToolchainError, ValidationError
from tfaot_pkg.frozen.model import FrozenModel
from tfaot_pkg.keys import Digest, Key, key_of, sha256_file
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.progress import Progress, Step
from tfaot_pkg.runtime import Array
from tfaot_pkg.source.tree import SourceTree
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS, runs_here
from tfaot_pkg.toolchain.worker import WorkerPool
from tfaot_pkg.verify.inputs import validation_inputs
from tfaot_pkg.verify.reference import FILE, reference_bytes
from tfaot_pkg.verify.report import Comparison, ValidationReport, compare
from tfaot_pkg.wording import counted

STAGE = "validation"
_VERSION = 1
_TIMEOUT = 1800.0
_SHOWN = 5


def runnable_targets(spec: ModelSpec) -> tuple[str, ...]:
    return tuple(name for name in spec.compilation.targets if runs_here(TARGETS[name]))


def inputs_document(spec: ModelSpec, digest: Digest = sha256_file) -> dict[str, object]:
    """What the inputs are, without naming a place. Raises SpecError where their file cannot be read."""
    validation = spec.validation
    if validation.inputs is not None:
        try:
            return {"file": validation.inputs.name, "sha256": digest(validation.inputs)}
        except OSError as error:
            raise SpecError(f"validation.inputs: cannot read {validation.inputs}: {error.strerror}") from error
    return {"seed": validation.seed, "samples": validation.samples}


def validate(
    spec: ModelSpec,
    source: SourceTree,
    frozen: FrozenModel,
    library: NativeLibrary,
    *,
    pool: WorkerPool,
    cache: BuildCache,
    progress: Progress,
) -> ValidationReport:
    """The report, from the cache where it is there. Raises ValidationError where an answer is beyond the tolerance,
    or the library crashed; then nothing is cached.
    """
    key = _key(spec, source, library)
    total = len(spec.compilation.batch_sizes) + len(runnable_targets(spec))
    with progress.step("validate", total=total, unit="runs") as step:
        if cache.has(STAGE, key):
            step.skip("cached")
        folder = cache.get_or_make(
            STAGE, key, lambda folder: _Validation(spec, source, frozen, library, pool, step).make(folder)
        )
    return ValidationReport.from_dict(json.loads((folder / "report.json").read_text()))


def _key(spec: ModelSpec, source: SourceTree, library: NativeLibrary) -> Key:
    return key_of(
        STAGE,
        _VERSION,
        {
            "native": library.key,
            "source": source.digest,
            "inputs": inputs_document(spec),
            "rtol": spec.validation.rtol,
            "atol": spec.validation.atol,
            "targets": list(runnable_targets(spec)),
            "stored": spec.package.tools,
        },
    )


def stored_answers(spec: ModelSpec, source: SourceTree, library: NativeLibrary, cache: BuildCache) -> bytes | None:
    """What `reference.reference_bytes` gave in the validation that was made; None where the spec asks for no tools."""
    if not spec.package.tools:
        return None
    return (cache.folder(STAGE, _key(spec, source, library)) / FILE).read_bytes()


class _Validation:
    """One validation."""

    def __init__(
        self,
        spec: ModelSpec,
        source: SourceTree,
        frozen: FrozenModel,
        library: NativeLibrary,
        pool: WorkerPool,
        step: Step,
    ) -> None:
        self._spec, self._source, self._frozen, self._library = spec, source, frozen, library
        self._pool, self._step = pool, step
        self._scratch = pool.new_folder(STAGE)

    def make(self, folder: Path) -> None:
        sizes = self._spec.compilation.batch_sizes
        inputs = validation_inputs(self._spec.validation, self._frozen.signature, max(sizes))
        np.savez(self._scratch / "inputs.npz", **inputs)  # type: ignore[arg-type]  # NumPy's stub takes keywords for options
        theirs = self._reference()
        ours = {target: self._ours(target) for target in runnable_targets(self._spec)}
        report = self._report(self._compare(ours, theirs))
        if report.failed:
            raise _disagreement(self._spec, report)
        if self._spec.package.tools:
            stored = reference_bytes(
                signature=self._frozen.signature, uid=self._library.uid, batch_sizes=sizes,
                validation=self._spec.validation, inputs=inputs, answers=theirs,
            )  # fmt: skip
            (folder / FILE).write_bytes(stored)
        (folder / "report.json").write_text(json.dumps(report.as_dict(), indent=1))

    def _report(self, comparisons: list[Comparison]) -> ValidationReport:
        ran = runnable_targets(self._spec)
        return ValidationReport(
            toolchain=f"tensorflow {self._pool.environment.toolchain.version}",
            inputs=inputs_document(self._spec),
            rtol=self._spec.validation.rtol,
            atol=self._spec.validation.atol,
            comparisons=tuple(comparisons),
            not_run=tuple(name for name in self._spec.compilation.targets if name not in ran),
            warnings=self._frozen.warnings,
        )

    def _reference(self) -> dict[str, Array]:
        """TensorFlow's answers, from a worker without the spec's flags: those are part of what is validated."""
        answers = self._scratch / "reference.npz"
        signature = self._frozen.signature
        arguments = {
            "folder": str(self._source.root / self._spec.model.saved_model),
            "tags": list(self._spec.model.tags),
            "signature": self._spec.model.serving_key,
            "inputs": str(self._scratch / "inputs.npz"),
            "out": str(answers),
            "batch_sizes": list(self._spec.compilation.batch_sizes),
            "batched": [tensor.name for tensor in signature.inputs if tensor.has_batch_axis],
            "stacked": [tensor.name for tensor in signature.outputs if tensor.has_batch_axis],
        }
        self._pool.get().call("reference", arguments, step=self._step)
        return _load(answers)

    def _ours(self, target: str) -> dict[str, Array]:
        answers = self._scratch / f"{target}.npz"
        sizes = [str(size) for size in self._spec.compilation.batch_sizes]
        program = [sys.executable, "-m", "tfaot_pkg.verify.runner"]
        try:
            run(
                [*program, self._library.shared, self._scratch / "inputs.npz", answers, target, *sizes],
                cwd=self._scratch,
                env=_runner_environment(),
                timeout=_TIMEOUT,
            )
        except CommandFailed as error:
            raise ValidationError(
                f"the compiled model {self._spec.model.name} does not run for target {target}: {error}",
                hint="this is a fault of the toolchain or of this tool: try another toolchain, and report it",
            ) from error
        self._step.advance(note=target)
        return _load(answers)

    def _compare(self, ours: Mapping[str, Mapping[str, Array]], theirs: Mapping[str, Array]) -> list[Comparison]:
        """`ours` by target."""
        return [each for target, answers in ours.items() for each in self._compare_target(target, answers, theirs)]

    def _compare_target(self, target: str, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> list[Comparison]:
        if set(ours) != set(theirs):
            raise ToolchainError(f"TensorFlow gave the outputs {sorted(theirs)}, the library {sorted(ours)}")
        comparisons = []
        for size in self._spec.compilation.batch_sizes:
            for tensor in self._frozen.signature.outputs:
                name = f"{size}/{tensor.name}"
                if ours[name].shape != theirs[name].shape or ours[name].dtype != theirs[name].dtype:
                    raise ValidationError(
                        f"output {tensor.name!r} at batch size {size}: TensorFlow gives "
                        f"{theirs[name].dtype}{list(theirs[name].shape)}, the library "
                        f"{ours[name].dtype}{list(ours[name].shape)}"
                    )
                comparisons.append(
                    compare(
                        ours[name], theirs[name], target=target, batch_size=size, output=tensor.name,
                        rtol=self._spec.validation.rtol, atol=self._spec.validation.atol,
                    )
                )  # fmt: skip
        return comparisons


def _runner_environment() -> dict[str, str]:
    """The runner's process imports the very package that runs here, wherever it was imported from."""
    package = str(Path(__file__).resolve().parents[2])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH", ""))))}


def _load(path: Path) -> dict[str, Array]:
    with np.load(path, allow_pickle=False) as file:
        return dict(file)


def _disagreement(spec: ModelSpec, report: ValidationReport) -> ValidationError:
    """The error for a report with failures."""
    worst = sorted(report.failed, key=lambda c: -c.failures / c.elements)[:_SHOWN]
    lines = "\n".join(
        f"  output {c.output!r}, batch size {c.batch_size}, {c.target}: "
        f"{c.failures} of {counted(c.elements, 'element')}, "
        f"largest difference {c.max_absolute:.3g} (relative {c.max_relative:.3g})"
        for c in worst
    )
    return ValidationError(
        f"model {spec.model.name}: the compiled library does not give TensorFlow's answers "
        f"(rtol {report.rtol:g}, atol {report.atol:g}):\n{lines}",
        hint="widen validation.rtol and validation.atol where such differences are acceptable, or give realistic "
        "inputs (validation.inputs); random models, indices out of range and ties of argmax differ by nature",
    )
