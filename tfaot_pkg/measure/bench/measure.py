"""Measures engines alternately: each round times every engine at every batch size briefly, so that they share noise.

All engines read the same input values, from files.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tfaot_pkg.analysis.accuracy import bars_of, measured, missed, unlike_finite
from tfaot_pkg.errors import RunError
from tfaot_pkg.ground.arrays import Array
from tfaot_pkg.ground.progress import Step
from tfaot_pkg.ground.signature import Signature, Tensor
from tfaot_pkg.measure.bench.results import Difference, Precision
from tfaot_pkg.measure.bench.serving import Program, Serving
from tfaot_pkg.measure.bench_program.messages import Input, Memory, Output
from tfaot_pkg.spec.types import Validation
from tfaot_pkg.verify.evidence import rtol_of
from tfaot_pkg.verify.report import compare
from tfaot_pkg.worker_program.messages.elements import held_type, numbers

_ALIGNMENT = 64  # bytes: a vector of AVX-512, the widest of any target


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The values of all inputs: `file` contains all of them, each at a multiple of 64 bytes, `files` one each."""

    signature: Signature
    rows: int
    file: Path
    files: Mapping[str, Path]

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs for programs in peers' environments, in the types that every engine supports."""
        return tuple(
            Input(name=each.name, dtype=each.dtype.value, shape=each.shape, file=str(self.files[each.name]))
            for each in (tensor.carried for tensor in self.signature.inputs)
        )

    @property
    def outputs(self) -> tuple[Output, ...]:
        return tuple(
            Output(name=each.name, dtype=each.dtype.value, shape=each.shape)
            for each in (tensor.carried for tensor in self.signature.outputs)
        )


def write_inputs(values: Mapping[str, Array], signature: Signature, rows: int, folder: Path) -> Inputs:
    """The first `rows` rows of `values`, written below `folder`."""
    files = {tensor.name: folder / f"input-{i}.bin" for i, tensor in enumerate(signature.inputs)}
    with (folder / "inputs.bin").open("wb") as every:
        for tensor in signature.inputs:
            array = values[tensor.name]
            content = np.ascontiguousarray(array[:rows] if tensor.has_batch_axis else array).tobytes()
            files[tensor.name].write_bytes(content)
            every.write(content + bytes(-len(content) % _ALIGNMENT))
    return Inputs(signature=signature, rows=rows, file=folder / "inputs.bin", files=files)


def difference(
    answers: Path,
    batch_size: int,
    outputs: Sequence[Tensor],
    theirs: Mapping[str, Array],
    tolerance: Validation,
    *,
    has_bars: bool = False,
) -> Difference:
    """The difference of an engine's `outputs`, in the file `answers`, from the source framework's.

    The largest difference, absolute and relative to the largest value of each output, infinite if only one side is a
    number; and the number of values beyond `tolerance`, or with `has_bars` of its bars that are missed. If one side has
    two columns and the other one, the second is compared.
    """
    content, offset, found, failures = answers.read_bytes(), 0, [], 0
    for tensor in outputs:
        size = tensor.nbytes_at(batch_size)
        taken = np.frombuffer(content[offset : offset + size], held_type(tensor.dtype.value))
        ours = numbers(taken.reshape(tensor.shape_at(batch_size)), tensor.dtype.value)
        offset += size
        expected = _first(tensor, theirs[f"{batch_size}/{tensor.name}"], batch_size)
        ours, expected = _same_columns(ours, expected)
        found.append(_difference(ours, expected))
        if has_bars:
            bars = bars_of(tolerance.accuracy, tensor.name)
            errors = measured(ours, expected, bars, target="", output=tensor.name)
            failures += len([*missed(bars, errors)]) + int(unlike_finite(ours, expected).sum())
            continue
        failures += compare(
            ours, expected, target="", batch_size=batch_size, output=tensor.name,
            rtol=rtol_of(tensor.dtype, tolerance.rtol), atol=tolerance.atol,
        ).failures  # fmt: skip
    absolute, relative = (max(each) for each in zip(*found, strict=True))
    return Difference(max_absolute=absolute, max_relative=relative, failures=failures)


def _same_columns(ours: Array, expected: Array) -> tuple[Array, Array]:
    if ours.shape == expected.shape:
        return ours, expected
    rows = len(expected)
    # For two classes, some libraries return both probabilities, others only that of the second class.
    flat, other = ours.reshape(rows, -1), expected.reshape(rows, -1)
    columns = min(flat.shape[1], other.shape[1])
    return flat[:, -columns:], other[:, -columns:]


def _first(tensor: Tensor, values: Array, batch_size: int) -> Array:
    return values[:batch_size] if tensor.has_batch_axis else values


def _difference(ours: Array, theirs: Array) -> tuple[float, float]:
    one, other = ours.astype(np.float64), theirs.astype(np.float64)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    with np.errstate(invalid="ignore"):
        difference = np.where(same, 0.0, np.abs(one - other))
    # NaN on one side only counts as infinitely far: a maximum would be NaN, which no limit exceeds.
    difference[np.isnan(difference)] = np.inf
    scale = float(np.max(np.abs(other), initial=0.0, where=np.isfinite(other)))
    absolute = float(difference.max(initial=0.0))
    return absolute, absolute / scale if scale > 0 else absolute


# Starts vary, because each is a new process whose files may or may not be in the page cache: the median is reported.
_STARTS = 5
_STARTS_TIME = 3e9  # nanoseconds, after which no further process is started


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`slice` is an engine's time in each round, `chunk` the time of the runs between two readings of the clock, both
    in nanoseconds; `cold_calls` are the further calls in each round after other work.
    """

    batch_sizes: tuple[int, ...]
    rounds: int
    core: int
    slice: int = 20_000_000
    cold_calls: int = 16
    chunk: int = 100_000  # reading the clock takes some tens of nanoseconds, less than 0.1 % of it


_NO_MEMORY = Memory(empty=0, peak=0)


@dataclass(slots=True, kw_only=True)
class Taken:
    """The measurements of one engine; incomplete if there is a `failure`. `cold` are times of single calls."""

    times: dict[int, list[list[float]]] = field(default_factory=dict)
    cold: dict[int, list[float]] = field(default_factory=dict)
    first_inference: float = 0.0
    overhead: float = 0.0
    memory: Memory = _NO_MEMORY
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """The rates of one target in all rounds: multiply-adds per second by precision, bytes read per second by amount."""

    multiply_adds: dict[Precision, list[float]]
    reads: dict[int, list[float]]


def measure(
    engines: Mapping[str, Program],
    limits: Mapping[str, Program],
    sizes_read: Sequence[int],
    precisions: Sequence[Precision],
    schedule: Schedule,
    *,
    answers: Path,
    logs: Path,
    step: Step,
) -> tuple[dict[str, Taken], dict[str, Rates]]:
    """Measure `engines` by name, and the machine's `limits` by target; their answers go to answers/NAME-SIZE.bin.

    An engine that fails is left out afterwards.
    """
    taken = {name: Taken() for name in engines}
    rates = {
        target: Rates(multiply_adds={each: [] for each in precisions}, reads={size: [] for size in sizes_read})
        for target in limits
    }
    # Before the others are started, with which it would share the caches.
    for name, program in engines.items():
        _start_anew(program, taken[name], schedule, answers, logs / f"bench-{name}.log")
        step.advance(note=f"{name}, first inference")
    with ExitStack() as stack:
        running = {
            name: stack.enter_context(
                Serving(program, core=schedule.core, writable=answers, log=logs / f"bench-{name}.log")
            )
            for name, program in engines.items()
            if not taken[name].failure
        }
        machines = {
            target: stack.enter_context(
                Serving(program, core=schedule.core, writable=answers, log=logs / f"bench-limits-{target}.log")
            )
            for target, program in limits.items()
        }
        for name, serving in running.items():
            _answer(serving, name, taken[name], schedule, answers)
            if engines[name].has_overhead:
                _overhead(serving, taken[name], schedule)
        # The outer loop is over rounds, so that a disturbance of a second affects all engines, not one.
        for number in range(schedule.rounds):
            for size in schedule.batch_sizes:
                for target, machine in machines.items():
                    _rate(machine, rates[target], sizes_read, size, schedule)
                for name in _turned(list(running), number):
                    _time(running[name], taken[name], size, schedule, is_native=engines[name].python is None)
            step.advance(note=f"round {number + 1} of {schedule.rounds}")
    return taken, rates


def _start_anew(program: Program, taken: Taken, schedule: Schedule, writable: Path, log: Path) -> None:
    """First inference and memory, from new processes that do nothing else and have one batch size each, as programs of
    users have: the smallest for the first inference (the median of several if starts are fast), the largest for memory.
    """
    log.unlink(missing_ok=True)
    firsts: list[float] = []
    try:
        while not firsts or (len(firsts) < _STARTS and sum(firsts) < _STARTS_TIME):
            with Serving(program, core=schedule.core, writable=writable, log=log) as serving:
                firsts.append(serving.start(min(schedule.batch_sizes)))
        with Serving(program, core=schedule.core, writable=writable, log=log) as serving:
            serving.start(max(schedule.batch_sizes))
            taken.memory = serving.memory()
    except RunError as error:
        taken.failure = error.message
        return
    taken.first_inference = statistics.median(firsts)


def _answer(serving: Serving, name: str, taken: Taken, schedule: Schedule, folder: Path) -> None:
    try:
        serving.start(schedule.batch_sizes[0])
        for size in schedule.batch_sizes:
            serving.write_answers(size, folder / f"{name}-{size}.bin")
            serving.times(size, shortest=schedule.chunk, duration=0)  # finds how many runs make a chunk
    except RunError as error:
        taken.failure = error.message


def _overhead(serving: Serving, taken: Taken, schedule: Schedule) -> None:
    """The cost of a call; stays 0 if the engine cannot run the model that does nothing, which is not a failure."""
    if not taken.failure:
        with suppress(RunError):
            times = serving.overhead(shortest=schedule.chunk, duration=schedule.slice)
            taken.overhead = statistics.median(times)


def _time(serving: Serving, taken: Taken, size: int, schedule: Schedule, *, is_native: bool) -> None:
    if taken.failure:
        return
    try:
        times = serving.times(size, shortest=schedule.chunk, duration=schedule.slice)
        if is_native:
            taken.cold.setdefault(size, []).extend(serving.cold_times(size, schedule.cold_calls))
    except RunError as error:
        taken.failure = error.message
        return
    taken.times.setdefault(size, []).append(times)


def _rate(machine: Serving, rates: Rates, sizes_read: Sequence[int], size: int, schedule: Schedule) -> None:
    """The machine's limits, measured beside one batch size: the peak, and a part of the bandwidths."""
    duration = schedule.slice // 4
    for precision, found in rates.multiply_adds.items():
        found.append(machine.rate(f"peak {precision} {duration}"))
    # Each bandwidth is measured once per round: they are spread over the batch sizes.
    place = schedule.batch_sizes.index(size)
    for amount in sizes_read[place :: len(schedule.batch_sizes)]:
        rates.reads[amount].append(machine.rate(f"read {amount} {duration}"))


def _turned(names: list[str], number: int) -> list[str]:
    """The engines in order, beginning with another one in each round, so that none is always the first."""
    start = number % len(names) if names else 0
    return names[start:] + names[:start]
