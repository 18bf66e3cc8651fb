"""Validation: run the library for every batch size and target that can be run here, compare with its framework."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from tfaot_pkg import resources
from tfaot_pkg.arrays import Array
from tfaot_pkg.cache import BuildCache
from tfaot_pkg.code import code_digest
from tfaot_pkg.compiled.operations import OperationCode
from tfaot_pkg.compiled.program import Engine
from tfaot_pkg.cxx.compiler import Compiler
from tfaot_pkg.documents import plain
from tfaot_pkg.errors import ModelError, SpecError, ToolchainError, ValidationError
from tfaot_pkg.frozen.model import FrozenModel
from tfaot_pkg.frozen.saved_model import SavedModel
from tfaot_pkg.keys import Digest, Key, key_of, sha256_file
from tfaot_pkg.native.library import NativeLibrary
from tfaot_pkg.package.example import example_of
from tfaot_pkg.progress import Progress, Step
from tfaot_pkg.sandbox import required
from tfaot_pkg.signature import Tensor
from tfaot_pkg.source.tree import SourceTree
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.targets import TARGETS
from tfaot_pkg.toolchain.definition import Toolchain
from tfaot_pkg.toolchain.worker import TENSORFLOW, WorkerPool
from tfaot_pkg.verify.classes import compared, not_compared
from tfaot_pkg.verify.draws import Draws
from tfaot_pkg.verify.inputs import ARRANGED, BRANCHES, MAIN, ROWS, SIZES, drawn, is_drawn_for, validation_inputs
from tfaot_pkg.verify.judgement import Answers, Difference, differences, disagreements, rtol_of, telling
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
    compare,
    disagreement,
)
from tfaot_pkg.verify.rows import Order, arranged, arrangement, interactions, uncompiled_size
from tfaot_pkg.verify.runs import ENDLESS, LibraryRuns, not_run_targets, ways_to_run
from tfaot_pkg.verify.sizes import other_sizes, repeated, unlike
from tfaot_pkg.verify.steps import Steps
from tfaot_pkg.verify.symbols import sized_inputs

STAGE = "validation"
_ROWS_RUNS = 2  # of rows in other batches
_PATIENCE = 5.0
"""Factor on the time that XLA's JIT may take: two runs of the same code on a busy machine may differ that much."""
_TYPICAL = "give typical rows: `validation: {inputs: FILE.npz}` with one array for each input"
_NO_TARGET = "neither this machine nor an emulator can run any of the targets"


def inputs_document(spec: ModelSpec, digest: Digest = sha256_file) -> dict[str, object]:
    """What the inputs are, without their path. Raises SpecError if their file cannot be read."""
    validation = spec.validation
    if validation.inputs is not None:
        try:
            return {"file": validation.inputs.name, "sha256": digest(validation.inputs)}
        except OSError as error:
            raise SpecError(f"validation.inputs: cannot read {validation.inputs}: {error.strerror}") from error
    return {"seed": validation.seed, "samples": validation.samples}


def validation_key(spec: ModelSpec, source: SourceTree, native: Key, inputs: Mapping[str, object]) -> Key:
    """Depends also on which targets this machine can run."""
    return key_of(
        STAGE,
        code_digest(__name__),
        {
            "native": native,
            "source": source.digest,
            "inputs": inputs,
            "rtol": spec.validation.rtol,
            "atol": spec.validation.atol,
            "classes": list(spec.validation.classes),
            "seed": spec.validation.seed,
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
    total = len(spec.compilation.batch_sizes) + len(spec.compilation.targets) - len(not_run_targets(spec)) + _ROWS_RUNS
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
    """What `oracle.reference_bytes` gave in the validation of `key`; None if the spec asks for no tools."""
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
        self._runs = LibraryRuns(
            spec=spec, signature=frozen.signature, library=library, compiler=compiler, pool=pool, step=step
        )
        self._ways = ways_to_run(spec)
        self._targets = tuple(name for name, how in self._ways.items() if how != NOT_RUN)

    def make(self, folder: Path) -> None:
        if self._operations:  # first: their own faults are clearer than those of the whole model
            tests = OperationTests(spec=self._spec, frozen=self._frozen, compiler=self._compiler, pool=self._pool)
            tests.require(self._operations)
        signature, sizes = self._frozen.signature, self._spec.compilation.batch_sizes
        validation, sha256 = self._spec.validation, self._inputs.get("sha256")
        own = signature.without_state()
        inputs = {**validation_inputs(validation, own, max(sizes), sha256=sha256), **self._frozen.trained_state()}
        with self._saved.named():
            oracle = Oracle(
                spec=self._spec, frozen=self._frozen, saved=self._saved, pool=self._pool, step=self._step,
                scratch=self._scratch, given=self._pool.given_folder(STAGE),
            )  # fmt: skip
            theirs = oracle.main(inputs)
            weak = self._weak(oracle, theirs)
            tried, branches = self._tried(oracle, inputs)
            other = self._in_other_sizes(oracle, inputs)
            pinned = Pinned(spec=self._spec, frozen=self._frozen, engine=self._engine)
            all_tried = [*tried, *other, *pinned.tried(oracle)]
            ours = {target: self._runs.run(target, self._run_on(target, all_tried)) for target in self._targets}
            for target, answers in ours.items():
                self._require_shapes(oracle, answers[MAIN], theirs, target)
            reports = [self._class_report(oracle, each, ours) for each in tried]
            # Wrong answers would show a second time as rows that interact.
            if not any(one.is_fault for each in reports for one in each.differences):
                reports += self._rows_reports(oracle, inputs, ours)
                reports += [self._sizes_report(oracle, each, ours) for each in other]
                reports += self._steps_reports()
                reports += self._draws_reports(inputs)
            report = self._report(oracle, ours, theirs, reports, branches, weak)
            example = example_of(
                signature, sizes, independent=self._frozen.rows.independent, inputs=inputs, answers=theirs
            )
            if report.failed:
                raise disagreement(self._spec.model.name, report)
            # Last: wrong answers are the better account of a fault than other bits.
            report = replace(report, hashes=pinned.hashes(ours), example=example)
        if self._spec.package.tools:
            stored = reference_bytes(
                signature=signature, uid=self._library.uid, batch_sizes=sizes,
                validation=validation, inputs=inputs, answers=theirs,
            )  # fmt: skip
            (folder / REFERENCE_FILE).write_bytes(stored)
        (folder / "report.json").write_text(json.dumps(plain(report), indent=1))

    def _weak(self, oracle: Oracle, theirs: Mapping[str, Array]) -> tuple[str, ...]:
        """What makes the comparison with `theirs` weak. Raises ValidationError if it could not fail."""
        signature, found = self._frozen.signature, []
        follows = any(tensor.has_batch_axis for tensor in signature.inputs)
        for tensor in signature.outputs:
            answers = [theirs[f"{size}/{tensor.name}"] for size in self._spec.compilation.batch_sizes]
            tells, weakness = telling(answers, rows=follows and tensor.has_batch_axis)
            if not tells:
                raise ValidationError(
                    f"with the inputs of the validation, {oracle.framework} gives not one finite number for the output "
                    f"{tensor.name!r}: no fault could show",
                    hint=_TYPICAL,
                )
            if weakness:
                found.append(f"output {tensor.name!r}: {weakness}; {_TYPICAL}")
        return tuple(found)

    def _tried(self, oracle: Oracle, inputs: Mapping[str, Array]) -> tuple[list[Tried], tuple[Branch, ...]]:
        """All classes with eager TensorFlow's answers, the main class first, and branches that no input took."""
        signature, validation = self._frozen.signature.without_state(), self._spec.validation
        rows, state = max(ROWS, *self._spec.compilation.batch_sizes), self._frozen.trained_state()
        classes = {name: {**drawn(name, signature, seed=validation.seed, rows=rows), **state}
                   for name in validation.classes if name != BRANCHES and is_drawn_for(name, signature)}  # fmt: skip
        tried = [oracle.tried_main(inputs), *(oracle.tried(name, arrays) for name, arrays in classes.items())]
        sized = sized_inputs(signature, validation.classes, seed=validation.seed, rows=rows)
        tried += [
            with_answers(oracle.framework, replace(oracle.tried(name, {**arrays, **state}), at_sizes=True))
            for name, arrays in sized.items()
        ]
        if (answered := oracle.answered()) is not None:
            tried.append(answered)
        if BRANCHES not in validation.classes:
            return tried, ()
        found, not_taken = oracle.branches(rows)
        return [*tried, *([] if found is None else [found])], not_taken

    def _run_on(self, target: str, tried: Sequence[Tried]) -> list[Tried]:
        """What the code of `target` is run on: under an emulator, symbols have their maxima."""
        return [each for each in tried if self._ways[target] == NATIVE or not each.at_sizes]

    def _rows_reports(
        self,
        oracle: Oracle,
        inputs: Mapping[str, Array],
        known: Mapping[str, Mapping[str, Mapping[str, Array] | str]],
    ) -> list[ClassReport]:
        """The reports of the same rows in other batches, on the best target that runs here and in TensorFlow.

        Each is compared with what it gave for the main class; `known` has that of the library.
        """
        signature, sizes = self._frozen.signature, self._spec.compilation.batch_sizes
        batched = [tensor for tensor in signature.inputs if tensor.has_batch_axis]
        if not batched:
            return []
        order = arrangement(min(len(inputs[tensor.name]) for tensor in batched), sizes)
        tried = oracle.arranged(arranged(inputs, signature, order))
        if not self._frozen.rows.independent:
            return [not_compared(tried, "rows depend on one another: only compiled batch sizes run")]
        if not self._targets:
            return [not_compared(tried, _NO_TARGET)]
        # Native before emulated, which is slow; then the highest level.
        best = max(self._targets, key=lambda name: (self._ways[name] == NATIVE, TARGETS[name].level))
        ours, before = self._runs.run(best, [tried])[tried.name], known[best][MAIN]
        if isinstance(ours, str) or isinstance(before, str):
            return [compared(tried, {}, self._without_answers(oracle, tried, best, str(ours)))]
        main = oracle.tried_main(inputs)
        answers, expected = {best: ours}, {best: before, oracle.framework: main.eager}
        with suppress(ModelError, ToolchainError):  # the model's own checks may reject such a batch
            answers[oracle.framework] = oracle.at_size(tried, uncompiled_size(sizes))
        if any(self._interactions(target, each, expected[target], main, order) for target, each in answers.items()):
            main = oracle.explored(main)  # if TensorFlow's answers are as sensitive, rows need not interact
        found = [
            one
            for target, each in answers.items()
            for one in self._interactions(target, each, expected[target], main, order)
        ]
        return [compared(tried, answers, found)]

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
        others = other_sizes(self._engine.block, sizes)
        return [oracle.in_sizes(repeated(inputs, signature, sizes, others), others)]

    def _sizes_report(
        self, oracle: Oracle, tried: Tried, ours: Mapping[str, Mapping[str, Mapping[str, Array] | str]]
    ) -> ClassReport:
        if not ours:
            return not_compared(tried, _NO_TARGET)
        found: list[Difference] = []
        complete: dict[str, Mapping[str, Array]] = {}
        for target, classes in ours.items():
            answers, known = classes[tried.name], classes[MAIN]
            if isinstance(answers, str) or isinstance(known, str):
                found += self._without_answers(oracle, tried, target, str(answers))
                continue
            complete[target] = answers
            found += unlike(answers, known, target=target, signature=self._frozen.signature)
        return compared(tried, complete, found)

    def _interactions(
        self, target: str, answers: Mapping[str, Array], expected: Mapping[str, Array], main: Tried, order: Order
    ) -> list[Difference]:
        validation = self._spec.validation
        spreads = {name: array for name, array in main.eager.items() if name.endswith("/spread")}
        return list(
            interactions(
                answers, {**spreads, **expected}, order, target=target, signature=self._frozen.signature,
                rtol=validation.rtol, atol=validation.atol, operations=main.operations,
            )
        )  # fmt: skip

    def _does_not_run(self, target: str, reason: str) -> ValidationError:
        return ValidationError(
            f"the compiled model {self._spec.model.name} does not run for target {target}: {reason}",
            hint="this is a fault of the toolchain or of this tool: try another toolchain, and report it",
        )

    def _class_report(
        self, oracle: Oracle, tried: Tried, ours: Mapping[str, Mapping[str, Mapping[str, Array] | str]]
    ) -> ClassReport:
        if tried.fault:
            return not_compared(tried, tried.fault)
        ours = {target: classes for target, classes in ours.items() if tried.name in classes}
        if not ours:
            return not_compared(tried, _NO_TARGET)
        answers = {
            target: self._patiently(oracle, tried, target, classes[tried.name]) for target, classes in ours.items()
        }
        differences = [one for target, each in answers.items() if isinstance(each, str)
                       for one in self._without_answers(oracle, tried, target, each)]  # fmt: skip
        complete = {target: each for target, each in answers.items() if not isinstance(each, str)}
        if any(self._disagrees(tried, each) for each in complete.values()):
            tried = oracle.explored(tried)
            if tried.fault:
                return not_compared(tried, tried.fault)
        for target, each in complete.items():
            if self._disagrees(tried, each):
                flushed = self._runs.run(target, [tried], flush=True)[tried.name]
                differences += self._judged(tried, target, each, flushed if not isinstance(flushed, str) else {})
        return compared(tried, complete, differences)

    def _patiently(
        self, oracle: Oracle, tried: Tried, target: str, answers: Mapping[str, Array] | str
    ) -> Mapping[str, Array] | str:
        """`answers`; if the library did not end in time but XLA's JIT does, those of a run with more time."""
        if answers != ENDLESS or tried.seconds is None or not oracle.ends_compiled(tried):
            return answers
        return self._runs.run(target, [replace(tried, seconds=_PATIENCE * tried.seconds)])[tried.name]

    def _without_answers(self, oracle: Oracle, tried: Tried, target: str, how: str) -> list[Difference]:
        """The library crashed or did not end."""
        ends = how != ENDLESS or tried.name in (MAIN, ARRANGED, SIZES) or oracle.ends_compiled(tried)
        return [
            Difference(
                target=target, batch_size=0, output="", kind="does not end" if how == ENDLESS else "real", elements=0,
                max_absolute=None, agrees_with="" if ends else "jit_compile=True", is_fault=ends,
            )
        ]  # fmt: skip

    def _disagrees(self, tried: Tried, ours: Mapping[str, Array]) -> bool:
        validation = self._spec.validation
        return any(
            disagreements(
                self._answers(tried, ours, {}, size, tensor), class_name=tried.kind,
                rtol=rtol_of(tensor.dtype, validation.rtol), atol=validation.atol,
            ).any()
            for size in self._spec.compilation.batch_sizes for tensor in self._frozen.signature.outputs
        )  # fmt: skip

    def _judged(
        self, tried: Tried, target: str, ours: Mapping[str, Array], flushed: Mapping[str, Array]
    ) -> list[Difference]:
        validation = self._spec.validation
        return [
            one
            for size in self._spec.compilation.batch_sizes
            for tensor in self._frozen.signature.outputs
            for one in differences(
                self._answers(tried, ours, flushed, size, tensor), class_name=tried.kind, target=target,
                batch_size=size, output=tensor.name, rtol=rtol_of(tensor.dtype, validation.rtol), atol=validation.atol,
                operations=tried.operations,
            )
        ]  # fmt: skip

    @staticmethod
    def _answers(
        tried: Tried, ours: Mapping[str, Array], flushed: Mapping[str, Array], size: int, tensor: Tensor
    ) -> Answers:
        name = f"{size}/{tensor.name}"
        mine = ours[name]
        return Answers(
            ours=mine,
            eager=tried.eager.get(name),
            eager_ran=_mask(tried.eager.get(f"{size}/ran"), size, tensor, mine),
            spread=tried.eager.get(f"{name}/spread"),
            flushed=flushed.get(name),
            jit=tried.jit.get(name),
            jit_ran=_mask(tried.jit.get(f"{size}/ran"), size, tensor, mine),
        )

    def _report(
        self,
        oracle: Oracle,
        ours: Mapping[str, Mapping[str, Mapping[str, Array] | str]],
        theirs: Mapping[str, Array],
        classes: list[ClassReport],
        branches: tuple[Branch, ...],
        weak: tuple[str, ...],
    ) -> ValidationReport:
        return ValidationReport(
            reference=_reference(oracle, self._pool.environment.toolchain),
            origin=self._frozen.origin,
            inputs=self._inputs,
            rtol=self._spec.validation.rtol,
            atol=self._spec.validation.atol,
            comparisons=tuple(
                one
                for target, each in ours.items()
                if not isinstance(main := each[MAIN], str)
                for one in self._comparisons(target, main, theirs)
            ),
            classes=tuple(classes),
            branches_not_taken=branches,
            targets=self._ways,
            warnings=(*self._frozen.warnings, *weak),
            confinement=required().level.value,
            rows=self._frozen.rows,
        )

    def _comparisons(self, target: str, ours: Mapping[str, Array], theirs: Mapping[str, Array]) -> Iterator[Comparison]:
        for size in self._spec.compilation.batch_sizes:
            for tensor in self._frozen.signature.outputs:
                name = f"{size}/{tensor.name}"
                yield compare(
                    ours[name], theirs[name], target=target, batch_size=size, output=tensor.name,
                    rtol=rtol_of(tensor.dtype, self._spec.validation.rtol), atol=self._spec.validation.atol,
                )  # fmt: skip

    def _require_shapes(
        self, oracle: Oracle, ours: Mapping[str, Array] | str, theirs: Mapping[str, Array], target: str
    ) -> None:
        if ours == ENDLESS:
            return  # a difference of its own kind
        if isinstance(ours, str):
            raise self._does_not_run(target, ours)
        if set(ours) != set(theirs):
            raise ToolchainError(f"{oracle.framework} gave the outputs {sorted(theirs)}, the library {sorted(ours)}")
        for name in theirs:
            if ours[name].shape != theirs[name].shape or ours[name].dtype != theirs[name].dtype:
                size, _, output = name.partition("/")
                raise ValidationError(
                    f"output {output!r} at batch size {size}: {oracle.framework} gives "
                    f"{theirs[name].dtype}{list(theirs[name].shape)}, the library "
                    f"{ours[name].dtype}{list(ours[name].shape)}"
                )


def _reference(oracle: Oracle, toolchain: Toolchain) -> str:
    """The frameworks and their versions; TensorFlow's is the toolchain."""
    if oracle.framework == TENSORFLOW:
        return f"tensorflow {toolchain.version}"
    asked = f"{oracle.framework} {oracle.version}"
    return f"{oracle.answered_by} and {asked}" if oracle.answered_by else asked


def _mask(ran: Array | None, size: int, tensor: Tensor, answers: Array) -> Array:
    """Mask of the elements of `answers` whose batches ran; all if there is no record of that."""
    if ran is None:
        return np.ones(answers.shape, bool)
    rows = np.repeat(ran, size) if tensor.has_batch_axis else ran[:1]
    return np.broadcast_to(rows.reshape(-1, *[1] * (answers.ndim - 1)) if answers.ndim else rows[0], answers.shape)
