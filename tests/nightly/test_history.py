"""The history of nights: files of earlier versions, damage, and a year of many models."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import date, timedelta
from pathlib import Path

import pytest

from tests.nightly.reports import add_night, comparison, outcome, task
from tests.wording import reported
from tfaot_pkg.errors import StorageError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.nightly.history import History, place_of
from tfaot_pkg.nightly.state import State

_MODELS, _NIGHTS = 500, 365


def test_lines_of_earlier_versions_are_read_once_and_removed(tmp_path: Path) -> None:
    old, new = outcome(task("digits"), "build failed"), outcome(task("digits"))
    lines = [{"night": "2026-10-31.1", **plain(old)}, {"night": "2026-11-01.1", "sequence": 7, **plain(new)}]
    for name, line in zip(("history-2026-10.jsonl", "history.jsonl"), lines, strict=True):
        # The last line has no end: its writer was killed.
        (tmp_path / name).write_text(f'{json.dumps(line)}\n{{"night": "2026-11-0')
    history = History(root=tmp_path)
    assert [(one.night, one.kind) for one in history.builds()] == [
        ("2026-10-31.1", "build failed"), ("2026-11-01.1", "published"),
    ]  # fmt: skip
    assert [path.name for path in tmp_path.iterdir()] == ["history.sqlite"]
    assert history.measured("digits", "2.17.1", before=place_of(8, "2026-11-02.1"), most=5)[0].figures == new.figures
    assert history.working() == {("digits", "2.17.1")}


def test_a_damaged_line_of_an_earlier_version_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text('{"night": "2026-11-01.1", "task": 3}\n')
    with reported(StorageError):
        list(History(root=tmp_path).builds())
    assert [path.name for path in tmp_path.iterdir()] == ["history.jsonl"]


@pytest.mark.parametrize("content", [b"nonsense", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_database_is_named(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "history.sqlite").write_bytes(content)
    with reported(StorageError, varies=r"(?<=cannot be used: ).*"):
        History(root=tmp_path).working()


def test_reading_makes_no_files(tmp_path: Path) -> None:
    assert list(History(root=tmp_path / "state").builds()) == [] and not (tmp_path / "state").exists()


def test_a_comparison_is_kept_by_night_and_says_when_a_package_was_timed(tmp_path: Path) -> None:
    history, one = History(root=tmp_path), comparison(task("digits"), ratio=1.2, time="2026-11-01T00:00:00Z")
    history.compare("2026-11-01.1", one)
    assert history.comparisons("2026-11-01.1") == {one.task: one}
    assert history.comparisons("2026-11-02.1") == {}
    assert one.turns is not None
    assert history.timed(one.turns.cpu.id) == {one.key: "2026-11-01T00:00:00Z"}
    assert history.timed("another CPU") == {}


@pytest.mark.slow
def test_a_report_over_a_year_of_500_models_takes_less_than_a_second_and_100_mib(tmp_path: Path) -> None:
    """All are built each night; of the last one a tenth is, as in most nights."""
    state, models = State(root=tmp_path), [task(f"model{number:03}") for number in range(_MODELS)]
    first = date(2026, 1, 1)
    state.history.add(f"{first}.1", 1, map(outcome, models))
    with closing(sqlite3.connect(state.history.path)) as base, base:
        for number in range(1, _NIGHTS):
            night = f"{first + timedelta(days=number)}.1"
            for table, rest in (("builds", "kind, release, key || ?3"), ("figures", "release, key || ?3, figures")):
                query = (
                    f"INSERT INTO {table} SELECT model, toolchain, ?1, task, ?2, {rest} FROM {table} WHERE night = ?4"
                )
                base.execute(query, (place_of(number + 1, night), night, str(number), f"{first}.1"))
    (state.root / "nights" / "2026-12-31.1").mkdir(parents=True)
    (state.root / "nights" / "2026-12-31.1" / "sequence").write_text("366")
    (state.root / "nights" / "2026-12-31.1" / "plan.json").write_text('{"format": 1, "decisions": []}')
    add_night(state, date(2027, 1, 1), map(outcome, models[:50]), tasks=models[:50])
    # A process of its own: its peak of memory is the report's.
    program = (
        "import resource, sys, time; from pathlib import Path\n"
        "from tfaot_pkg.nightly.report.report import find_night, read_report\n"
        "from tfaot_pkg.nightly.state import State\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "before = peak()\n"
        "state, start = State(root=Path(sys.argv[1])), time.process_time()\n"
        "report = read_report(state, find_night(state))\n"
        "assert [len(one.trends[0].points) for one in report.tasks] == [90] * 50\n"
        "print(time.process_time() - start, before, peak())\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True
    ).stdout.split()
    seconds, before, peak = map(float, printed)
    # The tool itself takes 72 MiB, and more if Python has to compile it first.
    assert seconds < 1.0 and peak - before < 25, (seconds, before, peak)
