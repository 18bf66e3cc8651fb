"""What a night was made with, for its record; and its packages built again from that record."""

from __future__ import annotations

import fnmatch
import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import TfaotError
from tfaot_pkg.ground.cpu import this_cpu
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.nightly.farm.tool import described, tool_digest
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.state import NightFolder, Record
from tfaot_pkg.nightly.types import Decision, Task
from tfaot_pkg.pipeline.rebuild import Means, rebuild_check
from tfaot_pkg.registry.reader import RegistryReader
from tfaot_pkg.spec.source.checkout import commit_of
from tfaot_pkg.spec.types import INPUTS_KEY, FolderSource

_IMAGES = ("CI_JOB_IMAGE", "ImageOS", "ImageVersion")
"""Variables in which GitLab and GitHub name the image of a job."""


def record_of(definition: Path, decisions: Sequence[Decision]) -> Record:
    """What a night of `definition` is made with here and now. Raises StorageError."""
    specs = {one.task.spec for one in decisions if one.task.origin is None}
    commit, modified = commit_of([definition, *sorted(specs)])
    return Record(commit=commit, modified=modified, tool=described(__version__, tool_digest()), machine=machine())


def machine() -> Mapping[str, str]:
    """What people want to know of the machine that runs here."""
    system = platform.system()
    with suppress(OSError):
        system = platform.freedesktop_os_release().get("PRETTY_NAME", system)
    found = {
        "name": platform.node(), "system": system, "kernel": platform.release(), "processor": str(this_cpu()),
        "cpus": str(os.cpu_count() or 1), "python": platform.python_version(),
        "image": " ".join(filter(None, map(os.environ.get, _IMAGES))),
    }  # fmt: skip
    return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reproduced:
    """A package of a night, built again: `verdict` as of `rebuild-check`, or "failed" with the error in `reasons`."""

    task: str
    release: str
    verdict: str
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.release}: {self.verdict}", *(f"  {each}" for each in self.reasons)])


def reproduce(night: NightFolder, registry: RegistryReader, means: Means, *, model: str = "*") -> Iterator[Reproduced]:
    """Build what `night` published again, with an empty cache, and compare every byte. `model` is a pattern.

    Model files in folders are those of the specs' own places, as they are now; they must be those of the night. Raises
    NetworkError and StorageError of the registry.
    """
    tasks = {one.task.id: one.task for one in night.decisions()}
    for outcome in night.outcomes():
        if outcome.kind == "published" and outcome.task in tasks and fnmatch.fnmatchcase(outcome.model, model):
            name = f"{outcome.model}@{outcome.release}"
            try:
                found = rebuild_check(registry, name, _means(tasks[outcome.task], outcome.release, means))
            except TfaotError as error:
                yield Reproduced(task=outcome.task, release=name, verdict="failed", reasons=(error.message,))
                continue
            reasons = (*found.reasons, *map(str, found.differing))
            verdict: str = found.verdict
            if found.entry.key != outcome.key:
                verdict, reasons = "failed", (f"the registry has another package of that version: {found.entry.key}",)
            yield Reproduced(task=outcome.task, release=name, verdict=verdict, reasons=reasons)


def _means(task: Task, release: str, means: Means) -> Means:
    """`means` with the files that `task` reads from this machine; what is not there is told by the rebuild."""
    try:
        spec = spec_for(task, release)
    except (TfaotError, OSError):
        return means
    rows, target = spec.data_files.get(INPUTS_KEY), TARGETS[spec.compilation.targets[0]]
    folder = spec.source.path if isinstance(spec.source, FolderSource) else None
    return replace(means, source=folder, inputs=rows, architecture=target.architecture)
