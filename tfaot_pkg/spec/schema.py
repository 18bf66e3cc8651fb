"""The JSON Schema of a spec file, made from the written form: editors complete and check specs with it.

It knows less than the parser (no rule that concerns two values, no C++ keywords), but refuses nothing that the
parser takes.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

from tfaot_pkg.spec.form import SpecForm
from tfaot_pkg.spec.types import Compilation, ModelInfo, PackageOptions, Validation

SCHEMA_ID = "https://tfaot-pkg.invalid/schema/spec-1.json"
"""The schema's name. Nothing is served there: editors are given a file."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TYPES: dict[str, type] = {
    "ModelForm": ModelInfo,
    "CompilationForm": Compilation,
    "ValidationForm": Validation,
    "PackageForm": PackageOptions,
}
_TITLES = {
    "ModelForm": "Model",
    "SourceForm": "Source",
    "CompilationForm": "Compilation",
    "ValidationForm": "Validation",
    "PackageForm": "Package",
}


def modeline(schema: str) -> str:
    """The comment that makes editors check a spec with the schema in the file or at the URL `schema`."""
    return f"# yaml-language-server: $schema={schema}"


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of spec files."""
    schema = SpecForm.model_json_schema(mode="validation")
    forms = schema.pop("$defs")
    for name, form in forms.items():
        form["title"] = _TITLES[name]
        _tidy(form["properties"])
        _add_defaults(form, _TYPES.get(name))
    forms["SourceForm"] |= _source_rules()
    _tidy(schema["properties"])
    schema["properties"]["source"]["anyOf"].insert(0, {"type": "string", "description": "Local folder."})
    schema["title"] = "tfaot-pkg spec"
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **schema, "$defs": forms}


def _tidy(properties: dict[str, Any]) -> None:
    """Drop what pydantic adds about Python: titles made from names, and null as default."""
    for value in properties.values():
        value.pop("title", None)
        value.pop("default", None)


def _add_defaults(form: dict[str, Any], kind: type | None) -> None:
    for field in fields(kind) if kind else ():
        if field.default is not MISSING and field.name in form["properties"]:
            default = field.default
            form["properties"][field.name]["default"] = list(default) if isinstance(default, tuple) else default


def _source_rules() -> dict[str, Any]:
    def given(*keys: str) -> dict[str, Any]:
        # null stands for "not given" everywhere in a spec.
        return {"required": list(keys), "properties": {key: {"not": {"type": "null"}} for key in keys}}

    return {"oneOf": [given("path"), given("url", "sha256"), given("url", "revision"), given("git", "revision")]}
