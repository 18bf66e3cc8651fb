"""How long a server may take, and how often it is asked again."""

from __future__ import annotations

import os
from dataclasses import dataclass

from tfaot_pkg.errors import NetworkError


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
