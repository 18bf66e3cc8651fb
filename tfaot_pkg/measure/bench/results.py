"""The results of a benchmark, its machine, their form as JSON, and the roofline.

The roofline model (Williams, Waterman, Patterson, CACM 52, 2009): a run takes at least as long as its arithmetic at the
core's peak of multiply-adds, and at least as long as reading its weights and inputs and writing its outputs once, at
the bandwidth for that many bytes. Tensors between layers are not counted: they may stay in the caches. The peak is that
of the precision that the model asks for. Where reading takes longer than the arithmetic, the bound is no measure of
code: a run may read a part of a table only, and caches may keep what a plain reading of as many bytes does not find.
"""

from __future__ import annotations

import math
import os
import platform
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfaot_pkg.analysis.program.work import Work
from tfaot_pkg.ground.documents import utc_now
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.targets import TARGETS, runs_here
from tfaot_pkg.verify.latency import processor

Precision = Literal["float32", "float64", "bfloat16", "float32x3", "float32x6", "int8"]
"""The types of factors, whose products a core computes at rates of their own."""
_OF_BFLOAT16: Mapping[Precision, int] = {"bfloat16": 1, "float32x3": 3, "float32x6": 6}
"""How many products of bfloat16 a product is."""


def measured(precisions: Iterable[Precision]) -> tuple[Precision, ...]:
    """The precisions whose rates give those of `precisions`."""
    return tuple(dict.fromkeys(map(_measured_as, precisions)))


def _measured_as(precision: Precision) -> Precision:
    return "bfloat16" if precision in _OF_BFLOAT16 else precision


def rates_of(precisions: Iterable[Precision], rates: Mapping[Precision, float]) -> dict[Precision, float]:
    """The rates of `precisions` from those that were `measured`."""
    return {each: rates[_measured_as(each)] / _OF_BFLOAT16.get(each, 1) for each in precisions}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one core: operations per second by precision, and bytes per second by the amount that is read."""

    target: str
    flops: Mapping[Precision, float]
    bandwidths: Mapping[int, float]


def bytes_moved(work: Work, signature: Signature, batch_size: int) -> int:
    """The least number of bytes that a run reads and writes."""
    tensors = sum(tensor.nbytes_at(batch_size) for tensor in (*signature.inputs, *signature.outputs))
    return work.constant_bytes + tensors


def operations(work: Work, batch_size: int) -> float:
    """Floating-point operations of a run: a multiplication and an addition are two."""
    return work.operations_per_call + work.operations_per_row * batch_size


def sizes_read(work: Work, signature: Signature, batch_sizes: Sequence[int]) -> tuple[int, ...]:
    """The amounts whose bandwidths a roofline needs."""
    return tuple(dict.fromkeys(bytes_moved(work, signature, size) for size in batch_sizes))


def peak(shares: Mapping[Precision, float], limits: Limits) -> float:
    """Operations per second of work of which each precision has its share."""
    return 1.0 / sum(share / limits.flops[precision] for precision, share in shares.items())


def least_times(
    work: Work, shares: Mapping[Precision, float], signature: Signature, batch_size: int, limits: Limits
) -> tuple[float, float]:
    """The least nanoseconds of a run's arithmetic, and of reading and writing."""
    moved = bytes_moved(work, signature, batch_size)
    return 1e9 * operations(work, batch_size) / peak(shares, limits), 1e9 * moved / limits.bandwidths[moved]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One engine at one batch size: nanoseconds of a run, and the difference of its answers from TensorFlow's.

    `median`, `minimum` and `p95` are over all chunks of all rounds; `rounds` are the medians of each round. `failures`
    counts the values that differ from TensorFlow's by more than the spec's validation allows. A difference of None is
    infinite: JSON has no infinity. `cold` is the median of calls after other work (templates/bench/serving.h), None for
    engines that are called from Python.
    """

    batch_size: int
    median: float
    minimum: float
    p95: float
    rounds: tuple[float, ...]
    max_absolute: float | None
    max_relative: float | None
    failures: int = 0
    cold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The fields of Cell that compare answers."""

    max_absolute: float
    max_relative: float
    failures: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One engine. `reason` says why it has no cells. Sizes are in bytes, memory in kB, times in nanoseconds.

    `first_inference` is the time from before the engine is loaded to the end of the first run of the smallest batch, in
    a new process; `memory` the peak of a process that has run the largest batch, `memory_empty` that of the same
    process, with the inputs, before the engine is loaded. `call_overhead` is the time of a run of a model that does
    nothing, for engines that are called through a layer of their own; it is part of all times, except if they are
    `without_overhead`. `engine` says what computes the model in our own library, if it was built now.
    """

    name: str
    title: str
    how: str
    version: str = ""
    target: str = ""
    engine: str = ""
    reason: str = ""
    cells: tuple[Cell, ...] = ()
    first_inference: float = 0.0
    call_overhead: float = 0.0
    without_overhead: bool = False
    memory: int = 0
    memory_empty: int = 0
    model_bytes: int = 0
    runtime_bytes: int = 0

    def cell(self, batch_size: int) -> Cell | None:
        return next((cell for cell in self.cells if cell.batch_size == batch_size), None)

    @property
    def is_ours(self) -> bool:
        return self.name.startswith(OURS)


OURS = "tfaot"


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """The roofline at one target: nanoseconds by batch size. In those of `by_reading` reading is the limit.

    `precision` names those of the model's products, and `gflops` is the peak of that mixture.
    """

    target: str
    gflops: float
    read_gbytes: Mapping[int, float]
    nanoseconds: Mapping[int, float]
    by_reading: tuple[int, ...] = ()
    precision: str = "float32"

    @classmethod
    def of(cls, limits: Limits, shares: Mapping[Precision, float], least: Mapping[int, tuple[float, float]]) -> Roof:
        """The roofline of times as by `least_times`, by batch size."""
        return cls(
            target=limits.target,
            gflops=round(peak(shares, limits) / 1e9, 1),
            read_gbytes={size: round(rate / 1e9, 1) for size, rate in limits.bandwidths.items()},
            nanoseconds={size: round(max(times), 1) for size, times in least.items()},
            by_reading=tuple(size for size, (arithmetic, reading) in least.items() if reading > arithmetic),
            precision=", ".join(sorted(shares)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """One model. `weights` are bytes of constants, `largest_tensors` of inputs and outputs of the largest batch,
    `source` is the digest of the model's files ("" in files of earlier versions).

    Its fields are those of the file that `tfaot-pkg bench -o` writes.
    """

    format: int = 1
    model: str
    description: str
    source: str = ""
    weights: int
    largest_tensors: int
    batch_sizes: tuple[int, ...]
    rounds: int
    machine: Mapping[str, object]
    roofline: tuple[Roof, ...]
    engines: tuple[Row, ...]

    def row(self, name: str) -> Row | None:
        return next((row for row in self.engines if row.name == name), None)

    def roof(self, target: str) -> Roof | None:
        """The roofline of `target`; the highest if it is empty, as for engines that select their code themselves."""
        highest = self.roofline[-1] if self.roofline else None
        return next((roof for roof in self.roofline if roof.target == target), highest)


# benchmarks/families.py: medians of LiteRT's call overhead on a quiet core are 286 to 311 ns, 4 % around their middle.
_MEASURABLE = 20


def cell_of(
    batch_size: int,
    rounds: Sequence[Sequence[float]],
    difference: Difference,
    *,
    cold: Sequence[float] = (),
    overhead: float = 0.0,
) -> Cell:
    """The cell of chunks' times by round, with `overhead` subtracted from each, and of `cold` calls.

    The rest of a time is never less than a twentieth of the overhead: the overhead itself varies by as much from run to
    run, and a smaller rest cannot be distinguished from zero, which has no ratio and no place on a logarithmic axis.
    """
    if overhead:
        # From each chunk, not from the median, so that the minimum and the 95 % quantile are corrected as well.
        rounds = [[max(time - overhead, overhead / _MEASURABLE) for time in times] for times in rounds]
    every = sorted(time for times in rounds for time in times)
    return Cell(
        batch_size=batch_size,
        median=round(statistics.median(every), 1),
        minimum=round(every[0], 1),
        p95=round(every[min(len(every) - 1, int(0.95 * len(every)))], 1),
        rounds=tuple(round(statistics.median(times), 1) for times in rounds),
        max_absolute=_finite(difference.max_absolute),
        max_relative=_finite(difference.max_relative),
        failures=difference.failures,
        cold=round(statistics.median(cold), 1) if cold else None,
    )


def _finite(difference: float) -> float | None:
    return difference if math.isfinite(difference) else None


def description(core: int, compiler: str) -> dict[str, object]:
    """The CPU, its caches and highest target, cores, kernel, compiler, and the core of the measurements."""
    return {
        "cpu": processor(),
        "cores": os.cpu_count() or 0,
        "target": max((t for t in TARGETS.values() if runs_here(t)), key=lambda t: t.level).name,
        "caches": _caches(core),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release().partition("-")[0],
        # Times in virtual machines vary with their neighbours, so readers should know.
        "hypervisor": "hypervisor" in _cpu_flags(),
        "compiler": compiler,
        "core": core,
        "load": round(os.getloadavg()[0], 2),
        "date": utc_now()[:10],
    }


def page_document(found: Bench) -> dict[str, object]:
    """The part of `found` that a package's page shows (catalogue/package.py): the times of the engines that ran."""
    return {
        "format": 1,
        "processor": found.machine.get("cpu"),
        "date": found.machine.get("date"),
        "load": found.machine.get("load"),
        "engines": [
            {
                "title": row.title,
                "version": row.version,
                "is_ours": row.is_ours,
                "measurements": [{"batch_size": one.batch_size, "nanoseconds": one.median} for one in row.cells],
            }
            for row in found.engines
            if row.cells
        ],
    }


def free_core() -> int:
    """The core to measure on: the last one that this process may use, because systems handle interrupts on core 0."""
    return max(os.sched_getaffinity(0))


def _caches(core: int) -> dict[str, str]:
    found = {}
    # Linux's sysfs; virtual machines and containers may hide it.
    for folder in sorted(Path(f"/sys/devices/system/cpu/cpu{core}/cache").glob("index*")):
        try:
            level, kind, size = ((folder / name).read_text().strip() for name in ("level", "type", "size"))
        except (OSError, ValueError):
            continue
        if kind != "Instruction":
            found[f"L{level}"] = size
    return found


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())
