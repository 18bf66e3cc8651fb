"""Uploading a model's Conan package, and the base that its recipe needs, to a remote.

Conan sends a revision's manifest last, and considers a listed revision complete. But if a file before the manifest
fails, it continues with the others, so that an incomplete revision can be listed. Therefore a note is written before an
upload and removed after it: while it is there, the next upload sends everything again.
"""

from __future__ import annotations

import getpass
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tfaot_pkg._version import __version__
from tfaot_pkg.errors import ConanError, NetworkError
from tfaot_pkg.ground.documents import read, write
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.pipeline.conan.package import ARCHITECTURES, ConanHome, OpenHome, export_base
from tfaot_pkg.registry.remote.address import Address, NamedServers
from tfaot_pkg.spec.rules import package_name

UploadStatus = Literal["uploaded", "already there"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """What `upload` did: `sent` are the revisions of recipes and binaries that the server did not have."""

    reference: str
    remote: str
    url: str
    sent: tuple[str, ...]

    @property
    def status(self) -> UploadStatus:
        return "uploaded" if self.sent else "already there"

    def as_dict(self) -> dict[str, object]:
        return {
            "status": self.status,
            "reference": self.reference,
            "remote": self.remote,
            "url": self.url,
            "sent": list(self.sent),
        }


def require_access(home: ConanHome, remote: ConanRemote, credentials: Credentials) -> None:
    """Log in, so that wrong credentials are reported before a build that takes minutes.

    Raises NetworkError if the server does not answer, ConanError if it rejects the user.
    """
    with home.opened() as opened, _meaning(remote, credentials):
        _log_in(opened, remote, credentials)


def upload(
    home: ConanHome,
    reference: str,
    revision: str,
    *,
    remote: ConanRemote,
    credentials: Credentials,
    progress: Progress,
) -> Uploaded:
    """Upload the recipe `reference` (NAME/VERSION) in `revision`, all of its binaries in `home`, and the base.

    What the server has is not sent again; after an error or a kill, the same call completes the work. Raises
    NetworkError (not reached, or lost), ConanError (rejected), StorageError.
    """
    with (
        home.opened() as opened,
        progress.step("upload", total=2, unit="package") as step,
        _meaning(remote, credentials),
    ):
        export_base(opened)
        _log_in(opened, remote, credentials)
        note = _note(opened.root, remote, reference)
        force = ["--force"] if note.exists() else []
        write_file(note, f"{remote.url}\n".encode())
        sent: list[str] = []
        # The base first: the recipe cannot be used without it.
        for pattern in (f"tfaot-pkg/{__version__}", f"{reference}#{revision}:*"):
            # --check: files that were damaged in the home are not uploaded.
            words = ("upload", pattern, "--remote", remote.name, "--confirm", "--check", *force)
            document = opened.conan_json(*words, env=credentials.variables(remote))
            sent += _sent(document.get(remote.name))
            step.advance(note=pattern.partition("/")[0])
        # After the last file: an upload that is killed before is repeated with --force (decision 015).
        note.unlink()
    return Uploaded(reference=reference, remote=remote.name, url=remote.url, sent=tuple(sent))


def binaries_on(home: ConanHome, remote: ConanRemote, credentials: Credentials) -> frozenset[tuple[str, str]]:
    """The models' packages that `remote` has binaries of: NAME/VERSION, and the architecture (x86_64, aarch64).

    Raises NetworkError, ConanError, StorageError.
    """
    with home.opened() as opened, _meaning(remote, credentials):
        _log_in(opened, remote, credentials)
        words = ("list", f"{package_name('')}*/*:*", "--remote", remote.name)
        document = opened.conan_json(*words, env=credentials.variables(remote)).get(remote.name)
    found = set()
    # An error in the place of recipes says that there are none.
    for reference, recipe in (document if isinstance(document, dict) else {}).items():
        for _, revision in _objects(recipe, "revisions") if isinstance(recipe, dict) else ():
            for _, binary in _objects(revision, "packages"):
                settings = dict(_objects(binary, "info")).get("settings", {})
                found.add((reference, ARCHITECTURES.get(str(settings.get("arch")), "")))
    return frozenset(found)


def _log_in(home: OpenHome, remote: ConanRemote, credentials: Credentials) -> None:
    if not _knows(home, remote):
        home.conan("remote", "add", "--force", remote.name, remote.url)
    # A token of an earlier user, or from before a change of password, would still be used.
    home.conan("remote", "logout", remote.name)
    words = ("remote", "auth", remote.name, "--force")
    answer = home.conan_json(*words, env=credentials.variables(remote)).get(remote.name)
    if not isinstance(answer, dict) or answer.get("error") or answer.get("user") != credentials.user:
        raise ConanError(str(answer.get("error")) if isinstance(answer, dict) else "no answer", log=home.log)


def _knows(home: OpenHome, remote: ConanRemote) -> bool:
    """Whether Conan's own list has this remote with this URL. Running Conan would take most of a second."""
    try:
        listed = json.loads((home.root / "remotes.json").read_bytes())["remotes"]
        return any((one["name"], one["url"]) == (remote.name, remote.url) for one in listed)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _note(root: Path, remote: ConanRemote, reference: str) -> Path:
    """The file that notes that an upload has begun."""
    return root / "tfaot-uploads" / remote.name / reference.replace("/", "-")


def _sent(document: object) -> Iterator[str]:
    """The revisions that were uploaded, in Conan's list of packages."""
    if not isinstance(document, dict):
        raise ConanError("Conan did not say what it uploaded")
    for reference, recipe in document.items():
        for revision, one in _objects(recipe, "revisions"):
            if one.get("upload"):
                yield f"{reference}#{revision}"
            for package, binary in _objects(one, "packages"):
                for number, built in _objects(binary, "revisions"):
                    if built.get("upload"):
                        yield f"{reference}#{revision}:{package}#{number}"


def _objects(value: Mapping[str, object], name: str) -> Iterator[tuple[str, dict[str, object]]]:
    inner = value.get(name)
    for key, item in inner.items() if isinstance(inner, dict) else ():
        if isinstance(item, dict):
            yield key, item


# Conan has one exit code for all of these errors; only its messages distinguish them.
_REFUSED = re.compile(
    r"wrong user or password|authentication error|permission denied|forbidden|\b40[13]\b", re.IGNORECASE
)
_UNREACHED = re.compile(
    r"unable to connect|connection ?error|connection (was )?(refused|reset|aborted|broken)|timed out|max retries|"
    r"remotedisconnected|broken pipe|name resolution|error uploading file|retry upload|\b5\d\d\b.*error",
    re.IGNORECASE,
)


@contextmanager
def _meaning(remote: ConanRemote, credentials: Credentials) -> Iterator[None]:
    """Turn Conan's errors into ours: login rejected, server not reached, or anything else."""
    try:
        yield
    except ConanError as error:
        where = f"the Conan remote {remote.name} ({remote.url})"
        if _REFUSED.search(error.message):
            raise ConanError(
                f"{where} rejected the login of {credentials.user}: wrong user or password, or no permission to write",
                hint=f"set {remote.user_variable} and {remote.password_variable}, or change the password file",
                log=error.log,
            ) from error
        if _UNREACHED.search(error.message):
            raise NetworkError(
                f"{where} cannot be reached, or was lost during the upload: {error.message.splitlines()[0]}",
                hint="run the same command again when it answers: what is missing will be sent",
                log=error.log,
            ) from error
        raise


@dataclass(frozen=True, slots=True, kw_only=True)
class ConanRemote:
    """A Conan remote with the name that the user gave it. `user` and `password_file` are empty if not given."""

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
class ConanRemotes(NamedServers[ConanRemote]):
    """The user's Conan remotes."""

    file_name = "conan-remotes.json"
    file_mode = 0o600
    noun = "Conan remote"
    command = "conan-remote add NAME URL"
    marks = "_-"  # no '.': the name becomes part of environment variables of Conan
    fault = ConanError

    def add(self, remote: ConanRemote) -> None:
        """Remember `remote`, in place of one of the same name. Raises ConanError for an invalid name."""
        self.check_name(remote.name)
        with self._changing() as remotes:
            remotes[remote.name] = remote

    def _read(self, data: bytes) -> Iterable[ConanRemote]:
        document = read(_File, data, str(self.file), error=ConanError, hint="delete it and add the remotes again")
        # A file that was edited by hand must not lead to plain http, or hold a password.
        for remote in document.remotes:
            Address.parse(remote.url, allow_http=remote.allow_http)
        return document.remotes

    def _written(self, servers: Sequence[ConanRemote]) -> bytes:
        return write(_File(remotes=tuple(servers)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    remotes: tuple[ConanRemote, ...]
    format: int = 1


def ask_at_terminal(prompt: str) -> str | None:
    """What the user types, unseen; None if nobody is there to type."""
    return getpass.getpass(prompt) if sys.stdin.isatty() and sys.stderr.isatty() else None


def credentials_for(
    remote: ConanRemote, environ: Mapping[str, str], ask: Callable[[str], str | None] = ask_at_terminal
) -> Credentials:
    """User and password for `remote`: from `environ` (Conan's variables), the remote's password file, or `ask`.

    Raises ConanError if none of them gives one, StorageError if the file cannot be read.
    """
    user = environ.get(remote.user_variable) or remote.user
    if not user:
        raise ConanError(
            f"no user given for the Conan remote {remote.name}",
            hint=f"set {remote.user_variable}, or: tfaot-pkg conan-remote add {remote.name} {remote.url} --user NAME",
        )
    password = environ.get(remote.password_variable) or _from_file(remote)
    password = password or ask(f"password of {user} at {remote.name} ({remote.url}): ") or ""
    if not password:
        raise ConanError(
            f"no password given for {user} at the Conan remote {remote.name}",
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
        # A password may hold any bytes; what is not UTF-8 is passed on unchanged.
        return next(iter(file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()), "")
