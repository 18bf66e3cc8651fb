"""Tests single operations of a model's author: their C++ against their Python references, on drawn inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfaot_pkg.compiler.program import NUMPY_TYPES, OperationCall
from tfaot_pkg.errors import ModelError, ToolchainError, ValidationError
from tfaot_pkg.frontends.frozen.model import FrozenModel
from tfaot_pkg.frontends.toolchain.references import References
from tfaot_pkg.frontends.toolchain.worker import WorkerPool, from_worker
from tfaot_pkg.ground.arrays import Array, read_arrays
from tfaot_pkg.ground.process import CommandFailed
from tfaot_pkg.ground.sandbox import Limits, Sandbox
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.native.compiled.operations import OperationCode
from tfaot_pkg.native.cxx.compiler import Compiler
from tfaot_pkg.native.operations import compile_operation
from tfaot_pkg.spec.types import ModelSpec
from tfaot_pkg.verify.runs import runnable_targets
from tfaot_pkg.worker_program.messages.elements import write_arrays

_ROWS = 64
_SECONDS = 60.0
_CLASSES = ("usual", "scaled", "boundary", "nonfinite")
_HINT = "the C++ function and the Python function must compute the same, for each row and for any numbers"


class OperationTests:
    """Tests of the operations that a program calls. They need a target of the spec that this machine can run."""

    def __init__(self, *, spec: ModelSpec, frozen: FrozenModel, compiler: Compiler, pool: WorkerPool) -> None:
        self._spec, self._frozen, self._compiler, self._pool = spec, frozen, compiler, pool
        self._given, self._scratch = pool.given_folder("operations"), pool.new_folder("operations")
        self._references = References(pool, {name: frozen.operation_reference(name) for name in spec.model.operations})

    def require(self, operations: Sequence[OperationCode]) -> None:
        """Raise ValidationError if C++ and reference differ, ModelError if one of them breaks its rules."""
        targets = runnable_targets(self._spec)
        try:
            # One target is enough: the author's C++ is the same for all, and the whole model is validated on each.
            for code in operations if targets else ():
                self._require(code, max(targets, key=lambda name: TARGETS[name].level))
        finally:
            self._references.end()

    def _require(self, code: OperationCode, target: str) -> None:
        folder = self._given / code.name
        linked = compile_operation(code, TARGETS[target], self._compiler, folder)
        library = folder / f"{code.name}.so"
        exports = folder / "exports.map"
        exports.write_text("{ global: " + "; ".join(each.target for each in code.calls) + "; local: *; };\n")
        self._compiler.link_shared([linked], library, soname=library.name, exports=exports)
        for number, call in enumerate(code.calls):
            for name in _CLASSES:
                inputs = drawn(call, self._constants(code, call), name, self._spec.validation.seed + number)
                self._compare(call, name, inputs, library, folder)

    def _constants(self, code: OperationCode, call: OperationCall) -> Mapping[int, Array]:
        """The inputs of a call that are constants of the model, by position."""
        with np.load(code.constants, allow_pickle=False) as file:
            return {
                place: file[f"{call.target}.{place}"]
                for place in range(len(call.inputs))
                if f"{call.target}.{place}" in file.files
            }

    def _compare(self, call: OperationCall, name: str, inputs: Sequence[Array], library: Path, folder: Path) -> None:
        file = folder / f"{call.target}-{name}.npz"
        named = {str(place): each for place, each in enumerate(inputs)}
        write_arrays(file, named)
        try:
            expected = self._reference(call, inputs)
        except ModelError:
            # Usual numbers must be accepted: a reference that rejects everything would let any C++ pass.
            if name == _CLASSES[0]:
                raise
            return  # the reference rejects such numbers, so there is no right answer
        found = self._ours(call, name, file, library, folder)
        for place, ((dtype, sizes), theirs) in enumerate(zip(call.outputs, expected, strict=True)):
            where = f"the operation {call.operation} (node {call.node!r}), inputs of class {name}, output {place}"
            ours = found.get(f"{call.target}/{place}")
            if ours is None or ours.shape != (_ROWS, *sizes) or ours.dtype != NUMPY_TYPES[dtype]:
                raise ValidationError(f"{where}: no answers", hint=_HINT)
            if f"{call.target}/{place}/again" in found:
                raise ValidationError(
                    f"{where}: the C++ function gives different answers to the same inputs",
                    hint="it must write all elements of its outputs, and use nothing except its inputs",
                )
            self._require_near(where, ours, theirs)

    def _require_near(self, where: str, ours: Array, theirs: Array) -> None:
        validation = self._spec.validation
        wrong = ~near(ours, theirs, validation.rtol, validation.atol)
        if wrong.any():
            place = tuple(int(each) for each in np.argwhere(wrong)[0])
            raise ValidationError(
                f"{where}: {int(wrong.sum())} of {ours.size} elements differ from the Python reference; the first, "
                f"{list(place)}, is {ours[place]} and should be {theirs[place]}",
                hint=_HINT,
            )

    def _reference(self, call: OperationCall, inputs: Sequence[Array]) -> list[Array]:
        """The reference's answers. Raises ModelError, also if they have another form than the operation's results."""
        found = self._references.run(call.operation, inputs, call.attributes)
        if len(found) != len(call.outputs):
            raise ModelError(
                f"the reference of the operation {call.operation!r} gives {len(found)} arrays, and the model takes "
                f"{len(call.outputs)}",
                hint=_HINT,
            )
        arrays = []
        for place, (dtype, sizes) in enumerate(call.outputs):
            wanted, given = NUMPY_TYPES[dtype], found[place]
            if given.shape != (_ROWS, *sizes) or given.dtype.kind != wanted.kind:
                raise ModelError(
                    f"the reference of the operation {call.operation!r} gives {given.dtype}{list(given.shape)} for "
                    f"{_ROWS} rows, and the model takes {wanted}{[_ROWS, *sizes]} (node {call.node!r})",
                    hint=_HINT,
                )
            with np.errstate(all="ignore"):
                arrays.append(given.astype(wanted))
        return arrays

    def _ours(self, call: OperationCall, name: str, inputs: Path, library: Path, folder: Path) -> Mapping[str, Array]:
        answers, job = self._scratch / f"{inputs.stem}-answers.npz", folder / f"{call.target}-{name}.json"
        one = {
            "target": call.target,
            "name": call.target,
            "inputs": str(inputs),
            "batched": call.batched,
            "outputs": [(NUMPY_TYPES[dtype].name, sizes) for dtype, sizes in call.outputs],
        }
        job.write_text(json.dumps({"library": str(library), "answers": str(answers), "calls": [one]}))
        box = Sandbox(
            readable=(library, job, inputs),
            writable=(self._scratch,),
            limits=Limits.of_user().within(Limits(timeout=_SECONDS, memory=4 << 30)),
        )
        where = f"the operation {call.operation} (node {call.node!r}), inputs of class {name}"
        try:
            box.own_python("tfaot_pkg.verify.operation_runner", [job]).run()
        except CommandFailed as error:
            # A fault of the author's code ends in a signal or at the time limit, never in an exception of Python.
            if error.reason == "exit code 1":  # an exception in the runner: a fault of ours
                raise ToolchainError(f"{where}: {error.tail}", hint="report this") from error
            raise ValidationError(
                f"{where}: its C++ function does not return ({error.reason}): it does not end, or reads or writes "
                "outside its arrays",
                hint="look at its loops and indices: an input has one row, without the batch axis",
            ) from error
        with from_worker():
            return read_arrays(answers)


def drawn(call: OperationCall, constants: Mapping[int, Array], name: str, seed: int) -> list[Array]:
    """Inputs of a class, with rows if they have a batch axis; `constants` keep their values in the model."""
    generator = np.random.default_rng(seed)
    return [
        constants[place]
        if place in constants
        else _numbers(generator, NUMPY_TYPES[dtype], (_ROWS, *sizes) if has_rows else sizes, name)
        for place, ((dtype, sizes), has_rows) in enumerate(zip(call.inputs, call.batched, strict=True))
    ]


def _numbers(generator: np.random.Generator, dtype: np.dtype[Any], shape: tuple[int, ...], name: str) -> Array:
    if dtype.kind == "b":
        return generator.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        low, high = {"usual": (0, 8), "scaled": (-1000, 1000)}.get(name, (limits.min, limits.max))
        return generator.integers(max(low, limits.min), min(high, limits.max), shape, dtype)
    values = generator.standard_normal(shape)
    if name == "scaled":
        values *= 1000
    if name in ("boundary", "nonfinite"):
        special = [0.0, -0.0, 1.0, -1.0, float(np.finfo(dtype).tiny)]
        special = special if name == "boundary" else [np.nan, np.inf, -np.inf]
        chosen = generator.random(shape) < (0.8 if name == "boundary" else 0.2)
        values = np.where(chosen, generator.choice(special, shape), values)
    return values.astype(dtype)


def near(ours: Array, theirs: Array, rtol: float, atol: float) -> Array:
    """Mask of the elements that agree, relative to the largest number of their row, because its sums may cancel."""
    if theirs.dtype.kind != "f":
        return np.asarray(ours == theirs)
    one, two = ours.astype(np.float64), theirs.astype(np.float64)
    finite = np.isfinite(one) & np.isfinite(two)
    sizes = np.where(np.isfinite(two), np.abs(two), 0.0).reshape(len(two), -1).max(axis=1, initial=0.0)
    limit = (atol + rtol * sizes).reshape(-1, *[1] * (two.ndim - 1))
    with np.errstate(all="ignore"):
        agree: Array = (one == two) | (np.isnan(one) & np.isnan(two)) | (finite & (np.abs(one - two) <= limit))
    return agree
