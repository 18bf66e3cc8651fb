"""Reports of classes of inputs: how the library's answers differ from those of the framework.

judgement.py judges arrays; this module decides which arrays it gets, and which runs are repeated for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tfaot_pkg.analysis.accuracy import Accuracy, bars_of, measured, unlike_finite
from tfaot_pkg.errors import ModelError, ToolchainError, ValidationError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.evidence import Answers, Free, Spread, agreement, rtol_of, spread_of, widened
from tfaot_pkg.verify.extent import Extents
from tfaot_pkg.verify.inputs import ARRANGED, MAIN, SIZES
from tfaot_pkg.verify.judgement import Difference, differences, disagreements
from tfaot_pkg.verify.oracle import Batches, Oracle, Tried
from tfaot_pkg.verify.report import NATIVE, NOT_RUN, ClassReport, Comparison, compare
from tfaot_pkg.verify.rows import Order, arranged, arrangement, interactions, larger_sizes, uncompiled_size
from tfaot_pkg.verify.runs import ENDLESS, LibraryRuns
from tfaot_pkg.verify.sizes import unlike

Given = Mapping[str, Array] | str
"""The library's answers for one class, by "SIZE/OUTPUT"; or the reason why there are none."""

ByTarget = Mapping[str, Mapping[str, Given]]
"""Answers by target and class."""

_PATIENCE = 5.0
"""Factor on the time that XLA's JIT may take: two runs of the same code on a busy machine may differ that much."""
_HIDDEN = frozenset({"ai.onnx.If", "ai.onnx.Loop", "ai.onnx.Scan"})
"""Operators with bodies."""
_SAME = 1e-6
"""Answers in float64 for the same row that differ by less, absolute and relative, do not depend on the batch's size."""
_NO_TARGET = "neither this machine nor an emulator can run any of the targets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rearranged:
    """The rows of the main class in another `order`, so that they are in other batches.

    `repeated` has them again and again, for a batch of each of the `larger` sizes in the framework.
    """

    order: Order
    tried: Tried
    repeated: Tried
    larger: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """Compares answers of a library with those of `oracle`.

    `signature` is its interface; `independent` says whether its rows are, and `extents` how much of each class runs.
    `ways` says how the code of each target is run (`runs.ways_to_run`).
    `labels` are those of the main rows, by output.
    """

    spec: ModelSpec
    signature: Signature
    independent: bool
    extents: Extents
    oracle: Oracle
    runs: LibraryRuns
    ways: Mapping[str, str]
    labels: Mapping[str, Array] = field(default_factory=dict)

    def comparisons(self, ours: ByTarget, theirs: Mapping[str, Array]) -> Iterator[Comparison]:
        """The main class, in numbers, on each target that gave answers."""
        validation = self.spec.validation
        # Of reduced precision, only what is not finite fails here: bars judge all else.
        atol = math.inf if self.spec.compilation.precision.is_reduced else validation.atol
        for target, classes in ours.items():
            main = classes[MAIN]
            if isinstance(main, str):
                continue
            for size, tensor, name in self._outputs(self.spec.compilation.batch_sizes):
                yield compare(
                    main[name], theirs[name], target=target, batch_size=size, output=tensor.name,
                    rtol=rtol_of(tensor.dtype, validation.rtol), atol=atol,
                )  # fmt: skip

    def accuracy(self, ours: ByTarget, theirs: Mapping[str, Array]) -> Iterator[Accuracy]:
        """The errors of the main class on each target, if the spec has bars: of the batch size with the most rows."""
        bars = self.spec.validation.accuracy
        for target, classes in ours.items() if bars or self.labels else ():
            main = classes[MAIN]
            if isinstance(main, str):
                continue
            for tensor in self.signature.outputs:
                outputs = self._outputs(self.spec.compilation.batch_sizes)
                names = [name for _, each, name in outputs if each.name == tensor.name]
                name = max(names, key=lambda each: theirs[each].size)
                own, labels = bars_of(bars, tensor.name), self.labels.get(tensor.name)
                yield measured(
                    main[name], theirs[name], own, target=target, output=tensor.name,
                    labels=None if labels is None else labels[: len(theirs[name])],
                )  # fmt: skip

    def require_shapes(self, ours: Given, theirs: Mapping[str, Array], target: str) -> None:
        """Raise ValidationError if the library gave no answers for the main class, or arrays of other shapes."""
        if ours == ENDLESS:
            return  # a difference of its own kind
        if isinstance(ours, str):
            raise ValidationError(
                f"the compiled model {self.spec.model.name} does not run for target {target}: {ours}",
                hint="this is a fault of the toolchain or of this tool: try another toolchain, and report it",
            )
        framework = self.oracle.framework
        if set(ours) != set(theirs):
            raise ToolchainError(f"{framework} gave the outputs {sorted(theirs)}, the library {sorted(ours)}")
        for name in theirs:
            if ours[name].shape != theirs[name].shape or ours[name].dtype != theirs[name].dtype:
                size, _, output = name.partition("/")
                raise ValidationError(
                    f"output {output!r} at batch size {size}: {framework} gives "
                    f"{theirs[name].dtype}{list(theirs[name].shape)}, the library "
                    f"{ours[name].dtype}{list(ours[name].shape)}"
                )

    def report(self, tried: Tried, ours: ByTarget) -> ClassReport:
        """The report of one class."""
        if tried.fault:
            return not_compared(tried, tried.fault)
        ours = {target: classes for target, classes in ours.items() if tried.name in classes}
        if not ours:
            return not_compared(tried, _NO_TARGET)
        answers = {target: self._patiently(tried, target, classes[tried.name]) for target, classes in ours.items()}
        found = [
            self._without_answers(tried, target, each) for target, each in answers.items() if isinstance(each, str)
        ]
        complete = {target: each for target, each in answers.items() if not isinstance(each, str)}
        if self.spec.compilation.precision.is_reduced:
            # Bars judge the numbers of the main inputs, and nothing those of others (decision 093).
            found += self._not_finite(tried, complete) if tried.name == MAIN else []
            return compared(tried, complete, found)
        # Only of what differs: these runs of the framework take longer than all others.
        if differing := self._differing(tried, [*complete.values()]):
            tried = self.oracle.explored(tried, differing)
            if tried.fault:
                return not_compared(tried, tried.fault)
        for target, each in complete.items():
            if self._disagrees(tried, each):
                # The library's answers if subnormal numbers are flushed to zero, as by TensorFlow's executor.
                flushed = self.runs.run(target, [tried], flush=True)[tried.name]
                found += self._judged(tried, target, each, {} if isinstance(flushed, str) else flushed)
        return compared(tried, complete, found)

    def sizes_report(self, tried: Tried, ours: ByTarget) -> ClassReport:
        """The report of rows of the main class in batches of sizes that are not in the spec."""
        if not ours:
            return not_compared(tried, _NO_TARGET)
        found: list[Difference] = []
        complete: dict[str, Mapping[str, Array]] = {}
        for target, classes in ours.items():
            answers, known = classes[tried.name], classes[MAIN]
            if isinstance(answers, str) or isinstance(known, str):
                found.append(self._without_answers(tried, target, _reason(answers, known)))
                continue
            complete[target] = answers
            found += unlike(answers, known, target=target, signature=self.signature)
        return compared(tried, complete, found)

    def rearranged(self, inputs: Mapping[str, Array]) -> Rearranged | None:
        """The rows of the main class, whose `inputs` these are, in other batches; None if there are no batches."""
        batched = [tensor for tensor in self.signature.inputs if tensor.has_batch_axis]
        if not batched:
            return None
        order = arrangement(min(len(inputs[each.name]) for each in batched), self.spec.compilation.batch_sizes)
        tried = self.oracle.arranged(arranged(inputs, self.signature, order))
        if not self.independent:
            fault = "rows depend on one another: only compiled batch sizes run"
            return Rearranged(order=order, tried=replace(tried, fault=fault), repeated=tried, larger=())
        larger = larger_sizes(self.signature, self.spec.compilation.batch_sizes, self.extents.operations)
        order = np.resize(order, max([len(order), *larger]))
        repeated = self.oracle.repeated(arranged(inputs, self.signature, order)) if larger else tried
        return Rearranged(order=order, tried=tried, repeated=repeated, larger=larger)

    @property
    def best(self) -> str:
        """The target on which rearranged rows run; "" if none runs here."""
        runnable = [name for name, how in self.ways.items() if how != NOT_RUN]
        # Native before emulated, which is slow; then the highest level.
        return max(runnable, key=lambda name: (self.ways[name] == NATIVE, TARGETS[name].level), default="")

    def rows_reports(self, inputs: Mapping[str, Array], rows: Rearranged | None, ours: ByTarget) -> list[ClassReport]:
        """The reports of `rows`, if there are any, on the best target and in the framework.

        Each is compared with what it gave for the main class, whose inputs are `inputs`; `ours` has both answers.
        """
        if rows is None:
            return []
        sizes, tried, order, best = self.spec.compilation.batch_sizes, rows.tried, rows.order, self.best
        if tried.fault or not best:
            return [not_compared(tried, tried.fault or _NO_TARGET)]
        answers, before = ours[best][tried.name], ours[best][MAIN]
        if isinstance(answers, str) or isinstance(before, str):
            return [compared(tried, {}, [self._without_answers(tried, best, _reason(answers, before))])]
        framework, main = self.oracle.framework, self.oracle.tried_main(inputs)
        found, expected = {best: answers}, {best: before, framework: main.eager}
        other = uncompiled_size(sizes)
        # Of models whose rows take long, fewer batches.
        few = None if tried.sizes == sizes else self.extents.within((other,)).most
        asked = [(tried, other, few), *((rows.repeated, size, 1) for size in rows.larger)]
        theirs: dict[str, Array] = {}
        for each, size, most in asked:
            try:
                theirs |= self.oracle.at_size(each, size, most)
            except ModelError:  # its own assertions may reject such a batch
                continue
            except ToolchainError:  # larger ones would take as long
                break
        if theirs:
            found[framework] = theirs
        if any(self._interactions(target, each, expected[target], main, order) for target, each in found.items()):
            # If TensorFlow's answers are as sensitive to roundings, rows need not interact.
            main = self.oracle.explored(main)
        interacting = [
            one
            for target, each in found.items()
            for one in self._interactions(target, each, expected[target], main, order)
        ]
        return [compared(tried, found, interacting)]

    def _answers(
        self, tried: Tried, ours: Mapping[str, Array], flushed: Mapping[str, Array], size: int, tensor: Tensor
    ) -> Answers:
        return answers_of(tried, ours, flushed, size, tensor, independent=self.independent)

    def _outputs(self, sizes: Sequence[int]) -> Iterator[tuple[int, Tensor, str]]:
        """Each output at each batch size, and the name of its answers."""
        for size in sizes:
            for tensor in self.signature.outputs:
                yield size, tensor, f"{size}/{tensor.name}"

    def _patiently(self, tried: Tried, target: str, answers: Given) -> Given:
        """`answers`; if the library did not end in time but XLA's JIT does, those of a run with more time."""
        if answers != ENDLESS or tried.seconds is None or not self.oracle.ends_compiled(tried):
            return answers
        return self.runs.run(target, [replace(tried, seconds=_PATIENCE * tried.seconds)])[tried.name]

    def _without_answers(self, tried: Tried, target: str, reason: str) -> Difference:
        """The difference of a library that crashed or did not end, for `reason`."""
        # A loop that does not end in TensorFlow's own compiled code either is not a fault of the library.
        ends = reason != ENDLESS or tried.name in (MAIN, ARRANGED, SIZES) or self.oracle.ends_compiled(tried)
        return Difference(
            target=target, batch_size=0, output="", kind="does not end" if reason == ENDLESS else "real", elements=0,
            max_absolute=None, is_fault=ends, rule="" if ends else "endless when compiled",
        )  # fmt: skip

    def _interactions(
        self, target: str, answers: Mapping[str, Array], expected: Mapping[str, Array], main: Tried, order: Order
    ) -> list[Difference]:
        validation = self.spec.validation
        spreads: dict[str, Array] = {}
        for size, tensor, name in self._outputs(main.sizes):
            if (found := _spread(main, size, tensor, independent=self.independent)) is not None:
                spreads |= {f"{name}/{kind}": array for kind, array in found.named().items()}
        # What the framework leaves open is open in its answers only: the library defines it, by each number alone.
        is_own = target == self.oracle.framework
        free = {name: rows for name, rows in main.eager.items() if is_own and "/free/" in name}
        return list(
            interactions(
                answers, {**spreads, **free, **expected}, order, target=target, signature=self.signature,
                rtol=validation.rtol, atol=validation.atol, operations=main.operations,
            )
        )  # fmt: skip

    def _not_finite(self, tried: Tried, ours: Mapping[str, Mapping[str, Array]]) -> Iterator[Difference]:
        """Elements that are NaN or infinite in answers of the library or of the framework, and not in both."""
        for target, answers in ours.items():
            for size, tensor, name in self._outputs(tried.sizes):
                mine, theirs = answers[name], tried.eager[name]
                if theirs.dtype.kind == "f" and (count := np.count_nonzero(unlike_finite(mine, theirs))):
                    yield Difference(
                        target=target, batch_size=size, output=tensor.name, kind="NaN rule", elements=int(count),
                        max_absolute=None, is_fault=True,
                    )  # fmt: skip

    def _disagrees(self, tried: Tried, ours: Mapping[str, Array]) -> bool:
        return bool(self._differing(tried, [ours]))

    def _differing(self, tried: Tried, given: Sequence[Mapping[str, Array]]) -> Batches:
        """The batches in which answers of one of `given` differ from the framework's.

        If rows are independent, also those of other sizes that have these rows: they tell if it agrees with itself.
        """
        validation = self.spec.validation
        found: dict[int, set[int]] = {}
        for size, tensor, _ in self._outputs(tried.sizes):
            for ours in given:
                differ = disagreements(
                    self._answers(tried, ours, {}, size, tensor),
                    rtol=rtol_of(tensor.dtype, validation.rtol), atol=validation.atol,
                )  # fmt: skip
                if differ.any():
                    # Answers without a batch axis are those of the first batch.
                    rows = np.argwhere(differ)[:, 0] if tensor.has_batch_axis else np.zeros(1, int)
                    are_apart = self.independent and tensor.has_batch_axis
                    for other in tried.sizes if are_apart else (size,):
                        found.setdefault(other, set()).update((rows // other).tolist())
        return {size: tuple(sorted(each)) for size, each in found.items()}

    def _judged(
        self, tried: Tried, target: str, ours: Mapping[str, Array], flushed: Mapping[str, Array]
    ) -> list[Difference]:
        validation = self.spec.validation
        return [
            one
            for size, tensor, _ in self._outputs(tried.sizes)
            for one in differences(
                self._answers(tried, ours, flushed, size, tensor), class_name=tried.kind, target=target,
                batch_size=size, output=tensor.name, rtol=rtol_of(tensor.dtype, validation.rtol), atol=validation.atol,
                operations=tried.operations,
            )
        ]  # fmt: skip


def compared(
    tried: Tried, answers: Mapping[str, Mapping[str, Array]], differences: Sequence[Difference]
) -> ClassReport:
    """The report of a class: `answers` by target, and their `differences`."""
    return ClassReport(
        name=tried.name,
        rows=tried.rows,
        elements=sum(int(array.size) for each in answers.values() for array in each.values()),
        refused=sum(int(np.count_nonzero(~ran)) for name, ran in tried.eager.items() if name.endswith("/ran")),
        not_run="",
        differences=tuple(differences),
    )


def not_compared(tried: Tried, reason: str) -> ClassReport:
    """The report of a class that was not run."""
    return ClassReport(name=tried.name, rows=tried.rows, elements=0, refused=0, not_run=reason, differences=())


def _reason(*given: Given) -> str:
    """The first reason for missing answers in `given`."""
    return next(each for each in given if isinstance(each, str))


def answers_of(
    tried: Tried,
    ours: Mapping[str, Array],
    flushed: Mapping[str, Array],
    size: int,
    tensor: Tensor,
    *,
    independent: bool,
) -> Answers:
    """What is known of one output at one batch size; `independent` says whether rows are."""
    name = f"{size}/{tensor.name}"
    mine = ours[name]

    def theirs(arrays: Mapping[str, Array], kind: str = "") -> Array | None:
        return None if (found := arrays.get(f"{name}{kind}")) is None else _with_axes(found, mine.shape)

    spread = _spread(tried, size, tensor, independent=independent)
    return Answers(
        ours=mine,
        eager=theirs(tried.eager),
        eager_ran=_mask(tried.eager.get(f"{size}/ran"), size, tensor, mine),
        spread=None if spread is None else spread.map(lambda each: _with_axes(each, mine.shape)),
        flushed=flushed.get(name),
        jit=theirs(tried.jit),
        defined=tried.defined.get(name),
        jit_ran=_mask(tried.jit.get(f"{size}/ran"), size, tensor, mine),
        exact=theirs(tried.eager, "/exact"),
        by_node=theirs(tried.eager, "/defined"),
        elsewhere=_elsewhere(tried, mine, size, tensor, independent=independent),
        # The bodies of some operators are not looked at.
        walked=None if tried.operations & _HIDDEN else _of_rows(tried.eager.get(f"{size}/walked"), tensor, mine),
        free=_free(tried, size, tensor, mine, independent=independent),
    )


def _with_axes(array: Array, shape: tuple[int, ...]) -> Array:
    """`array` with the axes of one element that frameworks leave out at some sizes: a squeeze names no axis, and of one
    row it leaves none.
    """
    same = [size for size in array.shape if size != 1] == [size for size in shape if size != 1]
    return array.reshape(shape) if same else array


def _spread(tried: Tried, size: int, tensor: Tensor, *, independent: bool) -> Spread | None:
    """Beside perturbed runs, frameworks compute rows in another order of sums in batches of another size."""
    found, answers = spread_of(tried.eager, f"{size}/{tensor.name}"), tried.eager.get(f"{size}/{tensor.name}")
    if found is None or answers is None or not independent:
        return found
    for others, same in _in_other_batches(tried, size, tensor, answers):
        found = widened(found, answers, others, same)
    return found


def _in_other_batches(tried: Tried, size: int, tensor: Tensor, answers: Array) -> Iterator[tuple[Array, Array]]:
    """The framework's answers for the rows of `answers` in batches of other sizes, and a mask of its elements of which
    the answers in float64 are the same in both: the model itself does not depend on the size.
    """
    exact = tried.eager.get(f"{size}/{tensor.name}/exact")
    for name, others in tried.eager.items():
        other, _, output = name.partition("/")
        right = tried.eager.get(f"{name}/exact")
        if output != tensor.name or int(other) == size or not tensor.has_batch_axis or exact is None or right is None:
            continue
        rows = min(len(answers), len(others))
        if others.shape[1:] == answers.shape[1:]:
            same = agreement(exact[:rows], right[:rows], rtol=_SAME, atol=_SAME) & np.isfinite(right[:rows])
            yield others[:rows], same & _mask(tried.eager.get(f"{other}/ran"), int(other), tensor, others)[:rows]


def _elsewhere(tried: Tried, ours: Array, size: int, tensor: Tensor, *, independent: bool) -> Array | None:
    """`Answers.elsewhere`; None for integers, and if rows interact."""
    if ours.dtype.kind != "f" or not independent:
        return None
    found = np.full(ours.shape, np.nan, ours.dtype)
    for others, same in _in_other_batches(tried, size, tensor, ours):
        rows = len(others)
        with np.errstate(all="ignore"):
            farther = np.abs(found[:rows] - ours[:rows]) <= np.abs(others - ours[:rows])
        found[:rows] = np.where(same & ~farther, others, found[:rows])
    return found


def _free(tried: Tried, size: int, tensor: Tensor, answers: Array, *, independent: bool) -> Free:
    """Masks of the elements of rows in which an operation's result is open."""
    start = f"{size}/free/"
    found: dict[tuple[str, str], Array] = {}
    for name, rows in tried.eager.items():
        if name.startswith(start):
            freedom, _, operation = name.removeprefix(start).partition("/")
            # What one row meets, another one may depend on.
            met = rows if independent else np.repeat(rows.reshape(-1, size).any(1), size)
            mask = _of_rows(met, tensor, answers)
            found |= {} if mask is None else {(freedom, operation): mask}
    return found


def _of_rows(rows: Array | None, tensor: Tensor, answers: Array) -> Array | None:
    """A mask of `rows` as one of the elements of `answers`; None for none."""
    if rows is None:
        return None
    shape = (-1, *[1] * (answers.ndim - 1))
    mask = rows.reshape(shape) if tensor.has_batch_axis and len(rows) == len(answers) else rows.any()
    return np.broadcast_to(mask, answers.shape)


def _mask(ran: Array | None, size: int, tensor: Tensor, answers: Array) -> Array:
    """Mask of the elements of `answers` whose batches ran; all if there is no record of that."""
    if ran is None:
        return np.ones(answers.shape, bool)
    # One record per batch: all rows of a batch ran, or none.
    rows = np.repeat(ran, size) if tensor.has_batch_axis else ran[:1]
    return np.broadcast_to(rows.reshape(-1, *[1] * (answers.ndim - 1)) if answers.ndim else rows[0], answers.shape)
