"""The channels of a registry: their names in the order of promotion, the default one, and when promotion is automatic.

A target of its own (`channels.json`), so what it says is as fresh as all else that a reader verifies. The first channel
has whatever was published; the others have what their packages' logs say (events.py). A registry without this file has
no channels, and its newest versions are chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import fields_of, read, write
from tfaot_pkg.package.name import is_package_name, package_meant_by
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.events import is_channel_name, one_line

DEFAULT_NAMES = ("nightly", "candidate", "stable")
_MOST_NIGHTS = 3650
_HINT = "restore it from a copy of the registry that passes `tfaot-pkg registry verify`"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Promotion into a channel without anybody's command: after `nights` in the channel before.

    With `canaries`, which are packages, only once each of them has a build of the same toolchain in the channel.
    """

    nights: int
    canaries: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.nights <= _MOST_NIGHTS:
            raise ValueError(f"nights must be from 1 to {_MOST_NIGHTS}")
        if not all(map(is_package_name, self.canaries)):
            raise ValueError("canaries must be names of packages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Channels:
    """`names` in the order of promotion, `default` the one that a requirement means, `promotion` by channel."""

    names: tuple[str, ...] = DEFAULT_NAMES
    default: str = DEFAULT_NAMES[-1]
    promotion: Mapping[str, Rule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if fault := names_fault(self.names):
            raise ValueError(fault)
        if self.default not in self.names:
            raise ValueError(f"default is {self.default!r}, which is not among {', '.join(self.names)}")
        for name in self.promotion:
            if name not in self.names[1:]:
                raise ValueError(f"nothing is promoted into {name!r}: write one of {', '.join(self.names[1:])}")

    @property
    def first(self) -> str:
        """The channel that has all that was published."""
        return self.names[0]

    def before(self, channel: str) -> str:
        """The channel from which builds are promoted into `channel`."""
        return self.names[self.names.index(channel) - 1]

    def require(self, channel: str, location: str) -> str:
        """`channel`, or the default one if it is empty. Raises RegistryError if there is none of that name."""
        if channel and channel not in self.names:
            raise RegistryError(
                f"{location} has no channel {channel}", hint=f"its channels are {', '.join(self.names)}"
            )
        return channel or self.default

    def has(self, entry: RegistryEntry, channel: str) -> bool:
        return channel == self.first or channel in entry.channels

    def as_dict(self) -> dict[str, object]:
        return fields_of(self)

    def to_bytes(self) -> bytes:
        return write(_Document(names=self.names, default=self.default, promotion=self.promotion))

    @classmethod
    def parse(cls, data: bytes, file: str) -> Channels:
        """Raises RegistryError."""
        document = read(_Document, data, file, error=RegistryError, hint=_HINT)
        try:
            return cls(names=document.names, default=document.default, promotion=document.promotion)
        except ValueError as error:
            raise RegistryError(f"{file} is damaged: {error}", hint=_HINT) from error

    @classmethod
    def of(
        cls,
        names: Sequence[str] = DEFAULT_NAMES,
        default: str = "",
        nights: Mapping[str, int] | None = None,
        canaries: Mapping[str, Sequence[str]] | None = None,
    ) -> Channels:
        """What a person asked for; `canaries` are models or packages. Raises RegistryError."""
        for name in canaries or {}:
            if name not in (nights or {}):
                raise RegistryError(
                    f"there are canaries for {name}, but nothing is promoted into it after any number of nights",
                    hint=f"say --nights {name}=N as well",
                )
        try:
            rules = {
                name: Rule(nights=count, canaries=tuple(map(package_meant_by, (canaries or {}).get(name, ()))))
                for name, count in (nights or {}).items()
            }
            return cls(names=tuple(names), default=default or (names[-1] if names else ""), promotion=rules)
        except ValueError as error:
            raise RegistryError(f"channels: {error}", hint="such as nightly,candidate,stable") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStand:
    """What a channel has of a package: its newest build (or empty), and the reason if nothing is promoted into it."""

    channel: str
    build: str
    is_default: bool
    held: str

    def __str__(self) -> str:
        held = f", held: {one_line(self.held)}" if self.held else ""
        return f"{self.channel}{' (default)' if self.is_default else ''}: {self.build or 'nothing'}{held}"


def names_fault(names: Sequence[str]) -> str:
    """Why these are no channels; empty if they are."""
    if len(names) < 2:
        return "there must be at least two channels"
    for name in names:
        if not is_channel_name(name):
            return f"{name!r} is no name of a channel: lower-case letters, digits, - and _, from a letter on"
    return "" if len(set(names)) == len(names) else "a channel is named twice"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Document:
    names: tuple[str, ...]
    default: str
    promotion: Mapping[str, Rule] = field(default_factory=dict)
    format: int = 1
