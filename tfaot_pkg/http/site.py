"""Whom the client asks and how: a site, its address without secrets, and how long it may take to answer.

Sources and registries differ in their `Site` only. A password or a token in an address is never printed, logged or
recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from tfaot_pkg.errors import NetworkError

_USERINFO = re.compile(r"(?<=//)[^/?#\s]*@")
_QUERY = re.compile(r"(?<=[^\s?#])[?#][^\s'\"]*=[^\s'\"]*")
_LONGEST = 200


def without_secrets(text: str) -> str:
    """`text` (an address, or a message with addresses in it) without user names, passwords and query strings."""
    return _QUERY.sub("?...", _USERINFO.sub("", text))


def one_line(text: str) -> str:
    """`text`, which a server may have written, as one printable line of limited length without secrets."""
    shown = without_secrets(" ".join("".join(c if c.isprintable() else " " for c in text).split()))
    return shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}..."


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What is asked: a registry, a source. Its name in messages, and where its server may send us.

    `fault(url, origin)` says why nothing may be fetched from `url` if `origin` led there; it is empty if it may.
    """

    noun: str
    fault: Callable[[str, str], str]
    otherwise: str
    """What does without a server."""
    takes_pages: bool
    """Whether what is asked for may be sent as a web page."""

    @property
    def check(self) -> str:
        return f"check the {self.noun}'s address"

    @property
    def tell(self) -> str:
        return f"tell the {self.noun}'s maintainer, or use another address of the {self.noun}"


def refused(url: str, origin: str, why: str, site: Site, verb: str = "redirects us") -> NetworkError:
    """The error if `origin` leads to `url`, to which we do not go."""
    return NetworkError(f"{one_line(origin)} {verb} to {one_line(url)}: refused, because {why}", hint=site.tell)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Times in seconds.

    `connect` is for a connection, `silence` for all that comes before a body: looking up the name, connecting, proxies,
    TLS, redirects and the head of the answer. Over each `silence` seconds of a body, `slowest` bytes per second are to
    come on average. Pauses between tries grow as `backoff` x 1, 2, 4 ..., or are what the server asks for, up to
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
        """The longest time for a document, all tries together: it is read while others wait for a lock."""
        return 10 * self.silence

    @property
    def file(self) -> float:
        """The longest time for one try at a large file. The next try goes on where it stopped."""
        return 120 * self.silence

    @classmethod
    def of_user(cls) -> Patience:
        """TFAOT_HTTP_TIMEOUT (`silence`) and TFAOT_HTTP_RETRIES, if they are set. Raises NetworkError."""
        default = cls()
        silence = _number("TFAOT_HTTP_TIMEOUT", default.silence, 0.1, 86_400)
        retries = _number("TFAOT_HTTP_RETRIES", default.retries, 0, 100)
        return cls(connect=min(default.connect, silence), silence=silence, retries=int(retries))


def _number(name: str, default: float, least: float, most: float) -> float:
    text = os.environ.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not least <= value <= most:
        raise NetworkError(
            f"{name}={text} is no number from {least:g} to {most:g}", hint=f"unset {name}, or give it such a number"
        )
    return value


PATIENCE = Patience()
