"""`nightly prune`: take out of the state folder what no later night, report or plan asks for.

The last nights stay whole, with what was built in them; the history stays for good. Of a night that goes, what the
newest packages of the registry were made from is kept (`keep_inputs`): plans explain the next change by it. The lock is
held, so no night runs meanwhile; a kill in between leaves what the next call takes away.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.keys import Key
from tfaot_pkg.nightly.results import FAILED
from tfaot_pkg.nightly.state import NightFolder, State, keep_inputs
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import RegistryReader
from tfaot_pkg.storage import remove_folder, storage_errors
from tfaot_pkg.walk import entries_below

_BUILD = re.compile(r"(?P<release>.+\+tf.+)\.b[1-9][0-9]*")
_LEFT = ".*.part"
"""What a kill leaves of a folder that was being made or removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed, or would be: nights by name, results by key, and their size in bytes; `kept` are the nights
    that stay, the oldest first.
    """

    nights: tuple[str, ...]
    results: tuple[str, ...]
    kept: tuple[str, ...]
    size: int
    dry_run: bool


def prune(state: State, keep: int, registry: RegistryReader | None, *, dry_run: bool = False) -> Pruned:
    """Remove all nights but the last `keep` (at least 1) that are over, and one that was cut off after them; and the
    results of builds that no night which stays has asked for.

    `registry` is the one that the nights publish into, None where there is none yet. A dry run may be made beside a
    night that runs. Raises StorageError (a night runs, a plan is damaged, disk), RegistryError, TrustError; nothing is
    removed before everything was read.
    """
    with nullcontext() if dry_run or not state.root.exists() else state.lock():
        nights = state.nights()
        kept = _kept(nights, keep)
        gone = [one for one in nights if one not in kept]
        wanted = {one.key for night in kept for one in night.decisions() if one.action == "build"}
        results = [path for path in _results(state) if _key(path) not in wanted]
        published = _newest_keys(registry) if registry is not None else None
        with storage_errors(f"read {state.root}"):
            left = list(_left_over(state))
            size = sum(map(_size, (*(one.folder for one in gone), *results, *left)))
        if not dry_run:
            keep_inputs(state, gone, published)
            for path in (*(one.folder for one in gone), *results, *left):
                _remove(path)
            for folder in state.root.glob("results/??"):
                with suppress(OSError):  # it has others
                    folder.rmdir()
        return Pruned(
            nights=tuple(one.name for one in gone),
            results=tuple(sorted({_key(one) for one in results})),
            kept=tuple(one.name for one in kept),
            size=size,
            dry_run=dry_run,
        )


def _kept(nights: Sequence[NightFolder], keep: int) -> Sequence[NightFolder]:
    """Pure but for looking whether a night is over. The last one stays in any case: the next run takes it up."""
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
    """The keys with which a plan compares: of the highest build number of each version for each toolchain."""
    newest: dict[tuple[str, str], RegistryEntry] = {}
    for name in registry.names():
        for entry in sorted(registry.entries(name), key=lambda one: one.rank):
            if found := _BUILD.fullmatch(entry.version):
                newest[name, found["release"]] = entry
    return frozenset(entry.key for entry in newest.values())


def _size(path: Path) -> int:
    """Bytes of a file, or of those in a folder."""
    if not path.is_dir():
        return path.lstat().st_size
    return sum(one.stat(follow_symlinks=False).st_size for one in entries_below(path) if not one.is_dir())


def _remove(path: Path) -> None:
    """Readers see it whole or not at all."""
    with storage_errors(f"remove {path}"):
        if not path.is_dir():
            path.unlink()
            return
        if path.name.startswith("."):  # hidden already
            shutil.rmtree(path)
        else:
            remove_folder(path)
