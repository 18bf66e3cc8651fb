"""The values that a night passes through: definition, task, decision, outcome.

`NightlyDefinition` (what to keep up to date) -> `Decision` per task (whether and why it is built) -> `Outcome` per task
(its end). Decisions and outcomes are JSON documents too, in plans and in the history: readers ignore unknown names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Literal

from tfaot_pkg.ground.keys import Key
from tfaot_pkg.verify.beside import Apart
from tfaot_pkg.verify.turns import Turns

Action = Literal["build", "failed before", "refuse", "up to date", "skip", "fail"]
"""`failed before`: an earlier night built the same inputs, and failed. `refuse`: the files of a published version
changed, or it was yanked. `fail`: its spec or source cannot be read, so it cannot be planned; the reason's `what` is
the error's kind.
"""

TO_BUILD: tuple[Action, ...] = ("build", "failed before")
"""Actions that may publish: what failed before is built if its failure is not stored any more."""

OutcomeKind = Literal[
    "infrastructure failed",
    "upload failed",
    "build failed",
    "validation failed",
    "not reproducible",
    "timed out",
    "out of memory",
    "dependency failed",
    "withheld",
    "worse",
    "refused",
    "published",
    "skipped",
    "up to date",
]
"""In the order in which reports show them. `withheld`: verified, but too many builds with its toolchain newly failed.
`worse`: verified, but worse than the published build by more than policy.regression allows.
`refused`: the files of a published version changed, or it was yanked. `upload failed`: the registry has it, but not
every Conan remote."""

MODEL_FAULTS: frozenset[OutcomeKind] = frozenset(
    {"build failed", "validation failed", "not reproducible", "timed out", "out of memory"}
)
"""Faults of a model: another try ends in the same way. All others are of machines, or of another model."""

OF_MACHINES: frozenset[OutcomeKind] = frozenset({"infrastructure failed", "upload failed"})
"""Faults of machines: the next night tries again, and succeeds if they are gone."""

FAILURES: frozenset[OutcomeKind] = MODEL_FAULTS | {"dependency failed", "infrastructure failed"}


ChangedSource = Literal["refuse", "build"]
"""How to treat a published version if the model's files changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """How many times as slow, large, imprecise or hungry a build may be as the published one; None: any.

    `answers`: whether its answers to the pinned inputs may have other bits.
    """

    speed: float | None = None
    size: float | None = None
    error: float | None = None
    memory: float | None = None
    answers: Literal["publish", "refuse"] = "publish"


@dataclass(frozen=True, slots=True, kw_only=True)
class Builders:
    """How many independent builders must make the same bytes (`needed`), and how many may try (`most`)."""

    needed: int = 1
    most: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Limits of a night. If a larger share than `max_failures` of a toolchain's builds newly fails, none of them is
    published; `timeout` is in seconds, `memory` and `output` in bytes, each per build; `retries` are of infrastructure
    failures. With `reproduce` every build is made twice and compared. `keep_nights`, `keep_builds` and
    `keep_toolchains` are None if all of them stay (registry/retention.py); `keep_locked` are lock files, or patterns of
    their paths, relative to the definition. A night ends if its cluster has no worker for `worker_wait` seconds.
    `unverified_targets` are published without validation if no machine of the night can run their code. `regression`
    is what is not published; `retime_days` after how many days packages that did not change are timed again.
    """

    max_failures: float = 0.2
    timeout: float = 1800.0
    memory: int = 4 * 2**30
    output: int = 2**30
    retries: int = 2
    reproduce: bool = False
    keep_nights: int | None = None
    keep_builds: int | None = None
    keep_toolchains: int | None = None
    keep_locked: tuple[str, ...] = ()
    changed_source: ChangedSource = "refuse"
    worker_wait: float = 1800.0
    unverified_targets: tuple[str, ...] = ()
    regression: Regression = Regression()
    builders: Builders = Builders()
    retime_days: int | None = None


OWN = "tfaot"
"""The toolchain of tasks whose models no TensorFlow reads (spec/formats.py): this tool, with a front-end's environment.

Releases named by it are newer than those of earlier versions, which were named by a TensorFlow all the same.
"""

_RELEASE = re.compile(rf".*\+(?:tf(?P<tensorflow>[0-9][^+]*)|{OWN})\.b[1-9][0-9]*")


def toolchain_in(release: str) -> str | None:
    """The toolchain of the task that `release` is a build of; None if no night published it."""
    found = _RELEASE.fullmatch(release)
    return None if found is None else found["tensorflow"] or OWN


def goes_with(toolchain: str, other: str) -> bool:
    """Whether packages made with these toolchains are used together: one without TensorFlow goes with any."""
    return toolchain == other or OWN in (toolchain, other)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownBroken:
    """A model that is known not to build with a toolchain: it is skipped."""

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

    Empty `toolchains`, `targets` and `owners` (mail addresses) mean the definition's. `defines` are the values of
    `env.*` in the specs, `depends` names models that must be published before this one; `known_broken` goes by
    toolchain.
    """

    specs: str | GitSpec
    toolchains: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    depends: tuple[str, ...] = ()
    known_broken: Mapping[str, KnownBroken] = field(default_factory=dict)
    owners: tuple[str, ...] = ()

    @property
    def origin(self) -> GitSpec | None:
        return self.specs if isinstance(self.specs, GitSpec) else None

    def tasks(
        self, definition: NightlyDefinition, model: str, version: str, spec: Path, *, toolchain: str,
        targets: tuple[str, ...],
    ) -> Iterator[Task]:  # fmt: skip
        """The tasks of one model of this entry, one for each toolchain; `toolchain` and `targets` are its spec's.

        One in all if the spec's toolchain is OWN.
        """
        for each in (OWN,) if toolchain == OWN else self.toolchains or definition.toolchains or (toolchain,):
            yield Task(
                model=model, version=version, toolchain=each, targets=self.targets or definition.targets or targets,
                spec=spec, depends=self.depends, defines=self.defines, origin=self.origin,
                owners=self.owners or definition.owners,
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """How notices are mailed from the address `sender`. A `user` has a password in the variable MAIL_PASSWORD."""

    server: str
    sender: str
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    user: str = ""


MAIL_PASSWORD = "TFAOT_MAIL_PASSWORD"  # noqa: S105 (a name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address to which notices are posted: `url`, or the value of the environment `variable`, if it is secret."""

    url: str = ""
    variable: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notify:
    """The ways to tell people what a night brought."""

    mail: Mail | None = None
    webhooks: tuple[Webhook, ...] = ()

    @property
    def is_wanted(self) -> bool:
        return self.mail is not None or bool(self.webhooks)

    @property
    def secrets(self) -> tuple[str, ...]:
        """The environment variables that must be set."""
        password = (MAIL_PASSWORD,) if self.mail is not None and self.mail.user else ()
        return (*password, *(each.variable for each in self.webhooks if each.variable))


@dataclass(frozen=True, slots=True, kw_only=True)
class NightlyDefinition:
    """The wanted content of a registry: registry.yaml. Empty `toolchains` and `targets` mean each spec's own.

    `registry` is an absolute path. `remotes` are Conan remotes to which the packages are uploaded. `builders` are the
    public keys of the workers of a farm that may build; any, if there are none. `timing` are those of the workers that
    take turns; the coordinator does, if there are none. `owners` are mail addresses: of models
    that name no others, and of the registry; `notify` is how they learn what is new.
    """

    path: Path
    registry: Path
    models: tuple[ModelEntry, ...]
    toolchains: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    remotes: tuple[str, ...] = ()
    builders: tuple[str, ...] = ()
    timing: tuple[str, ...] = ()
    policy: Policy = Policy()
    owners: tuple[str, ...] = ()
    notify: Notify = Notify()


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One model to keep up to date for one toolchain and one set of targets. `defines` are for reading its spec.

    `toolchain` is a release of TensorFlow, or OWN; "" if that is not known because the spec cannot be read. `origin` is
    the place of a spec in another repository. `owners` are mail addresses.
    """

    model: str
    version: str
    toolchain: str
    targets: tuple[str, ...]
    spec: Path
    depends: tuple[str, ...] = ()
    defines: Mapping[str, str] = field(default_factory=dict)
    origin: GitSpec | None = None
    owners: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """`digits@1.0.0+tf2.17.1`; published versions begin like this.

        If the spec cannot be read, the known parts.
        """
        version = f"@{self.version}" if self.version else ""
        return f"{self.model}{version}{f'+{self._local}' if self.toolchain else ''}"

    @property
    def tensorflow(self) -> str:
        """The release of TensorFlow that it is built with; "" if there is none."""
        return "" if self.toolchain == OWN else self.toolchain

    @property
    def _local(self) -> str:
        return f"tf{self.tensorflow}" if self.tensorflow else OWN

    @property
    def builds(self) -> str:
        """What the versions of its builds begin with."""
        return f"{self.version}+{self._local}.b"

    def release(self, number: int) -> str:
        """The version of its build `number` (from 1 on) in the index: PEP 440's local version, `1.0.0+tf2.17.1.b3`."""
        return f"{self.builds}{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a task is built, or not: `what` is a component ("source", "spec", "toolchain", ...), `detail` the change of
    it ("compilation.batch_sizes (spec.yaml:14): [1, 4] -> [1, 8]").
    """

    what: str
    detail: str

    def __str__(self) -> str:
        return f"{self.what}: {self.detail}" if self.detail else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do about a task. `release` is the version to be published, or that is published; `key` the package's key
    at that version (empty with `fail`); `inputs` the components of the key by name (package_key.py), only for a build:
    they explain the next change.
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
    """The figures that reports compare. Sizes are in bytes, times in seconds; latencies are nanoseconds of one run
    by target and batch size; `error` is the largest difference to TensorFlow's outputs, `processor` the CPU that was
    measured ("": not known). `answers` are digests of the answers to the pinned inputs (verify/corpus.py), by "fused"
    and "unfused": targets with and without fused multiply-add; empty for packages that do not promise the same bits.
    """

    library_size: int
    build_time: float
    error: float
    latency: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    processor: str = ""
    answers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The end of a task in a night. `error` is the text of the first error, `error_class` a short one that similar
    failures share ("unsupported operation StringJoin"), `log` a path in the night's folder, `command` builds it by
    hand; `builder` is the builder's own statement of user and machine, which nobody verified.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A build of `task` beside the release `base` that was published before it. Pairs are (before, now), in bytes.

    `error` is the largest difference to the framework's outputs, `memory` the scratch memory of the largest batch that
    was compiled. `apart` says how far answers to the pinned inputs are apart, None if they have the same bits, or are
    not compared for the reason `not_compared`. `turns` are None if they were not taken (yet), for the reason
    `not_timed`. `time` is when, in UTC.
    """

    task: str
    release: str
    key: Key
    base: str
    base_key: Key
    size: tuple[int, int]
    error: tuple[float, float] | None = None
    memory: tuple[int, int] | None = None
    apart: Apart | None = None
    not_compared: str = ""
    turns: Turns | None = None
    not_timed: str = ""
    reasons: tuple[Reason, ...] = ()
    time: str = ""

    @property
    def is_of_one_version(self) -> bool:
        """Whether both are builds of one version, whose answers are expected to be the same."""
        return self.base.partition("+")[0] == self.release.partition("+")[0]
