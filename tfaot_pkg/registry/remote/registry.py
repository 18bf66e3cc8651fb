"""Opening a registry on a server: the same reading code as for folders (registry/static.py), over HTTP."""

from __future__ import annotations

from dataclasses import dataclass

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import read_json
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.registry import index
from tfaot_pkg.registry.files.files import MissingFile
from tfaot_pkg.registry.files.layout import INDEX, SEARCH
from tfaot_pkg.registry.index import LIMIT, IndexFile
from tfaot_pkg.registry.remote.files import HttpFiles
from tfaot_pkg.registry.static import Index, PlainIndex, StaticRegistry, UnknownFormat, read_config
from tfaot_pkg.registry.trust.client import Anchor, SignedIndex
from tfaot_pkg.registry.trust.roles import hashed_path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Confirmed:
    """An index whose files are kept for later only when they were found to be right.

    Of a signed one that is what its signatures say; of another, that its files can be read.
    """

    index: Index
    files: HttpFiles

    def forget(self) -> None:
        self.index.forget()

    def read(self, path: str) -> bytes | None:
        data = self.index.read(path)
        # Unsigned, all that can be asked is that the file parses, which a login page does not.
        if isinstance(self.index, PlainIndex) and data is not None and not self.files.is_confirmed:
            try:
                _check(data, path, f"{self.files.location}/{path}")
            except RegistryError:
                self.files.refuse()
                raise
        self.files.confirm()
        return data

    @property
    def root_version(self) -> int | None:
        version = self.index.root_version
        self.files.confirm()
        return version

    def search_shards(self) -> tuple[str, ...]:
        shards = self.index.search_shards()
        self.files.confirm()
        # A search reads all 256 shards: one after the other would cost as many round trips.
        if isinstance(self.index, PlainIndex):
            self.files.fetch_ahead(shards, LIMIT)
        elif not self.files.offline:
            self.files.prefetch(self._signed_shards())
        return shards

    def _signed_shards(self) -> list[tuple[str, int]]:
        """Path and size of each shard under its hashed name; nothing if that cannot be known here."""
        if self.files.verified is None:
            return []
        try:
            targets = read_json((self.files.verified / f"{SEARCH}.json").read_bytes())["signed"]["targets"]
            return [(hashed_path(path, one["hashes"]["sha256"]), one["length"]) for path, one in targets.items()]
        # Only a prefetch is lost: reading the shards reports what is wrong.
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return []


def _check(data: bytes, path: str, where: str) -> None:
    """Raise RegistryError if an index file or a search shard cannot be read."""
    folder, _, name = path.rpartition("/")
    if folder.startswith(INDEX):
        IndexFile.parse(data, where, name)
    elif folder.startswith(SEARCH):
        for _ in index.summaries_in(data, where):
            pass


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRegistry(StaticRegistry):
    """A registry on a server. It is read only: one publishes into the folder that the server gives."""

    signed: bool

    @property
    def is_signed(self) -> bool:
        return self.signed


def open_remote(files: HttpFiles, root: bytes | None, folders: Folders) -> RemoteRegistry:
    """The registry with these files. `root` is the trusted root; None accepts an unsigned registry.

    Raises NetworkError, RegistryError (no registry, unknown format), TrustError (it has lost its signatures).
    """
    try:
        config = read_config(files)
    except MissingFile as error:
        raise RegistryError(
            f"{files.location} is not a registry: {error.message}",
            hint=files.address_hint,
        ) from error
    # Its hint says to upgrade; the address is right.
    except UnknownFormat:
        raise
    except RegistryError as error:
        raise RegistryError(
            error.message,
            hint=f"{files.address_hint}. If it is right, tell the registry's maintainer",
        ) from error
    if root is None:
        files.confirm()
        index: Index = PlainIndex(files=files)
    # A pinned root asks for signatures, whatever `config.json` says (decision 013).
    elif not config.is_signed:
        raise TrustError(
            f"{files.location} is no longer signed, but its root is pinned here",
            hint="nothing of it was used; ask the registry's maintainer. If it is intended, `registry remove` it here "
            "and add it again with --unsigned",
        )
    else:
        anchor = Anchor.of(files.location, folders, root)
        # Without network the timestamp comes from here, not from the cache (decision 013).
        files.verified = anchor.folder
        index = SignedIndex(files, anchor, config.sha256)
    confirmed = _Confirmed(index=index, files=files)
    return RemoteRegistry(files=files, config=config, index=confirmed, signed=root is not None)
