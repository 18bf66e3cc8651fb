"""A coordinator and workers that share a store only: each worker is a process with a home, a TMPDIR and a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.nightly.farm.conftest import Place
from tests.nightly.nights import REPOSITORY, Seen, coordinator, home_of, stub
from tfaot_pkg.nightly.executors import Executor
from tfaot_pkg.nightly.farm.bundle import Bundle
from tfaot_pkg.nightly.farm.executor import PullExecutor
from tfaot_pkg.nightly.farm.messages import WORKER
from tfaot_pkg.nightly.outcome import Request
from tfaot_pkg.nightly.run import Coordinator
from tfaot_pkg.nightly.types import Policy

LEASE, SHORT = 60.0, 5.0
"""Seconds of leases; a test waits for the end of a short one. On a busy machine a worker may be held up for seconds."""


class Hand:
    """A started worker."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: list[str] = []

    @property
    def name(self) -> str:
        return self.until("name ").removeprefix("name ")

    def until(self, words: str) -> str:
        """The first line that it said, or says, with `words` at its beginning."""
        for line in self.said:
            if line.startswith(words):
                return line
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if line.startswith(words):
                return self.said[-1]
        raise AssertionError(f"it ended without {words!r}: {self.said}")

    def end(self) -> int:
        """Wait for its end; the rest of what it said is in `said`."""
        assert self.process.stdout is not None
        self.said += [line.rstrip("\n") for line in self.process.stdout]
        return self.process.wait()


@contextmanager
def worker(
    root: Path, place: Place, label: str, *, program: Sequence[str] = stub(0.1), variables: dict[str, str] | None = None,
    wrapper: Sequence[str] = (), **given: Any,
) -> Iterator[Hand]:  # fmt: skip
    """A worker that ends with the block."""
    own = root / f"worker-{label}"
    for folder in (own, own / "tmp", own / "home"):
        folder.mkdir()
    arguments = {
        "url": place.url, "label": label, "program": list(program), "idle": 600.0, "walltime": None, "tool": "", "lies": "", "key": "",
        **given,
    }  # fmt: skip
    (own / "arguments.json").write_text(json.dumps(arguments))
    environment = {
        "PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY), "HOME": str(own / "home"), "TFAOT_HOME": str(own / "home"),
        "TMPDIR": str(own / "tmp"), **place.variables, **(variables or {}),
    }  # fmt: skip
    argv = [*wrapper, sys.executable, "-m", "tests.nightly.farm.work", str(own / "arguments.json")]
    with (own / "stderr").open("wb") as errors:
        process = subprocess.Popen(argv, cwd=own, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        yield Hand(process)
    finally:
        process.kill()
        process.communicate()


def wait_until_seen(place: Place, *hands: Hand) -> None:
    """Until the night can see all these workers. One says its name before that: a failure would confirm itself if the
    night saw its worker alone.
    """
    wait_for(lambda: {f"{WORKER}{hand.name}" for hand in hands} <= place.store.cells().keys())


def no_files(_: Request) -> Bundle:
    """In place of `bundle_of`, for models that are none."""
    return Bundle(files={})


def night(
    root: Path, place: Place, *, policy: Policy | None = None, watch: Seen | None = None, notes: list[str] | None = None,
    bundle: Callable[[Request], Bundle] = no_files, lease: float = LEASE, program: tuple[str, ...] = ("stub",), builders: tuple[str, ...] = (), **given: Any,
) -> Coordinator:  # fmt: skip
    """A coordinator whose builds are those of workers at `place`."""
    policy = policy or Policy(timeout=120, max_failures=0.5)

    def executor(_: int) -> Executor:
        return PullExecutor(
            store=place.store, bundle=bundle, policy=policy, builders=builders, lease=lease, poll=0.1,
            note=(notes if notes is not None else []).append,
        )  # fmt: skip

    return coordinator(root, home_of(root), policy=policy, watch=watch, executor=executor, program=program, **given)


def wait_for(true: Callable[[], bool], seconds: float = 300) -> None:
    """The limit is for what never comes: on a busy machine, three workers took more than a minute to start."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)
