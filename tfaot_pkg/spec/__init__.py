"""The spec: YAML in, `ModelSpec` out, every fault with its line.

Functions that need the parsing libraries are imported at their first use, so that importing the types stays cheap.
`scaffold` has the name of its module and is imported from there.
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
    spec_document,
)

if TYPE_CHECKING:
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
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
