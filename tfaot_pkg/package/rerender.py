"""Rendering the headers and build files of a finished package again, from what it says of itself.

Nothing of that is trusted: whatever a package says, what is rendered from it is harmless, because names are checked and
texts go through the filters of their language (render.py), as in a build of a hostile spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import yaml

from tfaot_pkg.analysis.rows import INDEPENDENT, Meeting, Rows
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.documents import convert, plain, read_json
from tfaot_pkg.ground.forms.document import Dumper, read_document
from tfaot_pkg.ground.keys import files_below, sha256_bytes, sha256_file
from tfaot_pkg.ground.rendering import release_folder
from tfaot_pkg.ground.signature import Signature
from tfaot_pkg.package.listing import Tree, source_folder
from tfaot_pkg.package.name import spellings
from tfaot_pkg.package.tree import PackageContents, for_users, info_document, source_form
from tfaot_pkg.spec.expand import MARKS, without_expressions
from tfaot_pkg.spec.parse import parse_spec
from tfaot_pkg.spec.types import ModelSpec

_MOST_BYTES = 16 << 20
"""Of a spec or an info.json that is read."""


class Again:
    """The package in `root`, whose files are `tree`; `package` is a name that its files may have.

    `signature` is that of the model. Methods raise OSError.
    """

    def __init__(self, root: Path, tree: Tree, package: str, signature: Signature) -> None:
        self._root, self._tree, self._package, self._signature = root, tree, package, signature

    def digests(self, release: str) -> dict[str, str]:
        """The SHA-256 of what `release` renders (render.releases), by path. Nothing if the package is not of it."""
        contents = self._contents
        if contents is None:
            return {}
        folder = source_folder(contents.package_name)
        try:
            files = for_users(contents, release)
            if code := self._code(folder):
                files |= source_form(contents, code, files, release)
        # It has what that release did not know.
        except (jinja2.UndefinedError, jinja2.TemplateNotFound, SpecError):
            return {}
        made = {path: sha256_bytes(data) for path, data in files.items()}
        return made | {f"{folder}/{path}": digest for path, digest in shared_headers(release).items()}

    def info(self) -> dict[str, Any] | None:
        """What info.json must say of what stands in the spec and the signature; None if the package has no such spec.

        Other values in it are made up.
        """
        return None if self._contents is None else plain(info_document(self._contents))

    @cached_property
    def _contents(self) -> PackageContents | None:
        """What the package was made from, as far as its files for users need it; None if it does not say that."""
        for stem in spellings(self._package):
            share = self._root / "share" / stem
            try:
                spec = _spec(_content(share / "spec.yaml"), share / "spec.yaml")
                info = convert(dict[str, Any], read_json(_content(share / "info.json")))
                return self._from(info, spec)
            except (FileNotFoundError, SpecError, ValueError, KeyError, TypeError, AttributeError):
                continue
        return None

    def _from(self, info: Mapping[str, Any], spec: ModelSpec) -> PackageContents:
        dependent = Rows(meetings=(Meeting(output="", node="", operation="", reason=""),))
        return PackageContents(
            spec=spec,
            signature=self._signature,
            rows=INDEPENDENT if info["rows_independent"] is True else dependent,
            any_batch_size=info.get("any_batch_size") is True,
            # Only a README of the sources says the difference, and is not compared.
            bits={"difference": "", **{name: info[name] for name in ("reproducible", "other_bits") if name in info}},
            symbol=str(info["symbol"]),
            uid=str(info["uid"]),
            toolchain=str(info["toolchain"]),
            origin=str(info.get("origin", "")),
            objects=tuple(map(Path, self._named("lib/", ".o"))),
            static_library=Path(),
            shared_library=Path(),
            notices={},
            validation={},
        )

    def _named(self, folder: str, suffix: str) -> Iterator[str]:
        paths = (path for path in self._tree.files if path.startswith(folder) and path.endswith(suffix))
        return (path.removeprefix(folder) for path in paths)

    def _code(self, folder: str) -> dict[str, bytes]:
        """The C++ files of the source form, by path in it; with content only those of operations, which is named."""
        names = [path.removeprefix("src/") for path in self._named(f"{folder}/", "") if path.startswith("src/")]
        places = {f"src/{name}": self._root / folder / "src" / name for name in names}
        return {
            path: place.read_bytes() if re.fullmatch(r"operation_\w+\.cc", place.name) else b""
            for path, place in places.items()
        }


def shared_headers(release: str) -> dict[str, str]:
    """The SHA-256 of the shared headers of `release`, by path (`include/tfaot/...`)."""
    if release:
        found = convert(dict[str, str], read_json((release_folder(release) / "headers.json").read_bytes()))
    else:
        folder = resources.headers()
        found = {path.relative_to(folder).as_posix(): sha256_file(path) for path in files_below(folder)}
    return {f"include/{path}": digest for path, digest in found.items()}


def _content(path: Path) -> bytes:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{path} is too long")
    return path.read_bytes()


def _spec(text: bytes, path: Path) -> ModelSpec:
    """The spec of a package, whose strings are no expressions; it is not read from `path`. Raises SpecError."""
    if any(mark.encode() in text for mark in MARKS):
        plain = without_expressions(read_document(text, path.name).data)
        text = yaml.dump(plain, Dumper=Dumper, sort_keys=False, allow_unicode=True).encode()
    return parse_spec(text, path)
