"""What a night shows while it runs."""

from __future__ import annotations

import io
import json
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.nightly.nights import Seen, coordinator, home_of, stub, stub_decision
from tests.wording import reported
from tfaot_pkg.cli.nightly.events import events_to
from tfaot_pkg.cli.nightly.live import Lines, LiveTable, left_text
from tfaot_pkg.cli.nightly.plan import _print_table
from tfaot_pkg.cli.nightly.run import _lines
from tfaot_pkg.errors import StorageError
from tfaot_pkg.nightly.executors import LocalExecutor
from tfaot_pkg.nightly.outcome import Attempt, first_words
from tfaot_pkg.nightly.state import Gate, Verdict
from tfaot_pkg.nightly.types import Decision, NightlyDefinition, NightPlan, Outcome, Policy, Reason

WHERE = "2 at a time on Dask, tls://127.0.0.1:41219; dashboard: http://127.0.0.1:38311/status"
ERROR = "the model has operations that cannot be compiled:\n  StringJoin (node join)\n  another"


def attempt(kind: str = "verified", error: str = "") -> Attempt:
    return Attempt(kind=kind, night="2026-11-21.1", seconds=41.2, error=error)  # type: ignore[arg-type]


def outcome(decision: Decision, kind: str, error: str = "") -> Outcome:
    return Outcome(
        task=decision.task.id, model=decision.task.model, toolchain="2.17.1", kind=kind,  # type: ignore[arg-type]
        release=decision.release, key=decision.key, error=error,
    )  # fmt: skip


def drawn(table: LiveTable, width: int = 100) -> list[str]:
    console = Console(width=width, record=True, force_terminal=True, file=io.StringIO())
    console.print(table)
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_table_has_counts_what_is_at_work_what_ended_and_whole_addresses() -> None:
    first, second, third = (stub_decision(name) for name in ("a", "b", "c"))
    table = LiveTable()
    table.begin("2026-11-21.1", [first, second, third], [outcome(third, "build failed")], again=True)
    table.stored(1)
    table.building(2, WHERE, lambda: [second.task.id])
    table.built(first, attempt())
    table.outcome(outcome(first, "published"))
    lines = drawn(table)
    assert lines[0] == "night 2026-11-21.1: 3 tasks, continued after an interruption: 1 outcome known"
    assert re.fullmatch(r"[━╸╺]{40} 1 of 2 built, 1 built before, \d+ s", lines[1]), lines[1]
    assert lines[2:5] == [WHERE, "1 build failed, 1 published", f"running: {second.task.id}"]
    assert [line.split(maxsplit=2) for line in lines[5:7]] == [
        [first.task.id, "verified", "41 s"], [first.task.id, "published", first.release],
    ]  # fmt: skip
    assert all(len(line) <= 60 for line in drawn(table, width=60)), "a terminal would cut it off"


def test_the_table_says_why_nothing_is_published() -> None:
    table = LiveTable()
    table.begin("2026-11-21.1", [stub_decision("a")], [], again=False)
    table.built(stub_decision("a"), attempt("build failed", ERROR))
    table.gate(Gate(verdicts=(Verdict(toolchain="2.17.1", built=4, failed=2, limit=0.2),)))
    text = "\n".join(drawn(table, width=200))
    assert "1 task\n" in text and "StringJoin (node join)" in text
    assert "2 of 4 builds newly failed, more than policy.max_failures (20%)" in text


EVIL = "a\x1b]0;owned\x07 \x1b[2J\u202e [red]b"
HARMLESS = r"a\x1b]0;owned\x07 \x1b[2J\u202e [red]b"


def test_what_builds_and_specs_say_cannot_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of what cannot be read, errors, builders and addresses are others' words."""
    named = stub_decision("one")
    decision = replace(named, task=replace(named.task, model=EVIL, version="", toolchain=""))
    table, lines = LiveTable(), Lines()
    for watch in (table, lines):
        watch.begin(EVIL, [decision], [], again=False)
        watch.building(1, EVIL, lambda: [EVIL])
        watch.built(decision, attempt("build failed", EVIL))
        watch.outcome(replace(outcome(named, "upload failed", EVIL), release=EVIL))
    file = io.StringIO()
    Console(file=file, width=300, force_terminal=True, color_system=None).print(table)
    for text, times in ((file.getvalue(), 7), (capsys.readouterr().err, 6)):
        assert text.count(HARMLESS) == times, text
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), text


def test_a_plan_cannot_command_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    named = stub_decision("one")
    decision = replace(
        named, task=replace(named.task, model=EVIL, version="", toolchain=""), reasons=(Reason(what=EVIL, detail=EVIL),)
    )
    definition = NightlyDefinition(path=Path("registry.yaml"), registry=Path("/registry"), models=())
    _print_table(NightPlan(definition=definition, decisions=(decision,)), [decision])
    text = capsys.readouterr().out
    assert text.count(HARMLESS) == 3 and not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text), text


def test_lines_count_what_is_built_now_and_tell_of_each_outcome_once(capsys: pytest.CaptureFixture[str]) -> None:
    first, second, third = (stub_decision(name) for name in ("a", "b", "c"))
    lines = Lines()
    lines.begin("2026-11-21.1", [first, second, third], [], again=False)
    lines.outcome(outcome(third, "infrastructure failed", "the toolchain 2.17.1 cannot be made: no network"))
    lines.stored(1)
    lines.building(2, WHERE, tuple)
    lines.built(first, attempt("build failed", ERROR))
    lines.outcome(outcome(first, "build failed", ERROR))
    lines.built(second, attempt())
    lines.outcome(outcome(second, "withheld"))
    assert capsys.readouterr().err.splitlines() == [
        "night 2026-11-21.1: 3 tasks",
        f"{third.task.id}: infrastructure failed ({third.release}): the toolchain 2.17.1 cannot be made: no network",
        "1 task built before: their results are used",
        f"building 2: {WHERE}",
        f"[1/2] {first.task.id}: build failed (41 s): the model has operations that cannot be compiled: StringJoin (node join)",
        f"[2/2] {second.task.id}: verified (41 s)",
    ]


@pytest.mark.parametrize(
    ("error", "words"),
    [("", ""), ("a", "a"), ("a\nb", "a"), ("a:\n  b\nc", "a: b"), ("a:", "a:")],
)
def test_an_error_in_short_has_what_its_first_line_announces(error: str, words: str) -> None:
    assert first_words(error) == words


class Looks(Seen):
    """When a build has ended it waits until the next one runs, except for the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[list[str]] = []

    def built(self, decision: Decision, attempt: Attempt) -> None:
        deadline = time.monotonic() + 60
        while len(self.seen) < 2 and not self.running() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.seen.append(list(self.running()))


def test_what_is_at_work_is_what_runs(tmp_path: Path) -> None:
    decisions = [stub_decision(f"model{number}") for number in range(3)]
    watch = Looks()
    night = coordinator(
        tmp_path, home_of(tmp_path), watch=watch, program=stub(0.3), executor=lambda _: LocalExecutor(1)
    ).run(lambda: decisions)
    assert night.exit_code == 0
    second, third = decisions[1].task.id, decisions[2].task.id
    assert watch.seen == [[second], [third], []]


def test_what_was_withheld_is_told_in_one_line(tmp_path: Path) -> None:
    policy = Policy(max_failures=0.1)
    made = coordinator(tmp_path, home_of(tmp_path), program=stub(0), policy=policy)
    names = ("breaks", "one", "two", "three")
    made.run(lambda: [stub_decision(name) for name in names])
    night = made.run(lambda: [stub_decision(name, number=2) for name in names])
    assert list(_lines(night)) == [
        "breaks@1.0.0+tf2.17.1: build failed: it is broken",
        f"  log: {night.night.folder}/logs/breaks@1.0.0+tf2.17.1.log",
        "  by hand: tfaot-pkg build /no/spec.yaml --tensorflow 2.17.1 --target x86-64-v3 -o breaks-prefix",
        "not published: 2.17.1: 1 of 4 builds newly failed, more than policy.max_failures (10%)",
        "night 2026-11-21.2: 1 build failed, 3 withheld",
    ]


def test_what_is_left_follows_from_what_has_ended() -> None:
    assert left_text(600, 3, 12) == ", about 30 min 0 s left"
    assert [left_text(*given) for given in ((600, 0, 12), (600, 12, 12), (5, 1, 12))] == ["", "", ""]


def test_events_are_lines_of_json_as_they_happen(tmp_path: Path) -> None:
    seen, file = Seen(), tmp_path / "events.jsonl"
    with events_to(file, seen) as watch:
        coordinator(
            tmp_path, home_of(tmp_path), program=stub(0), watch=watch,  # type: ignore[arg-type]
        ).run(lambda: [stub_decision("fine"), stub_decision("broken")])  # fmt: skip
        lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["event"] for line in lines[:2]] == ["begin", "building"] and lines[0]["tasks"] == 2
    told = {line["event"]: line for line in lines if line.get("task") == "broken@1.0.0+tf2.17.1"}
    assert told["built"]["kind"] == told["outcome"]["kind"] == "build failed"
    assert {line["kind"] for line in lines if line["event"] == "outcome"} == {"published", "build failed"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT.*Z", line["time"]) for line in lines)
    assert len(seen.outcomes) == 2
    with reported(StorageError), events_to(tmp_path / "no" / "folder", seen):
        pass
