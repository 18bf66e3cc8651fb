"""What coordinator and workers write for each other, as JSON documents in cells and blobs.

cell `farm`           Farm       the coordinator's: what is to be built, and who gets no builds
cell `worker-NAME`    Presence   a worker's, written again and again while it runs
cell `lease-OFFER`    Lease      of one try at a build; a worker's, until the coordinator withdraws it
blob                  Job        the request of an offer, with the files of its model, which are blobs too
blob                  Told       how a build ended; its log and the parts of its package are blobs
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tfaot_pkg.nightly.outcome import AttemptKind
from tfaot_pkg.nightly.types import Decision, Figures, Policy

FARM = "farm"
WORKER, LEASE = "worker-", "lease-"
"""Prefixes of cells' names."""

WITHDRAWN = b"withdrawn"
"""What the coordinator writes over a lease that it no longer waits for."""

LEASE_SECONDS = 120.0
"""Seconds after which a lease that its worker did not renew is withdrawn. Workers renew it four times as often."""

POLL_SECONDS = 2.0
"""Seconds between looks at the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A try at a build. `request` is the digest of its `Job`; the workers `avoid` (names, or those of their
    keys) may not take it.
    """

    id: str
    request: str
    avoid: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """What a night wants now. Only workers with the code `tool` (tool.py) may take an offer; `version` names it for
    people. `lease` and `timeout` are seconds: until a lease that is not renewed is withdrawn, and of a build at most.
    """

    tool: str
    version: str
    lease: float
    timeout: float
    offers: tuple[Offer, ...] = ()
    suspended: tuple[str, ...] = ()
    format: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """A worker: its code, and a number that grows."""

    tool: str
    version: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A try of `worker`; `count` grows with each renewal. `result` is the digest of its `Told` when it is done.

    `returned`: its worker has to end, and built nothing.
    """

    offer: str
    worker: str
    state: Literal["held", "done", "returned"] = "held"
    count: int = 0
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The request of an offer. `files` are those of the model: digests by path (bundle.py); `data` are paths among
    them, of the files of rows by the keys of the spec that name them.
    """

    decision: Decision
    night: str
    policy: Policy
    files: Mapping[str, str]
    data: Mapping[str, str] = field(default_factory=dict)
    format: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How a build ended, in its worker's words: as in `Attempt`. `line` is the index line of a verified package; the
    blobs that it names are in the store. `log` is the digest of the build's output.
    """

    offer: str
    kind: AttemptKind
    seconds: float
    memory: int
    error: str = ""
    error_class: str = ""
    figures: Figures | None = None
    builder: str = ""
    line: str = ""
    log: str = ""
    format: int = 1
