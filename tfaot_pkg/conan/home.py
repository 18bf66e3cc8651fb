"""A Conan home of our own: made on demand, with no remotes, one command at a time.

It is apart from the user's, because Conan's cache is not safe for parallel writers and because what is built must not
depend on remotes, profiles and settings that happen to be there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import ConanError
from tfaot_pkg.process import CommandFailed, run
from tfaot_pkg.storage import locked, refusal_in, refused, storage_errors, write_file
from tfaot_pkg.temporary import temporary_folder

_NO_REMOTES = '{"remotes": []}\n'
_GLOBAL_CONF = """\
# Made by tfaot-pkg.
core:non_interactive = True
core.version_ranges:resolve_prereleases = False
tools.cmake.cmaketoolchain:generator = Ninja
tools.cmake.cmaketoolchain:user_presets =
"""
_TIMEOUT = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanHome:
    """The Conan home in the folder `root`. `log` gets the full output of every command."""

    root: Path
    log: Path

    @contextmanager
    def opened(self) -> Iterator[OpenHome]:
        """Hold the home for a few commands: made where it is missing, locked against other processes.

        Raises ConanError, StorageError.
        """
        with storage_errors(f"use the Conan home {self.root}"):
            lock = self.root.with_name(self.root.name + ".lock")
            with locked(lock, what=f"the Conan home {self.root}", timeout=3600):
                home = OpenHome(root=self.root, log=self.log)
                self._prepare(home)
                yield home

    def _prepare(self, home: OpenHome) -> None:
        for name, text in (("remotes.json", _NO_REMOTES), ("global.conf", _GLOBAL_CONF)):
            if not (self.root / name).is_file():
                write_file(self.root / name, text.encode())
        # A profile without a compiler is from a time when none was installed.
        profile = self.root / "profiles" / "default"
        if not profile.is_file() or "compiler=" not in profile.read_text():
            home.conan("profile", "detect", "--force")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenHome:
    """A Conan home that this process holds."""

    root: Path
    log: Path

    def conan(self, *arguments: str, env: Mapping[str, str] | None = None) -> str:
        """Run `conan ARGUMENTS` and return its standard output. Raises ConanError.

        `env` are more variables for it; unlike arguments they are seen in no list of processes and no log.
        """
        variables = {**conan_environment(self.root), **(env or {})}
        try:
            with temporary_folder(prefix="tfaot-conan-") as scratch:
                # Its temporary files, and those of the compilers that it starts, go with it, also when it is killed.
                variables["TMPDIR"] = str(scratch)
                return run(conan_argv(arguments), env=variables, log=self.log, timeout=_TIMEOUT).stdout
        except CommandFailed as error:
            if line := refusal_in(error.output):
                raise refused(f"use the Conan home {self.root}", line) from error
            raise ConanError(
                f"conan {arguments[0]} failed ({error.reason}): {_reason(error.output)}",
                hint=f"to repeat it: CONAN_HOME={self.root} {error.command}",
                log=self.log,
            ) from error

    def conan_json(self, *arguments: str, env: Mapping[str, str] | None = None) -> Mapping[str, object]:
        """Run `conan ARGUMENTS --format=json`, Conan's stable interface. Raises ConanError."""
        text = self.conan(*arguments, "--format=json", env=env)
        try:
            document = json.loads(text)
        except ValueError as error:
            raise ConanError(f"conan {arguments[0]} printed no JSON", log=self.log) from error
        if not isinstance(document, dict):
            raise ConanError(f"conan {arguments[0]} printed JSON of another form", log=self.log)
        return document


def conan_argv(arguments: Sequence[str]) -> list[str]:
    """Conan of this Python: a script of that name on the PATH may be another's."""
    return [sys.executable, "-m", "conans.conan", *arguments]


def conan_environment(root: Path) -> dict[str, str]:
    """The environment of this process, with Conan at home in `root` and this Python's CMake and Ninja found first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CONAN")}
    path = os.pathsep.join(filter(None, [str(Path(sys.executable).parent), kept.get("PATH")]))
    return {**kept, "CONAN_HOME": str(root), "PATH": path}


def _reason(output: str) -> str:
    """Conan's own message: from its last line that begins with ERROR on."""
    lines = output.rstrip().splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("ERROR: ")]
    if not starts:
        return "\n".join(lines[-5:])
    return "\n".join(lines[starts[-1] :]).removeprefix("ERROR: ")
