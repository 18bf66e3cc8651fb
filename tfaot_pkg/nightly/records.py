"""What past nights say about tasks: from what a package was made, and how the last try of a task ended."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from tfaot_pkg.errors import StorageError
from tfaot_pkg.keys import Key, canonical_json
from tfaot_pkg.nightly.state import NightFolder, State, read_lines
from tfaot_pkg.nightly.types import Outcome
from tfaot_pkg.storage import storage_errors, write_file

_NIGHTS = 60
"""How many nights are looked at for outcomes: what failed is tried every night, so the last one mostly says all."""
_DAYS = 7
"""From a build to its publication at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Components by the key of the package that was made from them; the last outcome by task."""

    components: Mapping[Key, Mapping[str, str]] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)


def read_records(state: State, keys: Mapping[Key, str], tasks: Collection[str]) -> Records:
    """What is known of packages with these `keys` (by the time of their publication, ISO 8601) and of `tasks`.

    A night whose files are damaged says nothing.
    """
    components = {key: one for key, one in _kept_inputs(state).items() if key in keys}
    outcomes: dict[str, Outcome] = {}
    missing, nights = set(tasks), state.nights()
    for age, night in enumerate(reversed(nights)):
        if missing and age < _NIGHTS:
            _add_outcomes(night, missing, outcomes)
        if wanted := {key for key, published in keys.items() if key not in components and _may_be_of(night, published)}:
            found = _components(night)
            components |= {key: found[key] for key in wanted & found.keys()}
    return Records(components=components, outcomes=outcomes)


def keep_inputs(state: State, nights: Sequence[NightFolder], keys: Collection[Key] | None) -> None:
    """Keep what is known of packages with these `keys` (None: of all) from `nights`, which are about to be removed.

    What was kept before of other packages is dropped. Raises StorageError.
    """
    known = _kept_inputs(state)
    for night in nights:
        known |= _components(night)
    kept = {key: inputs for key, inputs in known.items() if keys is None or key in keys}
    lines = [canonical_json({"key": key, "inputs": dict(inputs)}) + b"\n" for key, inputs in sorted(kept.items())]
    path = _inputs_file(state)
    if lines or path.exists():
        with storage_errors(f"write {path}"):
            write_file(path, b"".join(lines))


def _kept_inputs(state: State) -> dict[Key, Mapping[str, str]]:
    """What earlier calls of `keep_inputs` kept; nothing where the file is damaged."""
    try:
        return {line["key"]: line["inputs"] for line in read_lines(_inputs_file(state))}
    except (StorageError, KeyError, TypeError):
        return {}


def _inputs_file(state: State) -> Path:
    return state.root / "inputs.jsonl"


def _may_be_of(night: NightFolder, published: str) -> bool:
    """Whether what was published then may have been built in `night`: in that one, or in one that was withheld."""
    try:
        waited = date.fromisoformat(published[:10]) - date.fromisoformat(night.name[:10])
    except ValueError:
        return False
    return -1 <= waited.days <= _DAYS  # nights have the local date


def _add_outcomes(night: NightFolder, missing: set[str], outcomes: dict[str, Outcome]) -> None:
    try:
        found = {one.task: one for one in night.outcomes() if one.task in missing}
    except StorageError:
        return
    outcomes |= found
    missing.difference_update(found)


def _components(night: NightFolder) -> dict[Key, Mapping[str, str]]:
    try:
        return {one.key: one.inputs for one in night.decisions() if one.inputs}
    except (StorageError, KeyError, TypeError):
        return {}
