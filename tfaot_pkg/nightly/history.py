"""The builds of all nights, and how they compare with what was published before: `history.sqlite` of the state folder.

A database, because a year of nights of 500 models has 180,000 builds, of which a report needs a few for each model.
Only the coordinator writes it, while it holds the lock of the state folder. Nights come in the order of their
sequence numbers, not of their dates (state.py).

Versions before 0.3 kept lines of JSON. The first call reads them into the database, and removes them.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.documents import convert, read, write
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.nightly.lines import damaged_line, read_lines
from tfaot_pkg.nightly.types import MODEL_FAULTS, Comparison, Figures, Outcome, OutcomeKind

NIGHT = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})\.([0-9]{1,4})")
"""The name of a night: its day, and its number among that day's."""

MOST_NIGHTS = 10**6
_SCHEMA = """
CREATE TABLE builds (
    model TEXT, toolchain TEXT, place INTEGER, task TEXT, night TEXT, kind TEXT, release TEXT, key TEXT,
    PRIMARY KEY (model, toolchain, place, task)
) WITHOUT ROWID;
CREATE INDEX withheld ON builds (place, toolchain) WHERE kind = 'withheld';
CREATE TABLE figures (
    model TEXT, toolchain TEXT, place INTEGER, task TEXT, night TEXT, release TEXT, key TEXT, figures TEXT,
    PRIMARY KEY (model, toolchain, place, task)
) WITHOUT ROWID;
CREATE TABLE comparisons (
    night TEXT, task TEXT, key TEXT, cpu TEXT, time TEXT, document TEXT, PRIMARY KEY (night, task)
) WITHOUT ROWID;
PRAGMA user_version = 1;
"""
_WORKING = """
SELECT model, toolchain, kind, max(place) FROM builds AS one
WHERE kind IN ({said}) AND NOT EXISTS (
    SELECT 1 FROM builds AS other
    WHERE other.kind = 'withheld' AND other.place = one.place AND other.toolchain = one.toolchain
)
GROUP BY model, toolchain
"""
_SAID = (*sorted(MODEL_FAULTS), "published", "upload failed")
_OLD = ("history.jsonl", "history-*.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """A build of an earlier night, as much of its outcome as is kept."""

    night: str
    task: str
    model: str
    toolchain: str
    kind: OutcomeKind
    release: str
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The figures of a build."""

    night: str
    release: str
    key: str
    figures: Figures


def place_of(sequence: int, night: str) -> int:
    """A number by which nights are sorted: by `sequence` (0 for those from before there was one), then by name."""
    found = NIGHT.fullmatch(night)
    if found is None or type(sequence) is not int or not 0 <= sequence < MOST_NIGHTS:
        raise ValueError(f"{night} is no night, or has the number {str(sequence)[:20]}")
    return (sequence * 10**8 + int(found[1].replace("-", ""))) * 10**4 + int(found[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The history in the state folder `root`. Methods raise StorageError, also for a damaged one."""

    root: Path

    def add(self, night: str, sequence: int, outcomes: Iterable[Outcome]) -> None:
        """Record the builds of `night` that are not recorded yet."""
        place = place_of(sequence, night)
        with self._open(write=True) as base, base:
            _insert(base, place, night, outcomes)

    def builds(self, *, before: int | None = None) -> Iterator[Built]:
        """Every build of every night, or of those with a lower place; the first night first."""
        query = (
            "SELECT night, task, model, toolchain, kind, release, key FROM builds WHERE place < ? ORDER BY place, task"
        )
        with self._open() as base:
            for row in base.execute(query, (_end(before),)):
                yield _built(*row)

    def of(self, model: str, toolchain: str, *, before: int) -> list[tuple[str, str, OutcomeKind]]:
        """Night, task and kind of the builds of a model, the oldest first."""
        query = "SELECT night, task, kind FROM builds WHERE model = ? AND toolchain = ? AND place < ? ORDER BY place"
        with self._open() as base:
            return base.execute(query, (model, toolchain, before)).fetchall()

    def measured(self, model: str, toolchain: str, *, task: str = "", before: int, most: int) -> list[Measured]:
        """The last figures of a model (or one `task` of it), at most `most`, the oldest first.

        Each result once, however many nights used it: the first one measured it.
        """
        query = (
            "SELECT night, release, key, figures, min(place) AS first FROM figures "
            "WHERE model = ? AND toolchain = ? AND place < ? AND (task = ? OR ? = '') "
            "GROUP BY key ORDER BY first DESC LIMIT ?"
        )
        with self._open() as base:
            rows = base.execute(query, (model, toolchain, before, task, task, most)).fetchall()
        return [
            Measured(night=night, release=release, key=key, figures=self._document(Figures, text))
            for night, release, key, text, _ in reversed(rows)
        ]

    def last(self) -> dict[tuple[str, str], Figures]:
        """The last figures of each model and toolchain."""
        query = "SELECT model, toolchain, figures, max(place) FROM figures GROUP BY model, toolchain"
        with self._open() as base:
            rows = base.execute(query).fetchall()
        return {(model, toolchain): self._document(Figures, text) for model, toolchain, text, _ in rows}

    def working(self) -> frozenset[tuple[str, str]]:
        """(model, toolchain) of the tasks that succeeded when they were tried last.

        What a night withheld does not count: its failures stay new until they are fixed or a night publishes despite
        them. Faults of machines and of other models say nothing.
        """
        with self._open() as base:
            rows = base.execute(_WORKING.format(said=", ".join("?" * len(_SAID))), _SAID).fetchall()
        return frozenset((model, toolchain) for model, toolchain, kind, _ in rows if kind not in MODEL_FAULTS)

    def compare(self, night: str, comparison: Comparison) -> None:
        """Record how a build of `night` compares; an earlier record of the same task is replaced."""
        cpu = comparison.turns.cpu.id if comparison.turns is not None else ""
        row = (night, comparison.task, comparison.key, cpu, comparison.time, write(comparison).decode())
        with self._open(write=True) as base, base:
            base.execute("INSERT OR REPLACE INTO comparisons VALUES (?, ?, ?, ?, ?, ?)", row)

    def comparisons(self, night: str) -> dict[str, Comparison]:
        """Those of `night`, by task."""
        with self._open() as base:
            rows = base.execute("SELECT task, document FROM comparisons WHERE night = ?", (night,)).fetchall()
        return {task: self._document(Comparison, text) for task, text in rows}

    def timed(self, cpu: str) -> dict[str, str]:
        """When the packages with these keys were timed last on `cpu` ("": on any), in UTC."""
        query = "SELECT key, max(time) FROM comparisons WHERE cpu != '' AND (cpu = ? OR ? = '') GROUP BY key"
        with self._open() as base:
            return dict(base.execute(query, (cpu, cpu)).fetchall())

    @property
    def path(self) -> Path:
        return self.root / "history.sqlite"

    def _document(self, kind: type[Any], text: str) -> Any:
        return read(kind, text, str(self.path), error=StorageError, hint=self._hint)

    @property
    def _hint(self) -> str:
        return f"move {self.path.name} away: nights begin a new one, without the trends and first failures in this one"

    @contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """An open database; an empty one in memory if there is none, and nothing is written."""
        with storage_errors(f"write {self.path}"):
            self._migrate()
            if write:
                self.root.mkdir(parents=True, exist_ok=True)
        place = str(self.path) if write or self.path.exists() else ":memory:"
        try:
            with closing(sqlite3.connect(place)) as base:
                # Builders can write into the state folder: views and triggers in it must do nothing.
                base.execute("PRAGMA trusted_schema = OFF")
                _prepare(base)
                yield base
        except (sqlite3.Error, ValueError) as error:
            raise StorageError(f"{self.path} is damaged, or cannot be used: {error}", hint=self._hint) from error

    def _migrate(self) -> None:
        """Read the files of earlier versions once; a kill in between leaves them as they were."""
        old = sorted(path for pattern in _OLD for path in self.root.glob(pattern))
        if not old or self.path.exists():
            return
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}.part")
        try:
            with closing(sqlite3.connect(part)) as base, base:
                _prepare(base)
                for path in old:
                    for number, line in read_lines(path):
                        _insert_line(base, path, number, line)
            os.replace(part, self.path)
        finally:
            part.unlink(missing_ok=True)
        for path in old:
            path.unlink()


def _prepare(base: sqlite3.Connection) -> None:
    (version,) = base.execute("PRAGMA user_version").fetchone()
    if version == 0:
        base.executescript(_SCHEMA)
    elif version != 1:
        raise ValueError("a newer version of tfaot-pkg wrote it")


def _insert(base: sqlite3.Connection, place: int, night: str, outcomes: Iterable[Outcome]) -> None:
    # A night that was killed before `night.json` comes here twice.
    for one in outcomes:
        row = (one.model, one.toolchain, place, one.task, night, one.kind, one.release, one.key)
        base.execute("INSERT OR IGNORE INTO builds VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        if one.figures is not None:
            figures = (*row[:5], one.release, one.key, write(one.figures).decode())
            base.execute("INSERT OR IGNORE INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?)", figures)


def _insert_line(base: sqlite3.Connection, path: Path, number: int, line: dict[str, Any]) -> None:
    try:
        night = str(line["night"])
        _insert(base, place_of(line.get("sequence", 0), night), night, [convert(Outcome, line)])
    except (ValueError, KeyError, TypeError) as error:
        raise damaged_line(path, number, str(error)) from error


def _built(night: str, task: str, model: str, toolchain: str, kind: OutcomeKind, release: str, key: str) -> Built:
    return Built(night=night, task=task, model=model, toolchain=toolchain, kind=kind, release=release, key=key)


def _end(before: int | None) -> int:
    return before if before is not None else 2**63 - 1
