"""The addresses of registries and Conan remotes, the names that users give them, and where a server may redirect us."""

from __future__ import annotations

import ipaddress
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit, urlunsplit

from tfaot_pkg.errors import RegistryError, TfaotError
from tfaot_pkg.ground.http.site import Site, refused, without_secrets
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import locked, storage_errors, write_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The URL of a registry's folder, ending in `/`. `allow_http`: the user accepts plain http."""

    url: str
    allow_http: bool = False

    @classmethod
    def parse(cls, text: str, *, allow_http: bool = False) -> Address:
        """Read what a user wrote. Raises RegistryError, with the reason and what to write instead."""
        shown = without_secrets(text)
        try:
            parts = urlsplit(text)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            raise RegistryError(f"{shown} is not an address: {error}", hint=_FORM) from error
        # `urlsplit` drops tabs and newlines silently, so the address would not be the one that was typed.
        if parts.scheme not in ("http", "https") or not host or any(ord(letter) <= 32 for letter in text):
            raise RegistryError(f"{shown} is not the address of a registry", hint=_FORM)
        if parts.username is not None or parts.password is not None:
            raise RegistryError(
                f"{shown}: a name and password in an address end up in logs and files",
                hint=f"put them into ~/.netrc (machine {host} login NAME password PASSWORD) and leave them out here",
            )
        if parts.query or parts.fragment:
            raise RegistryError(f"{shown}: the address of a registry has no ? and no #", hint=_FORM)
        # Without the final slash `urljoin` would replace the last folder.
        path = parts.path if parts.path.endswith("/") else parts.path + "/"
        # Host names are case-insensitive: one registry must have one cache and one folder of trust.
        address = cls(url=urlunsplit((parts.scheme, parts.netloc.lower(), path, "", "")), allow_http=allow_http)
        if parts.scheme == "http" and not (allow_http or is_loopback(host)):
            raise RegistryError(
                f"{shown}: plain http lets everybody on the network see and delay what you download",
                hint="use https://; if it must be http, add --allow-http (signed content stays safe from changes)",
            )
        return address

    @property
    def site(self) -> Site:
        """The registry as the HTTP client knows it."""
        return Site(
            noun="registry",
            fault=self._fault,
            otherwise="--offline uses what is in the cache",
            takes_pages=False,
        )

    def join(self, path: str) -> str:
        """The URL of a file of the registry, or of a blob that is kept elsewhere (`path` is a URL then).

        Raises NetworkError if that is an address that this registry may not send us to.
        """
        try:
            # A download template may name any URL, so the result is checked like a redirect.
            url = urljoin(self.url, path)
        except ValueError:
            raise refused(path, self.url, "that is not an address", self.site, "refers") from None
        fault = self._fault(url, self.url)
        if fault:
            raise refused(url, self.url, fault, self.site, "refers")
        return url

    def _fault(self, url: str, origin: str) -> str:
        try:
            parts = urlsplit(url)
        except ValueError:
            return "that is not an address"
        if parts.scheme == "https" and parts.hostname:
            return ""
        if parts.scheme != "http" or not parts.hostname:
            return "that is neither https nor http"
        if urlsplit(origin).scheme == "https":
            return "a redirect from https to http is not followed"
        return "" if self.allow_http or is_loopback(parts.hostname) else "plain http was not allowed for it"


_FORM = "write https://HOST/PATH, the folder with the registry's config.json"


def is_url(text: str) -> bool:
    """Whether a user means an address rather than a folder or a name."""
    return "://" in text


def is_loopback(host: str) -> bool:
    """Whether `host` can only be this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server(Protocol):
    @property
    def name(self) -> str: ...


_Server = TypeVar("_Server", bound=Server)
_Names = TypeVar("_Names", bound="NamedServers[Any]")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServers(ABC, Generic[_Server]):
    """Servers that the user has named, in one file. All raise StorageError; `fault` for a damaged file."""

    file: Path

    file_name: ClassVar[str]
    file_mode: ClassVar[int] = 0o644
    noun: ClassVar[str]
    """What messages call a server."""
    command: ClassVar[str]
    """The command that adds one."""
    marks: ClassVar[str]
    """The characters of a name besides letters and digits."""
    fault: ClassVar[type[TfaotError]]

    @classmethod
    def of(cls: type[_Names], folders: Folders) -> _Names:
        # In `data`, not in the cache: names, pinned roots and users cannot be fetched again.
        return cls(file=folders.data / cls.file_name)

    @abstractmethod
    def _read(self, data: bytes) -> Iterable[_Server]:
        """The servers in the file's content. Raises `fault`."""

    @abstractmethod
    def _written(self, servers: Sequence[_Server]) -> bytes:
        """The file's content."""

    @classmethod
    def check_name(cls, name: str) -> None:
        """Raise `fault` if `name` is not a name for a server."""
        if not re.fullmatch(f"[a-z0-9][a-z0-9{re.escape(cls.marks)}]{{0,63}}", name, re.ASCII):
            *first, last = (f"'{mark}'" for mark in cls.marks)
            marks = ", ".join(first)
            raise cls.fault(
                f"{name!r} is not a name for a {cls.noun}",
                hint=f"up to 64 lower-case letters, digits, {marks} and {last}, a letter or digit first",
            )

    def all(self) -> tuple[_Server, ...]:
        """In the order in which they were added."""
        with storage_errors(f"read {self.file}"):
            try:
                data = self.file.read_bytes()
            except FileNotFoundError:
                return ()
        return tuple(self._read(data))

    def find(self, name: str) -> _Server | None:
        return next((server for server in self.all() if server.name == name), None)

    def get(self, name: str) -> _Server:
        """Raises `fault` if the name is unknown."""
        found = self.find(name)
        if found is None:
            raise self._unknown(name)
        return found

    def remove(self, name: str) -> _Server:
        """Forget a server. Raises `fault` if the name is unknown."""
        with self._changing() as servers:
            if name not in servers:
                raise self._unknown(name)
            return servers.pop(name)

    @contextmanager
    def _changing(self) -> Iterator[dict[str, _Server]]:
        """The servers by name; what the block leaves there is written."""
        with (
            storage_errors(f"write {self.file}"),
            locked(self.file.with_name(f".{self.file.stem}.lock"), what=f"{self.file}", timeout=60),
        ):
            # Read again under the lock: another process may have changed the file since.
            servers = {server.name: server for server in self.all()}
            yield servers
            write_file(self.file, self._written(list(servers.values())), mode=self.file_mode)

    def _unknown(self, name: str) -> TfaotError:
        known = ", ".join(server.name for server in self.all())
        return self.fault(
            f"there is no {self.noun} named {name}",
            hint=f"known: {known}" if known else f"none was added yet; to add one: tfaot-pkg {self.command}",
        )
