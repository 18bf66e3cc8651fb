"""Libraries that write traces of their steps."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.commands import run_command
from tests.inside.test_inspect import spec_of
from tfaot_pkg.ground.process import CommandFailed, run

pytestmark = [pytest.mark.slow, pytest.mark.needs_tensorflow]

# Four threads, each with calls of 1, 4 and 150 rows.
CALLS = """
import sys, threading
import numpy as np
import tfaot_pkg
model = tfaot_pkg.load(sys.argv[1])
together = threading.Barrier(4)
def calls():
    together.wait()
    for rows in (1, 4, 150):
        model(np.ones((rows, 64), "float32"))
    together.wait()
threads = [threading.Thread(target=calls) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def built(folder: Path, *, engine: str = "auto") -> Path:
    """A library that was built with package.profile."""
    spec = spec_of(folder, "package: {profile: true}", engine=engine)
    done = run_command(["build", spec, "-o", folder / "prefix"])
    assert done.returncode == 0, done.stderr
    return folder / "prefix" / "lib" / "libtfaot-model-digits.so"


def events_of(library: Path, trace: Path | None, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    monkeypatch.delenv("TFAOT_PROFILE", raising=False)
    if trace is not None:
        monkeypatch.setenv("TFAOT_PROFILE", str(trace))
    run([sys.executable, "-c", CALLS, library], timeout=120)
    if trace is None:
        return []
    events: list[dict[str, Any]] = json.loads(trace.read_text())["traceEvents"]
    return events


def test_each_step_of_each_call_is_a_span(shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = built(tmp_path)
    events = events_of(library, tmp_path / "trace.json", monkeypatch)
    steps = {event["args"]["step"] for event in events}
    # Blocks of 64 rows: 1, 4, and 64 + 64 + 22, in each thread.
    assert steps == set(range(len(steps))) and len(events) == 4 * 5 * len(steps)
    assert len({event["tid"] for event in events}) == 4
    for event in events:
        assert event["ph"] == "X" and event["dur"] >= 0 and event["args"]["rows"] in (1, 4, 64, 22)
    names = {event["name"].split()[0] for event in events}
    assert {"conv2d_max_pool", "dense", "softmax"} <= names
    # Steps of a call follow each other without a gap.
    by_thread = [event for event in events if event["tid"] == events[0]["tid"]][: len(steps)]
    for one, other in pairwise(by_thread):
        assert abs(one["ts"] + one["dur"] - other["ts"]) < 0.01
    # A second process appends; a file that holds something else stays as it is; without the variable there is none.
    assert len(events_of(library, tmp_path / "trace.json", monkeypatch)) == 2 * len(events)
    (tmp_path / "mine.txt").write_text("not a trace, and longer than its end\n")
    with pytest.raises(ValueError):
        events_of(library, tmp_path / "mine.txt", monkeypatch)
    assert (tmp_path / "mine.txt").read_text() == "not a trace, and longer than its end\n"
    before = sorted(path.name for path in tmp_path.iterdir())
    assert events_of(library, None, monkeypatch) == []
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.nightly
def test_xlas_code_is_one_span(shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events = events_of(built(tmp_path, engine="xla"), tmp_path / "trace.json", monkeypatch)
    assert {event["name"] for event in events} <= {"XLA's code of batch size 1", "XLA's code of batch size 4"}
    assert sum(event["args"]["rows"] for event in events) == 4 * (1 + 4 + 150)


def test_a_profiled_package_cannot_be_published(tmp_path: Path) -> None:
    done = run_command(["publish", spec_of(tmp_path, "package: {profile: true}"), "--registry", tmp_path / "registry"])
    assert done.returncode == 10 and "package.profile" in done.stderr
    assert not (tmp_path / "registry").exists()


def test_a_file_that_cannot_be_opened_costs_no_answer(
    shared_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFAOT_PROFILE", str(tmp_path / "missing" / "trace.json"))
    try:
        run([sys.executable, "-c", CALLS, built(tmp_path)], timeout=120)
    except CommandFailed as error:
        pytest.fail(str(error))
