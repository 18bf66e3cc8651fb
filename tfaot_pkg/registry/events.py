"""The log of a package: who moved which channel to which build, when and why; and where its channels stand.

An event is a line of the package's index file: an old or a changed log is rejected as an old or a changed version is.
It has a `kind`, so readers that know no channels ignore it. Events are only ever added: each names the digest of the
one before, and carries signatures of its own, which outlive the metadata that signs the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import fields_of, utc, write
from tfaot_pkg.ground.keys import sha256_bytes
from tfaot_pkg.registry.files.layout import is_sha256

if TYPE_CHECKING:
    from securesystemslib.signer import Key

KIND = "event"
"""The `kind` of these lines."""
WITHDRAWALS = ("rollback", "yank")
"""What an event does that takes a build out of its channels."""
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")


def is_channel_name(text: str) -> bool:
    return _WORD.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """From now on `channel` has `build` (empty: nothing) for `version`, which was `before` (empty: nothing).

    `version` is public (PEP 440), `build` may have a local part; `trees` are the digests of its install trees, so that
    what is added to a build later is in the channel only after it was promoted as well.
    """

    channel: str
    version: str
    build: str
    before: str = ""
    trees: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not is_channel_name(self.channel):
            raise ValueError("channel must be a name of a channel")
        try:
            if Version(self.version).local:
                raise ValueError("version must have no local part")
            for build in filter(None, (self.build, self.before)):
                if public(build) != public(self.version):
                    raise ValueError(f"{build} is no build of {self.version}")
        except InvalidVersion as error:
            raise ValueError(str(error)) from None
        if not all(map(is_sha256, self.trees)):
            raise ValueError("trees must be digests")


def one_line(reason: str) -> str:
    """A reason as messages show it: with line ends it could look like another line of them."""
    return " ".join(reason.split())


# Versions are read again for every package that a promotion looks at: 1,000 of 20 versions took minutes.
@lru_cache(maxsize=1 << 16)
def public(version: str) -> str:
    """The version that `version` is a build of: without its local part, in its normal form."""
    return Version(version).public


@lru_cache(maxsize=1 << 16)
def _normal(version: str) -> Version:
    return Version(version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What someone did. `do` is a verb, `build` or `channel` what it was done to.

    `after` is the digest of the event before; `signatures` are those of the release keys, in the form of TUF's metadata
    (an unsigned registry has none).
    """

    name: str
    do: str
    at: str
    by: str
    reason: str = ""
    channel: str = ""
    build: str = ""
    moves: tuple[Move, ...] = ()
    after: str = ""
    signatures: tuple[Mapping[str, Any], ...] = ()

    def __post_init__(self) -> None:
        utc(self.at)
        if not _WORD.fullmatch(self.do):
            raise ValueError("do must be a verb")
        if self.after and not is_sha256(self.after):
            raise ValueError("after must be a digest")

    def as_dict(self) -> dict[str, object]:
        """The JSON object of the line."""
        return {"v": 1, "kind": KIND, **fields_of(self)}

    def payload(self) -> bytes:
        """What the signatures are of: all but themselves."""
        return write(replace(self, signatures=()))

    def line(self) -> bytes:
        """Without its line end."""
        return write(self)[:-1]

    @property
    def key_ids(self) -> tuple[str, ...]:
        return tuple(str(one.get("keyid", "")) for one in self.signatures)


def chain_faults(lines: Sequence[tuple[bytes, Event]]) -> Iterator[str]:
    """What is wrong with the order of a package's events, which are given with their lines."""
    before = ""
    for raw, event in lines:
        if event.after != before:
            yield f"the event of {event.at} ({event.do}) does not follow the one before it: the log was changed"
        before = sha256_bytes(raw)


def check_signatures(event: Event, keys: Mapping[str, Key]) -> None:
    """Raise TrustError unless every signature of `event` is valid and by one of `keys`, and there is one."""
    from securesystemslib.exceptions import UnverifiedSignatureError, VerificationError
    from securesystemslib.signer import Signature

    what = f"the event of {event.at} ({event.do}) of {event.name}"
    if not event.signatures:
        raise TrustError(f"{what} is not signed")
    for one in event.signatures:
        try:
            signature = Signature.from_dict(dict(one))
        except (KeyError, TypeError, ValueError) as error:
            raise TrustError(f"{what} has a damaged signature") from error
        key = keys.get(signature.keyid)
        if key is None:
            raise TrustError(f"{what} is signed by {signature.keyid[:12]}, which was never a release key")
        try:
            key.verify_signature(signature, event.payload())
        except (UnverifiedSignatureError, VerificationError) as error:
            raise TrustError(f"{what} is not what was signed") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """The build that a channel has for a version, since when, and the digests of its trees."""

    build: str
    trees: tuple[str, ...]
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where the channels of a package stand after all of its events.

    `pointers` go by channel and version; `held` are the events that hold a channel; `withdrawn` are the builds that
    were taken out of a channel and not put back by hand; `earlier` are, by channel and version, all builds that the
    channel had, oldest first; `latest` is, by channel, the version that was promoted last.
    """

    pointers: Mapping[str, Mapping[str, Pointer]] = field(default_factory=dict)
    held: Mapping[str, Event] = field(default_factory=dict)
    withdrawn: Mapping[str, frozenset[str]] = field(default_factory=dict)
    earlier: Mapping[tuple[str, str], tuple[Move, ...]] = field(default_factory=dict)
    latest: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def after(cls, events: Iterable[Event]) -> Standing:
        standing = cls()
        for event in events:
            standing = standing._with(event)
        return standing

    def _with(self, event: Event) -> Standing:
        pointers = {channel: dict(builds) for channel, builds in self.pointers.items()}
        held, withdrawn = dict(self.held), dict(self.withdrawn)
        earlier, latest = dict(self.earlier), dict(self.latest)
        if event.do == "hold":
            held[event.channel] = event
        elif event.do == "unhold":
            held.pop(event.channel, None)
        for move in event.moves:
            version, builds = public(move.version), pointers.setdefault(move.channel, {})
            out = withdrawn.get(move.channel, frozenset())
            if event.do in WITHDRAWALS:
                withdrawn[move.channel] = out | ({move.before} - {""})
            else:
                withdrawn[move.channel] = out - {move.build}
                before = tuple(one for one in latest.get(move.channel, ()) if one != version)
                latest[move.channel] = (*before, version)
            if move.build:
                builds[version] = Pointer(build=move.build, trees=move.trees, since=event.at)
                earlier[move.channel, version] = (*earlier.get((move.channel, version), ()), move)
            else:
                builds.pop(version, None)
        return Standing(pointers=pointers, held=held, withdrawn=withdrawn, earlier=earlier, latest=latest)

    def channels_of(self, version: str, tree: str) -> tuple[str, ...]:
        """The channels that have this tree of the build `version`, in the order of their names."""
        return tuple(
            sorted(
                channel
                for channel, builds in self.pointers.items()
                if (one := builds.get(public(version))) and _normal(one.build) == _normal(version) and tree in one.trees
            )
        )

    def pointer(self, channel: str, version: str) -> Pointer | None:
        return self.pointers.get(channel, {}).get(public(version))
