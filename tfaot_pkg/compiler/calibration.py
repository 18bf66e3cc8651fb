"""Post-training quantization: the scales of layers of bytes, and which layers pay their price (decision 098). Pure.

The program runs in NumPy on calibration rows. Layers whose inputs are moved from one value have one scale. Three ways
to choose it are tried; the one with the smallest error of the layers' results is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tfaot_pkg.compiler import interpret
from tfaot_pkg.compiler.attributes import Dense
from tfaot_pkg.compiler.meanings import Value
from tfaot_pkg.compiler.operations import OPERATIONS
from tfaot_pkg.compiler.passes.quantize_layers import (
    HIGHEST,
    MOVES,
    Scale,
    bias_of,
    quantize_layers,
    quantized_weights,
    weights_of,
)
from tfaot_pkg.compiler.program import NO_SYMBOLS, NUMPY_TYPES, Binding, Operation, Program, Region
from tfaot_pkg.compiler.use_def import Look
from tfaot_pkg.compiler.verifier import verified
from tfaot_pkg.ground.arrays import Array

How = Literal["min-max", "percentile", "error"]

_MOST_BYTES = 64 << 20
"""Of all arrays of the rows that are computed at a time; windows of images take some times that."""
_MOST_ROWS = 64
_SAMPLE, _SAMPLES = 1 << 14, 1 << 17
"""Elements of a value that are kept of one observation, and in all."""
_INPUTS = 1 << 20
"""Elements of a layer's input with which ways are compared."""
_PERCENTILE = 99.99
_FRACTIONS = np.linspace(1.0, 0.25, 31)
"""Of the range of a value: those whose error is tried."""
_BITS = 12
"""Of a scale. The interpreter's last digits depend on the machine's NumPy: few bits of a scale do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Errors of all outputs: the share of a bar that they take at most, and the errors of the output that takes it."""

    of_bars: float
    largest: float
    mean: float


Judge = Callable[[Sequence[Array], Sequence[Array]], Judged]
"""Judges answers beside those in float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerPrice:
    """What bytes in one layer cost if all others are float32, and gain.

    `largest`, `mean` and `of_bars` are those of Judged, `share` is its part of the model's multiply-adds, `how` the way
    in which the scale of its input was chosen; `compute` is int8, or float32 if it stays so.
    """

    name: str
    operation: str
    inputs: int
    outputs: int
    share: float
    how: How
    largest: float
    mean: float
    of_bars: float
    compute: Literal["int8", "float32"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The scales of the inputs of layers of bytes, by the layers' ids, and the prices of all that could be such."""

    scales: Mapping[int, Scale]
    layers: tuple[LayerPrice, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Inputs of a program, by its parameters; those that are `batched` have `count` rows."""

    arrays: Sequence[Array]
    batched: Sequence[bool]
    count: int
    sizes: Mapping[str, int] = field(default_factory=lambda: NO_SYMBOLS)

    def parts(self, rows: int) -> Iterator[tuple[int, list[Array]]]:
        """At most `rows` at a time, with their number."""
        for start in range(0, self.count, rows):
            stop = min(start + rows, self.count)
            yield (
                stop - start,
                [
                    each[start:stop] if is_batched else each
                    for each, is_batched in zip(self.arrays, self.batched, strict=True)
                ],
            )


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A layer that may be of bytes, with its weights; `root` is what its input is moved from."""

    layer: Operation
    weights: Array
    bias: Array
    root: int
    place: int


class _Observed:
    """What is seen of the input of a layer."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.samples: list[NDArray[np.float64]] = []
        self.operands: Sequence[Value] = ()
        self.result: Value = np.zeros(0)
        self.rows = 0

    def add(self, x: Array) -> None:
        flat = x.ravel()
        flat = flat[np.isfinite(flat)]
        self.low, self.high = float(flat.min(initial=self.low)), float(flat.max(initial=self.high))
        self.samples.append(_some(flat, _SAMPLE).astype(np.float64))


def _some(flat: Array, most: int) -> Array:
    """At most `most` elements, evenly spaced."""
    return flat[:: max(1, -(-flat.size // most))]


def calibrate(program: Program, rows: Rows, judge: Judge) -> Calibrated:
    """The scales of the layers that keep the bars together, which `judge` knows.

    From all layers, the one whose own error takes most of a bar becomes float32, until the bars hold.
    Raises Unsupported for operations that the interpreter lacks.
    """
    found = _Calibration(program, rows, judge)
    return found.calibrated()


class _Calibration:
    def __init__(self, program: Program, rows: Rows, judge: Judge) -> None:
        self._program, self._rows, self._judge = program, rows, judge
        self._candidates = tuple(_candidates(program))
        self._at_a_time = _rows_at_a_time(program, rows.sizes)
        self._batches = [_batched_result(program, result) for result in program.entry.results]
        self._observed = {each.layer.id: _Observed() for each in self._candidates}
        self._work: dict[int, float] = {}
        self._shapes = {each.id: each.shapes[0] for each in program.entry.everything()}
        self._at = Binding(1, rows.sizes)

    def calibrated(self) -> Calibrated:
        if not self._candidates:
            return Calibrated(scales={}, layers=())
        theirs = self._outputs(self._program, seen=self._see)
        chosen = self._chosen()
        scales = {each.layer.id: chosen[each.root][0] for each in self._candidates}
        alone = self._alone(scales)
        by_price = sorted(self._candidates, key=lambda each: (*_price(alone[each.layer.id]), each.place))
        kept = [each.layer.id for each in by_price]
        while kept and self._judge(self._outputs(self._with(scales, kept)), theirs).of_bars > 1.0:
            kept.pop()
        total = sum(self._work.values()) or 1.0
        return Calibrated(
            scales={each: scales[each] for each in sorted(kept)},
            layers=tuple(
                LayerPrice(
                    name=each.layer.node,
                    operation=each.layer.opcode,
                    inputs=math.prod(each.weights.shape[:-1]),
                    outputs=each.weights.shape[-1],
                    share=self._work.get(each.layer.id, 0.0) / total,
                    how=chosen[each.root][1],
                    largest=alone[each.layer.id].largest,
                    mean=alone[each.layer.id].mean,
                    of_bars=alone[each.layer.id].of_bars,
                    compute="int8" if each.layer.id in kept else "float32",
                )
                for each in self._candidates
            ),
        )

    def _with(self, scales: Mapping[int, Scale], layers: Sequence[int]) -> Program:
        made = quantize_layers({each: scales[each] for each in layers})(self._program)
        return verified(made, "quantize-layers")

    def _outputs(
        self, program: Program, seen: Callable[[Operation, Sequence[Value], Value], None] | None = None
    ) -> list[Array]:
        """Of all rows."""
        parts = []
        for number, arrays in self._rows.parts(self._at_a_time):
            self._at = Binding(number, self._rows.sizes)
            parts.append(interpret.run(program, number, arrays, self._rows.sizes, seen=seen))
        return _joined(parts, self._batches)

    def _see(self, operation: Operation, operands: Sequence[Value], result: Value) -> None:
        if (multiply_adds := OPERATIONS[operation.opcode].multiply_adds) is not None:
            shapes = [self._shapes[each] for each in operation.operands]
            done = multiply_adds(operation, shapes, self._at)
            self._work[operation.id] = self._work.get(operation.id, 0.0) + done
        if (observed := self._observed.get(operation.id)) is not None:
            x = np.asarray(operands[0])
            observed.add(x)
            if not observed.operands or x.size <= _INPUTS:
                observed.operands, observed.result = operands, result

    def _chosen(self) -> dict[int, tuple[Scale, How]]:
        """The scales of all roots."""
        by_root: dict[int, list[_Candidate]] = {}
        for each in self._candidates:
            by_root.setdefault(each.root, []).append(each)
        return {root: self._best(group) for root, group in by_root.items()}

    def _best(self, group: Sequence[_Candidate]) -> tuple[Scale, How]:
        seen = [self._observed[each.layer.id] for each in group]
        low, high = min(each.low for each in seen), max(each.high for each in seen)
        samples = _some(np.concatenate([part for each in seen for part in each.samples] or [np.zeros(1)]), _SAMPLES)
        ends = np.percentile(samples, [100 - _PERCENTILE, _PERCENTILE]) if samples.size else np.zeros(2)
        ways: dict[How, Scale] = {
            "min-max": scale_of(low, high),
            "percentile": scale_of(min(float(ends[0]), 0.0), max(float(ends[1]), 0.0)),
            "error": _of_least_error(samples, low, high),
        }
        errors: dict[How, float] = {how: sum(self._error(each, scale) for each in group) for how, scale in ways.items()}
        best = min(ways, key=lambda how: errors[how])
        return ways[best], best

    def _error(self, candidate: _Candidate, scale: Scale) -> float:
        """The mean squared error of the layer's result with bytes, in parts of its mean square."""
        seen = self._observed[candidate.layer.id]
        if not seen.operands:
            return 0.0
        x = np.asarray(seen.operands[0])
        found = quantized_weights(candidate.weights, candidate.bias, scale.step)
        weights = (found.whole * found.steps).astype(np.float32)
        if candidate.layer.opcode == "dense" and Dense.of(candidate.layer).weights_axis == 1:
            weights = weights.T
        operands = [rounded_to(x, scale).astype(np.float32), weights, *seen.operands[2:]]
        wanted = np.asarray(seen.result, np.float64)
        made = interpret.evaluate(candidate.layer, operands, len(x) if x.ndim else 1, self._rows.sizes)
        with np.errstate(all="ignore"):
            error = float(np.nanmean((np.asarray(made, np.float64) - wanted) ** 2) / (np.nanmean(wanted**2) or 1.0))
        return error if math.isfinite(error) else math.inf

    def _alone(self, scales: Mapping[int, Scale]) -> dict[int, Judged]:
        """The errors of each layer alone, on some rows. What comes before the layer is computed once for all."""
        layers = [each.layer.id for each in self._candidates]
        programs = {each: self._with(scales, [each]) for each in layers}
        ours: dict[int, list[list[Array]]] = {each: [] for each in layers}
        theirs: list[list[Array]] = []
        done = 0
        for number, arrays in self._rows.parts(self._at_a_time):
            known: dict[int, Value] = {}
            seen = partial(_remember, known)
            theirs.append(interpret.run(self._program, number, arrays, self._rows.sizes, seen=seen))
            for each, program in programs.items():
                kept = {value: known[value] for value in _unchanged(self._program, program) if value in known}
                ours[each].append(interpret.run(program, number, arrays, self._rows.sizes, known=kept))
            done += number
            if done >= _MOST_ROWS:
                break
        wanted = _joined(theirs, self._batches)
        return {each: self._judge(_joined(parts, self._batches), wanted) for each, parts in ours.items()}


def _remember(known: dict[int, Value], operation: Operation, _operands: Sequence[Value], result: Value) -> None:
    known[operation.id] = result


def _price(judged: Judged) -> tuple[float, float]:
    return judged.of_bars, judged.mean


def _joined(parts: Sequence[Sequence[Array]], batched: Sequence[bool]) -> list[Array]:
    return [
        np.concatenate([each[place] for each in parts]) if is_batched else parts[0][place]
        for place, is_batched in enumerate(batched)
    ]


def _batched_result(program: Program, result: int) -> bool:
    shapes = next(each for each in program.entry.operations if each.id == result).shapes
    return bool(shapes[0].sizes) and shapes[0].sizes[0].grows


def _rows_at_a_time(program: Program, sizes: Mapping[str, int]) -> int:
    at = Binding(1, sizes)
    taken = sum(
        math.prod(at.numbers(shape.sizes)) * NUMPY_TYPES[shape.dtype].itemsize
        for each in program.entry.everything()
        if each.opcode != "constant"
        for shape in each.shapes
    )
    return max(1, min(_MOST_ROWS, _MOST_BYTES // max(1, taken)))


def _candidates(program: Program) -> Iterator[_Candidate]:
    places = count()

    def inside(region: Region, outside: Mapping[int, Operation]) -> Iterator[_Candidate]:
        look = Look(region, outside, count())
        for each in region.operations:
            weights = weights_of(look, each)
            if weights is not None:
                yield _Candidate(each, weights, bias_of(look, each), _root(look, each.operands[0]), next(places))
            for nested in each.regions:
                yield from inside(nested, look.known)

    return inside(program.entry, {})


def _root(look: Look, value: int) -> int:
    while (found := look.known[value]).opcode in MOVES:
        (value,) = found.operands
    return value


def _unchanged(before: Program, after: Program) -> Iterator[int]:
    """The values of the program itself that `after` computes as `before` does."""
    old = before.entry.by_id()
    changed: set[int] = set()
    for each in after.entry.operations:
        if old.get(each.id) is not each or changed & {*each.operands, *each.captured()}:
            changed.add(each.id)
        elif each.opcode != "parameter":
            yield each.id


def scale_of(low: float, high: float) -> Scale:
    """The scale of bytes from `low`, at most 0, to `high`, at least 0."""
    step = (high - low) / HIGHEST
    if not step > 2.0**-96:
        return Scale(step=1.0, zero=0)
    fraction, exponent = math.frexp(step)
    step = math.ldexp(math.ceil(fraction * (1 << _BITS)), exponent - _BITS)
    return Scale(step=step, zero=int(min(max(round(-low / step), 0), HIGHEST)))


def rounded_to(x: Array, scale: Scale) -> NDArray[np.float64]:
    """What the bytes of `x` stand for."""
    whole = np.clip(np.rint(np.nan_to_num(x.astype(np.float64)) / scale.step) + scale.zero, 0, HIGHEST)
    return np.asarray((whole - scale.zero) * scale.step)


def _of_least_error(samples: NDArray[np.float64], low: float, high: float) -> Scale:
    """The scale with the least squared error of the samples, among parts of their range."""
    found = [scale_of(low * part, high * part) for part in _FRACTIONS]
    return min(found, key=lambda each: float(np.mean((rounded_to(samples, each) - samples) ** 2)))
