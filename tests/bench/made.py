"""Results made by hand, for what is done with results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tfaot_pkg.measure.bench.results import Bench, Cell, Difference, Limits, Roof, Row, cell_of

SIZES = (1, 4)
OURS, LITERT, XLA = "tfaot-x86-64-v3", "litert", "xla-x86-64-v3"

AGREES = Difference(max_absolute=1e-7, max_relative=2e-7, failures=0)


def row(name: str, rounds: Mapping[int, Sequence[float]], **others: object) -> Row:
    """An engine whose rounds, one chunk each, took so many nanoseconds by batch size."""
    cells = tuple(cell_of(size, [[time] for time in times], AGREES) for size, times in rounds.items())
    target = name.partition("-")[2]
    values = {"title": name, "how": "by hand", "target": target, "cells": cells, **others}
    return Row(name=name, **values)  # type: ignore[arg-type]


def bench(*rows: Row, roof: Mapping[int, float] | None = None, cpu: str = "a CPU") -> Bench:
    limits = Limits(target="x86-64-v3", flops={"float32": 1e11}, bandwidths={1000: 1e11})
    return Bench(
        model="made",
        description="a model",
        weights=265_000,
        largest_tensors=24,
        batch_sizes=SIZES,
        rounds=max(len(cell.rounds) for each in rows for cell in each.cells),
        machine={
            "cpu": cpu, "cores": 2, "target": "x86-64-v3", "caches": {"L1": "48K"}, "memory_gib": 16.0, "kernel": "6.1",
            "hypervisor": False, "compiler": "g++ 12", "core": 1, "load": 0.1, "date": "2026-11-01",
        },
        roofline=(
            Roof.of(limits, {"float32": 1.0}, {size: (time, 0.0) for size, time in (roof or {1: 1e3, 4: 3e3}).items()}),
        ),
        engines=rows,
    )  # fmt: skip


def cells(first: float, second: float) -> dict[int, list[float]]:
    """Three equal rounds at each of SIZES."""
    return {1: [first] * 3, 4: [second] * 3}


__all__ = ["LITERT", "OURS", "SIZES", "XLA", "Cell", "bench", "cells", "row"]
