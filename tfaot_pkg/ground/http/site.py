"""What a client connects to: a site, its address without secrets, and how long it may take to answer.

Sources and registries differ in their `Site` only. A password or a token in an address is never printed, logged or
recorded.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.ground.settings import number_from

# Applied to whole messages of other libraries, so these find addresses in the middle of a text.
_USERINFO = re.compile(r"(?<=//)[^/?#\s]*@")
_QUERY = re.compile(r"(?<=[^\s?#])[?#][^\s'\"]*=[^\s'\"]*")
_LONGEST = 200


def without_secrets(text: str) -> str:
    """`text` (an address, or a message with addresses in it) without user names, passwords and query strings."""
    return _QUERY.sub("?...", _USERINFO.sub("", text))


def one_line(text: str) -> str:
    """`text`, possibly from a server, as one printable line of limited length without secrets."""
    shown = without_secrets(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A registry or a source: its name in messages, and the redirects that are allowed.

    `fault(url, origin)` says why a redirect from `origin` to `url` is rejected; it is empty if it is allowed.
    """

    noun: str
    fault: Callable[[str, str], str]
    otherwise: str
    """A hint that names what needs no server."""
    takes_pages: bool
    """Whether an answer may be a web page."""
    login: str = "put a name and password for this host into ~/.netrc, if you have one"
    """The hint for who is not let in."""
    accept: str = "*/*"
    """Types of answers (RFC 9110, 12.5.1)."""

    @property
    def check(self) -> str:
        return f"check the {self.noun}'s address"

    @property
    def tell(self) -> str:
        return f"tell the {self.noun}'s maintainer, or use another address of the {self.noun}"


def refused(url: str, origin: str, why: str, site: Site, verb: str = "redirects") -> NetworkError:
    """The error for a redirect from `origin` to `url` that is not allowed."""
    return NetworkError(f"{one_line(origin)} {verb} to {one_line(url)}: not followed, because {why}", hint=site.tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Times in seconds.

    `connect` is for a connection, `silence` for everything before a body: name look-up, connecting, proxies, TLS,
    redirects and the head of the answer. Over each `silence` seconds of a body, the average rate must be at least
    `slowest` bytes per second. Pauses between retries are `backoff` x 1, 2, 4 ..., or what the server asks for, up to
    `longest`.
    """

    connect: float = 10
    silence: float = 30
    slowest: float = 1000
    retries: int = 3
    backoff: float = 0.5
    longest: float = 60

    @property
    def document(self) -> float:
        """The longest time for a document, all tries together: other processes wait for the lock that is held."""
        return 10 * self.silence

    @property
    def file(self) -> float:
        """The longest time for one try at a large file. The next try resumes it."""
        return 120 * self.silence

    @classmethod
    def of_user(cls) -> Patience:
        """TFAOT_HTTP_TIMEOUT (`silence`) and TFAOT_HTTP_RETRIES, if they are set. Raises NetworkError."""
        default = cls()
        silence = number_from("TFAOT_HTTP_TIMEOUT", default.silence, 0.1, 86_400, error=NetworkError, unit="seconds")
        retries = number_from("TFAOT_HTTP_RETRIES", default.retries, 0, 100, error=NetworkError)
        return cls(connect=min(default.connect, silence), silence=silence, retries=int(retries))
