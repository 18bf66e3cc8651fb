from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.wording import reported
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.documents import plain
from tfaot_pkg.registry.folder import FolderRegistry

MakePackage = Callable[..., Any]


@pytest.fixture
def filled(registry: FolderRegistry, make_package: MakePackage) -> FolderRegistry:
    for version, yanked in [("1.0", None), ("1.4", None), ("1.5", "wrong weights"), ("2.0", None), ("2.1rc1", None)]:
        package = make_package(version=version, yanked=yanked)
        registry.publish(package.entry, package.blobs)
    for model, description, license_ in [
        ("jet_tagger", "Tags jets in collisions", "GPL-3.0-only"),
        ("muon_id", "Tells muons from JETS", "MIT"),
    ]:
        package = make_package(model, description=description, license=license_)
        registry.publish(package.entry, package.blobs)
    package = make_package("early", "0.1rc1")
    registry.publish(package.entry, package.blobs)
    return registry


@pytest.mark.parametrize(
    ("requirement", "version"),
    [
        ("digits", "2.0"),
        ("tfaot-model-digits", "2.0"),
        ("digits>=1,<2", "1.4"),
        ("digits~=1.0", "1.4"),
        ("digits@1.0.0", "1.0"),
        ("digits@1.5", "1.5"),
        ("digits==1.5", "1.5"),
        ("digits@2.1rc1", "2.1rc1"),
        ("digits>=2.1rc1", "2.1rc1"),
        ("digits!=2.0", "1.4"),
        ("early", "0.1rc1"),
    ],
)
def test_a_requirement_means_the_newest_version_that_packaging_allows(
    filled: FolderRegistry, requirement: str, version: str
) -> None:
    assert filled.resolve(requirement).version == version


def test_a_version_that_will_not_do_is_explained_in_a_line(filled: FolderRegistry) -> None:
    with pytest.raises(RegistryError) as refused:
        filled.resolve("digits>=1.5,<2")
    assert refused.value.message.splitlines()[1:] == [
        "  1.0: is not <2,>=1.5",
        "  1.4: is not <2,>=1.5",
        "  1.5: was yanked (wrong weights)",
        "  2.0: is not <2,>=1.5",
        "  2.1rc1: is not <2,>=1.5",
    ]


def test_an_unknown_package_gives_the_nearest_names(filled: FolderRegistry) -> None:
    with reported(RegistryError):
        filled.resolve("digit")


@pytest.mark.parametrize(
    ("text", "models"),
    [
        ("jets", ["jet_tagger", "muon_id"]),
        ("JETS muon", ["muon_id"]),
        ("gpl", ["jet_tagger"]),
        ("digits handwritten", ["digits", "early"]),
        ("nothing like it", []),
        ("", ["digits", "early", "jet_tagger", "muon_id"]),
    ],
)
def test_search_finds_all_words_in_any_case(filled: FolderRegistry, text: str, models: list[str]) -> None:
    result = filled.search(text)
    assert [entry.model for entry in result.found] == models
    assert json.dumps(plain(result))


def test_search_shows_the_version_that_install_would_take(filled: FolderRegistry) -> None:
    assert [str(entry) for entry in filled.search("model-digits").found] == ["tfaot-model-digits@2.0"]


def test_build_numbers_of_a_nightly_count_as_numbers(registry: FolderRegistry, make_package: MakePackage) -> None:
    for number in (9, 10, 2):
        package = make_package(version=f"1.0.0+tf2.17.1.b{number}")
        registry.publish(package.entry, package.blobs)
    assert registry.resolve("digits@1.0.0").version == "1.0.0+tf2.17.1.b10"
    assert registry.resolve("digits@1.0.0+tf2.17.1.b9").version == "1.0.0+tf2.17.1.b9"
    assert registry.entries("tfaot-model-digits")[-1].version == "1.0.0+tf2.17.1.b10"
