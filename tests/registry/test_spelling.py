"""Registries, lock files and prefixes that were made when packages kept the `_` of their model's name.

`old_spelling/` was made by the last version that did: jet_tagger 1.0 and 2.0, and events 1.0, which depends on it.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.registry.conftest import MakePackage, install
from tests.registry.signing import make_signed
from tests.wording import reported
from tfaot_pkg.catalogue.render import render, update
from tfaot_pkg.errors import RegistryError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.package.name import is_package_name, model_of, package_meant_by, spellings
from tfaot_pkg.package.prefix.install import uninstall
from tfaot_pkg.package.prefix.manifest import read_prefix, verify_install
from tfaot_pkg.registry.audit import audit, collect, parse_period
from tfaot_pkg.registry.dependencies.install import install_locked, install_requirements, lock_of, locked_registry
from tfaot_pkg.registry.dependencies.lock import Lock, changes
from tfaot_pkg.registry.dependencies.lock import update as update_lock
from tfaot_pkg.registry.dependencies.resolution import Constraints, resolve
from tfaot_pkg.registry.entry import Deprecation
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.reader import Requirement

OLD = Path(__file__).parent / "old_spelling"
NEW_NAME, OLD_NAME = "tfaot-model-jet-tagger", "tfaot-model-jet_tagger"
NAMES = ("jet_tagger", "jet-tagger", NEW_NAME, OLD_NAME)
FILE, OLD_FILE = f"index/je/t-/{NEW_NAME}", f"index/je/t_/{OLD_NAME}"


@pytest.fixture(params=["unsigned", "signed"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> FolderRegistry:
    """A copy of the old registry; signed, its files are the targets that the old version signed."""
    if request.param == "unsigned":
        shutil.copytree(OLD / "registry", tmp_path / "registry")
        return FolderRegistry.open(tmp_path / "registry")
    made = make_signed(tmp_path)
    shutil.copytree(OLD / "registry" / "blobs", made.root / "blobs", dirs_exist_ok=True)
    files = [
        path for folder in ("index", "search") for path in (OLD / "registry" / folder).rglob("*") if path.is_file()
    ]
    with made.writing() as commit:
        commit.apply({path.relative_to(OLD / "registry").as_posix(): path.read_bytes() for path in files})
    return made


@pytest.fixture(scope="module")
def old_prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the old version installed. Read only.

    Not everything that carries a repository carries links: a link may be a file that holds its target here.
    """
    prefix = Path(shutil.copytree(OLD / "prefix", tmp_path_factory.mktemp("old") / "prefix", symlinks=True))
    for path in prefix.glob("lib/*.so.*"):
        if not path.is_symlink():
            target = path.read_text()
            path.unlink()
            path.symlink_to(target)
    return prefix


def publish(registry: FolderRegistry, make_package: MakePackage, version: str) -> None:
    package = make_package("jet_tagger", version, description="Tags jets")
    registry.publish(package.entry, package.blobs)


@pytest.mark.parametrize("name", NAMES)
def test_each_spelling_names_the_same_package(name: str) -> None:
    assert package_meant_by(name) == NEW_NAME
    assert model_of(package_meant_by(name)) == "jet_tagger"
    assert spellings(name if name.startswith("tfaot-model-") else NEW_NAME) == (NEW_NAME, OLD_NAME)


def test_names_without_an_underscore_have_one_spelling() -> None:
    assert spellings("tfaot-model-digits") == ("tfaot-model-digits",)
    assert is_package_name(NEW_NAME) and is_package_name(OLD_NAME)
    assert not is_package_name("tfaot-model-a-b_c")  # neither spelling ever gave such a name


@pytest.mark.parametrize("name", NAMES)
def test_an_old_registry_resolves_under_each_name(name: str, old: FolderRegistry) -> None:
    assert old.resolve(name).version == "2.0"
    assert old.resolve(f"{name}<2").name == OLD_NAME
    assert [entry.version for entry in old.entries(name)] == ["1.0", "2.0"]


def test_an_old_registry_lists_and_finds_todays_names(old: FolderRegistry) -> None:
    assert old.names() == ("tfaot-model-events", NEW_NAME)
    for words in ("jet_tagger", "jet-tagger", OLD_NAME, "tags"):
        assert [str(one) for one in old.search(words).found] == [f"{NEW_NAME}@2.0"]
    assert audit(old, Silent()).faults == audit(old, Silent()).notes == []


def test_a_new_version_joins_those_of_the_former_spelling(old: FolderRegistry, make_package: MakePackage) -> None:
    publish(old, make_package, "3.0")
    assert [(one.name, one.version) for one in old.entries("jet_tagger")] == [
        (OLD_NAME, "1.0"), (OLD_NAME, "2.0"), (NEW_NAME, "3.0"),
    ]  # fmt: skip
    assert old.names() == ("tfaot-model-events", NEW_NAME)
    assert [str(one) for one in old.search("jet").found] == [f"{NEW_NAME}@3.0"]
    found = audit(old, Silent())
    assert (found.faults, found.notes, found.packages, found.versions) == ([], [], 2, 4)
    collect(old, grace=parse_period("0s"))
    assert audit(old, Silent()).faults == []


def test_tools_that_know_the_former_spelling_alone_go_on_seeing_its_versions(
    old: FolderRegistry, make_package: MakePackage
) -> None:
    before = old.index_file_of(OLD_NAME)
    publish(old, make_package, "3.0")
    assert old.index_file_of(OLD_NAME) == before
    old.yank("jet-tagger", "1.0", "wrong")
    old.deprecate("jet_tagger", Deprecation(reason="aged"))
    former = old.index_file_of(OLD_NAME)
    assert [entry.yanked for entry in former.entries] == ["wrong", None]
    assert former.deprecation == old.deprecation(NEW_NAME) == Deprecation(reason="aged")
    old.deprecate("jet_tagger", None)
    assert old.index_file_of(OLD_NAME).deprecation is None
    assert audit(old, Silent()).faults == audit(old, Silent()).notes == []


def test_what_an_older_tool_adds_is_seen_after_the_next_publication(
    old: FolderRegistry, make_package: MakePackage
) -> None:
    publish(old, make_package, "3.0")
    later = replace(old.resolve("jet_tagger@2.0"), version="2.5")
    with old.writing() as commit:
        before = old.index_file_of(OLD_NAME)
        commit.apply({OLD_FILE: before.with_entry(later).to_bytes()})
    assert "differ" in audit(old, Silent()).notes[0]
    publish(old, make_package, "4.0")
    assert [one.version for one in old.entries("jet_tagger")] == ["1.0", "2.0", "2.5", "3.0", "4.0"]
    assert audit(old, Silent()).notes == []


def test_no_version_is_published_twice_under_two_spellings(old: FolderRegistry, make_package: MakePackage) -> None:
    with reported(RegistryError):
        publish(old, make_package, "2.0")
    package = make_package("jet_tagger", "3.0", name=OLD_NAME)
    with reported(RegistryError):
        old.publish(package.entry, package.blobs)
    assert [one.version for one in old.entries("jet_tagger")] == ["1.0", "2.0"]


def test_publishing_an_old_version_again_changes_nothing(old: FolderRegistry) -> None:
    with old.writing() as commit:
        assert commit.read(FILE) is None
    before = old.index_file_of(OLD_NAME)
    old.unyank("jet_tagger", "1.0")
    assert old.index_file_of(OLD_NAME) == before


def contents(prefix: Path) -> dict[str, bytes | str]:
    """What packages brought. The shared headers are the tool's own, whatever a package holds (decision 033)."""
    files = {
        path.relative_to(prefix).as_posix(): path
        for path in prefix.rglob("*")
        if not path.name.startswith(".") and (path.is_symlink() or path.is_file())
    }
    return {
        name: str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for name, path in files.items()
        if not name.startswith(("include/tfaot/", "share/tfaot/"))
    }


@pytest.mark.slow
def test_an_old_lock_file_installs_the_same_bytes(
    old: FolderRegistry, old_prefix: Path, make_package: MakePackage, tmp_path: Path
) -> None:
    lock = Lock.read(OLD / "tfaot.lock")
    assert lock.versions == {NEW_NAME: "1.0", "tfaot-model-events": "1.0"}
    for number, names in enumerate([(), ("events",), ("events", "jet-tagger"), (OLD_NAME, "events")]):
        install_locked(old, lock, tmp_path / str(number), names)
        assert contents(tmp_path / str(number)) == contents(old_prefix)
    publish(old, make_package, "3.0")
    install_locked(old, lock, tmp_path / "later")
    assert contents(tmp_path / "later") == contents(old_prefix)


def test_an_old_lock_file_is_updated_to_new_versions(old: FolderRegistry, make_package: MakePackage) -> None:
    lock = replace(
        Lock.read(OLD / "tfaot.lock"), requirements=(Requirement.parse("events"), Requirement.parse(OLD_NAME))
    )
    publish(old, make_package, "3.0")
    for names in ((), ("jet_tagger",), (OLD_NAME,)):
        answer = update_lock(old, lock, names)
        new = lock_of(answer, lock.requirements, Constraints(), locked_registry(old, location="./registry"))
        assert [str(one) for one in changes(lock, new)] == [f"{NEW_NAME}: 1.0 -> 3.0"]
        assert Lock.parse(new.to_bytes(), "x").versions == new.versions


def test_dependencies_in_the_former_spelling_are_the_same_package(
    old: FolderRegistry, make_package: MakePackage, tmp_path: Path
) -> None:
    publish(old, make_package, "3.0")
    wanted = [Requirement.parse("events"), Requirement.parse("jet-tagger>=3")]
    assert [str(one) for one in resolve(old, wanted).entries] == [
        "tfaot-model-jet-tagger@3.0",
        "tfaot-model-events@1.0",
    ]
    install_requirements(old, wanted, tmp_path / "p")
    assert read_prefix(tmp_path / "p").packages() == ["tfaot-model-events", NEW_NAME]


def test_the_new_package_takes_the_place_of_the_old_one_in_a_prefix(
    old: FolderRegistry, old_prefix: Path, make_package: MakePackage, tmp_path: Path
) -> None:
    prefix = tmp_path / "prefix"
    shutil.copytree(old_prefix, prefix, symlinks=True)
    publish(old, make_package, "3.0")
    done = install(old, "jet_tagger", prefix)
    assert (done.status, done.previous, done.version) == ("replaced", "1.0", "3.0")
    assert read_prefix(prefix).packages() == ["tfaot-model-events", NEW_NAME]
    assert not [path for path in prefix.rglob("*") if "jet_tagger" in path.name]
    assert verify_install(prefix).ok
    assert install(old, OLD_NAME, prefix).status == "unchanged"
    # And back.
    assert install(old, "jet_tagger@1.0", prefix).status == "replaced"
    assert contents(prefix) == contents(old_prefix)


@pytest.mark.parametrize("name", NAMES)
def test_a_package_is_removed_under_each_name(name: str, old_prefix: Path, tmp_path: Path) -> None:
    prefix = tmp_path / "prefix"
    shutil.copytree(old_prefix, prefix, symlinks=True)
    uninstall(name, prefix)
    uninstall("events", prefix)
    assert contents(prefix) == {}


def test_two_copies_that_an_older_tool_made_become_one(
    old: FolderRegistry, old_prefix: Path, make_package: MakePackage, tmp_path: Path
) -> None:
    prefix = tmp_path / "prefix"
    publish(old, make_package, "3.0")
    install(old, "jet_tagger", prefix)
    shutil.copytree(old_prefix, prefix, symlinks=True, dirs_exist_ok=True)
    assert set(read_prefix(prefix).packages()) == {"tfaot-model-events", NEW_NAME, OLD_NAME}
    assert install(old, "jet_tagger", prefix).status == "repaired"
    assert set(read_prefix(prefix).packages()) == {"tfaot-model-events", NEW_NAME}
    assert verify_install(prefix).ok


def test_old_pages_of_the_catalogue_lead_to_the_new_ones(
    old: FolderRegistry, make_package: MakePackage, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    render(old, site)
    moved = (site / "packages" / OLD_NAME / "index.html").read_text()
    assert f"url=../../packages/{NEW_NAME}/index.html" in moved
    assert (site / "packages" / NEW_NAME / "index.html").is_file()
    publish(old, make_package, "3.0")
    update(old, site, OLD_NAME)
    assert "3.0" in (site / "packages" / NEW_NAME / "index.html").read_text()
    assert (site / "packages" / OLD_NAME / "index.html").is_file()
