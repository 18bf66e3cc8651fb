"""Whatever a spec file holds, reading it gives a ModelSpec or a SpecError, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tfaot_pkg.errors import SpecError
from tfaot_pkg.ground.keys import canonical_json
from tfaot_pkg.spec.document import spec_document
from tfaot_pkg.spec.form import SECTIONS, json_schema
from tfaot_pkg.spec.parse import parse_spec

pytestmark = pytest.mark.slow

EXPRESSIONS = st.sampled_from(
    [
        "{{ model.name }}",
        "{{ env.x }}",
        "{{",
        "{% if 1 %}",
        "{{ model.version + 1 }}",
        "{{ model | length }}",
        "{{ 1 < 'a' }}",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**9, 10**350, -(10**350), 0, 1])
    | st.floats()
    | st.text(max_size=20)
    | EXPRESSIONS
    | st.sampled_from(
        ["digits", "1.0.0", "2.17.1", "x86-64-v3", "shared", "https://e.org/x", "file:///x", "https://[", "a" * 64]
    )
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def section(name: str) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(list(SECTIONS[name].model_fields)) | st.text(max_size=6)
    return st.dictionaries(keys, VALUES, max_size=6) | VALUES


MODEL = st.fixed_dictionaries({"name": st.just("digits"), "version": st.just("1.0")}).flatmap(
    lambda base: section("model").map(lambda more: base | more if isinstance(more, dict) else more)
)
COMPILATION = st.fixed_dictionaries(
    {},
    optional={"batch_sizes": st.lists(st.integers(-1, 99999), max_size=3), "xla_flags": VALUES, "targets": VALUES},
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "model": MODEL,
        "source": section("source"),
        "compilation": COMPILATION | section("compilation"),
        "validation": section("validation"),
        "other": VALUES,
    },
)


def outcome(content: bytes) -> bool:
    """Whether `content` is a spec; whatever it is, the answer is well-formed."""
    try:
        spec = parse_spec(content, Path("spec.yaml"), {"x": "1"})
    except SpecError as error:
        found = error
    else:
        canonical_json(spec_document(spec))
        return True
    assert found.faults
    assert all(fault.line >= 1 and fault.message for fault in found.faults)
    assert all(line.startswith("spec.yaml:") for line in str(found).split("\n"))
    return False


@given(st.binary(max_size=200))
def test_random_bytes(content: bytes) -> None:
    outcome(content)


@given(st.text(st.sampled_from("ab: \n-[]{}&*!|>'\"%@`#?,1.\t~<="), max_size=60))
def test_random_text_of_yaml_characters(text: str) -> None:
    outcome(text.encode())


@given(st.text(st.sampled_from("{}%#|()[]'\"~.+-!=<> model.name env x is not in if else 1,:*"), max_size=60))
def test_random_expressions(text: str) -> None:
    outcome(yaml.safe_dump({"model": {"name": "a", "version": "1.0", "author": "{{" + text + "}}"}}).encode())


@settings(max_examples=150)
@given(SPECS)
def test_random_specs_and_whatever_is_accepted_is_valid_by_the_schema(data: dict[str, Any]) -> None:
    content = yaml.safe_dump(data, allow_unicode=True, default_flow_style=None).encode()
    if b"*id" not in content and outcome(content):
        assert Draft202012Validator(json_schema()).is_valid(data)
