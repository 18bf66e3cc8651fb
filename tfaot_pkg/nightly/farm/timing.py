"""Turns on a machine that is kept for them: a coordinator asks in the store, timing workers answer.

cell `turns-ID`        Wanted   the coordinator's: two libraries, which are blobs, and what of them is timed
cell `turns-lease-ID`  a worker's word that it times them; dropped by the coordinator if no answer comes
cell `turns-done-ID`   Timed    the answer, signed by its worker

Only keys that the definition names (`timing`) count: times cannot be checked afterwards, so who measures them matters.
A worker times one pair at a time, on a core of its own (verify/turns.py), and builds nothing.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import NetworkError, TfaotError
from tfaot_pkg.ground.documents import read, read_json, write
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.nightly.farm.identity import Identity, is_of, opened
from tfaot_pkg.nightly.farm.messages import POLL_SECONDS
from tfaot_pkg.nightly.farm.store import Store, fetch, put
from tfaot_pkg.nightly.farm.tool import described, tool_digest
from tfaot_pkg.verify.turns import Turns, Unit

WANTED, LEASE, DONE = "turns-for-", "turns-lease-", "turns-done-"

LONGEST = 900.0
"""Seconds after which an answer is not waited for any more: turns of a library with many batch sizes take minutes."""
_MOST_LIBRARY = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Turns of two libraries, the digests of blobs; `units` are what is timed. `tool` is the code that asks."""

    tool: str
    version: str
    before: str
    after: str
    units: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """The answer of `worker` to `id`: `turns`, or the `error` why there are none."""

    id: str
    worker: str
    turns: Turns | None = None
    error: str = ""


@dataclass(kw_only=True)
class TimingWorkers:
    """Takes turns by the workers of `store` with these `keys`; waits `wait` seconds for one that begins."""

    store: Store
    keys: Sequence[str]
    wait: float
    poll: float = POLL_SECONDS
    longest: float = LONGEST
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _absent: str = field(default="", init=False)

    def __call__(self, before: Path, after: Path, units: Sequence[Unit]) -> Turns:
        """Raises NetworkError if no worker answers; then the next calls do at once. TfaotError if it could not."""
        if self._absent:
            raise NetworkError(self._absent)
        id_ = secrets.token_hex(8)
        blobs = [put(self.store, library) for library in (before, after)]
        wanted = Wanted(tool=tool_digest(), version=__version__, before=blobs[0], after=blobs[1], units=tuple(units))
        try:
            self.store.create(f"{WANTED}{id_}", write(wanted))
            return self._answer(id_, units)
        finally:
            for prefix in (WANTED, LEASE, DONE):
                self.store.remove(f"{prefix}{id_}")
            for digest in set(blobs):
                self.store.drop(digest)

    def _answer(self, id_: str, units: Sequence[Unit]) -> Turns:
        begun = self.clock()
        while True:
            if (timed := self._read(id_)) is not None:
                if timed.turns is None:
                    raise TfaotError(f"the timing worker {timed.worker} could not: {timed.error}")
                if [(each.target, each.batch_size) for each in timed.turns.speeds] != [*units]:
                    raise TfaotError(f"the timing worker {timed.worker} timed something else")
                return timed.turns
            has_begun = self._has_begun(id_)
            if self.clock() - begun > (self.longest if has_begun else self.wait):
                if has_begun:
                    raise NetworkError("a timing worker began, and did not answer")
                self._absent = f"no timing worker came in {self.wait:g} s (timing in the definition)"
                raise NetworkError(self._absent)
            self.sleep(self.poll)

    def _has_begun(self, id_: str) -> bool:
        """Whether a worker with one of the keys, by its own word, is at it; the word of others is removed."""
        cell = self.store.read(f"{LEASE}{id_}")
        if cell is None or is_of(cell.data.decode("utf-8", "replace"), self.keys):
            return cell is not None
        self.store.remove(f"{LEASE}{id_}")
        return False

    def _read(self, id_: str) -> Timed | None:
        """The answer, if a worker with one of the keys gave it."""
        cell = self.store.read(f"{DONE}{id_}")
        if cell is None:
            return None
        try:
            timed = opened(cell.data, Timed, lambda one: one.worker)
            if timed.id == id_ and is_of(timed.worker, self.keys):
                return timed
        except ValueError:
            pass
        # Somebody else's, in the place of the answer.
        self.store.remove(f"{DONE}{id_}")
        return None


@dataclass(kw_only=True)
class TimingWorker:
    """Takes turns that nights want in `store`, until there was nothing for `idle` seconds. `times` measures."""

    store: Store
    identity: Identity
    times: Callable[[Path, Path, Sequence[Unit]], Turns]
    idle: float
    note: Callable[[str], None] = lambda _: None
    poll: float = POLL_SECONDS
    clock: Callable[[], float] = time.monotonic

    def run(self) -> int:
        """Returns how many pairs were timed. Raises StorageError, NetworkError (no store for too long)."""
        last, count = self.clock(), 0
        while self.clock() - last <= self.idle:
            try:
                if self._time_one():
                    last, count = self.clock(), count + 1
                    continue
            except NetworkError as error:
                self.note(error.message)
            time.sleep(self.poll * random.uniform(0.75, 1.25))  # noqa: S311 (not for secrets)
        self.note(f"there was nothing to time for {self.idle:g} s")
        return count

    def _time_one(self) -> bool:
        for name in self.store.cells():
            id_ = name.removeprefix(WANTED)
            if id_ == name or (wanted := self._wanted(name)) is None:
                continue
            if self.store.create(f"{LEASE}{id_}", self.identity.name.encode()) is None:
                continue
            # The coordinator may have its answer, or have given up, since that was read.
            is_wanted = self.store.read(name) is not None
            if is_wanted:
                sealed = self.identity.seal(self._timed(id_, wanted))
                # Again, if somebody else wrote there: the coordinator removes that.
                while self.store.create(f"{DONE}{id_}", sealed) is None and self.store.read(name) is not None:
                    time.sleep(self.poll)
            # Nobody removes what is written after the coordinator has removed all: then the worker does.
            if self.store.read(name) is None:
                self.store.remove(f"{DONE}{id_}")
                self.store.remove(f"{LEASE}{id_}")
            if is_wanted:
                return True
        return False

    def _wanted(self, name: str) -> Wanted | None:
        """What is wanted; None if it is gone, damaged, or of another version."""
        cell = self.store.read(name)
        if cell is None:
            return None
        try:
            said = read_json(cell.data)
            if said["tool"] != tool_digest():
                version, tool = str(said["version"]), str(said["tool"])
                self.note(f"the night needs {described(version, tool)}: install that version")
                return None
            return read(Wanted, cell.data, name, error=TfaotError, hint="the coordinator wrote it")
        except (ValueError, TypeError, KeyError, TfaotError) as error:
            self.note(f"{name} is damaged: {error}")
            return None

    def _timed(self, id_: str, wanted: Wanted) -> Timed:
        try:
            with temporary_folder(prefix="tfaot-timing-") as scratch:
                pair = (scratch / "before.so", scratch / "after.so")
                for digest, place in zip((wanted.before, wanted.after), pair, strict=True):
                    fetch(self.store, digest, place, _MOST_LIBRARY)
                self.note(f"turns of {len(wanted.units)} targets and batch sizes")
                return Timed(id=id_, worker=self.identity.name, turns=self.times(*pair, wanted.units))
        except (TfaotError, OSError) as error:
            return Timed(id=id_, worker=self.identity.name, error=str(error))
