"""Definitions of jobs that run pull workers: on Slurm, HTCondor and Kubernetes.

Each is one job of many workers. They need the store that the coordinator uses, the same version of tfaot-pkg, and a C++
compiler; paths, accounts and queues are the site's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from tfaot_pkg.errors import SpecError
from tfaot_pkg.nightly.ci import environment, require_words
from tfaot_pkg.nightly.types import Policy

BatchSystem = Literal["htcondor", "slurm", "kubernetes"]
FILES: dict[BatchSystem, str] = {"htcondor": "worker.sub", "slurm": "worker.sh", "kubernetes": "worker.yaml"}

_LINE = re.compile(r"[^\x00-\x1f\x7f]+")
_OWN_MEMORY = 2**30
"""Bytes for the worker process itself, in addition to the build that it runs."""
_BUILDS = 8
"""A worker's time, in builds of policy.timeout each."""
_TOOLCHAIN = 6 * 2**30
"""Bytes of the toolchains that a worker makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJob:
    """`workers` workers of the store `results`, each for builds within `policy`. `program` is tfaot-pkg, `image` the
    container image that has it; `logs` is a folder, `directives` are further lines of the job.

    Raises SpecError for a word with characters that are special in a shell or a submit file.
    """

    results: str
    program: str
    policy: Policy
    workers: int = 10
    logs: str = "logs"
    image: str = ""
    directives: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_words(self.results, self.program, self.logs, *([self.image] if self.image else []))
        for line in self.directives:
            if not _LINE.fullmatch(line):
                raise SpecError(f"--directive: must be one line, got {line!r}")

    @property
    def minutes(self) -> int:
        return -(-round(self.policy.timeout * _BUILDS) // 60)

    @property
    def memory(self) -> int:
        """Bytes."""
        return self.policy.memory + _OWN_MEMORY

    @property
    def disk(self) -> int:
        """Bytes."""
        return 4 * self.policy.output + _TOOLCHAIN


def render_workers(system: BatchSystem, job: WorkerJob) -> dict[str, str]:
    """The file of `system` by its name. Raises SpecError for what its workers cannot do."""
    if system == "kubernetes":
        if not job.image:
            raise SpecError("--image: Kubernetes needs an image with tfaot-pkg and a C++ compiler")
        if not job.results.startswith("s3://"):
            raise SpecError(
                f"--results: pods see no folder of this machine, got {job.results!r}", hint="s3://BUCKET/PREFIX"
            )
        if job.directives:
            raise SpecError("--directive: is for Slurm and HTCondor; edit the manifest instead")
    name = FILES[system]
    return {name: environment().get_template(f"{system}/{name}.j2").render(job=job)}
