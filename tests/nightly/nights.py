"""Nights for the tests: decisions about small models, and a coordinator whose parts are real unless a test says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from tfaot_pkg.folders import Folders
from tfaot_pkg.nightly.attempt import Attempt
from tfaot_pkg.nightly.executors import Executor, LocalExecutor
from tfaot_pkg.nightly.publisher import Publisher
from tfaot_pkg.nightly.run import Coordinator, PublisherPort
from tfaot_pkg.nightly.state import State, Verdict
from tfaot_pkg.nightly.task_spec import spec_for
from tfaot_pkg.nightly.types import Decision, Outcome, Policy, Reason, Task
from tfaot_pkg.pipeline import Pipeline
from tfaot_pkg.progress import Silent
from tfaot_pkg.registry.commit import Keys

TOOLCHAIN = "2.17.1"
TARGETS = ("x86-64-v3",)


@dataclass
class Seen:
    """A watch that keeps what it sees."""

    begun: list[tuple[str, int]] = field(default_factory=list)
    built_: list[Attempt] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    def begin(self, night: str, decisions: Sequence[Decision], known: Sequence[Outcome]) -> None:
        self.begun.append((night, len(known)))

    def building(self, count: int, where: str) -> None: ...

    def built(self, decision: Decision, attempt: Attempt) -> None:
        self.built_.append(attempt)

    def gate(self, verdict: Verdict) -> None: ...

    def outcome(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


def home_of(folder: Path) -> Folders:
    return Folders(cache=folder / "cache", data=folder / "data")


def task_of(spec: Path, name: str, *, version: str = "1.0.0", depends: tuple[str, ...] = ()) -> Task:
    return Task(model=name, version=version, toolchain=TOOLCHAIN, targets=TARGETS, spec=spec, depends=depends)


def to_build(task: Task, folders: Folders, number: int = 1) -> Decision:
    """The decision to build `task`, whose key is the real one."""
    plan = Pipeline(folders=folders, progress=Silent()).plan(spec_for(task, task.release(number)))
    return Decision(
        task=task, action="build", reasons=(Reason(what="never built", detail=""),),
        release=task.release(number), key=plan.key,
    )  # fmt: skip


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
) -> Coordinator:
    """A coordinator with its state in `root / "state"` that publishes into `root / "registry"`."""
    return Coordinator(
        state=State(root=root / "state"),
        policy=policy or Policy(timeout=120, memory=3 * 2**30, max_failures=0.5),
        publisher=publisher or Publisher(registry=root / "registry", keys=Keys(), folders=folders),
        executor=executor or (lambda count: LocalExecutor(min(slots, count))),
        watch=watch or Seen(),
        cache=folders.cache,
        program=program,
        pause=0.01,
        today=lambda: today,
    )
