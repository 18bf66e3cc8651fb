"""What python-tuf refuses, in words for people: what, where, and what to do next."""

from __future__ import annotations

from datetime import datetime, timedelta

from tfaot_pkg.errors import TrustError
from tfaot_pkg.trust.roles import iso

_ASK = "nothing of it was used; tell the registry's keeper, or read from another mirror"


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
            hint=f"{_ASK}. If its root was made anew, get the new root's fingerprint from its keeper and pin that",
        )
    if isinstance(error, exceptions.LengthOrHashMismatchError):
        return TrustError(f"{location}: a file is not what was signed: {reason}", hint=_ASK)
    if isinstance(error, exceptions.DownloadLengthMismatchError):
        return TrustError(f"{location}: a file is longer than is allowed: {reason}", hint=_ASK)
    if isinstance(error, exceptions.DownloadHTTPError):
        return TrustError(f"{location} lacks a file that it is signed to have: {reason}", hint=_ASK)
    if isinstance(error, DeserializationError):
        return TrustError(f"{location}: damaged metadata: {error.__cause__ or reason}", hint=_ASK)
    return TrustError(f"{location} cannot be trusted: {reason}", hint=_ASK)


def expired(location: str, what: str, now: datetime) -> TrustError:
    return TrustError(
        f"{location} is out of date: {what}; this machine's clock says {iso(now)}",
        hint="if that clock is right, the registry's keeper has to run `tfaot-pkg registry refresh` "
        "(or someone shows you an old state); if it is wrong, set it",
    )


def wrong_clock(location: str, signed: datetime, now: datetime) -> TrustError:
    return TrustError(
        f"this machine's clock says {iso(now)}, but {location} was signed at {iso(signed)}",
        hint="set this machine's clock: without a right one nobody can tell an old state from the current one",
    )


CLOCK_TOLERANCE = timedelta(days=1)
"""By how much the clocks of signer and reader may differ before that is a fault of its own."""
