"""Definitions of jobs that run the nightly: for CI services, systemd and cron. Those of workers: ci_workers.py.

`Job` says what is to be run, with every word checked, because it ends up in shell scripts and unit files; `render`
writes it down. Secrets are named, never held.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import jinja2

from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground import resources

_WORD = re.compile(r"[A-Za-z0-9_./+=,@:-]+", re.ASCII)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A Conan remote for a job; with `allow_http` its address may be plain HTTP."""

    name: str
    url: str
    allow_http: bool = False

    @property
    def arguments(self) -> str:
        """The arguments of `conan-remote add`."""
        return f"{self.name} {self.url}{' --allow-http' if self.allow_http else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`definition`, `state`, `report` and `registry` are paths on the job's machine, `program` is tfaot-pkg, `folder`
    its working folder; `at` is HH:MM. With `signed` the job passes keys, with `remotes` users and passwords. With
    `notifies` it tells owners what is new, which takes `notify_secrets`.

    Raises SpecError for a word with characters that are special in a shell or a unit file.
    """

    definition: str
    state: str
    report: str
    registry: str
    folder: str
    program: str
    version: str
    at: str = "01:17"
    user: str = "tfaot"
    signed: bool = False
    remotes: tuple[Remote, ...] = ()
    notifies: bool = False
    notify_secrets: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        words = (self.definition, self.state, self.report, self.registry, self.folder, self.program, self.user)
        require_words(*words, *(word for remote in self.remotes for word in (remote.name, remote.url)))
        if not _TIME.fullmatch(self.at):
            raise SpecError(f"--at: must be a time such as 01:17, got {self.at!r}")

    @property
    def hour(self) -> int:
        return int(self.at[:2])

    @property
    def minute(self) -> int:
        return int(self.at[3:])

    @property
    def passwords(self) -> tuple[str, ...]:
        """The variables from which Conan reads users and passwords of the remotes."""
        names = [remote.name.replace("-", "_").upper() for remote in self.remotes]
        return tuple(f"{kind}_{name}" for name in names for kind in ("CONAN_LOGIN_USERNAME", "CONAN_PASSWORD"))

    @property
    def secrets(self) -> tuple[str, ...]:
        """All variables that are secret, beside the keys."""
        return (*self.passwords, *self.notify_secrets)

    @property
    def report_options(self) -> str:
        """The last options of `nightly report`."""
        return f"--output {self.report} --catalogue{' --notify' if self.notifies else ''}"


def require_words(*words: str) -> None:
    """Raise SpecError for a word that is special in a shell, a unit file or a submit file."""
    for word in words:
        # A word that begins with a dash would be taken for an option.
        if not _WORD.fullmatch(word) or word.startswith("-"):
            raise SpecError(
                f"cannot be written into a job's definition: {word!r}",
                hint="use paths and addresses of letters, digits and _ . / + = , @ : - only",
            )


def inside(path: Path, folder: Path) -> str:
    """`path` relative to `folder`. Raises SpecError if it is outside: a CI job sees no other folder."""
    if not path.is_relative_to(folder):
        raise SpecError(
            f"{path} is outside {folder}, the only folder that a CI job has",
            hint="run this in the repository's top folder, and keep registry and state in it (--state)",
        )
    return path.relative_to(folder).as_posix()


System = Literal["github", "gitlab", "jenkins", "systemd", "cron"]
IN_REPOSITORY: frozenset[str] = frozenset({"github", "gitlab", "jenkins"})
"""Systems whose jobs see a checkout of the repository only."""

FILES: dict[System, tuple[str, ...]] = {
    "github": ("nightly.yml",),
    "gitlab": (".gitlab-ci.yml",),
    "jenkins": ("Jenkinsfile",),
    "systemd": ("tfaot-nightly.service", "tfaot-nightly.timer"),
    "cron": ("crontab",),
}


def render(system: System, job: Job) -> dict[str, str]:
    """The files of `system` by name, with `job` in them."""
    names = FILES[system]
    # Without the dot of .gitlab-ci.yml: among the templates it would be a hidden file.
    return {name: environment().get_template(f"{system}/{name.lstrip('.')}.j2").render(job=job) for name in names}


@functools.cache
def environment() -> jinja2.Environment:
    """The templates of jobs, with `<<` and `>>` around expressions."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(resources.templates() / "ci"),
        # A misspelled name must fail here: a job with an empty word would fail, or do something else, in the night.
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # `{{` is part of the expressions of GitHub's workflows.
        variable_start_string="<<",
        variable_end_string=">>",
    )
