"""Where two install trees differ, file by file, told so that a person can start looking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from tfaot_pkg.package.listing import Member, scan_tree
from tfaot_pkg.wording import counted

Kind = Literal["missing", "added", "kind", "content"]

_SHOWN = 8  # bytes
_LINE = 80  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One file that is not the same: only there ("missing"), only here ("added"), of another kind, or other bytes.

    `detail` says for bytes where the first difference is, and what stands there and here.
    """

    path: str
    kind: Kind
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


def differences(there: Path, here: Path) -> tuple[Difference, ...]:
    """What differs between the published tree and the rebuilt one, by path. Raises RegistryError, OSError."""
    theirs = {member.path: member for member in scan_tree(there).members}
    ours = {member.path: member for member in scan_tree(here).members}
    return tuple(
        found
        for path in sorted(theirs.keys() | ours.keys())
        for found in _differences(path, theirs.get(path), ours.get(path), there / path, here / path)
    )


def _differences(
    path: str, theirs: Member | None, ours: Member | None, there: Path, here: Path
) -> Iterator[Difference]:
    if ours is None:
        yield Difference(path=path, kind="missing", detail="is not in the rebuilt package")
    elif theirs is None:
        yield Difference(path=path, kind="added", detail="is not in the published package")
    elif theirs.kind != ours.kind:
        yield Difference(path=path, kind="kind", detail=f"was published as {theirs.kind}, rebuilt as {ours.kind}")
    elif theirs.content != ours.content:
        yield Difference(path=path, kind="content", detail=_first(theirs, there, here))


def _first(member: Member, there: Path, here: Path) -> str:
    if member.kind == "link":
        return "leads elsewhere"
    theirs, ours = there.read_bytes(), here.read_bytes()
    sizes = f" ({counted(len(theirs), 'byte')} published, {len(ours):,} rebuilt)" if len(theirs) != len(ours) else ""
    try:
        return _first_line(theirs.decode(), ours.decode()) + sizes
    except UnicodeDecodeError:
        return _first_byte(theirs, ours) + sizes


def _first_line(theirs: str, ours: str) -> str:
    pairs = zip_longest(theirs.splitlines(keepends=True), ours.splitlines(keepends=True), fillvalue="")
    number, there, here = next((n, a, b) for n, (a, b) in enumerate(pairs, 1) if a != b)
    return f"line {number} is {here.strip()[:_LINE]!r}, was published as {there.strip()[:_LINE]!r}"


def _first_byte(theirs: bytes, ours: bytes) -> str:
    common = min(len(theirs), len(ours))
    at = next((n for n in range(common) if theirs[n] != ours[n]), common)
    there, here = theirs[at : at + _SHOWN].hex(" "), ours[at : at + _SHOWN].hex(" ")
    return f"from byte {at} on is {here or 'nothing'}, was published as {there or 'nothing'}"
