"""`nightly prune`: remove from the state folder what no later night, report or plan needs.

The last nights stay whole, with their results; the history stays forever. Of a night that is removed, the inputs of the
registry's newest packages are kept (`keep_inputs`), because plans explain the next change by them. The lock is
held, so no night runs meanwhile; the next call removes what a killed one left.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.storage import remove_folder, storage_errors
from tfaot_pkg.ground.walk import entries_below
from tfaot_pkg.nightly.results import FAILED
from tfaot_pkg.nightly.state import NightFolder, State, keep_inputs
from tfaot_pkg.nightly.types import TO_BUILD, toolchain_in
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import RegistryReader

_LEFT = ".*.part"
"""A folder that was being made or removed when its process was killed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed, or would be: nights by name, results by key, and their size in bytes; `kept` are the remaining
    nights, the oldest first.
    """

    nights: tuple[str, ...]
    results: tuple[str, ...]
    kept: tuple[str, ...]
    size: int
    dry_run: bool


def prune(state: State, keep: int, registry: RegistryReader | None, *, dry_run: bool = False) -> Pruned:
    """Remove all nights except the last `keep` (at least 1) that are over and one that was cut off after them; and the
    results of builds that no remaining night asked for.

    `registry` is the one into which the nights publish, None if there is none yet. A dry run is possible while a night
    runs. Raises StorageError (a night runs, a plan is damaged, disk), RegistryError, TrustError; nothing is removed
    before everything was read.
    """
    # The lock's file would make a folder that does not exist; a dry run must not wait for a night that runs.
    with nullcontext() if dry_run or not state.root.exists() else state.lock():
        nights = state.nights()
        kept = _kept(nights, keep)
        gone = [one for one in nights if one not in kept]
        wanted = {one.key for night in kept for one in night.decisions() if one.action in TO_BUILD}
        results = [path for path in _results(state) if _key(path) not in wanted]
        published = _newest_keys(registry) if registry is not None else None
        with storage_errors(f"read {state.root}"):
            left = list(_left_over(state))
            size = sum(map(_size, (*(one.folder for one in gone), *results, *left)))
        if not dry_run:
            # Before the nights go: after a kill in between, the inputs are in both places.
            keep_inputs(state, gone, published)
            for path in (*(one.folder for one in gone), *results, *left):
                _remove(path)
            for folder in state.root.glob("results/??"):
                with suppress(OSError):  # not empty
                    folder.rmdir()
        return Pruned(
            nights=tuple(one.name for one in gone),
            results=tuple(sorted({_key(one) for one in results})),
            kept=tuple(one.name for one in kept),
            size=size,
            dry_run=dry_run,
        )


def _kept(nights: Sequence[NightFolder], keep: int) -> Sequence[NightFolder]:
    """The nights that stay. A last night that was cut off stays too, because the next run resumes it."""
    cut_off = len(nights) > 0 and not nights[-1].is_over
    return nights[-(keep + cut_off) :]


def _results(state: State) -> Iterator[Path]:
    return (path for path in sorted(state.root.glob("results/??/*")) if not path.name.startswith("."))


def _key(result: Path) -> str:
    return result.name.removesuffix(FAILED)


def _left_over(state: State) -> Iterator[Path]:
    yield from state.root.glob(f"nights/{_LEFT}")
    yield from state.root.glob(f"results/??/{_LEFT}")


def _newest_keys(registry: RegistryReader) -> frozenset[Key]:
    """The keys that a plan compares with: the highest build number of each version for each toolchain."""
    newest: dict[tuple[str, str], RegistryEntry] = {}
    for name in registry.names():
        for entry in sorted(registry.entries(name), key=lambda one: one.rank):
            if toolchain_in(entry.version):
                newest[name, entry.version.rpartition(".b")[0]] = entry
    return frozenset(entry.key for entry in newest.values())


def _size(path: Path) -> int:
    """Bytes of a file, or of those in a folder."""
    if not path.is_dir():
        return path.lstat().st_size
    return sum(one.stat(follow_symlinks=False).st_size for one in entries_below(path) if not one.is_dir())


def _remove(path: Path) -> None:
    """Remove it in one step for readers: they see all of it or nothing."""
    with storage_errors(f"remove {path}"):
        if not path.is_dir():
            path.unlink()
            return
        if path.name.startswith("."):  # hidden already
            shutil.rmtree(path)
        else:
            remove_folder(path)
