"""yank, unyank, deprecate: the few ways in which an index file changes; search shards follow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.wording import reported
from tfaot_pkg.cli.packages import found_text
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.registry.entry import Deprecation, parse_index
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.index import PackageSummary
from tfaot_pkg.registry.reader import SearchResult

MakePackage = Callable[..., Any]
INDEX = "index/di/gi/tfaot-model-digits"


def test_a_yanked_version_is_taken_only_by_its_number(filled: FolderRegistry) -> None:
    assert filled.yank("digits", "2.0.0", "wrong weights").yanked == "wrong weights"
    assert filled.resolve("digits").version == "1.0"
    assert filled.resolve("digits@2.0").yanked == "wrong weights"
    assert [one.version for one in filled.search("model-digits").found] == ["1.0"]
    filled.yank("digits", "1.0", "")
    assert filled.search("tfaot-model-digits").found == () and "tfaot-model-digits" in filled.names()
    assert filled.unyank("digits", "2.0").yanked is None
    assert filled.resolve("digits").version == "2.0"
    assert [one.version for one in filled.search("model-digits").found] == ["2.0"]


def test_where_a_search_finds_nothing_else_it_names_what_was_yanked(filled: FolderRegistry) -> None:
    for version in ("1.0", "2.0"):
        filled.yank("digits", version, "wrong weights")
    result = filled.search("model-digits")
    assert plain(result) == {"found": [], "yanked": ["tfaot-model-digits"], "damaged": []}
    heading, name = found_text(result).splitlines()
    assert "all yanked" in heading and name == "tfaot-model-digits"
    assert "yanked" not in found_text(filled.search("")) and filled.search("").yanked == ("tfaot-model-digits",)
    assert found_text(filled.search("zebra")) == "nothing found"


def test_descriptions_are_one_line_and_cut_on_a_terminal() -> None:
    entry = PackageSummary(name="tfaot-model-a", version="1.0.0", description="many\nwords " * 9)
    found = SearchResult.of([entry], [])
    assert found_text(found) == f"tfaot-model-a@1.0.0  {'many words ' * 9}".rstrip()
    assert found_text(found, 50) == "tfaot-model-a@1.0.0  many words many words many w…"


def test_a_yank_changes_its_line_only_and_keeps_what_it_does_not_know(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    for version in ("1.0", "2.0"):
        package = make_package("digits", version)
        entry = replace(package.entry, extra={"from_the_future": {"a": 1}})
        registry.publish(entry, package.blobs)
    file = registry.root / INDEX
    newer = json.dumps({"v": 99, "name": "tfaot-model-digits", "version": "3.0", "b": 1}).encode() + b"\n"
    unknown = b'{"v": 1,  "kind": "weather", "name": "tfaot-model-digits", "sun": true}\n'
    file.write_bytes(file.read_bytes() + newer + unknown)
    before = file.read_bytes().splitlines()
    registry.yank("digits", "1.0", "why")
    after = file.read_bytes().splitlines()
    assert after[1:] == before[1:]
    assert {**json.loads(after[0]), "yanked": False} == json.loads(before[0]) and b"from_the_future" in after[0]
    registry.unyank("digits", "1.0")
    assert file.read_bytes().splitlines() == before
    with reported(RegistryError):
        registry.yank("digits", "3.0", "why")


def test_what_is_not_there_cannot_be_yanked(filled: FolderRegistry) -> None:
    with reported(RegistryError):
        filled.yank("digits", "9.0", "")
    with reported(RegistryError):
        filled.unyank("none", "1.0")


def test_a_deprecated_package_says_what_to_use(filled: FolderRegistry, make_package: MakePackage) -> None:
    filled.deprecate("digits", Deprecation(use="taus", reason="better"))
    assert filled.deprecation("digits") == Deprecation(use="tfaot-model-taus", reason="better")
    assert filled.resolve("digits").version == "2.0"  # can be had all the same
    (found,) = filled.search("tfaot-model-digits").found
    assert found.deprecated == "use tfaot-model-taus; better"
    package = make_package("digits", "3.0")
    filled.publish(package.entry, package.blobs)
    filled.yank("digits", "3.0", "no")
    assert filled.deprecation("digits") is not None
    filled.deprecate("digits", None)
    assert filled.deprecation("digits") is None and filled.search("model-digits").found[0].deprecated == ""


def test_only_a_package_that_is_there_can_replace_another(filled: FolderRegistry) -> None:
    for package, use in [
        ("digits", "none"),
        ("digits", "tfaot-model-digits"),
        ("none", ""),
    ]:
        with reported(RegistryError):
            filled.deprecate(package, Deprecation(use=use))


def test_readers_of_versions_do_not_see_lines_about_the_package(
    registry: FolderRegistry, make_package: MakePackage
) -> None:
    package = make_package()
    registry.publish(package.entry, package.blobs)
    registry.deprecate("digits", Deprecation(reason="old"))
    data = (registry.root / INDEX).read_bytes()
    assert len(data.splitlines()) == 2
    assert [line.version for line in parse_index(data, "file", "tfaot-model-digits")] == ["1.0"]
    with reported(RegistryError):
        parse_index(b'{"v":1,"kind":"package","name":"tfaot-model-digits"}\n', "file", "tfaot-model-digits")
