"""Commands for projects that depend on packages: install, resolve, outdated, update, cmake-dir."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tfaot_pkg.cli.artifacts import PlainHttpFlag, ReleaseKeyOption, UnsignedFlag, artifact_in
from tfaot_pkg.cli.channels import FollowOption
from tfaot_pkg.cli.command import PrefixOption, Result, Session, command
from tfaot_pkg.cli.packages import installed_text
from tfaot_pkg.errors import RegistryError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tfaot_pkg.registry.dependencies.install import InstalledEntry
    from tfaot_pkg.registry.dependencies.lock import Lock, LockedRegistry, Outdated
    from tfaot_pkg.registry.dependencies.resolution import Constraints, Resolution
    from tfaot_pkg.registry.static import StaticRegistry

_LOCK = Path("tfaot.lock")

TargetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--target", metavar="TARGET", help="Only packages with code for TARGET. Repeatable: with code for all of them."
    ),
]
ToolchainOption = Annotated[
    str,
    typer.Option(
        "--toolchain",
        metavar="SPEC",
        help="Only packages built with this TensorFlow: '>=2.17,<2.20' or 2.17.1. (default: any)",
    ),
]
ArchOption = Annotated[
    str,
    typer.Option(
        "--arch", metavar="ARCH", help="Packages for this architecture: x86_64, aarch64. (default: this machine's)"
    ),
]
LockOption = Annotated[Path, typer.Option("--lock", metavar="FILE", help="The lock file.")]


def register(app: typer.Typer) -> None:
    for each in (install, resolve, outdated, update, cmake_dir):
        app.command()(each)


@command("registry", "offline")
def install(
    session: Session,
    packages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PACKAGE",
            help="Packages: NAME, NAME@VERSION or 'NAME>=1,<2'. With --locked: names in the lock file. (default: all) "
            "Or one artifact: oci://HOST/REPOSITORY:TAG, or oci:DIR:TAG of an image layout.",
            show_default=False,
        ),
    ] = None,
    *,
    prefix: PrefixOption = None,
    locked: Annotated[
        bool, typer.Option("--locked", help="Install exactly the versions in the lock file, or fail.")
    ] = False,
    # Without a default: --lock without --locked must be an error, and not be ignored.
    lock: Annotated[
        Path | None,
        typer.Option("--lock", metavar="FILE", help="The lock file, for --locked. (default: tfaot.lock)"),
    ] = None,
    target: TargetOption = None,
    toolchain: ToolchainOption = "",
    channel: FollowOption = "",
    arch: ArchOption = "",
    allow_custom_files: Annotated[
        bool,
        typer.Option(
            "--allow-custom-files",
            help="Also packages with headers or build files that tfaot-pkg would not make. Read them first: your "
            "builds run them.",
        ),
    ] = False,
    release_key: ReleaseKeyOption = None,
    unsigned: UnsignedFlag = False,
    plain_http: PlainHttpFlag = False,
) -> Result:
    """Install packages and what they depend on into a prefix, for find_package, pkg-config or SCRAM.

    Examples: tfaot-pkg install digits@1.0.0 'wine>=1' --prefix external; tfaot-pkg install --locked --prefix external;
    tfaot-pkg install oci://registry.example.org/ada/digits:1.0.0 --release-key release.pub
    """
    from tfaot_pkg.registry.dependencies.resolution import Constraints

    words, place = packages or [], session.prefix(prefix)
    if artifact := artifact_in(words, release_key=release_key, unsigned=unsigned, plain_http=plain_http):
        if _is_any(locked, lock, session.registry, channel):
            raise typer.BadParameter(
                "an artifact needs no registry: leave out --registry, --channel, --locked and --lock"
            )
        constraints = Constraints.parse(tuple(target or ()), toolchain, "", arch).used_on(platform.machine())
        done = artifact.install(session, place, constraints, custom=allow_custom_files)
    elif locked:
        if target or toolchain or channel:
            raise typer.BadParameter(
                "the lock file fixes targets, toolchain and channel: give these to tfaot-pkg resolve"
            )
        done = _install_locked(session, lock or _LOCK, place, words, arch, custom=allow_custom_files)
    else:
        if lock is not None:
            raise typer.BadParameter("--lock needs --locked")
        if not words:
            raise typer.BadParameter("name a package, or give --locked")
        constraints = Constraints.parse(tuple(target or ()), toolchain, channel, arch).used_on(platform.machine())
        done = _install_newest(session, place, words, constraints, custom=allow_custom_files)
    document = {"prefix": str(place.absolute()), "packages": done}
    if not done:
        return Result(document=document, text="the lock file names no package")
    return Result(document=document, text="\n".join([*map(_installed_text, done), *_cmake_lines(place, done)]))


def _is_any(*options: object) -> bool:
    return any(options)


def _cmake_lines(prefix: Path, done: Sequence[InstalledEntry]) -> list[str]:
    """What comes next in a CMake project."""
    names = [each.entry.name for each in done]
    linked = " ".join(f"{name}::{name}" for name in names)
    return [
        "next, in CMakeLists.txt:",
        f'  list(APPEND CMAKE_PREFIX_PATH "{prefix.absolute()}")',
        *(f"  find_package({name} REQUIRED)" for name in names),
        f"  target_link_libraries(YOUR_PROGRAM PRIVATE {linked})",
        f"or write a first program: tfaot-pkg new-app {done[0].entry.model} --prefix {prefix}",
    ]


def _install_locked(
    session: Session, file: Path, prefix: Path, names: list[str], arch: str, *, custom: bool
) -> Sequence[InstalledEntry]:
    from tfaot_pkg.registry.dependencies.install import install_locked
    from tfaot_pkg.registry.dependencies.lock import Lock
    from tfaot_pkg.registry.dependencies.resolution import Constraints

    content = Lock.read(file)
    machine = Constraints.parse(architecture=arch).machine or content.constraints.used_on(platform.machine()).machine
    return install_locked(_opened(session, content, file), content, prefix, names, custom=custom, machine=machine)


def _install_newest(
    session: Session, prefix: Path, words: list[str], constraints: Constraints, *, custom: bool
) -> Sequence[InstalledEntry]:
    from tfaot_pkg.registry.dependencies.install import install_requirements
    from tfaot_pkg.registry.reader import Requirement

    # Parsed before the registry is opened: a misspelled requirement must not wait for a server.
    requirements = [Requirement.parse(word) for word in words]
    opened = session.open_registry(having=[each.package for each in requirements])
    return install_requirements(opened, requirements, prefix, constraints, custom=custom)


def _installed_text(done: InstalledEntry) -> str:
    lines = [installed_text(done.outcome)]
    if done.entry.yanked is not None:
        lines.append(f"note: this version was yanked: {done.entry.yanked}")
    if done.deprecation is not None:
        lines.append(f"note: the package is deprecated: {done.deprecation}")
    return "\n".join(lines)


@command("registry", "offline")
def resolve(
    session: Session,
    requirements: Annotated[
        list[str], typer.Argument(metavar="REQUIREMENT", help="Packages: NAME, NAME@VERSION or 'NAME>=1,<2'.")
    ],
    *,
    target: TargetOption = None,
    toolchain: ToolchainOption = "",
    channel: FollowOption = "",
    arch: ArchOption = "",
    lock: LockOption = _LOCK,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Write no lock file.")] = False,
) -> Result:
    """Find the newest versions that meet all requirements, say why others were rejected, and write a lock file.

    Example: tfaot-pkg resolve 'digits>=1,<2' wine --target x86-64-v3 --toolchain '>=2.17'
    """
    from tfaot_pkg.registry.dependencies.install import lock_of
    from tfaot_pkg.registry.dependencies.resolution import Constraints
    from tfaot_pkg.registry.dependencies.resolution import resolve as resolve_all
    from tfaot_pkg.registry.reader import Requirement

    # Before the registry is opened, as in `install`.
    wanted = [Requirement.parse(text) for text in requirements]
    constraints = Constraints.parse(tuple(target or ()), toolchain, channel, arch)
    opened = session.open_registry(having=[each.package for each in wanted])
    resolution = resolve_all(opened, wanted, constraints.used_on(platform.machine()))
    made = lock_of(resolution, wanted, constraints, _registry(session, opened, lock))
    written = not dry_run and made.write(lock.absolute())
    status = "not written" if dry_run else "written" if written else "unchanged"
    document = {"lock": str(lock), "status": status, **made.as_dict(), "rejected": resolution.rejected}
    lines = _resolution_lines(opened, resolution)
    return Result(document=document, text="\n".join(lines if dry_run else [*lines, f"{lock}: {status}"]))


def _resolution_lines(opened: StaticRegistry, resolution: Resolution) -> list[str]:
    """Each chosen version, and below it a line for each rejected one."""
    lines = []
    for entry in resolution.entries:
        lines.append(str(entry))
        if entry.yanked is not None:
            lines.append(f"  note: this version was yanked: {entry.yanked}")
        if deprecation := opened.deprecation(entry.name):
            lines.append(f"  note: the package is deprecated: {deprecation}")
        lines += [f"  not {one.version}: {one.reason}" for one in resolution.rejected if one.package == entry.package]
    return lines


@command("registry", "offline")
def outdated(
    session: Session,
    *,
    lock: LockOption = _LOCK,
) -> Result:
    """Show which locked versions are not the newest: what update would lock, and what the requirements exclude.

    Example: tfaot-pkg outdated
    """
    from tfaot_pkg.registry.dependencies.lock import Lock
    from tfaot_pkg.registry.dependencies.lock import outdated as find_outdated

    before = Lock.read(lock)
    standing = find_outdated(_opened(session, before, lock), _here(before))
    old = [one for one in standing if one.is_outdated]
    document = {"lock": str(lock), "outdated": old}
    return Result(document=document, text="\n".join(map(_outdated_text, old)) or "all locked versions are the newest")


def _outdated_text(one: Outdated) -> str:
    parts = [f"update locks {one.allowed}"] if one.allowed not in ("", one.locked) else []
    if one.newest not in ("", one.locked, one.allowed):
        parts.append(f"{one.newest} does not meet the requirements")
    return f"{one.name} {one.locked}: {'; '.join([*parts, *one.notes])}"


@command("registry", "offline")
def update(
    session: Session,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PACKAGE", help="Packages to update. (default: all)", show_default=False),
    ] = None,
    *,
    lock: LockOption = _LOCK,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change no lock file.")] = False,
) -> Result:
    """Lock newer versions that meet the same requirements, of all packages or of the named ones.

    Example: tfaot-pkg update digits
    """
    from tfaot_pkg.registry.dependencies.install import check_trust, lock_of
    from tfaot_pkg.registry.dependencies.lock import Lock, changes
    from tfaot_pkg.registry.dependencies.lock import update as resolve_anew

    before = Lock.read(lock)
    opened = _opened(session, before, lock)
    # Before anything is chosen: a registry that lost its signatures must not rewrite the lock file.
    check_trust(opened, before.registry)
    resolution = resolve_anew(opened, _here(before), names or ())
    # The file goes on naming its registry, which on this machine may have been opened under another name.
    named = _registry(session, opened, lock) if session.registry is not None else _again(opened, before)
    after = lock_of(resolution, before.requirements, before.constraints, named)
    changed = changes(before, after)
    if not dry_run:
        after.write(lock.absolute())
    document = {"lock": str(lock), "changes": changed, "rejected": resolution.rejected}
    return Result(document=document, text="\n".join(map(str, changed)) or "nothing is newer")


@command()
def cmake_dir(session: Session) -> Result:
    """Print the folder of this tool's CMake package, for find_package(tfaot-pkg) and tfaot_require.

    Example: cmake -S . -B build -Dtfaot-pkg_DIR="$(tfaot-pkg cmake-dir)"
    """
    from tfaot_pkg.ground import resources

    folder = str(resources.cmake_package())
    return Result(document={"cmake_dir": folder}, text=folder)


def _opened(session: Session, lock: Lock, file: Path) -> StaticRegistry:
    """The registry that the user names, else the one that the lock file names."""
    from tfaot_pkg.registry.dependencies.lock import location_meant
    from tfaot_pkg.registry.named import remote_meant

    if session.registry is not None:
        return session.open_registry()
    locked = lock.registry
    try:
        # The name was given by the user who wrote the lock file: here the address may have another name.
        is_known = locked.name and remote_meant(locked.name, session.folders) is not None
        meant = locked.name if is_known else location_meant(locked.location, file)
        return session.open_registry(meant)
    except RegistryError as error:
        known_as = f"{locked.name} ({locked.location})" if locked.name else locked.location
        raise RegistryError(
            f"{file} names the registry {known_as}: {error.message}",
            hint=f"{error.hint}; or name another place with --registry" if error.hint else "",
        ) from error


def _here(lock: Lock) -> Lock:
    """`lock`, for resolving it anew on this machine."""
    return replace(lock, constraints=lock.constraints.used_on(platform.machine()))


def _registry(session: Session, opened: StaticRegistry, lock: Path) -> LockedRegistry:
    """How the lock file `lock` names the registry of this session."""
    from tfaot_pkg.registry.dependencies.install import locked_registry
    from tfaot_pkg.registry.dependencies.lock import location_beside
    from tfaot_pkg.registry.named import remote_meant

    given = session.opened_as
    remote = remote_meant(given, session.folders) if given is not None else None
    return locked_registry(opened, location=location_beside(opened.location, lock), name=remote.name if remote else "")


def _again(opened: StaticRegistry, lock: Lock) -> LockedRegistry:
    """The registry that `lock` names, with the version of its root of today."""
    from tfaot_pkg.registry.dependencies.install import locked_registry

    return locked_registry(opened, location=lock.registry.location, name=lock.registry.name)
