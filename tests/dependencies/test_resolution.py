from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.dependencies.conftest import Publish
from tests.registry.conftest import SIGNATURE
from tests.wording import reported
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.keys import Key
from tfaot_pkg.registry.dependencies.resolution import Constraints, Resolution, resolve
from tfaot_pkg.registry.entry import Deprecation, RegistryEntry
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import Requirement, SearchResult, choose, search
from tfaot_pkg.spec.rules import package_name


def resolved(
    registry: FolderRegistry,
    *requirements: str,
    locked: dict[str, str] | None = None,
    targets: tuple[str, ...] = (),
    toolchain: str = "",
) -> Resolution:
    wanted = [Requirement.parse(text) for text in requirements]
    return resolve(registry, wanted, Constraints.parse(targets, toolchain), locked=locked)


def versions(resolution: Resolution) -> list[str]:
    return [f"{entry.model} {entry.version}" for entry in resolution.entries]


def reasons(resolution: Resolution) -> list[str]:
    return [f"{one.version} {one.reason}" for one in resolution.rejected]


def test_the_newest_versions_are_chosen_and_every_other_has_its_line(
    registry: FolderRegistry, publish: Publish
) -> None:
    for version in ("0.9", "1.0", "1.1", "1.2", "1.3rc1", "2.0"):
        publish("digits", version)
    registry.yank("digits", "1.2", "wrong weights")
    publish("wine", "3")
    answer = resolved(registry, "wine", "digits>=1,<2")
    assert versions(answer) == ["digits 1.1", "wine 3"]
    assert reasons(answer) == [
        "2.0 is not <2,>=1",
        "1.3rc1 is a pre-release, which only a requirement that names one allows",
        "1.2 was yanked (wrong weights)",
        "1.0 is older than 1.1",
        "0.9 is not <2,>=1",
    ]


def test_several_requirements_of_one_package_hold_together(registry: FolderRegistry, publish: Publish) -> None:
    for version in ("1", "2", "3"):
        publish("digits", version)
    assert versions(resolved(registry, "digits<3", "tfaot-model-digits>1")) == ["digits 2"]


def test_targets_and_toolchains_reject_versions(registry: FolderRegistry, publish: Publish) -> None:
    publish("digits", "1", targets=("x86-64-v2", "x86-64-v3"), toolchain="tensorflow 2.17.1")
    publish("digits", "2", targets=("x86-64-v2",), toolchain="tensorflow 2.17.1")
    publish("digits", "3", targets=("x86-64-v2", "x86-64-v3"), toolchain="tensorflow 2.21.0")
    answer = resolved(registry, "digits", targets=("x86-64-v3", "x86-64-v2"), toolchain=">=2.17,<2.20")
    assert versions(answer) == ["digits 1"]
    assert reasons(answer) == [
        "3 was compiled by tensorflow 2.21.0, which is not <2.20,>=2.17",
        "2 has no code for x86-64-v3 (only x86-64-v2)",
    ]
    assert versions(resolved(registry, "digits", toolchain="2.21.0")) == ["digits 3"]
    with reported(RegistryError):
        resolved(registry, "digits", targets=("aarch64",))


@pytest.mark.parametrize(
    "constraints",
    [{"targets": ("z80",)}, {"toolchain": "new"}],
)
def test_constraints_that_mean_nothing_are_refused(registry: FolderRegistry, constraints: dict[str, Any]) -> None:
    with reported(RegistryError):
        resolved(registry, "digits", **constraints)


def test_an_unknown_package_is_named_with_one_that_is_like_it(registry: FolderRegistry, publish: Publish) -> None:
    publish("digits", "1", needs=("tfaot-model-wine>=1",))
    with reported(RegistryError):
        resolved(registry, "digit")
    with reported(RegistryError):
        resolved(registry, "digits")


def test_a_yanked_version_is_taken_where_it_is_pinned_or_locked(registry: FolderRegistry, publish: Publish) -> None:
    publish("digits", "1")
    publish("digits", "2")
    registry.yank("digits", "2", "")
    assert versions(resolved(registry, "digits")) == ["digits 1"]
    assert versions(resolved(registry, "digits@2")) == ["digits 2"]
    assert versions(resolved(registry, "digits", locked={"tfaot-model-digits": "2"})) == ["digits 2"]


def test_a_locked_version_stays_while_it_serves(registry: FolderRegistry, publish: Publish) -> None:
    for version in ("1", "2", "3"):
        publish("digits", version)
    answer = resolved(registry, "digits", locked={"tfaot-model-digits": "2"})
    assert versions(answer) == ["digits 2"]
    assert reasons(answer) == ["3 2 is locked, and meets all requirements", "1 is older than 2"]
    assert versions(resolved(registry, "digits>2", locked={"tfaot-model-digits": "2"})) == ["digits 3"]


def test_a_locked_pre_release_stays_beside_final_versions(registry: FolderRegistry, publish: Publish) -> None:
    publish("digits", "1")
    publish("digits", "2rc1")
    assert versions(resolved(registry, "digits")) == ["digits 1"]
    assert versions(resolved(registry, "digits", locked={"tfaot-model-digits": "2rc1"})) == ["digits 2rc1"]


# --- packages that depend on one another ----------------------------------------------------------------------------


def test_dependencies_come_along_and_stand_first(registry: FolderRegistry, publish: Publish) -> None:
    publish("a", "1", needs=("tfaot-model-z>=1", "tfaot-model-m"))
    publish("m", "1", needs=("tfaot-model-z<2",))
    publish("z", "1")
    publish("z", "2")
    answer = resolved(registry, "a")
    assert versions(answer) == ["z 1", "m 1", "a 1"]
    assert "2 is not <2, which tfaot-model-m@1 needs" in reasons(answer)


def test_an_older_version_is_taken_where_the_newest_clashes_and_the_line_says_with_what(
    registry: FolderRegistry, publish: Publish
) -> None:
    publish("a", "1", needs=("tfaot-model-z<2",))
    publish("a", "2", needs=("tfaot-model-z>=2",))
    publish("b", "1", needs=("tfaot-model-z<2",))
    publish("z", "1")
    publish("z", "2")
    answer = resolved(registry, "a", "b")
    assert versions(answer) == ["z 1", "a 1", "b 1"]
    (line,) = [line for line in reasons(answer) if line.startswith("2 needs packages that conflict: ")]
    assert "tfaot-model-z>=2 (for tfaot-model-a@2)" in line and "tfaot-model-z<2 (for tfaot-model-b@1)" in line


def test_what_cannot_be_had_names_both_sides(registry: FolderRegistry, publish: Publish) -> None:
    publish("a", "1", needs=("tfaot-model-z>=2",))
    publish("b", "1", needs=("tfaot-model-z<2",))
    publish("z", "1")
    publish("z", "2")
    with pytest.raises(RegistryError) as caught:
        resolved(registry, "a", "b")
    text = caught.value.message
    assert "tfaot-model-z<2 (for tfaot-model-b@1) and tfaot-model-z>=2 (for tfaot-model-a@1)" in text
    assert "  2: is not <2, which tfaot-model-b@1 needs" in text
    assert "  1: is not >=2, which tfaot-model-a@1 needs" in text


def test_packages_that_need_each_other_are_found(registry: FolderRegistry, publish: Publish) -> None:
    publish("a", "1", needs=("tfaot-model-b",))
    publish("b", "1", needs=("tfaot-model-a",))
    assert sorted(versions(resolved(registry, "a"))) == ["a 1", "b 1"]


# --- against an oracle ----------------------------------------------------------------------------------------------


class Shelf:
    """A registry in memory."""

    location = "memory"
    root_version = None
    channels = None

    def __init__(self, entries: dict[str, list[RegistryEntry]]) -> None:
        self._entries = entries

    def names(self) -> list[str]:
        return sorted(self._entries)

    def entries(self, package: str) -> tuple[RegistryEntry, ...]:
        return tuple(sorted(self._entries.get(package, ()), key=lambda entry: entry.order))

    def deprecation(self, package: str) -> Deprecation | None:
        return None

    def search(self, text: str) -> SearchResult:
        return search(self, text)  # type: ignore[arg-type]

    def open_blob(self, blob: object) -> object:
        raise NotImplementedError


def entry(model: str, version: str, needs: tuple[str, ...] = (), yanked: str | None = None) -> RegistryEntry:
    return RegistryEntry(
        name=package_name(model),
        model=model,
        version=version,
        key=Key("0" * 64),
        tree="0" * 64,
        toolchain="tensorflow 2.17.1",
        targets=("x86-64-v2",),
        batch_sizes=(1,),
        signature=SIGNATURE,
        license="",
        description="",
        blobs={},
        dependencies=needs,
        yanked=yanked,
    )


VERSIONS = ("0.9", "1.0", "1.1rc1", "1.1", "2.0b1", "2.0")
RANGES = ("", ">=1", "<2", ">=1,<2", "==1.1", "~=1.0", "!=1.1", ">=1.1rc1", "==2.*")


def test_a_pin_lets_a_yanked_version_in_whatever_else_is_asked_for() -> None:
    shelf = Shelf({"tfaot-model-a": [entry("a", "0.9", yanked="x"), entry("a", "1.1", yanked="x")]})
    for words in (("a", "a==1.1"), ("a==1.1", "a"), ("a<2", "a==1.1", "a>=1")):
        answer = resolve(shelf, [Requirement.parse(word) for word in words])  # type: ignore[arg-type]
        assert versions(answer) == ["a 1.1"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    present=st.dictionaries(st.sampled_from(VERSIONS), st.booleans(), min_size=1),
    ranges=st.lists(st.sampled_from(RANGES), min_size=1, max_size=3),
)
def test_one_package_resolves_as_packaging_says(present: dict[str, bool], ranges: list[str]) -> None:
    entries = [entry("a", version, yanked="x" if yanked else None) for version, yanked in present.items()]
    joined = Requirement.parse("a" + ",".join(filter(None, ranges)))
    expected = choose(entries, joined)
    wanted = [Requirement.parse(f"a{one}") for one in ranges]
    try:
        answer = resolve(Shelf({"tfaot-model-a": entries}), wanted)  # type: ignore[arg-type]
    except RegistryError:
        assert expected is None
        return
    assert expected is not None and versions(answer) == [f"a {expected.version}"]
    assert len(answer.rejected) == len(entries) - 1


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.integers(1, 4),
            st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(("", "<3", ">=2", "==1"))), max_size=2),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_an_answer_serves_all_that_is_asked_and_an_order_does_not_matter(
    rows: list[tuple[str, int, list[tuple[str, str]]]],
) -> None:
    shelf: dict[str, list[RegistryEntry]] = {}
    for model, version, needs in rows:
        known = shelf.setdefault(package_name(model), [])
        if str(version) not in {one.version for one in known}:
            known.append(entry(model, str(version), tuple(f"{package_name(name)}{text}" for name, text in needs)))
    wanted = [Requirement.parse("a"), Requirement.parse("b>=2")]
    reader = Shelf(shelf)
    try:
        answer = resolve(reader, wanted)  # type: ignore[arg-type]
    except RegistryError:
        with pytest.raises(RegistryError):
            resolve(reader, wanted[::-1])  # type: ignore[arg-type]
        return
    chosen = {one.name: one for one in answer.entries}
    texts = [str(one) for one in wanted] + [text for one in chosen.values() for text in one.dependencies]
    for requirement in map(Requirement.parse, texts):
        assert requirement.specifier.contains(chosen[requirement.package].order)
    assert resolve(reader, wanted[::-1]) == answer  # type: ignore[arg-type]
