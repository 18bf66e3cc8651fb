"""One version for every architecture: trees are added to it, and who uses it gets the one for its machine."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.commands import run_command
from tests.registry.conftest import Package, package_of
from tests.registry.signing import make_signed, open_signed
from tests.registry.tiny import tiny_files
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.documents import read_json, write
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.registry import promotion
from tfaot_pkg.registry.audit import audit, collect
from tfaot_pkg.registry.channels import Channels
from tfaot_pkg.registry.dependencies.install import install_locked, install_requirements, lock_of, locked_registry
from tfaot_pkg.registry.dependencies.lock import Lock
from tfaot_pkg.registry.dependencies.resolution import Constraints, resolve
from tfaot_pkg.registry.entry import RegistryEntry, parse_index
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.history import history
from tfaot_pkg.registry.reader import Requirement

INDEX = "index/di/gi/tfaot-model-digits"
pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the cross compiler is that of x86-64")
Make = Callable[..., Package]


@pytest.fixture
def make(tmp_path: Path, require_program: Callable[[str], str]) -> Make:
    """`make("1.0", "aarch64")`: a package with real libraries of that architecture."""
    require_program("aarch64-linux-gnu-gcc")

    def package(version: str, machine: str, model: str = "digits", **fields: Any) -> Package:
        cross = {"compiler": "aarch64-linux-gnu-gcc", "target": "aarch64"} if machine == "aarch64" else {}
        targets = ("aarch64",) if machine == "aarch64" else ("x86-64-v2", "x86-64-v3")
        return package_of(
            tmp_path, model, version, tiny_files(model, version, **cross), **{"targets": targets, **fields}
        )

    return package


@pytest.fixture(params=["unsigned", "signed"])
def registry(request: pytest.FixtureRequest, tmp_path: Path, make: Make) -> FolderRegistry:
    """A version for x86-64, and then for aarch64."""
    made = make_signed(tmp_path) if request.param == "signed" else FolderRegistry.create(tmp_path / "registry")
    publish(made, make("1.0", "x86_64"))
    publish(made, make("1.0", "aarch64"))
    return made


def publish(registry: FolderRegistry, package: Package) -> str:
    return registry.publish(package.entry, package.blobs).status


def chosen(registry: FolderRegistry, machine: str, text: str = "digits") -> RegistryEntry:
    constraints = Constraints.parse(architecture=machine)
    return resolve(registry, [Requirement.parse(text)], constraints).entry("tfaot-model-digits")


def locked(registry: FolderRegistry, machine: str) -> Lock:
    wanted = [Requirement.parse("digits")]
    resolution = resolve(registry, wanted, Constraints().used_on(machine))
    return lock_of(resolution, wanted, Constraints(), locked_registry(registry, location="here"))


def machine_of(prefix: Path) -> int:
    """The ELF number of the architecture of what is installed there."""
    return int.from_bytes((prefix / "lib/libtfaot-model-digits.so").read_bytes()[18:20], "little")


def test_a_version_has_a_tree_for_each_architecture(registry: FolderRegistry, tmp_path: Path) -> None:
    for machine in ("x86_64", "aarch64"):
        assert chosen(registry, machine).architecture == machine
        (done,) = install_requirements(
            registry, [Requirement.parse("digits")], tmp_path / machine, Constraints.parse(architecture=machine)
        )
        assert (done.version, done.entry.architecture) == ("1.0", machine)
        assert machine_of(tmp_path / machine) == {"x86_64": 62, "aarch64": 183}[machine]
    entry = registry.resolve("digits")
    assert [one.architecture for one in entry.trees] == ["x86_64", "aarch64"]


def test_a_machine_never_gets_a_package_for_another_one(registry: FolderRegistry, make: Make) -> None:
    publish(registry, make("2.0", "aarch64"))
    assert chosen(registry, "x86_64").version == "1.0"
    assert chosen(registry, "aarch64").version == "2.0"
    assert registry.resolve("digits", architecture="x86_64").version == "1.0"
    # A target says for which architecture.
    found = resolve(registry, [Requirement.parse("digits")], Constraints.parse(("aarch64",)).used_on("x86_64"))
    assert found.entry("tfaot-model-digits").version == "2.0"
    with reported(RegistryError):
        chosen(registry, "x86_64", "digits@2.0")
    with reported(RegistryError):
        registry.resolve("digits@2.0", architecture="x86_64")
    with reported(RegistryError):
        Constraints.parse(architecture="sparc")


def test_the_first_line_stays_as_it_was_and_older_tools_see_it_alone(registry: FolderRegistry, make: Make) -> None:
    publish(registry, make("1.1+tf2.17.1.b1", "x86_64"))
    before = registry.index.read(INDEX)
    publish(registry, make("1.1+tf2.17.1.b1", "aarch64"))
    after = registry.index.read(INDEX)
    assert before is not None and after is not None and after.startswith(before)
    lines = [json.loads(line) for line in after.splitlines()]
    assert [(line["v"], line["version"], line.get("of")) for line in lines] == [
        (1, "1.0", None),
        (2, "1.0+aarch64", "1.0"),
        (1, "1.1+tf2.17.1.b1", None),
        (2, "1.1+tf2.17.1.b1.aarch64", "1.1+tf2.17.1.b1"),
    ]
    # A tool that knows lines of the first form only skips the others, and knows that it does (gc refuses then).
    assert [line.version for line in parse_index(after, "file", "tfaot-model-digits")] == ["1.0", "1.1+tf2.17.1.b1"]


def test_the_same_again_does_nothing_and_other_content_is_refused(registry: FolderRegistry, make: Make) -> None:
    before = registry.index.read(INDEX)
    assert publish(registry, make("1.0", "aarch64")) == "already published"
    assert registry.index.read(INDEX) == before
    for other in ({"license": "MIT"}, {"description": "other"}):
        with reported(RegistryError):
            publish(registry, make("1.0", "aarch64", **other, key="0" * 64))


def test_another_model_is_no_further_tree(tmp_path: Path, make: Make) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, make("1.0", "x86_64"))
    with reported(RegistryError):
        publish(registry, make("1.0", "aarch64", license="MIT"))
    registry.yank("digits", "1.0", "wrong")
    with reported(RegistryError):
        publish(registry, make("1.0", "aarch64"))


def test_a_yank_is_of_every_architecture(registry: FolderRegistry) -> None:
    registry.yank("digits", "1.0", "wrong")
    for machine in ("x86_64", "aarch64"):
        with pytest.raises(RegistryError):
            chosen(registry, machine)
        assert chosen(registry, machine, "digits@1.0").yanked == "wrong"
    registry.unyank("digits", "1.0")
    assert chosen(registry, "aarch64").yanked is None


def test_verify_and_gc_know_every_tree(tmp_path: Path, make: Make) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make("1.0", "x86_64"))
    publish(registry, make("1.0", "aarch64"))
    assert collect(registry, grace=timedelta(0)).size >= 0
    entry = open_signed(tmp_path).resolve("digits")
    assert audit(open_signed(tmp_path), Silent()).blobs == len(entry.trees) == 2
    blob = registry.blob_file(entry.others[0].blobs["prefix"])
    assert blob.exists()
    blob.write_bytes(b"something else")
    assert audit(open_signed(tmp_path), Silent()).faults != []


def test_one_lock_file_serves_every_machine(registry: FolderRegistry, tmp_path: Path) -> None:
    lock = locked(registry, "x86_64")
    assert lock.to_bytes() == locked(registry, "aarch64").to_bytes()
    assert Lock.parse(lock.to_bytes(), "file") == lock
    for machine in ("x86_64", "aarch64"):
        (done,) = install_locked(registry, lock, tmp_path / machine, machine=machine)
        assert done.entry.architecture == machine


def test_what_was_locked_before_a_tree_was_added_goes_on(tmp_path: Path, make: Make) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, make("1.0", "x86_64"))
    lock = locked(registry, "x86_64")
    assert b"others" not in lock.to_bytes() and b"architecture" not in lock.to_bytes()
    with reported(RegistryError):
        install_locked(registry, lock, tmp_path / "arm", machine="aarch64")
    publish(registry, make("1.0", "aarch64"))
    (done,) = install_locked(registry, lock, tmp_path / "x86", machine="x86_64")
    assert done.entry.architecture == "x86_64"
    with reported(RegistryError):
        install_locked(registry, lock, tmp_path / "arm", machine="aarch64")


def test_a_mirror_cannot_exchange_the_trees(tmp_path: Path, make: Make) -> None:
    """Of an unsigned registry: the lock file names what was there."""
    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, make("1.0", "x86_64"))
    publish(registry, make("1.0", "aarch64"))
    lock = locked(registry, "x86_64")
    file = registry.root / INDEX
    lines = [read_json(line) for line in file.read_bytes().splitlines()]
    other = make("1.0", "aarch64", key="1" * 64)
    lines[1]["tree"] = "1" * 64
    file.write_bytes(b"".join(map(write, lines)))
    with reported(TrustError):
        install_locked(registry, lock, tmp_path / "arm", machine="aarch64")
    # Two lines of one tree, or one that does not say what it is, are damage.
    for damaged in ([*lines, lines[1]], [lines[0], {**lines[1], "version": "1.0+sparc"}]):
        file.write_bytes(b"".join(map(write, damaged)))
        with reported(RegistryError):
            registry.entries("digits")
    assert other.entry.architecture == "aarch64"


def test_a_tree_that_was_added_is_in_a_channel_once_it_is_promoted(tmp_path: Path, make: Make) -> None:
    registry = make_signed(tmp_path)
    publish(registry, make("1.0", "x86_64"))
    publish(registry, make("1.0", "aarch64"))
    publish(registry, make("2.0", "x86_64"))
    promotion.set_channels(registry, Channels())
    publish(registry, make("2.0", "aarch64"))
    assert (chosen(registry, "x86_64").version, chosen(registry, "aarch64").version) == ("2.0", "1.0")
    assert promotion.with_something_new(registry, "candidate", "") == (("tfaot-model-digits",), ())
    promotion.promote(registry, ["digits"], "candidate")
    promotion.promote(registry, ["digits"])
    assert (chosen(registry, "x86_64").version, chosen(registry, "aarch64").version) == ("2.0", "2.0")
    told = [(one.do, one.reason) for one in history(registry, "digits")]
    assert told[3:] == [
        ("begin", "channels were set up"),
        ("publish", "for aarch64"),
        ("promote", ""),
        ("promote", ""),
    ]


@pytest.mark.parametrize("when", ["2020-01-02T00:00:00Z", ""])
def test_a_tree_that_was_added_is_due_after_its_own_nights(tmp_path: Path, make: Make, when: str) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")
    for machine, published in (("x86_64", "2020-01-01T00:00:00Z"), ("aarch64", when)):
        package = make("1.0", machine)
        publish(registry, replace(package, entry=replace(package.entry, published=published)))
        if machine == "x86_64":
            promotion.set_channels(registry, Channels.of(nights={"candidate": 1}))
            registry = FolderRegistry.open(registry.root)
    done, waiting = promotion.promote_due(registry)
    assert ([one.after for one in done], [one.wait for one in waiting]) == (
        (["1.0"], []) if when else ([], ["0 of 1 nights in nightly"])
    )


def test_show_and_install_choose_the_same_for_this_machine(tmp_path: Path, make: Make, tfaot_home: Path) -> None:
    def tool(*words: str | Path, code: int = 0) -> CompletedProcess[str]:
        done = run_command(words, cwd=tmp_path)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    registry = FolderRegistry.create(tmp_path / "registry")
    publish(registry, make("1.0", "x86_64"))
    publish(registry, make("1.0", "aarch64"))
    publish(registry, make("2.0", "aarch64"))
    publish(registry, make("1.0", "aarch64", model="taus"))
    place = ("--registry", registry.root, "--json")
    shown = json.loads(tool("show", "digits", *place).stdout)
    assert (shown["version"], shown["architectures"]) == ("1.0", ["x86_64", "aarch64"])
    assert json.loads(tool("show", "digits", "--arch", "aarch64", *place).stdout)["version"] == "2.0"
    # There is nothing for this machine: it is shown all the same, and not installed.
    assert json.loads(tool("show", "taus", *place).stdout)["targets"] == ["aarch64"]
    tool("install", "taus", *place, code=16)
    for words, version in (((), "1.0"), (("--arch", "aarch64"), "2.0"), (("--target", "aarch64"), "2.0")):
        done = json.loads(tool("install", "digits", *words, "--prefix", tmp_path / version, *place).stdout)
        assert done["packages"][0]["version"] == version
    tool("install", "digits", "--arch", "sparc", *place, code=16)
    tool("resolve", "digits@1.0", *place)
    for machine in ("x86_64", "aarch64"):
        tool("install", "--locked", "--arch", machine, "--prefix", tmp_path / machine, "--json")
        assert machine_of(tmp_path / machine) == {"x86_64": 62, "aarch64": 183}[machine]
