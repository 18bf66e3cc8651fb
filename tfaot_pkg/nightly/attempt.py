"""One try at building a task: what is asked (`Request`) and what came of it (`Attempt`). Both cross processes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from tfaot_pkg.nightly.types import Decision, Figures, Policy

AttemptKind = Literal[
    "verified",
    "build failed",
    "validation failed",
    "not reproducible",
    "timed out",
    "out of memory",
    "infrastructure failed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Build `decision` in `night`: the result goes into the state folder `state`, what is printed to the end of `log`.

    `cache` holds toolchains, downloads and the build cache, which builds share. `program` is what builds (with the path
    of a file of this request as its last argument), in place of build_task.py.
    """

    decision: Decision
    night: str
    state: Path
    log: Path
    cache: Path
    policy: Policy
    program: tuple[str, ...] = ()

    def write(self, path: Path) -> None:
        """Write the file that the program that builds reads."""
        path.write_bytes(TypeAdapter(Request).dump_json(self))

    @classmethod
    def read(cls, path: Path) -> Request:
        """What `write` wrote."""
        return TypeAdapter(cls).validate_json(path.read_bytes())


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What came of a request. `seconds` is the time that it took, `memory` the most bytes that were seen in use.

    `error`, `error_class` and `builder` are as in `Outcome`; `night` is the one that the result is of.
    """

    kind: AttemptKind
    night: str
    seconds: float = 0.0
    memory: int = 0
    error: str = ""
    error_class: str = ""
    figures: Figures | None = None
    builder: str = ""

    @property
    def is_final(self) -> bool:
        """Whether trying again in the same night cannot help."""
        return self.kind != "infrastructure failed"
