from __future__ import annotations

import math

import pytest
import yaml

from tfaot_pkg.ground.forms.document import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_VALUES,
    Document,
    Dumper,
    dotted,
    read_document,
    scalar,
)


def read(text: str | bytes, file: str = "spec.yaml") -> Document:
    return read_document(text.encode() if isinstance(text, str) else text, file)


def messages(document: Document) -> list[str]:
    return [str(fault) for _, fault in document.faults]


def test_every_value_knows_its_line_and_every_scalar_its_text() -> None:
    document = read("a:\n  - 1.10\n  - x\nb: {c: 'y'}\n")
    assert document.data == {"a": [1.1, "x"], "b": {"c": "y"}}
    assert document.texts["a", 0] == "1.10"
    assert [document.line_of(path) for path in [(), ("a",), ("a", 1), ("b", "c"), ("b", "missing")]] == [1, 1, 3, 4, 4]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("010", 10),
        ("0x1F", 31),
        ("-3", -3),
        (".5", 0.5),
        ("1:30", "1:30"),
        ("no", "no"),
        ("on", "on"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("2024-01-05", "2024-01-05"),
        ("1_000", "1_000"),
        ("9" * 5000, "9" * 5000),
        ("-.inf", -math.inf),
    ],
)
def test_plain_scalars_follow_the_core_schema_of_yaml_1_2(text: str, value: object) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_quoted_scalars_and_str_tags_are_strings() -> None:
    assert read("a: '1'\nb: \"true\"\nc: !!str 3\nd: |\n  4\n").data == {"a": "1", "b": "true", "c": "3", "d": "4\n"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("a: 1\nb: [", "spec.yaml:2: is not YAML: "),
        ("a: 1\nb: c: d", "spec.yaml:2: is not YAML: "),
        ("a:\n\t- b", "spec.yaml:2: is not YAML: "),
        (b"a: 1\nb: \xff\xfe", "spec.yaml:2: is not UTF-8 text: byte 0xff cannot be read"),
        ("a: 1".encode("utf-16"), "spec.yaml:1: is not UTF-8 text"),
        ("a: 1\nb: \0", "spec.yaml:2: is not YAML: it contains the control character U+0000"),
        ("a: 1\n---\nb: 2", "spec.yaml:2: contains a second YAML document"),
        ("a: &x 1", "spec.yaml:1: a: anchors (&x) are not allowed"),
        ("a: *x", "spec.yaml:1: a: aliases (*x) are not allowed"),
        ("a: !!python/object/apply:os.system [ls]", "spec.yaml:1: a: tags are not allowed"),
        ("a: 1\nb: !mine x", "spec.yaml:2: b: tags are not allowed"),
        ("a: {{ x }}", "spec.yaml:1: a: a list or mapping cannot be a key; put an expression in quotes"),
        ("x: {% if y %}", "spec.yaml:1: is not YAML: "),
        ("a: 1\na: 2", "spec.yaml:2: a: is given twice (first on line 1)"),
        ("x:\n  a: 1\n  b: 2\n  a: {c: 2}", "spec.yaml:4: x.a: is given twice (first on line 2)"),
        ("x: " + "a" * MAX_BYTES, "spec.yaml:1: is too large"),
        ("x: [" + "a, " * MAX_VALUES + "]", f"spec.yaml:1: x: contains more than {MAX_VALUES} keys and values"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_each_misuse_of_yaml_has_one_fault_with_its_line(text: str | bytes, fault: str) -> None:
    found = messages(read(text))
    assert len(found) == 1
    assert found[0].startswith(fault)


def test_an_expression_without_quotes_is_told_to_have_them() -> None:
    assert "in quotes" in messages(read("x: {{ y } z"))[0]


def test_tabs_are_named_as_the_cause() -> None:
    assert "not with tabs" in messages(read("a:\n\t- b"))[0]


def test_an_alias_bomb_is_refused_before_it_can_grow() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 30)]
    assert len(messages(read("\n".join(lines)))) == 1


@pytest.mark.parametrize("opening", ["[", "{a: ", "- "])
def test_deep_nesting_is_refused_without_exhausting_the_stack(opening: str) -> None:
    (found,) = messages(read(opening * 100_000))
    assert f"nested more than {MAX_DEPTH} levels deep" in found


def test_a_repeated_key_keeps_its_first_value_and_faults_below_the_second_are_still_found() -> None:
    document = read("a: 1\na: {b: 1, b: 2}\nc: 3")
    assert document.data == {"a": 1, "c": 3}
    assert len(document.faults) == 2


def test_json_with_tabs_and_a_byte_order_mark_are_read() -> None:
    assert read('{\n\t"a": [1,\t2]\n}', "aot_config.json").data == {"a": [1, 2]}
    assert read(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n").data == {"a": 1, "b": 2}


def test_paths_are_written_with_dots_and_brackets_and_odd_keys_in_quotes() -> None:
    assert dotted(("compilation", "batch_sizes", 1)) == "compilation.batch_sizes[1]"
    assert dotted(("model", "a\nb")) == r"model['a\nb']"


@pytest.mark.parametrize(
    "text",
    ["0E0", "1e5", ".5", "1.", "-3", "0x1F", "0o7", "-.inf", ".NaN", "true", "False", "~", "null", "", "no", "1:30",
     "1_000", "2024-01-05", "a: b", "# x", " x ", "'", '"', "=", "<<", "- a", "{x}", "a\nb", "ü 漢"],
)  # fmt: skip
def test_what_is_written_is_read_back(text: str) -> None:
    document = read(yaml.dump({"a": text}, Dumper=Dumper, allow_unicode=True))
    assert (document.faults, document.data) == ([], {"a": text})
