"""A pull worker: takes leases of builds, and leaves results. It shares nothing with the coordinator but the store.

It needs no trust: whatever it writes is checked (collect.py, recheck.py). It ends when there was nothing to do for a
while, when no further build fits into its time, and on a signal; then it gives back the lease that it holds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import NetworkError, StorageError, TfaotError, TrustError
from tfaot_pkg.ground.documents import read, read_json, write
from tfaot_pkg.ground.process import kill_running
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import end_of_file
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.nightly.farm.agreement import builder_of
from tfaot_pkg.nightly.farm.bundle import SOURCE, SPEC, require_inner, unbundle
from tfaot_pkg.nightly.farm.identity import Identity
from tfaot_pkg.nightly.farm.messages import (
    FARM,
    LEASE,
    POLL_SECONDS,
    WORKER,
    Farm,
    Job,
    Lease,
    Offer,
    Presence,
    Told,
)
from tfaot_pkg.nightly.farm.store import Store, get, put
from tfaot_pkg.nightly.farm.tool import described, tool_digest
from tfaot_pkg.nightly.hosts import BuildHosts
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.supervise import perform

_RENEWALS = 4
"""Renewals in the time of a lease: three may be lost."""
_MOST_JOB = 64 << 20
_DRAIN = 120.0
"""Seconds that are kept free before the end of a worker's time, to put the last result."""
_HINT = "the coordinator wrote it"


class OtherVersion(TfaotError):
    """The night needs workers with other code."""


@dataclass(kw_only=True)
class Worker:
    """Builds what the farm in `store` offers, until there was nothing for `idle` seconds.

    `walltime` is how long it may run, in seconds, None if that does not matter. `folders` are this machine's own;
    `prepare` makes the toolchain of a TensorFlow release in them. `program` builds in place of build_task.py.
    """

    store: Store
    identity: Identity
    folders: Folders
    idle: float
    prepare: Callable[[str], object]
    walltime: float | None = None
    note: Callable[[str], None] = lambda _: None
    program: tuple[str, ...] = ()
    poll: float = POLL_SECONDS
    clock: Callable[[], float] = time.monotonic

    _hosts: BuildHosts = field(init=False, default_factory=BuildHosts)

    def run(self) -> int:
        """Returns the number of results. Raises OtherVersion, StorageError, NetworkError (no store for too long)."""
        with self._hosts:
            return self._run()

    def _run(self) -> int:
        presence = _Presence(self.store, self.identity)
        begun, results = self.clock(), 0
        last = begun
        while True:
            try:
                presence.show()
                farm = self._farm()
                if farm is not None and not self._has_time(farm, begun):
                    self.note("no build fits into the time that is left")
                    return results
                lease = self._take(farm) if farm is not None else None
                if farm is not None and lease is not None:
                    results += self._perform(*lease, farm, presence)
                    last = self.clock()
                    continue
            except NetworkError as error:
                if self.clock() - last > self.idle:
                    raise
                self.note(error.message)
            if self.clock() - last > self.idle:
                self.note(f"there was nothing to build for {self.idle:g} s")
                return results
            time.sleep(self.poll * random.uniform(0.75, 1.25))  # noqa: S311 (not for secrets)

    def _farm(self) -> Farm | None:
        """What the night wants; None if there is none. Raises OtherVersion."""
        cell = self.store.read(FARM)
        if cell is None:
            return None
        # Before the rest, which another version may write in another form.
        try:
            wanted: Any = read_json(cell.data)
            tool, version = str(wanted["tool"]), str(wanted["version"])
        except (ValueError, TypeError, KeyError) as error:
            raise StorageError(f"the farm in {self.store.url} is damaged: {error}", hint=_HINT) from error
        if tool != tool_digest():
            raise OtherVersion(
                f"the night needs {described(version, tool)}, this worker is {described(__version__, tool_digest())}",
                hint="install the coordinator's version",
            )
        return read(Farm, cell.data, f"the farm in {self.store.url}", error=StorageError, hint=_HINT)

    def _has_time(self, farm: Farm, begun: float) -> bool:
        return self.walltime is None or self.clock() - begun + farm.timeout + _DRAIN <= self.walltime

    def _take(self, farm: Farm) -> tuple[Offer, str] | None:
        """An offer, with the tag of our lease of it; None if there is none for us."""
        name = self.identity.name
        if name in farm.suspended:
            return None
        offers = [one for one in farm.offers if not {name, builder_of(name)} & set(one.avoid)]
        # Not all workers after the same one.
        random.shuffle(offers)
        for offer in offers:
            tag = self.store.create(f"{LEASE}{offer.id}", self._lease(offer, 0))
            if tag is not None:
                return offer, tag
        return None

    def _lease(self, offer: Offer, count: int, **fields: Any) -> bytes:
        return self.identity.seal(Lease(offer=offer.id, worker=self.identity.name, count=count, **fields))

    def _perform(self, offer: Offer, tag: str, farm: Farm, presence: _Presence) -> bool:
        """Build an offer. Returns whether its result was taken: it is not if the lease was lost meanwhile."""
        renewal = _Renewal(
            self.store, f"{LEASE}{offer.id}", tag, lambda count: self._lease(offer, count), presence,
            interval=farm.lease / _RENEWALS,
        )  # fmt: skip
        try:
            with renewal, temporary_folder(prefix="tfaot-worker-") as scratch:
                told = self._built(offer, scratch)
                result = put(self.store, told)
        except BaseException as error:
            if renewal.end(self._lease(offer, renewal.count + 1, state="returned")):
                self.note(f"gave back {offer.id}")
            if isinstance(error, NetworkError):
                return False
            raise
        if renewal.end(self._lease(offer, renewal.count + 1, state="done", result=result)):
            return True
        self.note(f"lost the lease of {offer.id}: another worker builds it")
        return False

    def _built(self, offer: Offer, scratch: Path) -> bytes:
        """Perform the offer; returns the document about its end, whose blobs are in the store."""
        start, log = self.clock(), scratch / "log"
        log.touch()
        request: Request | None = None
        try:
            request = self._request(offer, scratch, log)
            self.note(f"{request.decision.task.id}: build of {request.decision.release}")
            if version := request.decision.task.tensorflow:
                self.prepare(version)
            attempt = perform(request, self._hosts)
        except (TfaotError, OSError) as error:
            if isinstance(error, NetworkError) and request is None:
                raise  # the store: nobody could be told
            attempt = Attempt(
                kind="infrastructure failed", night="", seconds=self.clock() - start, error=str(error),
                error_class="the machine failed",
            )  # fmt: skip
        line = self._upload(request) if request is not None and attempt.kind == "verified" else ""
        text = end_of_file(log).encode()
        told = Told(
            offer=offer.id, kind=attempt.kind, seconds=attempt.seconds, memory=attempt.memory, error=attempt.error,
            error_class=attempt.error_class, figures=attempt.figures, builder=attempt.builder, line=line,
            log=put(self.store, text) if text else "",
        )  # fmt: skip
        return write(told)

    def _request(self, offer: Offer, scratch: Path, log: Path) -> Request:
        """The request of `offer`, with the files of its model in `scratch`."""
        data = get(self.store, offer.request, _MOST_JOB)
        job = read(Job, data, "the request", error=StorageError, hint=_HINT)
        folder = scratch / "bundle"
        folder.mkdir()
        unbundle(self.store, job, folder)
        name = job.decision.task.spec.name
        task = replace(job.decision.task, spec=folder / SPEC / name, origin=None)
        return Request(
            decision=replace(job.decision, task=task), night=job.night, state=scratch / "state", log=log,
            cache=self.folders.cache, policy=job.policy, program=self.program, source=folder / SOURCE,
            data={key: folder / require_inner(path) for key, path in job.data.items()},
        )  # fmt: skip

    def _upload(self, request: Request) -> str:
        """Put the parts of a verified package; returns its index line."""
        release = Results(root=request.state).release(request.decision.key)
        for role, blob in release.entry.blobs.items():
            found = put(self.store, release.blobs[role])
            if found != blob.sha256:
                raise TrustError(f"the {role} that was built is not the one in its index line")
        return release.entry.line().decode()


class _Presence:
    """The cell that says that a worker is there."""

    def __init__(self, store: Store, identity: Identity) -> None:
        self._store, self._identity = store, identity
        self._count, self._tag = 0, ""

    def show(self) -> None:
        self._count += 1
        data = self._identity.seal(Presence(tool=tool_digest(), version=__version__, count=self._count))
        name = f"{WORKER}{self._identity.name}"
        tag = self._store.replace(name, data, self._tag) if self._tag else self._store.create(name, data)
        self._tag = tag or ""  # removed, at the end of a night: made again the next time


class _Renewal:
    """Renews a lease in a thread of its own while the block runs. If it is lost, builds are killed."""

    def __init__(
        self, store: Store, name: str, tag: str, seal: Callable[[int], bytes], presence: _Presence, *, interval: float
    ) -> None:
        self._store, self._name, self._tag, self._seal = store, name, tag, seal
        self._presence, self._interval = presence, interval
        self._ended, self._is_lost = Event(), False
        self._thread = Thread(target=self._renew, name="renew", daemon=True)
        self.count = 0

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def end(self, data: bytes) -> bool:
        """Write the last state of the lease. Returns whether it was still ours."""
        with suppress(NetworkError):
            return not self._is_lost and self._store.replace(self._name, data, self._tag) is not None
        return False

    def _renew(self) -> None:
        while not self._ended.wait(self._interval):
            try:
                self._presence.show()
                tag = self._store.replace(self._name, self._seal(self.count + 1), self._tag)
            except TfaotError:
                continue  # the next time; the coordinator waits for some
            if tag is None:
                self._is_lost = True
                self._kill()
                return
            self._tag, self.count = tag, self.count + 1

    def _kill(self) -> None:
        """Until the block ends: between two of its programs there is nothing to kill."""
        while not self._ended.is_set():
            kill_running()
            self._ended.wait(1.0)
