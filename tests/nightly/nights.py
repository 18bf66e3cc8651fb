"""Nights for the tests: decisions about small models, and a coordinator whose parts are real unless a test says so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from tfaot_pkg.ground.keys import Key, sha256_bytes
from tfaot_pkg.ground.process_tree import tree_of
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.nightly.executors import Executor, LocalExecutor
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.outcome import Attempt
from tfaot_pkg.nightly.ports import PublisherPort
from tfaot_pkg.nightly.publisher import Publisher
from tfaot_pkg.nightly.recheck import Recheck
from tfaot_pkg.nightly.run import Coordinator
from tfaot_pkg.nightly.state import Gate, State
from tfaot_pkg.nightly.types import Comparison, Decision, Outcome, Policy, Reason, Task
from tfaot_pkg.pipeline.pipeline import Pipeline
from tfaot_pkg.pipeline.publish import Release
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.folder import FolderRegistry

REPOSITORY = Path(__file__).resolve().parents[2]
STUB = REPOSITORY / "tests" / "nightly" / "stub_build.py"
TOOLCHAIN = "2.17.1"
TARGETS = ("x86-64-v3",)


@dataclass
class Seen:
    """A watch that keeps what it sees."""

    begun: list[tuple[str, int]] = field(default_factory=list)
    built_: list[Attempt] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)
    stored_: list[int] = field(default_factory=list)
    excluded_: dict[str, str] = field(default_factory=dict)
    compared_: list[Comparison] = field(default_factory=list)
    running: Callable[[], Sequence[str]] = tuple

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome], *, again: bool) -> None:
        self.begun.append((night, len(known)))

    def stored(self, count: int) -> None:
        self.stored_.append(count)

    def building(self, count: int, where: str, running: Callable[[], Sequence[str]]) -> None:
        self.running = running

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self.built_.append(attempt)

    def excluded(self, worker: str, why: str) -> None:
        self.excluded_[worker] = why

    def gate(self, gate: Gate) -> None: ...

    def compared(self, comparison: Comparison) -> None:
        self.compared_.append(comparison)

    def outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def home_of(folder: Path) -> Folders:
    return Folders(cache=folder / "cache", data=folder / "data")


def task_of(
    spec: Path, name: str, *, version: str = "1.0.0", depends: tuple[str, ...] = (), toolchain: str = TOOLCHAIN
) -> Task:
    return Task(model=name, version=version, toolchain=toolchain, targets=TARGETS, spec=spec, depends=depends)


def to_build(task: Task, folders: Folders, number: int = 1) -> Decision:
    """The decision to build `task`, whose key is the real one."""
    plan = Pipeline(folders=folders, progress=Silent()).plan(spec_for(task, task.release(number)))
    return Decision(
        task=task, action="build", reasons=(Reason(what="never built", detail=""),),
        release=task.release(number), key=plan.key,
    )  # fmt: skip


@contextmanager
def believed(decision: Decision, release: Release) -> Iterator[Release]:
    """In place of `Recheck`, for results of stubs: these are no packages."""
    yield release


def coordinator(
    root: Path,
    folders: Folders,
    *,
    policy: Policy | None = None,
    watch: Seen | None = None,
    slots: int = 2,
    program: tuple[str, ...] = (),
    executor: Callable[[int], Executor] | None = None,
    publisher: PublisherPort | None = None,
    today: date = date(2026, 11, 21),
    pause: float = 0.01,
) -> Coordinator:
    """A coordinator with its state in `root / "state"` that publishes into `root / "registry"`."""
    return Coordinator(
        state=State(root=root / "state"),
        policy=policy or Policy(timeout=120, memory=3 * 2**30, max_failures=0.5),
        publisher=publisher
        or Publisher(
            registry=root / "registry",
            keys=Keys(),
            folders=folders,
            recheck=believed if program else Recheck(folders=folders),
        ),
        executor=executor or (lambda count: LocalExecutor(min(slots, count))),
        watch=watch or Seen(),
        cache=folders.cache,
        program=program,
        pause=pause,
        publications=2,
        today=lambda: today,
    )


def stub(seconds: float, spread: float = 0.0) -> tuple[str, ...]:
    """The program of a build that only sleeps (stub_build.py)."""
    return (
        sys.executable,
        "-I",
        "-S",
        str(STUB),
        str(seconds),
        str(spread),
    )


def stub_decision(name: str, *, number: int = 1, depends: tuple[str, ...] = (), toolchain: str = TOOLCHAIN) -> Decision:
    """To build the model `name`, which is none: for `stub`."""
    task = task_of(Path("/no/spec.yaml"), name, depends=depends, toolchain=toolchain)
    release = task.release(number)
    key = Key(sha256_bytes(f"{name} {release}".encode()))
    return Decision(
        task=task, action="build", reasons=(Reason(what="never built", detail=""),), release=release, key=key
    )


def start_coordinator(root: Path, home: Path, **given: Any) -> subprocess.Popen[str]:
    """Start coordinate.py; its output is a pipe, its errors go to the end of `root / "stderr"`."""
    arguments = {
        "root": str(root), "home": str(home), "dask": False, "slots": 2, "program": [], "policies": {}, "die": [], "today": "2026-11-21",
        "policy": {"timeout": 120, "memory": 3 * 2**30, "max_failures": 0.5}, **given,
    }  # fmt: skip
    root.mkdir(parents=True, exist_ok=True)
    file = root / "arguments.json"
    file.write_text(json.dumps(arguments))
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TFAOT_HOME": str(home)}
    with (root / "stderr").open("ab") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.nightly.coordinate", str(file)],
            cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip


def builds_below(process: int, program: Path) -> list[tuple[int, int]]:
    """(process, who has it built) of the builds that run below `process`: between both is a host."""
    found = []
    for child in tree_of(process):
        try:
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            worker = _parent(_parent(child))
        except OSError:
            continue  # it has ended
        # 0: its host has just ended, and kill(2) would take that for the group of the tests themselves.
        if worker and os.fsencode(program) in command.split(b"\0"):
            found.append((child, worker))
    return found


def _parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[1])


def ends(process: int) -> bool:
    """Whether it ends within a minute: being killed takes the kernel a moment."""
    deadline = time.monotonic() + 60
    while not is_gone(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    return is_gone(process)


def is_gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[0] in (b"Z", b"X")
    except OSError:
        return True


def kill_worker_of(build: int, worker: int) -> bool:
    """Kill `worker` while it waits for the process `build`; False where that had ended before, and nothing was done.

    The worker is stopped first: else it might tell of the build's end between the look and the kill.
    """
    os.kill(worker, signal.SIGSTOP)
    runs = not is_gone(build)
    os.kill(worker, signal.SIGKILL if runs else signal.SIGCONT)
    return runs


def end_state(root: Path) -> dict[str, Any]:
    """What a night left that does not depend on clocks: outcomes, registry, history."""
    state = State(root=root / "state")
    registry = FolderRegistry.find(root / "registry")
    entries = [entry for name in registry.names() for entry in registry.entries(name)] if registry is not None else []
    return {
        "outcomes": {n.name: sorted((o.task, o.kind, o.release, o.error_class) for o in n.outcomes()) for n in state.nights()},
        "over": [night.is_over for night in state.nights()],
        "registry": sorted((entry.name, entry.version, entry.key) for entry in entries),
        "history": sorted((one.night, one.task, one.kind) for one in state.history.builds()),
    }  # fmt: skip
