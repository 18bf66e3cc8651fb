"""What is said of layers that compute in less than float32 (decision 093): one wording for the CLI and pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from tfaot_pkg.ground.targets import TARGETS

_MEANINGS = {
    "bfloat16": "layers multiply numbers of 8 significant bits, and add in float32",
    "float32x3": "layers multiply numbers of 16 significant bits, by three products of bfloat16, and add in float32",
    "float32x6": "layers multiply numbers of 24 significant bits, by six products of bfloat16, and add in float32",
    "int8": "layers multiply bytes, and add integers",
    "bfloat16 weights": "layers multiply in float32, by weights of 8 significant bits",
    "int8 weights": "layers multiply in float32, by weights of 255 steps for each output",
}


def name_of(precision: Mapping[str, Any]) -> object:
    """What reports call a spec's compilation.precision, which a publisher wrote."""
    weights = precision.get("weights", "float32")
    return precision.get("compute") if weights == "float32" else f"{weights} weights"


def told_by(report: Mapping[str, Any]) -> str:
    """In what the layers of a package compute whose validation report is `report`; empty for float32.

    A publisher wrote it: only words of this table are shown.
    """
    precision = report.get("precision")
    return f"{precision}: {_MEANINGS[precision]}" if isinstance(precision, str) and precision in _MEANINGS else ""


_MOST = 200


def gain_texts(gains: Iterable[tuple[str, int, float]]) -> tuple[str, ...]:
    """A line for each target of (target, batch size, time in float32 over the package's), on the building machine."""
    by_target: dict[str, dict[int, float]] = {}
    for target, batch_size, times in gains:
        by_target.setdefault(target, {})[batch_size] = times
    return tuple(
        f"{', '.join(f'{each:.2f}' for each in found.values())} times as fast as in float32 at "
        f"batch size{'s' if len(found) > 1 else ''} {', '.join(map(str, found))} ({target})"
        for target, found in by_target.items()
    )


def gains_told_by(latency: Mapping[str, Any]) -> tuple[str, ...]:
    """The gains in a package's document of latencies (verify/latency.py). A publisher wrote it: what is no gain is
    left out.
    """
    rows = latency.get("gains")
    return gain_texts(
        (row["target"], row["batch_size"], row["times"])
        for row in (rows[:_MOST] if isinstance(rows, list) else ())
        if isinstance(row, dict)
        and isinstance(row.get("target"), str)
        and row["target"] in TARGETS
        and type(row.get("batch_size")) is int
        and 1 <= row["batch_size"] < 1e15
        and type(row.get("times")) in (int, float)
        and isfinite(row["times"])
        and 0 < row["times"] < 1e6
    )
