"""The fields of a YAML form, by the names that faults use: what `tfaot-pkg schema FIELD` describes.

Everything comes from the form's JSON Schema, which has descriptions, defaults and examples.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfaot_pkg.errors import SpecError
from tfaot_pkg.forms.document import Path

Schema = Mapping[str, Any]

_MOST_NAMES = 3


def find_field(schema: Schema, path: Path) -> tuple[str, Schema]:
    """The field at `path`, or the nearest field that encloses it: its name and its own schema."""
    names: list[str] = []
    node = schema
    for key in path:
        # Positions in lists are skipped: an item is described by its list's field.
        if isinstance(key, str):
            inner = next((form["properties"][key] for form in _choices(schema, node) if _has(form, key)), None)
            if inner is None:
                break
            names.append(key)
            node = inner
    return ".".join(names), node


def _choices(schema: Schema, node: Schema) -> Iterator[Schema]:
    """`node` and all schemas that it refers to: a form, alternatives of a value, items of a list."""
    yield node
    if "$ref" in node:
        yield from _choices(schema, schema["$defs"][node["$ref"].rpartition("/")[2]])
    for choice in (*node.get("anyOf", ()), *([node["items"]] if "items" in node else ())):
        yield from _choices(schema, choice)


def _has(form: Schema, key: str) -> bool:
    return key in form.get("properties", ())


def fields_hint(schema: Schema, paths: Iterable[Path], command: str) -> str:
    """A hint for faults at `paths`: the `command` that describes their fields."""
    names = list(dict.fromkeys(name for path in paths if (name := find_field(schema, path)[0])))
    if not names:
        return f"`{command}` describes all fields"
    what = "this field" if len(names) == 1 else "these fields"
    return f"`{' '.join([command, *names[:_MOST_NAMES]])}` describes {what}"


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
    # A mapping says more than the short form beside it: `source` may also be a string.
    forms = sorted(_choices(schema, node), key=lambda form: "properties" not in form)
    return next((form["description"] for form in forms if "description" in form), "")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
