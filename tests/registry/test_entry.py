from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.registry.entry import RegistryEntry, check_new, parse_index

NAME = "tfaot-model-digits"


@pytest.fixture
def entry(make_package: Callable[..., Any]) -> RegistryEntry:
    made: RegistryEntry = make_package().entry
    return made


def parse(data: bytes) -> tuple[RegistryEntry | None, ...]:
    return tuple(line.entry for line in parse_index(data, "index/x", NAME))


def changed(entry: RegistryEntry, **fields: object) -> bytes:
    value = {**plain(entry), **fields}
    return json.dumps({name: item for name, item in value.items() if item is not ...}).encode() + b"\n"


def test_an_entry_is_one_canonical_line_that_reads_back_as_itself(entry: RegistryEntry) -> None:
    line = entry.line()
    assert (
        line.count(b"\n") == 1
        and line == json.dumps(json.loads(line), sort_keys=True, separators=(",", ":")).encode() + b"\n"
    )
    assert parse(line) == (entry,)


@pytest.mark.parametrize("known", [True, False, None])
def test_whether_rows_are_independent_is_told_if_it_is_known(entry: RegistryEntry, known: bool | None) -> None:
    told = replace(entry, rows_independent=known)
    assert parse(told.line()) == (told,)
    assert ("rows_independent" in json.loads(told.line())) == (known is not None)
    only = "; no others, because rows depend on one another" if known is False else ""
    assert told.batch_sizes_text == f"1, 2, 4{only}"


def test_models_for_any_batch_size_say_so_and_the_lines_of_others_stay_as_they_were(entry: RegistryEntry) -> None:
    told = replace(entry, any_batch_size=True)
    assert parse(told.line()) == (told,)
    assert json.loads(told.line())["any_batch_size"] is True
    assert "any_batch_size" not in json.loads(entry.line())
    assert told.batch_sizes_text == "any (validated and measured: 1, 2, 4)"


def test_text_in_any_language_and_with_line_ends_stays_one_line(entry: RegistryEntry) -> None:
    odd = replace(entry, description='Ziffern \u2028 \n \U0001f522 "quoted"')
    assert odd.line().count(b"\n") == 1
    assert parse(odd.line()) == (odd,)


def test_names_of_a_newer_tool_are_ignored_and_kept(entry: RegistryEntry) -> None:
    (read,) = parse(changed(entry, provenance={"builder": "x"}, deprecated=False))
    assert read is not None and read.extra == {"provenance": {"builder": "x"}, "deprecated": False}
    assert json.loads(read.line())["provenance"] == {"builder": "x"}


def test_a_line_of_a_newer_schema_is_skipped_but_its_version_is_known(entry: RegistryEntry) -> None:
    line = json.dumps({"v": 2, "name": NAME, "version": "2.0", "all": "else differs"}).encode() + b"\n"
    lines = parse_index(entry.line() + line, "index/x", NAME)
    assert [(one.version, one.entry is None) for one in lines] == [("1.0", False), ("2.0", True)]


def test_a_yank_is_false_or_a_reason(entry: RegistryEntry) -> None:
    reasons = [parse(changed(entry, yanked=value))[0] for value in (False, "wrong weights", True)]
    assert [one and one.yanked for one in reasons] == [None, "wrong weights", "no reason given"]


def test_a_line_that_was_cut_off_is_named_by_file_and_line(entry: RegistryEntry) -> None:
    second = replace(entry, version="2.0").line()
    for end in (1, len(second) // 2, len(second) - 1):
        with reported(RegistryError):
            parse(entry.line() + second[:end])


@pytest.mark.parametrize(
    "fields",
    [
        {"key": ...},
        {"key": "../../etc/passwd"},
        {"blobs": {"prefix": {"sha256": "../" * 20 + "abcd", "size": 1}}},
        {"blobs": {"prefix": {"sha256": "a" * 64, "size": -1}}},
        {"blobs": {"prefix": {"sha256": "a" * 64, "size": True}}},
        {"blobs": []},
        {"blobs": {"../../x": {"sha256": "a" * 64, "size": 1}}},
        {"blobs": {"/etc/x": {"sha256": "a" * 64, "size": 1}}},
        {"blobs": {"..": {"sha256": "a" * 64, "size": 1}}},
        {"targets": "x86-64"},
        {"batch_sizes": [1, True]},
        {"signature": {"inputs": [{"name": "a", "dtype": "float32", "shape": ["N"]}], "outputs": []}},
        {"signature": {"inputs": [{"name": "a", "dtype": "f16", "shape": []}], "outputs": []}},
        {"signature": {"inputs": []}},
        {"rows_independent": 1},
        {"yanked": None},
        {"version": "new"},
        {"name": "tfaot-model-other"},
        {"v": "1"},
    ],
)
def test_a_wrong_line_says_what_is_wrong(entry: RegistryEntry, fields: dict[str, object]) -> None:
    with reported(RegistryError):
        parse(changed(entry, **fields))


@pytest.mark.parametrize("line", [b"", b"[]", b"null", b"\xff", b"{", b"<html>", b"[" * 100_000])
def test_what_is_no_object_is_refused(line: bytes) -> None:
    with reported(RegistryError):
        parse(line + b"\n")


def test_a_version_stands_in_one_line_only_however_it_is_spelt(entry: RegistryEntry) -> None:
    with reported(RegistryError):
        parse(entry.line() + replace(entry, version="1.0.0").line())


@pytest.mark.parametrize(
    "fields",
    [{"name": "tfaot-model-../x"}, {"name": "other"}, {"version": "x"}, {"blobs": {}}, {"key": "k"}, {"tree": ""}],
)
def test_an_entry_that_could_not_be_read_back_is_not_published(entry: RegistryEntry, fields: dict[str, Any]) -> None:
    with pytest.raises(RegistryError):
        check_new(replace(entry, **fields))
