"""Named registries, and what `--registry NAME | DIR | URL` means.

`folders.data/registries.json` holds name, address and pinned root of each. It is data, not cache: the chain of trust
of such a registry starts with its pinned root.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import read, read_json, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.registry.files.files import Files, MissingFile
from tfaot_pkg.registry.files.layout import is_sha256
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.remote.address import Address, NamedServers, is_url
from tfaot_pkg.registry.static import StaticRegistry, read_config
from tfaot_pkg.registry.trust.keys import ROOT
from tfaot_pkg.registry.trust.roles import limit_of, metadata_path

_HINT = "restore it from a backup, or delete it and add them again"
# The limit of python-tuf's client: a server could otherwise send new roots forever.
_MAX_ROOTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A registry on a server under a name of the user's; `root` is None if it is used unsigned."""

    name: str
    address: Address
    root: bytes | None

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the pinned root; empty for an unsigned registry."""
        return sha256_bytes(self.root) if self.root is not None else ""

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "url": self.address.url,
            "signed": self.root is not None,
            "fingerprint": self.fingerprint,
            "allow_http": self.address.allow_http,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Remotes(NamedServers[Remote]):
    """The user's named registries."""

    file_name = "registries.json"
    noun = "registry"
    command = "registry add NAME URL --root FILE"
    marks = "._-"
    fault = RegistryError

    def at(self, address: Address) -> Remote | None:
        """The one at that address."""
        return next((remote for remote in self.all() if remote.address.url == address.url), None)

    def add(self, remote: Remote) -> bool:
        """Remember `remote`; False if it is there already. Raises RegistryError for a name that means another."""
        with self._changing() as remotes:
            present = remotes.get(remote.name)
            if present == remote:
                return False
            if present is not None:
                raise RegistryError(
                    f"{remote.name} is {present.address.url} already"
                    + (", with another pinned root" if present.address == remote.address else ""),
                    hint=f"choose another name, or first: tfaot-pkg registry remove {remote.name}",
                )
            remotes[remote.name] = remote
        return True

    def _read(self, data: bytes) -> Iterable[Remote]:
        document = read(_File, data, str(self.file), error=RegistryError, hint=_HINT)
        return [known.remote(name) for name, known in document.registries.items()]

    def _written(self, servers: Sequence[Remote]) -> bytes:
        return write(_File(registries={remote.name: _Known.of(remote) for remote in servers}))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the file holds of a registry."""

    url: str
    allow_http: bool
    root: str | None

    @classmethod
    def of(cls, remote: Remote) -> _Known:
        root = remote.root.decode() if remote.root is not None else None
        return cls(url=remote.address.url, allow_http=remote.address.allow_http, root=root)

    def remote(self, name: str) -> Remote:
        address = Address.parse(self.url, allow_http=self.allow_http)
        return Remote(name=name, address=address, root=self.root.encode() if self.root is not None else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    registries: Mapping[str, _Known]
    format: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trusting:
    """Whom the user trusts: a root's file, its SHA-256, or that nothing is signed."""

    root: Path | None = None
    fingerprint: str = ""
    unsigned: bool = False

    def check(self) -> None:
        """Exactly one of them. Raises RegistryError."""
        if [self.root is not None, bool(self.fingerprint), self.unsigned].count(True) != 1:
            raise RegistryError(
                "no trust root given" if not (self.root or self.fingerprint) else "more than one trust root given",
                hint="give --root FILE (the registry's metadata/1.root.json, from its maintainer) or --fingerprint "
                "SHA256 (its SHA-256); --unsigned accepts one without signatures: then only the server is trusted",
            )
        if self.fingerprint and not is_sha256(self.fingerprint.lower()):
            raise RegistryError(
                f"{self.fingerprint!r} is not a fingerprint", hint="it is the SHA-256 of a root: 64 hexadecimal digits"
            )


def add_remote(
    name: str, address: Address, trusting: Trusting, folders: Folders, *, progress: Progress
) -> tuple[Remote, bool]:
    """Make a registry known under `name`, after it was reached and its signatures were verified.

    The boolean is False if it was known already, with the same address and root. Raises RegistryError, TrustError,
    NetworkError, StorageError.
    """
    from tfaot_pkg.registry.remote.files import HttpFiles  # folders need no HTTP
    from tfaot_pkg.registry.remote.registry import open_remote

    Remotes.check_name(name)
    trusting.check()
    files = HttpFiles.at(address, folders, progress=progress)
    root = None if trusting.unsigned else _root(files, trusting)
    opened = open_remote(address, root, folders, progress=progress)
    # Unsigned, the server alone is trusted for ever: never choose that by mistake.
    if trusting.unsigned and opened.config.is_signed:
        raise TrustError(
            f"{opened.location} is signed, so --unsigned is not accepted",
            hint="get its root, or that root's fingerprint, from its maintainer, and give --root or --fingerprint",
        )
    opened.index.search_shards()  # reads and verifies the newest state
    remote = Remote(name=name, address=address, root=root)
    return remote, Remotes.of(folders).add(remote)


def _root(files: Files, trusting: Trusting) -> bytes:
    """The root to be pinned. Raises TrustError."""
    if trusting.root is not None:
        with storage_errors(f"read {trusting.root}"):
            data = trusting.root.read_bytes()
        if len(data) > limit_of(ROOT) or not _is_root(data):
            raise TrustError(
                f"{trusting.root} is not the root of a registry",
                hint="it is the file metadata/1.root.json (or a later one) of a signed registry",
            )
        return data
    return _root_with(files, trusting.fingerprint.lower())


def _root_with(files: Files, fingerprint: str) -> bytes:
    """The root on the server that has that fingerprint: any version of it."""
    seen: list[str] = []
    # Any version: the fingerprint may be of a root that was replaced since.
    for version in range(1, _MAX_ROOTS):
        try:
            data = files.get(metadata_path(ROOT, version), limit_of(ROOT))
        except MissingFile:
            break
        seen.append(sha256_bytes(data))
        if seen[-1] == fingerprint:
            return data
    if not seen and not read_config(files).is_signed:
        raise TrustError(
            f"{files.location} is not signed, so it has no root",
            hint="check the address; --unsigned accepts a registry without signatures",
        )
    raise TrustError(
        f"{files.location} has no root with the fingerprint {fingerprint}; it has: {', '.join(seen) or 'none'}",
        hint="ask the maintainer for the fingerprint, not over this server, and compare",
    )


def _is_root(data: bytes) -> bool:
    try:
        return read_json(data)["signed"]["_type"] == "root"  # type: ignore[no-any-return]
    # Deeply nested JSON ends in RecursionError.
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def open_registry(text: str | None, folders: Folders, *, progress: Progress, offline: bool = False) -> StaticRegistry:
    """The registry that `--registry TEXT` means, to be read; None is the user's own.

    An address needs a name with a pinned root. Raises RegistryError, TrustError, NetworkError, StorageError.
    """
    remote = remote_meant(text, folders) if text is not None else None
    if remote is None:
        folder = folder_meant(text, folders)
        if not folder.exists():
            raise _unknown(text, folder, folders)
        return FolderRegistry.open(folder)
    from tfaot_pkg.registry.remote.registry import open_remote

    return open_remote(remote.address, remote.root, folders, progress=progress, offline=offline)


def _unknown(text: str | None, folder: Path, folders: Folders) -> RegistryError:
    names = [remote.name for remote in Remotes.of(folders).all()]
    known = f"you have added {', '.join(names)}: name one with --registry; or " if names else ""
    add = "tfaot-pkg registry add NAME URL --fingerprint SHA256, then --registry NAME (its maintainer gives you both)"
    if text is None:
        return RegistryError(
            f"no registry was named, and you have none of your own yet ({folder})",
            hint=f"{known}to use somebody's registry: {add}; publishing a package makes your own",
        )
    return RegistryError(
        f"there is no registry {text!r}: it is neither a name that was added nor a folder",
        hint=f"{known}to add one: {add}",
    )


def remote_meant(text: str, folders: Folders) -> Remote | None:
    """The named registry that TEXT means; None if it means a folder. Raises RegistryError for an unknown address.

    A known name wins over a folder of that name: write ./NAME for the folder.
    """
    remotes = Remotes.of(folders)
    if not is_url(text):
        return remotes.find(text)
    address = Address.parse(text, allow_http=True)  # the registry may have been added with --allow-http
    known = remotes.at(address)
    if known is None:
        raise RegistryError(
            f"{address.url} is not a known registry, so it has no trust root",
            hint=f"tfaot-pkg registry add NAME {address.url} --root FILE (or --fingerprint SHA256; "
            "or --unsigned, which trusts that server alone)",
        )
    return known


def folder_meant(text: str | None, folders: Folders) -> Path:
    """The folder that `--registry TEXT` means, for what writes there. Raises RegistryError if it means a server."""
    if text is None:
        return folders.registry
    remote = remote_meant(text, folders)
    if remote is not None:
        raise RegistryError(
            f"{text} is on a server ({remote.address.url}), which can only be read",
            hint="run the command where the registry's folder is, with --registry DIR",
        )
    return Path(text)
