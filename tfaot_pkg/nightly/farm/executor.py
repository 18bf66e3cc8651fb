"""Builds by pull workers: the coordinator offers them in the store, workers take leases of them.

A lease is a cell that its worker writes again and again. The coordinator withdraws one that has not changed for a while
by its own clock, by writing over the cell that it saw last: either that write comes first, or the worker's next one. So
no two clocks are compared, and a worker that was frozen finds out when it writes the next time.

What a worker says of a model is not believed either: another one, if there is one, tries again what it failed. A worker
that failed three models that others built gets no more builds.

A try that ends in another way than by its worker's word (the lease is damaged, or of a worker that may not have it) is
offered again, under another name. After a kill the same names lead the next coordinator to builds that run or are done.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import SimpleQueue

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import NetworkError, StorageError, TfaotError
from tfaot_pkg.ground.documents import write
from tfaot_pkg.ground.keys import canonical_json, sha256_bytes
from tfaot_pkg.nightly.executors import Done, lost, next_of
from tfaot_pkg.nightly.farm.agreement import Agreement, builder_of
from tfaot_pkg.nightly.farm.bundle import Bundle
from tfaot_pkg.nightly.farm.collect import blobs_of, collect
from tfaot_pkg.nightly.farm.identity import is_of, opened
from tfaot_pkg.nightly.farm.messages import (
    FARM,
    LEASE,
    LEASE_SECONDS,
    POLL_SECONDS,
    WITHDRAWN,
    WORKER,
    Farm,
    Job,
    Lease,
    Offer,
    Presence,
)
from tfaot_pkg.nightly.farm.store import Store, put
from tfaot_pkg.nightly.farm.tool import described, tool_digest
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.standing import EXCLUDED_AFTER
from tfaot_pkg.nightly.types import Policy

_COLLECTORS = 4
_OFFERS_BEYOND = 4
"""Offers beyond two for each worker: those that come meanwhile find some, and thousands need not be written."""
_SHOWN = 5
_MOST_VOID = 50
"""Leases of one build that end without a word of its worker, before it fails."""
_MORE_TIME = 3600.0
"""Seconds that a worker may hold a lease beyond the time of a build: for its toolchain, and for transfers."""


@dataclass(kw_only=True)
class _Try:
    """A request on its way: `id` names the offer and the lease. `worker` holds it since `since`, if it is not "".

    `tag` is that of the lease that was seen last, at `changed`. `needs_other`: none of `avoid` may build it, even if
    there is no other worker.
    """

    request: Request
    avoid: frozenset[str]
    number: int
    needs_other: bool = False
    void: int = 0
    job: str = ""
    worker: str = ""
    tag: str = ""
    since: float = 0.0
    changed: float = 0.0
    id: str = field(init=False)

    def __post_init__(self) -> None:
        # The same for another coordinator of the same night.
        self.id = sha256_bytes(canonical_json([self.request.night, self.request.decision.key, self.number]))[:32]

    @property
    def cell(self) -> str:
        return f"{LEASE}{self.id}"


@dataclass(kw_only=True)
class _Worker:
    """A worker that was seen at the time `seen`, when its cell had the tag `tag`."""

    tag: str
    seen: float


@dataclass(kw_only=True)
class PullExecutor:
    """Builds by the workers of `store`. `bundle` gives the files of a build.

    `builders` are the public keys of the workers that may build; all may, if there are none. `lease` and `poll` are in
    seconds. Methods raise StorageError if another night uses the store, NetworkError if it cannot be reached, or has
    had no worker for `worker_wait` seconds; `note` gets a message when builds wait for one.
    """

    store: Store
    bundle: Callable[[Request], Bundle]
    policy: Policy = field(default_factory=Policy)
    builders: tuple[str, ...] = ()
    note: Callable[[str], None] = lambda _: None
    lease: float = LEASE_SECONDS
    poll: float = POLL_SECONDS
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.slots = 1
        self.description = f"by the workers of {self.store.url}"
        self._done: SimpleQueue[Done] = SimpleQueue()
        self._pool = ThreadPoolExecutor(_COLLECTORS, thread_name_prefix="collect")
        self._waiting: list[_Try] = []
        self._held: dict[str, _Try] = {}  # by task
        self._numbers: dict[str, int] = {}  # by task: the last number of a try
        self._workers: dict[str, _Worker] = {}
        self._refused: dict[str, str] = {}
        self._doubted: dict[str, Attempt] = {}  # by task: the first failure by the model's fault
        self._agreements: dict[str, Agreement] = {}  # by task
        self._wrong: dict[str, dict[str, None]] = {}  # by worker: tasks that it failed and others built
        self._suspended: frozenset[str] = frozenset()
        self._uploaded: set[str] = set()
        self._taken: deque[tuple[str, float]] = deque()  # leases whose results were taken, and when
        self._farm: tuple[bytes, str] | None = None  # as written, with its tag
        self._looked = float("-inf")
        self._alone_since: float | None = None
        self._is_closed = False

    def submit(self, request: Request, avoid: Collection[str] = ()) -> None:
        doubted = self._doubted.get(request.decision.task.id)
        kept = {*avoid, *([doubted.worker] if doubted is not None else [])}
        task, builders = request.decision.task.id, self.policy.builders
        if builders.needed > 1:
            known = Agreement(request=request, needed=builders.needed, most=builders.most)
            kept |= self._agreements.setdefault(task, known).builders
        others = bool(task in self._agreements and self._agreements[task].builders)
        again = _Try(request=request, avoid=frozenset(kept), number=self._next(request), needs_other=others)
        self._waiting.append(again)

    def suspend(self, workers: Collection[str]) -> None:
        self._suspended = frozenset(workers)

    def workers(self) -> Collection[str]:
        return self._workers.keys() - self._refused.keys()

    def refused(self) -> Mapping[str, str]:
        return self._refused

    def running(self) -> Sequence[str]:
        return list(self._held)

    def next(self, timeout: float | None) -> Done | None:
        end = self.clock() + timeout if timeout is not None else float("inf")
        while True:
            now = self.clock()
            if (due := self._looked + self.poll) <= now:
                self.look()
                continue
            ended = next_of(self._done, max(0.0, min(due, end) - now))
            if ended is not None:
                ended = self._judged(*ended)
            if ended is not None or self.clock() >= end:
                return ended

    def close(self) -> None:
        """Remove everything from the store: workers that cannot renew their leases stop building."""
        self._is_closed = True
        self._pool.shutdown(cancel_futures=True)
        try:
            for each in self._agreements.values():
                each.drop()
            for name in self.store.cells():
                self.store.remove(name)
            for digest in self.store.blobs():
                self.store.drop(digest)
        except TfaotError as error:  # the night's own end, or its error, says more
            self.note(f"what is left in {self.store.url} was not removed: {error.message}")

    def look(self) -> None:
        """See which workers there are and what became of the leases, and offer what waits."""
        cells, now = self.store.cells(), self.clock()
        if self._farm is not None and cells.get(FARM) != self._farm[1]:
            raise self._is_shared()
        self._see_workers(cells, now)
        for one in (*self._held.values(), *self._waiting):
            self._see_lease(one, cells.get(one.cell, ""), now)
        self._require_workers()
        self._give_up_alone()
        self._offer()
        self._remove_taken()
        # Of the end: a look may take long, and the store is not to be asked all the time.
        self._looked = self.clock()

    def _judged(self, request: Request, attempt: Attempt) -> Done | None:
        """The end of `request`; None if another worker has to confirm that it is the model's fault."""
        task, doubted = request.decision.task.id, self._doubted.pop(request.decision.task.id, None)
        if attempt.kind == "verified":
            if doubted is not None:
                self._contradict(doubted.worker, task, doubted.error_class or doubted.kind)
            return self._agreed(request, attempt)
        elif not attempt.is_final:
            if doubted is not None:  # the fault of a machine confirms nothing
                self._doubted[task] = doubted
        elif doubted is None and set(self.workers()) - self._suspended - {attempt.worker}:
            self._doubted[task] = attempt
            again = _Try(request=request, avoid=frozenset({attempt.worker}), number=self._next(request))
            self._waiting.insert(0, again)
            return None
        else:
            Results(root=request.state).put(request.decision.key, attempt)
        return request, attempt

    def _agreed(self, request: Request, attempt: Attempt) -> Done | None:
        """The end of a verified build; None if another builder has to make the same bytes."""
        task = request.decision.task.id
        agreement = self._agreements.get(task)
        if agreement is None:
            return request, attempt
        end, odd = agreement.add(attempt)
        for worker, files in odd.items():
            self._contradict(worker, task, f"other bytes of {', '.join(files[:_SHOWN])}")
        if end is None:
            number = self._next(request)
            again = _Try(request=request, avoid=frozenset(agreement.builders), number=number, needs_other=True)
            self._waiting.insert(0, again)
            return None
        del self._agreements[task]
        return request, end

    def _contradict(self, worker: str, task: str, why: str) -> None:
        wrong = self._wrong.setdefault(worker, {})
        wrong[task] = None
        self.note(f"the worker {worker} failed {task}, which others built: {why}")
        if len(wrong) >= EXCLUDED_AFTER:
            self._refused[worker] = f"it failed {', '.join(wrong)}, which others built"

    def _next(self, request: Request) -> int:
        task = request.decision.task.id
        self._numbers[task] = self._numbers.get(task, 0) + 1
        return self._numbers[task]

    def _see_workers(self, cells: Mapping[str, str], now: float) -> None:
        for cell, tag in cells.items():
            name = cell.removeprefix(WORKER)
            if not cell.startswith(WORKER) or name in self._refused:
                continue
            known = self._workers.get(name)
            if known is None:
                self._meet(name, tag, now)
            elif known.tag != tag:
                known.tag, known.seen = tag, now
        self._workers = {name: one for name, one in self._workers.items() if now - one.seen <= self.lease}
        self.slots = max(1, len(self._workers))

    def _meet(self, name: str, tag: str, now: float) -> None:
        cell = self.store.read(f"{WORKER}{name}")
        if cell is None:
            return
        try:
            presence = opened(cell.data, Presence, lambda _: name)
        except ValueError:
            return  # nobody can say whose it is
        if not self._is_builder(name):
            self._refused[name] = "its key is not among the builders of the definition"
            self.note(f"the worker {name} gets no builds: {self._refused[name]}")
        elif presence.tool != tool_digest():
            theirs, ours = described(presence.version, presence.tool), described(__version__, tool_digest())
            self._refused[name] = f"it is {theirs}, the night needs {ours}"
            self.note(f"the worker {name} gets no builds: {self._refused[name]}")
        else:
            self._workers[name] = _Worker(tag=tag, seen=now)

    def _is_builder(self, name: str) -> bool:
        return not self.builders or is_of(name, self.builders)

    def _see_lease(self, one: _Try, tag: str, now: float) -> None:
        if tag != one.tag:
            cell = self.store.read(one.cell)
            if cell is not None:
                self._read_lease(one, cell.data, cell.tag, now)
            elif one.worker:
                self._again(one)  # somebody removed it
        elif one.worker and now - one.changed > self.lease:
            self._withdraw(one, f"it gave no sign of life for {self.lease:g} s")
        elif one.worker and now - one.since > self.policy.timeout + _MORE_TIME:
            self._withdraw(one, f"it held the build for more than {self.policy.timeout + _MORE_TIME:g} s")

    def _read_lease(self, one: _Try, data: bytes, tag: str, now: float) -> None:
        lease = _lease_in(data, one)
        if lease is None or not self._may_hold(one, lease.worker) or lease.state == "returned":
            # If its worker writes at this moment, the next look finds that.
            if data == WITHDRAWN or self.store.replace(one.cell, WITHDRAWN, tag) is not None:
                self._again(one)
            return
        self._take_from_waiting(one, lease.worker, now)
        one.tag, one.changed = tag, now
        if lease.state == "done":
            del self._held[one.request.decision.task.id]
            self._pool.submit(self._collect, one, lease)

    def _take_from_waiting(self, one: _Try, worker: str, now: float) -> None:
        if not one.worker:
            self._waiting.remove(one)
            self._held[one.request.decision.task.id] = one
            one.worker, one.since = worker, now

    def _may_hold(self, one: _Try, worker: str) -> bool:
        """Whether the lease of `one` may be of `worker`: one holds it to its end, and some may not begin."""
        if one.worker:
            return worker == one.worker
        return (
            self._is_builder(worker)
            and worker not in self._refused
            and not {worker, builder_of(worker)} & self._kept_from(one)
            and worker not in self._suspended
        )

    def _kept_from(self, one: _Try) -> frozenset[str]:
        """The workers that do not get it: none, if there is no other one."""
        others = [name for name in self._workers if not {name, builder_of(name)} & one.avoid]
        return one.avoid if one.needs_other or set(others) - self._suspended else frozenset()

    def _again(self, one: _Try) -> None:
        """Offer it once more: nothing was said about it."""
        self._leave(one)
        if one.void >= _MOST_VOID:
            self._done.put((one.request, lost(one.request, StorageError(f"{_MOST_VOID} leases came to nothing"))))
            return
        again = _Try(
            request=one.request,
            avoid=one.avoid,
            number=self._next(one.request),
            void=one.void + 1,
            job=one.job,
            needs_other=one.needs_other,
        )
        self._waiting.insert(0, again)

    def _withdraw(self, one: _Try, why: str) -> None:
        if self.store.replace(one.cell, WITHDRAWN, one.tag) is None:
            return  # it has given one meanwhile
        self._leave(one)
        error = StorageError(f"{one.worker}: {why}")
        self._done.put((one.request, _by(lost(one.request, error), one.worker)))

    def _leave(self, one: _Try) -> None:
        if one.worker:
            del self._held[one.request.decision.task.id]
        else:
            self._waiting.remove(one)

    def _collect(self, one: _Try, lease: Lease) -> None:
        """In a thread of the pool: a package may be large."""
        try:
            agreement = self._agreements.get(one.request.decision.task.id)
            results = agreement.place(lease.worker) if agreement is not None else Results(root=one.request.state)
            attempt = collect(self.store, lease, one.request, results)
            for digest in blobs_of(self.store, lease):
                self.store.drop(digest)
            self._taken.append((one.cell, self.clock()))
        except Exception as error:  # noqa: BLE001 (any error: the night waits for an attempt)
            attempt = _by(lost(one.request, error), lease.worker)
        if not self._is_closed:
            self._done.put((one.request, attempt))

    def _remove_taken(self) -> None:
        """Remove leases whose results were taken, after a while: a worker that read their offers before, or those of a
        coordinator that was killed, could take them again.
        """
        while self._taken and self.clock() - self._taken[0][1] > self.lease:
            self.store.remove(self._taken[0][0])
            self._taken.popleft()  # after that: the next look tries again if the store could not be reached

    def _require_workers(self) -> None:
        """Raise NetworkError if there has been no worker for too long."""
        if self._workers or not (self._waiting or self._held):
            self._alone_since = None
            return
        wait = self.policy.worker_wait
        if self._alone_since is None:
            self._alone_since = self.clock()
            self.note(f"there is no worker at {self.store.url}: waiting for one for {wait:g} s")
        if self.clock() - self._alone_since >= wait:
            raise NetworkError(
                f"there has been no worker at {self.store.url} for {wait:g} s",
                hint="start workers, then run the same command: what was built is kept (policy.worker_wait: the limit)",
            )

    def _give_up_alone(self) -> None:
        """End builds that need another builder than those that there have been for too long."""
        now = self.clock()
        for one in [each for each in self._waiting if each.needs_other]:
            there = [name for name in self._workers if not {name, builder_of(name)} & one.avoid]
            one.changed = now if there or not one.changed else one.changed
            if now - one.changed >= self.policy.worker_wait:
                self._waiting.remove(one)
                known = self._agreements[one.request.decision.task.id]
                came = f"only {len(known.builders)} of {known.needed} builders came (policy.builders)"
                self._done.put((one.request, lost(one.request, StorageError(came))))

    def _offer(self) -> None:
        """Write what workers may take."""
        offers = []
        for one in self._waiting[: 2 * len(self._workers) + _OFFERS_BEYOND]:
            try:
                one.job = one.job or self._upload(one.request)
            except TfaotError as error:
                self._waiting.remove(one)
                self._done.put((one.request, lost(one.request, error)))
                continue
            offers.append(Offer(id=one.id, request=one.job, avoid=tuple(sorted(self._kept_from(one)))))
        farm = Farm(
            tool=tool_digest(), version=__version__, lease=self.lease, timeout=self.policy.timeout,
            offers=tuple(offers), suspended=tuple(sorted(self._suspended)),
        )  # fmt: skip
        self._publish(write(farm))

    def _publish(self, data: bytes) -> None:
        if self._farm is not None and self._farm[0] == data:
            return
        if self._farm is not None:
            tag = self.store.replace(FARM, data, self._farm[1])
        else:
            # One is there if a coordinator was killed.
            present = self.store.read(FARM)
            tag = self.store.create(FARM, data) if present is None else self.store.replace(FARM, data, present.tag)
        if tag is None:
            raise self._is_shared()
        self._farm = (data, tag)

    def _is_shared(self) -> StorageError:
        return StorageError(
            f"another night uses the results in {self.store.url}", hint="give each registry its own --results"
        )

    def _upload(self, request: Request) -> str:
        """Put the job of `request` into the store, with the files that are not there yet. Returns its digest."""
        bundle = self.bundle(request)
        files = {path: put(self.store, file, self._uploaded) for path, file in bundle.files.items()}
        job = Job(decision=request.decision, night=request.night, policy=request.policy, files=files, data=bundle.data)
        return put(self.store, write(job))


def _lease_in(data: bytes, one: _Try) -> Lease | None:
    """The lease of `one` in a cell; None if it is none that its worker signed."""
    if data == WITHDRAWN:
        return None
    try:
        lease = opened(data, Lease, lambda found: found.worker)
    except ValueError:
        return None
    return lease if lease.offer == one.id else None


def _by(attempt: Attempt, worker: str) -> Attempt:
    return replace(attempt, worker=worker)
