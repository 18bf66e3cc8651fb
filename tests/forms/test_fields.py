from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.wording import reported
from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground import resources
from tfaot_pkg.ground.forms.fields import Reference, Schema, all_fields, described_field, find_field
from tfaot_pkg.nightly import form as of_registries
from tfaot_pkg.spec import form as of_specs

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


@pytest.mark.parametrize("reference", [of_specs.REFERENCE, of_registries.REFERENCE], ids=["spec", "registry"])
def test_each_field_that_a_hint_names_has_an_anchor_on_its_page(reference: Reference) -> None:
    page = resources.pages()[f"reference/{reference.page}"].read_text()
    anchors = re.findall(r'<a id="([^"]+)"></a>', page) + re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert sorted(anchors) == sorted(name for name, _ in all_fields(reference.schema()))


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


def test_items_of_lists_and_mappings_have_fields_too() -> None:
    assert find_field(REGISTRY, ("models", 3, "toolchains", 0))[0] == "models.toolchains"
    assert find_field(REGISTRY, ("models", 3, "known_broken", "2.17.1", "since"))[0] == "models.known_broken.since"
    assert find_field(REGISTRY, ("models", 3, "spec", "path"))[0] == "models.spec.path"


def test_a_hint_names_each_field_once_and_at_most_three() -> None:
    paths: list[tuple[str | int, ...]] = [("model", "name"), ("model", "tags", 1), ("model", "tags", 2), ("source",)]
    reference = Reference(schema=lambda: SPEC, page="page", command="x")
    for given in (paths, [*paths, ("package",)]):
        assert reference.hint(given) == "run `x model.name model.tags source`, or `tfaot-pkg help page`"
    everything = "run `x model source trees compilation validation package`, or `tfaot-pkg help page`"
    assert reference.hint([("unknown",)]) == everything


def test_a_field_that_there_is_not_is_refused_with_those_beside_it() -> None:
    with reported(SpecError):
        described_field(SPEC, "compilation.batch_size")


@pytest.mark.parametrize("name", ["", ".", "compilation..x", "compilation.batch_sizes.0"])
def test_what_names_no_field_is_no_field(name: str) -> None:
    with reported(SpecError):
        described_field(SPEC, name)
