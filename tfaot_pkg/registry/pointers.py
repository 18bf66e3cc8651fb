"""How channels move: what a promotion, a rollback, a hold or a yank adds to the log of a package. Decisions only."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from packaging.version import Version

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import utc
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.commit import Commit
from tfaot_pkg.registry.entry import RegistryEntry, newest
from tfaot_pkg.registry.events import WITHDRAWALS, Event, Move, Standing, one_line, public
from tfaot_pkg.registry.index import IndexFile


def user() -> str:
    """Who runs this process, for the log."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pen:
    """Writes events into logs: with the time and the signatures of `commit`, in the name of `by`.

    One that does not sign (`signs` False) is for what is only shown.
    """

    commit: Commit
    by: str = ""
    signs: bool = True

    def write(
        self,
        index: IndexFile,
        do: str,
        *,
        reason: str = "",
        channel: str = "",
        build: str = "",
        moves: Iterable[Move] = (),
    ) -> IndexFile:
        """`index` with one more event. Raises TrustError if the keys are missing."""
        event = Event(
            name=index.package,
            do=do,
            at=self.commit.moment(),
            by=self.by or user(),
            reason=reason,
            channel=channel,
            build=build,
            moves=tuple(moves),
            after=index.head,
        )
        signatures = self.commit.signatures(event.payload()) if self.signs else ()
        return index.with_event(replace(event, signatures=signatures))


def moved(standing: Standing, channel: str, entry: RegistryEntry) -> Move:
    """The move by which `channel` gets the build `entry`, for every architecture that it has now."""
    version = public(entry.version)
    before = standing.pointer(channel, version)
    return Move(
        channel=channel,
        version=version,
        build=entry.version,
        before=before.build if before else "",
        trees=tuple(sorted(one.tree for one in entry.trees)),
    )


def back(standing: Standing, channel: str, version: str, entries: Sequence[RegistryEntry]) -> Move:
    """The move by which `channel` gets the build of `version` that it had before, or none if there is no usable one.

    Yanked builds, and those that were taken out of the channel before, are not usable.
    """
    version = public(version)
    now = standing.pointer(channel, version)
    assert now is not None
    out = {*standing.withdrawn.get(channel, ()), now.build}
    good = {entry.version for entry in entries if entry.yanked is None} - out
    for move in reversed(standing.earlier.get((channel, version), ())):
        if move.build in good:
            return replace(move, before=now.build)
    return Move(channel=channel, version=version, build="", before=now.build)


def rolled_back(index: IndexFile, channel: str, wanted: str) -> Move:
    """The move that takes out of `channel` what was promoted last, or the build of the version `wanted`.

    Unless `wanted` names exactly the build, it is rejected if somebody has done this already, because two people who
    see one mistake must not take out two builds; and if the channel would be left with nothing. Raises RegistryError.
    """
    build = _last_promoted(index, channel, wanted)
    move = back(index.standing, channel, build, index.entries)
    if wanted and Version(wanted) == Version(build):
        return move
    by_name = f"name it: tfaot-pkg rollback {index.package}@{build} --channel {channel}"
    if already := _last_withdrawal(index, channel, public(wanted) if wanted else ""):
        raise RegistryError(
            f"{index.package}@{already}", hint=f"{channel} has {build} now; to take that out as well, {by_name}"
        )
    others = {one.build for one in index.standing.pointers[channel].values()} - {build}
    if not move.build and not any(one.version in others and one.yanked is None for one in index.entries):
        raise RegistryError(
            f"{channel} had nothing before {index.package}@{build}: its users would get no version",
            hint=f"promote another one first; to take it out all the same, {by_name}",
        )
    return move


def _last_promoted(index: IndexFile, channel: str, wanted: str) -> str:
    """What `channel` has of the version `wanted`, or of the one that was promoted last. Raises RegistryError."""
    builds = index.standing.pointers.get(channel, {})
    in_order = [builds[version] for version in index.standing.latest.get(channel, ()) if version in builds]
    now = builds.get(public(wanted)) if wanted else in_order[-1] if in_order else None
    if now is None or (wanted and Version(wanted).local and Version(now.build) != Version(wanted)):
        there = ", ".join(one.build for one in builds.values())
        raise RegistryError(
            f"{channel} of {index.package}{wanted and f'@{wanted}'} has nothing to take out",
            hint=f"it has {there or 'no build'}",
        )
    return now.build


def _last_withdrawal(index: IndexFile, channel: str, version: str) -> str:
    """What was taken out of `channel` (of `version`, if given), when, and why, if nothing was put in since."""
    moves = ((event, move) for event in reversed(index.events) for move in event.moves if move.channel == channel)
    event, move = next(((event, move) for event, move in moves if version in ("", public(move.version))), (None, None))
    if event is None or move is None or event.do not in WITHDRAWALS:
        return ""
    return f"{move.before} {_taken_out(event, channel)}"


def _taken_out(event: Event, channel: str) -> str:
    return f"was taken out of {channel} at {event.at} by {event.by}: {one_line(event.reason)}"


def begun(index: IndexFile, channels: Sequence[str], pen: Pen) -> IndexFile:
    """`index` with each of `channels`, which are new, at what was chosen before there were channels."""
    standing = index.standing
    by_version: dict[str, list[RegistryEntry]] = {}
    for entry in index.entries:
        by_version.setdefault(public(entry.version), []).append(entry)
    best = [one for entries in by_version.values() if (one := newest(entries)) is not None]
    moves = [moved(standing, channel, entry) for channel in channels for entry in best]
    return pen.write(index, "begin", reason="channels were set up", moves=moves) if moves else index


def yanked(before: IndexFile, after: IndexFile, version: str, reason: str | None, pen: Pen) -> IndexFile:
    """`after`, in which `version` was yanked (`reason` None: is no longer), with the event of that.

    Channels that have it go back, because nobody must get it from them.
    """
    line = after.line_of(version)
    was = before.line_of(version)
    assert line is not None and line.entry is not None and was is not None and was.entry is not None
    if (line.entry.yanked, reason is None) == (was.entry.yanked, was.entry.yanked is None):
        return after
    if reason is None:
        return pen.write(after, "unyank", build=line.version)
    standing = after.standing
    moves = [
        back(standing, channel, version, after.entries)
        for channel, builds in standing.pointers.items()
        if (one := builds.get(public(version))) and Version(one.build) == Version(version)
    ]
    return pen.write(after, "yank", reason=reason, build=line.version, moves=moves)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be promoted of a package: the build of `version`, or without one the newest that is not rejected.

    `rejection` says why a build is none of those; empty if it is one.
    """

    channel: str
    version: str = ""
    rejection: Callable[[RegistryEntry], str] = lambda _: ""


def promoted(index: IndexFile, channels: Channels, wish: Wish, *, reason: str, location: str) -> RegistryEntry:
    """The build of `index` that `wish` promotes.

    Raises RegistryError if there is none, it is yanked, the channel is held, or it needs a reason and has none.
    """
    channel, standing = wish.channel, index.standing
    if channel == channels.first:
        raise RegistryError(
            f"everything that is published is in {channel} at once",
            hint=f"promote into {' or '.join(channels.names[1:])}",
        )
    if hold := standing.held.get(channel):
        raise RegistryError(
            f"{channel} of {index.package} is held since {hold.at} by {hold.by}: {one_line(hold.reason)}",
            hint=f"tfaot-pkg hold {index.package} --channel {channel} --undo",
        )
    source = channels.before(channel)
    entry = _named(index, wish, channels, source, location) if wish.version else _best(index, wish, channels)
    if entry.yanked is not None:
        raise RegistryError(f"{entry} was yanked: {entry.yanked}", hint="promote another build, or unyank it first")
    why = ""
    if event := withdrawal(index, channel, entry.version):
        why = _taken_out(event, channel)
    elif not channels.has(entry, source):
        why = f"is not in {source}"
    if why and not reason:
        raise RegistryError(f"{entry} {why}", hint="if it is to be promoted all the same, say why with --reason")
    return entry


def withdrawal(index: IndexFile, channel: str, build: str) -> Event | None:
    """The event that took `build` out of `channel`; None if it is there, or may be promoted."""
    if build not in index.standing.withdrawn.get(channel, ()):
        return None
    out = (channel, build)
    return next(
        event
        for event in reversed(index.events)
        if event.do in WITHDRAWALS and out in [(move.channel, move.before) for move in event.moves]
    )


def left_to_people(index: IndexFile, channel: str, build: str) -> str:
    """Why nobody promotes `build` into `channel` without naming it; empty if nothing speaks against it."""
    if hold := index.standing.held.get(channel):
        return _held_by(hold)
    out = withdrawal(index, channel, build)
    return _taken_out(out, channel) if out else ""


def _held_by(hold: Event) -> str:
    return f"held by {hold.by}: {one_line(hold.reason)}"


def _named(index: IndexFile, wish: Wish, channels: Channels, source: str, location: str) -> RegistryEntry:
    """The build `wish.version`; if that is a version, its build in the channel `source`."""
    wanted = Version(wish.version)
    builds = [entry for entry in index.entries if entry.order == wanted]
    if not builds:
        builds = [
            entry for entry in index.entries if public(entry.version) == public(wish.version) and not wanted.local
        ]
        builds = [entry for entry in builds if channels.has(entry, source)] or builds
    chosen = newest(builds) or max(builds, key=lambda entry: entry.rank, default=None)
    if chosen is None:
        there = ", ".join(entry.version for entry in index.entries)
        raise RegistryError(
            f"there is no {index.package}@{wish.version} in {location}", hint=f"versions that are there: {there}"
        )
    return chosen


def _best(index: IndexFile, wish: Wish, channels: Channels) -> RegistryEntry:
    source = channels.before(wish.channel)
    inside = [entry for entry in index.entries if channels.has(entry, source)]
    chosen = newest([entry for entry in inside if not wish.rejection(entry)])
    if chosen is None:
        lines = [f"  {entry.version}: {wish.rejection(entry) or entry.yanked}" for entry in inside]
        raise RegistryError(
            "\n".join([f"{index.package} has no build in {source} that can be promoted", *lines]),
            hint="name one: NAME@VERSION, with a --reason",
        )
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A build that the registry's rules promote, or `wait`: why they do not yet."""

    package: str
    channel: str
    build: str
    wait: str = ""

    def __str__(self) -> str:
        return f"{self.package}: {self.build} not into {self.channel}: {self.wait}"


def due(indexes: Sequence[IndexFile], channels: Channels, channel: str, now: str) -> Iterator[Due]:
    """What the rule of `channel` says of each package that has something to promote; `now` as events give times.

    A package that is in the channel is only promoted to builds of the toolchain that it has there: another one is
    somebody's decision.
    """
    rule = channels.promotion[channel]
    for index in indexes:
        candidate = _candidate(index, channels, channel)
        if candidate is None:
            continue
        wait = _wait(index, candidate, channels, channel, now)
        if not wait and index.package not in rule.canaries:
            wait = _canaries(indexes, rule.canaries, channel, candidate.toolchain)
        yield Due(package=index.package, channel=channel, build=candidate.version, wait=wait)


def _candidate(index: IndexFile, channels: Channels, channel: str) -> RegistryEntry | None:
    """The newest build of the channel before, of the channel's own toolchain, if `channel` does not have it yet."""
    source = channels.before(channel)
    there = newest([entry for entry in index.entries if channels.has(entry, channel)])
    out = index.standing.withdrawn.get(channel, frozenset())
    offered = [
        entry
        for entry in index.entries
        if channels.has(entry, source)
        and entry.version not in out
        and (there is None or (entry.toolchain == there.toolchain and _is_newer(entry, there, channel)))
    ]
    return newest(offered)


def _is_newer(entry: RegistryEntry, there: RegistryEntry, channel: str) -> bool:
    """Whether `entry` has something that `channel`, which has the build `there`, lacks: as a tree that was added."""
    return entry.rank > there.rank or (
        entry.version == there.version and any(channel not in one.channels for one in entry.trees)
    )


def _wait(index: IndexFile, entry: RegistryEntry, channels: Channels, channel: str, now: str) -> str:
    standing, source, nights = index.standing, channels.before(channel), channels.promotion[channel].nights
    if hold := standing.held.get(channel):
        return _held_by(hold)
    pointer = standing.pointer(source, entry.version)
    newest_tree = max(one.published for one in entry.trees)
    since = newest_tree if source == channels.first or pointer is None else pointer.since
    spent = nights_between(since, now)
    return "" if spent >= nights else f"{spent} of {nights} nights in {source}"


def nights_between(since: str, now: str) -> int:
    """How many times a date (UTC) ended between two times: a night is one, whenever its jobs run."""
    try:
        return (utc(now).date() - utc(since).date()).days
    except ValueError:  # published by an earlier version of this tool
        return 0


def _canaries(indexes: Sequence[IndexFile], canaries: Sequence[str], channel: str, toolchain: str) -> str:
    there = {
        index.package
        for index in indexes
        for entry in index.entries
        if channel in entry.channels and entry.yanked is None and entry.toolchain == toolchain
    }
    missing = sorted(set(canaries) - there)
    return f"the canary {missing[0]} has no build of {toolchain} in {channel}" if missing else ""
