from __future__ import annotations

import pytest

from tfaot_pkg.ground.forms.document import read_document
from tfaot_pkg.spec.expand import MAX_TEXT, expand


def expanded(expression: str, **defines: str) -> tuple[object, list[str]]:
    """The value of `expression` beside a small model, and the faults."""
    document = read_document(b"model: {name: digits, version: 1.10, tags: [a]}\nvalue:\n", "spec.yaml")
    document.data["value"] = expression
    expand(document, defines)
    return document.data["value"], [str(fault) for _, fault in document.faults]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("plain {text} with %", "plain {text} with %"),
        ("{{ model.name }}-{{ env.tag }}", "digits-v3"),
        ("{{ model.version }}", "1.10"),
        ("{{'{'}}{{ \"{%\" }} }}", "{{% }}"),
        ("{{model.name}}\n", "digits\n"),
    ],
)
def test_expressions_see_the_model_and_the_defines(expression: str, value: str) -> None:
    assert expanded(expression, tag="v3") == (value, [])


def test_values_of_defines_are_texts_and_not_expressions() -> None:
    assert expanded("{{ env.x }}", x="{{ model.name }}") == ("{{ model.name }}", [])


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{{ env.y }}", "env.y has no value: give it with -D y=... (in a registry.yaml: defines)"),
        ("{{ model.nam }}", "model.nam has no value in this spec"),
        ("{{ model.tags }}", "model.tags has no value in this spec"),
        ("{{ foo }}", "is not a valid expression at character 1: there are {{ model.NAME }}"),
        ("a {{ model }}", "is not a valid expression at character 3"),
        ("{{ ", "is not a valid expression"),
        ("{{ env.tag | default('x') }}", "is not a valid expression"),
        ("{% if model.name %}x{% endif %}", "is not a valid expression"),
        ("{# a remark #}", "is not a valid expression"),
    ],
)
def test_a_bad_expression_is_a_fault_with_its_line(expression: str, message: str) -> None:
    value, (fault,) = expanded(expression)
    assert value is None
    assert fault.startswith(f"spec.yaml:2: value: {message}")


@pytest.mark.parametrize(
    "expression",
    [
        "{{ ''.__class__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ model.__init__.__globals__ }}",
        "{{ model._get }}",
        "{{ env['__class__'] }}",
        "{{ model.name.upper }}",
        "{{ model.name | attr('__class__') }}",
        "{{ model.name.format(model) }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{{ cycler.__init__ }}",
        "{{ lipsum(100000) }}",
        "{{ range(10**9) | list }}",
        "{{ 9**9**9 }}",
        "{{ 'a' * 10**9 }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'a' | center(999999999) }}",
        "{{ '{:>999999999}' | format(1) }}",
        "{% for a in 'aaaaaaaa' %}{% for b in 'aaaaaaaa' %}x{% endfor %}{% endfor %}",
        "{% set x = 1 %}",
        "{% macro m() %}{% endmacro %}",
        "{% include '/etc/passwd' %}",
        "{% import '/etc/passwd' as x %}",
        "{% extends 'x' %}",
        "{% filter upper %}x{% endfilter %}",
        "{{ 'x'" + " | replace('x', 'xxxxxxxxxxxxxxxx')" * 10 + " }}",
        "{{ " + "(" * 5000 + " }}",
        "{{ " + "not " * 2000 + "1 }}",
        "{{ -" + "-" * 2000 + "1 }}",
        "x" * (MAX_TEXT + 1),
    ],
    ids=lambda text: text[:40],
)
def test_nothing_computes_loops_or_grows(expression: str) -> None:
    value, faults = expanded(expression)
    assert value is None
    assert len(faults) == 1
    assert "0x" not in faults[0]


def test_model_values_may_refer_to_one_another_in_any_order() -> None:
    text = b'model: {a: "{{ model.b }}!", b: "{{ model.c }}{{ model.c }}", c: x}'
    document = read_document(text, "spec.yaml")
    assert expand(document, {}) == set()
    assert document.data["model"] == {"a": "xx!", "b": "xx", "c": "x"}


def test_references_in_a_circle_are_named() -> None:
    document = read_document(b'model:\n  a: "{{ model.b }}"\n  b: "{{ model.a }}"\n  c: ok\n', "spec.yaml")
    assert expand(document, {}) == {("model", "a"), ("model", "b")}
    assert str(document.faults[0][1]) == "spec.yaml:2: model.a: refers to itself: model.a -> model.b -> model.a"


def test_references_that_multiply_are_stopped() -> None:
    values = [f'v{i}: "' + f"{{{{ model.v{i + 1} }}}}" * 10 + '"' for i in range(20)]
    document = read_document(f"model: {{{', '.join(values)}, v20: xxxxxxxxxx}}".encode(), "spec.yaml")
    expand(document, {})
    assert any("more than" in str(fault) for _, fault in document.faults)
    assert all(len(value or "") <= MAX_TEXT for value in document.data["model"].values())


def test_a_chain_of_references_is_limited() -> None:
    values = [f'v{i}: "{{{{ model.v{i + 1} }}}}"' for i in range(1000)]
    document = read_document(f"model: {{{', '.join(values)}, v1000: x}}".encode(), "spec.yaml")
    failed = expand(document, {})
    assert ("model", "v0") in failed and document.data["model"]["v999"] == "x"
    assert "more than 50 others" in document.faults[0][1].message
