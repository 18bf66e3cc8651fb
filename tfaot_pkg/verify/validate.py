"""Validation: run the library for every batch size and target that can run here, and compare with its framework."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.analysis.accuracy import Accuracy, bars_of, require_bars, require_held
from tfaot_pkg.analysis.tasks import label_fault
from tfaot_pkg.errors import ModelError, SpecError, ValidationError
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.toolchain.definition import Toolchain
from tfaot_pkg.frontends.toolchain.worker import TENSORFLOW, WorkerPool
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.code import code_digest
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import Digest, Key, key_of, sha256_file
from tfaot_pkg.ground.progress import Progress, Step
from tfaot_pkg.ground.sandbox import required
from tfaot_pkg.native.compiled.operations import OperationCode
from tfaot_pkg.native.compiled.program import Engine
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.package.example import Example, example_of, example_sizes
from tfaot_pkg.spec.document import written
from tfaot_pkg.spec.row_files import DOCUMENTED, arrays_of, digest_in, hint_of
from tfaot_pkg.spec.source.tree import SourceTree
from tfaot_pkg.spec.types import INPUTS_KEY, LABELS_KEY, ModelSpec
from tfaot_pkg.verify.classes import Judge
from tfaot_pkg.verify.draws import Draws
from tfaot_pkg.verify.extent import extents_of
from tfaot_pkg.verify.inputs import (
    ARRANGED,
    BRANCHES,
    MAIN,
    classes_of,
    drawn,
    name_of_sizes,
    sized_inputs,
    validation_inputs,
)
from tfaot_pkg.verify.judgement import telling
from tfaot_pkg.verify.limits import drawing_of, require_inputs
from tfaot_pkg.verify.operations import OperationTests
from tfaot_pkg.verify.oracle import REFERENCE_FILE, Oracle, Tried, reference_bytes, with_answers
from tfaot_pkg.verify.pinned import Pinned
from tfaot_pkg.verify.report import (
    NATIVE,
    NOT_RUN,
    Branch,
    ClassReport,
    Comparison,
    ValidationReport,
    disagreement,
    undefined,
)
from tfaot_pkg.verify.runs import LibraryRuns, not_run_targets, ways_to_run
from tfaot_pkg.verify.sizes import other_sizes, repeated
from tfaot_pkg.verify.steps import Steps
from tfaot_pkg.verify.stored import StoredAnswers, StoredOracle, answers_in, require_stored

STAGE = "validation"
_ONLY_POSITIVE = "random numbers of both signs, and zeros, give no answers that can be compared: all drawn are positive"
_SMALL = (
    "the framework rejects numbers that the model's operations seem to take: integers are 0 or 1; state what it takes "
    "(validation.ranges)"
)
_TYPICAL = "give typical rows: `validation: {inputs: FILE.npz}` with one array for each input"


def inputs_document(spec: ModelSpec, digest: Digest = sha256_file) -> dict[str, object]:
    """A description of the inputs, without their path, and of the other files of rows that a build reads.

    Raises SpecError if their file cannot be read, or if the model's file cannot have answers to them.
    """
    validation = spec.validation
    if spec.model.files.format == "aten":
        require_stored(validation)
    digests = {key: _file_document(key, path, digest) for key, path in spec.data_files.items()}
    inputs = digests.pop(INPUTS_KEY, {"seed": validation.seed, "samples": validation.samples})
    return {**inputs, **{DOCUMENTED[key]: found for key, found in digests.items()}}


def _file_document(key: str, path: Path, digest: Digest) -> dict[str, object]:
    try:
        return {"file": path.name, "sha256": digest(path)}
    except OSError as error:
        raise SpecError(f"{key}: cannot read {path}: {error.strerror}", hint=hint_of(key)) from error


def validation_key(spec: ModelSpec, source: SourceTree, frozen: Key, native: Key, inputs: Mapping[str, object]) -> Key:
    """Depends also on which targets this machine can run.

    `frozen` is the key of the model as the toolchain read it, whose answers are compared: others may have the same
    library, `native`.
    """
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            "frozen": frozen,
            "native": native,
            "source": source.digest,
            "inputs": inputs,
            "rtol": spec.validation.rtol,
            "atol": spec.validation.atol,
            "classes": list(spec.validation.classes),
            "seed": spec.validation.seed,
            **({"ranges": written(spec.validation.ranges)} if spec.validation.ranges else {}),
            **({"accuracy": written(spec.validation.accuracy)} if spec.validation.accuracy else {}),
            # Another machine, or another emulator, may run other targets, so its verdict covers more or less.
            "targets": ways_to_run(spec),
            "program": resources.digest(resources.templates() / "verify"),
            "stored": spec.package.tools,
        },
    )


def validate(
    spec: ModelSpec,
    saved: SavedModel,
    frozen: FrozenModel,
    library: NativeLibrary,
    *,
    engine: Engine,
    operations: Sequence[OperationCode] = (),
    key: Key,
    inputs: Mapping[str, object],
    compiler: Compiler,
    pool: WorkerPool,
    cache: BuildCache,
    progress: Progress,
) -> ValidationReport:
    """The report, from the cache if it is there. `inputs` is what `inputs_document` returned when the key was made.

    Raises ValidationError if an answer is beyond the tolerance, or the library crashed; SourceError if the
    model's files or the inputs have changed since. Then nothing is cached. `compiler` is that of the library; a program
    (`engine`) also runs at sizes that are not in the spec. The `operations` that it calls are tested alone, too.
    """
    total = len(spec.compilation.batch_sizes) + len(spec.compilation.targets) - len(not_run_targets(spec))
    with progress.step("validate", total=total, unit="runs") as step:
        if cache.has(STAGE, key):
            step.skip("cached")

        def make(folder: Path) -> None:
            _Validation(
                spec, saved, frozen, library,
                engine=engine, operations=operations, inputs=inputs, compiler=compiler, pool=pool, step=step,
            ).make(folder)  # fmt: skip

        folder = cache.get_or_make(STAGE, key, make)
    return ValidationReport.from_dict(json.loads((folder / "report.json").read_text()))


def stored_answers(spec: ModelSpec, key: Key, cache: BuildCache) -> bytes | None:
    """The result of `oracle.reference_bytes` in the validation of `key`; None if the spec asks for no tools."""
    if not spec.package.tools:
        return None
    return (cache.folder(STAGE, key) / REFERENCE_FILE).read_bytes()


class _Validation:
    """One validation."""

    def __init__(
        self,
        spec: ModelSpec,
        saved: SavedModel,
        frozen: FrozenModel,
        library: NativeLibrary,
        *,
        engine: Engine,
        operations: Sequence[OperationCode],
        inputs: Mapping[str, object],
        compiler: Compiler,
        pool: WorkerPool,
        step: Step,
    ) -> None:
        self._spec, self._saved, self._frozen, self._library = spec, saved, frozen, library
        self._engine, self._inputs, self._pool, self._step = engine, inputs, pool, step
        self._operations, self._compiler = operations, compiler
        self._scratch = pool.new_folder(STAGE)
        self._runs = LibraryRuns(signature=frozen.signature, library=library, compiler=compiler, pool=pool, step=step)
        self._ways = ways_to_run(spec)
        self._targets = tuple(name for name, how in self._ways.items() if how != NOT_RUN)
        self._stored: StoredAnswers | None = None
        self._extents = extents_of(spec, frozen)
        drawing = drawing_of(spec.validation, frozen.ranges, frozen.trees)
        self._drawing = replace(drawing, is_long=self._extents.are_cut)

    def make(self, folder: Path) -> None:
        # First, because faults of single operations are clearer than those of the whole model.
        if self._operations:
            tests = OperationTests(spec=self._spec, frozen=self._frozen, compiler=self._compiler, pool=self._pool)
            tests.require(self._operations)
        signature, sizes = self._frozen.signature, self._spec.compilation.batch_sizes
        validation = self._spec.validation
        require_inputs(validation, signature.without_state())
        is_reduced = self._spec.compilation.precision.is_reduced
        require_bars(self._spec, signature)
        with self._saved.named():
            oracle, inputs, weak = self._begun()
            theirs = oracle.main(inputs)
            tried, branches = self._tried(oracle, inputs)
            other = self._in_other_sizes(oracle, inputs)
            pinned = Pinned(spec=self._spec, frozen=self._frozen, engine=self._engine)
            judge = Judge(
                spec=self._spec, signature=signature, independent=self._frozen.rows.independent,
                extents=self._extents, oracle=oracle, runs=self._runs,
                ways=self._ways, labels=self._labels(inputs, theirs),
            )  # fmt: skip
            rows = judge.rearranged(inputs)
            # One process per target runs all classes; after a crash, a new one runs those that are left.
            all_tried = [*tried, *other, *([rows.tried] if rows is not None else []), *pinned.tried(oracle)]
            ours = {
                target: self._runs.run(target, self._run_on(target, all_tried, judge.best)) for target in self._targets
            }
            for target, answers in ours.items():
                judge.require_shapes(answers[MAIN], theirs, target)
            reports = [judge.report(each, ours) for each in tried]
            # Otherwise wrong answers would be reported a second time, as rows that interact.
            if not any(one.is_fault for each in reports for one in each.differences):
                reports += judge.rows_reports(inputs, rows, ours)
                reports += [judge.sizes_report(each, ours) for each in other]
                reports += self._steps_reports()
                reports += self._draws_reports(inputs)
            accuracy = tuple(judge.accuracy(ours, theirs))
            report = self._report(oracle, tuple(judge.comparisons(ours, theirs)), accuracy, reports, branches, weak)
            example = self._example(inputs, theirs, tried)
            if report.failed:
                raise disagreement(self._spec.model.name, report)
            require_held(self._spec.model.name, validation.accuracy, accuracy, report.framework)
            # Last, because wrong answers explain a fault better than other bits do.
            report = replace(report, hashes=pinned.hashes(ours), example=example)
        if is_reduced:
            # NAME_test compares with the framework's answers, from which these are so far off.
            validation = replace(validation, rtol=0.0, atol=max((each.largest for each in accuracy), default=0.0))
        if self._spec.package.tools:
            stored = reference_bytes(
                signature=signature, uid=self._library.uid, batch_sizes=sizes,
                validation=validation, inputs=inputs, answers=theirs,
            )  # fmt: skip
            (folder / REFERENCE_FILE).write_bytes(stored)
        (folder / "report.json").write_text(json.dumps(plain(report), indent=1))

    def _begun(self) -> tuple[Oracle, dict[str, Array], tuple[str, ...]]:
        """(the oracle, the inputs of the main class, which it has answered, reasons why the comparison is weak).

        Raises ModelError or ValidationError if the framework has no numbers for such inputs.
        """
        try:
            return self._answered()
        except (ModelError, ValidationError) as error:
            if self._spec.validation.inputs is not None or self._saved.original.stored is not None:
                raise
            first = error
        found = self._drawing
        # Positive numbers may be all that it takes (a logarithm of a count), or a use was not seen that takes less.
        others = {
            _ONLY_POSITIVE: replace(found, positive=True),
            **({_SMALL: replace(found, found={})} if found.found else {}),
        }
        for note, self._drawing in others.items():
            with suppress(ModelError, ValidationError):
                oracle, inputs, weak = self._answered()
                return oracle, inputs, (note, *weak)
        raise first

    def _answered(self) -> tuple[Oracle, dict[str, Array], tuple[str, ...]]:
        validation, largest = self._spec.validation, max(self._spec.compilation.batch_sizes)
        own, sha256 = self._frozen.signature.without_state(), self._inputs.get("sha256")
        given: dict[str, Any] = {
            "spec": self._spec, "frozen": self._frozen, "saved": self._saved, "pool": self._pool, "step": self._step,
            "scratch": self._scratch, "given": self._pool.given_folder(STAGE), "extents": self._extents,
        }  # fmt: skip
        original = self._saved.original
        if original.stored is None:
            some = replace(validation, samples=self._extents.of(MAIN).rows(validation.samples))
            drawn = validation_inputs(some, own, largest, sha256=sha256, drawing=self._drawing)
            oracle = Oracle(**given)
        else:
            self._stored = answers_in(original.stored, self._spec, self._frozen, original, self._extents)
            drawn, oracle = dict(self._stored.inputs[MAIN]), StoredOracle(self._stored, **given)
        inputs = {**drawn, **self._frozen.trained_state()}
        return oracle, inputs, self._weak(oracle, oracle.main(inputs))

    def _labels(self, inputs: Mapping[str, Array], theirs: Mapping[str, Array]) -> dict[str, Array]:
        """The labels of the main rows, by output. Raises SpecError if the file does not fit them, or the outputs."""
        path, signature = self._spec.validation.labels, self._frozen.signature
        if path is None:
            return {}
        found = arrays_of(path, key=LABELS_KEY, sha256=digest_in(self._inputs, LABELS_KEY))
        size = max(self._spec.compilation.batch_sizes)
        rows = max((len(inputs[tensor.name]) for tensor in signature.inputs if tensor.has_batch_axis), default=0)
        names = [tensor.name for tensor in signature.outputs]
        faults = [f"the model has no output {name!r}" for name in found if name not in names]
        for name, labels in found.items():
            answers = theirs.get(f"{size}/{name}")
            if answers is not None:
                shape = np.zeros((rows, *answers.shape[1:]), answers.dtype)
                fault = label_fault(shape, labels, bars_of(self._spec.validation.accuracy, name))
                faults += [f"the array {name!r} {fault}"] if fault else []
        faults += [
            f"no labels for the output {name!r}, for which validation.accuracy has bars of them"
            for name in names
            if name not in found and bars_of(self._spec.validation.accuracy, name).has_tasks
        ]
        if faults:
            raise SpecError("\n".join(f"{LABELS_KEY}: {each}" for each in faults), hint=hint_of(LABELS_KEY))
        return found

    def _example(
        self, inputs: Mapping[str, Array], theirs: Mapping[str, Array], tried: Sequence[Tried]
    ) -> Example | None:
        signature, independent = self._frozen.signature, self._frozen.rows.independent
        compiled, sizes = self._spec.compilation.batch_sizes, example_sizes(signature)
        # With symbols, a smaller example than the maxima of the main class, if one was tried.
        if not signature.symbols or not sizes:
            return example_of(signature, compiled, independent=independent, inputs=inputs, answers=theirs)
        small = next((each for each in tried if each.name == name_of_sizes(MAIN, sizes) and not each.fault), None)
        if small is None:
            return None
        with np.load(small.inputs) as stored:
            arrays = {name: stored[name] for name in stored.files}
        return example_of(signature, compiled, independent=independent, inputs=arrays, answers=small.eager, sizes=sizes)

    def _weak(self, oracle: Oracle, theirs: Mapping[str, Array]) -> tuple[str, ...]:
        """Reasons why the comparison with `theirs` is weak. Raises ValidationError if it could not fail."""
        signature, found = self._frozen.signature, []
        follows = any(tensor.has_batch_axis for tensor in signature.inputs)
        for tensor in signature.outputs:
            answers = [theirs[f"{size}/{tensor.name}"] for size in self._spec.compilation.batch_sizes]
            tells, weakness = telling(answers, rows=follows and tensor.has_batch_axis)
            if not tells:
                raise ValidationError(
                    f"with the validation inputs, {oracle.framework} returns no finite number for the output "
                    f"{tensor.name!r}: no fault could be detected",
                    hint=_TYPICAL,
                )
            if weakness:
                found.append(f"output {tensor.name!r}: {weakness}; {_TYPICAL}")
        return tuple(found)

    def _tried(self, oracle: Oracle, inputs: Mapping[str, Array]) -> tuple[list[Tried], tuple[Branch, ...]]:
        """All classes with eager TensorFlow's answers, the main class first, and branches that no input took."""
        signature, validation = self._frozen.signature.without_state(), self._spec.validation
        rows, state = self._extents.rows, self._frozen.trained_state()
        classes: Mapping[str, Mapping[str, Array]]
        sized: Mapping[str, Mapping[str, Array]]
        if self._stored is None:
            names = classes_of(validation.classes, signature, self._drawing)
            classes = {name: drawn(name, signature, seed=validation.seed, rows=rows, drawing=self._drawing)
                       for name in names}  # fmt: skip
            sized = sized_inputs(signature, validation.classes, seed=validation.seed, rows=rows, drawing=self._drawing)
        else:
            classes, sized = self._stored.usual, self._stored.sized
        # The main class first: its time sets the limits of the others.
        tried = [oracle.tried_main(inputs)]
        tried += [oracle.tried(name, {**arrays, **state}) for name, arrays in classes.items()]
        tried += [
            with_answers(
                oracle.framework,
                replace(oracle.tried(name, {**arrays, **state}), at_sizes=True),
                signature.symbols,
            )
            for name, arrays in sized.items()
        ]
        if (answered := oracle.answered()) is not None:
            tried.append(answered)
        if (steps := oracle.thresholds()) is not None:
            tried.append(steps)
        if BRANCHES not in validation.classes:
            return tried, ()
        found, not_taken = oracle.branches(rows)
        return [*tried, *([] if found is None else [found])], not_taken

    def _run_on(self, target: str, tried: Sequence[Tried], best: str) -> list[Tried]:
        """The classes that the code of `target` is run on; that of `best` runs rearranged rows, too."""
        # Under an emulator, symbols always have their maxima (decision 043).
        usual = [each for each in tried if self._ways[target] == NATIVE or not each.at_sizes]
        return [each for each in usual if each.name != ARRANGED or target == best]

    def _steps_reports(self) -> list[ClassReport]:
        """The report of steps that carry the state over, if there is any."""
        if not self._frozen.signature.state:
            return []
        steps = Steps(
            spec=self._spec,
            signature=self._frozen.signature,
            library=self._library,
            model=self._saved.folder,
            pool=self._pool,
            drawing=self._drawing,
        )
        return [steps.report([name for name in self._targets if self._ways[name] == NATIVE])]

    def _draws_reports(self, inputs: Mapping[str, Array]) -> list[ClassReport]:
        """The report of distributions, if a seed is an input and code runs on this CPU."""
        native = [name for name in self._targets if self._ways[name] == NATIVE]
        names = {tensor.name for tensor in self._frozen.signature.inputs}
        if self._saved.drawing is None or self._spec.model.seed not in names or not native:
            return []
        draws = Draws(
            spec=self._spec,
            signature=self._frozen.signature,
            library=self._library,
            model=self._saved.drawing,
            pool=self._pool,
        )
        return [draws.report(inputs, native[-1])]

    def _in_other_sizes(self, oracle: Oracle, inputs: Mapping[str, Array]) -> list[Tried]:
        """The rows of the main class in batches of other sizes, if the model is a program."""
        signature, sizes = self._frozen.signature, self._spec.compilation.batch_sizes
        if not self._engine.is_program or not any(tensor.has_batch_axis for tensor in signature.inputs):
            return []
        # A program computes any number of rows, but in blocks: sizes beside a whole block take other paths of its code.
        others = other_sizes(self._engine.block, sizes)
        return [oracle.in_sizes(repeated(inputs, signature, sizes, others), others)]

    def _report(
        self,
        oracle: Oracle,
        comparisons: tuple[Comparison, ...],
        accuracy: tuple[Accuracy, ...],
        classes: list[ClassReport],
        branches: tuple[Branch, ...],
        weak: tuple[str, ...],
    ) -> ValidationReport:
        precision = self._spec.compilation.precision
        return ValidationReport(
            reference=_reference(oracle, self._pool.environment.toolchain),
            authored=tuple(sorted(self._spec.model.operations)),
            origin=self._frozen.origin,
            inputs=self._inputs,
            rtol=self._spec.validation.rtol,
            atol=self._spec.validation.atol,
            precision=precision.name if precision.is_reduced else "",
            accuracy=accuracy,
            bars=written(self._spec.validation.accuracy),
            layers=self._engine.layers,
            comparisons=comparisons,
            classes=tuple(classes),
            branches_not_taken=branches,
            targets=self._ways,
            warnings=(*self._frozen.warnings, *weak, *undefined(classes), *self._drawn(accuracy)),
            confinement=required().level.value,
            rows=self._frozen.rows,
        )

    def _drawn(self, accuracy: tuple[Accuracy, ...]) -> Iterator[str]:
        """That errors say little of data, if they are those of random numbers."""
        if accuracy and "file" not in self._inputs and self._stored is None:
            yield f"the errors of the outputs are those of random inputs: {_TYPICAL}"


def _reference(oracle: Oracle, toolchain: Toolchain) -> str:
    """The frameworks and their versions; TensorFlow's is the toolchain."""
    if oracle.framework == TENSORFLOW:
        return toolchain.name
    asked = f"{oracle.framework} {oracle.version}"
    return f"{oracle.answered_by} and {asked}" if oracle.answered_by else asked
