"""Named registries, and what `--registry NAME | DIR | URL` means; what stands in for it if it is not given.

`folders.data/registries.json` holds name, address and pinned root of each. It is data, not cache: the chain of trust
of such a registry starts with its pinned root. The user's settings say which registry is asked first.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import read, read_json, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.ground.objects import BucketAddress
from tfaot_pkg.ground.progress import Progress
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.settings_file import Settings, fault_of, standing_registry, write_registries
from tfaot_pkg.ground.storage import storage_errors
from tfaot_pkg.registry.bucket import BucketStorage
from tfaot_pkg.registry.files.files import Files, FolderFiles, MissingFile
from tfaot_pkg.registry.files.layout import is_sha256
from tfaot_pkg.registry.oci.reference import SCHEME as OCI
from tfaot_pkg.registry.oci.reference import Reference
from tfaot_pkg.registry.places import Place, bucket_meant, open_at
from tfaot_pkg.registry.reader import meant, names_like
from tfaot_pkg.registry.remote.address import Address, NamedServers, is_url
from tfaot_pkg.registry.static import StaticRegistry, read_config
from tfaot_pkg.registry.trust.client import Anchor
from tfaot_pkg.registry.trust.keys import ROOT
from tfaot_pkg.registry.trust.roles import limit_of, metadata_path

if TYPE_CHECKING:
    from tfaot_pkg.registry.remote.files import HttpFiles

Distant: TypeAlias = "Address | Reference"
"""A server, or a repository of an OCI registry: both can only be read."""
_HINT = "restore it from a backup, or delete it and add them again"
# The limit of python-tuf's client: a server could otherwise send new roots forever.
_MAX_ROOTS = 256


def address_meant(text: str, *, allow_http: bool) -> Distant | Place:
    """The server, repository or bucket that `text` means; all else is a folder (or a name). Raises TfaotError."""
    if text.startswith(OCI):
        return Reference.of_registry(text, plain_http=allow_http)
    return bucket_meant(text) or (Address.parse(text, allow_http=allow_http) if is_url(text) else Path(text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """A registry under a name of the user's, wherever it is; without `root` it is unsigned."""

    name: str
    address: Distant | Place
    root: bytes | None

    @property
    def url(self) -> str:
        """Its address, or the path of its folder."""
        return str(self.address) if isinstance(self.address, Path) else self.address.url

    @property
    def allow_http(self) -> bool:
        if isinstance(self.address, Reference):
            return self.address.plain_http
        return isinstance(self.address, Address) and self.address.allow_http

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the pinned root; empty for an unsigned registry."""
        return sha256_bytes(self.root) if self.root is not None else ""

    def as_dict(self) -> dict[str, object]:
        return {
            "name": self.name,
            "url": self.url,
            "signed": self.root is not None,
            "fingerprint": self.fingerprint,
            "allow_http": self.allow_http,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Remotes(NamedServers[Remote]):
    """The user's named registries."""

    file_name = "registries.json"
    noun = "registry"
    command = "registry add NAME URL --root FILE"
    marks = "._-"
    fault = RegistryError

    def at(self, url: str) -> Remote | None:
        """The one at that address, or in that folder."""
        return next((remote for remote in self.all() if remote.url == url), None)

    def add(self, remote: Remote) -> bool:
        """Remember `remote`; False if it is there already. Raises RegistryError for a name that means another."""
        with self._changing() as remotes:
            present = remotes.get(remote.name)
            if present == remote:
                return False
            if present is not None:
                raise RegistryError(
                    f"{remote.name} is {present.url} already"
                    + (", with another pinned root" if present.address == remote.address else ""),
                    hint=f"choose another name, or first: tfaot-pkg registry remove {remote.name}",
                )
            remotes[remote.name] = remote
        return True

    def _read(self, data: bytes) -> Iterable[Remote]:
        document = read(_File, data, str(self.file), error=RegistryError, hint=_HINT)
        names = [*(name for name in document.order if name in document.registries), *document.registries]
        return [document.registries[name].remote(name) for name in dict.fromkeys(names)]

    def _written(self, servers: Sequence[Remote]) -> bytes:
        known = {remote.name: _Known.of(remote) for remote in servers}
        return write(_File(registries=known, order=tuple(known)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What the file holds of a registry."""

    url: str
    allow_http: bool
    root: str | None

    @classmethod
    def of(cls, remote: Remote) -> _Known:
        root = remote.root.decode() if remote.root is not None else None
        return cls(url=remote.url, allow_http=remote.allow_http, root=root)

    def remote(self, name: str) -> Remote:
        address = address_meant(self.url, allow_http=self.allow_http)
        return Remote(name=name, address=address, root=self.root.encode() if self.root is not None else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    registries: Mapping[str, _Known]
    order: tuple[str, ...] = ()
    """Their names, in the order in which they were added. Older files have none, and any file has its names sorted."""
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
    name: str, address: Distant | Place, trusting: Trusting, folders: Folders, *, progress: Progress
) -> tuple[Remote, bool]:
    """Make a registry known under `name`, after it was reached and its signatures were verified.

    The boolean is False if it was known already, with the same address and root. Raises RegistryError, TrustError,
    NetworkError, StorageError.
    """
    Remotes.check_name(name)
    trusting.check()
    if isinstance(address, Path):
        # Whole: the next command may run elsewhere.
        address = Path(os.path.abspath(address))
        files: Files = FolderFiles(root=address)
    elif isinstance(address, BucketAddress):
        files = BucketStorage.at(address)
    else:
        files = _files_at(address, folders, progress=progress, offline=False)
    root = None if trusting.unsigned else _root(files, trusting)
    opened = _opened(address, root, folders, progress=progress)
    # Unsigned, the server alone is trusted for ever: never choose that by mistake.
    if trusting.unsigned and opened.config.is_signed:
        raise TrustError(
            f"{opened.location} is signed, so --unsigned is not accepted",
            hint="get its root, or that root's fingerprint, from its maintainer, and give --root or --fingerprint",
        )
    opened.index.search_shards()  # reads and verifies the newest state
    remote = Remote(name=name, address=address, root=root)
    return remote, Remotes.of(folders).add(remote)


def remove_remote(name: str, folders: Folders) -> Remote:
    """Forget a registry, also in the user's order. Raises RegistryError, SpecError (faulty settings), StorageError."""
    registries = Settings.of_file(folders).registries  # a fault there is reported before anything is removed
    removed = Remotes.of(folders).remove(name)
    if name in registries:
        write_registries([text for text in registries if text != name], folders)
    return removed


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


def set_order(registries: Sequence[str], folders: Folders) -> tuple[str, ...]:
    """Ask these first from now on, in this order: names, or folders. Returns all that are asked then.

    They are written into the user's settings. Raises RegistryError for what is neither, SpecError, StorageError.
    """
    known = {remote.name for remote in Remotes.of(folders).all()}
    for text in registries:
        if text not in known and not Path(text).is_dir():
            raise _unknown(text, Path(text), folders)
    # Folders by their whole paths: the next command may run elsewhere.
    write_registries([text if text in known else os.path.abspath(text) for text in dict.fromkeys(registries)], folders)
    return standing(folders)


def standing(folders: Folders) -> tuple[str, ...]:
    """What stands in for `--registry` if it is not given, what is asked first in front: the variable TFAOT_REGISTRY or
    the setting `registry` alone; else the user's order, his own registry before it unless that names it, and those that
    it does not name. Raises SpecError for settings that name what is not there.
    """
    settings = Settings.of_file(folders)
    if meant := standing_registry(settings):
        return (meant,)
    own, order = str(folders.registry), settings.registries
    names = [remote.name for remote in Remotes.of(folders).all()]
    there = [own] * folders.registry.exists()
    for number, text in enumerate(order):
        # A folder stays although it is missing: the next registry must not answer because this one is not mounted.
        if text not in names and not os.path.isabs(text):
            raise fault_of(
                folders, ("registries", number), f"there is no registry {text!r}; added: {', '.join(names) or 'none'}"
            )
    return tuple(dict.fromkeys([*(() if own in order else there), *order, *names]))


def open_with(
    packages: Sequence[str], folders: Folders, *, progress: Progress, offline: bool = False
) -> tuple[str | None, StaticRegistry]:
    """The first of `standing` that has all of `packages`, and what it is called there.

    One that cannot be reached is an error, and not passed over: else whoever cuts it off would choose the next one.
    Raises RegistryError (no registry has all of them), and as `open_registry`.
    """
    texts = standing(folders)
    if len(texts) < 2:
        return next(iter(texts), None), open_registry(None, folders, progress=progress, offline=offline)
    asked: dict[str, StaticRegistry] = {}
    lacking: dict[str, list[str]] = {}
    for text in texts:
        asked[text] = open_registry(text, folders, progress=progress, offline=offline)
        lacking[text] = [name for name in packages if not asked[text].index_file(name).lines]
        if not lacking[text]:
            return text, asked[text]
    everywhere = [name for name in packages if all(name in missing for missing in lacking.values())]
    if everywhere:
        message = f"there is no package {', '.join(everywhere)} in {', '.join(texts)}"
        near = [one for name in everywhere for one in names_like(name, asked.values())]
        raise RegistryError(message, hint=meant(near))
    raise RegistryError(
        "no registry has all of these packages: "
        + "; ".join(f"{text} lacks {', '.join(missing)}" for text, missing in lacking.items()),
        hint="name the registry with --registry, once for the packages of each",
    )


def open_registry(text: str | None, folders: Folders, *, progress: Progress, offline: bool = False) -> StaticRegistry:
    """The registry that `--registry TEXT` means, to be read; without a text the first one that stands in for it.

    An address needs a name with a pinned root. Raises RegistryError, TrustError, NetworkError, StorageError.
    """
    if text is None:
        text = next(iter(standing(folders)), None)
    remote = remote_meant(text, folders) if text is not None else None
    if remote is None:
        place = place_meant(text, folders)
        if isinstance(place, Path) and not place.exists():
            raise _unknown(text, place, folders)
        return open_at(place)
    return _opened(remote.address, remote.root, folders, progress=progress, offline=offline)


def _opened(
    address: Distant | Place, root: bytes | None, folders: Folders, *, progress: Progress, offline: bool = False
) -> StaticRegistry:
    """The registry at `address`, whose trusted root is `root`. Raises as `open_registry`."""
    if isinstance(address, Path | BucketAddress):
        return open_at(address, anchor=Anchor.of(str(address), folders, root))
    from tfaot_pkg.registry.remote.registry import open_remote

    return open_remote(_files_at(address, folders, progress=progress, offline=offline), root, folders)


def _files_at(address: Distant, folders: Folders, *, progress: Progress, offline: bool) -> HttpFiles:
    # Here, because folders need no HTTP.
    if isinstance(address, Reference):
        from tfaot_pkg.registry.oci.files import OciFiles

        return OciFiles.of_user(address, folders, progress=progress, offline=offline)
    from tfaot_pkg.registry.remote.files import HttpFiles

    return HttpFiles.at(address, folders, progress=progress, offline=offline)


def _unknown(text: str | None, folder: Path, folders: Folders) -> RegistryError:
    names = [remote.name for remote in Remotes.of(folders).all()]
    known = f"you have added {', '.join(names)}; or " if names else ""
    add = "tfaot-pkg registry add NAME URL --fingerprint SHA256 (its maintainer gives you both)"
    if text is None:
        return RegistryError(
            f"no registry was named or added, and you have none of your own yet ({folder})",
            hint=f"{known}to use somebody's registry: {add}; publishing a package makes your own",
        )
    return RegistryError(
        f"there is no registry {text!r}: it is neither a name that was added nor a folder",
        hint=f"{known}to add one: {add}",
    )


def remote_meant(text: str, folders: Folders) -> Remote | None:
    """The named registry that TEXT means; None if it means a folder without one.

    A known name wins over a folder of that name: write ./NAME for the folder. Raises RegistryError for an unknown
    address.
    """
    remotes = Remotes.of(folders)
    address = address_meant(text, allow_http=True)  # the registry may have been added with --allow-http
    if isinstance(address, Path):
        # A folder that was added has a pinned root, also for who names it by its path.
        return remotes.find(text) or remotes.at(os.path.abspath(text))
    known = remotes.at(address.url)
    if known is None and not isinstance(address, BucketAddress):
        raise RegistryError(
            f"{address.url} is not a known registry, so it has no trust root",
            hint=f"tfaot-pkg registry add NAME {address.url} --root FILE (or --fingerprint SHA256; "
            "or --unsigned, which trusts that server alone)",
        )
    return known


def place_meant(text: str | None, folders: Folders) -> Place:
    """The folder or bucket that `--registry TEXT` means, for what writes there; without a text, and without
    TFAOT_REGISTRY and the setting `registry`, the user's own folder. Raises RegistryError if it means a server.
    """
    text = text if text is not None else standing_registry(Settings.of_file(folders))
    if text is None:
        return folders.registry
    if text.startswith(OCI):
        raise _only_mirrored(text)
    remote = remote_meant(text, folders)
    if remote is not None and isinstance(remote.address, Path | BucketAddress):
        return remote.address
    if remote is not None and isinstance(remote.address, Reference):
        raise _only_mirrored(remote.url)
    if remote is not None:
        raise RegistryError(
            f"{text} is on a server ({remote.url}), which can only be read",
            hint="run the command where the registry's folder is, with --registry DIR",
        )
    return bucket_meant(text) or Path(text)


def _only_mirrored(text: str) -> RegistryError:
    return RegistryError(
        f"{text} is in an OCI registry, where nobody can publish: two at once would lose each other's packages",
        hint=f"publish into a folder or bucket, then: tfaot-pkg registry mirror DIR|s3://BUCKET/PREFIX {text}",
    )
