"""What a confined program sees of the file system: places as they are, links included, and nothing else."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import SandboxError

_MOST_LINKS = 40  # as the kernel

SYSTEM = tuple(
    map(
        Path,
        (
            "/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64",
            "/etc/ld.so.cache", "/etc/alternatives", "/nix/store", "/gnu/store",
            "/sys/devices/system/cpu", "/sys/devices/system/node",
        ),
    )
)  # fmt: skip
"""Shared libraries, and what engines ask about the CPU. Everybody on a machine may read it, and it holds no secrets."""

PROCESS_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/version")
"""What may be read of /proc where there is none of the sandbox's own."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """How a path leads to a place: the links on the way with their targets, and the place, which is no link."""

    links: tuple[tuple[Path, str], ...]
    place: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Places by what may be done with them; none of `readable` lies in another one. `links` lead to them."""

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...]

    def arguments(self) -> list[str]:
        """For bubblewrap: this root, with a /proc and /dev of its own, and an empty /tmp that cannot be written."""
        words = ["--dir", "/tmp", "--proc", "/proc", "--dev", "/dev"]  # noqa: S108 (the sandbox's own)
        for place, target in self.links:
            words += ["--symlink", target, str(place)]
        kinds = {**dict.fromkeys(self.readable, "--ro-bind"), **dict.fromkeys(self.writable, "--bind")}
        for place in sorted(kinds):  # what lies inside comes after
            words += [kinds[place], str(place), str(place)]
        # Of /proc too: a sandbox of root's could write the kernel's settings, for all that it has no capabilities.
        return [*words, "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]


def root_of(readable: Iterable[Path], writable: Iterable[Path]) -> Root:
    """The root that shows these paths, as far as they exist.

    Raises SandboxError for the home folder, and for folders above it: they hold more than models.
    """
    read, written = ([trail(path) for path in paths if path.exists()] for paths in (readable, writable))
    for path in (*readable, *writable):
        require_narrow(path)
    places = _outermost({each.place for each in read})
    links = {place: target for each in (*read, *written) for place, target in each.links}
    return Root(
        readable=places,
        writable=tuple(sorted({each.place for each in written})),
        links=tuple((place, target) for place, target in sorted(links.items()) if not _is_inside(place, places)),
    )


def trail(path: Path) -> Trail:
    """Raises OSError for a loop of links."""
    links: list[tuple[Path, str]] = []
    place, left = Path("/"), list(Path(os.path.abspath(path)).parts[1:])
    while left:
        name = left.pop(0)
        step = place.parent if name == ".." else place / name
        if not step.is_symlink():
            place = step
            continue
        target = os.readlink(step)
        links.append((step, target))
        if len(links) > _MOST_LINKS:
            raise OSError(f"too many links: {path}")
        absolute = target.startswith("/")
        place = Path("/") if absolute else place
        left = [part for part in Path(target).parts if part != "/"] + left
    return Trail(links=tuple(links), place=place)


def is_narrow(path: Path) -> bool:
    """Whether `path` is less than the whole home of the user, by the environment and by the user database."""
    real = path.resolve()
    return not any(home.resolve().is_relative_to(real) for home in _homes())


def _homes() -> set[Path]:
    homes = {Path(os.path.expanduser("~"))}
    with suppress(KeyError):  # containers run users that are in no database
        homes.add(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return {home for home in homes if home.is_absolute()}


def require_narrow(path: Path) -> None:
    if not is_narrow(path):
        raise SandboxError(
            f"{path} holds the home folder: a model that can read it can read all that you keep there",
            hint="put the model into a folder of its own",
        )


def _outermost(places: Iterable[Path]) -> tuple[Path, ...]:
    found: list[Path] = []
    for place in sorted(places):
        if not _is_inside(place, found):
            found.append(place)
    return tuple(found)


def _is_inside(path: Path, folders: Sequence[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
