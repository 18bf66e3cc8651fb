"""Specs as JSON values: in the form of a spec file, with all defaults. Keys, provenance and packages hold it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from tfaot_pkg.spec.form import keys_of
from tfaot_pkg.spec.rules import Limit
from tfaot_pkg.spec.types import (
    FULL,
    ArchiveSource,
    Bars,
    FolderSource,
    GitSource,
    ModelFiles,
    ModelInfo,
    ModelSpec,
    Precision,
    SavedModelFiles,
    Source,
)
from tfaot_pkg.worker_program.messages.conversions import Values
from tfaot_pkg.worker_program.messages.sources import TreesCall

# Signed URLs of object stores have such parameters; the digest identifies the archive without them.
_SECRET_PARAMETER = re.compile("token|key|sig|secret|pass|auth|credential", re.IGNORECASE)


def spec_document(spec: ModelSpec) -> dict[str, Any]:
    """`spec` as JSON values in the form of a spec file, with all defaults.

    It contains no absolute path: a path outside the spec's folder is reduced to its last name, so that keys and
    packages do not depend on the place of a checkout. Files must be identified by their digests in addition.
    """
    model = spec.model
    return {
        "model": {
            "name": model.name,
            "version": model.version,
            **_files(model.files),
            **_section(model),
            "shapes": {name: model.shape_document(name) for name in sorted(model.shapes)},
            "inputs": _names(model.inputs, model.input_keys),
            "outputs": _names(model.outputs, model.output_keys),
        },
        "source": _source(spec.source, spec.folder),
        **({"trees": call_document(model.call)} if model.call else {}),
        "compilation": {**_compilation(spec), **_section(model, "compilation")},
        "validation": _validation(spec),
        "package": _section(spec.package),
    }


def _section(part: Any, section: str = "") -> dict[str, Any]:
    """The keys of `part` with their values; of those that came later, only the ones that differ from the default."""
    values = [(key, getattr(part, key.field)) for key in keys_of(part.__class__) if key.setting.section == section]
    return {key.name: written(value) for key, value in values if value != key.default or not key.setting.later}


def written(value: Any) -> Any:
    """A value of a spec as its file has it."""
    match value:
        case Values(shape=shape, values=values):
            return _nested(shape, values)
        case Limit():
            return value.written
        case tuple():
            return [*map(written, value)]
        case Mapping():
            return {key: written(each) for key, each in sorted(value.items())}
        case Path():
            return value.name
        case Bars() | Precision():
            found = {name: written(getattr(value, name)) for name in _names_of(value)}
            later = ("weights", FULL.weights)  # as of keys that came later (types.Setting)
            return {name: each for name, each in found.items() if each not in (None, {}) and (name, each) != later}
        case _ if is_dataclass(value):
            return {name: written(getattr(value, name)) for name in _names_of(value)}
    return value


def _names_of(value: Any) -> list[str]:
    return [each.name for each in fields(value)]


def _nested(shape: tuple[int, ...], values: Sequence[object]) -> object:
    if not shape:
        return values[0]
    size = len(values) // shape[0] if shape[0] else 0
    return [_nested(shape[1:], values[place * size : (place + 1) * size]) for place in range(shape[0])]


def card_document(model: ModelInfo) -> dict[str, Any]:
    """The parts of the model card that there are."""
    card = {name: getattr(model, name) for name in ("training_data", "limits", "card", "keywords")}
    return {name: written(value) for name, value in card.items() if value}


def call_document(call: TreesCall) -> dict[str, Any]:
    """The calls of decision trees as a spec has them."""
    found: dict[str, Any] = {name: value for name, value in asdict(call).items() if value}
    if call.iterations.isdigit():
        found["iterations"] = int(call.iterations)
    if call.missing not in ("", "nan"):
        found["missing"] = float(call.missing)
    return found


def _names(names: tuple[str, ...], keys: tuple[str, ...]) -> list[str | dict[str, str]]:
    """The names as a spec has them, with the model's own where they are others."""
    pairs = zip(keys or names, names, strict=True)
    return [name if key == name else {key: name} for key, name in pairs]


def _files(files: ModelFiles) -> dict[str, Any]:
    found = {files.format: files.path, **_section(files)}
    if not isinstance(files, SavedModelFiles) or not files.signatures:
        return {key: value for key, value in found.items() if key != "signatures"}
    del found["serving_key"]  # of the joined signature
    signatures = {
        each.name: {
            "serving_key": each.serving_key,
            "inputs": _names(each.inputs, each.input_keys),
            "outputs": _names(each.outputs, each.output_keys),
        }
        for each in files.signatures
    }
    return found | {"signatures": signatures}


def _source(source: Source, folder: Path) -> dict[str, Any]:
    match source:
        case FolderSource():
            return {"path": _portable_path(source.path, folder)}
        case ArchiveSource():
            return {"url": _portable_url(source.url), "sha256": source.sha256, "subdir": source.subdir}
        case GitSource():
            return {"git": _portable_url(source.url), "revision": source.revision, "subdir": source.subdir}


def _compilation(spec: ModelSpec) -> dict[str, Any]:
    found = _section(spec.compilation)
    if (calibration := spec.compilation.precision.calibration) is not None:
        found["precision"] |= {"calibration": _portable_path(calibration, spec.folder)}
    return found


def _validation(spec: ModelSpec) -> dict[str, Any]:
    inputs, found = spec.validation.inputs, _section(spec.validation)
    if spec.validation.labels is not None:
        found["labels"] = _portable_path(spec.validation.labels, spec.folder)
    if inputs is not None:
        return {key: value for key, value in found.items() if key not in ("seed", "samples")} | {
            "inputs": _portable_path(inputs, spec.folder)
        }
    return {key: value for key, value in found.items() if key != "inputs"}


def place_of_rows(spec: ModelSpec, path: Path) -> str:
    """Where a file of rows lies relative to the spec that `spec_document` writes."""
    return _portable_path(path, spec.folder)


def _portable_path(path: Path, folder: Path) -> str:
    relative = Path(os.path.relpath(path, folder))
    # A path above the folder would name folders of this machine, and packages must not differ by them.
    return path.name if ".." in relative.parts else relative.as_posix()


def _portable_url(url: str) -> str:
    """`url` without folders of this machine and without tokens. The parser rejects passwords."""
    parts = urlsplit(url)
    # The folders of a file are those of this machine; its digest identifies the archive.
    if parts.scheme == "file":
        return f"file:///{Path(parts.path).name}"
    query = [(name, value) for name, value in parse_qsl(parts.query) if not _SECRET_PARAMETER.search(name)]
    return parts._replace(query=urlencode(query)).geturl() if parts.query else url
