"""The written form of settings.yaml, and its JSON Schema. As in specs, a field that was not given is None."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any

from pydantic import Field

from tfaot_pkg.ground.forms.document import Document, Path, read_document
from tfaot_pkg.ground.forms.fields import Reference
from tfaot_pkg.ground.forms.form import DISTINCT, Form, checked, faults_error, unknown_among, validated
from tfaot_pkg.ground.wording import described, shown

SCHEMA_ID = "https://tfaot-pkg.invalid/schema/settings-1.json"
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _is_whole(path: str) -> bool:
    return os.path.isabs(path) or re.match(r"~[^/]*(/|$)", path) is not None


def _text_fault(text: str) -> str:
    if not text.strip() or re.search(r"[\x00-\x1f\x7f]", text):
        return f"must be a text without control characters, got {shown(text)}"
    return ""


def _registry_fault(text: str) -> str:
    # A command may be run in any folder, so that a relative path would mean many registries.
    if "/" in text and "://" not in text and not _is_whole(text):
        return f"must be a name, a whole path, or an address, got {shown(text)}"
    return _text_fault(text)


def _folder_fault(text: str) -> str:
    return _text_fault(text) or ("" if _is_whole(text) else f"must be a whole path, got {shown(text)}")


_Registry = Annotated[str, checked(_registry_fault)]
_Folder = Annotated[str, checked(_folder_fault)]


class SettingsForm(Form):
    """The whole file."""

    registry: _Registry | None = Field(
        None,
        description="The registry that is asked alone, and written to, without `--registry`: a name (`registry add`), "
        "a whole path or an address. The variable TFAOT_REGISTRY comes before it.",
        examples=["cms"],
    )
    registries: Annotated[list[_Registry], DISTINCT] | None = Field(
        None,
        description="The registries that are asked first for a package without `--registry`, in this order: names or "
        "whole paths. Those that are not named come after them. `registry order` writes this list.",
        examples=[["cms", "/srv/models"]],
    )
    prefix: Annotated[str, checked(_text_fault)] | None = Field(
        None,
        description="The prefix of `install`, `list`, `new-app`, `uninstall` and `verify-install` without `--prefix` "
        "(by default `external`). A relative one is below the folder where the command is run.",
        examples=["~/models"],
    )
    offline: bool | None = Field(None, description="Ask registries on servers for nothing: take what the cache has.")
    conan: bool | None = Field(None, description="Whether `publish` makes the Conan package, too (by default true).")
    keys: Annotated[list[_Folder], DISTINCT] | None = Field(
        None,
        description="Folders with keys of signed registries, in place of `--keys`. The variable TFAOT_REGISTRY_KEYS "
        "comes before them.",
        examples=[["~/registry-keys"]],
    )
    wheelhouse: _Folder | None = Field(
        None, description="The folder with the wheels from which toolchains are installed, without a network."
    )


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of the file."""
    schema = SettingsForm.model_json_schema(mode="validation")
    for value in schema["properties"].values():
        # Titles repeat the names; the defaults are null, which means "not given" here.
        value.pop("title", None)
        value.pop("default", None)
    schema["title"] = "tfaot-pkg settings"
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **schema}


REFERENCE = Reference(schema=json_schema, page="settings-yaml", command="tfaot-pkg schema --settings")


def parsed(content: bytes, name: str) -> tuple[SettingsForm, Document]:
    """The file's content as a form. Raises SpecError with all faults, which call the file `name`."""
    document = read_document(content, name)
    if document.data is None and not document.faults:
        return SettingsForm.model_validate({}), document  # nothing but comments
    if not isinstance(document.data, dict):
        if not document.faults:
            document.report((), f"must be a mapping of settings, got {described(document.data)}")
        raise faults_error(document, REFERENCE)
    form = validated(SettingsForm, document.data, document, unknown_key=_unknown_key)
    if document.faults or form is None:
        raise faults_error(document, REFERENCE)
    return form, document


def _unknown_key(path: Path) -> str:
    return unknown_among(str(path[-1]), list(SettingsForm.model_fields))
