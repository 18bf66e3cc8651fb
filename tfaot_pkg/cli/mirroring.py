"""registry mirror: a copy of a registry, whole or in part."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.artifacts import PlainHttpFlag
from tfaot_pkg.cli.command import Result, Session, command
from tfaot_pkg.ground.wording import counted

if TYPE_CHECKING:
    from tfaot_pkg.registry.mirror import Mirroring


def register(registry: typer.Typer) -> None:
    """`registry` is the group of all commands about registries."""
    registry.command("mirror")(mirror)


@command()
def mirror(
    session: Session,
    origin: Annotated[
        str,
        typer.Argument(metavar="NAME|DIR|URL", help="The registry: a name (registry add), its folder, or its address."),
    ],
    to: Annotated[
        str,
        typer.Argument(
            metavar="MIRROR",
            help="The mirror's folder: new, empty, or a mirror. Or a repository of an OCI registry: "
            "oci://HOST/REPOSITORY.",
        ),
    ],
    *,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--package",
            metavar="PACKAGE",
            help="Only this package, with what it depends on. Repeatable. (default: all)",
        ),
    ] = None,
    channel: Annotated[str, typer.Option(metavar="CHANNEL", help="Only builds in this channel. (default: all)")] = "",
    arch: Annotated[str, typer.Option(metavar="ARCH", help="Only builds for this architecture. (default: all)")] = "",
    prune: Annotated[
        bool, typer.Option("--prune", help="Remove what the registry does not name any more, after --grace.")
    ] = False,
    # Readers that hold an older state may still ask for its files; 7 days as GRACE in registry/audit.py.
    grace: Annotated[str, typer.Option(help="Keep files that became unused less than this time ago.")] = "7d",
    plain_http: PlainHttpFlag = False,
) -> Result:
    """Copy a registry byte for byte, or bring such a mirror up to date; all is verified on the way.

    Clients use the mirror with the same root: `registry add NAME MIRROR`, or the address that serves it. Only what
    has changed is copied, and an interrupted run is continued by the next one. The options of each run say what the
    mirror has: all packages without --package.

    Examples: tfaot-pkg registry mirror cms /srv/mirror; tfaot-pkg registry mirror cms /media/disk --package digits
    --arch x86_64; tfaot-pkg registry mirror cms oci://registry.example.org/cms/models
    """
    from tfaot_pkg.registry.audit import parse_period
    from tfaot_pkg.registry.mirror import Part
    from tfaot_pkg.registry.mirror import mirror as mirror_registry
    from tfaot_pkg.registry.oci.reference import SCHEME, Reference

    part = Part(packages=tuple(packages or ()), channel=channel, architecture=arch)
    kept_for = parse_period(grace) if prune else None
    at = Reference.of_registry(to, plain_http=plain_http) if to.startswith(SCHEME) else Path(to)
    if plain_http and isinstance(at, Path):
        raise typer.BadParameter("--plain-http needs oci://HOST/REPOSITORY")
    done = mirror_registry(origin, at, part, session.folders, progress=session.progress, grace=kept_for)
    return Result(document=done, text=_text(done))


def _text(done: Mirroring) -> str:
    what = f"signed, until {done.expires}" if done.signed else "unsigned: damage is detected, forgery is not"
    lines = [
        f"{done.folder}: a mirror of {done.origin} ({what})",
        f"{counted(done.packages, 'package')}; fetched: {counted(done.fetched, 'file')} ({counted(done.size, 'byte')})",
        f"there already: {counted(done.kept, 'file')}",
    ]
    if done.collected is not None:
        lines.append(f"{counted(len(done.collected.removed), 'file')} removed")
    if done.part:
        lines.append(f"partial: only {done.part}")
    return "\n".join(lines)
