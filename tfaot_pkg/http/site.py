"""What is asked for, as the client has to know it: sources and registries differ in this only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tfaot_pkg.errors import NetworkError
from tfaot_pkg.http.address import one_line


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
