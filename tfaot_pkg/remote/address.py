"""Which addresses a registry may have, and where its server may send us. Values only, no I/O."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit, urlunsplit

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.http.site import Site, refused, without_secrets


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
                f"{shown}: plain http lets everybody on the way see, and delay, what you fetch",
                hint="use https://; if it must be http, say --allow-http (signed content stays safe from changes)",
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
            raise refused(path, self.url, "that is not an address", self.site, "refers us") from None
        fault = self._fault(url, self.url)
        if fault:
            raise refused(url, self.url, fault, self.site, "refers us")
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
            return "https never continues as http"
        return "" if self.allow_http or is_loopback(parts.hostname) else "plain http was not allowed for it"


_FORM = "write https://HOST/PATH, the folder that holds the registry's config.json"


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
