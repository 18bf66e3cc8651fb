"""Retention: old builds of nights leave the registry, by rules that its maintainer sets.

A build that is retired keeps its line, so its number is never given again and the log stays whole; it cannot be
installed any more, and `collect` (audit.py) removes its blobs after their grace period. Never retired are versions that
no night published, what a channel has or would get back by a rollback, what a rule may still promote, what a lock file
names, and what was yanked: its line and its files stay as they were.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from packaging.version import Version

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import iso, utc
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.commit import Commit
from tfaot_pkg.registry.dependencies.lock import Lock
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.files.layout import CHANNELS
from tfaot_pkg.registry.index import IndexFile
from tfaot_pkg.registry.pointers import Pen, back
from tfaot_pkg.registry.writable import WritableRegistry
from tfaot_pkg.spec.rules import build_in, model_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How many stay: `builds` of each version and toolchain, `toolchains` of each version, the newest; None: all.

    `current` are toolchains (`tf2.17.1`) by package that stay in any case, `trees` the digests of locked install trees.
    """

    builds: int | None = None
    toolchains: int | None = None
    current: Mapping[str, Collection[str]] = field(default_factory=dict)
    trees: Collection[str] = ()

    def __post_init__(self) -> None:
        for name in ("builds", "toolchains"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise RegistryError(f"at least one of the {name} must be kept, got {count}")

    def of(self, index: IndexFile, *, young: str = "") -> tuple[RegistryEntry, ...]:
        """What is to be retired of a package, oldest first. Builds stay that were published at `young` or later."""
        kept = {id(one) for one in self._counted(index)} | {id(one) for one in self._needed(index, young)}
        return tuple(one for one in index.entries if build_in(one.version) and id(one) not in kept)

    def _counted(self, index: IndexFile) -> Iterator[RegistryEntry]:
        """The newest builds of the newest toolchains of each version."""
        groups: dict[str, dict[str, list[RegistryEntry]]] = {}
        for entry in index.entries:
            if entry.yanked is None and (found := build_in(entry.version)):
                groups.setdefault(model_version(entry.version), {}).setdefault(found[0], []).append(entry)
        for toolchains in groups.values():
            newest = sorted(toolchains, key=_age, reverse=True)
            stay = {*newest[: self.toolchains], *self.current.get(index.package, ())}
            for toolchain in stay & toolchains.keys():
                # By rank, so by number: b10 after b9.
                yield from toolchains[toolchain][-(self.builds or 0) :]

    def _needed(self, index: IndexFile, young: str) -> Iterator[RegistryEntry]:
        standing = index.standing
        pointers = [(channel, one.build) for channel, builds in standing.pointers.items() for one in builds.values()]
        again = {back(standing, channel, build, index.entries).build for channel, build in pointers}
        for entry in index.entries:
            trees = entry.trees
            if (
                entry.yanked is not None
                or entry.version in again
                or any(one.channels or one.tree in self.trees for one in trees)
                or (young and entry.published >= young)
            ):
                yield entry


def _age(toolchain: str) -> tuple[bool, Version]:
    # This tool's own toolchain is newer than any TensorFlow (nightly/types.py).
    number = toolchain.removeprefix("tf")
    return (toolchain == "tfaot", Version(number if number[:1].isdigit() else "0"))


def locked_trees(lock: Lock) -> set[str]:
    """The digests of all install trees that `lock` names."""
    return {tree for one in lock.packages for tree in (one.tree, *(other.tree for other in one.others.values()))}


def retire(
    registry: WritableRegistry, rules: Retention, *, by: str = "", dry_run: bool = False
) -> dict[str, tuple[str, ...]]:
    """Retire what `rules` say, in one step. Returns the versions by package. Raises RegistryError, TrustError."""
    done: dict[str, tuple[str, ...]] = {}
    with registry.writing() as commit:
        channels, moment = registry.channels, commit.moment()
        young, pen = _promotable(channels, moment), Pen(commit=commit, by=by)
        changed: dict[str, tuple[IndexFile, IndexFile]] = {}
        for name in registry.names():
            before = registry.index_before(commit, name)
            versions = tuple(one.version for one in rules.of(before, young=young))
            if versions:
                done[name] = versions
                if not dry_run:
                    changed[name] = (before, _retired(before, versions, moment, rules, pen, commit))
        registry.apply(commit, changed)
    return done


def _retired(
    before: IndexFile, versions: Collection[str], moment: str, rules: Retention, pen: Pen, commit: Commit
) -> IndexFile:
    kept = [(rules.builds, "build"), (rules.toolchains, "toolchain")]
    why = " and ".join(f"the newest {what if count == 1 else f'{count} {what}s'}" for count, what in kept if count)
    after = before.with_retired(versions, f"retired: kept are {why}", moment)
    # As a yank: a registry without channels keeps no log.
    if commit.read(CHANNELS) is None:
        return after
    return pen.write(after, "retire", reason=f"kept are {why}; gone are {', '.join(versions)}")


def _promotable(channels: Channels | None, moment: str) -> str:
    """Since when builds were published that the rules of channels may promote still; empty if there are no rules."""
    if channels is None or not channels.promotion:
        return ""
    nights = sum(rule.nights for rule in channels.promotion.values())
    return iso(utc(moment) - timedelta(days=nights + 1))
