"""The JSON Schema of registry.yaml, made from the written form: editors complete and check definitions with it."""

from __future__ import annotations

from typing import Any

from tfaot_pkg.nightly.form import DefinitionForm

SCHEMA_ID = "https://tfaot-pkg.invalid/schema/registry-1.json"
"""The schema's name. Nothing is served there: editors are given a file."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of definitions."""
    schema = DefinitionForm.model_json_schema(mode="validation")
    forms = schema["$defs"]
    for form in (schema, *forms.values()):
        for value in form["properties"].values():
            value.pop("title", None)
            value.pop("default", None)
    for name in list(forms):
        forms[name]["title"] = name.removesuffix("Form")
    schema["title"] = "tfaot-pkg registry"
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **schema}
