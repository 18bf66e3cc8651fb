"""The one publisher: puts stored results into the registry, and onto Conan remotes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tfaot_pkg.conan.home import ConanHome
from tfaot_pkg.conan.remotes import ConanRemote, Credentials
from tfaot_pkg.conan.upload import require_access, upload
from tfaot_pkg.errors import TrustError
from tfaot_pkg.folders import Folders
from tfaot_pkg.nightly.depends import dependencies_of, require_served
from tfaot_pkg.nightly.results import Results
from tfaot_pkg.nightly.task_spec import spec_for
from tfaot_pkg.nightly.types import Decision
from tfaot_pkg.progress import Progress, Silent
from tfaot_pkg.publish import Release, into_conan, into_registry
from tfaot_pkg.registry.archive import unpack
from tfaot_pkg.registry.commit import Keys
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.layout import PREFIX
from tfaot_pkg.temporary import temporary_folder

Remote = tuple[ConanRemote, Credentials]


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """Publishes into the registry in the folder `registry`, which is made where it is missing, and to `remotes`."""

    registry: Path
    keys: Keys
    folders: Folders
    remotes: Sequence[Remote] = ()
    progress: Progress = field(default_factory=Silent)

    def require(self) -> None:
        """Raise what publishing would fail with for want of keys or access: asked before builds that take hours.

        TrustError (keys), RegistryError (something else is in the folder), ConanError, NetworkError.
        """
        registry = FolderRegistry.find(self.registry, keys=self.keys)
        if registry is not None:
            registry.require_keys()
        for remote, credentials in self.remotes:
            require_access(self._home("access"), remote, credentials)

    def publish(self, decision: Decision, results: Results) -> None:
        """Publish the verified result of `decision`. The same again does nothing, and completes what was cut off.

        The registry comes last: what it has is published, and the next night would not look at the remotes again.

        Raises RegistryError (the version is there with other content), Unserved (what it needs is not there),
        TrustError, ConanError, NetworkError, StorageError.
        """
        release = results.release(decision.key)
        if release.entry.key != decision.key or release.entry.version != decision.release:
            raise TrustError(f"the stored result of {decision.task.id} is not what was planned: {release.entry}")
        dependencies = dependencies_of(decision.task)
        require_served(dependencies, FolderRegistry.find(self.registry, keys=self.keys), decision.task.id)
        if self.remotes:
            self._upload(decision, release)
        registry = FolderRegistry.create(self.registry, keys=self.keys)
        entry = replace(release.entry, dependencies=dependencies)
        into_registry(replace(release, entry=entry), registry, self.progress)

    def _upload(self, decision: Decision, release: Release) -> None:
        spec = spec_for(decision.task, decision.release)
        archive = release.blobs[PREFIX]
        assert isinstance(archive, Path)
        with temporary_folder(prefix="tfaot-nightly-") as scratch:
            with archive.open("rb") as stream:
                tree = unpack(stream, scratch, what=str(release.entry))
            if tree.digest != release.entry.tree:
                raise TrustError(f"the stored archive of {release.entry} is damaged", hint="delete the result's folder")
            package = into_conan(spec, scratch, self.folders, self.progress)
        for remote, credentials in self.remotes:
            upload(
                self._home(f"upload-{spec.model.name}"), package.reference, package.recipe_revision,
                remote=remote, credentials=credentials, progress=self.progress,
            )  # fmt: skip

    def _home(self, log: str) -> ConanHome:
        return ConanHome(root=self.folders.conan_home, log=self.folders.logs / f"conan-{log}.log")
