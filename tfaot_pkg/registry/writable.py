"""Changing a registry: publications, yanks, deprecations, wherever its files are (storage.py).

Publishing: blobs first, then the index file (with its search shard), in a signed registry then the metadata; each
is durable before the next. The replacement of one file is the moment at which a version begins to exist (commit.py):
before it nothing refers to the new blobs, after it everything is there. So a publisher that is killed leaves the old
state or the new one, and the same command again completes it.

In an unsigned registry readers detect damage, but not forgery.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeVar

from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import utc_now
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.package.name import other_spellings, package_meant_by, spellings
from tfaot_pkg.registry import reader
from tfaot_pkg.registry.commit import Commit, Keys, PlainCommit, SignedCommit
from tfaot_pkg.registry.entry import BlobRef, Deprecation, IndexLine, RegistryEntry, check_new
from tfaot_pkg.registry.files.layout import CHANNELS, CONFIG, SEARCH, blob_path, index_path, is_inside
from tfaot_pkg.registry.files.mirrored import Mirrored
from tfaot_pkg.registry.index import SHARDS, IndexFile, PackageSummary, shard_path, summary_of, updated_shard
from tfaot_pkg.registry.pointers import Pen, yanked
from tfaot_pkg.registry.static import Index, PlainIndex, RegistryConfig, StaticRegistry, read_config
from tfaot_pkg.registry.storage import Conflict, Storage
from tfaot_pkg.registry.trust.client import Anchor, SignedIndex
from tfaot_pkg.registry.trust.roles import TIMESTAMP_FILE

if TYPE_CHECKING:
    from typing_extensions import Self

PublishStatus = Literal["published", "already published"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A version that was added, or was there already: `entry` is that of the index."""

    status: PublishStatus
    registry: str
    entry: RegistryEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class WritableRegistry(StaticRegistry):
    """A `RegistryReader` that can also publish: a registry in a folder (folder.py) or in a bucket.

    `keys` sign if the registry is signed; `lock_timeout` is in seconds; `clock` gives the time of publication and of
    signatures (UTC, ISO 8601, to the second).
    """

    files: Storage
    keys: Keys = field(default_factory=Keys)
    lock_timeout: float = 600
    clock: Callable[[], str] = field(default=utc_now)

    @classmethod
    def of(cls, files: Storage, *, anchor: Anchor | None = None, keys: Keys | None = None) -> Self:
        """The registry whose files these are. `anchor` says what is trusted if it is signed (by default: the root that
        was seen there first), and `keys` are needed to publish then.

        Raises MissingFile if there is none, RegistryError for one of an unknown format, TrustError.
        """
        config = read_config(files)
        if not is_inside(config.download):
            raise RegistryError(
                f"the blobs of {files.location} are elsewhere ({config.download}), which nothing here can write",
                hint="use the registry's own address",
            )
        return cls(files=files, config=config, index=_index(files, config, anchor), keys=keys or Keys())

    def blob_path(self, blob: BlobRef) -> str:
        """Where a blob is among the registry's files."""
        return blob_path(blob.sha256, self.config.download)

    def require_keys(self) -> None:
        """Raise TrustError if publishing would fail for lack of keys: called before a build that takes minutes."""
        if self.is_signed:
            with self.writing() as commit:
                commit.require()

    def publish(self, entry: RegistryEntry, blobs: Mapping[str, Path | bytes]) -> Published:
        """Add a version, or to a version the tree for a further architecture; `blobs` gives the content of each of the
        entry's blobs by role.

        If the same version with the same key and tree is there already, only lost blobs are put back.
        Raises RegistryError for the same version and architecture with another key or tree, TrustError if a blob is not
        what the entry says or the registry's keys are missing, StorageError.
        """
        (done,) = self.publish_all([(entry, blobs)])
        if isinstance(done, RegistryError):
            raise done
        return done

    def publish_all(
        self, releases: Sequence[tuple[RegistryEntry, Mapping[str, Path | bytes]]]
    ) -> list[Published | RegistryError]:
        """`publish` for several entries with their blobs, in one step with one signature of each role.

        Returns a RegistryError in the place of an entry that cannot be published; the others are. Raises TrustError and
        StorageError, after which none is.
        """

        def publish() -> list[Published | RegistryError]:
            done: list[Published | RegistryError] = []
            with self.writing() as commit:
                changed: dict[str, tuple[IndexFile, IndexFile]] = {}
                for entry, blobs in releases:
                    before, index = changed.get(entry.package) or (self.index_before(commit, entry.package),) * 2
                    try:
                        result, after = self._with(commit, index, entry, blobs)
                    except RegistryError as error:
                        done.append(error)
                        continue
                    changed[entry.package] = (before, after)
                    done.append(result)
                # Also what was there already: a publisher may have been killed before it wrote the search shard.
                self.apply(commit, changed)
            return done

        return _in_turn(publish)

    def _with(
        self, commit: Commit, index: IndexFile, entry: RegistryEntry, blobs: Mapping[str, Path | bytes]
    ) -> tuple[Published, IndexFile]:
        """`index` with `entry`, whose blobs are in their places. Raises as `publish`."""
        check_new(entry)
        if blobs.keys() != entry.blobs.keys():
            raise RegistryError(f"{entry}: blobs given are {sorted(blobs)}, the entry names {sorted(entry.blobs)}")
        present = index.line_of(entry.version)
        version = next((one for one in index.entries if one.order == entry.order), None)
        is_further = version is not None and _is_further(version, entry)
        if present is not None and not is_further:
            return self._already_published(present, version and version.on(entry.architecture), entry, blobs), index
        commit.require()
        # Blobs come first: nothing may refer to what is not there.
        for role, blob in entry.blobs.items():
            self.files.place(self.blob_path(blob), blob, blobs[role])
        final = replace(entry, published=entry.published or commit.moment())
        after = index.with_tree(final) if is_further else index.with_entry(final)
        return Published(status="published", registry=self.location, entry=final), after

    def yank(self, package: str, version: str, reason: str, *, by: str = "") -> RegistryEntry:
        """Hide a version from resolvers, unless it is asked for by its number. Raises RegistryError, TrustError.

        Channels that have it go back to what they had before. `by` is who does it, for the log.
        """
        return self._set_yanked(package, version, reason or "no reason given", by)

    def unyank(self, package: str, version: str, *, by: str = "") -> RegistryEntry:
        """Undo a yank; what left a channel is not put back. Raises RegistryError, TrustError."""
        return self._set_yanked(package, version, None, by)

    def _set_yanked(self, package: str, version: str, reason: str | None, by: str) -> RegistryEntry:
        def change(index: IndexFile, commit: Commit) -> IndexFile:
            changed = index.with_yanked(version, reason)
            # A registry without channels keeps no log, so that its files stay as they always were.
            keeps_log = commit.read(CHANNELS) is not None
            return yanked(index, changed, version, reason, Pen(commit=commit, by=by)) if keeps_log else changed

        changed = self._change(package, change)
        line = changed.line_of(version)
        assert line is not None and line.entry is not None
        return line.entry

    def deprecate(self, package: str, deprecation: Deprecation | None) -> None:
        """Mark `package` as deprecated; None undoes that. Raises RegistryError, TrustError."""
        if deprecation is not None and deprecation.use:
            use = package_meant_by(deprecation.use)
            if use == package_meant_by(package):
                raise RegistryError(f"{use} cannot replace itself", hint="name another package with --use")
            if not self.entries(use):
                raise RegistryError(
                    f"there is no package {use} in {self.location}", hint="publish it first, or leave --use out"
                )
            deprecation = replace(deprecation, use=use)
        self._change(package, lambda index, _: index.with_deprecation(deprecation))

    def _change(self, package: str, change: Callable[[IndexFile, Commit], IndexFile]) -> IndexFile:
        """Rewrite one index file under the lock; nothing is written if nothing changes."""
        package = package_meant_by(package)

        def changed() -> IndexFile:
            with self.writing() as commit:
                before = self.index_before(commit, package)
                if not before.lines:
                    raise reader.unknown_package(self, package)
                after = change(before, commit)
                self.apply(commit, {package: (before, after)})
                return after

        return _in_turn(changed)

    @contextmanager
    def writing(self) -> Iterator[Commit]:
        """Around one change of the registry (`Storage.changing`); gives the commit that makes it.

        Raises StorageError, TrustError, RegistryError for a mirror, which only its origin changes.
        """
        with self.files.changing(self.lock_timeout):
            if mirrored := Mirrored.of(self.files):
                raise RegistryError(
                    f"{self.location} is a mirror of {mirrored.origin}, so nothing is written to it",
                    hint="change the registry that it mirrors, then run `tfaot-pkg registry mirror` again",
                )
            if isinstance(self.index, SignedIndex):
                yield SignedCommit(self.files, self.index, self.keys, self.clock)
                # The next read must see what was written.
                self.index.forget()
            else:
                yield PlainCommit(files=self.files, clock=self.clock)

    def index_before(self, commit: Commit, package: str) -> IndexFile:
        """All lines of `package`, those of the file of the former spelling included."""
        before, *former = (self._file_before(commit, name) for name in spellings(package))
        return before.joined(*former) if former else before

    def _file_before(self, commit: Commit, name: str) -> IndexFile:
        path = index_path(name)
        return IndexFile.parse(commit.read(path), f"{self.location}/{path}", name)

    def apply(
        self,
        commit: Commit,
        packages: Mapping[str, tuple[IndexFile, IndexFile]],
        settings: Mapping[str, bytes] = MappingProxyType({}),
    ) -> None:
        """Replace the index files of `packages`, which are given before and after, and the files of `settings`.

        That is one step in a signed registry. Only what differs from what is there is written.
        """
        changes: dict[str, bytes] = {}
        for before, after in packages.values():
            changes |= self._changes(commit, before, after, changes)
        # Nothing is signed, and no key needed, if nothing changes.
        changes = {path: data for path, data in {**changes, **settings}.items() if data != commit.read(path)}
        if changes:
            commit.require()
            commit.apply(changes)

    def _changes(
        self, commit: Commit, before: IndexFile, after: IndexFile, others: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """`after` and its search shard, in which the changes `others` were made already.

        A file of the former spelling is updated too, for tools that know no other one.
        """
        former = [name for name in other_spellings(after.package) if commit.read(index_path(name)) is not None]
        stays = (
            after == before and commit.read(index_path(after.package)) is None
        )  # the file of the former spelling alone
        # In the order of writing: unsigned, the index file is the commit, and search follows.
        changes: dict[str, bytes] = {}
        if after != before:
            changes[index_path(after.package)] = after.to_bytes()
            changes |= {index_path(name): after.under(name).to_bytes() for name in former}
        if self.config.has_search:
            name, *unlisted = former if stays and former else [after.package, *former]
            summary = summary_of(name, after.entries, after.deprecation)
            changes |= self._shards(commit, {name: summary, **dict.fromkeys(unlisted)}, others)
        return changes

    def _shards(
        self, commit: Commit, summaries: Mapping[str, PackageSummary | None], others: Mapping[str, bytes]
    ) -> dict[str, bytes]:
        """The search shards that hold these packages, with these summaries in them."""
        shards: dict[str, bytes] = {}
        for name, summary in summaries.items():
            path = shard_path(name)
            shard = shards.get(path) or others.get(path) or commit.read(path) or b""
            shards[path] = updated_shard(shard, f"{self.location}/{path}", name, summary)
        return shards

    def _already_published(
        self,
        line: IndexLine,
        present: RegistryEntry | None,
        entry: RegistryEntry,
        blobs: Mapping[str, Path | bytes],
    ) -> Published:
        if present is None:
            raise RegistryError(
                f"{entry.name}@{line.version} was published by a newer version of tfaot-pkg",
                hint="upgrade tfaot-pkg, or raise the version in the spec (model.version)",
            )
        refuse_other_content(present, entry)
        for role, blob in present.blobs.items():
            # A blob is put back only if it is the content that the index names.
            if blob == entry.blobs.get(role) and not self.files.has(self.blob_path(blob)):
                self.files.place(self.blob_path(blob), blob, blobs[role])
        return Published(status="already published", registry=self.location, entry=present)


_T = TypeVar("_T")
# Each has to lose against somebody who has finished meanwhile.
_TURNS = 20


def _in_turn(change: Callable[[], _T]) -> _T:
    """What `change` returns, which is begun again if others were faster. Raises Conflict if that goes on and on."""
    for _ in range(_TURNS - 1):
        with suppress(Conflict):
            return change()
    return change()


def _index(files: Storage, config: RegistryConfig, anchor: Anchor | None) -> Index:
    anchor = anchor or Anchor.of(files.location, Folders.of_user())
    if config.is_signed:
        return SignedIndex(files, anchor, config.sha256)
    # Whoever can write `config.json` could drop `signed` from it. An unsigned registry has no timestamp.
    if files.has(TIMESTAMP_FILE) or anchor.was_signed:
        raise TrustError(
            f"{files.location} should be signed, but its {CONFIG} says that it is not",
            hint=f"restore {CONFIG} from a copy of the registry. If the registry was intentionally made again without "
            f"signatures: delete {anchor.folder}",
        )
    return _ListedIndex(files=files)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ListedIndex(PlainIndex):
    """Files without verification, which can be listed."""

    files: Storage

    def search_shards(self) -> tuple[str, ...]:
        # Most of the 256 that may be there are not, and to ask for each in a bucket takes seconds.
        present = {one.path for one in self.files.items(SEARCH)}
        return tuple(path for path in SHARDS if path in present)


def _is_further(version: RegistryEntry, entry: RegistryEntry) -> bool:
    """Whether `entry` is `version` for an architecture that it lacks. Raises RegistryError if it is another model."""
    if not (entry.architecture and version.architecture) or version.on(entry.architecture) is not None:
        return False
    require_same_interface(version, entry)
    return True


def require_same_interface(present: RegistryEntry, entry: RegistryEntry) -> None:
    """Raise RegistryError unless `entry`, for another architecture, is what programs take for the version `present`."""
    fields = ("model", "signature", "license", "description", "dependencies")
    differing = [name for name in fields if getattr(present, name) != getattr(entry, name)]
    if differing:
        raise RegistryError(
            f"{present} is published for {present.architecture}; for {entry.architecture} it would differ in "
            + ", ".join(differing),
            hint="one version is one model on every architecture: raise the version in the spec (model.version)",
        )
    if present.yanked is not None:
        raise RegistryError(f"{present} was yanked: {present.yanked}", hint="raise the version in the spec")


def refuse_other_content(present: RegistryEntry, entry: RegistryEntry) -> None:
    """Pure: raise RegistryError that names what differs, if `entry` has other content than `present`."""
    if present.key == entry.key and present.tree == entry.tree:
        return
    fields = ("toolchain", "targets", "batch_sizes", "signature", "license", "description", "dependencies", "tool")
    differing = [name for name in fields if getattr(present, name) != getattr(entry, name)]
    differing += [name for name in ("key", "tree") if getattr(present, name) != getattr(entry, name)]
    why = "the same inputs gave other files, so the build is not reproducible" if present.key == entry.key else ""
    raise RegistryError(
        f"{present} is published already, with other content (differs: {', '.join(differing)})"
        + (f"; {why}" if why else ""),
        hint="a published version never changes: raise the version in the spec (model.version) and publish again",
    )
