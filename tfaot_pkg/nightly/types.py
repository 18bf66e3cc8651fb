"""The values that a night passes through: definition, task, decision, outcome.

`NightlyDefinition` (what is to be kept fresh) -> `Decision` per task (why it is built, or not) -> `Outcome` per task
(what became of it). All of them are JSON documents too: plans, records and the history hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal

from tfaot_pkg.keys import Key

Action = Literal["build", "up to date", "skip", "fail"]
"""`fail`: its spec or source is such that it cannot even be planned; the reason's `what` is the error's kind."""

OutcomeKind = Literal[
    "published",
    "up to date",
    "skipped",
    "withheld",
    "build failed",
    "validation failed",
    "not reproducible",
    "dependency failed",
    "upload failed",
    "timed out",
    "out of memory",
    "infrastructure failed",
]
"""`withheld`: verified, but so much else failed in that night that nothing was published. `upload failed`: the registry
has it, but not every Conan remote."""

MODEL_FAULTS: frozenset[OutcomeKind] = frozenset(
    {"build failed", "validation failed", "not reproducible", "timed out", "out of memory"}
)
"""Faults of a model: trying again does not help. All others are of the machines, or of another model."""

OF_MACHINES: frozenset[OutcomeKind] = frozenset({"infrastructure failed", "upload failed"})
"""Faults of machines: the next night mends them by itself, if they are gone by then."""

FAILURES: frozenset[OutcomeKind] = MODEL_FAULTS | {"dependency failed", "infrastructure failed"}


ChangedSource = Literal["refuse", "build"]
"""What becomes of a published version whose model's files changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of a night. `max_failures` is the share of tasks built that may newly fail before nothing is published;
    `timeout` is in seconds and `memory` and `output` in bytes, per build; `retries` are of infrastructure failures.
    With `reproduce` every build is made twice and compared. `keep_nights` is None where all of them stay. A night whose
    cluster has no worker for `worker_wait` seconds ends.
    `unverified_targets` are published without validation where no machine of the night can run their code.
    """

    max_failures: float = 0.2
    timeout: float = 1800.0
    memory: int = 4 * 2**30
    output: int = 2**30
    retries: int = 2
    reproduce: bool = False
    keep_nights: int | None = None
    changed_source: ChangedSource = "refuse"
    worker_wait: float = 1800.0
    unverified_targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBroken:
    """A model that is known not to build with a toolchain: it is not tried."""

    since: date
    issue: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSpec:
    """A spec in another repository: `path` in the commit `revision` of `url`."""

    url: str
    revision: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One model, or all that a glob names. `specs` is a glob relative to the definition's folder, or a spec elsewhere
    (then that is `origin` too).

    Empty `toolchains` and `targets` stand for the definition's. `defines` are the values of `env.*` in the specs,
    `depends` names models that must be published before this one; `known_broken` goes by toolchain.
    """

    specs: str | GitSpec
    toolchains: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    depends: tuple[str, ...] = ()
    known_broken: Mapping[str, KnownBroken] = field(default_factory=dict)

    @property
    def origin(self) -> GitSpec | None:
        return self.specs if isinstance(self.specs, GitSpec) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyDefinition:
    """What a registry is to hold: registry.yaml. Empty `toolchains` and `targets` stand for each spec's own.

    `registry` is an absolute path. `remotes` are Conan remotes that get the packages too.
    """

    path: Path
    registry: Path
    models: tuple[ModelEntry, ...]
    toolchains: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()
    policy: Policy = Policy()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One model to be kept fresh for one toolchain and one set of targets. `defines` are for reading its spec.

    `origin` is where the spec was fetched from, or was to be, where that is another repository.
    """

    model: str
    version: str
    toolchain: str
    targets: tuple[str, ...]
    spec: Path
    depends: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    origin: GitSpec | None = None

    @property
    def id(self) -> str:
        """`digits@1.0.0+tf2.17.1`: also the beginning of the versions that it publishes.

        Where a spec cannot be read, so much of it as is known.
        """
        version = f"@{self.version}" if self.version else ""
        return f"{self.model}{version}{f'+tf{self.toolchain}' if self.toolchain else ''}"

    def release(self, number: int) -> str:
        """The version of its build `number` (from 1 on) in the index: PEP 440's local version, `1.0.0+tf2.17.1.b3`."""
        return f"{self.version}+tf{self.toolchain}.b{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a task is built, or not: `what` is a component ("source", "spec", "toolchain", ...), `detail` says what about
    it ("compilation.batch_sizes (spec.yaml:14): [1, 4] -> [1, 8]").
    """

    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be done about a task. `release` is the version to be published, or that is published; `key` the
    package's at that version (empty with `fail`); `inputs` the components of the key by name (package_key.py), only
    where it is built: what explains the next change.
    """

    task: Task
    action: Action
    reasons: tuple[Reason, ...]
    release: str
    key: Key
    inputs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NightPlan:
    """All decisions of one night: a model comes after those that it depends on."""

    definition: NightlyDefinition
    decisions: tuple[Decision, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What is compared from night to night. Sizes are in bytes, times in seconds; latencies are nanoseconds of one run
    by target and batch size; `error` is the largest difference to TensorFlow's outputs.
    """

    library_size: int
    build_time: float
    error: float
    latency: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a task in a night. `error` is the first error in its words, `error_class` a short one that equal
    failures share ("unsupported operation StringJoin"), `log` a path in the night's folder, `command` builds it by
    hand; `builder` says who built it and on which machine, in that one's own words.
    """

    task: str
    model: str
    toolchain: str
    kind: OutcomeKind
    release: str
    key: Key
    seconds: float = 0.0
    attempts: int = 1
    error: str = ""
    error_class: str = ""
    log: str = ""
    command: str = ""
    reasons: tuple[Reason, ...] = ()
    figures: Figures | None = None
    builder: str = ""
