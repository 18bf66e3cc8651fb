"""`Files` (registry/files/files.py) over HTTP, with the cache in between.

What has its SHA-256 in its name is checked against it and then kept for ever. All else is requested each time
(the server may answer "unchanged"), and a new copy is kept only by `confirm`, when its reader has accepted it: so no
wrong answer of a server replaces a correct one.

Without network the cache answers, with a note. The reader still checks signatures and their expiry.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO, ClassVar, Generic, TypeVar
from urllib.parse import urlsplit

from tfaot_pkg.errors import NetworkError, TfaotError, TrustError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.http.client import Client
from tfaot_pkg.ground.http.connection import AT_ONCE
from tfaot_pkg.ground.http.failure import Missing, TooLong, Unreachable
from tfaot_pkg.ground.http.site import Patience, without_secrets
from tfaot_pkg.ground.http.transfer import Document, PartialFile, Transfer
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Progress, Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.registry.files.files import MissingFile, too_long
from tfaot_pkg.registry.remote.address import Address
from tfaot_pkg.registry.remote.cache import Copy, RemoteCache

# Exactly 64 digits: a longer run of hexadecimal digits names no SHA-256.
_DIGEST = re.compile(r"(?<![0-9a-f])(?:([0-9a-f]{64})|([0-9a-f]{2})/([0-9a-f]{62}))(?![0-9a-f])", re.ASCII)
_ROOT = re.compile(r"metadata/\d+\.root\.json", re.ASCII)
_VERSIONED = re.compile(r"metadata/\d+\.[^/]+", re.ASCII)
_METADATA = re.compile(r"metadata/(?:(?P<version>\d+)\.)?(?P<role>[a-z0-9-]+)\.json", re.ASCII)


def digest_in(path: str) -> str:
    """The SHA-256 that a path names (`index/di/gi/SHA256.NAME`, `blobs/sha256/ab/cdef...`); empty if it has none."""
    found = _DIGEST.search(path)
    return (found[1] or found[2] + found[3]) if found else ""


@dataclass(slots=True, kw_only=True)
class HttpFiles:
    """The files of the registry at `address`. See `Files` for what is raised; Unreachable if no server answers.

    `offline` is True from the start if the user asks for it, and from the first time that no server answers.
    """

    address: Address
    cache: RemoteCache
    patience: Patience
    progress: Progress = field(default_factory=Silent)
    offline: bool = False
    verified: Path | None = None
    """The folder in which the reader of signed metadata keeps what it has verified."""
    uses_copies: bool = True
    """Whether the cache answers if no server does."""
    client: Client | None = None
    """Who asks; by default one that knows nothing of the registry but its address."""
    address_hint: ClassVar[str] = "check the address: it is that of the folder with config.json"
    _transfer: Transfer = field(init=False)
    _unconfirmed: dict[str, Copy] = field(init=False, default_factory=dict)
    _ahead: Ahead[_Asked] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._transfer = Transfer(client=self.client or Client(self.address.site, self.patience))

    @classmethod
    def at(cls, address: Address, folders: Folders, *, progress: Progress, offline: bool = False) -> HttpFiles:
        """With the user's cache and patience. Raises NetworkError (an impossible TFAOT_HTTP_...)."""
        cache = RemoteCache.of(address.url, folders)
        return cls(address=address, cache=cache, patience=Patience.of_user(), progress=progress, offline=offline)

    @property
    def location(self) -> str:
        return self.address.url.rstrip("/")

    def place_of(self, path: str) -> str:
        """Where a file of the registry is, below the address. Raises as `get`."""
        return path

    def get(self, path: str, limit: int) -> bytes:
        path = self.place_of(path)
        digest = digest_in(path)
        return self._content(path, digest, limit) if digest else self._newest(path, limit)

    def has(self, path: str) -> bool:
        """Whether there is such a file: asked for, because not every server answers HEAD as it would GET."""
        try:
            with self.open(path, 1 << 40):
                return True
        except MissingFile:
            return False

    @contextmanager
    def open(self, path: str, limit: int) -> Iterator[BinaryIO]:
        """The file, open at its start. With a digest in its path: checked, from the cache or into it."""
        path = self.place_of(path)
        digest = digest_in(path)
        if not digest:
            with tempfile.TemporaryFile() as file:
                file.write(self._newest(path, limit))
                file.seek(0)
                yield file
            return
        with self.cache.open_content(digest) as file:
            if file is not None:
                yield file
                return
        self._refuse_offline(path)
        # Through a file, because a package may be larger than the memory.
        self._download(path, digest, limit)
        with self.cache.open_content(digest) as file:
            if file is None:
                raise TrustError(
                    f"{self.cache.root}: the download of {path} changed right after it was written",
                    hint="another program may write there, or the disk may be failing",
                )
            yield file

    @property
    def is_confirmed(self) -> bool:
        """Whether all that was read was accepted by its reader."""
        return not self._unconfirmed

    def confirm(self) -> None:
        """What was read is right, says its reader: keep it. Raises StorageError."""
        if self._unconfirmed:
            self.cache.describe(self.location)
        for path, copy in self._unconfirmed.items():
            self.cache.keep_copy(path, copy)
        self._unconfirmed.clear()

    def refuse(self) -> None:
        """What was read is wrong, says its reader: what was kept before stays."""
        self._unconfirmed.clear()

    def prefetch(self, wanted: Iterable[tuple[str, int]]) -> None:
        """Get content (paths with a digest, with their limits) into the cache, several at a time.

        What fails here is left out: who reads it then gets the error.
        """
        missing = [(path, limit) for path, limit in wanted if not self.cache.has_content(digest_in(path))]
        if len(missing) < 2:
            return

        # After one failure the others are not tried: each would wait until its own time-out.
        failed = threading.Event()

        def get(one: tuple[str, int]) -> None:
            try:
                if not failed.is_set():
                    self.get(*one)
            except TfaotError:
                failed.set()

        label = f"read the index of {self.location}"
        with self.progress.step(label, total=len(missing), unit="files") as step:
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for _ in pool.map(get, missing):
                    step.advance()

    def move(self, path: str, limit: int, final: Path) -> None:
        """Make the content at `path`, which has a digest in it, the file `final` beside the cache, and not keep it."""
        path = self.place_of(path)
        digest = digest_in(path)
        self._refuse_offline(path)
        self._download(path, digest, limit)
        self.cache.move_content(digest, final)

    def _content(self, path: str, digest: str, limit: int) -> bytes:
        kept = self.cache.content(digest, limit)
        if kept is not None:
            return kept
        self._refuse_offline(path)
        document = self._document(path, limit)
        assert document is not None
        # Checked before it is stored, so that a login page never takes the place of content.
        if sha256_bytes(document.body) != digest:
            raise self._changed(path, digest)
        self.cache.keep_content(digest, document.body)
        return document.body

    def fetch_ahead(self, paths: Sequence[str], limit: int) -> None:
        """Files that may change are to be read in this order: ask for the next ones while the reader is busy."""
        if not self.offline:
            label = f"read the index of {self.location}"
            self._ahead = Ahead(lambda path: self._ask(path, limit), paths, self.progress, label)

    def _ask(self, path: str, limit: int) -> _Asked:
        """The server's answer, with the copy that it was asked with. Changes nothing: several may ask at once."""
        known = self._known(path, limit)
        return _Asked(known=known, answer=self._document(path, limit, known.etag if known else ""))

    def _known(self, path: str, limit: int) -> Copy | None:
        known = self.cache.copy(path)
        return known if known is not None and len(known.body) <= limit else None

    def _newest(self, path: str, limit: int) -> bytes:
        """A file whose name does not tell its content."""
        if self.offline:
            return self._last(path, self._known(path, limit))
        try:
            early = self._ahead.take(path) if self._ahead else None
            asked = early.result() if early else self._ask(path, limit)
        except Unreachable as error:
            self._stop_asking()
            if not self.uses_copies:
                raise
            return self._without_server(path, self._known(path, limit), error)
        except (NetworkError, TrustError):
            self._stop_asking()
            raise
        except MissingFile:
            # Without network, this distinguishes an absent file from one that was never requested.
            self.cache.keep_absent(path)
            raise
        if asked.answer is None:
            assert asked.known is not None
            self.cache.still_so(path)
            return asked.known.body
        if _ROOT.fullmatch(path) or not _VERSIONED.fullmatch(path):  # the others are kept by those who verify them
            self._unconfirmed[path] = Copy(body=asked.answer.body, etag=asked.answer.etag)
        return asked.answer.body

    def _stop_asking(self) -> None:
        if self._ahead:
            self._ahead.close()
            self._ahead = None

    def _without_server(self, path: str, known: Copy | None, error: Unreachable) -> bytes:
        # Metadata may be in the folder of what was verified; anything else needs a copy to go on.
        if known is None and not (_VERSIONED.fullmatch(path) or self.cache.was_absent(path)):
            raise error
        self.offline = True
        when = f"the copy of {datetime.fromtimestamp(known.seen, timezone.utc):%Y-%m-%d %H:%M} UTC" if known else ""
        self.progress.note(f"note: {error.message}; using {when or 'what is in the cache'}")
        return self._last(path, known)

    def _last(self, path: str, known: Copy | None) -> bytes:
        # Before the copy: it is never older than what was verified (decision 013).
        verified = self._verified(path)
        if verified is not None:
            return verified
        if known is not None:
            return known.body
        # TUF asks for the next root until there is none.
        if _ROOT.fullmatch(path) or self.cache.was_absent(path):
            raise MissingFile(f"there is no {path} in the cache of {self.location}")
        raise self._not_cached(path)

    def _verified(self, path: str) -> bytes | None:
        """Signed metadata as its reader keeps it; None if that has another version.

        A verified timestamp is newer than the copy if the files that it names could not be fetched: the copy would be
        rejected as a rollback. If it has expired, its reader asks for all else again and then reports that.
        """
        found = _METADATA.fullmatch(path)
        if self.verified is None or found is None:
            return None
        with storage_errors(f"read what was verified of {self.location}"):
            try:
                data = (self.verified / f"{found['role']}.json").read_bytes()
            except FileNotFoundError:
                return None
        try:
            current = read_json(data)["signed"]["version"]
        except (ValueError, KeyError, TypeError):
            return None
        return data if found["version"] in (None, str(current)) else None

    def _refuse_offline(self, path: str) -> None:
        if self.offline:
            raise self._not_cached(path)

    def _not_cached(self, path: str) -> NetworkError:
        return NetworkError(
            f"{self.location}: {path} is not in the cache, and there is no network",
            hint="run the command once with network (and without --offline)",
        )

    def _changed(self, path: str, digest: str) -> TrustError:
        return TrustError(
            f"{self.address.join(path)} was changed: its SHA-256 is not {digest}",
            hint="nothing of it was kept; tell the registry's maintainer, or use a mirror of the registry",
        )

    def _document(self, path: str, limit: int, etag: str = "") -> Document | None:
        with _errors(self.address, path, limit):
            return self._transfer.get(self.address.join(path), limit, etag)

    def _download(self, path: str, digest: str, limit: int) -> None:
        """Into the cache, from where an earlier attempt stopped."""
        with self.cache.partial(digest) as partial:
            with self.cache.open_content(digest) as file:
                if file is not None:  # another process was quicker
                    return
            where = self.address.join(path)
            label = f"download from {urlsplit(where).netloc}"
            target = PartialFile(path=partial, limit=limit, label=label, progress=self.progress)
            with _errors(self.address, path, limit):
                found = self._transfer.download(where, digest, target, limit)
            if found != digest:
                # A further attempt would only continue the wrong bytes.
                target.drop()
                raise self._changed(path, digest)
            self.cache.keep_partial(digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What a server answered: None if it still has what is `known`."""

    known: Copy | None
    answer: Document | None


@contextmanager
def _errors(address: Address, path: str, limit: int) -> Iterator[None]:
    """What `Files` promises to raise."""
    try:
        yield
    except Missing as error:
        raise MissingFile(
            f"the registry has no file {without_secrets(address.join(path))} (the server answers {error.status})",
            hint="check the registry's address; if other files are there, tell its maintainer",
        ) from None
    except TooLong:
        raise too_long(without_secrets(address.join(path)), limit) from None


_T = TypeVar("_T")


class Ahead(Generic[_T]):
    """What `ask` answers for each of `paths`, each answer once; `label` names the work to `progress`.

    Not many more are asked for, and kept, than the reader has taken.
    """

    def __init__(self, ask: Callable[[str], _T], paths: Sequence[str], progress: Progress, label: str) -> None:
        self._answers = _answers(ask, paths, progress, label)
        self._next: tuple[str, Future[_T]] | None = None

    def take(self, path: str) -> Future[_T] | None:
        """The answer for `path` if that comes next, else None."""
        if self._next is None:
            self._next = next(self._answers, None)
        if self._next is None or self._next[0] != path:
            return None
        (_, found), self._next = self._next, None
        return found

    def close(self) -> None:
        """The reader takes no more answers: ask for nothing more."""
        self._answers.close()
        self._next = None


def _answers(
    ask: Callable[[str], _T], paths: Sequence[str], progress: Progress, label: str
) -> Generator[tuple[str, Future[_T]], None, None]:
    waiting: deque[tuple[str, Future[_T]]] = deque()
    with progress.step(label, total=len(paths), unit="files") as step, ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            for path in paths:
                waiting.append((path, pool.submit(ask, path)))
                # Bounded, because answers that nobody has taken yet are in memory.
                if len(waiting) > 2 * AT_ONCE:
                    yield waiting.popleft()
                    step.advance()
            while waiting:
                yield waiting.popleft()
                step.advance()
        finally:
            for _, future in waiting:
                future.cancel()
