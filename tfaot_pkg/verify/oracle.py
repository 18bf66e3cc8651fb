"""The answers of the model's framework for classes of inputs, also perturbed ones; and those of TensorFlow's own XLA.

Some of them are stored in packages, for the program `NAME_test`. They come from the machine that built the package: on
another CPU, the framework may differ in the last digits.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.frozen.saved_model import SavedModel
from tfaot_pkg.frontends.frozen.source_model import Original
from tfaot_pkg.frontends.toolchain.worker import Worker, WorkerPool, from_worker
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.progress import Step
from tfaot_pkg.ground.sandbox import Limits
from tfaot_pkg.ground.signature import Signature, Symbol, Tensor
from tfaot_pkg.spec.types import ModelSpec, Validation
from tfaot_pkg.verify import defined
from tfaot_pkg.verify.answered import fits, in_batches, repeated_to
from tfaot_pkg.verify.corpus import MOST
from tfaot_pkg.verify.extent import Extent, Extents
from tfaot_pkg.verify.inputs import ARRANGED, BRANCHES, CORPUS, EXAMPLES, MAIN, SIZES, THRESHOLDS
from tfaot_pkg.verify.report import Branch
from tfaot_pkg.verify.rules import UNDEFINED
from tfaot_pkg.worker_program.messages.elements import held, held_type, write_arrays
from tfaot_pkg.worker_program.messages.requests import Reference, Referenced, SearchBranches, Sides

_SECONDS = 10.0
"""The least limit of each class except the main one, in seconds: a loop may never end on infinity, for example."""

_PATIENCE = 5.0
"""A factor on the time of the main class, if that is more."""

_TRIES = 9
"""Runs on inputs that are perturbed by roundings (docs/decisions/030). Fewer may miss the edge of a step by chance, or
the error of a special function."""

_SECONDS_OF_MAIN, _PATIENCE_FOR_MAIN = 60.0, 20.0
"""The same for the library's run on the main class; the factor also for TensorFlow's runs on perturbed inputs, and for
those of code that XLA compiles first."""

_SECONDS_OF_DEFINITIONS = 20.0
"""For the answers of a class in NumPy: rules lose what they excuse if it takes longer, so a right model may be refused,
but nothing wrong is accepted."""


Batches = Mapping[int, tuple[int, ...]]
"""Numbers of batches, from 0, by batch size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One class of inputs, held in the file `inputs`, with the framework's answers, numbers, by "SIZE/OUTPUT".

    See worker_program/reference.py. `jit` is empty until the class was explored, and so is `defined`, what the
    operations of a program give by definition. A run may take `seconds`; None is no
    limit. `sizes` are those of its batches; of each size there are at most `most` batches,
    None for all. With `at_sizes`, symbols of the model have other sizes than their maxima. `fault` says why there are
    no answers, "" if there are; `refusal` why the framework rejected some of the batches.
    """

    name: str
    inputs: Path
    rows: int
    eager: Mapping[str, Array] = field(default_factory=dict)
    jit: Mapping[str, Array] = field(default_factory=dict)
    defined: Mapping[str, Array] = field(default_factory=dict)
    seconds: float | None = None
    operations: frozenset[str] = frozenset()
    sizes: tuple[int, ...]
    most: int | None = None
    at_sizes: bool = False
    fault: str = ""
    refusal: str = ""

    @property
    def kind(self) -> str:
        """The class whose rules decide which differences are faults: `boundary` of "boundary n=64"."""
        return self.name.partition(" ")[0]


def with_answers(framework: str, tried: Tried, symbols: Sequence[Symbol]) -> Tried:
    """`tried`, of a model with `symbols`, with a fault if `framework` answered none of its batches.

    Raises ModelError if it answered none of usual values at these sizes.
    """
    ran = [values for name, values in tried.eager.items() if name.endswith("/ran")]
    if tried.fault or not ran or any(values.any() for values in ran):
        return tried
    if "=" not in tried.kind:  # of a class: usual values of these sizes are tried before
        return replace(tried, fault=f"{framework} rejects these values")
    told = f": {tried.refusal}" if tried.refusal else ""
    # A range that the symbol may have: half of its sizes.
    ranges = (f"`{(each.minimum + each.maximum + 1) // 2} <= {each.name} <= {each.maximum}`" for each in symbols)
    raise ModelError(
        f"{framework} does not compute the model for {tried.name}{told}",
        hint=f"allow only sizes in model.shapes for which it does, such as {' or '.join(ranges)}; if it is right for "
        "such sizes, state which numbers its inputs take: validation.ranges, or give inputs (validation.inputs)",
    )


class Oracle:
    """The framework of `saved`, and TensorFlow, in workers without the spec's flags, whose effect is validated, too.

    "Eager" answers are those of the framework: TensorFlow's for its own models.
    """

    def __init__(
        self,
        *,
        spec: ModelSpec,
        frozen: FrozenModel,
        saved: SavedModel,
        extents: Extents,
        pool: WorkerPool,
        step: Step,
        scratch: Path,
        given: Path,
    ) -> None:
        self._spec, self._frozen, self._original, self._extents = spec, frozen, saved.original, extents
        # A program has no such form: that of ONNX files is their own.
        self._compiled_by_xla = self._original if frozen.is_program else Original.saved_model(spec.model, saved.folder)
        self._pool, self._step, self._scratch, self._given = pool, step, scratch, given
        self._main: Tried | None = None
        self._version, self._answered_by, self._refusal = "", "", ""
        self._seconds = _SECONDS
        self._loaded: dict[str, Worker] = {}

    @property
    def framework(self) -> str:
        """The name of the framework that gives the "eager" answers."""
        return self._original.name

    @property
    def version(self) -> str:
        """The version of the framework, once it has answered."""
        return self._version

    @property
    def answered_by(self) -> str:
        """The framework, and its version, of answers that came with the model; "" if there are none that fit."""
        return self._answered_by

    def main(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """The answers for the main class. Raises the errors of a worker."""
        return self.tried_main(inputs).eager

    def tried_main(self, inputs: Mapping[str, Array]) -> Tried:
        if self._main is None:
            tried, start = self._saved(MAIN, inputs), time.monotonic()
            answers, operations = self._answers(tried, "eager")
            # The limits of all later runs follow from the time that the model takes on this machine.
            taken = time.monotonic() - start
            self._seconds = max(_SECONDS, _PATIENCE * taken)
            patience = max(_SECONDS_OF_MAIN, _PATIENCE_FOR_MAIN * taken)
            self._main = replace(tried, eager=answers, operations=operations, seconds=patience)
        return self._main

    def tried(self, name: str, inputs: Mapping[str, Array]) -> Tried:
        """Eager answers for a class that TensorFlow may reject."""
        tried = replace(self._saved(name, inputs), seconds=self._seconds)
        try:
            answers, operations = self._answers(tried, "eager", tolerant=True, seconds=self._seconds)
        except ToolchainError as error:
            if not error.cause:  # a fault of ours
                raise
            return replace(tried, fault=self._end(error, self._seconds))
        return replace(tried, eager=answers, operations=operations, refusal=self._refusal)

    def explored(self, tried: Tried, batches: Batches | None = None) -> Tried:
        """`tried` with the answers that distinguish kinds of differences: on perturbed inputs, and XLA's own.

        Only `batches` are perturbed, by default all. It has a fault if TensorFlow did not end, except in the main
        class, which has no limit.
        """
        is_main = tried.name == MAIN
        patience = _PATIENCE_FOR_MAIN * self._seconds
        seconds = None if is_main else patience
        options: dict[str, Any] = {"tolerant": not is_main, "perturbed": _TRIES}
        if batches is not None:
            chosen = {str(size): numbers for size, numbers in batches.items()}
            options |= {"batch_sizes": tuple(batches), "chosen": chosen}
        try:
            eager, _ = self._answers(tried, "perturbed", seconds=seconds, **options)
        except ToolchainError as error:
            if is_main or not error.cause:
                raise
            return replace(tried, fault=self._end(error, seconds))
        # On a busy machine XLA may need long to compile, and without its answers differences would be faults.
        compiled = self._compiled(tried, patience) or {}
        if tried.name == self._answered_by.partition(" ")[0]:
            # A graph that is not the author's model would explain its own answers.
            eager = {name: array for name, array in eager.items() if not name.endswith(("/exact", "/defined"))}
        # Answers that came with the model are kept: they are the right ones.
        return replace(tried, eager={**eager, **tried.eager}, jit=compiled, defined=self._defined(tried))

    def arranged(self, inputs: Mapping[str, Array]) -> Tried:
        """The same rows in other batches (rows.py), not yet answered."""
        return self._limited(ARRANGED, inputs)

    def repeated(self, inputs: Mapping[str, Array]) -> Tried:
        """Rows of `arranged` again and again, for larger batches, not yet answered."""
        return self._limited(f"{ARRANGED} repeated", inputs)

    def in_sizes(self, inputs: Mapping[str, Array], sizes: tuple[int, ...]) -> Tried:
        """The same rows in batches of other sizes (sizes.py), not to be answered."""
        extent = self._extents.within(sizes)
        return replace(self._limited(SIZES, inputs), sizes=extent.sizes, most=extent.most)

    def corpus(self, inputs: Mapping[str, Array], sizes: tuple[int, ...]) -> Tried:
        """The pinned inputs (corpus.py), not to be answered."""
        return replace(self._limited(CORPUS, inputs), sizes=sizes, most=MOST)

    def _limited(self, name: str, inputs: Mapping[str, Array]) -> Tried:
        """Inputs of a class with ordinary values, whose runs may take as long as those of the main class."""
        return replace(self._saved(name, inputs), seconds=None if self._main is None else self._main.seconds)

    def at_size(self, tried: Tried, size: int, most: int | None = None) -> Mapping[str, Array]:
        """Eager answers at a batch size that is not compiled.

        Raises the errors of a worker. Of at most so many batches, they must not take much longer than the main class.
        """
        seconds = None if most is None else self._seconds
        return self._answers(tried, "eager", seconds=seconds, batch_sizes=(size,), most=most)[0]

    def ends_compiled(self, tried: Tried) -> bool:
        """Whether the model ends if TensorFlow's own XLA compiles it."""
        return self._compiled(tried, self._seconds) is not None

    def answered(self) -> Tried | None:
        """The framework's answers from the model's export; None if its file has none.

        Raises ToolchainError if they cannot be read.
        """
        original = self._original
        if original.answers is None:
            return None
        with from_worker():
            arrays = read_arrays(original.answers)
        name = original.answered_by.partition(" ")[0]
        inputs, answers = in_batches(arrays, original, self._frozen, self._spec.compilation.batch_sizes)
        if not inputs:
            return replace(self._saved(name, {}), fault="the file has them for other shapes or rows than the spec")
        tried = self._saved(name, inputs, self._extents.of(EXAMPLES))
        tried = replace(tried, seconds=self._seconds, at_sizes=True, eager=answers)
        self._answered_by = original.answered_by
        return tried

    def thresholds(self) -> Tried | None:
        """Rows at which the answers of decision trees change, with the answers; None for other models.

        Raises ToolchainError if they cannot be read.
        """
        if self._original.rows is None:
            return None
        signature = self._frozen.signature.without_state()
        with from_worker():
            arrays, keys = read_arrays(self._original.rows), self._original.feeds
            inputs = {each.name: arrays[keys[each.name]] for each in signature.inputs}
            for each in signature.inputs:
                if not fits(each, inputs[each.name]) or not len(inputs[each.name]):
                    raise ValueError(f"the rows of {each.name!r} do not fit it")
        largest = max(self._spec.compilation.batch_sizes)
        return self.tried(THRESHOLDS, {name: repeated_to(rows, largest) for name, rows in inputs.items()})

    def branches(self, rows: int) -> tuple[Tried | None, tuple[Branch, ...]]:
        """The class of inputs that was found, and the sides of branches that none of them takes."""
        if self._frozen.is_program:  # TensorFlow does not run it
            return None, ()
        # With 0 seconds nothing runs: the sides that exist are read from the graph.
        _, sides = self._searched(rows, 0)
        if not sides:
            return None, ()
        try:
            inputs, not_taken = self._searched(rows, self._seconds)
        except ToolchainError as error:
            if not error.cause:  # a fault of ours
                raise
            fault = f"while inputs were sought, {self._end(error, self._seconds)}"
            return replace(self._saved(BRANCHES, {}), fault=fault), sides
        return (self.tried(BRANCHES, inputs) if inputs else None), not_taken

    def _searched(self, rows: int, seconds: float) -> tuple[dict[str, Array], tuple[Branch, ...]]:
        """Inputs, and the sides that none of them takes; with 0 `seconds` no inputs are tried."""
        found = self._scratch / "branches.npz"
        request = SearchBranches(
            graph=str(self._pool.give(self._frozen.graph)),
            # A copy of all weights, which only a model that runs reads.
            blob=str(self._pool.give(self._frozen.weights_file)) if seconds and self._frozen.weights_file else "",
            inputs=self._frozen.inputs,
            outputs=self._frozen.outputs,
            weights=self._frozen.weights,
            rows=rows,
            seed=self._spec.validation.seed,
            seconds=seconds,
            out=str(found),
        )
        worker = self._ready(self._compiled_by_xla, self._saved(BRANCHES, {}))
        answer = worker.call(request, Sides, seconds=self._seconds if seconds else None)
        with from_worker():
            inputs = read_arrays(found) if answer.found else {}
            sides = answer.not_taken
            return inputs, tuple(Branch(node=each.node, operation=each.operation, side=each.side) for each in sides)

    def _saved(self, name: str, inputs: Mapping[str, Array], extent: Extent | None = None) -> Tried:
        # No worker can write to this folder, so a model cannot change the library's inputs.
        path = self._given / f"inputs-{name}.npz"
        write_arrays(path, inputs)
        batched = [len(inputs[each.name]) for each in self._frozen.signature.inputs if each.has_batch_axis and inputs]
        extent = extent or self._extents.of(name)
        return Tried(name=name, inputs=path, rows=min(batched, default=1), sizes=extent.sizes, most=extent.most)

    def _compiled(self, tried: Tried, seconds: float) -> Mapping[str, Array] | None:
        """The answers of TensorFlow's own XLA, or of ONNX Runtime with all of its optimizations.

        None if the model does not end in time.
        """
        is_onnx = self._original.frontend is not None and self._original.frontend.framework == "onnx"
        if self._frozen.is_program and not is_onnx:  # neither can run the model
            return {}
        try:
            return self._answers(tried, "jit", tolerant=True, jit=True, seconds=seconds)[0]
        except ToolchainError as error:
            # A crash of XLA's JIT says nothing about the library: there are just no answers to agree with.
            return None if error.cause == "timed out" else {}
        except ModelError:
            return {}

    def _defined(self, tried: Tried) -> Mapping[str, Array]:
        """What the operations of a program give by definition, if the framework does not define the results of some.

        Nothing of a model that TensorFlow compiles: its XLA defines them.
        """
        if not self._frozen.is_program or not tried.operations & UNDEFINED:
            return {}
        inputs, sizes = read_arrays(tried.inputs), tried.sizes
        program, signature = self._frozen.program(), self._frozen.signature
        return defined.answers(program, signature, inputs, sizes, most=tried.most, seconds=_SECONDS_OF_DEFINITIONS)

    def _answers(
        self, tried: Tried, kind: str, *, seconds: float | None = None, **options: Any
    ) -> tuple[Mapping[str, Array], frozenset[str]]:
        answers = self._scratch / f"{kind}-{tried.name}.npz"
        asked = self._compiled_by_xla if options.get("jit") else self._original
        request = replace(self._request(asked, tried, answers), **options)
        # Only these runs count in the step's total: how many others there are depends on their answers.
        if (tried.name, kind) == (MAIN, "eager"):
            request = replace(request, advance=1)
        found = self._ready(asked, tried).call(request, Referenced, step=self._step, seconds=seconds)
        if asked is self._original:
            self._version = asked.require_version(found.version, self._pool.environment.toolchain.version)
            self._refusal = next(iter(found.refusals), "")
        # The model ran in that process, so the file may be damaged or hostile.
        with from_worker():
            return read_arrays(answers), frozenset(found.operations)

    def _ready(self, asked: Original, tried: Tried) -> Worker:
        """A worker that has loaded the model, so that loading it again after a crash is not part of the next call."""
        worker = asked.worker(self._pool)
        if worker is not self._loaded.get(asked.name):
            nothing = replace(self._request(asked, tried, self._scratch / "nothing.npz"), batch_sizes=())
            worker.call(nothing, Referenced)
            self._loaded[asked.name] = worker
        return worker

    def _request(self, asked: Original, tried: Tried, answers: Path) -> Reference:
        request = asked.reference(
            inputs=tried.inputs,
            out=answers,
            batch_sizes=tried.sizes,
            signature=self._frozen.signature,
        )
        return replace(request, most=tried.most, advance=0)

    def _end(self, error: ToolchainError, seconds: float | None) -> str:
        most = Limits.of_user().seconds(seconds)
        return f"{self._original.name} {_END.get(error.cause, 'failed').format(most)}"


_END = {
    "timed out": "did not end within {:.0f} s",
    "crashed": "crashed",
    "killed": "was killed",
    "out of memory": "ran out of memory",
}


REFERENCE_FILE = "reference.bin"
"""The format of this file is described at the top of templates/tools/test.cc, which reads it."""

_FORMAT = 1


def reference_bytes(
    *,
    signature: Signature,
    uid: str,
    batch_sizes: Sequence[int],
    validation: Validation,
    inputs: Mapping[str, Array],
    answers: Mapping[str, Array],
) -> bytes:
    """The file for the first batch of each size. `inputs` have a row per sample, `answers`, numbers, are by
    "SIZE/OUTPUT".
    """
    head = struct.pack("<8sIIII", b"TFAOTREF", _FORMAT, len(signature.inputs), len(signature.outputs), len(batch_sizes))
    head += struct.pack("<dd16s", validation.rtol, validation.atol, uid.encode())
    head += struct.pack(f"<{len(batch_sizes)}q", *batch_sizes)
    tensors = [_tensor(tensor, inputs[tensor.name], max(batch_sizes)) for tensor in signature.inputs]
    tensors += [
        _tensor(t, held(answers[f"{size}/{t.name}"], t.dtype.value), size)
        for size in batch_sizes
        for t in signature.outputs
    ]
    return head + b"".join(tensors)


def same_reference(given: bytes, own: bytes, signature: Signature, rtol: float, atol: float) -> bool:
    """Whether two results of `reference_bytes` differ in nothing but roundings of the answers.

    `own` is one; `given` may be anything.
    """
    if len(given) != len(own):
        return False
    (count,) = struct.unpack_from("<I", own, 20)
    place = 24 + struct.calcsize("<dd16s") + 8 * count
    outputs = [tensor for _ in range(count) for tensor in signature.outputs]
    for _ in signature.inputs:
        place += 8 + struct.unpack_from("<Q", own, place)[0]
    if given[:place] != own[:place]:
        return False
    for tensor in outputs:
        end = place + 8 + struct.unpack_from("<Q", own, place)[0]
        if own[place : place + 8] != given[place : place + 8]:
            return False
        ours, theirs = (_numbers(data[place + 8 : end], tensor.dtype.value) for data in (own, given))
        floats = ours.dtype.kind in "fc"
        if not (np.allclose(theirs, ours, rtol, atol, equal_nan=True) if floats else np.array_equal(theirs, ours)):
            return False
        place = end
    return bool(place == len(own))


def _numbers(content: bytes, dtype: str) -> Array:
    array = np.frombuffer(content, held_type(dtype).newbyteorder("<"))
    # bfloat16 is the upper half of float32.
    return (array.astype(np.uint32) << 16).view(np.float32) if dtype == "bfloat16" else array


def _tensor(tensor: Tensor, values: Array, rows: int) -> bytes:
    part = values[:rows] if tensor.has_batch_axis else values
    # Little-endian, as all CPUs of targets are: test.cc reads the values in place.
    content = np.ascontiguousarray(part, held_type(tensor.dtype.value).newbyteorder("<")).tobytes()
    return struct.pack("<Q", len(content)) + content
