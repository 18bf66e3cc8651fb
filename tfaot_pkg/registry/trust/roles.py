"""TUF's roles as a registry has them: their names, files, keys, lifetimes. Values only, no I/O.

    root       who may sign what, and for how long signatures last; `root` keys, offline
    targets    SHA-256 of `config.json` and `channels.json`; delegates to the two below; `release` key
    packages   delegates index files to 2**bits hash bins (TUF's succinct delegation); `release` key
    bin-XX     SHA-256 and size of the index files of one bin; `release` key
    search     SHA-256 and size of the search shards; `release` key
    snapshot   the version of each of them; `snapshot` key
    timestamp  the snapshot that holds now; `timestamp` key

Files are `metadata/N.ROLE.json` with N the version, which never change, and `metadata/timestamp.json`, whose
replacement is the one moment at which all that was written before begins to hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import iso, utc
from tfaot_pkg.registry.trust.keys import RELEASE, ROLES, ROOT, SNAPSHOT, TIMESTAMP

if TYPE_CHECKING:
    from tuf.api.metadata import Delegations, Key, Root


METADATA = "metadata"
TARGETS, PACKAGES, SEARCH, BIN = "targets", "packages", "search", "bin"
PACKAGE_PATHS, SEARCH_PATHS = "index/*/*/*", "search/*"

TIMESTAMP_FILE = f"{METADATA}/timestamp.json"
# The defaults of python-tuf, except TARGETS_LIMIT. A bin has 65 KB in a registry of 100,000 packages (decision 011).
LIMITS = {ROOT: 512_000, TIMESTAMP: 16_384, SNAPSHOT: 2_000_000}
TARGETS_LIMIT = 16_000_000
"""Bytes of a metadata file that are read at most (bins, search and the like: TARGETS_LIMIT)."""

SIGNED_AT = "x-tfaot-signed-at"
"""In timestamp: when it was signed, by the signer's clock. A reader whose clock is before that has a wrong clock."""

_LIFETIMES = "x-tfaot-lifetimes"
# 8 bits suffice for 100,000 packages, 10 for more (decision 011, benchmarks/registry_scale.py).
BITS = range(1, 11)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifetimes:
    """How long signatures of each role's keys last, in days. After that readers reject them (freeze attack)."""

    days: Mapping[str, int] = field(default_factory=lambda: {ROOT: 365, RELEASE: 365, SNAPSHOT: 30, TIMESTAMP: 7})

    @classmethod
    def parse(cls, words: Iterable[str]) -> Lifetimes:
        """`ROLE=DAYS` words over the defaults. Raises RegistryError."""
        days = dict(cls().days)
        for word in words:
            role, _, number = word.partition("=")
            # `isdigit` alone accepts digits of other scripts.
            if role not in ROLES or not number.isascii() or not number.isdigit() or not 1 <= int(number) <= 36_500:
                raise RegistryError(
                    f"{word!r} is not a lifetime",
                    hint=f"write ROLE=DAYS with a ROLE of {', '.join(ROLES)} and DAYS from 1 up",
                )
            days[role] = int(number)
        return cls(days=days)

    def expiry(self, role: str, now: datetime) -> datetime:
        """When what a key of `role` signs now expires."""
        # TUF's times have no fractions of a second.
        return now.replace(microsecond=0) + timedelta(days=self.days[role])

    def is_old(self, role: str, expires: datetime, now: datetime) -> bool:
        """Whether less than a third of the lifetime is left: time to sign again."""
        # Early enough for several runs of cron to fail before anything expires.
        return expires - now < timedelta(days=self.days[role]) / 3

    def as_fields(self) -> dict[str, object]:
        """As a field of root, which other TUF clients keep and ignore."""
        return {_LIFETIMES: dict(self.days)}

    @classmethod
    def from_fields(cls, fields: Mapping[str, object]) -> Lifetimes:
        # Another tool may have written anything here: the defaults replace what cannot be used.
        given = fields.get(_LIFETIMES)
        known = (
            {str(role): days for role, days in given.items() if type(days) is int} if isinstance(given, dict) else {}
        )
        return cls(days={**cls().days, **known})


def metadata_path(role: str, version: int) -> str:
    """Where a version of a role's metadata is, relative to the registry."""
    return TIMESTAMP_FILE if role == TIMESTAMP else f"{METADATA}/{version}.{role}.json"


def limit_of(role: str) -> int:
    return LIMITS.get(role, TARGETS_LIMIT)


def hashed_path(path: str, sha256: str) -> str:
    """Where the content `sha256` of the target `path` is: `index/di/gi/SHA256.tfaot-model-digits`."""
    folder, slash, name = path.rpartition("/")
    return f"{folder}{slash}{sha256}.{name}"


def tuf_role(role: str) -> str:
    """TUF's name of the top role that the keys of `role` sign."""
    return TARGETS if role == RELEASE else role


def top_delegations(root: Root) -> Delegations:
    """The delegations of `targets`: the release keys and threshold of `root`, for index files and search shards."""
    from tuf.api.metadata import DelegatedRole, Delegations

    release = root.roles[TARGETS]
    roles = {
        # Terminating: no other role can name targets at these paths.
        name: DelegatedRole(name, list(release.keyids), release.threshold, terminating=True, paths=[paths])
        for name, paths in ((PACKAGES, PACKAGE_PATHS), (SEARCH, SEARCH_PATHS))
    }
    return Delegations(keys=_release_keys(root), roles=roles)


def bin_delegations(root: Root, bits: int) -> Delegations:
    """The delegations of `packages`: the release keys and threshold of `root`, for each of 2**bits bins."""
    from tuf.api.metadata import Delegations, SuccinctRoles

    release = root.roles[TARGETS]
    succinct = SuccinctRoles(list(release.keyids), release.threshold, bits, BIN)
    return Delegations(keys=_release_keys(root), succinct_roles=succinct)


def _release_keys(root: Root) -> dict[str, Key]:
    return {keyid: root.keys[keyid] for keyid in root.roles[TARGETS].keyids}


def signing_time(timestamp: Mapping[str, object]) -> datetime | None:
    """When `timestamp` (its fields) was signed; None if another tool signed it."""
    try:
        return utc(str(timestamp.get(SIGNED_AT)))
    except ValueError:
        return None


_ASK = "nothing of it was used; tell the registry's maintainer, or read from another mirror"


def distrust(location: str, error: Exception, now: datetime) -> TrustError:
    """The TrustError for an error of python-tuf."""
    from tuf.api import exceptions
    from tuf.api.serialization import DeserializationError

    reason = str(error) or type(error).__name__
    if isinstance(error, exceptions.ExpiredMetadataError):
        return expired(location, reason, now)
    if isinstance(error, exceptions.BadVersionNumberError):
        return TrustError(f"{location} was rolled back, or mixes files of different times: {reason}", hint=_ASK)
    if isinstance(error, exceptions.UnsignedMetadataError):
        return TrustError(
            f"{location} is not signed by the keys that are trusted for it: {reason}",
            hint=f"{_ASK}. If the registry has a new root, get its fingerprint from the maintainer and pin that",
        )
    if isinstance(error, exceptions.LengthOrHashMismatchError):
        return TrustError(f"{location}: a file is not what was signed: {reason}", hint=_ASK)
    if isinstance(error, exceptions.DownloadLengthMismatchError):
        return TrustError(f"{location}: a file is longer than is allowed: {reason}", hint=_ASK)
    if isinstance(error, exceptions.DownloadHTTPError):
        return TrustError(f"{location} lacks a signed file: {reason}", hint=_ASK)
    if isinstance(error, DeserializationError):
        return TrustError(f"{location}: damaged metadata: {error.__cause__ or reason}", hint=_ASK)
    return TrustError(f"{location} cannot be trusted: {reason}", hint=_ASK)


def expired(location: str, what: str, now: datetime) -> TrustError:
    return TrustError(
        f"{location} is out of date: {what}; this machine's clock says {iso(now)}",
        hint="if that clock is right, the registry's maintainer has to run `tfaot-pkg registry refresh` "
        "(or you were given an old state); if it is wrong, correct it",
    )


def wrong_clock(location: str, signed: datetime, now: datetime) -> TrustError:
    return TrustError(
        f"this machine's clock says {iso(now)}, but {location} was signed at {iso(signed)}",
        hint="correct this machine's clock: with a wrong clock, an old state looks like the current one",
    )


CLOCK_TOLERANCE = timedelta(days=1)
"""How far the clocks of signer and reader may differ before that is an error of its own."""
NEGLECTED = timedelta(days=30)
"""How long a timestamp may have expired before its signer's clock is doubted, rather than the registry's upkeep."""

_TRUST_CLOCK = "if this clock is right, `tfaot-pkg registry refresh --trust-clock` signs by it"


def signing_moment(location: str, now: datetime, signed: datetime, expires: datetime | None) -> datetime:
    """The time to sign at, by a clock that says `now`, in a registry that was `signed` last, until `expires`.

    It never lies before the last signature, so that no expiry goes back. Raises TrustError if the clock may be wrong:
    readers would reject everything that it signs. Without `expires` it may be ahead.
    """
    if signed > now + CLOCK_TOLERANCE:
        raise TrustError(
            f"this machine's clock says {iso(now)}, but {location} was signed at {iso(signed)}: nothing was signed",
            hint="correct this machine's clock: signatures by a wrong one expire too early, and every reader rejects "
            f"the registry; {_TRUST_CLOCK}, in place of what another one signed",
        )
    if expires is not None and now > expires + NEGLECTED:
        raise TrustError(
            f"this machine's clock says {iso(now)}, but the signatures of {location} expired at {iso(expires)}: "
            "nothing was signed",
            hint="correct this machine's clock, if it is ahead: readers reject what is signed in their future; "
            f"{_TRUST_CLOCK} what nobody has signed again for so long",
        )
    return max(now, signed)
