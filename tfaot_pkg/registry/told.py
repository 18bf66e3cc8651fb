"""Does a package say the same of itself in all places: its index line, its info.json, its spec?

Users choose by the index line, programs read info.json, and headers are rendered from the spec. The tool makes all
three from one value, so a package of which they differ is none that it made. Words that stand in one document only,
such as the report of the validation, cannot be compared with anything here: only their form is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfaot_pkg.errors import TrustError
from tfaot_pkg.ground.documents import fields_of, plain, read_json
from tfaot_pkg.package.listing import Tree
from tfaot_pkg.package.name import model_of, spellings
from tfaot_pkg.registry.entry import RegistryEntry
from tfaot_pkg.registry.reader import FILES, INFO, SBOM

_MOST_BYTES = 64 << 20
"""Of a document that is read."""
_OF_LINE = ("targets", "batch_sizes", "toolchain", "license", "description")
_OPTIONAL = {"any_batch_size": False, "rows_independent": None, "glibc": ""}
"""Fields that lines and documents of earlier versions lack, and what that means."""
_OF_SPEC = (
    "name", "version", "description", "author", "license", "homepage", "model_format", "training_data", "limits",
    "card", "keywords", "batch_sizes", "targets", "weights", "custom_operations", "signatures",
)  # fmt: skip
_SHOWN = 60


def require_told(root: Path, tree: Tree, entry: RegistryEntry) -> None:
    """Raise TrustError if the documents of the package of `entry`, whose files `tree` are in `root`, and the index
    line do not agree, or are not written as the tool writes them. Raises OSError.

    A package without a spec that this version reads has nothing for users that is rendered from one, or it is custom
    (package/custom_files.py): what it says of itself cannot be compared then.
    """
    if not any(f"share/{stem}/spec.yaml" in tree.files for stem in spellings(entry.name)):
        return
    from tfaot_pkg.package.rerender import Again  # Jinja and PyYAML take time to import

    made = Again(root, tree, entry.name, entry.signature).info()
    if made is None:
        return
    try:
        faults = tuple(_faults(root, tree, entry, made))
    except (ValueError, RecursionError) as error:
        faults = (str(error),)
    if faults:
        raise TrustError(
            f"the documents of {entry} are not those that tfaot-pkg writes:\n  " + "\n  ".join(faults),
            hint="do not use it; report it to the registry's maintainer",
        )


def _faults(root: Path, tree: Tree, entry: RegistryEntry, made: Mapping[str, Any]) -> Iterator[str]:
    for role, name in FILES.items():
        paths = [path for stem in spellings(entry.name) if (path := f"share/{stem}/{name}") in tree.files]
        for path in paths:
            document = _document(root / path, name)
            if role == INFO:
                yield from _beside_the_line(document, entry)
                yield from _beside_the_spec(document, made)
            elif role == SBOM and document.get("bomFormat") != "CycloneDX":
                yield f"{name} is no bill of materials of CycloneDX"


def _document(file: Path, name: str) -> Mapping[str, Any]:
    """Raises ValueError for one that is not written as builds write it: nothing may stand between its values."""
    from tfaot_pkg.package.tree import document_bytes

    if file.stat().st_size > _MOST_BYTES:
        raise ValueError(f"{name} is too long")
    data = file.read_bytes()
    document = read_json(data)
    if not isinstance(document, dict) or document_bytes(document) != data:
        raise ValueError(f"{name} is not written as builds write it")
    return document


def _beside_the_line(info: Mapping[str, Any], entry: RegistryEntry) -> Iterator[str]:
    # Several signatures have other fields in info.json, which are made of these and the spec.
    signature = {name: value for name, value in plain(entry.signature).items() if name != "signatures"}
    line = {**plain(fields_of(entry)), **signature, "name": entry.model}
    for name in ("name", *_OF_LINE, *_OPTIONAL, *signature):
        said = info.get(name, _OPTIONAL.get(name))
        if said != line[name]:
            yield f"info.json says {name} = {_shown(said)}, the index line {_shown(line[name])}"
    if entry.model != model_of(entry.name):
        yield f"the index line says that the model of {entry.name} is {_shown(entry.model)}"


def _beside_the_spec(info: Mapping[str, Any], made: Mapping[str, Any]) -> Iterator[str]:
    for name in _OF_SPEC:
        if name in info and info[name] != made.get(name):
            yield f"info.json says {name} = {_shown(info[name])}, the spec {_shown(made.get(name))}"
    cpp = info.get("cpp")
    if not isinstance(cpp, dict) or cpp.get("class") != made["cpp"]["class"]:
        yield f"info.json names another class of C++ than the spec: {_shown(cpp)}"


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
