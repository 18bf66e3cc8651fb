"""Answers to classes of inputs that came with a model, because no framework can be asked: those of PyTorch.

Nothing else is taken for an answer of the framework: what a spec asks and the file does not have is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.compiler.program import Symbol
from tfaot_pkg.errors import ModelError, SpecError
from tfaot_pkg.frontends.frozen.aten_file import StoredClass, StoredRun, read_classes, read_module
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.spec.form import REFERENCE
from tfaot_pkg.spec.types import ModelSpec, Validation
from tfaot_pkg.verify.answered import fits
from tfaot_pkg.verify.extent import Extents
from tfaot_pkg.verify.inputs import EXAMPLES, INTEGERS, MAIN, NEGATIVE, name_of_sizes
from tfaot_pkg.verify.oracle import Batches, Oracle, Tried
from tfaot_pkg.verify.report import Branch
from tfaot_pkg.verify.witness import Witness
from tfaot_pkg.worker_program.messages.elements import numbers_type

_BESIDE = ("spread", "low", "high", "missing", "exact")
_AGAIN = "export the model again with tfaot_pkg.export"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredAnswers:
    """Inputs, with at least as many rows as the largest batch, and the answers, by the name of the class.

    `answers` are numbers, by "SIZE/OUTPUT" as in Tried, and `beside` tells roundings from faults. `operations` are the
    kinds of those in the model, `version` is PyTorch's.
    """

    version: str
    operations: frozenset[str]
    inputs: Mapping[str, Mapping[str, Array]]
    answers: Mapping[str, Mapping[str, Array]]
    beside: Mapping[str, Mapping[str, Array]]

    @property
    def usual(self) -> Mapping[str, Mapping[str, Array]]:
        """The inputs of the classes beside the main one at the largest sizes."""
        return {name: each for name, each in self.inputs.items() if name != MAIN and name not in self.sized}

    @property
    def sized(self) -> Mapping[str, Mapping[str, Array]]:
        """The inputs of those at other sizes: the examples may have any."""
        return {name: each for name, each in self.inputs.items() if "=" in name or name == EXAMPLES}


def answers_in(path: Path, spec: ModelSpec, frozen: FrozenModel, original: Original, extents: Extents) -> StoredAnswers:
    """The answers in the file at `path`, which is that of `original`, as far as `extents` go.

    Raises ModelError if it has none for the sizes of the spec.
    """
    module, found, signature = read_module(path), read_classes(path), frozen.signature
    witness = Witness(module, [Symbol(each.name, each.maximum, each.minimum) for each in signature.symbols])
    _require_sizes(found, signature)
    wanted = {MAIN, EXAMPLES, *spec.validation.classes, *([NEGATIVE] if INTEGERS in spec.validation.classes else [])}
    inputs: dict[str, Mapping[str, Array]] = {}
    answers: dict[str, Mapping[str, Array]] = {}
    beside: dict[str, Mapping[str, Array]] = {}
    for each in found:
        if each.name in wanted and _is_within(each.sizes, signature):
            name, confirmed = _name(each, signature), witness.confirmed(each, independent=frozen.rows.independent)
            composed = _Composed(confirmed, name, frozen, original, extents)
            inputs[name], answers[name], beside[name] = (
                composed.inputs(),
                dict(composed.answers()),
                dict(composed.beside()),
            )
    operations = frozenset(".".join(each.op.split(".")[:2]) for each in module.document.nodes)
    return StoredAnswers(
        version=module.document.version, operations=operations, inputs=inputs, answers=answers, beside=beside
    )


def require_stored(validation: Validation) -> None:
    """Raise SpecError if `validation` asks for inputs that a file of answers cannot have."""
    usual = Validation()
    asked = {
        "inputs": (validation.inputs is not None, "give these rows to the export: export(model, inputs, FILE)"),
        "ranges": (bool(validation.ranges), "state the ranges when you export: --range ids=0:999"),
        "seed": (validation.seed != usual.seed, "remove it"),
        "samples": (validation.samples > usual.samples, f"give at most {usual.samples}"),
    }
    for name, (is_asked, hint) in asked.items():
        if is_asked:
            raise SpecError(
                f"validation.{name}: PyTorch's answers are stored in the model's file, for inputs that were chosen "
                "when it was exported",
                hint=f"{hint}; {REFERENCE.hint([('validation', name)])}",
            )


def _require_sizes(found: Sequence[StoredClass], signature: Signature) -> None:
    """Raise ModelError unless there are answers at the largest sizes of the symbols."""
    mains = [each for each in found if each.name == MAIN]
    if not mains:
        raise ModelError("the model's file has no answers of PyTorch to compare with", hint=_AGAIN)
    largest = {each.name: each.maximum for each in signature.symbols}
    if not any(each.sizes == largest for each in mains):
        theirs = ", ".join(f'"{name} <= {size}"' for name, size in mains[0].sizes.items())
        wanted = " ".join(f'--dynamic "{name}<={size}"' for name, size in largest.items())
        raise ModelError(
            "the model's file has PyTorch's answers for other sizes than the largest of the spec",
            hint=f"write {theirs} in model.shapes, or export the model again with {wanted}",
        )


def _is_within(sizes: Mapping[str, int], signature: Signature) -> bool:
    return all(each.minimum <= sizes[each.name] <= each.maximum for each in signature.symbols)


def _name(found: StoredClass, signature: Signature) -> str:
    sizes = {each.name: found.sizes[each.name] for each in signature.symbols}
    is_largest = all(sizes[each.name] == each.maximum for each in signature.symbols)
    return found.name if found.name == EXAMPLES or is_largest else name_of_sizes(found.name, sizes)


class _Composed:
    """The answers of one class in batches of the sizes of the spec.

    Batches of other sizes than the file has are composed of others, if rows of a batch do not depend on one another.
    """

    def __init__(
        self, found: StoredClass, name: str, frozen: FrozenModel, original: Original, extents: Extents
    ) -> None:
        signature, extent = frozen.signature, extents.of(name)
        self._found, self._name, self._extent, self._fetches = found, name, extent, original.fetches
        self._signature = signature.at(found.sizes) if signature.symbols else signature
        self._inputs = {each.name: found.inputs[original.feeds[each.name]] for each in signature.inputs}
        for each in self._signature.inputs:
            if not fits(each, self._inputs[each.name]):
                raise self._damaged(f"the input {each.name!r} is {each}")
        counts = [len(self._inputs[each.name]) for each in signature.inputs if each.has_batch_axis]
        self._is_batched, self._rows = bool(counts), min(counts, default=1)
        self._independent = frozen.rows.independent
        # Few rows are repeated for large batches.
        self._total = extent.rows(max(self._rows, *extents.batch_sizes) if self._independent else self._rows)
        self._order = np.arange(self._total) % self._rows
        if counts and not self._independent:
            _require_batches({each.rows for each in found.runs}, set(extents.batch_sizes))

    def _damaged(self, why: str) -> ModelError:
        return ModelError(
            f"PyTorch's answers to the class {self._found.name!r} do not fit the model: {why}", hint=_AGAIN
        )

    def inputs(self) -> dict[str, Array]:
        return {
            each.name: self._inputs[each.name][self._order] if each.has_batch_axis else self._inputs[each.name]
            for each in self._signature.inputs
        }

    def answers(self) -> Iterator[tuple[str, Array]]:
        for size, count, own in self._batches():
            run = own or self._whole(min)
            ran: Array = np.repeat(run.ran, run.rows)[self._taken(count * size)].reshape(count, -1).min(1)
            if self._name != MAIN:
                yield f"{size}/ran", ran
            elif not ran.all():
                raise self._damaged("it rejects some of them")
            for tensor in self._signature.outputs:
                key = self._fetches[tensor.name]
                if key in run.outputs:
                    yield f"{size}/{tensor.name}", self._cut(run, run.outputs[key], tensor, count * size)

    def beside(self) -> Iterator[tuple[str, Array]]:
        """By "SIZE/OUTPUT/KIND", and of rows by "SIZE/walked" and "SIZE/free/FREEDOM/OPERATION" (reference.py)."""
        for size, count, own in self._batches():
            run = own if own is not None and own.beside else self._whole(max)
            for seen, mask in run.beside.items():
                if seen == "walked" or seen.startswith("free/"):
                    yield f"{size}/{seen}", mask.reshape(-1)[self._taken(count * size)]
            for tensor in self._signature.outputs:
                for kind in _BESIDE:
                    array = run.beside.get(f"{kind}/{self._fetches[tensor.name]}")
                    if array is not None:
                        own_type = kind in ("low", "high")
                        yield f"{size}/{tensor.name}/{kind}", self._cut(run, array, tensor, count * size, own=own_type)

    def _batches(self) -> Iterator[tuple[int, int, StoredRun | None]]:
        """Each batch size of the spec, how many such batches there are, and the file's own run of them."""
        for size in self._extent.sizes:
            count = self._total // size if self._is_batched else 1
            count = count if self._extent.most is None else min(count, self._extent.most)
            runs = (each for each in self._found.runs if each.rows == size and len(each.ran) >= count)
            yield size, count, next(runs, None)

    def _whole(self, choose: Callable[..., StoredRun]) -> StoredRun:
        """Of the runs that have all rows, one with the fewest or the most rows in a batch."""
        runs = [each for each in self._found.runs if each.rows * len(each.ran) == self._rows]
        if not runs:
            raise self._damaged("some rows have no answers")
        return choose(runs, key=lambda each: (bool(each.beside) or choose is min, each.rows))

    def _taken(self, rows: int) -> Array:
        """The places of so many rows in the file."""
        found: Array = self._order[:rows] if self._is_batched else np.zeros(1, np.int64)
        return found

    def _cut(self, run: StoredRun, array: Array, tensor: Tensor, rows: int, *, own: bool = True) -> Array:
        """Of answers to batches one after the other, those to the first `rows`; they have the output's `own` type."""
        if own and array.dtype != numbers_type(tensor.dtype.value):
            raise self._damaged(f"the output {tensor.name!r} is {array.dtype}")
        values: Array = array[0]
        if tensor.has_batch_axis:
            if array.shape[1:2] != (run.rows,):
                raise self._damaged(f"the output {tensor.name!r} has no row for each of a batch")
            values = array.reshape(-1, *array.shape[2:])[self._taken(rows)]
        if values.shape != tensor.shape_at(rows):
            raise self._damaged(f"the output {tensor.name!r} has the shape {list(values.shape)}")
        return values


def _require_batches(known: set[int], wanted: set[int]) -> None:
    if missing := sorted(wanted - known):
        raise ModelError(
            "rows of a batch depend on one another, and the model's file has PyTorch's answers to batches of "
            f"{', '.join(map(str, sorted(known)))} rows, not of {', '.join(map(str, missing))}",
            hint="export the model again with these sizes: " + " ".join(f"--batch {size}" for size in missing),
        )


class StoredOracle(Oracle):
    """PyTorch, which is not here: all of its answers are in the model's file."""

    def __init__(self, answers: StoredAnswers, **given: Any) -> None:
        super().__init__(**given)
        self._stored = answers

    @property
    def version(self) -> str:
        return self._stored.version

    def tried_main(self, inputs: Mapping[str, Array]) -> Tried:
        if self._main is None:
            self._main = self._known(MAIN, inputs)
        return self._main

    def tried(self, name: str, inputs: Mapping[str, Array]) -> Tried:
        return self._known(name, inputs)

    def _known(self, name: str, inputs: Mapping[str, Array]) -> Tried:
        # No operation of its core is a loop without an end, so that runs of the library have no limit.
        tried = self._saved(name, inputs)
        return replace(tried, eager=self._stored.answers[name], operations=self._stored.operations)

    def explored(self, tried: Tried, batches: Batches | None = None) -> Tried:  # all are in the file
        return replace(tried, eager={**self._stored.beside[tried.name], **tried.eager}, defined=self._defined(tried))

    def at_size(self, tried: Tried, size: int, most: int | None = None) -> Mapping[str, Array]:
        raise ModelError("the model's file has no answers to batches of other sizes")

    def ends_compiled(self, tried: Tried) -> bool:  # see above
        return True

    def branches(self, rows: int) -> tuple[Tried | None, tuple[Branch, ...]]:
        return None, ()
