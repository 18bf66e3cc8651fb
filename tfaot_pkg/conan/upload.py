"""Uploading a model's Conan package, and the base that its recipe needs, to a remote.

Conan sends a revision's manifest last, and takes a revision that the server lists for complete. Where a file before the
manifest fails, though, it goes on with the others, so that an incomplete revision can be listed. Hence a note that an
upload has begun: while it is there, the next upload sends everything again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfaot_pkg._version import __version__
from tfaot_pkg.conan.home import ConanHome, OpenHome
from tfaot_pkg.conan.package import export_base
from tfaot_pkg.conan.remotes import ConanRemote, Credentials
from tfaot_pkg.errors import ConanError, NetworkError
from tfaot_pkg.progress import Progress
from tfaot_pkg.storage import write_file

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
    """Log in, so that what will not do is said before a build that takes minutes.

    Raises NetworkError where the server does not answer, ConanError where it refuses the user.
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
    NetworkError (not reached, or lost), ConanError (refused), StorageError.
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
        for pattern in (f"tfaot-pkg/{__version__}", f"{reference}#{revision}:*"):
            words = ("upload", pattern, "--remote", remote.name, "--confirm", "--check", *force)
            document = opened.conan_json(*words, env=credentials.variables(remote))
            sent += _sent(document.get(remote.name))
            step.advance(note=pattern.partition("/")[0])
        note.unlink()
    return Uploaded(reference=reference, remote=remote.name, url=remote.url, sent=tuple(sent))


def _log_in(home: OpenHome, remote: ConanRemote, credentials: Credentials) -> None:
    if not _knows(home, remote):
        home.conan("remote", "add", "--force", remote.name, remote.url)
    # A token of an earlier user, or of one whose password was changed, would be used on.
    home.conan("remote", "logout", remote.name)
    words = ("remote", "auth", remote.name, "--force")
    answer = home.conan_json(*words, env=credentials.variables(remote)).get(remote.name)
    if not isinstance(answer, dict) or answer.get("error") or answer.get("user") != credentials.user:
        raise ConanError(str(answer.get("error")) if isinstance(answer, dict) else "no answer", log=home.log)


def _knows(home: OpenHome, remote: ConanRemote) -> bool:
    """Whether Conan's own list has the remote as it is: asking Conan would take most of a second."""
    try:
        listed = json.loads((home.root / "remotes.json").read_bytes())["remotes"]
        return any((one["name"], one["url"]) == (remote.name, remote.url) for one in listed)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _note(root: Path, remote: ConanRemote, reference: str) -> Path:
    """Where it is noted that an upload has begun."""
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
    """Tell Conan's errors apart by what is to be done about them."""
    try:
        yield
    except ConanError as error:
        where = f"the Conan remote {remote.name} ({remote.url})"
        if _REFUSED.search(error.message):
            raise ConanError(
                f"{where} refuses the user {credentials.user}: wrong user or password, or no permission to write",
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
