"""The files and links of an install tree, by path: archives, manifests and digests are made from this listing.

It alone decides what a package can hold: files and links inside of it, with names that are safe on all systems.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.keys import canonical_json, sha256_bytes, sha256_file
from tfaot_pkg.ground.walk import entries_below
from tfaot_pkg.package.name import spellings
from tfaot_pkg.spec.rules import PACKAGE_PREFIX

# A backslash separates folders on Windows; control characters spoil terminals and line-based files.
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")
_MAX_PATH = 255  # bytes: file systems limit a name to this, and some archive formats a path

Kind = Literal["file", "program", "link"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A file of a tree. `content` is its SHA-256, for a link its target; a program may be executed."""

    path: str
    kind: Kind
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The members of an install tree, sorted by path. Empty folders are not listed."""

    members: tuple[Member, ...]

    @property
    def digest(self) -> str:
        """SHA-256 over names, kinds and contents."""
        return sha256_bytes(canonical_json([[m.path, m.kind, m.content] for m in self.members]))

    @property
    def files(self) -> dict[str, str]:
        """Regular files: path to SHA-256."""
        return {m.path: m.content for m in self.members if m.kind != "link"}

    @property
    def links(self) -> dict[str, str]:
        """Links: path to target."""
        return {m.path: m.content for m in self.members if m.kind == "link"}


def scan_tree(root: Path) -> Tree:
    """The tree at `root`. Raises RegistryError for what a package cannot hold, OSError."""
    tree = Tree(members=tuple(sorted(_scan(root), key=lambda m: m.path)))
    fault = tree_fault(tree)
    if fault:
        raise RegistryError(f"{root} cannot be a package: {fault}")
    return tree


def _scan(root: Path) -> Iterator[Member]:
    for entry in entries_below(root):
        path = Path(entry.path)
        name = path.relative_to(root).as_posix()
        # Links first, because the other questions follow them.
        if entry.is_symlink():
            yield Member(path=name, kind="link", content=os.readlink(path))
        elif entry.is_file():
            kind: Kind = "program" if path.stat().st_mode & 0o100 else "file"
            yield Member(path=name, kind=kind, content=sha256_file(path))
        elif not entry.is_dir():
            raise RegistryError(f"{root} cannot be a package: {name} is neither a file nor a folder")


def tree_fault(tree: Tree) -> str:
    """Why `tree` cannot be a package; empty if it can. Pure: this alone decides what may be unpacked."""
    paths = {member.path for member in tree.members}
    if len(paths) != len(tree.members):
        return "a name occurs twice"
    for member in tree.members:
        fault = path_fault(member.path)
        if fault:
            return f"{member.path!r} {fault}"
        inner = next((parent for parent in parents(member.path) if parent in paths), None)
        if inner is not None:
            return f"{inner!r} is both a file and a folder"
    links = tree.links
    return next((fault for path in links if (fault := _link_fault(path, links, paths))), "")


def path_fault(path: str) -> str:
    """Why `path` cannot be a member's name; empty if it can."""
    if not path or len(path.encode("utf-8", "surrogatepass")) > _MAX_PATH:
        return "is empty or too long"
    # Lone surrogates stand for bytes that are not UTF-8, which neither JSON nor our archives can hold.
    if _UNSAFE.search(path) or any("\ud800" <= letter <= "\udfff" for letter in path):
        return "contains characters that are not allowed in names"
    if path.startswith("/"):
        return "is an absolute path"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "leads out of the tree"
    # The installer's lock and staging folders have such names (package/prefix/manifest.py).
    if parts[0].startswith("."):
        return "is hidden"
    return ""


def parents(path: str) -> Iterator[str]:
    """The folders that `path` lies in, innermost first."""
    while path := posixpath.dirname(path):
        yield path


def _link_fault(path: str, links: dict[str, str], paths: set[str]) -> str:
    current = path
    # A link may lead to another one; more steps than there are links are a circle.
    for _ in range(len(links) + 1):
        if current not in links:
            return "" if current in paths else f"link {path!r} leads to {links[path]!r}, no file of the package"
        target = links[current]
        if target.startswith("/") or _UNSAFE.search(target):
            return f"link {path!r} leads to {target!r}, outside of the package"
        current = posixpath.normpath(posixpath.join(posixpath.dirname(current), target))
    return f"link {path!r} leads to itself"


OBJECTS = "-objects"
"""The SCRAM tool that links a package's object files has the package's name and this suffix."""


def source_folder(package: str) -> str:
    """Where a package has its source form, if it has one."""
    return f"share/{package}/source"


_FILE = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_WRITTEN_BY_INSTALLER = ("manifest.json", "pending.json")
# Others would be read and shown by nobody, so whoever knows of them could hide anything there.
_DOCUMENTS = (
    "graph.json",
    "info.json",
    "provenance.json",
    "reference.bin",
    "sbom.cdx.json",
    "spec.tune.json",
    "spec.yaml",
    "validation.json",
)


def foreign_path(package: str, path: str) -> str:
    """Why `path` cannot be a file of `package`; empty if it can. `path` is one that `path_fault` accepts."""
    if any(pattern.fullmatch(path) for stem in spellings(package) for pattern in _patterns(stem)):
        return ""
    for stem in spellings(package):
        if path in [f"share/{stem}/{name}" for name in _WRITTEN_BY_INSTALLER]:
            return "is written by the installer only"
    return f"is not a path that {package} may have"


def foreign_paths(package: str, paths: Iterable[str]) -> tuple[str, ...]:
    """The faults of all of `paths`, each with its path."""
    return tuple(f"{path!r} {fault}" for path in paths if (fault := foreign_path(package, path)))


def _patterns(stem: str) -> tuple[re.Pattern[str], ...]:
    """The paths that a package may have whose files are named after `stem`."""
    model = re.escape(stem.removeprefix(PACKAGE_PREFIX).replace("-", "_"))
    # The tool of a model `jet_objects` would be the objects tool of `jet` (decision 034).
    tools = [f"{stem}{OBJECTS}", *([] if stem.endswith(OBJECTS) else [stem])]
    tool = "|".join(map(re.escape, tools))
    stem = re.escape(stem)
    return tuple(
        re.compile(pattern)
        for pattern in (
            rf"include/{stem}/({_FILE}/)*{_FILE}\.h",
            rf"include/tfaot/({_FILE}/)*{_FILE}\.h",
            rf"lib/lib{stem}\.(a|so|so\.[0-9a-f]+)",
            rf"lib/{model}_(common|bs[0-9]+)\.o",
            rf"bin/{model}_(test|benchmark)",
            rf"lib/cmake/{stem}/{stem}(Config|ConfigVersion|Targets)\.cmake",
            rf"lib/pkgconfig/{stem}\.pc",
            rf"etc/scram\.d/({tool})\.xml",
            rf"share/{stem}/({'|'.join(map(re.escape, _DOCUMENTS))}|licenses/{_FILE}|source/({_FILE}/)*{_FILE})",
        )
    )


VERSION_FILE = "include/tfaot/version.h"


def headers_version(text: str) -> int:
    """TFAOT_HEADERS_VERSION in the text of tfaot/version.h; 0 if there is none."""
    found = re.search(r"^#define TFAOT_HEADERS_VERSION (\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else 0
