"""The coordinator, with builds that only sleep: gate, order, retries, and being killed at any moment."""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from tests.nightly.nights import Seen, coordinator, end_state, home_of, start_coordinator, stub, stub_decision
from tests.wording import reported
from tfaot_pkg.errors import SpecError, StorageError, ValidationError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.nightly import executors
from tfaot_pkg.nightly.hosts import BuildHosts
from tfaot_pkg.nightly.outcome import Attempt, Request
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.run import FAILED, INFRASTRUCTURE, WITHHELD, Count
from tfaot_pkg.nightly.state import NightFolder, State
from tfaot_pkg.nightly.types import Decision, Outcome, Policy, Reason, Task
from tfaot_pkg.registry.folder import FolderRegistry


class Registry:
    """A publisher that remembers the order; the first `failures` tries of anything fail."""

    def __init__(self, failures: int = 0) -> None:
        self.published: list[str] = []
        self._failures = failures

    def require(self) -> None: ...

    def renew(self) -> None: ...

    def catch_up(self, results: Results, tasks: Sequence[Task]) -> dict[str, str]:
        return {}

    def publish(self, decision: Decision, results: Results) -> bool:
        if self._failures:
            self._failures -= 1
            raise StorageError("the disk is full")
        self.published.append(decision.task.model)
        return False

    def send(self, decision: Decision, results: Results) -> str:
        raise AssertionError("nothing is to be sent")


def kinds(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {outcome.model: outcome.kind for outcome in outcomes}


def test_what_depends_on_a_failed_model_is_not_published_and_dependencies_come_first(tmp_path: Path) -> None:
    decisions = [
        stub_decision("above", depends=("base",)),
        stub_decision("base"),
        stub_decision("orphan", depends=("broken",)),
        stub_decision("grandchild", depends=("orphan",)),
        stub_decision("broken"),
    ]
    registry = Registry()
    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=registry).run(lambda: decisions)
    assert kinds(night.outcomes) == {
        "above": "published",
        "base": "published",
        "orphan": "dependency failed",
        "grandchild": "dependency failed",
        "broken": "build failed",
    }
    assert registry.published == ["base", "above"]
    assert night.exit_code == FAILED
    assert [one.error for one in night.outcomes if one.model == "orphan"] == [
        "it needs broken@1.0.0+tf2.17.1: build failed"
    ]


def test_models_that_need_one_another_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    decisions = [stub_decision(name, depends=(needed,)) for name, needed in ("ab", "bc", "ca")]
    with reported(SpecError) as caught:
        coordinator(tmp_path, home_of(tmp_path), program=stub(0)).run(lambda: decisions)
    named = [part.partition("@")[0] for part in str(caught.value).partition(": ")[2].split(" -> ")]
    assert "".join(named) in ("abca", "bcab", "cabc"), "each model before those that it needs"
    assert not (tmp_path / "state" / "results").exists()


def worked_before(root: Path, *decisions: Decision) -> None:
    """A night that published the first builds of the same tasks."""
    first = [stub_decision(one.task.model, toolchain=one.task.toolchain) for one in decisions]
    night = coordinator(root, home_of(root), program=stub(0), publisher=Registry())
    assert set(night.run(lambda: first).counts) == {"published"}


def test_too_many_failures_withhold_the_night_and_the_next_one_publishes_without_building(tmp_path: Path) -> None:
    decisions = [stub_decision(name, number=2) for name in ("breaks1", "breaks2", "fine1", "fine2")]
    worked_before(tmp_path, *decisions)
    registry = Registry()
    strict = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=registry, policy=Policy(max_failures=0.4)
    )
    night = strict.run(lambda: decisions)
    assert Counter(kinds(night.outcomes).values()) == {"build failed": 2, "withheld": 2}
    assert (night.exit_code, registry.published) == (WITHHELD, [])
    assert night.gate.withheld == "2.17.1: 2 of 4 builds newly failed, more than policy.max_failures (40%)"
    seen = Seen()
    lenient = coordinator(
        tmp_path, home_of(tmp_path), program=("/no/such/program",), publisher=registry, watch=seen,
        policy=Policy(max_failures=1, retries=0),
    )  # fmt: skip
    night = lenient.run(lambda: decisions)
    assert night.night.name == "2026-11-21.3"
    assert sorted(registry.published) == ["fine1", "fine2"]
    assert seen.stored_ == [2] and len(seen.built_) == 2, "what was built before does not count as built now"
    # What failed is tried again, which the program that is missing shows.
    assert Counter(kinds(night.outcomes).values()) == {"infrastructure failed": 2, "published": 2}


def test_what_failed_before_does_not_close_the_gate_again(tmp_path: Path) -> None:
    registry = Registry()
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=registry, policy=Policy(max_failures=0.4)
    )
    worked_before(tmp_path, stub_decision("fine"))
    assert night.run(lambda: [stub_decision("broken")]).exit_code == FAILED
    again = night.run(lambda: [stub_decision("broken", number=2), stub_decision("fine", number=2)])
    assert kinds(again.outcomes) == {"broken": "build failed", "fine": "published"}
    assert (again.exit_code, again.gate.withheld) == (FAILED, "")
    (verdict,) = again.gate.verdicts
    assert (verdict.built, verdict.failed) == (1, 0)


def test_where_nothing_was_verified_nothing_is_withheld(tmp_path: Path) -> None:
    breaks = stub_decision("breaks", number=2)
    worked_before(tmp_path, breaks)
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), policy=Policy(max_failures=0)
    ).run(lambda: [breaks])
    assert (night.exit_code, night.gate.withheld) == (FAILED, "")


def test_a_toolchain_is_held_to_its_own_past(tmp_path: Path) -> None:
    """Ten models that a new toolchain does not build say nothing about the old one, or about what the new one builds."""
    old = [stub_decision(f"fine{number}", number=2) for number in range(5)]
    worked_before(tmp_path, *old)
    new = [stub_decision(f"broken{number}", toolchain="2.21.0") for number in range(10)]
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), policy=Policy(max_failures=0.1)
    )
    done = night.run(lambda: [*old, *new, stub_decision("fine0", toolchain="2.21.0")])
    assert done.counts == {"published": 6, "build failed": 10}
    # From now on it has a past.
    again = night.run(
        lambda: [
            *(stub_decision(f"fine{number}", number=3) for number in range(5)),
            stub_decision("fine0", number=2, toolchain="2.21.0"),
            stub_decision("breaks0", toolchain="2.21.0"),
        ]
    )
    assert again.counts == {"published": 7}
    last = night.run(
        lambda: [
            stub_decision("fine1", number=4),
            stub_decision("fine0", number=3, toolchain="2.21.0"),
            stub_decision("breaks0", number=2, toolchain="2.21.0"),
        ]
    )
    assert [one.kind for one in last.outcomes] == ["published", "withheld", "build failed"]
    assert last.exit_code == WITHHELD


def test_faults_of_machines_do_not_close_the_gate(tmp_path: Path) -> None:
    decisions = [stub_decision(name, number=2) for name in ("flaky1", "flaky2", "fine")]
    worked_before(tmp_path, stub_decision("fine"))
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), policy=Policy(max_failures=0, retries=0)
    ).run(lambda: decisions)
    assert kinds(night.outcomes) == {
        "flaky1": "infrastructure failed", "flaky2": "infrastructure failed", "fine": "published"
    }  # fmt: skip


def test_what_failed_before_is_not_built_again(tmp_path: Path) -> None:
    first = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry())
    first.run(lambda: [stub_decision("broken")])
    seen = Seen()
    idle = coordinator(tmp_path, home_of(tmp_path), program=("/no/such/program",), publisher=Registry(), watch=seen)
    (outcome,) = idle.run(lambda: [replace(stub_decision("broken"), action="failed before")]).outcomes
    assert (outcome.kind, outcome.error, outcome.error_class, outcome.attempts) == (
        "build failed", "it is broken", "broken", 0
    )  # fmt: skip
    assert not seen.built_


def test_what_broke_in_a_night_that_was_withheld_closes_the_gate_again(tmp_path: Path) -> None:
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), policy=Policy(max_failures=0.4)
    )
    worked_before(tmp_path, stub_decision("breaks"), stub_decision("fine"))
    for number in (2, 3):
        decisions = [stub_decision("breaks", number=number), stub_decision("fine", number=number)]
        assert night.run(partial(list, decisions)).exit_code == WITHHELD


def test_faults_of_machines_are_tried_again_and_faults_of_models_are_not(tmp_path: Path) -> None:
    decisions = [stub_decision("flaky"), stub_decision("broken")]
    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry()).run(lambda: decisions)
    assert {one.model: (one.kind, one.attempts) for one in night.outcomes} == {
        "flaky": ("published", 2),
        "broken": ("build failed", 1),
    }


def test_a_build_about_which_nothing_can_be_said_is_a_fault_of_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault of ours must not let a night wait for ever."""

    def perform(_: Request, __: BuildHosts) -> Attempt:
        raise ValueError("half an answer")

    monkeypatch.setattr(executors, "perform", perform)
    night = coordinator(tmp_path, home_of(tmp_path), publisher=Registry()).run(lambda: [stub_decision("one")])
    (outcome,) = night.outcomes
    assert (outcome.kind, outcome.attempts) == ("infrastructure failed", 3)
    assert outcome.error == "the worker was lost: ValueError: half an answer"


def test_where_no_toolchain_can_be_made_no_executor_is(tmp_path: Path) -> None:
    made = replace(
        coordinator(tmp_path, home_of(tmp_path), publisher=Registry()),
        prepare=lambda versions: dict.fromkeys(versions, "no network"),
        executor=lambda _: pytest.fail("nothing is to be built"),
    )
    (outcome,) = made.run(lambda: [stub_decision("one")]).outcomes
    assert (outcome.kind, outcome.error) == ("infrastructure failed", "no network")


def test_a_registry_that_is_away_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    registry = Registry(failures=2)
    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=registry).run(
        lambda: [stub_decision("one")]
    )
    assert kinds(night.outcomes) == {"one": "published"}


def test_a_registry_that_stays_away_is_a_fault_of_the_machines(tmp_path: Path) -> None:
    registry = Registry(failures=9)
    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=registry).run(
        lambda: [stub_decision("one")]
    )
    (outcome,) = night.outcomes
    assert (outcome.kind, night.exit_code) == ("infrastructure failed", INFRASTRUCTURE)
    assert outcome.error == "cannot be published: the disk is full"


def test_what_cannot_be_planned_is_a_failure_of_its_model(tmp_path: Path) -> None:
    faulty = replace(
        stub_decision("faulty"), action="fail", reasons=(Reason(what="spec", detail="spec.yaml:3: no such name"),)
    )
    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry()).run(
        lambda: [faulty, stub_decision("one")]
    )
    assert kinds(night.outcomes) == {"faulty": "build failed", "one": "published"}
    assert night.outcomes[0].error == "spec.yaml:3: no such name"
    (verdict,) = night.gate.verdicts
    assert (verdict.built, verdict.failed) == (0, 0), "neither was built before"


def test_publishing_begins_while_others_are_built(tmp_path: Path) -> None:
    """As soon as no failure of what is left can withhold it: here all is new, so at once."""
    registry = Registry()
    there: list[list[str]] = []

    class Looking(Seen):
        def built(self, decision: Decision, attempt: Attempt) -> None:
            super().built(decision, attempt)
            if decision.task.model == "last":
                there.append(list(registry.published))

    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0.2), publisher=registry, watch=Looking(), slots=1
    ).run(lambda: [*(stub_decision(f"m{number}") for number in range(4)), stub_decision("last")])
    assert night.counts == {"published": 5}
    assert set(there[0]) >= {"m0", "m1", "m2"}


@pytest.mark.parametrize(("ended", "certain"), [(3, False), (4, True)])
def test_a_verdict_is_certain_when_what_is_left_may_fail_altogether(tmp_path: Path, ended: int, certain: bool) -> None:
    decisions = [stub_decision(f"m{number}", number=2) for number in range(5)]
    worked_before(tmp_path, *decisions)
    made = coordinator(tmp_path, home_of(tmp_path), policy=Policy(max_failures=0.2))
    count = Count(made, decisions, {})
    for one in decisions[:ended]:
        count.ended(one.task.id, "verified")
    assert count.is_certain("2.17.1") is certain


def test_what_a_publication_raises_ends_the_night_while_others_are_built(tmp_path: Path) -> None:
    class Damaged(Registry):
        def publish(self, decision: Decision, results: Results) -> bool:
            raise Interrupted

    seen = Seen()
    with pytest.raises(Interrupted):
        coordinator(tmp_path, home_of(tmp_path), program=stub(0.2), publisher=Damaged(), watch=seen, slots=1).run(
            lambda: [stub_decision(f"m{number}") for number in range(20)]
        )
    assert len(seen.built_) < 20


def test_several_are_published_at_a_time(tmp_path: Path) -> None:
    meeting = Barrier(2)

    class Slow(Registry):
        def publish(self, decision: Decision, results: Results) -> bool:
            meeting.wait(60)  # broken where the other one waits for this one's end
            return super().publish(decision, results)

    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Slow())
    assert night.run(lambda: [stub_decision("a"), stub_decision("b")]).counts == {"published": 2}


def test_what_cannot_be_planned_any_more_counts_for_the_gate(tmp_path: Path) -> None:
    decisions = [stub_decision(f"m{number}", number=2) for number in range(4)]
    worked_before(tmp_path, *decisions)
    why = (Reason(what="spec", detail="spec.yaml:3: no such name"),)
    faulty = [replace(one, action="fail", reasons=why) for one in decisions[:3]]
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), policy=Policy(max_failures=0.4)
    ).run(lambda: [*faulty, decisions[3]])
    assert night.counts == {"build failed": 3, "withheld": 1}
    (verdict,) = night.gate.verdicts
    assert (verdict.built, verdict.failed) == (4, 3)


def test_a_spec_that_cannot_be_read_does_not_open_the_gate_for_others(tmp_path: Path) -> None:
    """Its toolchain is not known, if the definition does not give it."""
    decisions = [stub_decision("breaks", number=2), stub_decision("fine", number=2)]
    worked_before(tmp_path, *decisions)
    unreadable = replace(
        stub_decision("unreadable", toolchain=""), action="fail", reasons=(Reason(what="spec", detail="no spec"),)
    )
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), policy=Policy(max_failures=0.4)
    ).run(lambda: [unreadable, *decisions])
    assert kinds(night.outcomes) == {"unreadable": "build failed", "breaks": "build failed", "fine": "withheld"}


class Killed(Registry):
    """A publisher whose processes are killed when the night ends early."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = Event()

    def publish(self, decision: Decision, results: Results) -> bool:
        try:
            # As a validation does: one process after another.
            for _ in range(3):
                run(["sleep", "60"], started=lambda _: self.begun.set())
        except CommandFailed as error:
            raise ValidationError(str(error)) from error
        return False


def test_what_is_being_published_when_a_night_is_interrupted_is_published_by_the_next_run(tmp_path: Path) -> None:
    killed = Killed()

    class Stopping(Seen):
        def built(self, decision: Decision, attempt: Attempt) -> None:
            if decision.task.model == "last":
                killed.begun.wait(60)
                raise Interrupted

    decisions = [stub_decision("one"), stub_decision("last")]
    with pytest.raises(Interrupted):
        coordinator(
            tmp_path, home_of(tmp_path), program=stub(0), publisher=killed, watch=Stopping(), slots=1
        ).run(lambda: decisions)  # fmt: skip
    assert not State(root=tmp_path / "state").nights()[-1].outcomes()
    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry()).run(lambda: decisions)
    assert night.counts == {"published": 2}


def test_a_publication_that_waits_for_the_disk_does_not_hold_up_the_end(tmp_path: Path) -> None:
    full = Registry(failures=99)

    class Stopping(Seen):
        def built(self, decision: Decision, attempt: Attempt) -> None:
            if decision.task.model == "last":
                raise Interrupted

    start = time.monotonic()
    with pytest.raises(Interrupted):
        coordinator(
            tmp_path, home_of(tmp_path), program=stub(0), publisher=full, watch=Stopping(), slots=1, pause=60
        ).run(lambda: [stub_decision("one"), stub_decision("last")])
    assert time.monotonic() - start < 30
    assert not State(root=tmp_path / "state").nights()[-1].outcomes()


def test_a_damaged_history_is_told_before_anything_is_built(tmp_path: Path) -> None:
    made = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry())
    made.run(lambda: [stub_decision("one")])
    (tmp_path / "state" / "history.sqlite").write_text("{half\n")
    with reported(StorageError):
        made.run(lambda: [stub_decision("two")])
    assert len(list((tmp_path / "state" / "results").glob("*/*"))) == 1


def test_a_second_coordinator_is_told_who_the_first_one_is(tmp_path: Path) -> None:
    with State(root=tmp_path / "state").lock():
        with reported(StorageError):
            coordinator(tmp_path, home_of(tmp_path)).run(list)


class Interrupted(Exception):
    """Stands for whatever cuts a night off."""


class Cutting(Seen):
    """Cuts the night off when the first build has ended."""

    def outcome(self, outcome: Outcome) -> None:
        raise Interrupted


def test_a_night_that_was_cut_off_before_it_published_takes_what_changed_meanwhile(tmp_path: Path) -> None:
    registry = Registry()
    breaks = stub_decision("breaks", number=2)
    worked_before(tmp_path, breaks)  # so that nothing is published before this one has ended
    cut = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=registry, watch=Cutting())
    with pytest.raises(Interrupted):
        cut.run(lambda: [breaks, stub_decision("stays"), stub_decision("goes")])
    assert not registry.published
    again = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=registry, policy=Policy(max_failures=1))
    changed = [breaks, stub_decision("stays", number=2), stub_decision("comes")]
    night = again.run(lambda: changed)
    assert night.night.name == "2026-11-21.2"
    assert {one.model: (one.kind, one.release) for one in night.outcomes} == {
        "breaks": ("build failed", "1.0.0+tf2.17.1.b2"),
        "stays": ("published", "1.0.0+tf2.17.1.b2"),
        "comes": ("published", "1.0.0+tf2.17.1.b1"),
    }


def test_what_failed_before_a_night_was_cut_off_counts_for_its_gate(tmp_path: Path) -> None:
    decisions = [stub_decision(name, number=2) for name in ("breaks1", "breaks2", "fine1", "fine2")]
    worked_before(tmp_path, *decisions)
    policy = Policy(max_failures=0.4)

    class Late(Seen):
        def built(self, decision: Decision, attempt: Attempt) -> None:
            if decision.task.model == "fine1":
                raise Interrupted

    with pytest.raises(Interrupted):
        coordinator(
            tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), watch=Late(), policy=policy, slots=1
        ).run(lambda: decisions)

    def again() -> Sequence[Decision]:
        """As `plan_night` does."""
        results = State(root=tmp_path / "state").results
        failed = [results.remembered(one.key, policy) is not None for one in decisions]
        assert failed == [True, True, False, False]
        return [
            replace(one, action="failed before") if known else one for one, known in zip(decisions, failed, strict=True)
        ]

    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Registry(), policy=policy).run(again)
    assert night.counts == {"build failed": 2, "withheld": 2}
    recorded = {one.model for one in State(root=tmp_path / "state").history.builds() if one.night == night.night.name}
    assert recorded == {"breaks1", "breaks2", "fine1", "fine2"}


def test_a_night_that_was_cut_off_while_it_published_is_ended_as_it_was_planned(tmp_path: Path) -> None:
    class Away(Registry):
        def publish(self, decision: Decision, results: Results) -> bool:
            raise Interrupted

    cut = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Away())
    with pytest.raises(Interrupted):
        cut.run(lambda: [stub_decision("one")])
    registry = Registry()
    night = coordinator(tmp_path, home_of(tmp_path), publisher=registry, program=stub(0)).run(
        list, whole=lambda: [stub_decision("one"), stub_decision("two")]
    )
    assert registry.published == ["one"]
    assert kinds(night.outcomes) == {"one": "published"}


def changed(decision: Decision, **fields: Any) -> Decision:
    return replace(decision, task=replace(decision.task, **fields))


CHANGES: dict[str, tuple[Callable[[Decision], Decision], str]] = {
    "spec": (
        lambda one: changed(one, spec=Path("/evil/spec.yaml")),
        "differs from the definition: spec is /evil/spec.yaml, which should be /no/spec.yaml",
    ),
    "defines": (lambda one: changed(one, defines={"TAG": "evil"}), "defines is {'TAG': 'evil'}, which should be {}"),
    "targets": (lambda one: changed(one, targets=("aarch64",)), "targets is ('aarch64',)"),
    "model": (lambda one: changed(one, model="/evil"), "names a task that the definition does not have"),
    "version": (lambda one: changed(one, version="9.0.0"), "names a task that the definition does not have"),
    "release": (
        lambda one: replace(one, release="9.0.0+tf2.17.1.b1"),
        "is about another build (9.0.0+tf2.17.1.b1) than the definition, the spec and the model give now",
    ),
    "key": (lambda one: replace(one, key=Key("../../evil")), "is about another build (1.0.0+tf2.17.1.b1)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_that_was_changed_in_the_state_folder_is_not_published(tmp_path: Path, name: str) -> None:
    """Whoever can write there must not have another spec signed; what was not changed is published."""

    class Away(Registry):
        def publish(self, decision: Decision, results: Results) -> bool:
            raise Interrupted

    decisions = [stub_decision("one"), stub_decision("other")]
    with pytest.raises(Interrupted):
        coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=Away()).run(lambda: decisions)
    change, said = CHANGES[name]
    plan = tmp_path / "state" / "nights" / "2026-11-21.1" / "plan.json"
    stored = [plain(one) for one in (change(decisions[0]), decisions[1])]
    plan.write_text(json.dumps({"format": 1, "decisions": stored}))
    registry = Registry()
    night = coordinator(tmp_path, home_of(tmp_path), program=stub(0), publisher=registry).run(lambda: decisions)
    assert registry.published == ["other"]
    refused, published = night.outcomes
    assert (refused.kind, published.kind, night.exit_code) == ("infrastructure failed", "published", INFRASTRUCTURE)
    assert refused.command == "", "nobody is told to build somebody else's spec"
    assert said in refused.error and refused.error.endswith("the next night plans it anew")


def test_a_plan_that_is_changed_while_its_night_runs_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_night = State.new_night

    def changed_at_once(state: State, decisions: Sequence[Decision], day: date) -> NightFolder:
        night = new_night(state, decisions, day)
        rewrite()
        return night

    class Writing(Seen):
        def built(self, decision: Decision, attempt: Attempt) -> None:
            rewrite()
            gate = {"format": 2, "verdicts": []}
            (tmp_path / "state" / "nights" / "2026-11-21.2" / "gate.json").write_text(json.dumps(gate))

    def rewrite() -> None:
        plan = tmp_path / "state" / "nights" / "2026-11-21.2" / "plan.json"
        plan.write_text(json.dumps({"format": 1, "decisions": [plain(stub_decision("evil"))]}))

    decisions = [stub_decision("one", number=2), stub_decision("breaks", number=2)]
    worked_before(tmp_path, *decisions)
    monkeypatch.setattr(State, "new_night", changed_at_once)
    registry = Registry()
    night = coordinator(
        tmp_path, home_of(tmp_path), program=stub(0), publisher=registry, watch=Writing(),
        policy=Policy(max_failures=0.1),
    ).run(lambda: decisions)  # fmt: skip
    assert (kinds(night.outcomes), registry.published) == ({"one": "withheld", "breaks": "build failed"}, [])
    assert night.exit_code == WITHHELD


class Unreached(Registry):
    """A publisher whose remote is never reached."""

    def catch_up(self, results: Results, tasks: Sequence[Task]) -> dict[str, str]:
        return {"one@1.0.0+tf2.17.1": "the Conan remote ours cannot be reached"}

    def publish(self, decision: Decision, results: Results) -> bool:
        super().publish(decision, results)
        return True

    def send(self, decision: Decision, results: Results) -> str:
        return "the Conan remote ours cannot be reached"


def test_a_remote_that_is_not_reached_is_an_outcome_until_it_has_what_it_misses(tmp_path: Path) -> None:
    folders, built = home_of(tmp_path), stub_decision("one")
    needs = stub_decision("two", depends=("one",))
    night = coordinator(tmp_path, folders, program=stub(0), publisher=Unreached()).run(lambda: [built, needs])
    assert kinds(night.outcomes) == {"one": "upload failed", "two": "upload failed"}
    assert night.outcomes[0].error == "the Conan remote ours cannot be reached"
    assert night.outcomes[0].error_class == "Conan remote not reached"
    assert night.exit_code == INFRASTRUCTURE
    there = replace(built, action="up to date")
    night = coordinator(tmp_path, folders, publisher=Unreached()).run(lambda: [there])
    assert (kinds(night.outcomes), night.exit_code) == ({"one": "upload failed"}, INFRASTRUCTURE)
    night = coordinator(tmp_path, folders, publisher=Registry()).run(lambda: [there])
    assert (kinds(night.outcomes), night.exit_code) == ({"one": "up to date"}, 0)


def is_over(root: Path) -> bool:
    """Whether the night is: the next coordinator would begin another one."""
    return any(night.is_over for night in State(root=root / "state").nights())


@pytest.mark.sweep(night=["2"])
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_coordinator_that_is_killed_at_any_moments_ends_as_an_undisturbed_one(tmp_path: Path, seed: int) -> None:
    names = [f"model{number}" for number in range(10)]
    decisions = [stub_decision(name) for name in names]
    decisions += [
        stub_decision("broken"),
        stub_decision("above", depends=("model3",)),
        stub_decision("left", depends=("broken",)),
    ]
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps([plain(one) for one in decisions]))
    given = {"plan": str(plan), "program": stub(0.15, 0.5), "slots": 4}

    undisturbed = start_coordinator(tmp_path / "quiet", tmp_path / "home", **given)
    lines = undisturbed.communicate()[0].splitlines()
    assert lines[-1] == f"exit {FAILED}"

    moments = random.Random(seed)
    kills, code = 0, -signal.SIGKILL
    while code == -signal.SIGKILL and not is_over(tmp_path / "killed"):
        # In the middle of whatever it does next, which is less than what is left of the night.
        die = [[moments.randrange(1, 5), moments.uniform(0, 0.02)]] if kills < 6 else []
        process = start_coordinator(tmp_path / "killed", tmp_path / "home", die=die, **given)
        process.communicate()
        code = process.returncode
        kills += code == -signal.SIGKILL
    assert kills >= 3
    assert code in (FAILED, -signal.SIGKILL), "the last one may have been killed when all was done"
    assert end_state(tmp_path / "killed") == end_state(tmp_path / "quiet")
    killed, quiet = (FolderRegistry.open(tmp_path / name / "registry").names() for name in ("killed", "quiet"))
    assert killed == quiet
