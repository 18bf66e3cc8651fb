"""A newcomer's first files: samples that are distributed with the tool, and a program for an installed package."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tfaot_pkg.errors import PrefixError, SourceError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.documents import convert, read_json
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.ground.storage import new_folder, require_new, storage_errors, write_file
from tfaot_pkg.package.example import Example
from tfaot_pkg.package.first_program import first_build_file, first_program
from tfaot_pkg.package.name import package_meant_by
from tfaot_pkg.package.prefix.manifest import HEADERS, Manifest, look, read_prefix

_OF_MODELS = ("spec.yaml", "saved_model", "data")
_OLDEST_HEADERS = 10500  # in which tfaot::Shared returns results


def sample_names() -> tuple[str, ...]:
    """The models and the example projects that `write_sample` knows."""
    return tuple(sorted(resources.samples()))


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenSample:
    """A sample in a folder: the paths of its files, and the commands that its README gives first."""

    files: tuple[str, ...]
    steps: str


def write_sample(name: str, folder: Path) -> WrittenSample:
    """Write a sample into `folder`, which must not exist, with all files of other samples that it uses.

    Raises SourceError for an unknown name, StorageError.
    """
    root = resources.samples().get(name)
    if root is None:
        near = difflib.get_close_matches(name, sample_names(), n=1)
        guess = f"did you mean {near[0]}? " if near else ""
        raise SourceError(f"there is no sample {name!r}", hint=f"{guess}the samples are {', '.join(sample_names())}")
    require_new(folder)
    with storage_errors(f"write {folder}"), new_folder(folder.absolute()) as staged:
        files = _alone(name, root)
        for path, data in files.items():
            write_file(staged / path, data)
    steps = re.search(r"^```sh\n(.*?)^```", files.get("README.md", b"").decode(), re.MULTILINE | re.DOTALL)
    return WrittenSample(files=tuple(files), steps=steps[1].rstrip() if steps else "")


_OUTSIDE = re.compile(r"(?:\.\./)+[\w./-]*\w")
_LINK = re.compile(r"\[([^\]]*)\]\((?:\.\./)+docs/([\w/-]+)\.md(?:#[\w-]*)?\)")


def _alone(name: str, root: Path) -> dict[str, bytes]:
    """The files of a sample by their paths. What it uses of other samples is in folders of their names."""
    files: dict[str, bytes] = {}
    others = {other: place for other, place in resources.samples().items() if other != name}
    for path in _files_of(root):
        data = (root / path).read_bytes()
        if path.endswith((".yaml", ".txt", ".md", ".ipynb")):
            text, used = _pointed_inside(data.decode(), root / path, "../" * path.count("/"), others)
            data = text.encode()
            for other in used:
                more = (file for file in _files_of(others[other]) if file != "README.md")
                files |= {f"{other}/{file}": (others[other] / file).read_bytes() for file in more}
        files[path] = data
    # Names a schema of the repository.
    return {
        path: re.sub(rb"^# yaml-language-server:.*\n", b"", data) if path.endswith(".yaml") else data
        for path, data in sorted(files.items())
    }


def _pointed_inside(text: str, file: Path, up: str, others: Mapping[str, Path]) -> tuple[str, set[str]]:
    """`text` with paths to other samples as if they were in folders of this one, and which samples these are."""
    used: set[str] = set()

    def inside(found: re.Match[str]) -> str:
        meant = Path(os.path.normpath(file.parent / found[0]))
        for other, place in others.items():
            if meant.is_relative_to(place):
                used.add(other)
                return f"{up}{other}/{meant.relative_to(place).as_posix()}"
        return found[0]

    pages = _LINK.sub(r"\1: `tfaot-pkg help \2`", text)
    return _OUTSIDE.sub(inside, pages), used


def _files_of(root: Path) -> list[str]:
    parts = [root / name for name in _OF_MODELS] if (root / "saved_model").is_dir() else [root]
    found = [file for part in parts for file in ([part] if part.is_file() else sorted(part.rglob("*")))]
    paths = [file.relative_to(root).as_posix() for file in found if file.is_file()]
    # Without files that come from using an example in a checkout.
    return [path for path in paths if not path.endswith(".pyc") and not path.startswith("build/")]


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A first program in `folder` for a package in `prefix`; `has_answers`: it compares with expected numbers."""

    package: str
    version: str
    folder: Path
    prefix: Path
    has_answers: bool


def new_app(name: str, folder: Path, prefix: Path) -> App:
    """Write main.cpp and CMakeLists.txt for the package `name` of `prefix` into `folder`, which must not exist.

    Raises PrefixError (not installed, changed since, old headers, or a model that such a program cannot call),
    StorageError.
    """
    require_new(folder)
    manifest = _installed(name, prefix)
    info = _document(prefix, manifest, "info.json")
    try:
        signature = convert(Signature, {key: info.get(key, []) for key in ("inputs", "outputs", "symbols", "state")})
        report = _document(prefix, manifest, "validation.json")
        found = report.get("example")
        example = None if found is None else convert(Example, found, "$.example")
        main = first_program(info, signature, example, reference=str(report.get("reference", "its framework")))
    except (ValueError, KeyError) as error:
        raise PrefixError(
            f"{manifest.name} {manifest.version}: its documents cannot be read: {error}", hint="install it again"
        ) from error
    where = Path(os.path.abspath(folder)), Path(os.path.abspath(prefix))
    build = first_build_file(info, folder=where[0], prefix=where[1])
    with storage_errors(f"write {folder}"), new_folder(where[0]) as staged:
        write_file(staged / "main.cpp", main.encode())
        write_file(staged / "CMakeLists.txt", build.encode())
    return App(
        package=manifest.name,
        version=manifest.version,
        folder=folder,
        prefix=prefix,
        has_answers=example is not None,
    )


def _installed(name: str, prefix: Path) -> Manifest:
    with storage_errors(f"read {prefix}"):
        found = read_prefix(prefix)
    package = package_meant_by(name)
    manifest = next((found.manifests[part] for part in found.parts_of(package) if part in found.manifests), None)
    if manifest is None:
        there = ", ".join(found.packages())
        raise PrefixError(
            f"{package} is not installed in {prefix}" + (f", but {there}" if there else ""),
            hint=f"first: tfaot-pkg install {name} --prefix {prefix}",
        )
    headers = found.manifests.get(HEADERS)
    if headers is not None and int(headers.version) < _OLDEST_HEADERS:
        there = f"{package} --prefix {prefix}"
        raise PrefixError(
            f"{prefix} has tfaot headers of version {headers.version}; first programs need {_OLDEST_HEADERS} or newer",
            hint=f"install the package again: tfaot-pkg uninstall {there}; tfaot-pkg install {there}",
        )
    return manifest


def _document(prefix: Path, manifest: Manifest, name: str) -> Mapping[str, object]:
    """One of a package's JSON documents, as it was installed."""
    path = f"share/{manifest.name}/{name}"
    with storage_errors(f"read {prefix / path}"):
        if look(prefix / path) != manifest.files.get(path):
            raise PrefixError(
                f"{prefix / path} was changed since it was installed", hint=f"install {manifest.name} again"
            )
        document = read_json((prefix / path).read_bytes()) if path in manifest.files else {}
    return document if isinstance(document, dict) else {}
