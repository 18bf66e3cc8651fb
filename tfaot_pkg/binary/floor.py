"""The oldest C library that compiled files load with: the newest version of its functions that they ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from tfaot_pkg.binary.elf import dynamic_of, opened, read_elf

GLIBC_VERSION = re.compile(r"GLIBC_([0-9]+(?:\.[0-9]+)+)")


def glibc_floor(data: memoryview) -> str:
    """The oldest glibc that a shared library or program loads with, such as `2.14`; empty if it needs none.

    Raises MalformedElf.
    """
    return max((version for version, _ in _versions(data)), key=numbers, default="")


def above_floor(data: memoryview, limit: str) -> tuple[str, ...]:
    """The symbols that a shared library or program needs from a glibc newer than `limit`, as `exp@GLIBC_2.29`.

    Raises MalformedElf.
    """
    return tuple(sorted(name for version, name in _versions(data) if numbers(version) > numbers(limit)))


def glibc_floor_of(paths: Iterable[Path]) -> str:
    """The oldest glibc that all of `paths` load with; empty if none needs one. Raises MalformedElf, OSError."""
    floors = []
    for path in paths:
        with opened(path) as data:
            floors.append(glibc_floor(data))
    return max(floors, key=numbers, default="")


def numbers(version: str) -> tuple[int, ...]:
    """`2.28` as numbers, which compare as versions do; none for an empty one."""
    return tuple(map(int, version.split("."))) if version else ()


def _versions(data: memoryview) -> Iterator[tuple[str, str]]:
    dynamic = dynamic_of(read_elf(data))
    for symbol in dynamic.symbols if dynamic else ():
        if found := GLIBC_VERSION.fullmatch(symbol.version):
            yield found[1], f"{symbol.name}@{symbol.version}"
