"""Answers of a worker that a hostile model has taken over: whatever it says, the call ends with an error of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import ModelError, ToolchainError
from tfaot_pkg.frontends.toolchain.worker import Worker
from tfaot_pkg.ground.sandbox import Limits, Running
from tfaot_pkg.ground.sandbox.command import Most, Watch
from tfaot_pkg.worker_program.messages.graph import Inspect, Inspected

INSPECT = Inspect(folder="model", tags=("serve",))


@pytest.fixture
def answering(tmp_path: Path) -> Iterator[Callable[[str], Worker]]:
    """A worker whose program is the given Python text, which has the file `answers`."""
    started: list[Worker] = []

    def start(program: str) -> Worker:
        read_end, write_end = os.pipe()
        text = f"import json, os, sys\nanswers = os.fdopen({write_end}, 'wb', buffering=0)\n{program}"
        process = subprocess.Popen(
            [sys.executable, "-c", text], stdin=subprocess.PIPE, pass_fds=[write_end], start_new_session=True
        )
        os.close(write_end)
        (tmp_path / "log").touch()
        running = Running(process=process, watch=Watch((), Most()))
        started.append(Worker(running, read_end, tmp_path / "log", Limits(timeout=60)))
        return started[-1]

    yield start
    for worker in started:
        worker.stop()


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        {"ok": []},
        {"fault": "x"},
        {"fault": {"message": 1, "hint": ""}},
        {"fault": {"message": "x"}},
        {"memory": {}},
        {"error": ["x"]},
        {"event": {}},
        {"asked": {"operation": "work", "inputs": "../x", "attributes": {}}},
        {"asked": {"operation": "work", "inputs": "x.npz", "attributes": {}}},
        {"event": {"advance": "1", "note": ""}},
        {"event": {"advance": float("inf"), "note": ""}},
        {"event": {"advance": True, "note": ""}},
        {"event": {"advance": 1, "note": "", "more": ""}},
        {"ok": {"signatures": {}}, "error": ""},
        {"ok": {"signatures": {"serve": {"inputs": [], "outputs": {}}}}},
        {"ok": {"signatures": {"serve": {"inputs": [{"name": "x", "dtype": "int8", "shape": ["1"]}], "outputs": []}}}},
        {"ok": {"signatures": {}, "more": 1}},
    ],
    ids=repr,
)
def test_an_answer_of_no_known_form_is_refused(answering: Callable[[str], Worker], answer: object) -> None:
    worker = answering(f"sys.stdin.readline(); answers.write({json.dumps(answer)!r}.encode() + b'\\n'); os.read(0, 1)")
    with reported(ToolchainError):
        worker.call(INSPECT, Inspected)
    assert worker.ended


def test_a_worker_that_reports_for_ever_is_stopped(answering: Callable[[str], Worker]) -> None:
    event = json.dumps({"event": {"advance": 0, "note": ""}})
    worker = answering(f"while True: answers.write({event!r}.encode() + b'\\n')")
    with _rescued(worker), reported(ToolchainError):
        worker.call(INSPECT, Inspected, seconds=1)


@contextmanager
def _rescued(worker: Worker) -> Iterator[None]:
    """A call that never ends shall fail and not hang."""
    timer = threading.Timer(30, worker.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def test_a_fault_of_the_model_is_told(answering: Callable[[str], Worker]) -> None:
    fault = json.dumps({"fault": {"message": "no signature", "hint": "choose one", "newer": False}})
    worker = answering(f"sys.stdin.readline(); answers.write({fault!r}.encode() + b'\\n'); os.read(0, 1)")
    with reported(ModelError):
        worker.call(INSPECT, Inspected)
