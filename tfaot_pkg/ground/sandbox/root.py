"""What a confined program sees of the file system: the given paths, with the links that lead to them, and nothing else.

For a Python interpreter: its standard library, its packages, and the libraries that it is linked with.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import SandboxError, ToolchainError
from tfaot_pkg.ground.process import CommandFailed, run

_MOST_LINKS = 40  # as the kernel

# Not /usr/bin and not /etc: nothing in the sandbox starts a program, and settings may hold passwords.
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
"""Shared libraries, and what engines read about the CPU. Every user may read it, and it contains no secrets."""

PROCESS_FACTS = ("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems", "/proc/version")
"""What may be read of /proc at the level `landlock`, where the sandbox has no /proc of its own."""

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trail:
    """How a path is resolved: the links on the way with their targets, and the final place, which is not a link."""

    links: tuple[tuple[Path, str], ...]
    place: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """Places by access; none of `readable` lies in another one. `links` lead to them."""

    readable: tuple[Path, ...]
    writable: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...]

    def arguments(self) -> list[str]:
        """For bubblewrap: this root, with a /proc and /dev of its own, and an empty /tmp that cannot be written."""
        words = ["--dir", "/tmp", "--proc", "/proc", "--dev", "/dev"]  # noqa: S108 (the sandbox's own)
        for place, target in self.links:
            words += ["--symlink", target, str(place)]
        kinds = {**dict.fromkeys(self.readable, "--ro-bind"), **dict.fromkeys(self.writable, "--bind")}
        for place in sorted(kinds):  # a later mount hides what is below it, so inner places come after outer ones
            words += [kinds[place], str(place), str(place)]
        # /proc too: in a sandbox that root starts, kernel settings could be written even without capabilities.
        return [*words, "--remount-ro", "/proc", "--remount-ro", "/dev", "--remount-ro", "/"]


def root_of(readable: Iterable[Path], writable: Iterable[Path]) -> Root:
    """The root that shows those of these paths that exist.

    Raises SandboxError for the home folder and for folders above it, which contain more than models.
    """
    read, written = ([trail(path) for path in paths if path.exists()] for paths in (readable, writable))
    for path in (*readable, *writable):
        require_narrow(path)
    places = _outermost({each.place for each in read})
    links = {place: target for each in (*read, *written) for place, target in each.links}
    return Root(
        readable=places,
        writable=tuple(sorted({each.place for each in written})),
        # A link inside a place that is shown is there already, and bubblewrap could not make it again.
        links=tuple((place, target) for place, target in sorted(links.items()) if not _is_inside(place, places)),
    )


def trail(path: Path) -> Trail:
    """The trail of `path`. Raises OSError for a loop of links."""
    links: list[tuple[Path, str]] = []
    place, left = Path("/"), list(Path(os.path.abspath(path)).parts[1:])
    while left:
        name = left.pop(0)
        # '..' after a link is the parent of its target, so it cannot be removed from the text beforehand.
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
    """Whether `path` does not contain the user's home folder, by the environment and by the user database."""
    real = path.resolve()
    return not any(home.resolve().is_relative_to(real) for home in _homes())


def _homes() -> set[Path]:
    # Both: a build may run with another HOME, and the real home still has the user's keys.
    homes = {Path(os.path.expanduser("~"))}
    with suppress(KeyError):  # containers run users that are in no database
        homes.add(Path(pwd.getpwuid(os.getuid()).pw_dir))
    return {home for home in homes if home.is_absolute()}


def require_narrow(path: Path) -> None:
    if not is_narrow(path):
        raise SandboxError(
            f"{path} contains the home folder: a model could read all files in it",
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


_TIMEOUT = 60.0

# Some Pythons bring their own libraries: those that these modules load show in which folders.
_PROGRAM = """
import os, sys
for name in ("ctypes", "zlib", "bz2", "lzma", "hashlib"):
    try:
        __import__(name)
    except ImportError:
        pass
with open("/proc/self/maps") as maps:
    mapped = {line.split(None, 5)[5].rstrip("\\n") for line in maps if "/" in line}
base = getattr(sys, "_base_executable", "") or sys.executable
prefixes = [sys.prefix, sys.base_prefix]
found = [sys.executable, base] + [os.path.join(prefix, "pyvenv.cfg") for prefix in prefixes]
found += [os.path.join(prefix, library) for prefix in prefixes for library in ("lib", "lib64")]
found += sorted({os.path.dirname(path) for path in mapped if ".so" in path})
"""
_ANSWER = """
import json
print(json.dumps(found + sys.path))
"""

PACKAGE = Path(__file__).resolve().parents[2]
"""This package."""


def file_of(module: str) -> Path:
    """The source of a module of this package."""
    return PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")


@cache
def own_sites() -> tuple[Path, ...]:
    """The folders from which this package imports its dependencies at run time."""
    specs = map(importlib.util.find_spec, ("numpy", "packaging"))
    return tuple({Path(spec.origin).parents[1]: None for spec in specs if spec is not None and spec.origin})


@cache
def readable_of(python: Path) -> tuple[Path, ...]:
    """The files and folders that the interpreter `python` reads; it is run once per process to ask (some 30 ms).

    Raises ToolchainError if it does not run.
    """
    try:
        answer = json.loads(run([python, "-I", "-B", "-c", _PROGRAM + _ANSWER], timeout=_TIMEOUT).stdout)
        return _shown([python, *map(Path, answer)])
    except (CommandFailed, ValueError, TypeError) as error:
        raise ToolchainError(
            f"{python} is not a working Python: {error}",
            hint="name the python program itself, for example ENV/bin/python",
        ) from error


@cache
def own_readable() -> tuple[Path, ...]:
    """What the Python that runs here reads, with this package and what it imports."""
    namespace: dict[str, Any] = {}
    exec(_PROGRAM, namespace)  # noqa: S102 (the text above)
    return _shown([*map(Path, namespace["found"]), PACKAGE, *own_sites()])


def _shown(paths: Iterable[Path]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(path for path in paths if path.exists() and is_narrow(path)))
