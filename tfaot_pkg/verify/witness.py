"""What the host computes of the program in an .aten file, in float64 and in its own types, beside the answers in it.

The file is not trusted. Its answers must be those of its own program; and which rows meet operands for which PyTorch
leaves a result open is found here, by NumPy, not believed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.doubling import doubled
from tfaot_pkg.compiler.program import BATCH, NUMPY_TYPES, Binding, Program, Symbol, Unsupported
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.errors import ModelError
from tfaot_pkg.frontends.aten_lowering.document import Module
from tfaot_pkg.frontends.aten_lowering.lowering import lower
from tfaot_pkg.frontends.aten_lowering.observed import Observed, observed
from tfaot_pkg.frontends.aten_lowering.table import SHORT, Resolved, dtype_of
from tfaot_pkg.frontends.frozen.aten_file import StoredClass, StoredRun
from tfaot_pkg.frontends.lowering.values import Value
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.verify.defined import bytes_of
from tfaot_pkg.verify.evidence import NOISE, Mask, rounding_of
from tfaot_pkg.verify.rules import CORNERS
from tfaot_pkg.worker_program.messages.open_results import Node, Observer

_SECONDS = 30.0
"""Classes are walked as long as all of them together have taken less of the processor."""
_MOST_BYTES = 1 << 30
_RTOL, _ATOL = 1e-4, 1e-5
"""What float32 may differ by from float64, beside the program's own roundings."""
_SHARE = 0.02
"""Of the elements that can be compared, those that may be others without the file being refused."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Walked:
    """The outputs of one batch by name, in the program's types and in float64, and masks of its rows."""

    plain: Mapping[str, Array]
    exact: Mapping[str, Array]
    free: Mapping[tuple[str, str], Mask]


class Witness:
    """Walks the program of `module`, with the open axes `symbols`, on the classes of its file."""

    def __init__(self, module: Module, symbols: Sequence[Symbol]) -> None:
        self._document = module.document
        self._observed: list[Observed] = []
        lowered = lower(module, symbols, layers=False, by_definition=True, observe=self._observe)
        program = verified(lowered, "lowering")
        computed = {each.id for each in program.entry.operations}
        self._observed = [each for each in self._observed if all(_is_known(o, computed) for o in each.operands)]
        ids = [o.id for each in self._observed for o in each.operands if isinstance(o, Value) and o.id is not None]
        wanted = (*program.entry.results, *dict.fromkeys(ids))
        self._places = {number: len(program.entry.results) + place for place, number in enumerate(dict.fromkeys(ids))}
        self._program = replace(program, entry=replace(program.entry, results=wanted))
        self._double = _doubled(self._program)
        self._spent = 0.0

    def _observe(self, node: object, arguments: Mapping[str, Resolved]) -> None:
        found = observed(node, arguments)  # type: ignore[arg-type]
        if found is not None:
            self._observed.append(found)

    def confirmed(self, found: StoredClass, *, independent: bool) -> StoredClass:
        """`found` with what was seen of its rows: "walked" and "free/FREEDOM/OPERATION", and no float64 that is not the
        program's.

        Raises ModelError if its answers are not those of the program. Nothing is added if that takes too long.
        """
        whole = max((each for each in found.runs if each.beside), key=lambda each: each.rows, default=None)
        runs = [each for each in found.runs if each.beside and (each is whole or not independent)]
        made = {id(each): self._confirmed_run(found, each) for each in runs}
        return replace(found, runs=tuple(made.get(id(each), each) for each in found.runs))

    def _confirmed_run(self, found: StoredClass, run: StoredRun) -> StoredRun:
        batches = self._walks(found, run)
        if batches is None:
            return run
        names = dict.fromkeys(name for each in batches for name in each.free)
        nothing = np.zeros(run.rows, bool)
        free = {name: np.stack([each.free.get(name, nothing) for each in batches]) for name in names}
        open_rows: Mask = np.any([*free.values(), np.zeros((len(batches), run.rows), bool)], axis=0)
        beside = {**run.beside, **{f"free/{freedom}/{operation}": mask for (freedom, operation), mask in free.items()}}
        beside["walked"] = np.ones((len(batches), run.rows), bool)
        compared, wrong = 0, 0
        for each in self._document.outputs:
            plain, exact = (np.stack([getattr(b, kind)[each.name] for b in batches]) for kind in ("plain", "exact"))
            if exact.dtype.kind != "f":
                continue
            rows = _of_elements(~open_rows, exact)
            given, theirs = run.outputs.get(each.name), run.beside.get(f"exact/{each.name}")
            ran = np.broadcast_to(run.ran.reshape(-1, *[1] * (exact.ndim - 1)), exact.shape)
            faulty = np.zeros(exact.shape, bool)
            for other, known in ((given, rows & ran), (theirs, rows)):
                if other is not None and other.shape == exact.shape:
                    here = known & np.isfinite(other) & np.isfinite(exact)
                    off = here & _is_off(other, exact, plain)
                    compared, wrong, faulty = compared + int(here.sum()), wrong + int(off.sum()), faulty | off
            if theirs is not None and theirs.shape == exact.shape:
                beside[f"exact/{each.name}"] = np.where(faulty, np.nan, theirs)
        if wrong > _SHARE * compared and found.name not in CORNERS:
            raise ModelError(
                f"PyTorch's answers in the model's file are not those of its program: of inputs of the class "
                f"{found.name!r}, {wrong} of {compared} numbers are others",
                hint=self._advice(),
            )
        return replace(run, beside=beside)

    def _advice(self) -> str:
        results = (result for node in self._document.nodes for result in node.results if result is not None)
        if any(result.dtype in SHORT for result in results):
            return "it computes in floats of 16 bits, whose roundings decide: export it in float32, model.float()"
        return "export the model again with tfaot_pkg.export; if that does not help, report it"

    def _walks(self, found: StoredClass, run: StoredRun) -> list[_Walked] | None:
        """Of the inputs to which `run` has evidence; None if they cannot be walked, or not in time."""
        # Rows that the model rejects have the first other one in their place (tfaot_pkg/export).
        unit = min(found.runs, key=lambda each: each.rows)
        kept = np.repeat(unit.ran, unit.rows)
        if self._double is None or not kept.any():
            return None
        order = np.where(kept, np.arange(len(kept)), np.argmax(kept))
        batched = {each.name for each in self._document.inputs if each.axes[:1] == (BATCH,)}
        walked: list[_Walked] = []
        for start in range(0, len(run.ran) * run.rows, run.rows):
            rows = order[start : start + run.rows] if batched else order
            feeds = {name: array[rows] if name in batched else array for name, array in found.inputs.items()}
            begun = time.process_time()
            try:
                walked.append(self._walk(feeds, run.rows, found.sizes))
            except (Unsupported, interpret.OutOfTimeError, ArithmeticError, ValueError):
                return None
            finally:
                self._spent += time.process_time() - begun
        return walked

    def _walk(self, feeds: Mapping[str, Array], rows: int, sizes: Mapping[str, int]) -> _Walked:
        if self._spent > _SECONDS or bytes_of(self._program, Binding(rows, sizes)) > _MOST_BYTES:
            raise interpret.OutOfTimeError
        arrays = [
            np.asarray(feeds[each.name], NUMPY_TYPES[dtype_of(each.dtype)], order="C") for each in self._document.inputs
        ]
        wide = [each.astype(np.float64) if each.dtype == np.float32 else each for each in arrays]
        assert self._double is not None
        end = time.monotonic() + _SECONDS
        plain = interpret.run(self._program, rows, arrays, sizes, end=end)
        exact = interpret.run(self._double, rows, wide, sizes, end=end)
        seen = Observer(rows)
        for look, values in ((seen.first, plain), (seen.second, exact)):
            for each in self._observed:
                look(self._node(each, values))
        names = [each.name for each in self._document.outputs]
        return _Walked(
            plain=dict(zip(names, plain, strict=False)), exact=dict(zip(names, exact, strict=False)), free=seen.found
        )

    def _node(self, found: Observed, values: Sequence[Array]) -> Node:
        operands = [self._array(each, values) for each in found.operands]
        if found.axis is None:
            operands = [each.reshape(-1) for each in operands]
        return Node(
            name=found.name,
            operation=found.operation,
            operands=tuple(operands),
            to=None if found.to is None else np.dtype(found.to),
            attributes={"axis": -1 if found.axis is None else found.axis, "without_rule": found.without_rule},
            nested=not found.by_row or found.axis is None,
        )

    def _array(self, operand: Value | Array, values: Sequence[Array]) -> Array:
        if not isinstance(operand, Value):
            return operand
        if operand.id is not None:
            return values[self._places[operand.id]]
        assert operand.numbers is not None
        return operand.numbers


def _doubled(program: Program) -> Program | None:
    try:
        return doubled(program)
    except Unsupported:
        return None


def _is_known(operand: Value | Array, computed: set[int]) -> bool:
    if not isinstance(operand, Value):
        return True
    return operand.id in computed if operand.id is not None else operand.numbers is not None


def _of_elements(rows: Mask, values: Array) -> Mask:
    """A mask of batches and rows as one of the elements of outputs, which may not have rows."""
    has_rows = values.shape[1:2] == rows.shape[1:]
    mask = rows.reshape(*rows.shape, *[1] * (values.ndim - 2)) if has_rows else rows.all()
    return np.broadcast_to(mask, values.shape)


def _is_off(values: Array, exact: Array, plain: Array) -> Mask:
    """Which of `values` are further from float64 than float32 is in this program."""
    with np.errstate(all="ignore"):
        off = np.abs(plain.astype(np.float64) - exact)
        off = np.where(np.isfinite(off), off, 0.0)
        places = off.shape[-1] if off.ndim > 1 else 1
        noise = off.reshape(-1, places).max(0, initial=0.0) + rounding_of(plain).reshape(-1)
        limit = _ATOL + _RTOL * np.abs(exact) + NOISE * (noise if off.ndim > 1 else noise.max(initial=0.0))
        found: Mask = np.abs(values.astype(np.float64) - exact) > limit
    return found
