"""The nightly's folder: what is there after anything was cut off, and the history by month."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from datetime import date
from pathlib import Path

import pytest

from tests.nightly.nights import stub_decision
from tests.wording import reported
from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.nightly.outcome import Attempt
from tfaot_pkg.nightly.publisher import Uploads
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.state import Gate, State, Summary, Verdict
from tfaot_pkg.nightly.types import Decision, Figures, Outcome, OutcomeKind

DAY = date(2026, 11, 21)


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(root=tmp_path / "state")


def outcome(decision: Decision, kind: OutcomeKind = "published") -> Outcome:
    task = decision.task
    figures = Figures(library_size=1000, build_time=2.5, error=1e-7, latency={"x86-64-v3": {"1": 120.0}})
    return Outcome(
        task=task.id, model=task.model, toolchain=task.toolchain, kind=kind, release=decision.release,
        key=decision.key, reasons=decision.reasons, figures=figures,
    )  # fmt: skip


def test_nights_of_a_day_are_numbered_and_sorted_as_numbers(state: State) -> None:
    names = [state.new_night([], DAY).name for _ in range(11)]
    assert names[-1] == "2026-11-21.11"
    assert [night.name for night in state.nights()] == names
    assert state.new_night([], date(2026, 11, 22)).name == "2026-11-22.1"


def test_a_night_gives_back_its_plan_and_its_outcomes(state: State) -> None:
    decisions = [stub_decision("one"), stub_decision("two", depends=("one",))]
    night = state.new_night(decisions, DAY)
    night.add(outcome(decisions[0]))
    night.add(outcome(decisions[1], "timed out"))
    assert night.decisions() == tuple(decisions)
    assert night.outcomes() == (outcome(decisions[0]), outcome(decisions[1], "timed out"))
    night.end(
        Summary(night=night.name, ended="2026-11-21T03:00:00Z", counts={"timed out": 1}, withheld="", exit_code=24)
    )
    assert night.is_over
    assert json.loads((night.folder / "night.json").read_text()) == {
        "format": 1, "night": "2026-11-21.1", "ended": "2026-11-21T03:00:00Z", "counts": {"timed out": 1},
        "withheld": "", "exit_code": 24, "excluded": {}, "builders": {}, "made_with": None,
    }  # fmt: skip


def test_a_line_that_was_cut_off_is_nothing_and_the_next_one_is_whole(state: State) -> None:
    one, two = stub_decision("one"), stub_decision("two")
    night = state.new_night([one, two], DAY)
    night.add(outcome(one))
    file = night.folder / "outcomes.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:40])
    assert night.outcomes() == (outcome(one),)
    night.add(outcome(two))
    assert night.outcomes() == (outcome(one), outcome(two))
    file.write_bytes(whole[:40])
    night.add(outcome(two))
    assert night.outcomes() == (outcome(two),)


def test_damage_in_the_middle_is_told_with_its_line(state: State) -> None:
    night = state.new_night([], DAY)
    (night.folder / "outcomes.jsonl").write_text("{}\nnonsense\n")
    with reported(StorageError):
        night.outcomes()


def test_builds_of_a_night_are_recorded_once_however_often_it_ends(state: State) -> None:
    decisions = [stub_decision("one"), stub_decision("two")]
    night = state.new_night([], DAY)
    state.history.add(night.name, night.sequence, [outcome(decisions[0])])
    state.history.add(night.name, night.sequence, map(outcome, decisions))
    assert [one.model for one in state.history.builds()] == ["one", "two"]
    (measured,) = state.history.measured("one", "2.17.1", before=night.order + 1, most=9)
    assert (measured.night, measured.figures.library_size) == (night.name, 1000)


def test_a_night_begun_by_a_wrong_clock_is_not_the_last_one_for_ever(state: State) -> None:
    days = (DAY, date(2036, 1, 1), date(2026, 11, 22), date(2026, 11, 22), date(2026, 12, 1))
    decision = stub_decision("one")
    kinds: tuple[OutcomeKind, ...] = ("published", "build failed", "published", "build failed", "published")
    nights = []
    for day, kind in zip(days, kinds, strict=True):
        nights.append(state.new_night([decision], day))
        state.history.add(nights[-1].name, nights[-1].sequence, [replace(outcome(decision), kind=kind)])
    names = [night.name for night in nights]
    assert names == ["2026-11-21.1", "2036-01-01.1", "2026-11-22.1", "2026-11-22.2", "2026-12-01.1"]
    assert [night.name for night in state.nights()] == names
    assert [(one.night, one.kind) for one in state.history.builds()] == list(zip(names, kinds, strict=True))
    assert [one.night for one in state.history.builds(before=nights[2].order)] == names[:2]
    assert state.history.working() == {(decision.task.model, decision.task.toolchain)}


def test_nights_without_a_number_come_first_by_their_names(state: State) -> None:
    """As versions before 0.2 wrote them."""
    old = [state.new_night([], day) for day in (date(2026, 11, 3), date(2026, 11, 2))]
    for night in old:
        (night.folder / "sequence").unlink()
    new = state.new_night([], date(2026, 11, 1))
    assert [night.name for night in state.nights()] == ["2026-11-02.1", "2026-11-03.1", "2026-11-01.1"]
    assert new.sequence == 1


def test_a_note_of_an_upload_whose_key_is_a_path_is_not_believed(tmp_path: Path) -> None:
    uploads = Uploads(root=tmp_path)
    decision = stub_decision("one")
    uploads.begin("ours", decision)
    assert uploads.missing("ours") == (decision,)
    (note,) = (tmp_path / "uploads" / "ours").iterdir()
    note.write_text(note.read_text().replace(decision.key, "../../plan"))
    with reported(StorageError):
        uploads.missing("ours")


def test_a_fault_is_of_its_night_and_a_verified_result_of_all(state: State) -> None:
    key = stub_decision("one").key
    failed = Attempt(kind="timed out", night="2026-11-21.1", error="no end")
    state.results.put(key, failed)
    assert state.results.get(key, "2026-11-21.1") == failed
    assert state.results.get(key, "2026-11-22.1") is None
    later = replace(failed, night="2026-11-22.1")
    state.results.put(key, later)
    assert state.results.get(key, "2026-11-22.1") == later
    assert [path.name for path in state.results.folder(key).parent.iterdir()] == [f"{key}.failed.json"]


def test_a_fault_that_comes_late_does_not_undo_what_was_verified(state: State) -> None:
    """As of a worker that was given up, and a build that another one ended at that very moment."""

    class Before(Results):
        """What the late one sees is what was there before."""

        def get(self, key: Key, night: str) -> Attempt | None:
            return None

    key = stub_decision("one").key
    verified = Attempt(kind="verified", night="2026-11-21.1")
    folder = state.results.folder(key)
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps({"format": 1, "attempt": asdict(verified)}))
    Before(root=state.root).put(key, Attempt(kind="timed out", night="2026-11-21.1"))
    assert state.results.get(key, "2026-11-21.1") == verified


def test_what_builds_of_a_killed_coordinator_still_use_goes_all_at_once(
    state: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = []
    remove = shutil.rmtree

    def look(path: Path, *, ignore_errors: bool = False) -> None:
        there.append(scratch.exists())
        remove(path, ignore_errors=ignore_errors)

    with state.results.scratch() as scratch:
        (scratch / "file").touch()
        monkeypatch.setattr(shutil, "rmtree", look)
        with state.lock():
            assert there == [False]
            assert [path.name for path in state.root.iterdir() if "scratch" in path.name] == []


@pytest.mark.parametrize(("failed", "withheld"), [(0, False), (2, False), (3, True)])
def test_the_gate_lets_through_what_the_policy_allows(failed: int, withheld: bool, state: State) -> None:
    gate = Gate(verdicts=(Verdict(toolchain="2.17.1", built=10, failed=failed, limit=0.2),))
    assert (gate.withholds("2.17.1"), gate.withholds("2.21.0")) == (withheld, False)
    night = state.new_night([], DAY)
    assert night.gate() is None
    night.set_gate(gate)
    assert night.gate() == gate


def test_the_gate_of_an_older_version_is_about_all_toolchains(state: State) -> None:
    night = state.new_night([], DAY)
    (night.folder / "gate.json").write_text('{"built": 10, "failed": 3, "format": 1, "limit": 0.2}')
    gate = night.gate()
    assert gate is not None and gate.withholds("2.17.1") and gate.withholds("2.21.0")
    assert gate.withheld == "3 of 10 builds newly failed, more than policy.max_failures (20%)"
