"""The fields of a YAML form, by the names that faults use, for the pages of the reference and `tfaot-pkg schema FIELD`.

Everything comes from the form's JSON Schema, which has descriptions, defaults and examples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.forms.document import Path

Schema = Mapping[str, Any]

_MOST_NAMES = 3  # of fields in one hint: more do not fit on a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The places that describe a form's fields: a `page` of `tfaot-pkg help`, and the output of a `command` that takes
    the names of fields. Neither needs a network.
    """

    schema: Callable[[], Schema]
    page: str
    command: str

    def hint(self, paths: Iterable[Path]) -> str:
        """A hint for faults at `paths`: where to read about their fields, or about all if none is known."""
        schema = self.schema()
        known = list(dict.fromkeys(name for path in paths if (name := find_field(schema, path)[0])))[:_MOST_NAMES]
        return f"run `{' '.join([self.command, *(known or schema['properties'])])}`, or `tfaot-pkg help {self.page}`"


def find_field(schema: Schema, path: Path) -> tuple[str, Schema]:
    """The field at `path`, or the nearest field that encloses it: its name and its own schema."""
    names: list[str] = []
    node = schema
    for key in path:
        # Positions in lists, and keys that the user chose, are skipped: an item is described by the field around it.
        if isinstance(key, str):
            inner = next((form["properties"][key] for form in _choices(schema, node) if _has(form, key)), None)
            if inner is None and any("patternProperties" in form for form in _choices(schema, node)):
                continue
            if inner is None:
                break
            names.append(key)
            node = inner
    return ".".join(names), node


def _choices(schema: Schema, node: Schema) -> Iterator[Schema]:
    """`node` and all schemas that it refers to: a form, alternatives of a value, items of a list or mapping."""
    yield node
    if "$ref" in node:
        yield from _choices(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    items = (*([node["items"]] if "items" in node else ()), *node.get("patternProperties", {}).values())
    for choice in (*node.get("anyOf", ()), *node.get("oneOf", ()), *items):
        yield from _choices(schema, choice)


def _has(form: Schema, key: str) -> bool:
    return key in form.get("properties", ())


def all_fields(schema: Schema) -> Iterator[tuple[str, str]]:
    """Every name that `find_field` can give, with the field's meaning; a field comes before its subfields."""
    for key in schema["properties"]:
        yield from _below(schema, (key,))


def _below(schema: Schema, path: Path) -> Iterator[tuple[str, str]]:
    name, node = find_field(schema, path)
    yield name, _about(schema, node)
    for key in dict.fromkeys(key for form in _choices(schema, node) for key in form.get("properties", ())):
        yield from _below(schema, (*path, key))


def described_field(schema: Schema, name: str) -> str:
    """The meaning of the field `name`, its default, examples and subfields. Raises SpecError if it does not exist."""
    found, node = find_field(schema, tuple(name.split(".")))
    own = {
        key: _about(schema, field)
        for form in _choices(schema, node)
        for key, field in form.get("properties", {}).items()
    }
    if not found or found != name:
        hint = f"{found or 'the file'} has {', '.join(own)}" if own else f"the field is {found}"
        raise SpecError(f"no field {name!r}", hint=hint)
    lines = [name, f"    {_about(schema, node)}"]
    if node.get("default") not in (None, [], ""):
        lines.append(f"    default: {_shown(node['default'])}")
    lines += [f"    example: {_shown(example)}" for example in node.get("examples", ())]
    return "\n".join([*lines, *(f"    {name}.{key}: {about}" for key, about in own.items())])


def _about(schema: Schema, node: Schema) -> str:
    # A field's own description first. Else that of a mapping, which says more than the short form beside it, such as
    # the string that `source` may be.
    forms = sorted(_choices(schema, node), key=lambda form: form is not node and "properties" not in form)
    return next((form["description"] for form in forms if "description" in form), "")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
