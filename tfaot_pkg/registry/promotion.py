"""What maintainers do with channels: set up, promote, hold, roll back, and what the rules promote by themselves.

Each is one step with one signing: of one package, or of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from packaging.version import InvalidVersion, Version

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.package.name import package_meant_by
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.commit import Commit
from tfaot_pkg.registry.dependencies.resolution import Constraints
from tfaot_pkg.registry.entry import RegistryEntry, newest
from tfaot_pkg.registry.events import Move
from tfaot_pkg.registry.files.layout import CHANNELS, CONFIG
from tfaot_pkg.registry.index import IndexFile
from tfaot_pkg.registry.pointers import Due, Pen, Wish, begun, due, left_to_people, moved, promoted, rolled_back
from tfaot_pkg.registry.reader import Requirement, unknown_package
from tfaot_pkg.registry.static import CHANNELLED
from tfaot_pkg.registry.writable import WritableRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What a command did to a channel of a package; `before` and `after` are builds, empty for none."""

    package: str
    channel: str
    version: str
    before: str
    after: str

    @classmethod
    def of(cls, package: str, move: Move) -> Moved:
        return cls(package=package, channel=move.channel, version=move.version, before=move.before, after=move.build)

    def __str__(self) -> str:
        if not self.after:
            return f"{self.package} {self.before}: taken out of {self.channel}"
        had = f" (had {self.before})" if self.before else ""
        return f"{self.package} {self.version}: {self.channel} has {self.after}{had}"


def require_channels(registry: WritableRegistry) -> Channels:
    """Raises RegistryError if the registry has none."""
    if (channels := registry.channels) is None:
        raise RegistryError(
            f"{registry.location} has no channels", hint="tfaot-pkg registry channels REGISTRY --set makes them"
        )
    return channels


def set_channels(registry: WritableRegistry, channels: Channels, *, by: str = "") -> bool:
    """Give the registry these channels; False if it has them already.

    New ones begin with what was chosen before, so that nobody gets another version by this. Raises RegistryError if a
    canary is not there, or a channel with builds would be dropped; TrustError, StorageError.
    """
    with registry.writing() as commit:
        # A wrong clock is found before anything is read.
        commit.moment()
        before = registry.channels
        if before == channels:
            return False
        names = registry.names()
        if lost := sorted({one for rule in channels.promotion.values() for one in rule.canaries} - set(names)):
            raise RegistryError(f"the canary {lost[0]} is not in {registry.location}", hint="publish it first")
        _require_kept(before, channels)
        new = [name for name in channels.names[1:] if before is None or name not in before.names]
        pen = Pen(commit=commit, by=by)
        changed: dict[str, tuple[IndexFile, IndexFile]] = {}
        for name in names if new else ():
            index = registry.index_before(commit, name)
            changed[name] = (index, begun(index, new, pen))
        settings = {CHANNELS: channels.to_bytes()}
        if not registry.is_signed and not registry.config.has_channels:
            # Last: from then on readers ask for the other file.
            settings[CONFIG] = registry.config.having(CHANNELLED).to_bytes()
        registry.apply(commit, changed, settings)
        return True


def _require_kept(before: Channels | None, after: Channels) -> None:
    """Raise RegistryError if a channel of before is dropped or changes its place: its builds would lose their sense."""
    if before is None:
        return
    kept = [name for name in after.names if name in before.names]
    if kept != list(before.names):
        raise RegistryError(
            f"the channels are {', '.join(before.names)}: none of them can be dropped or change its place",
            hint="add channels, or change the default one",
        )
    if after.first != before.first:
        raise RegistryError(f"the first channel is {before.first}, and stays that", hint="add channels after it")


def promote(
    registry: WritableRegistry,
    packages: Sequence[str],
    channel: str = "",
    *,
    reason: str = "",
    by: str = "",
    toolchain: str = "",
) -> tuple[Moved, ...]:
    """Put builds of `packages` (`NAME` or `NAME@VERSION`) into `channel` (empty: the default one), all or none of them.

    Without a version: the newest build of the channel before, by `toolchain` if that is given. Raises RegistryError,
    TrustError, StorageError.
    """
    channels = require_channels(registry)
    chosen = channels.require(channel, registry.location)
    rejection = Constraints.parse(toolchain=toolchain).rejection
    wishes = {
        name: Wish(channel=chosen, version=version, rejection=rejection) for name, version in map(_parsed, packages)
    }

    def change(index: IndexFile) -> list[Move]:
        entry = promoted(index, channels, wishes[index.package], reason=reason, location=registry.location)
        move = moved(index.standing, chosen, entry)
        pointer = index.standing.pointer(chosen, entry.version)
        return [] if pointer and (pointer.build, pointer.trees) == (move.build, move.trees) else [move]

    return _moving(registry, tuple(wishes), "promote", change, channels, channel=chosen, reason=reason, by=by)


def with_something_new(
    registry: WritableRegistry, channel: str, toolchain: str
) -> tuple[tuple[str, ...], tuple[Due, ...]]:
    """The packages of which a newer build than that of `channel` is to be promoted into it; and those whose build is
    left to somebody who names it, because the channel is held, the build was taken out of it, or needs one that is left
    so. Raises RegistryError.
    """
    channels = require_channels(registry)
    chosen = channels.require(channel, registry.location)
    rejection = Constraints.parse(toolchain=toolchain).rejection
    found, waiting = dict[str, RegistryEntry](), list[Due]()
    for name in registry.names() if chosen != channels.first else ():
        index = registry.index_file(name)
        there = newest([entry for entry in index.entries if channels.has(entry, chosen)])
        inside = [one for one in index.entries if channels.has(one, channels.before(chosen))]
        best = newest([one for one in inside if not rejection(one)])
        missing = best and any(chosen not in one.channels for one in best.trees)
        if best is None or not (there is None or best.version != there.version or missing):
            continue
        if wait := left_to_people(index, chosen, best.version):
            waiting.append(Due(package=index.package, channel=chosen, build=best.version, wait=wait))
        else:
            found[name] = best

    def unserved(entry: RegistryEntry) -> str:
        return _unserved(entry, channels, chosen, registry.index_file, found)

    # Again, for those that need one of these.
    while left := {name: wait for name, one in found.items() if (wait := unserved(one))}:
        for name, wait in left.items():
            waiting.append(Due(package=name, channel=chosen, build=found.pop(name).version, wait=wait))
    return tuple(found), tuple(waiting)


def promote_due(
    registry: WritableRegistry, *, by: str = "", dry_run: bool = False
) -> tuple[tuple[Moved, ...], tuple[Due, ...]]:
    """Promote what the rules of the registry say, channel by channel; also what waits, and why.

    Raises RegistryError if there are no channels, TrustError, StorageError.
    """
    channels = require_channels(registry)
    done: list[Moved] = []
    waiting: list[Due] = []
    with registry.writing() as commit:
        pen = Pen(commit=commit, by=by, signs=not dry_run)
        before = {name: registry.index_before(commit, name) for name in registry.names()}
        now = dict(before)
        # From the last channel on: what comes into one channel now has spent no night there.
        for channel in reversed([name for name in channels.names if name in channels.promotion]):
            waiting += _promote_due(now, channels, channel, pen, done)
        if not dry_run:
            registry.apply(commit, {name: (index, now[name]) for name, index in before.items() if now[name] != index})
    return tuple(done), tuple(waiting)


def _promote_due(
    indexes: dict[str, IndexFile], channels: Channels, channel: str, pen: Pen, done: list[Moved]
) -> list[Due]:
    """Change `indexes` by the rule of `channel`, and add to `done`. Returns what waits."""
    rule = channels.promotion[channel]
    why = f"{rule.nights} nights in {channels.before(channel)}"
    while True:
        waiting, moves = [], dict[str, Move]()
        for one in due(tuple(indexes.values()), channels, channel, pen.commit.moment()):
            index = indexes[one.package]
            entry = next(entry for entry in index.entries if entry.version == one.build)
            if wait := one.wait or _unserved(entry, channels, channel, indexes.__getitem__):
                waiting.append(replace(one, wait=wait))
            else:
                moves[one.package] = moved(index.standing, channel, entry)
        # Again, for those that waited for a canary or a dependency among these.
        if not moves:
            return waiting
        for name, move in moves.items():
            indexes[name] = pen.write(
                indexes[name], "promote", reason=why, channel=channel, build=move.build, moves=[move]
            )
            done.append(Moved.of(name, move))


def hold(registry: WritableRegistry, package: str, channel: str = "", *, reason: str, by: str = "") -> str:
    """Let nothing be promoted into `channel` of `package`. Returns the channel. Raises RegistryError, TrustError."""
    return _held(registry, package, channel, "hold", reason, by)


def unhold(registry: WritableRegistry, package: str, channel: str = "", *, reason: str = "", by: str = "") -> str:
    """Undo `hold`."""
    return _held(registry, package, channel, "unhold", reason, by)


def _held(registry: WritableRegistry, package: str, channel: str, do: str, reason: str, by: str) -> str:
    channels = require_channels(registry)
    chosen = channels.require(channel, registry.location)
    name, version = _parsed(package)
    if version:
        raise RegistryError(f"{package}: a hold is of a channel, whatever the version", hint=f"tfaot-pkg hold {name}")
    if chosen == channels.first:
        raise RegistryError(
            f"{chosen} has whatever is published, so it cannot be held",
            hint=f"hold {' or '.join(channels.names[1:])}; yank a version that nobody must use",
        )

    def change(index: IndexFile, pen: Pen) -> IndexFile:
        held = index.standing.held.get(chosen)
        # Another reason is another hold, so that the log has it: whoever undoes it reads both.
        is_held_so = held is not None and held.reason == reason
        if is_held_so if do == "hold" else held is None:
            return index
        return pen.write(index, do, reason=reason, channel=chosen)

    _writing(registry, [name], change, by)
    return chosen


def rollback(registry: WritableRegistry, package: str, channel: str = "", *, reason: str, by: str = "") -> Moved:
    """Take out of `channel` what was promoted last, or the build of `NAME@VERSION`; it gets what it had before.

    What was taken out is not promoted by rules again. Raises RegistryError if there is nothing to take out, or the
    build must be named (`rolled_back`), TrustError.
    """
    channels = require_channels(registry)
    chosen = channels.require(channel, registry.location)
    if chosen == channels.first:
        raise RegistryError(
            f"{chosen} has whatever is published: nothing can be taken out of it",
            hint="tfaot-pkg yank hides a version that nobody must use",
        )
    name, version = _parsed(package)
    change = lambda index: [rolled_back(index, chosen, version)]  # noqa: E731
    (done,) = _moving(registry, (name,), "rollback", change, channels, channel=chosen, reason=reason, by=by)
    return done


def _moving(
    registry: WritableRegistry,
    names: Sequence[str],
    do: str,
    change: Callable[[IndexFile], list[Move]],
    channels: Channels,
    *,
    channel: str,
    reason: str,
    by: str,
) -> tuple[Moved, ...]:
    """Write an event with the moves that `change` gives, for each package that has some."""
    done: list[Moved] = []

    def write(index: IndexFile, pen: Pen) -> IndexFile:
        moves = change(index)
        if not moves:
            return index
        done.extend(Moved.of(index.package, move) for move in moves)
        build = moves[0].before if do == "rollback" else moves[0].build
        return pen.write(index, do, reason=reason, channel=channel, build=build, moves=moves)

    def check(indexes: Mapping[str, IndexFile]) -> None:
        """What a promoted build depends on must be in the channel as well, or nobody could install it from there."""
        for one in done if do == "promote" else ():
            entry = next(entry for entry in indexes[one.package].entries if entry.version == one.after)
            index_of = lambda name: indexes.get(name) or registry.index_file(name)  # noqa: E731
            if fault := _unserved(entry, channels, channel, index_of):
                raise RegistryError(
                    f"{entry} {fault}", hint=f"promote that into {channel} as well, in the same command"
                )

    _writing(registry, names, write, by, check)
    return tuple(done)


def _writing(
    registry: WritableRegistry,
    names: Sequence[str],
    change: Callable[[IndexFile, Pen], IndexFile],
    by: str,
    check: Callable[[Mapping[str, IndexFile]], None] = lambda _: None,
) -> None:
    with registry.writing() as commit:
        # Before anything is decided: who cannot sign must not be told what would happen.
        commit.require()
        pen = Pen(commit=commit, by=by)
        changed = {name: (index := _index(registry, commit, name), change(index, pen)) for name in names}
        check({name: after for name, (_, after) in changed.items()})
        registry.apply(commit, changed)


def _index(registry: WritableRegistry, commit: Commit, name: str) -> IndexFile:
    index = registry.index_before(commit, name)
    if not index.entries:
        raise unknown_package(registry, name)
    return index


def _unserved(
    entry: RegistryEntry,
    channels: Channels,
    channel: str,
    index_of: Callable[[str], IndexFile],
    coming: Mapping[str, RegistryEntry] = MappingProxyType({}),
) -> str:
    """Which dependency of `entry` is not in `channel`, nor `coming` into it; empty if all are."""
    for text in entry.dependencies:
        wanted = Requirement.parse(text)
        usable = [one for one in index_of(wanted.package).entries if one.yanked is None and channels.has(one, channel)]
        usable += [coming[wanted.package]] if wanted.package in coming else []
        if not any(wanted.specifier.contains(one.order, prereleases=True) for one in usable):
            return f"needs {wanted}, which {channel} does not have"
    return ""


def _parsed(text: str) -> tuple[str, str]:
    """Package and version (or empty). Raises RegistryError."""
    name, _, version = text.partition("@")
    try:
        return package_meant_by(name.strip()), str(Version(version)) if version.strip() else ""
    except InvalidVersion as error:
        raise RegistryError(f"{text!r}: {version!r} is not a version", hint="write NAME or NAME@VERSION") from error
