"""What a scheduled job has to run, with every word checked: it ends up in shell scripts and unit files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import SpecError

_WORD = re.compile(r"[A-Za-z0-9_./+=,@:-]+", re.ASCII)
_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A Conan remote as jobs have to know it; with `allow_http` its address may be plain HTTP."""

    name: str
    url: str
    allow_http: bool = False

    @property
    def arguments(self) -> str:
        """What `conan-remote add` gets."""
        return f"{self.name} {self.url}{' --allow-http' if self.allow_http else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """`definition`, `state`, `report` and `registry` are paths as the job sees them, `program` is tfaot-pkg, `folder`
    is where it runs; `at` is HH:MM. With `signed` the job hands over keys, for `remotes` users and passwords.

    Raises SpecError for a word that would mean something to a shell.
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

    def __post_init__(self) -> None:
        words = (self.definition, self.state, self.report, self.registry, self.folder, self.program, self.user)
        for word in (*words, *(word for remote in self.remotes for word in (remote.name, remote.url))):
            if not _WORD.fullmatch(word) or word.startswith("-"):
                raise SpecError(
                    f"cannot be written into a job's definition: {word!r}",
                    hint="use paths and addresses of letters, digits and _ . / + = , @ : - only",
                )
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
        """The variables that Conan reads users and passwords of the remotes from."""
        names = [remote.name.replace("-", "_").upper() for remote in self.remotes]
        return tuple(f"{kind}_{name}" for name in names for kind in ("CONAN_LOGIN_USERNAME", "CONAN_PASSWORD"))


def inside(path: Path, folder: Path) -> str:
    """`path` as seen from `folder`, where it is in it. Raises SpecError elsewhere: a CI job has no other folder."""
    if not path.is_relative_to(folder):
        raise SpecError(
            f"{path} is outside of {folder}, which is all that a CI job sees",
            hint="run this in the repository's top folder, and keep registry and state in it (--state)",
        )
    return path.relative_to(folder).as_posix()
