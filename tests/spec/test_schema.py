from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tfaot_pkg.spec.form import json_schema, modeline

GOOD: dict[str, Any] = {
    "model": {"name": "digits", "version": "1.0.0"},
    "compilation": {"batch_sizes": [1, 2, 4]},
}
SHA256 = "0" * 64
FULL = """\
model:
  name: digits
  version: 1.10
  saved_model: ./saved_model
  serving_key: serving_default
  tags: [serve]
  author: "{{ env.who }}"
  license: MIT
  homepage: https://example.org
  shapes: {x: [null, 4]}
  inputs: [x, "{{ env.other }}"]
source: {git: https://example.org/x, revision: "0123456789012345678901234567890123456789", subdir: a}
compilation:
  batch_sizes: [1, "{{ env.size }}"]
  namespace: null
  tf_xla_flags: --a --b
  xla_flags: [--xla_a=1]
  tensorflow: 2.17.1
  targets: [x86-64-v3]
  weights: embedded
validation: {seed: 1, samples: 8, rtol: 0.001, atol: 0}
package: {tools: true, objects: "{{ env.objects }}"}
"""


def valid(data: object) -> bool:
    return bool(Draft202012Validator(json_schema()).is_valid(data))


def test_the_schema_is_a_json_schema_that_says_what_each_key_means() -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(schema)) == schema
    assert schema["$id"] and schema["$schema"].endswith("2020-12/schema")
    for form in schema["$defs"].values():
        assert form["additionalProperties"] is False
        assert all(value["description"] for value in form["properties"].values())


def test_defaults_are_those_of_the_types() -> None:
    forms = json_schema()["$defs"]
    assert forms["CompilationForm"]["properties"]["tensorflow"]["default"] == "2.17.1"
    assert forms["CompilationForm"]["properties"]["targets"]["default"] == ["x86-64-v2", "x86-64-v3", "x86-64-v4"]
    assert forms["ValidationForm"]["properties"]["rtol"]["default"] == 1e-4
    assert forms["ModelForm"]["properties"]["saved_model"]["default"] == "saved_model"


@pytest.mark.parametrize(
    "source",
    [None, "./data", {"path": "x"}, {"url": "https://e.org/a", "sha256": SHA256}, {"path": "a", "git": None}],
)
def test_good_specs_are_valid(source: object) -> None:
    assert valid(GOOD | {"source": source})


def test_a_spec_with_everything_is_valid() -> None:
    assert [error.message for error in Draft202012Validator(json_schema()).iter_errors(yaml.safe_load(FULL))] == []


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("model", "name", "a b"),
        ("model", "name", None),
        ("model", "version", []),
        ("model", "nam", "x"),
        ("model", "homepage", "ftp://x"),
        ("model", "shapes", {"x": [0]}),
        ("model", "inputs", "x"),
        ("package", "tools", "yes"),
        ("compilation", "batch_sizes", [0]),
        ("compilation", "batch_sizes", [10**9]),
        ("compilation", "batch_sizes", "x"),
        ("compilation", "batch_sizes", []),
        ("compilation", "targets", ["pentium"]),
        ("compilation", "weights", "both"),
        ("compilation", "xla_flags", ["no dashes"]),
        ("compilation", "namespace", "a b"),
        ("validation", "rtol", -1),
        ("validation", "seed", 1.5),
        ("source", "sha256", SHA256),
        ("source", "url", "https://e.org/x"),
        ("source", "git", "https://e.org/x"),
    ],
)
def test_bad_specs_are_not_valid(section: str, key: str, value: object) -> None:
    spec = copy.deepcopy(GOOD)
    spec.setdefault(section, {})[key] = value
    assert not valid(spec)


def test_the_modeline_names_the_schema_for_editors() -> None:
    assert modeline("../spec.schema.json") == "# yaml-language-server: $schema=../spec.schema.json"
