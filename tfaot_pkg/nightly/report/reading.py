"""From the state folder to a report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.depends import Dependent
from tfaot_pkg.nightly.report.log import Excerpt, excerpt
from tfaot_pkg.nightly.report.report import Report, make_report
from tfaot_pkg.nightly.state import NightFolder, State
from tfaot_pkg.nightly.types import Outcome
from tfaot_pkg.storage import storage_errors

_LARGEST_HALF = 1 << 20
"""Bytes of a log's beginning, and of its end, that are read at most."""


def find_night(state: State, name: str = "") -> NightFolder:
    """The night of this name, or the last one. Raises StorageError where there is none."""
    nights = state.nights()
    if not nights:
        raise StorageError(
            f"there is no night in {state.root}", hint="tfaot-pkg nightly run makes one; or give --state"
        )
    if not name:
        return nights[-1]
    for night in nights:
        if night.name == name:
            return night
    last = ", ".join(night.name for night in nights[-5:])
    raise StorageError(f"there is no night {name} in {state.root}", hint=f"the last ones are {last}")


def read_report(state: State, night: NightFolder, published: Callable[[], Iterable[Dependent]] = tuple) -> Report:
    """The report of `night`, as far as it has come; `published` is as for `make_report`. Raises StorageError."""
    nights = state.nights()
    place = nights.index(night)
    before = nights[place - 1] if place else None
    verdict = night.verdict()
    return make_report(
        night.name,
        night.decisions(),
        night.outcomes(),
        before=(before.name, before.outcomes()) if before else ("", ()),
        history=state.history(before=night),
        log_of=lambda outcome: _log(night, outcome),
        published=published,
        withheld=str(verdict) if verdict is not None and verdict.withheld else "",
    )


def _log(night: NightFolder, outcome: Outcome) -> Excerpt | None:
    path = night.folder / outcome.log
    if not outcome.log or not path.resolve().is_relative_to(night.folder.resolve()) or not path.is_file():
        return None
    return excerpt(_content(path), outcome.log, outcome.error)


def _content(path: Path) -> str:
    """The log as text; the middle of a very long one is left out."""
    with storage_errors(f"read {path}"), path.open("rb") as file:
        data = file.read(_LARGEST_HALF)
        size = path.stat().st_size
        if size > 2 * _LARGEST_HALF:
            file.seek(size - _LARGEST_HALF)
            data += f"\n[{size - 2 * _LARGEST_HALF:,} bytes are left out]\n".encode()
        data += file.read(_LARGEST_HALF)
    return data.decode("utf-8", "replace")
