"""Named Conan remotes that packages are uploaded to, and where their user and password come from.

`folders.data/conan-remotes.json` holds name, address, user and the *place* of a password file; never a password.
Passwords reach Conan by its own environment variables, so they are in no list of processes and in no log.
"""

from __future__ import annotations

import getpass
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tfaot_pkg.documents import read, write
from tfaot_pkg.errors import ConanError
from tfaot_pkg.folders import Folders
from tfaot_pkg.remote.address import Address
from tfaot_pkg.storage import locked, storage_errors, write_file

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanRemote:
    """A Conan remote under a name of the user's. `user` and `password_file` are empty where nothing was said."""

    name: str
    url: str
    allow_http: bool = False
    user: str = ""
    password_file: str = ""

    @property
    def user_variable(self) -> str:
        """Conan's own variable for the user of this remote."""
        return f"CONAN_LOGIN_USERNAME_{self._suffix}"

    @property
    def password_variable(self) -> str:
        return f"CONAN_PASSWORD_{self._suffix}"

    @property
    def _suffix(self) -> str:
        return self.name.replace("-", "_").upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """Who uploads. The password is in no text of this object."""

    user: str
    password: str = field(repr=False)

    def variables(self, remote: ConanRemote) -> dict[str, str]:
        """What Conan reads them from."""
        return {remote.user_variable: self.user, remote.password_variable: self.password}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanRemotes:
    """The user's Conan remotes, in one file. All methods raise StorageError; ConanError where it is damaged."""

    file: Path

    @classmethod
    def of(cls, folders: Folders) -> ConanRemotes:
        return cls(file=folders.data / "conan-remotes.json")

    def all(self) -> tuple[ConanRemote, ...]:
        """Sorted by name."""
        with storage_errors(f"read {self.file}"):
            try:
                data = self.file.read_bytes()
            except FileNotFoundError:
                return ()
        document = read(_File, data, str(self.file), error=ConanError, hint="delete it and add the remotes again")
        for remote in document.remotes:
            Address.parse(remote.url, allow_http=remote.allow_http)
        return document.remotes

    def get(self, name: str) -> ConanRemote:
        """Raises ConanError where the name is unknown."""
        found = next((remote for remote in self.all() if remote.name == name), None)
        if found is None:
            known = ", ".join(remote.name for remote in self.all())
            raise ConanError(
                f"there is no Conan remote of the name {name}",
                hint=f"known: {known}" if known else "tfaot-pkg conan-remote add NAME URL makes it known",
            )
        return found

    def add(self, remote: ConanRemote) -> None:
        """Remember `remote`, in place of one of the same name. Raises ConanError for a name that will not do."""
        if not _NAME.fullmatch(remote.name):
            raise ConanError(
                f"{remote.name!r} is not a name for a remote",
                hint="up to 64 lower-case letters, digits, '_' and '-', a letter or digit first",
            )
        with self._changing() as remotes:
            remotes[remote.name] = remote

    def remove(self, name: str) -> None:
        """Forget a remote. Raises ConanError where the name is unknown."""
        self.get(name)
        with self._changing() as remotes:
            remotes.pop(name, None)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, ConanRemote]]:
        with storage_errors(f"write {self.file}"):
            with locked(self.file.with_name(".conan-remotes.lock"), what=f"{self.file}", timeout=60):
                remotes = {remote.name: remote for remote in self.all()}
                yield remotes
                known = tuple(remotes[name] for name in sorted(remotes))
                write_file(self.file, write(_File(remotes=known)), mode=0o600)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    remotes: tuple[ConanRemote, ...]
    format: int = 1


def ask_at_terminal(prompt: str) -> str | None:
    """What the user types, unseen; None where nobody is there to type."""
    return getpass.getpass(prompt) if sys.stdin.isatty() and sys.stderr.isatty() else None


def credentials_for(
    remote: ConanRemote, environ: Mapping[str, str], ask: Callable[[str], str | None] = ask_at_terminal
) -> Credentials:
    """User and password for `remote`: from `environ` (Conan's variables), the remote's password file, or `ask`.

    Raises ConanError where none of them knows, StorageError where the file cannot be read.
    """
    user = environ.get(remote.user_variable) or remote.user
    if not user:
        raise ConanError(
            f"nothing says who uploads to the Conan remote {remote.name}",
            hint=f"set {remote.user_variable}, or: tfaot-pkg conan-remote add {remote.name} {remote.url} --user NAME",
        )
    password = environ.get(remote.password_variable) or _from_file(remote)
    password = password or ask(f"password of {user} at {remote.name} ({remote.url}): ") or ""
    if not password:
        raise ConanError(
            f"nothing says the password of {user} at the Conan remote {remote.name}",
            hint=f"set {remote.password_variable}, or conan-remote add ... --password-file FILE, or use a terminal",
        )
    return Credentials(user=user, password=password)


def _from_file(remote: ConanRemote) -> str:
    """The first line of the password file."""
    if not remote.password_file:
        return ""
    with storage_errors(f"read the password of the Conan remote {remote.name}"):
        file = Path(remote.password_file)
        if file.stat().st_mode & 0o077:
            raise ConanError(
                f"others can read the password file {file}", hint=f"chmod 600 {file}, and change the password"
            )
        return next(iter(file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()), "")
