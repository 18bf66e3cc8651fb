"""The spec: a YAML file is read into a `ModelSpec`, or all its faults are reported with their lines.

Functions that need pydantic or PyYAML are imported at their first use, so that importing the types is fast. Import
`scaffold` from its module, which has the same name.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tfaot_pkg.spec.rules import cpp_identifiers, package_name
from tfaot_pkg.spec.types import (
    DEFAULT_TENSORFLOW,
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
    ModelInfo,
    ModelSpec,
    PackageOptions,
    Source,
    Validation,
)

if TYPE_CHECKING:
    from tfaot_pkg.spec.document import spec_document
    from tfaot_pkg.spec.form import json_schema
    from tfaot_pkg.spec.parse import load_spec, parse_spec

__all__ = [
    "DEFAULT_TENSORFLOW",
    "ArchiveSource",
    "Compilation",
    "FolderSource",
    "GitSource",
    "ModelInfo",
    "ModelSpec",
    "PackageOptions",
    "Source",
    "Validation",
    "cpp_identifiers",
    "json_schema",
    "load_spec",
    "package_name",
    "parse_spec",
    "spec_document",
]

_LAZY = {
    "load_spec": "parse",
    "parse_spec": "parse",
    "json_schema": "form",
    "spec_document": "document",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
