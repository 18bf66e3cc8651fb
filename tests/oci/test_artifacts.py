"""Image layouts, tags, and whom an installation trusts: without a server."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any

import pytest

from tests.oci.conftest import SignedRegistry
from tests.registry.conftest import package_of
from tests.registry.tiny import tiny_files
from tests.wording import reported
from tfaot_pkg.errors import RegistryError, TrustError
from tfaot_pkg.ground.progress import Silent
from tfaot_pkg.ground.settings import Folders
from tfaot_pkg.registry.dependencies.install import install_entries
from tfaot_pkg.registry.folder import FolderRegistry
from tfaot_pkg.registry.oci.layout import LayoutStore
from tfaot_pkg.registry.oci.pulled import Trusting, opened
from tfaot_pkg.registry.oci.pushing import Pushed, push
from tfaot_pkg.registry.oci.reference import Reference, tag_of

MACHINE = platform.machine()


def write(registry: FolderRegistry, what: str, layout: Path, **options: Any) -> Pushed:
    with LayoutStore.open(layout) as store:
        return push(registry, what, store, progress=Silent(), **options)


def install(text: str, prefix: Path, trusting: Trusting, machine: str = MACHINE) -> str:
    with opened(text, Folders.of_user(), trusting=trusting, machine=machine, progress=Silent()) as package:
        (done,) = install_entries(package, [package.entry], prefix)
    return done.version


def test_the_same_package_has_the_same_bytes(signed: SignedRegistry, tmp_path: Path) -> None:
    first, second = (write(signed.registry, "digits", tmp_path / name) for name in ("one", "two"))
    assert first == second and first.uploaded and not first.before
    one, two = ({p.name: p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()} for n in ("one", "two"))
    assert one == two and {"oci-layout", "index.json"} <= one.keys()
    assert write(signed.registry, "digits", tmp_path / "one").uploaded == 0
    signed.registry.yank("digits", "1.0", "wrong")
    assert write(signed.registry, "digits@1.0", tmp_path / "one").digest == first.digest


def test_an_installation_says_whom_it_trusts(signed: SignedRegistry, tmp_path: Path) -> None:
    done = write(signed.registry, "digits", tmp_path / "layout")
    (other,) = (tmp_path / "signed" / "keys").glob("snapshot*.pub")
    layout, prefix = f"oci:{tmp_path / 'layout'}", tmp_path / "prefix"
    for wrong in (Trusting(), Trusting(keys=(other,)), Trusting(keys=(signed.key, other))):
        with reported(TrustError):
            install(layout, prefix, wrong)
    with reported(TrustError):
        install(f"{layout}@{done.digest}", prefix, Trusting(keys=(other,)))
    assert not prefix.exists()
    for number, (text, trusting) in enumerate([
        (layout, Trusting(keys=(signed.key,))),
        (f"{layout}:1.0", Trusting(unsigned=True)),
        (f"{layout}@{done.digest}", Trusting()),
    ]):  # fmt: skip
        assert install(text, tmp_path / f"prefix {number}", trusting) == "1.0"


def test_what_was_changed_in_a_layout_is_not_installed(signed: SignedRegistry, tmp_path: Path) -> None:
    done = write(signed.registry, "digits", tmp_path / "layout")
    trusting = Trusting(keys=(signed.key,))
    for blob in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        whole = blob.read_bytes()
        if b'"subject"' in whole or whole in (b"{}", b'{"bomFormat":"CycloneDX"}') or b"cyclonedx" in whole:
            continue  # what is read by others alone
        blob.write_bytes(whole[:-2] + bytes([whole[-2] ^ 1]) + whole[-1:])
        with pytest.raises((TrustError, RegistryError)):
            install(f"oci:{tmp_path / 'layout'}@{done.digest}", tmp_path / "prefix", trusting)
        blob.write_bytes(whole)
    assert not (tmp_path / "prefix").exists()
    assert install(f"oci:{tmp_path / 'layout'}", tmp_path / "prefix", trusting) == "1.0"


def test_a_tag_of_a_version_stays_unless_it_is_named(tmp_path: Path) -> None:
    assert tag_of("1.2+tf2.17.1.b10") == "1.2_tf2.17.1.b10" and tag_of("1!2.0") == "1_2.0"
    with reported(RegistryError):
        tag_of("1" * 129)
    registries = []
    for name, target in [("a", "x86-64-v2"), ("b", "x86-64-v3")]:
        registries.append(FolderRegistry.create(tmp_path / name))
        package = package_of(tmp_path, "digits", "1.0+b1", tiny_files("digits", "1.0+b1"), targets=(target,))
        registries[-1].publish(package.entry, package.blobs)
    first = write(registries[0], "digits", tmp_path / "layout")
    assert first.tag == "1.0_b1"
    with reported(RegistryError):
        write(registries[1], "digits", tmp_path / "layout")
    assert write(registries[1], "digits", tmp_path / "layout", tag="1.0_b1").before == first.digest


@pytest.mark.skipif(MACHINE != "x86_64", reason="the cross compiler is that of x86-64")
def test_each_machine_takes_its_own_tree(tmp_path: Path) -> None:
    registry = FolderRegistry.create(tmp_path / "registry")

    def publish(target: str, compiler: str) -> Pushed:
        files = tiny_files("digits", "1.0", compiler=compiler, target=target)
        package = package_of(tmp_path, "digits", "1.0", files, targets=(target,))
        registry.publish(package.entry, package.blobs)
        return write(registry, "digits@1.0", tmp_path / "layout")

    first = publish("x86-64-v2", "gcc")
    both = publish("aarch64", "aarch64-linux-gnu-gcc")
    assert both.before == first.digest, "architectures may be added to a version"
    index = json.loads((tmp_path / "layout" / "blobs" / "sha256" / both.digest[7:]).read_text())
    assert [one["platform"]["architecture"] for one in index["manifests"]] == ["arm64", "amd64"]
    for machine, number in [("x86_64", 62), ("aarch64", 183)]:
        install(f"oci:{tmp_path / 'layout'}", tmp_path / machine, Trusting(unsigned=True), machine)
        library = tmp_path / machine / "lib" / "libtfaot-model-digits.so"
        assert int.from_bytes(library.read_bytes()[18:20], "little") == number


def test_addresses_are_read_strictly() -> None:
    reference = Reference.parse("oci://Registry.example.org:5000/ada/digits:1.0")
    assert (reference.host, reference.repository, reference.tag) == ("registry.example.org:5000", "ada/digits", "1.0")
    assert reference.address.url == "https://registry.example.org:5000/"
    assert Reference.parse("127.0.0.1:5000/digits").address.url == "http://127.0.0.1:5000/"
    for wrong in (
        "ada:secret@example.org/digits",
        "example.org",
        "example.org/../digits",
        "example.org/Digits",
        "example.org/digits:",
    ):
        with reported(RegistryError) as error:
            Reference.parse(wrong)
        assert "secret" not in str(error.value)
