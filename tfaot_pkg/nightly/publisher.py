"""The one publisher: puts stored results into the registry, and onto Conan remotes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from threading import Lock

from tfaot_pkg.catalogue.render import update_or_note
from tfaot_pkg.errors import ConanError, NetworkError, RegistryError, SourceError, SpecError, StorageError, TrustError
from tfaot_pkg.ground.documents import read, write
from tfaot_pkg.ground.progress import Progress, Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.ground.storage import storage_errors, write_file
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.nightly.batches import Batches
from tfaot_pkg.nightly.depends import dependencies_of, require_served
from tfaot_pkg.nightly.models import spec_for
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.types import Decision, Task
from tfaot_pkg.pipeline.conan.package import ConanHome, ConanPackage
from tfaot_pkg.pipeline.conan.upload import ConanRemote, Credentials, binaries_on, require_access, upload
from tfaot_pkg.pipeline.publish import Release, all_into_registry, attested, into_conan
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.files.layout import PREFIX
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.promotion import promote_due
from tfaot_pkg.registry.retention import Retention, retire
from tfaot_pkg.registry.signing import refresh
from tfaot_pkg.spec.rules import package_name
from tfaot_pkg.spec.source.checkout import Checkout, checkout_of

Remote = tuple[ConanRemote, Credentials]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Publishes into the registry in the folder `registry`, which is made if it is missing, and to `remotes`.

    A remote that cannot be reached does not stop a publication: the state folder notes what it misses, and the next
    night that reaches it sends that. `unreached` has the reasons by remote; `note` shows them to people. `recheck`
    checks a stored result and returns what may be published. Several threads may publish at a time: they check at the
    same time, and what is checked meanwhile is signed in one step. Uploads go one after the other, because no two
    processes may write a Conan cache.
    """

    registry: Path
    keys: Keys
    folders: Folders
    recheck: Callable[[Decision, Release], AbstractContextManager[Release]]
    remotes: Sequence[Remote] = ()
    progress: Progress = field(default_factory=Silent)
    note: Callable[[str], None] = lambda _: None
    unreached: dict[str, str] = field(default_factory=dict)
    uploading: AbstractContextManager[object] = field(default_factory=Lock)
    _signing: Batches[tuple[Release, Decision]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_signing", Batches(act=self._sign))

    def require(self) -> None:
        """Raise the error with which publishing would fail without keys or access, before builds that take hours.

        TrustError (keys), RegistryError (something else is in the folder), ConanError (a remote rejected the login).
        """
        registry = FolderRegistry.find(self.registry, keys=self.keys)
        if registry is not None:
            registry.require_keys()
        for remote, credentials in self.remotes:
            try:
                require_access(self._home("access"), remote, credentials)
                self.unreached.pop(remote.name, None)
            except NetworkError as error:
                self._give_up(remote, error)

    def renew(self) -> None:
        """Sign expiring and expired metadata of a signed registry again, and promote what its rules say is due.

        Else the metadata would expire after some nights that publish nothing, and readers would reject the registry.
        Raises RegistryError, TrustError, StorageError.
        """
        registry = FolderRegistry.find(self.registry, keys=self.keys)
        if registry is not None and registry.is_signed:
            for note in refresh(registry).notes:
                self.note(note)
        channels = registry.channels if registry is not None else None
        if registry is not None and channels is not None and channels.promotion:
            done, _ = promote_due(registry, by="nightly")
            for one in done:
                self.note(f"promoted: {one}")
                update_or_note(registry, one.package, self.progress)

    def retire(self, rules: Retention) -> list[str]:
        """Retire what `rules` say of the registry. Returns what people should be told. Raises as `renew`."""
        registry = FolderRegistry.find(self.registry, keys=self.keys)
        done = retire(registry, rules, by="nightly") if registry is not None else {}
        for name in done:
            assert registry is not None
            update_or_note(registry, name, self.progress)
        return [f"retired: {name}@{version}" for name, versions in done.items() for version in versions]

    def catch_up(self, results: Results, tasks: Sequence[Task]) -> dict[str, str]:
        """Send the remotes the packages that they miss. Returns the tasks that still cannot be sent, with the reason.

        Notes in the state folder say what is missing. Their specs are not trusted, because builders can write there:
        `tasks`, from the definition, give the specs, and other notes are ignored.
        Raises RegistryError, TrustError, StorageError.
        """
        uploads, left = Uploads(root=results.root), dict[str, str]()
        known = {task.id: task for task in tasks}
        for remote, credentials in self.remotes:
            for noted in uploads.missing(remote.name):
                if noted.task.id not in known:
                    continue
                decision = replace(noted, task=known[noted.task.id])
                if self._waits(decision):
                    continue
                release = self._published(decision)
                if release is None:  # its night was cut off before its publication, or it is yanked now
                    uploads.end(remote.name, decision)
                elif why := self._sent_or_told(decision, release, (remote, credentials), uploads):
                    left[decision.task.id] = why
        return left

    def sync(self, results: Results, decisions: Sequence[Decision]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Send the remotes the published packages that they lack, also those of nights that did not know the remotes.

        `decisions` is a plan: what is up to date is sent, because its spec and files are still those that it was built
        from. Returns the tasks that were sent, and those that could not be, with the reason. Raises as `catch_up`,
        NetworkError and ConanError.
        """
        uploads, wanted = Uploads(root=results.root), [one for one in decisions if one.action == "up to date"]
        for remote, credentials in self.remotes:
            there = binaries_on(self._home("list"), remote, credentials)
            for decision in wanted:
                architecture = TARGETS[decision.task.targets[0]].architecture
                if (f"{package_name(decision.task.model)}/{decision.release}", architecture) not in there:
                    uploads.begin(remote.name, decision)
        noted = {one.task.id for remote, _ in self.remotes for one in uploads.missing(remote.name)}
        failed = self.catch_up(results, [one.task for one in wanted])
        left = {one.task.id for remote, _ in self.remotes for one in uploads.missing(remote.name)}
        return tuple(sorted(noted - left)), failed

    def _sent_or_told(self, decision: Decision, release: Release, remote: Remote, uploads: Uploads) -> str:
        """`_sent` of an earlier night's package: what is wrong with one must not end the night."""
        try:
            return self._sent(decision, release, [remote], uploads)
        except (ConanError, SourceError, SpecError) as error:
            return error.message

    def publish(self, decision: Decision, results: Results) -> bool:
        """Publish the verified result of `decision`. A second call completes what was cut off, or does nothing.

        Returns whether `send` is to send it. Raises RegistryError (the version exists with other content),
        Unserved (a dependency is not published), TrustError, StorageError, and what `recheck` raises.
        """
        release = results.release(decision.key)
        # Builders write the results: another one in this place must not be signed under the planned version.
        if release.entry.key != decision.key or release.entry.version != decision.release:
            raise TrustError(f"the stored result of {decision.task.id} is not what was planned: {release.entry}")
        dependencies = dependencies_of(decision.task)
        # Before the recheck, which takes as long as freezing and validating the model.
        require_served(dependencies, FolderRegistry.find(self.registry, keys=self.keys), decision.task.id)
        with self.recheck(decision, release) as own:
            # Before the registry: what is there is up to date, and later nights send only what is noted.
            uploads = Uploads(root=results.root)
            for remote, _ in self.remotes:
                uploads.begin(remote.name, decision)
            # Dependencies are given in the definition only: builds know nothing of them.
            self._signing.put((replace(own, entry=replace(own.entry, dependencies=dependencies)), decision))
        return bool(self.remotes)

    def send(self, decision: Decision, results: Results) -> str:
        """Send the published package of `decision` to the remotes, unless it has to be promoted first.

        Returns why not all remotes have it, or "": then a later night sends it. Raises RegistryError, TrustError,
        StorageError, and the errors of making a Conan package.
        """
        release = None if self._waits(decision) else self._published(decision)
        if release is None:
            return ""
        with self.uploading:
            return self._sent(decision, release, self.remotes, Uploads(root=results.root))

    def _sign(self, batch: Sequence[tuple[Release, Decision]]) -> list[RegistryError | None]:
        """Publish all of `batch` in one step. Returns the error of each that cannot be published."""
        registry = FolderRegistry.create(self.registry, keys=self.keys)
        specs = [_checkout(decision) if registry.is_signed else None for _, decision in batch]
        releases = [attested(release, registry, spec) for (release, _), spec in zip(batch, specs, strict=True)]
        done = all_into_registry(releases, registry, self.progress)
        return [one if isinstance(one, RegistryError) else None for one in done]

    def _waits(self, decision: Decision) -> bool:
        """Whether the published package of `decision` is not in the default channel.

        Ranges of Conan take the newest version of a remote, so a remote gets what is in the default channel only.
        """
        registry = FolderRegistry.find(self.registry, keys=self.keys)
        entries = registry.entries(package_name(decision.task.model)) if registry is not None else ()
        trees = (tree for entry in entries for tree in entry.trees)
        return any(tree.key == decision.key and tree.yanked is None and not tree.offered for tree in trees)

    def _published(self, decision: Decision) -> Release | None:
        """The published package of `decision`, None if it is missing or yanked."""
        registry = FolderRegistry.find(self.registry, keys=self.keys)
        entries = registry.entries(package_name(decision.task.model)) if registry is not None else ()
        for entry in (tree for one in entries for tree in one.trees):
            # By key: the version alone does not tell that the content is what the note is about.
            if (entry.key, entry.yanked) == (decision.key, None):
                assert registry is not None
                return Release(entry=entry, blobs={PREFIX: registry.blob_file(entry.blobs[PREFIX])})
        return None

    def _sent(self, decision: Decision, release: Release, remotes: Sequence[Remote], uploads: Uploads) -> str:
        """Send the package to `remotes`. Returns why some do not have it, or ""."""
        for remote, _ in remotes:
            # Noted before the upload: if it is killed, the next night sends the package.
            uploads.begin(remote.name, decision)
        reached = [one for one in remotes if one[0].name not in self.unreached]
        failed = self._upload(decision, release, reached, uploads) if reached else {}
        failed |= {remote.name: self.unreached[remote.name] for remote, _ in remotes if remote.name in self.unreached}
        return "; ".join(failed.values())

    def _upload(
        self, decision: Decision, release: Release, remotes: Sequence[Remote], uploads: Uploads
    ) -> dict[str, str]:
        """Send the package to `remotes`. Returns those that do not have it, with the reason."""
        spec = spec_for(decision.task, decision.release)
        # The spec is read now: it may have changed since the package was built.
        if (spec.model.package_name, spec.model.version) != (release.entry.name, release.entry.version):
            raise TrustError(f"the spec {decision.task.spec} is not the one of {release.entry}")
        archive = release.blobs[PREFIX]
        assert isinstance(archive, Path)
        with temporary_folder(prefix="tfaot-nightly-") as scratch:
            with archive.open("rb") as stream:
                tree = unpack(stream, scratch, what=str(release.entry))
            if tree.digest != release.entry.tree:
                raise TrustError(f"the stored archive of {release.entry} is damaged", hint="delete the result's folder")
            package = into_conan(spec, scratch, self.folders, self.progress)
        failed = {}
        for remote, credentials in remotes:
            try:
                self._upload_to(remote, credentials, package, spec.model.name)
                uploads.end(remote.name, decision)
            except NetworkError as error:
                failed[remote.name] = error.message
        return failed

    def _upload_to(self, remote: ConanRemote, credentials: Credentials, package: ConanPackage, model: str) -> None:
        """Raises NetworkError if it failed twice; a remote that stopped responding is not tried again in this night."""
        send = partial(
            upload, self._home(f"upload-{model}"), package.reference, package.recipe_revision,
            remote=remote, credentials=credentials, progress=self.progress,
        )  # fmt: skip
        try:
            send()
        except NetworkError:
            try:
                require_access(self._home("access"), remote, credentials)
            except NetworkError as error:
                self._give_up(remote, error)
                raise
            # The server still answers, so only this transfer failed.
            send()

    def _give_up(self, remote: ConanRemote, error: NetworkError) -> None:
        """Do not try the remote again: each try would wait for its time-out."""
        self.unreached[remote.name] = error.message
        self.note(f"{error.message}; the next night that reaches it uploads what is missing")

    def _home(self, log: str) -> ConanHome:
        return ConanHome(root=self.folders.conan_home, log=self.folders.logs / f"conan-{log}.log")


def _checkout(decision: Decision) -> Checkout | None:
    """What the spec of `decision` was read from. Raises SpecError, StorageError."""
    origin = decision.task.origin
    if origin is not None:  # fetched by its commit
        return Checkout(commit=origin.revision, path=origin.path, modified=False, address=origin.url)
    return checkout_of(spec_for(decision.task, decision.release))


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploads:
    """The notes in the state folder `root`: `uploads/<REMOTE>/<KEY>.json`. Methods raise StorageError."""

    root: Path

    def begin(self, remote: str, decision: Decision) -> None:
        """Note that the package of `decision` is missing on `remote`."""
        path = self._path(remote, decision)
        with storage_errors(f"write {path}"):
            write_file(path, write(decision))

    def end(self, remote: str, decision: Decision) -> None:
        """Note that `remote` has it, or does not need it any more."""
        path = self._path(remote, decision)
        with storage_errors(f"remove {path}"):
            path.unlink(missing_ok=True)

    def missing(self, remote: str) -> tuple[Decision, ...]:
        """The packages that `remote` does not have, sorted by release."""
        folder = self.root / "uploads" / remote
        with storage_errors(f"read {folder}"):
            found = [_read(path) for path in folder.glob("*.json")] if folder.is_dir() else []
        return tuple(sorted(found, key=lambda one: (one.task.model, one.release)))

    def _path(self, remote: str, decision: Decision) -> Path:
        return self.root / "uploads" / remote / f"{decision.key}.json"


def _read(path: Path) -> Decision:
    hint = "delete it, and upload the package by hand"
    decision = read(Decision, path.read_bytes(), str(path), error=StorageError, hint=hint)
    if path.name != f"{decision.key}.json":  # a key is a part of paths
        raise StorageError(f"{path} is damaged: it is about {decision.key}", hint="delete it")
    return decision
