"""Sizes and times as people read them, and the numbers of documents that publishers wrote."""

from __future__ import annotations

from typing import TypeGuard


def size_text(size: int) -> str:
    """A size in bytes."""
    value, units = float(size), ["B", "kB", "MB", "GB", "TB"]
    # From 999.5 on, three digits would be written as 1e+03.
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.3g} {units[0]}"


def duration(nanoseconds: float) -> str:
    """A time: `850 ns`, `15 µs`, `2.4 ms`, `1.2 s`."""
    value, units = float(nanoseconds), ["ns", "µs", "ms", "s"]
    while value >= 999.5 and len(units) > 1:
        value /= 1000
        del units[0]
    return f"{value:.0f} {units[0]}" if value >= 99.5 else f"{value:.2g} {units[0]}"


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a finite number that is not negative; a bool is an int for Python."""
    return type(value) in (int, float) and 0 <= value < float("inf")  # type: ignore[operator]
