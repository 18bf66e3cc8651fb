"""Recipes for package managers that build from source: the source form of a package, and files that such a tool reads.

Each is a set of new folders. Where all packages are installed into one prefix (Debian, vcpkg), the headers that models
share are a recipe of their own, as in conda: two packages must not own one file. Authors wrote the texts, so each goes
through the filter of its language (ground/rendering.py).
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from packaging.version import Version

from tfaot_pkg.errors import RegistryError, StorageError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.keys import sha256_file
from tfaot_pkg.ground.rendering import render
from tfaot_pkg.ground.storage import make_folder, storage_errors, sync_file_system, sync_folder
from tfaot_pkg.ground.targets import TARGETS
from tfaot_pkg.ground.temporary import temporary_folder
from tfaot_pkg.package.listing import VERSION_FILE, headers_version
from tfaot_pkg.pipeline.distributions.described import Described
from tfaot_pkg.pipeline.distributions.facts import Facts
from tfaot_pkg.pipeline.distributions.files import File, Written
from tfaot_pkg.registry.source_export import NO_SOURCE, sources_of

Manager = Literal["bazel", "debian", "nix", "spack", "vcpkg"]
Folders = dict[str, tuple[File, ...]]
"""The files of each folder, by its name."""
_PER_MAJOR = 10_000  # of TFAOT_HEADERS_VERSION, as in package/prefix/plan.py


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What recipes are made of: the source form of a package, and the shared headers, each with its path in there."""

    facts: Facts
    files: tuple[File, ...]
    headers: tuple[File, ...]
    headers_version: int

    @classmethod
    def of(cls, described: Described) -> Sources:
        """Raises RegistryError without sources, and as the tree when it is read."""
        tree, facts = described.tree, described.facts
        found = sources_of(tree)
        if not found:
            raise RegistryError(f"{facts.package} {facts.version} has no sources", hint=NO_SOURCE)
        headers = tuple(file for file in described.files if file.path.startswith("include/tfaot/"))
        version = next((file for file in headers if file.path == VERSION_FILE), None)
        return cls(
            facts=facts,
            files=tuple(File.of(tree, member, path) for path, member in sorted(found.items())),
            headers=headers,
            headers_version=headers_version(b"".join(version.chunks()).decode(errors="replace")) if version else 0,
        )

    @property
    def context(self) -> dict[str, object]:
        """The variables of all templates."""
        facts, version = self.facts, str(self.facts.version)
        return {
            "package": facts.package,
            "model": facts.model,
            "version": version,
            "debian_version": debian_version(facts.version),
            "spack_version": spack_version(facts.version),
            "spack_class": "".join(word.capitalize() for word in facts.package.split("-")),
            "is_plain_version": bool(re.fullmatch(r"\d+(\.\d+)*", version)),
            "description": facts.description,
            "author": facts.author,
            "license": facts.license,
            "spdx": facts.spdx,
            "homepage": facts.homepage,
            "headers": {
                "version": self.headers_version,
                "next_major": (self.headers_version // _PER_MAJOR + 1) * _PER_MAJOR,
            },
        }

    def rendered(self, folder: str, names: Mapping[str, str], **more: object) -> tuple[File, ...]:
        """The templates `names` of `folder`, by the path that each gets."""
        context = {**self.context, **more}
        return tuple(
            File.made(path, render(f"recipes/{folder}/{name}.j2", context), is_program=name == "rules")
            for path, name in names.items()
        )


def debian_version(version: Version) -> str:
    """`version` in the order of Debian: what comes before a release has a `~`."""
    text = re.sub(r"(?<=\d)(a|b|rc|\.dev)(?=\d)", r"~\1", version.public)
    return f"{text.replace('~.', '~')}+{version.local}" if version.local else text.replace("~.", "~")


def spack_version(version: Version) -> str:
    """`version` in the order of Spack, which knows no development versions: those come after the release."""
    names = {"a": "alpha", "b": "beta", "rc": "rc"}
    text = re.sub(r"(?<=\d)(a|b|rc)(?=\d)", lambda found: f"-{names[found[1]]}", version.public)
    return re.sub(r"[^A-Za-z0-9.]", "-", f"{text}-{version.local}" if version.local else text)


def _bazel(sources: Sources) -> Folders:
    facts = sources.facts
    if not any(file.path == "BUILD.bazel" for file in sources.files):
        raise RegistryError(
            f"{facts.package} {facts.version}: its sources have no BUILD.bazel, as in older packages",
            hint="build the package again",
        )
    own = sources.rendered("bazel", {"MODULE.bazel": "MODULE.bazel"})
    return {_name(sources): (*sources.files, *own)}


def _debian(sources: Sources) -> Folders:
    names = {f"debian/{name}": name for name in ("control", "rules", "changelog", "copyright")}
    names["debian/source/format"] = "format"
    context = sources.context
    return {
        f"{sources.facts.package}-{context['debian_version']}": (*sources.files, *sources.rendered("debian", names)),
        f"tfaot-headers-{sources.headers_version}": (*sources.headers, *sources.rendered("debian-headers", names)),
    }


def _nix(sources: Sources) -> Folders:
    own = sources.rendered("nix", {"default.nix": "default.nix"})
    return {_name(sources): (*sources.files, *own)}


def _spack(sources: Sources) -> Folders:
    names = {"package.py": "package.py"}
    package = _with_archive(sources, "spack", names, targets=tuple(TARGETS))
    own = sources.rendered("spack", {"repo.yaml": "repo.yaml"})
    return {_name(sources): (*own, *_below(f"packages/{sources.facts.package}", package))}


def _vcpkg(sources: Sources) -> Folders:
    names = {name: name for name in ("vcpkg.json", "portfile.cmake")}
    licence = File.made("LICENSE.txt", resources.licence().read_bytes())
    return {
        sources.facts.package: _with_archive(sources, "vcpkg", names),
        "tfaot-headers": (licence, *sources.headers, *sources.rendered("vcpkg-headers", names)),
    }


_RECIPES: dict[Manager, Callable[[Sources], Folders]] = {
    "bazel": _bazel,
    "debian": _debian,
    "nix": _nix,
    "spack": _spack,
    "vcpkg": _vcpkg,
}
MANAGERS: tuple[Manager, ...] = tuple(_RECIPES)


def _name(sources: Sources) -> str:
    return f"{sources.facts.package}-{sources.facts.version}"


def _with_archive(sources: Sources, folder: str, names: Mapping[str, str], **more: object) -> tuple[File, ...]:
    """All sources as one file, and the templates of `folder`, which name it."""
    archive = File.made(f"{_name(sources)}.tar", _tar(_name(sources), sources.files))
    told = {"name": archive.path, "sha256": archive.sha256}
    return archive, *sources.rendered(folder, names, archive=told, **more)


def _below(folder: str, files: Sequence[File]) -> Iterator[File]:
    for file in files:
        yield File(path=f"{folder}/{file.path}", size=file.size, sha256=file.sha256, chunks=file.chunks)


def _tar(folder: str, files: Sequence[File]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for file in files:
            info = tarfile.TarInfo(f"{folder}/{file.path}")
            info.size, info.mode = file.size, file.mode
            archive.addfile(info, io.BytesIO(b"".join(file.chunks())))
    return made.getvalue()


def write_recipe(manager: Manager, described: Sequence[Described], root: Path, _: bool) -> Written:
    """Write the recipe of one version into new folders below `root`: all of them, or none.

    A folder with the same files is left as it is. Raises RegistryError (no sources, or a name that the tool cannot
    have), StorageError (other files are there), and as the trees when they are read.
    """
    facts = described[0].facts
    if manager != "debian":
        facts.require_plain_name(f"a recipe of {manager}")
    made = _RECIPES[manager](Sources.of(described[0]))
    with storage_errors(f"write into {root}"):
        make_folder(root)
        with temporary_folder(root, prefix=".export.", suffix=".part") as staged:
            for name, files in made.items():
                _fill(staged / name, files)
            sync_file_system(staged)
            for name in [name for name in made if not _is_there(root / name, staged / name)]:
                make_folder((root / name).parent)
                os.rename(staged / name, root / name)
                sync_folder((root / name).parent)
    return Written(name=facts.package, version=str(facts.version), files=tuple(root / name for name in made))


def _fill(folder: Path, files: Sequence[File]) -> None:
    for file in files:
        path = folder / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as stream:
            stream.writelines(file.chunks())
            os.fchmod(stream.fileno(), file.mode)


def _is_there(folder: Path, new: Path) -> bool:
    """Whether `folder` has the files of `new` already. Raises StorageError if it has others."""
    if not os.path.lexists(folder):
        return False
    if folder.is_dir() and _content(folder) == _content(new):
        return True
    raise StorageError(
        f"{folder} exists already, and has other files", hint="nothing was written; remove it, or name another folder"
    )


def _content(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in folder.rglob("*") if path.is_file()}
