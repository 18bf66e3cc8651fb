"""Specs as YAML files: what differs from the defaults, and what every spec says."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tfaot_pkg.forms.document import Dumper
from tfaot_pkg.spec.expand import MARKS
from tfaot_pkg.spec.types import (
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
    ModelInfo,
    ModelSpec,
    PackageOptions,
    Source,
    Validation,
    spec_document,
)

_ALWAYS = {("model", "name"), ("model", "version"), ("model", "saved_model"), ("compilation", "batch_sizes")}


class _Dumper(Dumper):
    """Mappings line by line, lists in one line."""


_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)
)


def spec_text(spec: ModelSpec, *, comment: str = "", with_source: bool = True) -> str:
    """The text of a file at `spec.path` that `load_spec` reads as `spec` (but for its tuning and defines)."""
    document = shortened(spec)
    if with_source and spec.source != FolderSource(path=spec.folder):
        document["source"] = _source(spec.source, spec.folder)
    if spec.validation.inputs is not None:
        document.setdefault("validation", {})["inputs"] = _relative(spec.validation.inputs, spec.folder)
    order = [section for section in ("model", "source", "compilation", "validation", "package") if section in document]
    plain = {section: _literal(document[section]) for section in order}
    text = yaml.dump(plain, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return "".join(f"# {line}\n" for line in comment.splitlines()) + text


def shortened(spec: ModelSpec) -> dict[str, Any]:
    """The sections of `spec` without what defaults say, and without files' places."""
    default = ModelSpec(
        path=spec.path,
        model=ModelInfo(name="", version=""),
        source=spec.source,
        compilation=Compilation(batch_sizes=()),
        validation=Validation(),
        package=PackageOptions(),
    )
    bare = replace(spec, validation=replace(spec.validation, inputs=None))
    defaults: Any = spec_document(default)
    given: Any = spec_document(bare)
    if spec.validation.inputs is not None:
        del given["validation"]["seed"], given["validation"]["samples"]
    short = {
        section: {
            key: value
            for key, value in values.items()
            if (section, key) in _ALWAYS or value != defaults[section].get(key)
        }
        for section, values in given.items()
        if section != "source"
    }
    return {section: values for section, values in short.items() if values}


def _source(source: Source, folder: Path) -> dict[str, str]:
    match source:
        case FolderSource():
            return {"path": _relative(source.path, folder)}
        case ArchiveSource():
            said = {"url": source.url, "sha256": source.sha256}
        case GitSource():
            said = {"git": source.url, "revision": source.revision}
    return {**said, **({"subdir": source.subdir} if source.subdir else {})}


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path, folder)).as_posix()


def _literal(value: Any) -> Any:
    """`value` with texts that the spec's reader takes as they are, not for expressions."""
    match value:
        case str():
            return value.replace("{", "{{ '{' }}") if any(mark in value for mark in MARKS) else value
        case list():
            return [_literal(item) for item in value]
        case dict():
            return {key: _literal(item) for key, item in value.items()}
        case _:
            return value
