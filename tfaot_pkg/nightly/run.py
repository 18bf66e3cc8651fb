"""The coordinator of a night: plan, build, gate, publish, record.

It writes everything that it knows to disk before it acts on it, so it may be killed at any moment: the next coordinator
resumes the night, with the same end. Order of a night: `plan.json`; results by key as builds end, and the outcomes of
those that failed; `gate.json`; for each version the registry, then its outcome; the history; `night.json`. Publishing
begins while others are built still, as soon as the gate's verdict about a toolchain is certain.

Nothing that decides about signatures is trusted from the disk, to which builders can write: a night works with the plan
that it made itself, and compares the plan of a night that it resumes with a new one (`not_planned`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from threading import RLock
from types import MappingProxyType

from tfaot_pkg.errors import StorageError, TfaotError, ValidationError
from tfaot_pkg.ground.documents import utc_now
from tfaot_pkg.nightly.depends import Unserved, by_place, in_order, needed
from tfaot_pkg.nightly.executors import FIRST_PAUSE, Executor, attempts
from tfaot_pkg.nightly.outcome import Attempt, AttemptKind, Request, class_for, outcome_for, refusal, settled
from tfaot_pkg.nightly.plan import not_planned
from tfaot_pkg.nightly.ports import ComparerPort, PublisherPort, Watch
from tfaot_pkg.nightly.publications import Publications
from tfaot_pkg.nightly.regression import kept_back
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.state import Gate, NightFolder, Record, State, Summary, Verdict
from tfaot_pkg.nightly.types import (
    FAILURES,
    MODEL_FAULTS,
    OF_MACHINES,
    TO_BUILD,
    Comparison,
    Decision,
    Outcome,
    OutcomeKind,
    Policy,
)

FAILED, WITHHELD, INFRASTRUCTURE = 24, 25, 26
"""Exit codes of a night: models failed, or got worse than policy.regression allows; so many that what was built with
their toolchain is not published; the machines failed."""


def exit_code_of(kinds: Iterable[OutcomeKind], *, withheld: bool) -> int:
    """The exit code of a night with these kinds of outcomes."""
    if withheld:
        return WITHHELD
    # Machines first: models that were not tried say nothing about themselves.
    return INFRASTRUCTURE if OF_MACHINES.intersection(kinds) else FAILED if _WRONG.intersection(kinds) else 0


_WRONG: frozenset[OutcomeKind] = FAILURES | {"worse"}
_TRIED = ("build", "fail")  # actions that the gate and the history count


@dataclass(frozen=True, slots=True, kw_only=True)
class NightRun:
    """A finished night, with the outcome of every task in the order of the plan."""

    night: NightFolder
    outcomes: tuple[Outcome, ...]
    gate: Gate

    @property
    def counts(self) -> dict[OutcomeKind, int]:
        return dict(Counter(outcome.kind for outcome in self.outcomes))

    @property
    def exit_code(self) -> int:
        """0 if nothing failed."""
        return exit_code_of(self.counts, withheld=bool(self.gate.withheld))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinator:
    """The environment of a night.

    `executor` makes the executor for a number of builds; `prepare` makes the toolchains of these versions and returns
    those that cannot be made, with the reason. `cache` is shared by builds; `program` builds in place of build_task.py;
    `pause` is in seconds, before the first new try after a fault of the machines; `publications` is how many results
    are checked and published at a time. `record` says what the night was made with. Without a `comparer` nothing is
    compared. Models that match `accept` are published although they are worse than policy.regression allows.
    """

    state: State
    policy: Policy
    publisher: PublisherPort
    executor: Callable[[int], Executor]
    watch: Watch
    cache: Path
    prepare: Callable[[Sequence[str]], Mapping[str, str]] = lambda _: {}
    program: tuple[str, ...] = ()
    pause: float = FIRST_PAUSE
    publications: int = 1
    record: Callable[[Sequence[Decision]], Record | None] = lambda _: None
    comparer: ComparerPort | None = None
    accept: str = ""
    today: Callable[[], date] = field(default=lambda: datetime.now(timezone.utc).date())

    def run(
        self,
        plan: Callable[[], Sequence[Decision]],
        *,
        whole: Callable[[], Sequence[Decision]] | None = None,
        new: bool = False,
    ) -> NightRun:
        """Run a night to its end: the one that was cut off (unless `new`), or one that `plan` makes.

        `whole` plans the whole definition, if `plan` plans a part. Raises StorageError (disk, another coordinator),
        what `plan` raises, and the error with which publishing would fail without keys or access.
        """
        with self.state.lock():
            self.publisher.require()
            self.publisher.renew()  # before the plan, which reads the registry: expired metadata would stop it
            nights = self.state.nights()
            # Only the last night: of one that --new passed over, any later night finds the verified results.
            cut_off = nights[-1] if nights and not nights[-1].is_over and not new else None
            if cut_off is None:
                decisions = plan()
                return _Night(self, self.state.new_night(decisions, self.today()), decisions).run()
            gate = cut_off.gate()
            if gate is None:  # nothing is published yet, so the night may follow changes since its plan
                decisions = [_not_before(one, cut_off, self.state.results) for one in plan()]
                cut_off.plan_anew(decisions)
                return _Night(self, cut_off, decisions).run(again=True)
            # Versions may be published already, so the night keeps its plan and its verdicts.
            decisions = cut_off.decisions()
            # The whole definition, because this command may select other tasks than the one whose night was cut off.
            refused = not_planned(decisions, (whole or plan)())
            return _Night(self, cut_off, decisions, gate=gate, refused=refused).run(again=True)


def _not_before(decision: Decision, night: NightFolder, results: Results) -> Decision:
    """`decision`, as a build if it failed in `night` itself: there it counts for the gate and for the history."""
    failed = results.get(decision.key, night.name) if decision.action == "failed before" else None
    return decision if failed is None else replace(decision, action="build")


class Count:
    """What the gate counts, by toolchain: see `Verdict`. Raises StorageError for a damaged history."""

    def __init__(
        self, coordinator: Coordinator, decisions: Sequence[Decision], outcomes: Mapping[str, Outcome]
    ) -> None:
        working = coordinator.state.history.working()
        tried = [one for one in decisions if one.action in _TRIED]
        # Of a spec that cannot be read, the toolchain is not known.
        self.toolchains = tuple(sorted({one.task.toolchain for one in tried} - {""}))
        self._limit = coordinator.policy.max_failures
        self._pending = {
            one.task.id: one.task.toolchain for one in tried if (one.task.model, one.task.toolchain) in working
        }
        self._left = Counter(self._pending.values())
        self._built: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        for outcome in outcomes.values():
            self.ended(outcome.task, outcome.kind)

    def ended(self, task: str, kind: OutcomeKind | AttemptKind) -> None:
        """The build of `task` ended, or cannot begin. Only the first call for a task counts."""
        toolchain = self._pending.pop(task, None)
        if toolchain is not None:
            self._left[toolchain] -= 1
            self._failed[toolchain] += kind in MODEL_FAULTS
            self._built[toolchain] += kind not in OF_MACHINES

    def is_certain(self, toolchain: str) -> bool:
        """Whether `verdict` lets publish whatever happens to the builds that are left."""
        left = self._left[toolchain]
        return self._failed[toolchain] + left <= self._limit * (self._built[toolchain] + left)

    def verdict(self, toolchain: str) -> Verdict:
        """The verdict about the builds that have ended."""
        built, failed = self._built[toolchain], self._failed[toolchain]
        return Verdict(toolchain=toolchain, built=built, failed=failed, limit=self._limit)


class _Night:
    """One running night: `gate` is that before the night was cut off, None if it published nothing.

    `refused` says by task why a build in its plan is not published.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        night: NightFolder,
        decisions: Sequence[Decision],
        *,
        gate: Gate | None = None,
        refused: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._with = coordinator
        self._night = night
        self._decisions = tuple(decisions)
        self._gate = gate or Gate(verdicts=())
        self._refused = refused
        self._outcomes = {outcome.task: outcome for outcome in night.outcomes()}
        self._verified: dict[str, tuple[Attempt, int]] = {}
        self._excluded: dict[str, str] = {}
        self._count = Count(coordinator, self._decisions, self._outcomes)
        # Outcomes come from the threads that publish, too.
        self._lock = RLock()
        # By toolchain: verified, but not being published yet.
        self._waiting: dict[str, dict[str, Decision]] = defaultdict(dict)
        places = by_place(self._decisions)
        self._needs = {one.task.id: needed(one, places) for one in self._decisions if one.task.depends}
        self._publications = Publications(coordinator.publications, self._finish)
        self._comparisons = dict(coordinator.state.history.comparisons(night.name))
        # A gate on speed: nothing is published before all that was built is timed, which needs an idle machine.
        self._holds = coordinator.comparer is not None and coordinator.policy.regression.speed is not None
        # One at a time, in a queue of its own: a slow remote holds up no publication.
        self._uploads = Publications(1, self._send)
        # At its beginning: the checkout may have moved at its end.
        self._made_with = coordinator.record(self._decisions)

    def run(self, *, again: bool = False) -> NightRun:
        self._with.watch.begin(self._night.name, self._decisions, tuple(self._outcomes.values()), again=again)
        in_order(self._decisions)  # raises for models that need one another
        # Publications end first: they begin uploads.
        with self._uploads, self._publications:
            self._record_settled()
            self._build()
            if self._holds:
                self._time([one for waiting in self._waiting.values() for one in waiting.values()])
                self._holds = False
            gate = self._pass_gate()
            # The end of an upload lets dependents be published, whose packages are uploaded, too.
            while any([self._publications.finish(), self._uploads.finish()]):
                pass
        self._time([one for one in self._decisions if self._is_news(one)])
        self._time_again()
        return self._end(gate)

    def _record_settled(self) -> None:
        """The outcomes of tasks that are not built."""
        left = [one for one in self._decisions if one.task.id not in self._outcomes]
        refused = [(one, self._refused[one.task.id]) for one in left if one.task.id in self._refused]
        self._record(*(refusal(one, why) for one, why in refused))
        tasks = [one.task for one in self._decisions if one.task.id not in self._refused]
        # Each night, whatever it builds: these packages are of earlier nights.
        missing = self._with.publisher.catch_up(self._with.state.results, tasks)
        undone = [one for one in left if one.action not in TO_BUILD and one.task.id not in self._refused]
        self._record(*(settled(one, missing.get(one.task.id, "")) for one in undone))
        for one in left:
            if one.action == "failed before" and one.task.id not in self._refused:
                known = self._with.state.results.remembered(one.key, self._with.policy)
                if known is not None:
                    self._known(one, known, 0)

    def _build(self) -> None:
        """Build the tasks that have neither an outcome nor a stored result."""
        wanted = [one for one in self._decisions if one.action in TO_BUILD and one.task.id not in self._outcomes]
        results = self._with.state.results
        # What failed in an earlier night is here because it is to be tried again: the plan says so.
        stored = {one.task.id: self._enough(results.get(one.key, self._night.name)) for one in wanted}
        missing = [one for one in wanted if stored[one.task.id] is None]
        if len(missing) < len(wanted):
            self._with.watch.stored(len(wanted) - len(missing))
        for decision in wanted:
            if (attempt := stored[decision.task.id]) is not None:
                self._known(decision, attempt, 1)
        # One toolchain after the other: hosts keep servers of few of them, and a model's next toolchain finds what its
        # first one made.
        ready = sorted(self._with_toolchain(missing), key=lambda one: one.task.toolchain)
        requests = [self._request(one) for one in ready]
        if not requests:
            return
        # An executor that is closed early kills what is being published, too.
        with closing(self._with.executor(len(requests))) as executor, self._publications.stopped_by_errors():
            self._with.watch.building(len(requests), executor.description, executor.running)
            retries, pause = self._with.policy.retries, self._with.pause
            ended = attempts(executor, requests, retries=retries, pause=pause, excluded=self._exclude)
            for request, attempt, tries in ended:
                with self._lock:
                    self._with.watch.built(request.decision, attempt)
                self._known(request.decision, attempt, tries)
                self._publications.check()
                self._uploads.check()

    def _enough(self, attempt: Attempt | None) -> Attempt | None:
        """`attempt`, unless it was verified with fewer builders than the policy asks for."""
        needed = self._with.policy.builders.needed
        few = attempt is not None and attempt.kind == "verified" and needed > 1 and len(attempt.builders) < needed
        return None if few else attempt

    def _exclude(self, worker: str, why: str) -> None:
        self._excluded[worker] = why
        self._with.watch.excluded(worker, why)

    def _with_toolchain(self, decisions: Sequence[Decision]) -> list[Decision]:
        """The `decisions` that can be built; a toolchain that cannot be made is the outcome of the others."""
        needing = [one for one in decisions if one.task.tensorflow]
        broken = self._with.prepare(sorted({one.task.tensorflow for one in needing})) if needing else {}
        failed = [one for one in needing if one.task.toolchain in broken]
        for decision in failed:
            why = broken[decision.task.toolchain]
            self._known(decision, Attempt(kind="infrastructure failed", night=self._night.name, error=why), 1)
        return [one for one in decisions if one not in failed]

    def _request(self, decision: Decision) -> Request:
        return Request(
            decision=decision,
            night=self._night.name,
            state=self._with.state.root,
            log=self._night.log(decision.task.id),
            cache=self._with.cache,
            policy=self._with.policy,
            program=self._with.program,
        )

    def _known(self, decision: Decision, attempt: Attempt, tries: int) -> None:
        with self._lock:
            self._count.ended(decision.task.id, attempt.kind)
            if attempt.kind == "verified":
                self._verified[decision.task.id] = (attempt, tries)
                self._waiting[decision.task.toolchain][decision.task.id] = decision
            else:
                self._record(self._outcome(decision, attempt.kind, attempt, tries))
            self._advance()

    def _advance(self) -> None:
        """Begin to publish what may be published by now: its verdict is certain, and its dependencies have ended."""
        if self._holds:
            return
        # By toolchain, so that thousands that wait for one verdict cost one look at each end of a build.
        for toolchain, waiting in self._waiting.items():
            if not waiting or not self._has_verdict(toolchain):
                continue
            for decision in tuple(waiting.values()):
                if all(one.task.id in self._outcomes for one in self._needed(decision)):
                    del waiting[decision.task.id]
                    self._publications.begin(decision)

    def _needed(self, decision: Decision) -> Sequence[Decision]:
        return self._needs.get(decision.task.id, ())

    def _has_verdict(self, toolchain: str) -> bool:
        """Whether the gate has decided about `toolchain`, as early as whatever else fails cannot change it."""
        if self._gate.of(toolchain) is None:
            if not self._count.is_certain(toolchain):
                return False
            # On disk before the first publication: a resumed night with a verdict is not planned again.
            self._set_gate(Gate(verdicts=(*self._gate.verdicts, self._count.verdict(toolchain))))
        return True

    def _pass_gate(self) -> Gate:
        """All builds have ended."""
        with self._lock:
            # Where nothing was verified there is nothing to withhold.
            found = [one for one in self._count.toolchains if self._gate.of(one) or self._waiting[one]]
            verdicts = (self._gate.of(one) or self._count.verdict(one) for one in found)
            # Without repetitions: a verdict of an earlier version is about all toolchains.
            self._set_gate(Gate(verdicts=tuple(dict.fromkeys(verdicts))))
            self._with.watch.gate(self._gate)
            self._advance()
            return self._gate

    def _set_gate(self, gate: Gate) -> None:
        self._night.set_gate(gate)
        self._gate = gate

    def _finish(self, decision: Decision) -> None:
        """Publish a verified result; in a thread of its own."""
        outcome = self._published(decision, self._gate)
        if outcome is not None:
            self._ended(outcome)

    def _send(self, decision: Decision) -> None:
        """Upload a published package; in the thread for that."""
        attempt, tries = self._verified[decision.task.id]
        try:
            why = self._with.publisher.send(decision, self._with.state.results)
        except TfaotError as error:
            why = error.message
        kind: OutcomeKind = "upload failed" if why else "published"
        self._ended(self._outcome(decision, kind, attempt, tries, error=why))

    def _ended(self, outcome: Outcome) -> None:
        with self._lock:
            stopped = self._publications.is_stopped or self._uploads.is_stopped
            # If the night ends early, a failure only says that its processes were killed: the next run publishes it.
            if outcome.kind == "published" or not stopped:
                self._record(outcome)
            if not stopped:
                self._advance()

    def _published(self, decision: Decision, gate: Gate) -> Outcome | None:
        """Publish a verified result, if that is allowed. Returns its outcome, None if its upload gives that."""
        attempt, tries = self._verified[decision.task.id]
        if gate.withholds(decision.task.toolchain):
            why = str(gate.of(decision.task.toolchain))
            return self._outcome(decision, "withheld", attempt, tries, error=why)
        failing = next((one for one in self._needed(decision) if self._has_failed(one)), None)
        if failing is not None:
            why = f"it needs {failing.task.id}: {self._outcomes[failing.task.id].kind}"
            return self._outcome(decision, "dependency failed", attempt, tries, error=why)
        try:
            if why := self._refused_as_worse(decision):
                return self._outcome(decision, "worse", attempt, tries, error=why)
            if self._publish(decision):
                self._uploads.begin(decision)
                return None
        except Unserved as error:
            return self._outcome(decision, "dependency failed", attempt, tries, error=error.message)
        except ValidationError as error:
            why = f"the publisher's own validation failed: {error.message}"
            return self._outcome(decision, "validation failed", attempt, tries, error=why)
        except TfaotError as error:
            why = f"cannot be published: {error.message}"
            return self._outcome(decision, "infrastructure failed", attempt, tries, error=why)
        return self._outcome(decision, "published", attempt, tries)

    def _refused_as_worse(self, decision: Decision) -> str:
        """Why policy.regression does not let it pass; "" if it does."""
        comparison = self._compared(decision)
        policy, accepted = self._with.policy, fnmatchcase(decision.task.model, self._with.accept)
        return "" if comparison is None or accepted else kept_back(comparison, policy.regression)

    def _compared(self, decision: Decision) -> Comparison | None:
        """The comparison with what is published now; later ones of this night are with the same."""
        known, comparer = self._comparisons.get(decision.task.id), self._with.comparer
        if comparer is None or (known is not None and known.key == decision.key):
            return known
        made = comparer.exact(decision, self._with.state.results)
        if made is not None:
            self._keep(made)
        return made

    def _keep(self, comparison: Comparison) -> None:
        with self._lock:
            self._with.state.history.compare(self._night.name, comparison)
            self._comparisons[comparison.task] = comparison

    def _is_news(self, decision: Decision) -> bool:
        """Whether it was compared in this night, and not timed yet."""
        known = self._comparisons.get(decision.task.id)
        return known is not None and known.turns is None and not known.not_timed

    def _time(self, decisions: Sequence[Decision]) -> None:
        """Time these builds, one after the other, while nothing else is at work."""
        comparer = self._with.comparer
        for decision in decisions if comparer is not None else ():
            assert comparer is not None
            try:
                comparison = self._compared(decision)
            except StorageError:
                raise
            except TfaotError:
                continue  # publishing it fails for the same reason, and says so
            if comparison is not None and self._is_news(decision):
                done = comparer.timed(comparison, decision, self._with.state.results)
                self._keep(done)
                self._with.watch.compared(done)

    def _time_again(self) -> None:
        """Time packages that did not change, as often as policy.retime_days says."""
        comparer = self._with.comparer
        unchanged = [one for one in self._decisions if one.action == "up to date"]
        if comparer is not None and self._with.policy.retime_days is not None:
            self._time(comparer.due(unchanged, self._with.state.history))

    def _publish(self, decision: Decision) -> bool:
        # Only errors of the disk may pass; all others would come again with the same result.
        for pause in (self._with.pause * 2**retry for retry in range(self._with.policy.retries)):
            try:
                return self._with.publisher.publish(decision, self._with.state.results)
            except StorageError:
                if self._publications.pause(pause):
                    raise
        return self._with.publisher.publish(decision, self._with.state.results)

    def _has_failed(self, decision: Decision) -> bool:
        outcome = self._outcomes.get(decision.task.id)
        return outcome is not None and outcome.kind in FAILURES

    def _outcome(
        self, decision: Decision, kind: OutcomeKind, attempt: Attempt, tries: int, *, error: str = ""
    ) -> Outcome:
        log = self._night.log(decision.task.id)
        return outcome_for(
            decision,
            kind,
            attempt=attempt,
            tries=tries,
            error=error or attempt.error,
            error_class=class_for(kind, attempt),
            log=log.relative_to(self._night.folder).as_posix() if log.exists() else "",
        )

    def _record(self, *outcomes: Outcome) -> None:
        with self._lock:
            # On disk before anybody is told: what was shown must still be true after a kill.
            if outcomes:
                self._night.add(*outcomes)
            for outcome in outcomes:
                self._outcomes[outcome.task] = outcome
                self._count.ended(outcome.task, outcome.kind)
                self._with.watch.outcome(outcome)

    def _end(self, gate: Gate) -> NightRun:
        outcomes = tuple(self._outcomes[one.task.id] for one in self._decisions)
        done = NightRun(night=self._night, outcomes=outcomes, gate=gate)
        built = {one.task.id for one in self._decisions if one.action in _TRIED}
        # The history before `night.json`: a night that is over is never resumed to complete it.
        recorded = [one for one in outcomes if one.task in built]
        self._with.state.history.add(self._night.name, self._night.sequence, recorded)
        ended = utc_now()
        self._night.end(
            Summary(
                night=self._night.name,
                ended=ended,
                counts=done.counts,
                withheld=gate.withheld,
                exit_code=done.exit_code,
                excluded=self._excluded,
                builders=dict(sorted(Counter(one.builder for one in outcomes if one.builder).items())),
                made_with=self._made_with,
            )
        )
        return done
