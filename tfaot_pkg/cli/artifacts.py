"""Packages as OCI artifacts: options and parts of `export` and `install`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.command import Result, Session
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import fields_of

if TYPE_CHECKING:
    from tfaot_pkg.registry.dependencies.install import InstalledEntry
    from tfaot_pkg.registry.dependencies.resolution import Constraints

OciOption = Annotated[
    str,
    typer.Option(
        "--oci",
        metavar="HOST/REPOSITORY[:TAG]",
        help="Push it to an OCI registry, with its signed provenance and bill of materials as referrers. (default "
        "of the tag: the version, with _ for +)",
    ),
]
OciLayoutOption = Annotated[
    Path | None,
    typer.Option(
        "--oci-layout", metavar="DIR", help="Write the same into an OCI image layout, which skopeo and oras copy."
    ),
]
PlainHttpFlag = Annotated[
    bool,
    typer.Option("--plain-http", help="For an OCI registry: http, and no TLS. (default: to this machine only)"),
]
ReleaseKeyOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--release-key",
        metavar="FILE",
        help="For an artifact: the public key (PEM) that must have signed its provenance. Repeatable: all must.",
    ),
]
UnsignedFlag = Annotated[bool, typer.Option("--unsigned", help="For an artifact: accept it, whoever made it.")]


def export_artifact(session: Session, package: str, to: Path | str, arch: str, *, plain_http: bool) -> Result:
    """Push a package to the registry, or write it into the image layout, that `to` names."""
    from tfaot_pkg.registry.dependencies.resolution import Constraints
    from tfaot_pkg.registry.oci.layout import LayoutStore
    from tfaot_pkg.registry.oci.pushing import push
    from tfaot_pkg.registry.oci.reference import LayoutReference, Reference
    from tfaot_pkg.registry.oci.store import HttpStore

    machine, progress = Constraints.parse(architecture=arch).machine if arch else "", session.progress
    if isinstance(to, Path):
        if plain_http:
            raise typer.BadParameter("--plain-http needs --oci")
        with LayoutStore.open(to) as folder:
            opened = session.open_registry_of(package)
            done = push(opened, package, folder, architecture=machine, progress=progress)
        where = str(LayoutReference(folder=to, tag=done.tag))
    else:
        reference = Reference.parse(to, plain_http=plain_http)
        if reference.digest:
            raise typer.BadParameter("a digest cannot be chosen: write HOST/REPOSITORY[:TAG]")
        with HttpStore.open(reference) as store:
            opened = session.open_registry_of(package)
            done = push(opened, package, store, tag=reference.tag, architecture=machine, progress=progress)
        where = f"oci://{reference.tagged(done.tag)}"
    lines = [
        f"{done.name} {done.version}: {'written to' if done.uploaded else 'was there already:'} {where}",
        *([f"the tag was moved, from {done.before}"] if done.before else []),
        f"digest: {done.digest}",
    ]
    return Result(document={**fields_of(done), "reference": where}, text="\n".join(lines))


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """The artifact that a user wants to install, and whom they trust."""

    text: str
    release_keys: tuple[Path, ...]
    unsigned: bool
    plain_http: bool

    def install(
        self, session: Session, prefix: Path, constraints: Constraints, *, custom: bool
    ) -> Sequence[InstalledEntry]:
        from tfaot_pkg.registry.dependencies.install import install_entries
        from tfaot_pkg.registry.oci.pulled import Trusting, opened

        with opened(
            self.text,
            session.folders,
            trusting=Trusting(keys=self.release_keys, unsigned=self.unsigned),
            machine=constraints.machine,
            plain_http=self.plain_http,
            progress=session.progress,
            offline=session.offline,
        ) as package:
            if fault := constraints.rejection(package.entry):
                raise RegistryError(f"{package.location} {fault}", hint="name another artifact")
            done = install_entries(package, [package.entry], prefix, custom=custom)
            if needed := package.entry.dependencies:
                session.progress.note(
                    f"note: {package.entry} needs {', '.join(needed)}, which no artifact brings along"
                )
            return done


def artifact_in(
    words: Sequence[str], *, release_key: Sequence[Path] | None, unsigned: bool, plain_http: bool
) -> Artifact | None:
    """What `words` of `install` name, if that is an artifact."""
    from tfaot_pkg.registry.oci.reference import is_artifact

    keys = tuple(release_key or ())
    if not any(map(is_artifact, words)):
        if keys or unsigned or plain_http:
            raise typer.BadParameter("--release-key, --unsigned and --plain-http need oci://HOST/REPOSITORY:TAG")
        return None
    if len(words) != 1:
        raise typer.BadParameter("an artifact is installed alone")
    return Artifact(text=words[0], release_keys=keys, unsigned=unsigned, plain_http=plain_http)
