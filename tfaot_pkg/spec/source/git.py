"""A source that is one commit of a git repository, fetched with the `git` program.

Only the content of the commit counts: no hooks, no filters, no line-end conversion, no submodules. Our own unpacker
writes the files, not a checkout.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import NetworkError, SourceError, StorageError
from tfaot_pkg.ground.cache import BuildCache
from tfaot_pkg.ground.http.site import without_secrets
from tfaot_pkg.ground.keys import key_of
from tfaot_pkg.ground.process import CommandFailed, run
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import refusal_in, refused
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.spec.source.address import path_of_file_url, split
from tfaot_pkg.spec.source.unpack import LIMITS, unpack

_STAGE = "git-trees"
_REVISION = re.compile(r"[0-9a-f]{40}")
_SCP_FORM = re.compile(r"(?:[\w.~-]+@)?[A-Za-z0-9\[][\w.:\[\]-]*:(?!//)[^:\s-][^\s]*")
_TIMEOUT = 1800.0

# The user's own configuration stays in force for credentials and proxies; these settings override what could run
# programs (hooks, fsmonitor, ext::), ask questions, wait forever, or leave processes behind (gc, maintenance).
_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.symlinks=false",
    "protocol.ext.allow=never",
    "fetch.recurseSubmodules=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "credential.interactive=false",
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
)
# info/attributes has precedence over .gitattributes; gitattributes(5).
# Of higher rank than the commit's own .gitattributes: nothing is converted, left out or run.
_ATTRIBUTES = b"* -text -eol -ident -filter -working-tree-encoding -export-ignore -export-subst\n"
# Set in git hooks, they would point our commands at somebody else's repository.
_FOREIGN = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_EXTERNAL_DIFF",
    "GIT_LITERAL_PATHSPECS", "GIT_TRACE", "GIT_TRACE_CURL", "GIT_CURL_VERBOSE", "GIT_TEMPLATE_DIR",
)  # fmt: skip

_EVERYTHING = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")

# git has no exit codes for these cases. LC_ALL=C (git_environment) keeps its messages in English.
_UNKNOWN = re.compile(r"not our ref|unknown revision|bad object|invalid object|not a valid object", re.IGNORECASE)
_NO_SINGLE_FETCH = re.compile(r"unadvertised object|shallow|couldn't find remote ref|dumb http", re.IGNORECASE)


def fetch_git(url: str, revision: str, *, folders: Folders, progress: Progress, timeout: float = _TIMEOUT) -> Path:
    """The files of commit `revision` (40 hexadecimal digits) of the repository at `url`.

    `url` is `https://`, `ssh://`, `file://`, `user@host:path`, or a local path. The result is kept by URL and
    revision; the second call needs no network. `timeout` (seconds) holds for each git command.
    Raises SourceError (refused, unknown revision, git missing), NetworkError (unreachable, too slow), StorageError.
    """
    address = _address(url)
    shown = without_secrets(address)
    revision = revision.lower()
    if not _REVISION.fullmatch(revision):
        raise SourceError(
            f"{shown}: {revision!r} is not a full revision", hint="give all 40 digits, as 'git rev-parse HEAD' prints"
        )
    # Without secrets: keys are file names, and another token gives the same commit.
    key = key_of(_STAGE, 1, {"url": shown, "revision": revision})

    def make(tree: Path) -> None:
        with temporary_folder(tree.parent, prefix=f".{key}.", suffix=".git.part") as folder:
            repository = _Repository(path=folder / "git", url=address, shown=shown, revision=revision, timeout=timeout)
            with progress.step(f"fetch {shown}"):
                repository.fetch()
            for note in repository.unpack_into(tree, folder / "tree.tar"):
                progress.note(note)

    return BuildCache(root=folders.downloads).get_or_make(_STAGE, key, make)


def _address(url: str) -> str:
    """`url` in the form that is given to git. Raises SourceError if its kind is not supported."""
    # `ext::COMMAND` and other remote helpers run programs; see gitremote-helpers(7).
    if "::" in url.split("/", maxsplit=1)[0] or url.startswith("-"):
        raise SourceError(f"invalid git address {without_secrets(url)!r}", hint="use https://, ssh:// or file://")
    if "://" not in url:
        # `host:path`; a path that begins with '.' or '/' is local, even if it contains a colon.
        if _SCP_FORM.fullmatch(url) and not url.startswith((".", "/")):
            return url
        return str(_local(Path(url)))
    parts = split(url)
    if parts.scheme == "file":
        return _local(path_of_file_url(url)).as_uri()
    if parts.scheme not in ("https", "ssh"):
        raise SourceError(
            f"invalid git address {without_secrets(url)!r}: {parts.scheme}:// is insecure or unknown",
            hint="use https://, ssh:// or file://",
        )
    # ssh would take a host that begins with '-' for an option (CVE-2017-1000117).
    if not parts.hostname or parts.hostname.startswith("-"):
        raise SourceError(f"invalid git address {without_secrets(url)!r}: no host", hint="use https://HOST/PATH")
    return url


def _local(path: Path) -> Path:
    path = Path(os.path.abspath(path.expanduser()))
    if not path.exists():
        raise SourceError(f"no git repository at {path}", hint="check source.git")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Repository:
    """A bare repository for one fetch; `shown` is `url` without secrets."""

    path: Path
    url: str
    shown: str
    revision: str
    timeout: float

    def fetch(self) -> None:
        """Fetch the commit alone if the server allows that, otherwise all branches and tags."""
        if shutil.which("git") is None:
            raise SourceError(f"{self.shown}: the git program is missing", hint="install it: apt-get install git")
        # An empty --template: the user's template may contain hooks.
        self._run("init", "--quiet", "--bare", "--template=", "--", str(self.path))
        (self.path / "info").mkdir(exist_ok=True)
        (self.path / "info" / "attributes").write_bytes(_ATTRIBUTES)
        try:
            self._run("fetch", "--quiet", "--depth=1", "--no-tags", "--", self.url, self.revision)
        except CommandFailed as error:
            if _UNKNOWN.search(error.output):
                raise self._no_such_revision() from None
            if not _NO_SINGLE_FETCH.search(error.output):
                raise self._unreachable(error) from None
            self._fetch_everything()
        self._check_commit()

    def _fetch_everything(self) -> None:
        try:
            self._run("fetch", "--quiet", "--no-tags", "--", self.url, *_EVERYTHING)
        except CommandFailed as error:
            raise self._unreachable(error) from None

    def _check_commit(self) -> None:
        try:
            # A full id may also be that of a tag, a tree or a file.
            self._run("cat-file", "-e", f"{self.revision}^{{commit}}")
        except CommandFailed:
            raise self._no_such_revision() from None

    def unpack_into(self, tree: Path, tar: Path) -> Iterator[str]:
        """Write the commit's files into `tree`, through the archive `tar`; yields notes for the user."""
        label = f"{self.shown} at {self.revision[:12]}"
        try:
            listing = self._run("ls-tree", "-r", "-l", "-z", self.revision)
            _refuse_large(listing, label)
            self._run("archive", "--format=tar", f"--output={tar}", self.revision)
        except CommandFailed as error:
            if line := refusal_in(error.output):
                raise refused(f"unpack {label}", line) from None
            raise SourceError(f"{label}: git cannot read the commit: {self._text(error)}") from None
        left_out = unpack(tar, tree, label=label)
        if left_out:
            yield f"{label}: links not unpacked: {', '.join(map(ascii, left_out[:5]))}"
        # 160000 is the mode of a submodule's entry.
        submodules = [entry.split("\t", 1)[1] for entry in listing.split("\0") if entry.startswith("160000 ")]
        if submodules:
            yield f"{label}: submodules are not fetched: {', '.join(map(ascii, submodules[:5]))}"

    def _run(self, command: str, *arguments: str) -> str:
        settings = [word for setting in _CONFIG for word in ("-c", setting)]
        # init makes the folder that --git-dir names; the others must not find a repository above it.
        where = [] if command == "init" else [f"--git-dir={self.path}"]
        # The address comes after `--` in every command, so that it cannot be an option.
        argv = ["git", *settings, *where, command, *arguments]
        return run(argv, env=git_environment(), timeout=self.timeout).stdout

    def _no_such_revision(self) -> SourceError:
        return SourceError(
            f"{self.shown}: no commit {self.revision}",
            hint="check the revision; a commit that was never pushed, or that a forced push removed, cannot be fetched",
        )

    def _unreachable(self, error: CommandFailed) -> SourceError | NetworkError | StorageError:
        if line := refusal_in(error.output):
            return refused(f"fetch {self.shown}", without_secrets(line))
        # git was there when `fetch` began, and is not now.
        if error.reason.startswith("cannot start"):
            return SourceError(f"{self.shown}: {error.reason}", hint="install git")
        if self.url.startswith(("/", "file:")):
            return SourceError(
                f"{self.shown}: git cannot read the repository: {self._text(error)}", hint="check the path"
            )
        return NetworkError(
            f"{self.shown}: git cannot reach the repository: {self._text(error)}",
            hint="check address, connection and access: 'git ls-remote' with it must work without a prompt",
        )

    def _text(self, error: CommandFailed) -> str:
        """Reason and output; the command itself is left out, because it holds the address."""
        return without_secrets(f"{error.reason}\n{error.tail.replace(self.url, self.shown)}".strip())


def _refuse_large(listing: str, label: str) -> None:
    """Raise before git writes an archive that the unpacker would reject; `listing` is from `ls-tree -r -l -z`."""
    sizes = [entry.split("\t", 1)[0].split()[3] for entry in listing.split("\0") if entry]
    if not sizes:
        raise SourceError(f"{label}: the commit contains no files")
    if len(sizes) > LIMITS.members or sum(int(size) for size in sizes if size.isdigit()) > LIMITS.bytes:
        raise SourceError(
            f"{label}: more than {LIMITS.members} files or {LIMITS.bytes} bytes",
            hint="keep the model in a repository of its own, or publish it as an archive",
        )


def git_environment() -> dict[str, str]:
    """The user's environment (credentials, proxies), without prompts, in English, limited to safe transports."""
    kept = {name: value for name, value in os.environ.items() if name not in _FOREIGN}
    return {**kept, "GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file", "LC_ALL": "C"}
