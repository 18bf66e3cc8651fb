"""The form of a spec file, made of the settings of types.py: the pydantic models that read it, and its JSON Schema."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from pydantic import create_model

from tfaot_pkg.ground.forms.fields import Reference
from tfaot_pkg.ground.forms.form import Form
from tfaot_pkg.spec import types, values
from tfaot_pkg.spec.formats import FILE_FORMATS
from tfaot_pkg.spec.types import (
    FILE_TYPES,
    ArchiveSource,
    Compilation,
    FolderSource,
    GitSource,
    ModelInfo,
    ModelSpec,
    OperationFiles,
    PackageOptions,
    SavedModelFiles,
    Setting,
    Trees,
    Validation,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key of the form: its `setting`, what it means, and name, type and default of the field that has its value.

    `part` is the type of the sections that the value consists of, if it does.
    """

    setting: Setting
    about: str
    field: str
    type: Any = str
    default: Any = None
    part: type | None = None

    @property
    def name(self) -> str:
        return self.setting.key or self.field

    @property
    def read(self) -> Any:
        """The type that reads its value."""
        if self.part is not None:
            form = form_of(self.part)
            return dict.__class_getitem__((self.setting.by, form)) if self.setting.by else form
        if self.setting.read is not None:
            return self.setting.read
        literal = next((each for each in (self.type, *get_args(self.type)) if get_origin(each) is Literal), None)
        return values.Truth if literal is None else values.choice(*get_args(literal))


@cache
def keys_of(kind: Any) -> tuple[Key, ...]:
    """The keys whose values fields of the dataclass `kind` hold, in their order."""
    hints = get_type_hints(kind, localns={"v": values}, include_extras=True)
    return tuple(
        _key(field, hints[field.name], _about()[kind.__name__, field.name])
        for field in fields(kind)
        if get_origin(hints[field.name]) is Annotated
    )


def _key(field: Any, annotated: Any, about: str) -> Key:
    hint, setting = get_args(annotated)
    parts: Any = (each for each in (hint, *get_args(hint)) if is_dataclass(each) and setting.read is None)
    default = field.default if field.default_factory is MISSING else field.default_factory()
    return Key(setting=setting, about=about, field=field.name, type=hint, default=default, part=next(parts, None))


@cache
def _about() -> dict[tuple[str, str], str]:
    """The docstring of each field of types.py, which stands below it."""
    return {
        (kind.name, field.target.id): " ".join(text.value.value.split())
        for kind in ast.parse(inspect.getsource(types)).body
        if isinstance(kind, ast.ClassDef)
        for field, text in pairwise(kind.body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str)
    }


def _model_keys() -> list[Key]:
    own = [key for key in keys_of(ModelInfo) if not key.setting.section]
    files = [*keys_of(SavedModelFiles)]
    for each in FILE_FORMATS.values():
        setting = Setting(values.FilePath, key=each.field, examples=(each.example,))
        files += [Key(setting=setting, about=each.about, field="path")]
        files += keys_of(FILE_TYPES[each.field]) if each.field in FILE_TYPES else []
    return [*own[:2], *files, *own[2:]]


def _compilation_keys() -> list[Key]:
    return [*keys_of(Compilation), *(key for key in keys_of(ModelInfo) if key.setting.section == "compilation")]


def _source_keys() -> list[Key]:
    # All of them optional, because each source has others (together.py).
    kinds = (FolderSource, ArchiveSource, GitSource)
    return [replace(key, default=None) for kind in kinds for key in keys_of(kind)]


@cache
def form_of(kind: type) -> type[Form]:
    """The form of the section whose values a `kind` holds."""
    return _form(_TITLES.get(kind, kind.__name__), _first(kind), keys_of(kind))


def _form(title: str, about: str, keys: Iterable[Key]) -> type[Form]:
    made: Any = {key.name: (key.read, ...) if key.default is MISSING else (key.read | None, None) for key in keys}
    form = create_model(f"{title}Form", __base__=Form, __doc__=about, **made)
    _KEYS[form.__name__] = tuple(keys)
    return form


def _first(kind: type) -> str:
    """The first paragraph of its docstring."""
    return " ".join((kind.__doc__ or "").partition("\n\n")[0].split())


_TITLES = {OperationFiles: "Operation", PackageOptions: "Package"}
_KEYS: dict[str, tuple[Key, ...]] = {}
_SOURCE = "Where the model's files come from: a folder, an archive or a git commit."

SECTIONS: Mapping[str, type[Form]] = {
    "model": _form("Model", _first(ModelInfo), _model_keys()),
    "source": _form("Source", _SOURCE, _source_keys()),
    "trees": form_of(Trees),
    "compilation": _form("Compilation", _first(Compilation), _compilation_keys()),
    "validation": form_of(Validation),
    "package": form_of(PackageOptions),
}
_REQUIRED = ("model", "compilation")

SpecForm: Any = create_model(
    "SpecForm",
    __base__=Form,
    __doc__=_first(ModelSpec),
    **{name: (each, ...) if name in _REQUIRED else (each | None, None) for name, each in SECTIONS.items()},  # type: ignore[call-overload]
)

SCHEMA_ID = "https://tfaot-pkg.invalid/schema/spec-1.json"
"""The schema's identifier. Nothing is served there: editors use a file."""

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def modeline(schema: str) -> str:
    """The comment that makes editors check a spec with the schema in the file or at the URL `schema`."""
    return f"# yaml-language-server: $schema={schema}"


def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12) of spec files."""
    schema: dict[str, Any] = SpecForm.model_json_schema(mode="validation")
    forms = schema.pop("$defs")
    for name, form in forms.items():
        form["title"] = name.removesuffix("Form")
        _tidy(form["properties"])
        for key in _KEYS[name]:
            form["properties"][key.name] |= _described(key)
    forms["SourceForm"] |= _source_rules()
    _tidy(schema["properties"])
    schema["properties"]["source"]["anyOf"].insert(0, {"type": "string", "description": "Local folder."})
    schema["title"] = "tfaot-pkg spec"
    return {"$schema": _DIALECT, "$id": SCHEMA_ID, **schema, "$defs": forms}


REFERENCE = Reference(schema=json_schema, page="spec", command="tfaot-pkg schema")


def _tidy(properties: dict[str, Any]) -> None:
    """Drop what pydantic adds: titles made from names, and null as default."""
    for value in properties.values():
        value.pop("title", None)
        value.pop("default", None)


def _described(key: Key) -> dict[str, Any]:
    """What the schema says of `key` beside its type."""
    found = {"description": key.about, **(key.setting.schema or {})}
    if key.setting.examples:
        found["examples"] = [*key.setting.examples]
    if isinstance(key.default, bool | int | float | str | tuple) and key.default not in ("", ()):
        found["default"] = [*key.default] if isinstance(key.default, tuple) else key.default
    return found


def _source_rules() -> dict[str, Any]:
    def given(*keys: str) -> dict[str, Any]:
        # null stands for "not given" everywhere in a spec.
        return {"required": list(keys), "properties": {key: {"not": {"type": "null"}} for key in keys}}

    return {"oneOf": [given("path"), given("url", "sha256"), given("url", "revision"), given("git", "revision")]}
