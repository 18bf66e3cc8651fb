from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.forms.fields import Schema, described_field, fields_hint, find_field
from tfaot_pkg.nightly import form as of_registries
from tfaot_pkg.spec import form as of_specs

REFERENCE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "spec.md"
SPEC = of_specs.json_schema()
REGISTRY = of_registries.json_schema()


def fields(schema: Schema) -> Iterator[tuple[str, str]]:
    """Each field of each section."""
    for section, value in schema["properties"].items():
        for reference in re.findall(r"#/\$defs/(\w+)", str(value)):
            yield from ((section, key) for key in schema["$defs"][reference]["properties"])


@pytest.mark.parametrize("schema", [SPEC, REGISTRY], ids=["spec", "registry"])
def test_each_field_is_described(schema: Schema) -> None:
    names = [f"{section}.{key}" for section, key in fields(schema)]
    assert len(names) > 10
    for name in names:
        text = described_field(schema, name)
        assert text.startswith(f"{name}\n    ") and text.splitlines()[1].strip(), text


def test_each_field_of_a_spec_has_its_place_in_the_reference() -> None:
    anchors = re.findall(r'<a id="([^"]+)"></a>', REFERENCE.read_text())
    assert anchors == [f"{section}.{key}" for section, key in fields(SPEC)]


@pytest.mark.parametrize(
    ("path", "field"),
    [
        (("compilation", "batch_sizes", 1), "compilation.batch_sizes"),
        (("model", "shapes", "x", 0), "model.shapes"),
        (("model", "unknown"), "model"),
        (("unknown",), ""),
        ((), ""),
    ],
)
def test_a_fault_belongs_to_the_nearest_field_around_it(path: tuple[str | int, ...], field: str) -> None:
    assert find_field(SPEC, path)[0] == field


def test_items_of_a_list_have_fields_too() -> None:
    assert find_field(REGISTRY, ("models", 3, "toolchains", 0))[0] == "models.toolchains"


def test_a_hint_names_each_field_once_and_at_most_three() -> None:
    paths: list[tuple[str | int, ...]] = [("model", "name"), ("model", "tags", 1), ("model", "tags", 2), ("source",)]
    assert "`x model.name model.tags source`" in fields_hint(SPEC, paths, "x")
    assert "`x model.name model.tags source`" in fields_hint(SPEC, [*paths, ("package",)], "x")
    assert "`x`" in fields_hint(SPEC, [("unknown",)], "x")


def test_a_field_that_there_is_not_is_refused_with_those_beside_it() -> None:
    with reported(SpecError):
        described_field(SPEC, "compilation.batch_size")


@pytest.mark.parametrize("name", ["", ".", "compilation..x", "compilation.batch_sizes.0"])
def test_what_names_no_field_is_no_field(name: str) -> None:
    with reported(SpecError):
        described_field(SPEC, name)
