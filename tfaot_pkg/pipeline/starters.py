"""A newcomer's first files: samples that are distributed with the tool, and a program for an installed package."""

from __future__ import annotations

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


def write_sample(name: str, folder: Path) -> int:
    """Write a sample into `folder`, which must not exist; returns the number of files.

    Raises SourceError for an unknown name, StorageError.
    """
    root = resources.samples().get(name)
    if root is None:
        raise SourceError(f"there is no sample {name!r}", hint=f"the samples are {', '.join(sample_names())}")
    files = {path: root / path for path in _files_of(root)}
    require_new(folder)
    with storage_errors(f"write {folder}"), new_folder(folder.absolute()) as staged:
        for path, file in files.items():
            write_file(staged / path, _in_its_place(path, file.read_bytes()))
    return len(files)


def _files_of(root: Path) -> list[str]:
    parts = [root / name for name in _OF_MODELS] if (root / "saved_model").is_dir() else [root]
    found = [file for part in parts for file in ([part] if part.is_file() else sorted(part.rglob("*")))]
    paths = [file.relative_to(root).as_posix() for file in found if file.is_file()]
    # Without files that come from using an example in a checkout.
    return [path for path in paths if not path.endswith(".pyc") and not path.startswith("build/")]


def _in_its_place(path: str, data: bytes) -> bytes:
    """A text of the repository, adapted to a sample, in which folders of models are beside those of examples."""
    if not path.endswith((".yaml", ".txt", ".md")):
        return data
    text = re.sub(r"^# yaml-language-server:.*\n", "", data.decode())  # names a schema of the repository
    return re.sub(r"\.\./recipes/tfaot-model-(\w+)/all/", r"\1/", text).encode()


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
